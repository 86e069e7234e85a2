#!/bin/sh
# Writes /usr/share/weft/sbom.spdx in the image: every package that dpkg lists there, with its version, licence file and
# purl, as an SPDX 2.3 document (tag and value). Its time is SOURCE_DATE_EPOCH: the same packages give the same file.
set -eu

file=/usr/share/weft/sbom.spdx
mkdir -p "$(dirname $file)"
# shellcheck disable=SC1091 # the image's
. /etc/os-release
{
  cat <<END
SPDXVersion: SPDX-2.3
DataLicense: CC0-1.0
SPDXID: SPDXRef-DOCUMENT
DocumentName: weft-image
DocumentNamespace: https://weft.invalid/spdx/$(dpkg-query -W | sha256sum | cut -c 1-32)
Creator: Tool: dpkg-query-$(dpkg-query -W -f '${Version}' dpkg)
Created: $(date -u -d "@${SOURCE_DATE_EPOCH:-0}" +%Y-%m-%dT%H:%M:%SZ)
END
  # An identifier may only have letters, digits, "." and "-".
  dpkg-query -W -f '${Package} ${Version} ${Architecture} ${source:Package} ${source:Version}\n' | LC_ALL=C sort |
    while read -r package version architecture source source_version; do
      cat <<END

PackageName: $package
SPDXID: SPDXRef-$(echo "$package" | sed 's/[^A-Za-z0-9.-]/./g')
PackageVersion: $version
PackageSourceInfo: $source $source_version
PackageDownloadLocation: NOASSERTION
FilesAnalyzed: false
PackageLicenseConcluded: NOASSERTION
PackageLicenseDeclared: NOASSERTION
PackageCopyrightText: NOASSERTION
PackageComment: /usr/share/doc/$package/copyright
ExternalRef: PACKAGE-MANAGER purl pkg:deb/$ID/$package@$version?arch=$architecture&distro=$ID-$VERSION_ID
Relationship: SPDXRef-DOCUMENT DESCRIBES SPDXRef-$(echo "$package" | sed 's/[^A-Za-z0-9.-]/./g')
END
    done
} >$file
