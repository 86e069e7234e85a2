"""Arrays of any framework, as the interfaces say that they come."""

from __future__ import annotations

import array
import ctypes
import mmap
from typing import Any

import numpy as np
import pytest

import weft


class OnlyDlpack:
    """What torch and jax are here: DLPack, and no buffer protocol."""

    def __init__(self, array: np.ndarray, device: tuple[int, int] = (1, 0)) -> None:
        self.array, self.device = array, device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, *, stream: Any = None) -> Any:
        return self.array.__dlpack__()


class OnlyInterface:
    def __init__(self, **interface: Any) -> None:
        for name, value in interface.items():
            setattr(self, name, value)


def test_buffers() -> None:
    for source in (bytearray(8), b"eight by", array.array("i", [1, 2]), (ctypes.c_char * 8)(), mmap.mmap(-1, 8),
                   np.zeros(1, np.int64), memoryview(bytearray(8))):
        buffer = weft.Buffer(source)
        assert buffer.nbytes == 8 and buffer.contiguous and not buffer.on_gpu
        assert buffer.readonly == isinstance(source, bytes)


def test_shapes_and_strides() -> None:
    whole = np.zeros((4, 6), np.uint16)
    assert weft.Buffer(whole).shape == (4, 6) and weft.Buffer(whole).address == whole.ctypes.data
    assert not weft.Buffer(whole[:, ::2]).contiguous
    assert weft.Buffer(weft.Buffer(whole)).shape == (4, 6)
    assert weft.Buffer(np.float32(1)).shape == ()


def test_types_that_the_buffer_protocol_lacks() -> None:
    times = np.zeros((2, 3), "datetime64[s]")  # as bf16 of ml_dtypes, which jax has
    buffer = weft.Buffer(times)
    assert buffer.address == times.ctypes.data and buffer.shape == (2, 3) and buffer.itemsize == 8
    with pytest.raises(TypeError, match="objects of Python"):
        weft.Buffer(np.zeros(3, object))


def test_dlpack() -> None:
    source = np.arange(12, dtype=np.float32).reshape(3, 4)
    buffer = weft.Buffer(OnlyDlpack(source))
    assert buffer.address == source.ctypes.data and buffer.shape == (3, 4) and buffer.itemsize == 4
    transposed = weft.Buffer(OnlyDlpack(source.T))
    assert transposed.shape == (4, 3) and not transposed.contiguous
    with weft.Agent("a", transports="shm") as agent:
        assert agent.register(OnlyDlpack(source)).address == source.ctypes.data
    with pytest.raises(TypeError, match="memory of the host or of a CUDA GPU"):
        weft.Buffer(OnlyDlpack(source, (7, 0)))  # Metal


def test_interfaces() -> None:
    gpu = OnlyInterface(__cuda_array_interface__={"shape": (2, 3), "typestr": "<f4", "data": (4096, False),
                                                  "version": 3, "strides": None})
    buffer = weft.Buffer(gpu)
    assert buffer.on_gpu and buffer.address == 4096 and buffer.shape == (2, 3) and buffer.contiguous
    host = OnlyInterface(__array_interface__={"shape": (2,), "typestr": "<V2", "data": (64, True), "version": 3})
    assert weft.Buffer(host).readonly and weft.Buffer(host).nbytes == 4
    for wrong in ({"shape": (1,), "typestr": ">f4", "data": (64, False)}, {"shape": (1,)}, 3):
        with pytest.raises((TypeError, KeyError, ValueError, RuntimeError)):
            weft.Buffer(OnlyInterface(__cuda_array_interface__=wrong))


@pytest.mark.parametrize("name, kind", [("topk_idx", ">i8"), ("topk_idx", ">i4"), ("topk_idx", "c8"), ("x", ">u2"),
                                        ("topk_weights", ">f4"), ("counts", ">i4"), ("src_rank", "4V")])
def test_elements_of_another_order_or_kind(name: str, kind: str) -> None:
    """Memory to a transfer, and no numbers to a rank."""
    from conftest import SIZES, tokens_of

    weft.Buffer(np.zeros(4, kind))
    with weft.Store.local() as store, weft.ep.Rank(store, rank=0, founders=[0], **SIZES) as rank:
        rank.activate()
        x, idx, weights = tokens_of(0, 1)
        given = {"x": x, "topk_idx": idx, "topk_weights": weights}
        with pytest.raises(TypeError, match=name):
            if name in given:
                given[name] = np.zeros(given[name].shape, kind)
                rank.dispatch(**given, into=rank.receive())
            else:
                rank.receive(**{name: np.zeros(1 << 12, kind)})


@pytest.mark.parametrize("wrong", [None, 3, "text", object(), [1, 2], {}, np])
def test_what_is_no_memory(wrong: object) -> None:
    with pytest.raises(TypeError, match="is no memory"):
        weft.Buffer(wrong)


def test_streams() -> None:
    from conftest import SIZES, tokens_of

    class Torch:
        cuda_stream = 0

    class Cupy:
        ptr = 0

    class Core:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, 0

    with weft.Store.local() as store, weft.ep.Rank(store, rank=0, founders=[0], **SIZES) as rank:
        rank.activate()
        x, idx, weights = tokens_of(0, 1)
        into, out = rank.receive(), np.zeros((16, 256), np.uint16)
        for stream in (None, 0, Torch(), Cupy(), Core()):
            rank.dispatch(x, idx, weights, into=into, stream=stream).combine(into.x, out, stream=stream)
        with pytest.raises(TypeError, match="stream"):
            rank.dispatch(x, idx, weights, into=into, stream="0")
