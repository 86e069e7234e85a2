#!/usr/bin/env bash
# Builds the reference of the public headers into a folder of its own. Doxygen fails on a warning, and it warns of every
# declaration without a comment; so that this check can fail, a header with such a declaration has to be refused.
set -euo pipefail

if ! command -v doxygen >/dev/null; then
  echo "skipped: Doxygen is missing (package doxygen)"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# build NAME SOURCE: the reference of the headers in SOURCE/include/weft
build() {
  mkdir "$work/$1"
  sed "s|@PROJECT_VERSION@|test|; s|@WEFT_DOCS_SOURCE@|$2|; s|@WEFT_DOCS_OUTPUT@|$work/$1|" \
    "$WEFT_SOURCE/docs/Doxyfile.in" >"$work/$1/Doxyfile"
  doxygen "$work/$1/Doxyfile" >"$work/$1/log" 2>&1
}

build good "$WEFT_SOURCE" || { cat "$work/good/log" && exit 1; }
[ -f "$work/good/html/index.html" ] || { echo "Doxygen wrote no index.html" && exit 1; }

mkdir -p "$work/source"
cp -r "$WEFT_SOURCE/include" "$work/source"
echo 'int weft_undocumented(void);' >>"$work/source/include/weft/store.h"
if build bad "$work/source"; then echo "a declaration without a comment is not refused" && exit 1; fi
grep -q 'weft_undocumented.* is not documented' "$work/bad/log" || { cat "$work/bad/log" && exit 1; }
echo "the reference builds without a warning"
