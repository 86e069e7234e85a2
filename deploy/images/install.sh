#!/bin/sh
# Installs in an image, from the context that build.sh made:
#   install.sh runtime PLUGIN...   the tool, the library, these plug-ins, and the user 65532 that runs them
#   install.sh build               what Weft is built from
#   install.sh dev                 all packages of Weft, git and gdb
set -eu

here=$(dirname "$0")
export DEBIAN_FRONTEND=noninteractive
# An image that was begun and not ended is never used: dpkg need not wait for the disk. Debian's own images say so, too.
echo force-unsafe-io >/etc/dpkg/dpkg.cfg.d/docker-apt-speedup

# The package's file in the context; nothing where it is not there.
package() {
  find "$here/packages" -name "$1_*.deb" 2>/dev/null
}

install_packages() {
  apt-get -qq update
  apt-get -qq -o Dpkg::Use-Pty=0 install -y --no-install-recommends "$@" >/tmp/install.log 2>&1 ||
    { cat /tmp/install.log && exit 1; }
  rm /tmp/install.log
}

# Debian's drivers of RDMA devices come as ibverbs-providers.
install_runtime() {
  files=
  for name in weft libweft0 "$@"; do
    file=$(package "$name")
    [ -n "$file" ] || { echo "install.sh: no package $name in the context" >&2 && exit 3; }
    files="$files $file"
  done
  # shellcheck disable=SC2086 # a word each
  install_packages ca-certificates ibverbs-providers $files
  groupadd --gid 65532 weft
  useradd -K UID_MAX=65535 --uid 65532 --gid 65532 --no-create-home --home-dir /work --shell /bin/bash weft
  install -d -m 1777 /work # for any user: a cluster may choose one
}

case $1 in
  runtime)
    shift
    for plugin; do
      set -- "$@" "libweft0-plugin-$plugin"
      shift
    done
    install_runtime "$@"
    ;;
  build) apt-get -qq update && "$here/scripts/install-deps.sh" --build ;;
  dev)
    install_packages git gdb-minimal ca-certificates "$here"/packages/*.deb
    ;;
esac
# What differs from one making to the next.
apt-get clean
rm -rf /var/lib/apt/lists/* /var/log/* /var/cache/ldconfig/* /var/cache/debconf/*-old /var/lib/dpkg/*-old /tmp/*
