#!/usr/bin/env bash
# Runs an elastic plan on a fresh Debian or Ubuntu: installs missing packages, builds, and runs four ranks that become
# eight. Further arguments go to `weft elastic`, e.g. ./quickstart.sh plans/expansion_fault_rejoin.json
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PATH=$root/build/tools/bin:$PATH
weft=$root/build/release/weft
log=$root/build/quickstart.log

usage="Usage: ./quickstart.sh [PLAN] [OPTION...]
Installs the packages that are missing, builds the tool, and runs 'weft elastic' with these arguments: without a plan
four ranks that become eight. './quickstart.sh && build/release/weft elastic --help' shows the options."

# A plan among the arguments replaces that of this script: the value of --plan or -p, or a first argument that is no
# option.
arguments=(elastic --plan "$root/plans/single_expansion.json" "$@")
case ${1-} in '' | -*) ;; *) arguments=(elastic "$@") ;; esac
for argument in "$@"; do
  case $argument in
  -h | --help)
    echo "$usage"
    exit 0
    ;;
  --plan | --plan=* | -p*) arguments=(elastic "$@") ;;
  esac
done

# A warning of a compiler that Weft was not tested with must not end a first try.
build() {
  cd "$root"
  cmake --preset release -DWEFT_WERROR=OFF
  targets=(weft)
  # If there is a GPU and a CUDA compiler, builds the plug-in too.
  if [ -e /dev/nvidiactl ] && grep -qs weft_cuda_plugin build/release/build.ninja; then
    targets+=(weft_cuda_plugin)
  fi
  cmake --build --preset release --target "${targets[@]}"
}

"$root/scripts/install-deps.sh" --build
mkdir -p "$root/build"
echo "Building $weft, for a minute or two; the output goes to $log"
if ! (build) >"$log" 2>&1; then
  tail -n 40 "$log" >&2
  echo "quickstart: the build failed; all of its output is in $log" >&2
  exit 3
fi

echo "Running weft ${arguments[*]}"
exec "$weft" "${arguments[@]}"
