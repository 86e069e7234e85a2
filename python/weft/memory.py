"""Registered memory: what transfers move bytes between.

`weft.Buffer` is any framework's array as an address: what has the buffer protocol (numpy, bytearray, mmap), DLPack
(torch, cupy, jax, tensorflow) or ``__cuda_array_interface__`` (cupy, numba, torch). Every call that takes an array
makes one by itself; making it once and passing it saves that time in a loop.

`Owners` tells whether arrays may be used again, since nobody has one of them any more.

bf16 comes through DLPack, or as numpy's ``uint16`` (``x.view(numpy.uint16)``), since numpy has no bf16 of its own; that
of ``ml_dtypes``, which jax gives to it, is one too.
"""

from __future__ import annotations

import enum
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from . import _weft
from ._common import U64, whole
from ._weft import Buffer, Owners
from .errors import BusyError

if TYPE_CHECKING:
    from .agent import Agent

__all__ = ["Buffer", "Kind", "MemoryStatus", "Owners", "Region", "RegionInfo"]


class Kind(enum.IntEnum):
    """What a region is."""

    HOST = 0
    """memory of this process"""
    CUDA = 1
    """memory of a GPU"""
    FILE = 2
    """a file"""
    OBJECT = 3
    """an object of an S3 store"""


class RegionInfo(NamedTuple):
    """What an agent knows of a region, its own or a peer's."""

    id: int
    """its id with its owner"""
    address: int
    """HOST, CUDA: first byte, in the owner's address space; else 0"""
    length: int
    """bytes; FILE, OBJECT: 0 for no limit"""
    kind: Kind
    """what it is"""
    device: int
    """CUDA: the GPU's index with its owner; -1: not known"""
    flags: int
    """bits of enum weft_memory_flag: 1 read-only, 2 in no metadata"""

    def descriptor(self, offset: int = 0, length: int | None = None) -> tuple[int, int, int]:
        """(address, length, region) of a part of it: from byte `offset` on, `length` bytes (None: the rest)."""
        first = whole("offset", offset, U64)
        rest = self.length - first if length is None else whole("length", length, U64)
        return self.address + first, rest, self.id


class MemoryStatus(NamedTuple):
    """What there is of memory, a file or an object."""

    there: bool
    """whether there is such memory, or such a file or object"""
    device: int
    """CUDA: index of its GPU; else -1"""
    length: int
    """bytes that there are"""
    region: int
    """the region that holds all of it; 0: none"""


class Region:
    """Memory, a file or an object that an agent has registered.

    The agent keeps the buffer alive until the region is closed or the agent is. Memory that the agent allocated is
    ``region.view()`` or ``numpy.frombuffer(region.allocated, ...)`` on the host, and ``region.allocated`` has
    ``__cuda_array_interface__`` on a GPU; the region cannot be closed, nor can the agent, while such a view of the
    host's memory is in use.
    """

    def __init__(self, agent: Agent, info: RegionInfo, memory: _weft.Memory | None = None) -> None:
        self._agent = agent
        self._memory = memory
        self.info = info
        """id, address, length and kind"""
        self.closed = False
        """whether it was deregistered"""

    @property
    def id(self) -> int:
        """Its id."""
        return self.info.id

    @property
    def address(self) -> int:
        """Its first byte; FILE, OBJECT: 0."""
        return self.info.address

    @property
    def length(self) -> int:
        """Its bytes."""
        return self.info.length

    def descriptor(self, offset: int = 0, length: int | None = None) -> tuple[int, int, int]:
        """(address, length, region) of a part of it: from byte `offset` on, `length` bytes (None: the rest)."""
        return self.info.descriptor(offset, length)

    def view(self) -> memoryview:
        """The bytes of host memory that the agent allocated. Release the view before the region is closed."""
        if self._memory is None:
            raise TypeError("the agent did not allocate this region: its memory is the array that was registered")
        return memoryview(self._memory)  # type: ignore[arg-type]

    @property
    def allocated(self) -> _weft.Memory | None:
        """What the agent allocated, for ``numpy.frombuffer`` or ``torch.as_tensor``; None for registered memory."""
        return self._memory

    def close(self) -> None:
        """Deregisters it; memory that the agent allocated is freed. `BusyError`: a list of the agent, or a view, uses
        it. A second time is no error. Where an exception ends a ``with``, such a region stays until the agent is
        closed."""
        if self.closed or self._agent.closed:
            self.closed = True
            return
        if self._memory is not None:
            self._memory.free()
        else:
            self._agent._handle.deregister(self.id)
        self.closed = True

    def __enter__(self) -> Region:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        try:
            self.close()
        except BusyError:  # the exception, which is to be told, may hold a view or a list itself
            if kind is None:
                raise

    def __repr__(self) -> str:
        return f"<weft.Region {self.id}: {self.length} bytes of {self.info.kind.name}>"
