"""Routes: filled and gone by, planned, checked, refused; their arrays against what numpy counts of the top-k."""

from __future__ import annotations

import gc
import threading
from typing import Any, ClassVar

import numpy as np
import pytest
from conftest import SIZES, bf16, in_threads, tokens_of

import weft
from weft import ep

HIDDEN = SIZES["hidden"]


@pytest.fixture
def alone(store: weft.Store) -> Any:
    with ep.Rank(store, rank=0, founders=[0], **SIZES) as rank:
        rank.activate()
        yield rank


def sums() -> np.ndarray:
    return np.zeros((16, HIDDEN), np.uint16)


@pytest.mark.parametrize("layout", ["per_expert", "rank_major", "packed"])
def test_gives_equal_rows(store: weft.Store, layout: str) -> None:
    """Three ranks: the second dispatch sends other values the same ways, and equal values give equal bits."""
    def run(i: int) -> None:
        with ep.Rank(store, rank=i, founders=range(3), **SIZES) as rank, rank.route() as route:
            rank.activate()
            x, idx, weights = tokens_of(i, 3)
            first, second, out = rank.receive(layout=layout), rank.receive(layout=layout), sums()
            rank.dispatch(x, idx, weights, into=first, route=route).combine(answers(first), out)
            assert (out == x).all()
            operation = rank.dispatch(x, into=second, route=route)
            assert operation.info is not None and operation.info.num_rows > 0
            for name in ("x", "counts", "src_rank", "src_token", "weights", "local_expert", "slot"):
                one, other = getattr(first, name), getattr(second, name)
                assert one is None or (one == other).all(), name
            out[:] = 0
            operation.combine(answers(second), out)
            assert (out == x).all()
            for _ in range(2):  # twice as much, and back by the route alone: the backward pass of a combine
                rank.dispatch(bf16(2 * widened(x)), into=second, route=route).finish()
                out[:] = 0
                back = rank.combine_route(route, answers(second), out)
                assert back.result is not None and back.result.num_missing == 0
                assert (widened(out) == 2 * widened(x)).all()
            rank.barrier()

    in_threads(3, run)


def answers(into: ep.Receive) -> np.ndarray:
    """Outputs of experts that change nothing: rows by rank are weighed by the caller."""
    if into.layout != ep.Layout.RANK_MAJOR:
        return into.x
    return bf16(widened(into.x) * into.weights.sum(1, keepdims=True))


def widened(values: np.ndarray) -> np.ndarray:
    """bf16 as f32."""
    return (values.astype(np.uint32) << 16).view(np.float32)


def test_arrays(store: weft.Store) -> None:
    tokens = [tokens_of(i, 2) for i in range(2)]

    def run(i: int) -> None:
        with ep.Rank(store, rank=i, founders=range(2), **SIZES) as rank, rank.route(alignment=4) as route:
            rank.activate()
            assert route.arrays() == (None,) * 8
            x, idx, weights = tokens[i]
            route.plan(idx)
            went = np.stack([(idx // 2 == r).any(1) for r in range(8)], 1)
            planned = route.arrays()
            assert planned.rank_end is None and planned.slot is None
            assert (planned.in_rank == went).all() and (planned.tokens_per_rank == went.sum(0)).all()
            assert (planned.tokens_per_expert == np.bincount(idx.ravel(), minlength=16)).all()
            into = rank.receive(layout="packed", alignment=4, zero_padding=True)
            operation = rank.dispatch(x, idx, weights, into=into, route=route)
            came = [tokens[r][1] for r in range(2)]
            rows = [(r, t) for r in range(2) for t in range(16) if (came[r][t] // 2 == i).any()]
            counts = [sum(int((one == 2 * i + e).sum()) for one in came) for e in range(2)]
            info, arrays = route.wait(), route.arrays()
            assert info == ep.RouteInfo(operation.number, 1, counts, len(rows), int(into.expert_end[1] + 3) // 4 * 4,
                                        2, 0)
            assert list(zip(arrays.src_rank.tolist(), arrays.src_token.tolist())) == rows
            assert arrays.rank_end[:2].tolist() == [sum(r == 0 for r, _ in rows), len(rows)]
            assert (arrays.expert_end == into.expert_end).all() and into.expert_end[0] == counts[0]
            assert (arrays.slot == into.slot[: len(rows)]).all()
            for (r, t), slots in zip(rows, arrays.slot):
                for k in range(2):
                    at = slots[k]
                    assert (at == -1) == (came[r][t][k] // 2 != i)
                    assert at == -1 or ((into.x[at] == tokens[r][0][t]).all() and into.src_token[at] == t)
            assert route.arrays(rows=3).src_rank.shape == (3,)
            with pytest.raises(weft.errors.InvalidError, match="128"):
                route.arrays(rows=129)
            with pytest.raises(ValueError):
                arrays.slot[0] = 1
            operation.finish()
            rank.barrier()

    in_threads(2, run)


@pytest.mark.parametrize("letter", ["<i8", "<i4"])
def test_no_tokens_fill_a_route(alone: ep.Rank, letter: str) -> None:
    """A top-k of no tokens that has no address, as an empty tensor of torch, is no None."""

    class Empty:
        __array_interface__: ClassVar[dict[str, Any]] = {"data": (0, False), "typestr": letter, "shape": (0, 2),
                                                         "version": 3}

    into, nothing = alone.receive(layout="rank_major"), np.zeros((0, HIDDEN), np.uint16)
    with alone.route() as route:
        alone.dispatch(nothing, Empty(), np.zeros((0, 2), np.float32), into=into, route=route).finish()
        assert route.wait().num_rows == 0
        alone.dispatch(nothing, into=into, route=route).finish()


def test_halves_and_two_open_by_one_route(alone: ep.Rank) -> None:
    x, idx, weights = tokens_of(0, 1)
    into, out = [alone.receive(), alone.receive()], sums()
    with alone.route() as route:
        op = alone.dispatch_send(x, idx, weights, route=route)
        with pytest.raises(weft.errors.BusyError):
            route.plan(idx)
        assert route.arrays().src_rank is None
        with pytest.raises(TimeoutError):
            route.wait(0)
        with pytest.raises(weft.errors.InvalidError, match="not been received"):
            alone.combine_route(route, into[0].x, out)
        alone.dispatch_recv(op, into[0])
        assert route.wait().op == op
        alone.finish(op)
        ops = [alone.dispatch_send(x, route=route) for _ in range(2)]
        for number, room in zip(ops, into):
            alone.dispatch_recv(number, room)
        for number, room in zip(ops, into):
            alone.combine(number, room.x, out)
            assert (out == x).all()
        major = alone.receive(layout="rank_major")  # in another layout than the first time
        alone.dispatch(x, into=major, route=route).combine(major.x, out)
        assert (out == x).all()
        kept = alone.combine_route(route, into[0].x, out, keep=True)
        kept.combine(into[1].x, out)
        assert (out == x).all()


def test_weights_go_back(alone: ep.Rank) -> None:
    """RANK_MAJOR: the gradients of the weights come back at the places of the top-k."""
    x, idx, weights = tokens_of(0, 1)
    major = alone.receive(layout="rank_major", keep_places=True)
    out, back = sums(), np.zeros((16, 2), np.float32)
    with alone.route() as route:
        alone.dispatch(x, idx, weights, into=major, route=route).finish()
        given = np.arange(2 * 128, dtype=np.float32).reshape(128, 2)
        given = np.ascontiguousarray(np.resize(given, (major.rows, 2)))
        alone.combine_route(route, major.x, out, row_weights=given, out_weights=back)
        assert (back[major.src_token[:16]] == given[:16]).all() and (out == x).all()


class Last(np.ndarray):
    """An array that calls something when it goes."""

    def __del__(self) -> None:
        self.then()


def going(array: np.ndarray, then: Any) -> np.ndarray:
    last = array.view(Last)
    last.then = then
    return last


@pytest.mark.parametrize("ending", ["combine", "finish"])
def test_an_array_that_goes_with_its_operation_uses_the_rank(alone: ep.Rank, ending: str) -> None:
    """Once the call has noted all: what the array's end begins is not undone by it."""
    x, idx, weights = tokens_of(0, 1)
    into, out, begun = alone.receive(), sums(), []
    with alone.route() as route:
        def then() -> None:
            alone.dispatch(x, idx, weights, into=into).combine(into.x, out)
            begun.append(alone.dispatch_send(x, idx, weights, route=route))  # in the same place

        op = alone.dispatch_send(going(x.copy(), then), idx, weights)
        alone.dispatch_recv(op, into)
        if ending == "combine":
            alone.combine(op, into.x, out)
        else:
            alone.finish(op)
        assert begun == [op + 2]
        alone.dispatch_recv(begun[0], into)
        assert route.arrays().src_rank is not None
        alone.combine(begun[0], into.x, out)
        assert (out == x).all()


def test_checked_route(alone: ep.Rank) -> None:
    x, idx, weights = tokens_of(0, 1)
    into, out = alone.receive(), sums()
    with alone.route() as route:
        with pytest.raises(weft.errors.InvalidError, match="plan or fill"):
            alone.dispatch(x, idx, weights, into=into, route=route, check_route=True)
        route.plan(idx)
        alone.dispatch(x, idx, weights, into=into, route=route, check_route=True).combine(into.x, out)  # it fills
        filled = route.wait().op
        alone.dispatch(x, idx, into=into, route=route, check_route=True).combine(into.x, out)  # it goes by
        assert route.wait().op == filled and (out == x).all()
        changed = idx.copy()
        changed[3, 1] ^= 1
        with pytest.raises(weft.errors.InvalidError, match=r"topk_idx\[3\]\[1\]"):
            alone.dispatch(x, changed, into=into, route=route, check_route=True)
        alone.combine_route(route, into.x, out)
        assert (out == x).all()


def test_refused(alone: ep.Rank, store: weft.Store) -> None:
    x, idx, weights = tokens_of(0, 1)
    into, out = alone.receive(), sums()
    for wrong, match in (({"alignment": 257}, "256"), ({"max_tokens": 17}, "16"), ({"topk": 3}, "2")):
        with pytest.raises(weft.errors.InvalidError, match=match):
            alone.route(**wrong)
    with alone.route() as route:
        for call in (lambda: alone.dispatch(x, into=into, route=route), route.wait,
                     lambda: alone.combine_route(route, into.x, out)):
            with pytest.raises(weft.errors.InvalidError, match="no dispatch"):
                call()
        for wrong_idx in (idx.astype(np.int32), idx[:, :1], idx[0], "x", None):
            with pytest.raises(TypeError, match="topk_idx"):
                route.plan(wrong_idx)
        with pytest.raises(weft.errors.RoomError):
            route.plan(np.zeros((17, 2), np.int64))
        with pytest.raises(TypeError, match="topk_idx"):
            alone.dispatch(x, into=into)
        alone.dispatch(x, idx, weights, into=into, route=route).finish()
        with pytest.raises(weft.errors.InvalidError, match="rows"):
            alone.dispatch(x[:8], into=into, route=route)
        with pytest.raises(weft.errors.InvalidError, match="topk_weights"):
            alone.dispatch(x, None, weights, into=into, route=route)
        with pytest.raises(weft.errors.InvalidError, match="y"):
            alone.combine_route(route, into.x[:1], out)
        with pytest.raises(weft.errors.InvalidError, match="out"):
            alone.combine_route(route, into.x, out[:15])
        with ep.Rank(store, rank=0, founders=[0], prefix="/other/", **SIZES) as other:
            other.activate()
            with pytest.raises(weft.errors.InvalidError):
                other.dispatch(x, into=into, route=route)
    with pytest.raises(weft.errors.ClosedError, match="route"):
        alone.dispatch(x, into=into, route=route)
    with alone.route(max_rows=3) as short:
        alone.dispatch(x, idx, weights, into=into, route=short).finish()
        with pytest.raises(weft.errors.RoomError) as failure:
            short.wait()
        assert failure.value.rows_needed == 16
        with pytest.raises(weft.errors.RoomError):
            alone.dispatch(x, into=into, route=short)


def test_joiner_makes_a_conflict(store: weft.Store) -> None:
    joined = threading.Event()

    def joiner() -> None:
        with ep.Rank(store, rank=1, join_only=True, **SIZES) as rank:
            rank.offer()
            joined.set()
            rank.await_start(30)
            x, idx, weights = tokens_of(1, 2)
            into, out = rank.receive(), sums()
            rank.dispatch(x, idx, weights, into=into).combine(into.x, out)
            assert (out == x).all()
            rank.barrier()

    def founder() -> None:
        with ep.Rank(store, rank=0, founders=[0], **SIZES) as rank, rank.route() as route:
            rank.activate()
            x, idx, weights = tokens_of(0, 1)
            into, out = rank.receive(), sums()
            rank.dispatch(x, idx, weights, into=into, route=route).finish()
            assert joined.wait(30)
            rank.change(add=[1])
            with pytest.raises(weft.errors.ConflictError, match="rank 1 has joined"):
                while True:
                    rank.dispatch(x, into=into, route=route).finish()
            with pytest.raises(weft.errors.ConflictError):
                rank.combine_route(route, into.x, out)
            with pytest.raises(weft.errors.ConflictError):
                route.wait()
            assert len(route.arrays().src_rank) == 16
            rank.dispatch(x, idx, weights, into=into, route=route).combine(into.x, out)  # fills it again
            assert (out == x).all() and route.wait().num_ranks == 2
            rank.barrier()

    in_threads(2, lambda i: (founder, joiner)[i]())


def test_ranks_that_disagree(store: weft.Store) -> None:
    def run(i: int) -> None:
        with ep.Rank(store, rank=i, founders=range(2), **SIZES) as rank, rank.route() as one, rank.route() as other:
            rank.activate()
            x, idx, weights = tokens_of(i, 2)
            into, out = rank.receive(), sums()
            for route in (one, other):
                rank.dispatch(x, idx, weights, into=into, route=route).finish()
            with pytest.raises(weft.errors.ProtocolError):
                rank.dispatch(x, into=into, route=(one, other)[i])
            rank.dispatch(x, into=into, route=one).combine(into.x, out)  # and goes on
            assert (out == x).all()
            rank.barrier()

    in_threads(2, run)


def test_its_life(store: weft.Store) -> None:
    """Arrays keep the memory; a route may go before, while and after its rank is closed, and in any thread."""
    x, idx, weights = tokens_of(0, 1)
    rank = ep.Rank(store, rank=0, founders=[0], **SIZES)
    rank.activate()
    into = rank.receive()
    routes = [rank.route() for _ in range(3)]
    for route in routes:
        rank.dispatch(x, idx, weights, into=into, route=route).finish()
    arrays = [route.arrays() for route in routes]
    routes[0].close()
    routes[0].close()
    assert routes[0].closed and not routes[1].closed
    del routes[2], route  # a route that nobody has, of which somebody has an array
    gc.collect()
    rank.close()
    assert routes[1].closed
    for call in (routes[1].wait, routes[1].arrays, lambda: routes[1].plan(idx)):
        with pytest.raises(weft.errors.ClosedError):
            call()
    routes.clear()
    gc.collect()
    for one in arrays:
        assert one.src_token.tolist() == list(range(16)) and (one.in_rank[:, 0] == 1).all()


def test_freed_while_a_call_waits(store: weft.Store) -> None:
    """A route that is dropped by another thread waits until the call that is in its rank has ended."""
    def run(i: int) -> None:
        with ep.Rank(store, rank=i, founders=range(2), **SIZES) as rank:
            rank.activate()
            x, idx, weights = tokens_of(i, 2)
            into = rank.receive()
            for _ in range(20):
                routes = [rank.route() for _ in range(4)]
                dropper = threading.Thread(target=routes.clear)
                dropper.start()
                rank.dispatch(x, idx, weights, into=into).finish()
                dropper.join()
            rank.barrier()

    in_threads(2, run)


def test_closed_while_its_call_waits(store: weft.Store) -> None:
    """The call goes on by what it holds."""
    closed = threading.Event()

    def run(i: int) -> None:
        with ep.Rank(store, rank=i, founders=range(2), **SIZES) as rank:
            rank.activate()
            x, idx, weights = tokens_of(i, 2)
            into, out, route = rank.receive(), sums(), rank.route()
            rank.dispatch(x, idx, weights, into=into, route=route).finish()

            def close_it() -> None:
                with pytest.raises(weft.errors.BusyError):  # once the combine waits for the other rank
                    while rank.active:
                        threading.Event().wait(0.001)
                route.close()
                closed.set()

            closer = threading.Thread(target=close_it)
            if i == 0:
                closer.start()
            else:
                assert closed.wait(30)
            rank.combine_route(route, into.x, out)
            assert (out == x).all()
            if i == 0:
                closer.join()
                with pytest.raises(weft.errors.ClosedError):
                    rank.combine_route(route, into.x, out)
            rank.barrier()

    in_threads(2, run)
