#!/usr/bin/env bash
# Copies a source tree to a folder in such a way that a build in the last copy continues in the new one:
#   scripts/copy-tree.sh TREE COPY
# The copy has the files that git tracks or would add, and the folder build of the copy that it replaces. A file with
# the same bytes keeps the time that it had in the older copy. Other files get the time of the copying, because their
# own time can be earlier than that of an object which was compiled from the older copy.
set -euo pipefail

[ $# -eq 2 ] || { echo "usage: $0 TREE COPY" >&2 && exit 2; }
tree=$1 copy=$2 new=$2.new

# Leaves out files that git tracks but that were removed.
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
