#!/usr/bin/env bash
# Every public header compiles alone, twice in one file, and without a warning, by every gcc and clang that is here, in
# each standard: headers.sh c|cxx
set -euo pipefail

case "${1:-}" in
  c) own=${CC:-cc} families='gcc|clang' standards=(c11 c17 c23) ;;
  cxx) own=${CXX:-c++} families='g\+\+|clang\+\+' standards=(c++11 c++14 c++17 c++20 c++23) ;;
  *) echo "usage: $0 c|cxx" >&2 && exit 2 ;;
esac
language=${1/cxx/c++}
# What compilers call a standard that is not yet out.
declare -A early=([c23]=c2x [c++23]=c++2b)

# compile COMPILER STANDARD: what stands on standard input
compile() {
  "$1" "-std=$2" -x "$language" -Wall -Wextra -pedantic -Werror -fsyntax-only -I "$WEFT_SOURCE/include" -
}

# Prints the name by which a compiler knows a standard; fails where it does not.
name_of() {
  local name
  for name in "$2" ${early[$2]:-}; do
    if compile "$1" "$name" <<<'int probe;' 2>/dev/null; then echo "$name" && return; fi
  done
  return 1
}

# The compilers, each once, whatever names it has.
declare -A compilers=()
while IFS= read -r name; do
  if path=$(command -v "$name"); then compilers[$("$path" --version | head -n 1 | sed 's/^[^ ]* *//')]=$path; fi
done < <(echo "$own" && compgen -c | grep -xE "($families)(-[0-9]+)?" | sort -u)
if [ ${#compilers[@]} -eq 0 ]; then
  echo "skipped: no compiler $own"
  exit 77
fi

failed=0
# check COMPILER STANDARD NAME: all headers
check() {
  local path header
  for path in "$WEFT_SOURCE"/include/weft/*.h; do
    header="weft/$(basename "$path")"
    printf '#include <%s>\n#include <%s>\n' "$header" "$header" | compile "$1" "$3" ||
      { echo "$header does not compile alone with $1 -std=$3" >&2 && failed=1; }
  done
}

asked=0
for version in "${!compilers[@]}"; do
  compiler=${compilers[$version]}
  if ! compile "$compiler" "${standards[0]}" <<<'#include <stdint.h>' 2>/dev/null; then
    echo "skipped: $compiler, $version: the headers of its C library are not here"
    continue
  fi
  asked=$((asked + 1))
  checked=()
  for standard in "${standards[@]}"; do
    if name=$(name_of "$compiler" "$standard"); then
      check "$compiler" "$standard" "$name"
      checked+=("$name")
    elif [ -z "${early[$standard]:-}" ]; then
      echo "$compiler does not know $standard" >&2 && failed=1
    fi
  done
  echo "$compiler, $version: ${checked[*]}"
done
if [ $asked -eq 0 ]; then exit 77; fi
exit "$failed"
