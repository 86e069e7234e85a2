#!/bin/sh
# Removes files that a container of Weft never uses: apt, tools for file systems and users, Perl, manuals, translations.
# Runs in the image, after the installation. Afterwards dpkg's list names the packages that are left.
set -eu

# In this order, since scripts of the first packages need the last ones. The packages for AMD's GPUs come with UCX in
# Debian 13, which works without them.
unused="adduser e2fsprogs logsave libext2fs2 libss2 mount util-linux-extra passwd login init-system-helpers
  sysvinit-utils ncurses-bin tzdata bsdutils libfdisk1 apt debian-archive-keyring gpgv libapt-pkg6.0 libapt-pkg7.0
  libamdhip64-5 libamd-comgr2 libllvm17t64 libz3-4 libhsa-runtime64-1 libhsakmt1 debconf libdebconfclient0
  perl-base mawk"

for package in $unused; do
  if [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ]; then
    dpkg --purge --force-remove-essential --force-remove-protected --force-depends "$package" >/tmp/slim.log 2>&1 ||
      { cat /tmp/slim.log && exit 1; }
  fi
done
rm -f /tmp/slim.log

# No program may run as another user than the one that starts it.
find / -xdev -type f -perm /6000 -exec chmod a-s {} +

# Licences are kept.
find /usr/share/doc -depth -type f ! -name copyright -delete
find /usr/share/doc -depth -type d -empty -delete
rm -rf /usr/share/man /usr/share/info /usr/share/locale /usr/share/i18n /usr/share/zoneinfo /usr/share/bash-completion \
  /usr/share/zsh /usr/share/fish /usr/share/lintian /usr/share/bug /usr/share/debconf /usr/share/perl5 \
  /usr/lib/*/perl* /var/cache/* /var/lib/apt /etc/apt /var/log/* /var/lib/dpkg/*-old
