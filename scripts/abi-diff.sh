#!/usr/bin/env bash
# Compares the ABI of two libraries with libabigail's abidiff, restricted to declarations of the public headers.
#   abi-diff.sh BEFORE AFTER     each a shared library, or a git revision, which is built in its own worktree
#   abi-diff.sh REVISION         compares that revision with the working tree
# For libraries the public headers are those of the working tree, or of the folders in WEFT_HEADERS_BEFORE and
# WEFT_HEADERS_AFTER. Exit status: 0 no change, or additions only; 1 something could not be built or read; 2 usage;
# 4 changes, which may be incompatible; 8 incompatible changes; 77 abidiff is missing.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

fail() {
  echo "abi-diff: $*" >&2
  exit 1
}

usage() {
  sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
}

# shellcheck disable=SC2317 # the trap calls it
clean() {
  local tree
  for tree in "$work"/*/source; do
    if [ -e "$tree/.git" ]; then git -C "$root" worktree remove --force "$tree"; fi
  done
  rm -rf "$work"
}

# build SOURCE DIRECTORY: builds only the shared library, with the debug information that abidiff reads
build() {
  { cmake -G Ninja -S "$1" -B "$2" -DCMAKE_BUILD_TYPE=Debug -DWEFT_TESTS=OFF -DWEFT_CUDA=OFF &&
    cmake --build "$2" --target weft_shared -j "$(nproc)"; } >"$2.log" 2>&1 || fail "$1: $(tail -n 20 "$2.log")"
}

# prepare before|after WHAT HEADERS: sets library[] and headers[] of that side
prepare() {
  local source=$work/$1/source
  mkdir -p "$work/$1"
  if [ -f "$2" ]; then
    library[$1]=$2
    headers[$1]=${3:-$root/include/weft}
    return
  fi
  if [ "$2" = "$root" ]; then
    source=$root
  else
    git -C "$root" rev-parse --verify --quiet "$2^{commit}" >/dev/null || fail "$2 is neither a file nor a revision"
    git -C "$root" worktree add --quiet --detach "$source" "$2"
  fi
  build "$source" "$work/$1/build"
  library[$1]=$(readlink -f "$(find "$work/$1/build" -name libweft.so | head -n 1)")
  headers[$1]=$source/include/weft
}

case $# in
  1) before=$1 after=$root ;;
  2) before=$1 after=$2 ;;
  *) usage ;;
esac
[[ $before != -* ]] || usage
if ! command -v abidiff >/dev/null; then
  echo "abi-diff: abidiff is missing: install libabigail's tools (package abigail-tools)" >&2
  exit 77
fi

declare -A library headers
work=$(mktemp -d)
trap clean EXIT
prepare before "$before" "${WEFT_HEADERS_BEFORE:-}"
prepare after "$after" "${WEFT_HEADERS_AFTER:-}"
status=0
abidiff --headers-dir1 "${headers[before]}" --headers-dir2 "${headers[after]}" "${library[before]}" \
  "${library[after]}" || status=$?
# Bits of abidiff's status: 1 error, 2 usage, 4 a change, 8 an incompatible one. Added functions count as a change, too.
if [ $((status & 3)) -ne 0 ]; then fail "abidiff could not compare the libraries"; fi
if [ "$status" -eq 4 ] && abidiff --no-added-syms --headers-dir1 "${headers[before]}" \
  --headers-dir2 "${headers[after]}" "${library[before]}" "${library[after]}" >/dev/null; then
  status=0
fi
if [ "$status" -eq 0 ]; then echo "abi-diff: compatible"; fi
if [ "$status" -ge 8 ]; then exit 8; fi
exit "$status"
