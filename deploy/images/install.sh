#!/bin/sh
# Installs in an image, from the context that build.sh made:
#   install.sh runtime PLUGIN...   the tool, the library, these plug-ins, and the user 65532 that runs them
#   install.sh build               the packages that Weft is built from
#   install.sh dev                 all packages of Weft, git and gdb
set -eu

here=$(dirname "$0")
export DEBIAN_FRONTEND=noninteractive
# An incomplete image is never used, so dpkg need not wait for the disk. Debian's own images have this setting, too.
echo force-unsafe-io >/etc/dpkg/dpkg.cfg.d/docker-apt-speedup

# The package's file in the context; nothing if it is missing.
package() {
  find "$here/packages" -name "$1_*.deb" 2>/dev/null
}

install_packages() {
  apt-get -qq update
  apt-get -qq -o Dpkg::Use-Pty=0 install -y --no-install-recommends "$@" >/tmp/install.log 2>&1 ||
    { cat /tmp/install.log && exit 1; }
  rm /tmp/install.log
}

# Debian's drivers of RDMA devices are in ibverbs-providers.
install_runtime() {
  files=
  for name in weft libweft0 "$@"; do
    file=$(package "$name")
    [ -n "$file" ] || { echo "install.sh: no package $name in the context" >&2 && exit 3; }
    files="$files $file"
  done
  # shellcheck disable=SC2086 # one word for each package
  install_packages ca-certificates ibverbs-providers $files
  groupadd --gid 65532 weft
  useradd -K UID_MAX=65535 --uid 65532 --gid 65532 --no-create-home --home-dir /work --shell /bin/bash weft
  install -d -m 1777 /work # any user may write: a cluster may choose the user
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
# Removes files that differ from build to build.
apt-get clean
rm -rf /var/lib/apt/lists/* /var/log/* /var/cache/ldconfig/* /var/cache/debconf/*-old /var/lib/dpkg/*-old /tmp/*
