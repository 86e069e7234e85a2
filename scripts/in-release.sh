#!/usr/bin/env bash
# Runs a command in a bare root of another Debian or Ubuntu release, in a copy of this source tree:
#   scripts/in-release.sh RELEASE COMMAND [ARGUMENT...]     e.g. scripts/in-release.sh trixie ./test.sh
#   scripts/in-release.sh --where RELEASE                   prints the path of that copy outside the root
# RELEASE is trixie, testing, jammy, ... debootstrap makes the root at the first run. The root is kept with its packages
# and builds in $WEFT_ROOTS (default: weft/roots in the user's cache folder); remove its folder to begin anew. The
# command has its own mounts and processes: afterwards nothing is mounted and nothing runs.
# RELEASE-arm64 is a root that can also have arm64's libraries. In it qemu-user runs arm64 programs like native ones:
# scripts/in-release.sh trixie-arm64 ./test.sh --stages arm64
# Exit status: the command's; 77, with the reason, if this is not possible here; 2 for wrong arguments.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

skip() {
  echo "in-release: skipped: $*"
  exit 77
}

[ $# -ge 2 ] || { echo "usage: $0 RELEASE COMMAND [ARGUMENT...], or $0 --where RELEASE" >&2 && exit 2; }
where=no
if [ "$1" = --where ]; then
  where=yes
  shift
fi
release=$1
shift
if ! [[ $release =~ ^[a-z]+(-arm64)?$ ]]; then
  echo "in-release: '$release' is no name of a release: want one such as trixie or trixie-arm64" >&2
  exit 2
fi

scripts=/usr/share/debootstrap/scripts
ubuntu_keys=/usr/share/keyrings/ubuntu-archive-keyring.gpg
roots=${WEFT_ROOTS:-${XDG_CACHE_HOME:-$HOME/.cache}/weft/roots}
place=$roots/$release
if [ $where = yes ]; then
  echo "$place/weft"
  exit
fi

# Prints the archive of this machine's own packages; nothing if it is not a Debian archive.
mirror() {
  # shellcheck disable=SC2016 # apt's own variable
  apt-get indextargets --format '$(REPO_URI)' "Created-By: Packages" | grep -m 1 -E '/debian/?$' || true
}

check() {
  [ "$(id -u)" -eq 0 ] || skip "a root of another release takes root"
  unshare --mount --pid --fork true 2>/dev/null || skip "this machine allows no namespaces of mounts and processes"
  command -v apt-get >/dev/null || skip "no apt-get here: other releases come by debootstrap"
}

install_debootstrap() {
  if command -v debootstrap >/dev/null; then return; fi
  env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends \
    debootstrap >/dev/null 2>&1 || skip "debootstrap cannot be installed"
}

# debootstrap knows Ubuntu's releases and their archive by name, but that of Debian 12 does not know noble.
is_ubuntu() {
  [ "${release%-arm64}" = noble ] || [ "$(readlink "$scripts/${release%-arm64}")" = gutsy ]
}

# Sets `options` and `archive`, for debootstrap.
choose_archive() {
  options=(--variant=minbase) archive=()
  if is_ubuntu; then
    [ -e "$ubuntu_keys" ] ||
      skip "$release is Ubuntu's: want $ubuntu_keys, of ubuntu-keyring (Ubuntu) or ubuntu-archive-keyring (Debian 13)"
    options+=("--components=main,universe")
    [ -e "$scripts/${release%-arm64}" ] || archive=(http://archive.ubuntu.com/ubuntu "$scripts/gutsy")
  else
    archive=("$(mirror)")
    [ -n "${archive[0]}" ] || skip "apt names no archive of Debian here"
  fi
}

# The root is made next to its final place and then moved there, so that an incomplete one is never used.
make_root() {
  if [ -e "$place/etc/debian_version" ]; then return; fi
  install_debootstrap
  local options archive
  choose_archive
  mkdir -p "$roots"
  local making log
  making=$(mktemp -d "$roots/$release.XXXXXX")
  log=$roots/$release.log
  echo "in-release: making a root of $release in $place"
  if ! unshare --mount --pid --fork --kill-child debootstrap "${options[@]}" "${release%-arm64}" "$making" \
    "${archive[@]}" >"$log" 2>&1; then
    tail -n 3 "$log"
    rm -rf "$making"
    skip "debootstrap made no root of $release"
  fi
  if [[ $release = *-arm64 ]]; then chroot "$making" dpkg --add-architecture arm64; fi
  chmod 755 "$making"
  mv "$making" "$place"
}

# Copies the settings that apt and pip need to reach their servers as on this machine.
copy_settings() {
  local bundle=${PIP_CERT:-/etc/ssl/certs/ca-certificates.crt}
  cp -L /etc/resolv.conf /etc/hosts "$place/etc/" 2>/dev/null || true
  if [ -e "$bundle" ]; then cp -L "$bundle" "$place/etc/host-certificates.crt"; fi
  if [ -e /etc/pip.conf ]; then grep -v '^cert' /etc/pip.conf >"$place/etc/pip.conf" || true; fi
  # A frozen archive, such as a snapshot, is still used after the date until which it declared itself valid.
  echo 'Acquire::Check-Valid-Until "false";' >"$place/etc/apt/apt.conf.d/90weft"
}

# Runs the command in a user namespace with all users of this machine. It has its own binfmt_misc list (interpreters
# of foreign programs), so that this machine's list stays unchanged.
in_own_users() {
  local map="0 0 4294967295"
  exec 8<> <(:) 9<> <(:) # two pipes: it waits for its user mapping, which only a process outside can write
  {
    read -r pid <&8
    echo "$map" >"/proc/$pid/uid_map" && echo "$map" >"/proc/$pid/gid_map" && echo there >&9
  } &
  # shellcheck disable=SC2016 # the inner shell's
  exec unshare --user /bin/bash -c 'echo $$ >&8
    if ! read -r -t 10 _ <&9; then echo "in-release: skipped: a namespace got no users" && exit 77; fi
    exec 8>&- 9>&-
    exec "$@"' bash "$@"
}

# Makes the kernel start arm64 programs by the root's qemu.
start_arm64_by_qemu() {
  local list=/proc/sys/fs/binfmt_misc
  local magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
  local mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
  mount -t binfmt_misc binfmt_misc "$list" 2>/dev/null ||
    skip "this kernel has no binfmt_misc for a namespace of users: it takes Linux 6.7"
  echo ":aarch64:M::$magic:$mask:/usr/bin/qemu-aarch64:POC" >"$list/register"
}

# Runs inside the namespaces.
enter() {
  if [[ $release = *-arm64 ]]; then start_arm64_by_qemu; fi
  mount -t proc proc "$place/proc"
  mount --rbind /sys "$place/sys"
  mount --rbind /dev "$place/dev"
  mount -t tmpfs -o mode=1777 tmpfs "$place/dev/shm"
  mount -t tmpfs -o mode=1777 tmpfs "$place/tmp"
  mount -t tmpfs -o mode=755 tmpfs "$place/run"
  exec chroot "$place" /usr/bin/env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    LANG=C.UTF-8 TERM="${TERM:-dumb}" PIP_CERT=/etc/host-certificates.crt DEBIAN_FRONTEND=noninteractive \
    "${passed[@]}" /bin/bash -c 'cd /weft && exec "$@"' bash "$@"
}

# Variables of Weft and pip that the command also gets.
passed=()
while IFS= read -r name; do
  passed+=("$name=${!name}")
done < <(compgen -e | grep -E '^(WEFT_TEST_|PIP_DEFAULT|PIP_INDEX)' || true)

if [ "${WEFT_IN_RELEASE:-}" = inside ]; then
  unset WEFT_IN_RELEASE
  enter "$@"
fi
check
mkdir -p "$roots"
exec 7>"$roots/$release.lock" # only one run at a time uses the copy of the tree
flock -n 7 || { echo "in-release: waiting for another run in the root of $release" && flock -w 3600 7; } ||
  skip "another run has had the root of $release for an hour: see who holds $roots/$release.lock"
make_root
copy_settings
"$root/scripts/copy-tree.sh" "$root" "$place/weft"
export WEFT_IN_RELEASE=inside
inside=(unshare --mount --pid --fork --kill-child "$0" "$release" "$@")
if [[ $release = *-arm64 ]]; then in_own_users "${inside[@]}"; fi
exec "${inside[@]}"
