#!/usr/bin/env bash
# Every public header compiles alone, twice in one file, and without a warning: headers.sh c|cxx
set -euo pipefail

case "${1:-}" in
  c) compiler=("${CC:-cc}" -std=c17 -x c) ;;
  cxx) compiler=("${CXX:-c++}" -std=c++17 -x c++) ;;
  *) echo "usage: $0 c|cxx" >&2 && exit 2 ;;
esac
if ! command -v "${compiler[0]}" >/dev/null; then
  echo "skipped: no compiler ${compiler[0]}"
  exit 77
fi

failed=0
count=0
for path in "$WEFT_SOURCE"/include/weft/*.h; do
  header="weft/$(basename "$path")"
  count=$((count + 1))
  printf '#include <%s>\n#include <%s>\n' "$header" "$header" |
    "${compiler[@]}" -Wall -Wextra -pedantic -Werror -fsyntax-only -I "$WEFT_SOURCE/include" - ||
    { echo "$header does not compile alone with ${compiler[*]}" >&2 && failed=1; }
done
[ "$count" -gt 0 ] || { echo "no headers in $WEFT_SOURCE/include/weft" >&2 && exit 1; }
echo "$count headers"
exit "$failed"
