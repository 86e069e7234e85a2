#!/usr/bin/env bash
# Builds an image of Weft with podman or docker:
#   deploy/images/build.sh [OPTION...] runtime|cuda|dev
# runtime: the tool, the library and the plug-ins, for a user that is not root; cuda: with the plug-in for GPUs, too;
# dev: what programs and Weft itself are built with.
#   --base IMAGE      the Debian or Ubuntu image to begin from (debian:12); base.sh makes one without a registry
#   --packages DIR    Weft's packages, made on the same release by `cmake --build DIR/.. --target package`; without it,
#                     they are built from this source tree in a container of the base
#   --tag NAME        the image's name (localhost/weft:KIND)
#   --engine COMMAND  podman or docker (the first that is there)
#   --with ARGUMENTS  more arguments for the engine's `build`, such as "--network host"
# Exit status: 0; 2 for wrong arguments; 3 where something is missing; else the engine's.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)

fail() {
  echo "build.sh: ${*:2}" >&2
  exit "$1"
}

find_engine() {
  for engine in podman docker; do
    if command -v $engine >/dev/null; then return; fi
  done
  fail 3 "neither podman nor docker is here: install one, or name it by --engine"
}

base=debian:12 packages='' tag='' engine='' kind='' with=()
while [ $# -gt 0 ]; do
  case $1 in
    --base | --packages | --tag | --engine | --with)
      [ $# -ge 2 ] || fail 2 "$1 needs a value"
      case $1 in
        --base) base=$2 ;;
        --packages) packages=$2 ;;
        --tag) tag=$2 ;;
        --engine) engine=$2 ;;
        --with) read -ra with <<<"$2" ;;
      esac
      shift 2
      ;;
    runtime | cuda | dev)
      [ -z "$kind" ] || fail 2 "both $kind and $1 are given: want one image at a time"
      kind=$1
      shift
      ;;
    -h | --help) sed -n '2,/^set/{/^set/d; s/^# \{0,1\}//; p}' "${BASH_SOURCE[0]}" && exit ;;
    *) fail 2 "unknown argument '$1': want runtime, cuda or dev, and options as build.sh --help says" ;;
  esac
done
[ -n "$kind" ] || fail 2 "no image named: want runtime, cuda or dev"
[ -n "$engine" ] || find_engine
command -v "$engine" >/dev/null || fail 3 "no $engine here"
tag=${tag:-localhost/weft:$kind}
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT

# The time of the image's files is the time of the last commit, so that the same sources and packages give the same
# image.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || echo 0)}
revision=$(git -C "$root" rev-parse HEAD 2>/dev/null || echo unknown)
version=$(sed -n 's/^project(weft VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
export SOURCE_DATE_EPOCH

# build TARGET TAG: for docker, the options of podman that it lacks are left out.
build() {
  local more=() file=$context/Containerfile
  case $1 in
    builder | dev) file+=.dev ;;
  esac
  case $(basename "$engine") in
    podman) more=(--format docker --timestamp "$SOURCE_DATE_EPOCH") ;; # OCI's own format has no health check
  esac
  "$engine" build "${more[@]}" "${with[@]}" --target "$1" --build-arg "BASE=$base" --build-arg "VERSION=$version" \
    --build-arg "REVISION=$revision" --build-arg "SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH" --tag "$2" \
    --file "$file" "$context"
}

mkdir "$context/packages" "$context/scripts" # install-deps.sh looks at the folder above its own
cp "$here"/Containerfile* "$here"/*.sh "$context/"
cp "$root/scripts/install-deps.sh" "$context/scripts/"
if [ -z "$packages" ]; then
  build builder "localhost/weft:builder"
  "$engine" run --rm --network none --volume "$root:/source:ro" --volume "$context/packages:/packages" \
    localhost/weft:builder sh -c 'cmake -S /source -B /tmp/build -G Ninja -DCMAKE_BUILD_TYPE=Release \
      -DCMAKE_INSTALL_PREFIX=/usr -DWEFT_TESTS=OFF -DWEFT_BENCH=OFF && cmake --build /tmp/build &&
      cmake --build /tmp/build --target package && cp /tmp/build/packages/*.deb /packages/'
else
  compgen -G "$packages/*.deb" >/dev/null || fail 3 "no packages in $packages: make them by the target package"
  cp "$packages"/*.deb "$context/packages/"
fi
plugins="topology ucx ofi"
if [ "$kind" = cuda ]; then plugins+=" cuda"; fi
with+=(--build-arg "PLUGINS=$plugins")
build "$kind" "$tag"
