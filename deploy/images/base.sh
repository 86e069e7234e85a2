#!/usr/bin/env bash
# Makes a base image of Debian's packages, without a registry: deploy/images/base.sh RELEASE FILE [MIRROR]
# FILE becomes a tar of the root, for `podman import FILE localhost/debian:12`; an existing FILE is kept. The script
# needs root and debootstrap, and runs for about a minute.
set -euo pipefail

[ $# -ge 2 ] || { echo "usage: $0 RELEASE FILE [MIRROR], as in $0 bookworm debian-12.tar" >&2 && exit 2; }
release=$1 file=$2 mirror=${3:-http://deb.debian.org/debian}
if [ -e "$file" ]; then exit; fi

fail() {
  echo "base.sh: $*" >&2
  exit 3
}

[ "$(id -u)" -eq 0 ] || fail "debootstrap takes root"
command -v debootstrap >/dev/null || fail "no debootstrap here: install it"
mkdir -p "$(dirname "$file")"
making=$(mktemp -d "$file.XXXXXX")
trap 'rm -rf "$making"' EXIT
# dpkg in the new root need not wait for the disk: an incomplete root is never used.
debootstrap --variant=minbase "$release" "$making/root" "$mirror" >"$making/log" 2>&1 ||
  fail "debootstrap made no root of $release: $(tail -n 3 "$making/log")"
rm -rf "$making"/root/var/cache/apt/archives/*.deb "$making"/root/var/lib/apt/lists/*
tar -C "$making/root" --exclude ./dev/\* -cf "$making/tar" .
mv "$making/tar" "$file" # complete, or not at all
