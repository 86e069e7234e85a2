"""Lists of descriptors: what they are made of, what they answer, and that reading one runs nothing."""

from __future__ import annotations

import pathlib
import pickle

import numpy as np
import pytest
from conftest import numbers

import nixl._bindings as bindings
from nixl._api import nixl_agent

THREE = [(1000, 105, 0), (2000, 30, 1), (1010, 20, 0)]
FOUR = [(1000, 105, 0, b"one"), (2000, 30, 1, "two"), (1010, 20, 0, b"\xff\0")]


def test_transfer_list(capsys: pytest.CaptureFixture[str]) -> None:
    descs = bindings.nixlXferDList(bindings.DRAM_SEG, THREE)
    assert descs.descCount() == 3 and not descs.isEmpty() and descs.getType() == bindings.DRAM_SEG
    assert descs[1] == (2000, 30, 1) and list(descs) == THREE and descs.index((1010, 20, 0)) == 2
    same = pickle.loads(pickle.dumps(descs))
    assert same == descs and same != bindings.nixlXferDList(bindings.VRAM_SEG, THREE)
    descs.remDesc(1)
    descs[0] = (7, 8, 9)
    descs.append((1, 2, 3))
    descs.addDesc((4, 5, 6))
    assert list(descs) == [(7, 8, 9), (1010, 20, 0), (1, 2, 3), (4, 5, 6)]
    descs.print()
    assert "DRAM_SEG, 4 descriptors" in capsys.readouterr().out
    descs.clear()
    assert descs.isEmpty() and bindings.nixlXferDList(bindings.DRAM_SEG, 2)[1] == (0, 0, 0)
    with pytest.raises(bindings.nixlNotFoundError):
        descs.index((1, 2, 3))
    with pytest.raises(IndexError):
        descs[0]


def test_registration_list() -> None:
    descs = bindings.nixlRegDList(bindings.FILE_SEG, FOUR)
    assert descs[1] == (2000, 30, 1, b"two") and descs.index((1010, 20, 0, b"\xff\0")) == 2
    assert pickle.loads(pickle.dumps(descs)) == descs
    assert descs.trim() == bindings.nixlXferDList(bindings.FILE_SEG, THREE)
    descs.remDesc(0)
    descs.addDesc((1, 2, 3, "x"))
    assert list(descs) == [(2000, 30, 1, b"two"), (1010, 20, 0, b"\xff\0"), (1, 2, 3, b"x")]
    remote = bindings.nixlRemoteDList(bindings.VRAM_SEG, [(1, 2, 3, "other")])
    assert remote[0] == (1, 2, 3, "other")


def test_arrays_of_numbers() -> None:
    for kind in (np.int64, np.uint64):
        made = bindings.nixlXferDList(bindings.DRAM_SEG, np.array(THREE, kind))
        assert made == bindings.nixlXferDList(bindings.DRAM_SEG, THREE)
        assert bindings.nixlRegDList(bindings.DRAM_SEG, np.array(THREE, kind))[0] == (1000, 105, 0, b"")
    square = np.arange(36, dtype=np.int64).reshape(6, 6)
    for wrong in (square, square[:, :3], np.zeros((2, 3)), np.zeros((2, 3), np.int32), np.zeros(3, np.int64)):
        with pytest.raises(ValueError, match="descs"):
            bindings.nixlXferDList(bindings.DRAM_SEG, wrong)


@pytest.mark.parametrize("wrong, error", [
    ([[1, 2, 3]], TypeError), ([(1, 2)], ValueError), ([(1, 2, 3, 4)], ValueError), ([("a", 2, 3)], TypeError),
    ([(-1, 2, 3)], OverflowError), ("abc", TypeError)])
def test_wrong_descriptors(wrong: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        bindings.nixlXferDList(bindings.DRAM_SEG, wrong)


def test_what_lists_are_made_of(pair: tuple[nixl_agent, nixl_agent]) -> None:
    agent, array = pair[0], numbers(64)
    start = array.ctypes.data
    assert list(agent.get_xfer_descs(array)) == [(start, 64, 0)]
    assert list(agent.get_reg_descs([array[:16], array[16:]])) == [(start, 16, 0, b""), (start + 16, 48, 0, b"")]
    rows = np.array([(start, 8, 0), (start + 8, 8, 0)])
    assert list(agent.get_xfer_descs(rows, "DRAM")) == list(agent.get_xfer_descs([tuple(row) for row in rows], "cpu"))
    given = agent.get_reg_descs([(start, 64, 0, "")], mem_type="DRAM")
    assert agent.get_reg_descs(given) is given
    assert agent.deserialize_descs(agent.get_serialized_descs(given)) == given
    for wrong in (rows, [(start, 8, 0)], given, array[::2]):
        assert agent.get_xfer_descs(wrong) is None  # without mem_type, of the other kind, with gaps
    assert agent.get_xfer_descs(np.zeros((2, 5), np.int64), "DRAM") is None  # for prep_xfer_dlist alone
    with pytest.raises(bindings.nixlInvalidParamError, match="mem_type"):
        agent.get_xfer_descs([(1, 2, 3)], "RAM")


def test_tensors(pair: tuple[nixl_agent, nixl_agent]) -> None:
    torch = pytest.importorskip("torch")
    for kind in (torch.bfloat16, torch.float8_e4m3fn, torch.int64):
        tensor = torch.zeros((4, 8), dtype=kind)
        expected = [(tensor.data_ptr(), 32 * tensor.element_size(), 0)]
        assert list(pair[0].get_xfer_descs(tensor)) == list(pair[0].get_xfer_descs([tensor])) == expected
        assert pair[0].get_reg_descs(tensor.t()) is None  # its elements do not lie in a row
    assert pair[0].get_reg_descs(torch.zeros(3, requires_grad=True)).descCount() == 1


def test_serialized_lists_run_nothing(pair: tuple[nixl_agent, nixl_agent], tmp_path: pathlib.Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return pathlib.Path.touch, (tmp_path / "ran",)

    with pytest.raises(pickle.UnpicklingError):
        pair[0].deserialize_descs(pickle.dumps(Evil()))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("wrong", [pickle.dumps([1, 2]), pickle.dumps(5), b"", b"garbage", b"\x80\x04K\x05.",
                                   b"cnixl._bindings\nnixlXferDList\n(I0\nI100000000\ntR.",
                                   b"cnixl._bindings\nnixlXferDList\n(I99\n(ltR."])
def test_what_is_no_serialized_list(pair: tuple[nixl_agent, nixl_agent], wrong: bytes) -> None:
    with pytest.raises(pickle.UnpicklingError):
        pair[0].deserialize_descs(wrong)
