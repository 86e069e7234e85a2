#!/usr/bin/env bash
# Makes a folder the copy of a source tree, from which a build goes on where the last copy's stood:
#   scripts/copy-tree.sh TREE COPY
# The copy has the files that git would take, and the folder build of the copy that it replaces. A file keeps the time
# that it had there if its bytes are the same, and otherwise gets the time of the copying: its own time can be before
# that of an object which was compiled later from the older copy.
set -euo pipefail

[ $# -eq 2 ] || { echo "usage: $0 TREE COPY" >&2 && exit 2; }
tree=$1 copy=$2 new=$2.new

# What git knows and somebody has removed is left out.
list_files() {
  git -C "$tree" ls-files -z --cached --others --exclude-standard --deduplicate |
    while IFS= read -r -d '' file; do
      if [ -e "$tree/$file" ]; then printf '%s\0' "$file"; fi
    done
}

keep_times() {
  while IFS= read -r -d '' file; do
    if cmp -s "$copy/$file" "$new/$file"; then touch -r "$copy/$file" "$new/$file"; fi
  done
}

rm -rf "$new"
mkdir -p "$new" "$copy"
list_files | tar -C "$tree" --null --no-recursion -T - -cf - | tar -C "$new" -xmf -
list_files | keep_times
if [ -d "$copy/build" ]; then mv "$copy/build" "$new/build"; fi
rm -rf "$copy"
mv "$new" "$copy"
