"""The objects that programs pass as descriptors: tuples, tensors, arrays of any framework, and arrays of numbers."""

from __future__ import annotations

import array
from collections.abc import Sequence
from typing import Any

import weft

from ..logging import get_logger
from .lists import is_array, nixlXferDList
from .status import NoMemoryType, NoSuchName, nixl_mem_t, nixlInvalidParamError

logger = get_logger("api")

MEMS: dict[str, nixl_mem_t] = {
    "DRAM": nixl_mem_t.DRAM_SEG,
    "VRAM": nixl_mem_t.VRAM_SEG,
    "FILE": nixl_mem_t.FILE_SEG,
    "BLOCK": nixl_mem_t.BLK_SEG,
    "OBJ": nixl_mem_t.OBJ_SEG,
    "cpu": nixl_mem_t.DRAM_SEG,
    "cuda": nixl_mem_t.VRAM_SEG,
    **{mem.name: mem for mem in nixl_mem_t},
}
"""Kinds of memory by the names that programs use."""


MOST_PIECES = 1 << 26
"""the largest number of descriptors of an N x 5 array: each takes 24 bytes"""


def mem_of(name: str) -> nixl_mem_t:
    """The kind of memory of that name. `NoSuchName`: there is none."""
    try:
        return MEMS[name]
    except (KeyError, TypeError):
        raise NoSuchName(f"mem_type {name!r}: want one of {', '.join(MEMS)}") from None


def piece_of(tensor: Any) -> tuple[nixl_mem_t, tuple[int, int, int]] | None:
    """Kind, and (address, length, device) of the memory of a tensor or an array. None: it is not contiguous, or no
    memory; the reason is logged."""
    if hasattr(tensor, "data_ptr"):  # torch: of any type, also types that DLPack does not know
        if not tensor.is_contiguous():
            logger.error("a tensor whose elements do not lie in a row: pass tensor.contiguous(), or a list of its rows")
            return None
        device = int(tensor.get_device())
        size = tensor.numel() * tensor.element_size()
        kind = nixl_mem_t.DRAM_SEG if device < 0 else nixl_mem_t.VRAM_SEG
        return kind, (int(tensor.data_ptr()), int(size), max(device, 0))
    try:
        buffer = weft.Buffer(tensor)
    except (TypeError, BufferError) as error:
        if not hasattr(tensor, "__getitem__"):
            raise
        logger.error("neither descriptors nor memory: %.60r: %s", tensor, error)
        return None
    if not buffer.contiguous:
        logger.error("an array whose elements do not lie in a row")
        return None
    kind = nixl_mem_t.VRAM_SEG if buffer.on_gpu else nixl_mem_t.DRAM_SEG
    return kind, (buffer.address, buffer.nbytes, max(buffer.device, 0) if buffer.on_gpu else 0)


def pieces_of(tensors: Sequence[Any]) -> tuple[nixl_mem_t, list[tuple[int, int, int]]] | None:
    """The same for several tensors, which all have to be in the same memory."""
    kinds, pieces = set(), []
    for tensor in tensors:
        piece = piece_of(tensor)
        if piece is None:
            return None
        kinds.add((piece[0], piece[1][2]))
        pieces.append(piece[1])
    if len(kinds) != 1:
        logger.error("the tensors of one list have to be on one device")
        return None
    return kinds.pop()[0], pieces


def is_rows(descs: Any) -> bool:
    """Whether `descs` is an array of numbers that describe memory, and not the memory itself."""
    if not is_array(descs):
        return False
    view = memoryview(descs)
    return view.itemsize == 8 and view.format in ("q", "Q", "l", "L") and (view.shape or ())[1:] in ((3,), (5,))


def is_strided(descs: Any) -> bool:
    """Whether `descs` is an N x 5 array, of rows (address, length, device, stride, count)."""
    return is_rows(descs) and (memoryview(descs).shape or ())[1:] == (5,)


def expanded(descs: Any, mem_type: str | None) -> nixlXferDList:
    """The list of an N x 5 array: for each row `count` descriptors of `length` bytes, whose addresses are `stride`
    bytes apart. `NoMemoryType`: mem_type is missing."""
    if mem_type is None:
        raise NoMemoryType("an array of numbers says no kind of memory: name it by mem_type")
    found = array.array("Q")
    rows: list[list[int]] = list(memoryview(descs).tolist())  # type: ignore[arg-type]
    if sum(row[4] for row in rows) > MOST_PIECES:
        raise nixlInvalidParamError(f"descs: the rows are more than {MOST_PIECES:,} descriptors together")
    for row in rows:
        address, length, device, stride, count = row
        if min(row) < 0 or address + length + stride * max(0, count - 1) >= 1 << 64:
            raise nixlInvalidParamError(f"descs: (address, length, device, stride, count) {tuple(row)} is no memory")
        pieces = array.array("Q", bytes(24 * count))
        addresses = range(address, address + stride * count, stride) if stride else (address,) * count
        pieces[0::3] = array.array("Q", addresses)
        pieces[1::3], pieces[2::3] = array.array("Q", (length,)) * count, array.array("Q", (device,)) * count
        found.extend(pieces)
    made = nixlXferDList(mem_of(mem_type))
    made.extend(found)
    return made
