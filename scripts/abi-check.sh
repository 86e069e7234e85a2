#!/usr/bin/env bash
# Compares the interface that the public headers declare with the interface of the last release in abi/libweft-0.abi:
#   abi-check.sh           prints the changes; additions are compatible
#   abi-check.sh --write   writes the headers' interface to that file
# WEFT_HEADERS names another folder of headers. It only compiles a library of empty functions, which takes a second:
# the compiler checks the real definitions against the headers, and the test install_symbols checks the library's names.
# Exit status: 0 no change, or additions only; 1 something could not be built or read; 2 usage; 4 changes, which may be
# incompatible; 8 incompatible changes; 77 a tool is missing.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
headers=${WEFT_HEADERS:-$root/include}
kept=${WEFT_ABI:-$root/abi/libweft-0.abi}

case "$*" in
  '' | --write) ;;
  *) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2 && exit 2 ;;
esac
for tool in abidw abidiff; do
  if ! command -v "$tool" >/dev/null; then
    echo "skipped: $tool is missing: install libabigail's tools (package abigail-tools)" >&2
    exit 77
  fi
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 "$root/scripts/stub-library.py" "$headers" >"$work/libweft.c"
(cd "$work" && "${CC:-cc}" -g -O0 -w -shared -fPIC -I "$headers" -Wl,--version-script="$root/cmake/weft.map" \
  -Wl,-soname,libweft.so.0 -o libweft.so.0 libweft.c)
options=(--no-architecture --no-corpus-path --no-comp-dir-path
  --no-show-locs --no-elf-needed --no-parameter-names --no-write-default-sizes)
if [ "${1:-}" = --write ]; then
  mkdir -p "$(dirname "$kept")"
  abidw "${options[@]}" --type-id-style hash "$work/libweft.so.0" >"$kept"
  echo "abi-check: wrote $kept"
  exit 0
fi
[ -f "$kept" ] || { echo "abi-check: $kept is missing: abi-check.sh --write makes it" >&2 && exit 1; }

status=0
compare=(abidiff --no-architecture "$kept" "$work/libweft.so.0")
"${compare[@]}" || status=$?
# Bits of abidiff's status: 1 error, 2 usage, 4 a change, 8 an incompatible one. Added functions count as a change, too.
if [ $((status & 3)) -ne 0 ]; then
  echo "abi-check: abidiff could not compare the interfaces" >&2
  exit 1
fi
if [ "$status" -eq 4 ] && "${compare[@]}" --no-added-syms >/dev/null; then status=0; fi
if [ "$status" -eq 0 ]; then echo "abi-check: compatible with $(basename "$kept")"; fi
if [ "$status" -ge 8 ]; then exit 8; fi
if [ "$status" -eq 4 ]; then
  echo "abi-check: a field at the end of a struct that can grow is compatible, all else is not; then --write" >&2
fi
exit "$status"
