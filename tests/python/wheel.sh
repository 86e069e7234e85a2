#!/usr/bin/env bash
# Installs a wheel of the package `weft` into a fresh virtual environment and runs the tests of python/ with it:
#   tests/python/wheel.sh [--libraries] WHEEL
# --libraries: gets with apt first what the wheel and the tests need of the system. So it goes in a bare root of another
# release, once there is one:
#   scripts/in-release.sh noble true
#   cp WHEEL "$(scripts/in-release.sh --where noble)/../root/"
#   scripts/in-release.sh noble tests/python/wheel.sh --libraries '/root/WHEEL'
# numpy and pytest come from PyPI. Exit status: that of the tests; 2 for wrong arguments.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# What the wheel is linked with. Releases with 64-bit times have other names for some, and provide these.
libraries=(libcurl4 libhwloc15 libjansson4 libmicrohttpd12 libssl3 liburing2 libyaml-0-2)

usage() {
  echo "usage: $0 [--libraries] WHEEL" >&2
  exit 2
}

get_libraries=no
if [ "${1:-}" = --libraries ]; then
  get_libraries=yes
  shift
fi
[ $# -eq 1 ] || usage
wheel=$1
[ -f "$wheel" ] || { echo "$0: there is no $wheel" >&2 && usage; }

if [ $get_libraries = yes ]; then
  apt-get -qq update
  apt-get -qq install -y --no-install-recommends ca-certificates python3 python3-venv "${libraries[@]}" >/dev/null
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install --quiet --disable-pip-version-check "$wheel" 'numpy>=1.22,<3' 'pytest>=8,<10'
cd "$scratch"
"$scratch/venv/bin/weft" --version
PYTHONDONTWRITEBYTECODE=1 "$scratch/venv/bin/python" -m pytest -q -p no:cacheprovider "$root/python/tests"
