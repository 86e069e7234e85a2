"""The bytes of an agent's metadata: Weft's own metadata, sealed with the token, and data that only NIXL's calls need.

All numbers are little-endian: ``WEFTNIXL``, u32 flags (1: all regions, 2: addresses of the transports), u32 number of
regions, u32 number of addresses, their ids (u64 each), the name and the addresses (u16 length and text each), and then
Weft's own metadata, which has a checksum of its own (docs/design/agent.md).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from .status import nixlMismatchError

_MAGIC = b"WEFTNIXL"
_HEAD = struct.Struct("<8sIII")
_MOST_REGIONS, _MOST_ADDRESSES = 131072, 64


@dataclass
class Document:
    """The metadata of an agent."""

    name: str
    everything: bool
    """whether all of its regions are in it"""
    connects: bool
    """whether the addresses of its transports are in it"""
    regions: list[int]
    addresses: list[str]
    """the addresses at which it listens"""
    blob: bytes
    """Weft's metadata"""

    def written(self) -> bytes:
        """The document as bytes."""
        texts = b"".join(struct.pack("<H", len(one)) + one
                         for one in (text.encode() for text in (self.name, *self.addresses)))
        flags = self.everything | self.connects << 1
        return (_HEAD.pack(_MAGIC, flags, len(self.regions), len(self.addresses))
                + struct.pack(f"<{len(self.regions)}Q", *self.regions) + texts + self.blob)


def read_document(data: bytes) -> Document:
    """Reads a document from bytes. `nixlMismatchError`: they are not an agent's metadata."""
    try:
        data = bytes(memoryview(data))
    except TypeError:
        raise TypeError(f"metadata: bytes are wanted, not {type(data).__name__}") from None
    if not data.startswith(_MAGIC):
        raise nixlMismatchError(f"these {len(data)} bytes are not the metadata of an agent of Weft: they begin with "
                                f"{data[:8]!r}, not with {_MAGIC!r}")
    try:
        _, flags, regions, addresses = _HEAD.unpack_from(data)
        if regions > _MOST_REGIONS or addresses > _MOST_ADDRESSES:
            raise nixlMismatchError(f"damaged metadata: {regions} regions and {addresses} addresses")
        ids = list(struct.unpack_from(f"<{regions}Q", data, _HEAD.size))
        at = _HEAD.size + 8 * regions
        texts = []
        for _ in range(1 + addresses):
            (size,) = struct.unpack_from("<H", data, at)
            if at + 2 + size > len(data):
                raise nixlMismatchError(f"damaged metadata: it ends within a text, after {len(data)} bytes")
            texts.append(data[at + 2 : at + 2 + size].decode())
            at += 2 + size
    except (struct.error, UnicodeDecodeError) as error:
        raise nixlMismatchError(f"damaged metadata: {error}") from error
    return Document(texts[0], bool(flags & 1), bool(flags & 2), ids, texts[1:], data[at:])
