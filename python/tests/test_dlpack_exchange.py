"""DLPack's calls of C (__dlpack_c_exchange_api__), from a type that offers them as torch does."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np
import pytest

import weft


class Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


LOOK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Tensor))


class Calls(ctypes.Structure):
    """DLPackExchangeAPI."""


Calls._fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("older", ctypes.POINTER(Calls)),
                  ("allocate", ctypes.c_void_p), ("export", ctypes.c_void_p), ("import_", ctypes.c_void_p),
                  ("look", LOOK), ("stream", ctypes.c_void_p)]
ctypes.pythonapi.PyCapsule_New.restype = ctypes.py_object
ctypes.pythonapi.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
NAME = b"dlpack_exchange_api"
kept: list[Any] = []


def make_type(version: tuple[int, int], older: Any = None, *, name: bytes = NAME, look: bool = True) -> Any:
    """A type of arrays that offers calls of a version, and counts how it was looked at."""

    def look_at(source: Any, out: Any) -> int:
        type(source).looks += 1
        if source.array is None:
            return -1
        dims = source.array.ndim
        source.kept = ((ctypes.c_int64 * dims)(*source.array.shape),
                       (ctypes.c_int64 * dims)(*(s // source.array.itemsize for s in source.array.strides)))
        out[0] = Tensor(source.array.ctypes.data, 1, 0, dims, 4, 16, 1, source.kept[0], source.kept[1], 0)
        return 0

    call = LOOK(look_at) if look else LOOK()
    calls = Calls(version[0], version[1], ctypes.pointer(older) if older else None, None, None, None, call, None)
    kept.extend((call, calls))

    class Array:
        looks = 0
        exports = 0
        __dlpack_c_exchange_api__ = ctypes.pythonapi.PyCapsule_New(ctypes.addressof(calls), name, None)

        def __init__(self, array: Any) -> None:
            self.array = array
            self.kept: Any = None

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.array.__dlpack_device__()

        def __dlpack__(self) -> Any:
            type(self).exports += 1
            return self.array.__dlpack__()

    Array.calls = calls
    return Array


def test_arrays_are_looked_at_by_calls_of_c() -> None:
    kind, other = make_type((1, 3)), make_type((1, 4))
    for one in (kind, other, kind):
        array = one(np.arange(12, dtype=np.uint16).reshape(3, 4))
        before = sys.getrefcount(array)
        buffer = weft.Buffer(array)
        assert buffer.address == array.array.ctypes.data and buffer.shape == (3, 4) and buffer.itemsize == 2
        assert buffer.contiguous and sys.getrefcount(array) == before + 1
        del buffer
        assert sys.getrefcount(array) == before
        assert not weft.Buffer(one(array.array.T)).contiguous
    assert kind.looks == 4 and other.looks == 2 and kind.exports == other.exports == 0


def test_other_versions_and_capsules() -> None:
    old = make_type((1, 3))
    newer = make_type((2, 0), old.calls)  # whose older calls are taken
    assert weft.Buffer(newer(np.zeros(3, np.uint16))).shape == (3,)
    assert newer.looks == 1 and newer.exports == 0
    for kind in (make_type((2, 0)), make_type((1, 2)), make_type((1, 3), name=b"another"),
                 make_type((1, 3), look=False)):
        assert weft.Buffer(kind(np.zeros((2, 5)))).shape == (2, 5)
        assert kind.looks == 0 and kind.exports == 1


def test_a_type_that_says_nothing() -> None:
    with pytest.raises(TypeError, match="does not say where its memory is"):
        weft.Buffer(make_type((1, 3))(None))
