#!/usr/bin/env bash
# scripts/abi-diff.sh finds no change between a library and itself, and refuses a library that lacks a function.
set -euo pipefail

if ! command -v abidiff >/dev/null; then
  echo "skipped: abidiff is missing (package abigail-tools)"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/include"
printf 'int first(int value);\nint second(int value);\n' >"$work/include/both.h"
printf '#include "both.h"\nint first(int value) { return value; }\n' >"$work/less.c"
{ cat "$work/less.c" && echo 'int second(int value) { return -value; }'; } >"$work/more.c"
for name in less more; do
  "${CC:-cc}" -g -shared -fPIC -I "$work/include" -o "$work/$name.so" "$work/$name.c"
done
export WEFT_HEADERS_BEFORE=$work/include WEFT_HEADERS_AFTER=$work/include

# check STATUS BEFORE AFTER
check() {
  local status=0
  "$WEFT_SOURCE/scripts/abi-diff.sh" "$work/$2.so" "$work/$3.so" >"$work/log" 2>&1 || status=$?
  [ "$status" -eq "$1" ] || { echo "$2 and $3: status $status, not $1: $(cat "$work/log")" && exit 1; }
}

check 0 more more
check 0 less more
check 8 more less
echo "an added function is compatible, a removed one is not"
