"""Registered memory, between which transfers move bytes.

`weft.Buffer` holds the address of an array of any framework that has the buffer protocol (numpy, bytearray, mmap),
DLPack (torch, cupy, jax, tensorflow) or ``__cuda_array_interface__`` (cupy, numba, torch). Every call that takes an
array makes a `Buffer` by itself; in a loop, making it once and passing it saves time.

`Owners` reports whether arrays may be used again because nobody else holds one of them any more.

Pass bf16 through DLPack, or as numpy's ``uint16`` (``x.view(numpy.uint16)``), since numpy has no bf16 type. The bf16
type that ``ml_dtypes`` adds to numpy, and that jax uses, works too.
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
    """The kind of a region."""

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
    """the owner's id of the region"""
    address: int
    """HOST, CUDA: first byte, in the owner's address space; else 0"""
    length: int
    """bytes; FILE, OBJECT: 0 for no limit"""
    kind: Kind
    """kind of the region"""
    device: int
    """CUDA: index of the GPU in the owner's process; -1: not known"""
    flags: int
    """bits of enum weft_memory_flag: 1 read-only, 2 not in metadata"""

    def descriptor(self, offset: int = 0, length: int | None = None) -> tuple[int, int, int]:
        """(address, length, region) of a part of the region: `length` bytes (None: the rest) from byte `offset` on."""
        first = whole("offset", offset, U64)
        if length is not None:
            return self.address + first, whole("length", length, U64), self.id
        if self.length == 0:
            raise ValueError("length: this region has no limit, so a descriptor of it needs a length")
        if first >= self.length:
            raise ValueError(f"offset: {first} is beyond the region, which has {self.length} bytes")
        return self.address + first, self.length - first, self.id


class MemoryStatus(NamedTuple):
    """Whether memory, a file or an object exists, and its properties."""

    there: bool
    """whether the memory, the file or the object exists"""
    device: int
    """CUDA: index of the GPU; else -1"""
    length: int
    """bytes that exist"""
    region: int
    """the region that contains all of it; 0: none"""


class Region:
    """Memory, a file or an object that an agent has registered.

    The agent keeps the buffer alive until the region or the agent is closed. For memory that the agent allocated on the
    host, use ``region.view()`` or ``numpy.frombuffer(region.allocated, ...)``; on a GPU ``region.allocated`` has
    ``__cuda_array_interface__``. Neither the region nor the agent can be closed while such a view of host memory is in
    use.
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
        """Its length in bytes."""
        return self.info.length

    def descriptor(self, offset: int = 0, length: int | None = None) -> tuple[int, int, int]:
        """(address, length, region) of a part of the region: `length` bytes (None: the rest) from byte `offset` on."""
        return self.info.descriptor(offset, length)

    def view(self) -> memoryview:
        """A view of host memory that the agent allocated. Release it before the region is closed."""
        if self._memory is None:
            raise TypeError("the agent did not allocate this region: its memory is the array that was registered")
        return memoryview(self._memory)  # type: ignore[arg-type]

    @property
    def allocated(self) -> _weft.Memory | None:
        """The memory that the agent allocated, for ``numpy.frombuffer`` or ``torch.as_tensor``; None for registered
        memory."""
        return self._memory

    def close(self) -> None:
        """Deregisters the region, and frees memory that the agent allocated. `BusyError`: a list of the agent, or a
        view, uses it. A second call is no error. If an exception ends a ``with`` while the region is in use, the region
        stays until the agent is closed."""
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
        except BusyError:  # the exception that is raised may hold a view or a list itself
            if kind is None:
                raise

    def __repr__(self) -> str:
        return f"<weft.Region {self.id}: {self.length} bytes of {self.info.kind.name}>"
