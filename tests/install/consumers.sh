#!/usr/bin/env bash
# Installs a build into a prefix of its own, moves that, and builds and runs a consumer against it: from C and from C++,
# through pkg-config and through CMake, with the shared library and with the static one. consumers.sh BUILD_DIRECTORY
set -euo pipefail

build=$1
source=$WEFT_SOURCE/tests/install/consumer
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "$*" >&2
  exit 1
}

cmake --install "$build" --prefix "$work/first" >"$work/install.log" || fail "$(cat "$work/install.log")"
mv "$work/first" "$work/moved" # a path that was baked in would show now
prefix=$work/moved
for file in include/weft/weft.h share/weft/plans/single_expansion.json bin/weft; do
  [ -f "$prefix/$file" ] || fail "$file is not in the installation"
done
config=$(find "$prefix" -name weft.pc)
[ -f "$config" ] || fail "weft.pc is not in the installation"
libdir=$(dirname "$(dirname "$config")")
version=$(PKG_CONFIG_PATH=$(dirname "$config") pkg-config --modversion weft)

# run PROGRAM shared|static: it works, says the version that was installed, and is linked as it should be.
run() {
  local said
  said=$(LD_LIBRARY_PATH=$libdir "$1") || fail "$1 failed"
  [ "$said" = "weft $version" ] || fail "$1 says '$said', not 'weft $version'"
  if readelf -d "$1" | grep -q 'NEEDED.*libweft\.so\.0\]'; then
    [ "$2" = shared ] || fail "$1 should not need libweft.so.0"
  else
    [ "$2" = static ] || fail "$1 should need libweft.so.0"
  fi
  echo "$(basename "$1") ($2): $said"
}

export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$config")
warnings=(-Wall -Wextra -pedantic -Werror)
for language in c cxx; do
  if [ "$language" = c ]; then compiler=("${CC:-cc}" -std=c11 -x c); else compiler=("${CXX:-c++}" -std=c++11 -x c++); fi
  command -v "${compiler[0]}" >/dev/null || fail "no compiler ${compiler[0]}"
  read -ra cflags <<<"$(pkg-config --cflags weft)"
  read -ra shared <<<"$(pkg-config --libs weft)"
  read -ra static <<<"$(pkg-config --libs --static weft)"
  "${compiler[@]}" "${warnings[@]}" "${cflags[@]}" "$source/consumer.c" -x none -o "$work/pc_${language}_shared" \
    "${shared[@]}"
  "${compiler[@]}" "${warnings[@]}" "${cflags[@]}" "$source/consumer.c" -x none -o "$work/pc_${language}_static" \
    "${static[@]/#-lweft/-l:libweft.a}"
  run "$work/pc_${language}_shared" shared
  run "$work/pc_${language}_static" static
done

through_cmake() {
  cmake -G Ninja -S "$source" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release &&
    cmake --build "$work/cmake"
}
through_cmake >"$work/cmake.log" 2>&1 || fail "$(cat "$work/cmake.log")"
for language in c cxx; do
  run "$work/cmake/${language}_weft" shared
  run "$work/cmake/${language}_static" static
done
