"""Calls whose options are said once, and receives whose arrays are looked at again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from conftest import SIZES, in_threads, tokens_of

import weft
from weft import ep


@pytest.fixture
def alone(store: weft.Store) -> Iterator[ep.Rank]:
    with ep.Rank(store, rank=0, founders=[0], **SIZES) as rank:
        rank.activate()
        yield rank


class Moving:
    """Memory that a framework may move: what its array interface says at the time."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.array.__array_interface__


def test_the_same_as_the_calls(store: weft.Store) -> None:
    """Values, both halves, results and losses are those of `dispatch` and `combine`."""

    def run(i: int) -> None:
        with ep.Rank(store, rank=i, founders=[0, 1], **SIZES) as rank:
            rank.activate()
            x, idx, weights = tokens_of(i, 2)
            calls = rank.prepare(recycle=True, renormalize=True)
            into, out = rank.receive(), np.zeros((16, 256), np.uint16)
            for halves in (False, True, False):
                out[:] = 0
                if halves:
                    number = calls.dispatch_send(x, idx)
                    info = calls.dispatch_recv(number, into)
                    calls.combine_send(number, into.x, out, weights)
                    result = calls.combine_recv(number, into.x, out, weights)
                else:
                    number, info = calls.dispatch(x, idx, into)
                    result = calls.combine(number, into.x, out, weights)
                assert info is not None and info.op == number and info.num_rows > 0 and info.lost == []
                assert result is not None and result.num_missing == 0 and (out == x).all()
            quiet = rank.prepare(info=False, result=False)
            number, info = quiet.dispatch(x, idx, into)
            assert info is None and quiet.combine(number, into.x, out, weights) is None and (out == x).all()

    in_threads(2, run)


def test_exact_shapes(alone: ep.Rank) -> None:
    """Arrays that are larger than they should be are errors here, which name the array."""
    x, idx, weights = tokens_of(0, 1)
    calls, into = alone.prepare(recycle=True), alone.receive()
    for wrong in (x[:-1], np.concatenate([x, x])):
        with pytest.raises(weft.errors.InvalidError, match="x has"):
            calls.dispatch(wrong, idx, into)
    with pytest.raises(TypeError, match="x: bf16"):
        calls.dispatch(x.astype(np.float32), idx, into)
    number, _ = calls.dispatch(x, idx, into)
    out = np.zeros((16, 256), np.uint16)
    longer = np.zeros((17, 256), np.uint16)
    wrong_ones = {"y": (into.x.reshape(-1, 256), out, weights), "out": (into.x, longer, weights),
                  "topk_weights": (into.x, out, np.ones((16, 3), np.float32))}
    for name, given in wrong_ones.items():
        with pytest.raises(weft.errors.InvalidError, match=f"^{name}: an array of shape"):
            calls.combine(number, *given)
    assert calls.combine(number, into.x, out, weights) is not None and (out == x).all()


def test_after_the_end(alone: ep.Rank) -> None:
    x, idx, _ = tokens_of(0, 1)
    calls, into = alone.prepare(), alone.receive()
    with pytest.raises(TypeError, match=r"into: what Rank.receive\(\) made"):
        calls.dispatch(x, idx, object())
    alone.close()
    with pytest.raises(weft.errors.ClosedError):
        calls.dispatch(x, idx, into)
    with pytest.raises(weft.errors.ClosedError):
        alone.prepare()


def test_arrays_that_have_moved(alone: ep.Rank) -> None:
    """The next operation writes where the array lies then; what another form has is refused."""
    x, idx, weights = tokens_of(0, 1)
    rows = Moving(np.zeros((2, 64, 256), np.uint16))
    into = alone.receive(64, x=rows)
    assert not into.renew()
    before = rows.array
    rows.array = np.zeros_like(before)
    assert into.renew() and not into.renew()
    calls = alone.prepare(recycle=True)
    number, _ = calls.dispatch(x, idx, into)
    assert not before.any() and rows.array.any()
    out = np.zeros((16, 256), np.uint16)
    calls.combine(number, rows, out, weights)
    assert (out == x).all()
    for wrong in (np.zeros((2, 65, 256), np.uint16), np.zeros((2, 64, 256), np.uint32), np.zeros(256, np.uint16)):
        rows.array = wrong
        with pytest.raises(weft.errors.InvalidError, match="x: its shape"):
            into.renew()


def test_a_look_up_that_renews_again(alone: ep.Rank) -> None:
    """The look-up of an array may run code of Python, which must not change the arrays that are being looked up."""
    refused = []

    class Renewing(Moving):
        into: Any = None

        @property
        def __array_interface__(self) -> dict[str, Any]:
            if self.into is not None:
                with pytest.raises(weft.errors.BusyError, match="renews it") as caught:
                    self.into.renew(expert_total=np.zeros(2, np.int32), wait_ns=np.zeros(64, np.int64))
                refused.append(caught.value)
            return self.array.__array_interface__

    rows = Renewing(np.zeros((2, 64, 256), np.uint16))
    rows.into = alone.receive(64, x=rows)
    assert not rows.into.renew()
    assert refused


def test_other_counters(alone: ep.Rank) -> None:
    """expert_total and wait_ns may be others in each operation, or none."""
    x, idx, _ = tokens_of(0, 1)
    totals = [np.zeros(2, np.int32) for _ in range(2)]
    into, calls = alone.receive(expert_total=totals[0]), alone.prepare(recycle=True)
    calls.dispatch(x, idx, into)
    into.renew(expert_total=totals[1])
    assert into.expert_total is totals[1]
    calls.dispatch(x, idx, into)
    into.renew()
    calls.dispatch(x, idx, into)
    assert into.expert_total is None
    assert totals[0].sum() == totals[1].sum() == (idx >= 0).sum()
    with pytest.raises(weft.errors.InvalidError, match="expert_total"):
        into.renew(expert_total=np.zeros(1, np.int32))
    waits = np.zeros(SIZES.get("capacity", 64), np.int64)
    into.renew(wait_ns=waits)
    calls.dispatch(x, idx, into)
