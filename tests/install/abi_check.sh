#!/usr/bin/env bash
# The public headers have the interface that abi/ keeps; and scripts/abi-check.sh accepts an added function, tells of a
# field that moved, and refuses headers that lack a function.
set -euo pipefail

check=$WEFT_SOURCE/scripts/abi-check.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# expect STATUS HEADERS
expect() {
  local status=0
  WEFT_HEADERS=$2 "$check" >"$work/log" 2>&1 || status=$?
  if [ "$status" -eq 77 ]; then cat "$work/log" && exit 77; fi
  [ "$status" -eq "$1" ] || { echo "$2: status $status, not $1: $(cat "$work/log")" && exit 1; }
}

# copy NAME: the headers, to be changed
copy() {
  mkdir "$work/$1"
  cp -r "$WEFT_SOURCE/include/weft" "$work/$1"
}

expect 0 "$WEFT_SOURCE/include"
copy added
sed -i 's/^WEFT_API const char \*weft_version(void);/&\nWEFT_API int weft_more(int value);/' "$work/added/weft/weft.h"
expect 0 "$work/added"
copy moved
sed -i 's/^struct weft_store_kv {/&\n  uint64_t first;/' "$work/moved/weft/store.h"
expect 4 "$work/moved"
copy removed
sed -i '/^WEFT_API const char \*weft_version(void);/d' "$work/removed/weft/weft.h"
expect 8 "$work/removed"
echo "the headers declare the interface that is kept, and a change of it is seen"
