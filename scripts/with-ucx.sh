#!/usr/bin/env bash
# Runs a command with another UCX than this machine's, from PyPI's wheel libucx-cu12, which needs no CUDA:
#   scripts/with-ucx.sh VERSION [COMMAND [ARGUMENT...]]   e.g. scripts/with-ucx.sh 1.18.1 ctest --preset release -R ucx
# VERSION is a version of the wheel, from 1.14.1.post2 to 1.22.0. The first use installs it to build/tools/ucx, where it
# is kept; without a command the script only does this. WEFT_TEST_KEPT_UCX=1: does not fetch a version that is missing.
# Exit status: the command's; 77, with the reason, if that version is not available; 2 for wrong arguments.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

[ $# -ge 1 ] || { echo "usage: $0 VERSION [COMMAND [ARGUMENT...]]" >&2 && exit 2; }
version=$1
shift
if ! [[ $version =~ ^[0-9]+(\.[0-9]+)+(\.post[0-9]+)?$ ]]; then
  echo "with-ucx: '$version' is no version: want one such as 1.18.1" >&2
  exit 2
fi
place=$root/build/tools/ucx/$version

skip() {
  echo "with-ucx: skipped: $*"
  exit 77
}

# It is made next to its final place and then moved there, so that an incomplete one is never used.
install_wheel() {
  [ -z "${WEFT_TEST_KEPT_UCX:-}" ] || skip "UCX $version is not in build/tools: scripts/with-ucx.sh $version fetches it"
  mkdir -p "$root/build/tools/ucx"
  local making python=$root/build/tools/bin/python
  [ -x "$python" ] || python=python3
  making=$(mktemp -d "$root/build/tools/ucx/making.XXXXXX")
  if ! "$python" -m pip install --quiet --disable-pip-version-check --no-input --retries 1 --timeout 10 \
    --root-user-action=ignore --no-deps --target "$making" "libucx-cu12==$version"; then
    rm -rf "$making"
    skip "pip cannot install libucx-cu12==$version"
  fi
  chmod 755 "$making"
  mv -T "$making" "$place" 2>/dev/null || rm -rf "$making" # another process was faster
}

[ -e "$place/libucx/lib/libucp.so.0" ] || install_wheel
if [ $# -eq 0 ]; then exit 0; fi
export LD_LIBRARY_PATH=$place/libucx/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
exec "$@"
