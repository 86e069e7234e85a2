#!/usr/bin/env bash
# Installs what Weft needs and this machine lacks, with apt: install-deps.sh [--build|--test]
# --build (the default): what the library and the tool are built from; --test: what the tests need as well.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cmake_wanted=3.25

# How to see that it is there, and the package that brings it.
build_needs="
file /usr/include/stdio.h   libc6-dev
command cc                  gcc
command cmake               cmake
command ninja               ninja-build
command pkg-config          pkg-config
library jansson             libjansson-dev
library libcurl             libcurl4-openssl-dev
library libmicrohttpd       libmicrohttpd-dev
library hwloc               libhwloc-dev
"
# What adds to a build and is not required: where it cannot be had, what it adds is left out.
build_wanted="
library liburing            liburing-dev
library libcrypto           libssl-dev
library ucx                 libucx-dev
library libfabric           libfabric-dev
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

# Sets `missing` to the packages of the needs on standard input that are not there.
find_missing() {
  local kind name package
  missing=()
  while read -r kind name package; do
    [ -z "$kind" ] || is_there "$kind" "$name" || missing+=("$package")
  done
}

# Runs as root what needs root.
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

# Package by package, since one that is not to be had keeps apt from installing the others.
install_wanted() {
  find_missing <<<"$build_wanted"
  local package
  for package in "${missing[@]}"; do
    missing=("$package")
    (install_packages) || echo "install-deps: no $package: Weft is built without what it adds" >&2
  done
}

# libFuzzer is one of clang's run-time libraries, which have a package of clang's version.
fuzzer_is_there() {
  find "$(clang -print-resource-dir)/lib" -name 'libclang_rt.fuzzer*.a' | grep -q .
}

# No error when there is none: the fuzz targets are left out then, and say so.
install_fuzzer() {
  missing=("libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev")
  if ! (install_packages); then
    echo "install-deps: this clang has no libFuzzer: the fuzz targets will be skipped" >&2
  fi
}

# Ubuntu 22.04 has an older cmake: a newer one then comes from PyPI, into build/tools, which the scripts put on PATH.
cmake_is_new_enough() {
  local have
  have=$(cmake --version | sed -n '1s/.* \([0-9]\)/\1/p')
  [ "$(printf '%s\n' "$cmake_wanted" "$have" | sort -V | head -n 1)" = "$cmake_wanted" ]
}

install_newer_cmake() {
  if ! install_from_pypi "cmake>=$cmake_wanted,<4"; then
    fail "no cmake $cmake_wanted or newer: install one from https://cmake.org/download/"
  fi
}

# install_from_pypi REQUIREMENT: into build/tools
install_from_pypi() {
  local tools=$root/build/tools
  echo "Installing $1 into $tools"
  missing=(python3-venv)
  if ! python3 -c 'import ensurepip' 2>/dev/null; then install_packages; fi
  python3 -m venv "$tools" && "$tools/bin/python" -m pip install --quiet "$1"
}

# The S3 server of the tests: OpenStack Swift, which has served objects in production for years and speaks S3, installs
# from PyPI in seconds and starts in one. The others that are as real come neither by apt nor from PyPI, or want a
# cluster (radosgw).
install_swift() {
  if "$root/build/tools/bin/python" -c 'import swift' 2>/dev/null; then return; fi
  if ! (install_from_pypi 'swift>=2.35,<3'); then
    echo "install-deps: no Swift: the tests against a real S3 server will be skipped" >&2
  fi
}
# A UCX that is newer than the distribution's and built with CUDA: the tests run Weft's module with it, too.
install_newer_ucx() {
  if "$root/build/tools/bin/python" -c 'import libucx' 2>/dev/null; then return; fi
  if ! (install_from_pypi 'libucx-cu13>=1.22,<2'); then
    echo "install-deps: no newer UCX: the tests with one will be skipped" >&2
  fi
}

case "${1:---build}" in
  --build) needs=$build_needs ;;
  --test) needs=$build_needs$test_needs ;;
  *) echo "usage: $0 [--build|--test]" >&2 && exit 2 ;;
esac

PATH=$root/build/tools/bin:$PATH
find_missing <<<"$needs"
if [ ${#missing[@]} -gt 0 ]; then
  install_packages
  find_missing <<<"$needs"
  [ ${#missing[@]} -eq 0 ] || fail "installed, and still not found: ${missing[*]}"
fi
install_wanted
if [ "${1:-}" = --test ] && ! fuzzer_is_there; then install_fuzzer; fi
cmake_is_new_enough || install_newer_cmake
if [ "${1:-}" = --test ]; then
  install_swift
  install_newer_ucx
fi
