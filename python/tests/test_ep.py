"""Expert parallelism on host memory: ranks as threads and as processes, joins, losses, layouts, wrong arguments."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import numpy as np
import pytest
from conftest import SIZES, bf16, end, in_threads, start, tokens_of

import weft
from weft import ep


def operate(rank: ep.Rank, into: ep.Receive, ranks: int, out: np.ndarray, **options: Any) -> ep.Result:
    """One operation in which the experts give back what they get, so that the sums are the tokens again."""
    x, idx, weights = tokens_of(rank.index, ranks)
    operation = rank.dispatch(x, idx, weights, into=into, **options)
    result = operation.combine(into.x, out, renormalize=True)
    assert result is not None
    return result


def test_three_threads(store: weft.Store) -> None:
    def run(i: int) -> None:
        with ep.Rank(store, rank=i, founders=range(3), **SIZES) as rank:
            rank.activate()
            assert rank.active and rank.view == (1, [0, 1, 2]) and rank.memory == ep.Memory.HOST
            into, out = rank.receive(), np.zeros((16, 256), np.uint16)
            for _ in range(10):
                assert operate(rank, into, 3, out).num_missing == 0
                assert (out == tokens_of(i, 3)[0]).all()
            rank.barrier()
            assert rank.stats.operations == 11 and rank.stats.connected == 2
            assert rank.peer_stats((i + 1) % 3).sent_bytes > 0 and "weft" in rank.metrics()
            assert rank.states[:4] == [ep.RankState.ACTIVE] * 3 + [ep.RankState.ABSENT]
            rank.barrier()  # who leaves is not connected any more

    in_threads(3, run)


PROCESS = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[4])
import weft
from conftest import SIZES, tokens_of
from test_ep import operate
from weft import ep
me, url, token = int(sys.argv[1]), sys.argv[2], sys.argv[3]
with weft.Store(url, token=token) as store, \\
        ep.Rank(store, rank=me, founders=range(3), prefix="/job/", op_timeout=20, **SIZES) as rank:
    rank.activate(30)
    into, out = rank.receive(), np.zeros((16, 256), np.uint16)
    for i in range(20):
        if me == 2 and i == 10:
            import os, signal
            os.kill(os.getpid(), signal.SIGKILL)
        result = operate(rank, into, 3, out)
        if i < 10:
            assert result.num_missing == 0 and (out == tokens_of(me, 3)[0]).all()
    while len(rank.view.ranks) == 3:
        operate(rank, into, 3, out)
    lost = []
    while (event := rank.next_event()) is not None:
        if event.kind == ep.EventKind.PEER_LOST:
            lost.append(event.rank)
    assert lost in ([2], []), lost  # none: the view came from the other one, which found it first
    # The two go on together until both have seen it: the mark says so.
    rank.set_mark(1)
    while rank.dispatch(*tokens_of(me, 3), into=into, recycle=True).info.mark != 1:
        pass
print("done")
"""


def test_three_processes_of_which_one_dies() -> None:
    from pathlib import Path

    with weft.Server() as server:
        ranks = [start(PROCESS, str(i), server.url, server.token, str(Path(__file__).parent)) for i in range(3)]
        end(ranks[2], -9)
        assert end(ranks[0]) == end(ranks[1]) == "done\n"


def test_join(store: weft.Store) -> None:
    joined = threading.Event()

    def run(i: int) -> None:
        if i == 2:
            with ep.Rank(store, rank=2, join_only=True, **SIZES) as rank:
                rank.offer()
                joined.set()
                assert rank.await_start(30) == rank.next_op
                follow(rank)
            return
        with ep.Rank(store, rank=i, founders=[0, 1], **SIZES) as rank:
            rank.activate()
            if i == 0:
                assert joined.wait(30)
                rank.change(add=[2])
            follow(rank)

    def follow(rank: ep.Rank) -> None:
        into, out = rank.receive(), np.zeros((16, 256), np.uint16)
        while len(rank.view.ranks) < 3:
            operate(rank, into, 3, out)
        for _ in range(5):
            assert operate(rank, into, 3, out).num_missing == 0
        assert (out == tokens_of(rank.index, 3)[0]).all()

    in_threads(3, run)


def test_withdrawn_offer(store: weft.Store) -> None:
    with ep.Rank(store, rank=0, founders=[0], **SIZES) as rank:
        rank.activate()
        with ep.Rank(store, rank=1, join_only=True, **SIZES) as other:
            other.offer()
            other.withdraw()
            with pytest.raises(weft.errors.NotConnectedError):
                other.await_start(1)
            with pytest.raises(TimeoutError, match="1"):
                rank.change(add=[1], timeout=0.1)


@pytest.fixture
def alone(store: weft.Store) -> Any:
    with ep.Rank(store, rank=0, founders=[0], **SIZES) as rank:
        rank.activate()
        yield rank


def test_halves_and_two_open_at_once(alone: ep.Rank) -> None:
    x, idx, weights = tokens_of(0, 1)
    into, out = [alone.receive(), alone.receive()], np.zeros((16, 256), np.uint16)
    ops = [alone.dispatch_send(x, idx, weights) for _ in range(2)]
    with pytest.raises(weft.errors.BusyError):
        alone.dispatch_send(x, idx, weights)
    for op, room in zip(ops, into):
        info = alone.dispatch_recv(op, room)
        assert info is not None and info.op == op and info.num_rows == 32 and info.lost == []
    for op, room in zip(ops, into):
        alone.combine_send(op, room.x, out)
        result = alone.combine_recv(op, room.x, out)
        assert result is not None and result.missing == [] and (out == x).all()


def test_fp8(alone: ep.Rank) -> None:
    x, idx, weights = tokens_of(0, 1)
    into = alone.receive(dtype="fp8")
    assert into.x.dtype == np.uint8 and into.scales.shape == (2, 128, 2)
    operation = alone.dispatch(x, idx, weights, into=into, dtype="fp8")
    assert (into.scales[0, : into.counts[0]] > 0).all()
    operation.finish()
    with pytest.raises(weft.errors.InvalidError, match="another type"):
        alone.dispatch(x, idx, weights, into=into)
    cast, scales = np.ones((16, 256), np.uint8), np.full((2, 16), 0.5, np.float32)
    alone.dispatch(cast, idx, weights, into=into, dtype="fp8", scales=scales.T).finish()
    assert (into.x[0, : into.counts[0]] == 1).all() and (into.scales[0, : into.counts[0]] == 0.5).all()
    back = np.zeros((2, 2, 128), np.float32).transpose(0, 2, 1)  # scales seen column-major
    strided = alone.receive(dtype="fp8", scales=back)
    alone.dispatch(cast, idx, weights, into=strided, dtype="fp8", scales=scales.T).finish()
    assert (back[0, : strided.counts[0]] == 0.5).all()


def test_layouts(alone: ep.Rank) -> None:
    x, idx, weights = tokens_of(0, 1)
    out = np.zeros((16, 256), np.uint16)
    major = alone.receive(layout="rank_major", status=np.zeros(8, np.uint64))
    operation = alone.dispatch(x, idx, weights, into=major)
    assert operation.info is not None and operation.info.num_rows == 16
    assert major.status is not None and major.status.num_rows == 16 and major.status.written == operation.number + 1
    assert set(major.local_expert[0].tolist()) == {0, 1} and major.weights[0].sum() == 1
    operation.combine(major.x, out)
    assert (out == x).all()
    packed = alone.receive(layout="packed", alignment=8, zero_padding=True)
    operation = alone.dispatch(x, idx, weights, into=packed)
    assert packed.counts.sum() == 32 and packed.expert_end[1] == 32 and packed.slot.max() == 31
    operation.combine(packed.x, out, bias=[bf16(np.zeros((16, 256)))])
    assert (out == x).all()
    place = alone.receive(layout="rank_major", in_place=True)
    operation = alone.dispatch(x, idx, weights, into=place)
    assert place.rows_at[0] == x.ctypes.data  # its own rows stay where they are
    operation.combine_rows(place.rows_at)
    import ctypes

    for i, at in enumerate(place.rows_at[:16]):
        ctypes.memmove(int(at), x[place.src_token[i]].ctypes.data, 512)
    operation.combine(out=out)
    assert (out == x).all()


def test_room(alone: ep.Rank) -> None:
    x, idx, weights = tokens_of(0, 1)
    with pytest.raises(weft.errors.RoomError) as failure:
        alone.dispatch(x, idx, weights, into=alone.receive(rows=2))
    assert failure.value.op is not None and failure.value.rows_needed == 16
    info = alone.dispatch_recv(failure.value.op, alone.receive(rows=failure.value.rows_needed))
    assert info is not None and info.num_rows == 32
    alone.finish(failure.value.op)


def test_masks_and_missing(alone: ep.Rank) -> None:
    x, idx, weights = tokens_of(0, 1)
    into, out = alone.receive(), np.zeros((16, 256), np.uint16)
    masks = np.zeros(8, np.int32)
    alone.masks(masks)
    assert masks.sum() == 0 and alone.masks() == [False] * 8
    idx[3] = [0, 9]
    idx[4] = -1
    result = alone.dispatch(x, idx, weights, into=into).combine(into.x, out)
    assert result is not None and result.missing == [(3, 1, 9)]
    with pytest.raises(weft.errors.NotFoundError):
        alone.mask(5)


def test_wrong_arguments(alone: ep.Rank) -> None:
    x, idx, weights = tokens_of(0, 1)
    into, out = alone.receive(), np.zeros((16, 256), np.uint16)
    for bad in (x.astype(np.float32), x[0], x.astype(np.float16), "x", None):
        with pytest.raises(TypeError):
            alone.dispatch(bad, idx, weights, into=into)
    for bad in (x[:, :128], x[:8], x[:, ::2]):
        with pytest.raises(weft.errors.InvalidError):
            alone.dispatch(bad, idx, weights, into=into)
    for bad in (idx.astype(np.float64), idx[0], idx[:, ::2], idx.astype(np.int16)):
        with pytest.raises(TypeError):
            alone.dispatch(x, bad, weights, into=into)
    with pytest.raises(weft.errors.InvalidError):
        alone.dispatch(x, np.full((16, 2), 10**6), weights, into=into)
    with pytest.raises(weft.errors.InvalidError, match="elements"):
        alone.dispatch(x, idx, weights[:3], into=into)
    for name, bad in (("x", np.zeros(10, np.uint16)), ("counts", np.zeros(1, np.int32)),
                      ("src_rank", np.zeros(3, np.int32))):
        with pytest.raises(weft.errors.InvalidError, match=name):
            alone.receive(**{name: bad})
    with pytest.raises(TypeError, match="read-only"):
        alone.receive(counts=np.frombuffer(bytes(8), np.int32))
    with pytest.raises(TypeError, match="there is no y"):
        alone.receive(y=x)
    with pytest.raises(ValueError, match="bf17"):
        alone.dispatch(x, idx, weights, into=into, dtype="bf17")
    operation = alone.dispatch(x[::2].copy(), idx[:8], weights[:8], into=into)
    with pytest.raises(weft.errors.InvalidError, match="y"):
        operation.combine(into.x[:1], out)
    with pytest.raises(weft.errors.InvalidError, match="out"):
        operation.combine(into.x, out[:7])
    operation.combine(into.x, out)
    with pytest.raises(weft.errors.InvalidError, match="not open"):
        operation.combine(into.x, out)
    alone.dispatch(np.repeat(x, 2, 0)[::2], idx, weights, into=into).finish()  # rows with a distance


def test_the_rows_of_topk_idx_are_the_tokens(alone: ep.Rank) -> None:
    """Arrays of more rows serve for any number of tokens; what is behind these is neither sent nor written."""
    x, idx, weights = tokens_of(0, 1)
    into, out = alone.receive(), np.full((16, 256), 7, np.uint16)
    operation = alone.dispatch(x, idx[:5], weights, into=into)
    assert operation.info is not None and operation.info.num_rows == 10
    operation.combine(into.x, out)
    assert (out[:5] == x[:5]).all() and (out[5:] == 7).all()


def test_receive_without_numpy(alone: ep.Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    """It makes what is not given, and is needed for nothing else."""
    given = {name: bytearray(4 * count) for name, count in (("counts", 2), ("src_rank", 4), ("src_token", 4))}
    whole = {name: memoryview(array).cast("i") for name, array in given.items()}
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert alone.receive(2, x=bytearray(2 * 2 * 256), dtype="opaque", row_bytes=256, **whole).rows == 2
    with pytest.raises(ImportError, match="numpy makes the arrays that are not given, and x is not"):
        alone.receive(2, **whole)


def test_a_receive_stays_while_a_call_of_another_thread_writes_into_it(store: weft.Store) -> None:
    began, tried = threading.Event(), threading.Event()
    receives: list[ep.Receive] = []

    def run(index: int) -> None:
        with ep.Rank(store, rank=index, founders=[0, 1], **SIZES) as rank:
            rank.activate()
            x, idx, weights = tokens_of(index, 2)
            into = rank.receive(expert_total=np.zeros(2, np.int32))
            if index == 0:
                receives.append(into)
                began.set()
            else:  # the other one waits for this one in its dispatch
                assert tried.wait(30)
            rank.dispatch(x, idx, weights, into=into).finish()
            into.renew()

    def renew() -> None:
        assert began.wait(30)
        threading.Event().wait(0.2)
        try:
            with pytest.raises(weft.errors.BusyError, match="another call is receiving"):
                receives[0].renew()
        finally:
            tried.set()

    in_threads(3, lambda index: run(index) if index < 2 else renew())


def test_interrupt(store: weft.Store) -> None:
    with ep.Rank(store, rank=0, founders=[0, 1], **SIZES) as rank:
        threading.Timer(0.05, rank.interrupt).start()
        with pytest.raises(weft.errors.CanceledError):
            rank.activate(30)
        with pytest.raises(TimeoutError, match="1"):
            rank.connect([1], timeout=0.05)


def test_close_ends_a_wait(store: weft.Store) -> None:
    rank = ep.Rank(store, rank=0, founders=[0, 1], **SIZES)
    outcome: list[BaseException] = []

    def wait() -> None:
        try:
            rank.activate(None)
        except BaseException as failure:
            outcome.append(failure)

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join(0.05)
    rank.close()
    thread.join(30)
    assert isinstance(outcome[0], weft.errors.ClosedError)


def test_events_in_asyncio(store: weft.Store) -> None:
    async def seen() -> set[ep.EventKind]:
        kinds: set[ep.EventKind] = set()
        with ep.Rank(store, rank=0, founders=[0], **SIZES) as rank:
            starting = asyncio.create_task(asyncio.to_thread(rank.activate))
            async for event in rank.events():
                kinds.add(event.kind)
                if event.kind == ep.EventKind.COMMITTED:
                    break
            await starting
        return kinds

    assert ep.EventKind.COMMITTED in asyncio.run(asyncio.wait_for(seen(), 30))


def test_limits() -> None:
    assert ep.limits().depth == 2 and ep.limits().max_hidden >= 7168


def test_wrong_names(store: weft.Store) -> None:
    """The error names the argument, and the names that it takes; `group` stands for an argument that is not given."""
    for argument, names in (("dtype", "bf16, fp8"), ("combine_dtype", "bf16, logfmt10"), ("mode", "default, latency")):
        with pytest.raises(ValueError, match=f"^{argument}: there is no 'half', but {names}"):
            weft.ep.Rank(store, rank=0, founders=[0], **{argument: "half"})
