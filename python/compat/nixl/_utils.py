"""Raw memory for tests of the layer `nixl._bindings`: allocate it, fill it, compare it."""

from __future__ import annotations

import ctypes

_libc = ctypes.CDLL(None, use_errno=True)
_libc.aligned_alloc.restype = ctypes.c_void_p
_libc.aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
_libc.free.argtypes = [ctypes.c_void_p]
_PAGE = 4096


def malloc_passthru(size: int) -> int:
    """The address of `size` bytes that are free to use, at the start of a page."""
    if size <= 0:
        raise ValueError(f"malloc_passthru: {size} bytes: want at least 1")
    address = _libc.aligned_alloc(_PAGE, (size + _PAGE - 1) // _PAGE * _PAGE)
    if not address:
        raise MemoryError(f"malloc_passthru: there are no {size} bytes")
    return int(address)


def free_passthru(address: int) -> None:
    """Frees what `malloc_passthru` gave."""
    _libc.free(address)


def ba_buf(address: int, size: int) -> None:
    """Fills memory with bytes 0xba."""
    ctypes.memset(address, 0xBA, size)


def verify_transfer(first: int, second: int, size: int) -> None:
    """`AssertionError`: two pieces of memory differ; it says where."""
    here, there = ctypes.string_at(first, size), ctypes.string_at(second, size)
    if here != there:
        at = next(i for i in range(size) if here[i] != there[i])
        raise AssertionError(f"byte {at} of {size} is {here[at]:#x} at the one address and {there[at]:#x} at the other")
