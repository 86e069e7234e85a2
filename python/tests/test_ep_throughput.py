"""Many tokens an operation, through small windows, and what a call says of its own: layouts, types, top-k, opaque rows,
biases, weights that go back. Sums are compared with those that numpy computes; all values are exact in bf16."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from conftest import bf16, in_threads

import weft
from weft import ep

RANKS, TOKENS, HIDDEN, EXPERTS, TOPK, CAPACITY = 2, 2000, 256, 3, 4, 4
WINDOW = 64 << 10  # the rows of an operation are thirty times as many bytes
SIZES: dict[str, Any] = {"hidden": HIDDEN, "topk": TOPK, "experts_per_rank": EXPERTS, "max_tokens": TOKENS,
                         "capacity": CAPACITY}


def widened(values: np.ndarray) -> np.ndarray:
    """bf16 as f32."""
    return (values.astype(np.uint32) << 16).view(np.float32)


class Tokens:
    """What a rank dispatches: every token selects `topk` different experts, or none in some places."""

    def __init__(self, rank: int, count: int = TOKENS, topk: int = TOPK) -> None:
        random = np.random.default_rng(rank)
        self.values = random.integers(-4, 5, (count, HIDDEN)).astype(np.float32)
        self.x = bf16(self.values)
        self.idx = random.permuted(np.tile(np.arange(RANKS * EXPERTS), (count, 1)), axis=1)[:, :topk].copy()
        self.idx[random.random((count, topk)) < 0.1] = -1
        self.weights = random.choice([0.25, 0.5], (count, topk)).astype(np.float32)

    def sums(self, weighted: bool = True) -> np.ndarray:
        """What comes back: expert e multiplies by 1 + e % 2."""
        factors = np.where(self.idx < 0, 0, 1 + self.idx % 2) * (self.weights if weighted else 1)
        return self.values * factors.sum(1, keepdims=True)


def outputs(rank: int, into: ep.Receive, info: ep.Info) -> np.ndarray:
    """What this rank's experts make of what they got."""
    x = widened(into.x)
    factors = 1 + (rank * EXPERTS + np.arange(EXPERTS)) % 2
    if into.layout == ep.Layout.PER_EXPERT:
        return bf16(x * factors[:, None, None])
    if into.layout == ep.Layout.RANK_MAJOR:
        own = np.where(into.local_expert < 0, 0, factors[into.local_expert]) * into.weights
        return bf16(x * own.sum(1, keepdims=True))
    begin = 0
    for e in range(EXPERTS):
        x[begin : into.expert_end[e]] *= factors[e]
        begin = int(into.expert_end[e])
    return bf16(x)


def with_ranks(store: weft.Store, run: Any, **options: Any) -> None:
    def one(i: int) -> None:
        with ep.Rank(store, rank=i, founders=range(RANKS), op_timeout=30, **{**SIZES, **options}) as rank:
            rank.activate()
            run(rank)
            rank.barrier()

    in_threads(RANKS, one)


FLOWS: dict[str, Any] = {"mode": "throughput", "window_bytes": WINDOW, "max_rows": RANKS * TOKENS}


@pytest.mark.parametrize("layout", ["per_expert", "rank_major", "packed"])
def test_many_tokens_through_a_small_window(store: weft.Store, layout: str) -> None:
    def run(rank: ep.Rank) -> None:
        tokens, out = Tokens(rank.index), np.zeros((TOKENS, HIDDEN), np.uint16)
        parts = {"per_expert": 1, "rank_major": 1, "packed": EXPERTS}[layout]
        into = rank.receive(RANKS * TOKENS * parts, layout=layout, **({"alignment": 16} if parts > 1 else {}))
        for count in (TOKENS, 1, 0):
            operation = rank.dispatch(tokens.x[:count], tokens.idx[:count], tokens.weights[:count], into=into)
            assert operation.info is not None
            result = operation.combine(outputs(rank.index, into, operation.info), out[:count])
            assert result is not None and result.num_missing == 0
            assert (widened(out[:count]) == tokens.sums()[:count]).all()
        assert rank.stats.window_bytes <= CAPACITY * 2 * WINDOW

    with_ranks(store, run, **FLOWS)


def test_route_of_many_tokens(store: weft.Store) -> None:
    def run(rank: ep.Rank) -> None:
        tokens, out = Tokens(rank.index), np.zeros((TOKENS, HIDDEN), np.uint16)
        into, again = rank.receive(RANKS * TOKENS), rank.receive(RANKS * TOKENS)
        with rank.route(max_rows=RANKS * TOKENS) as route:
            rank.dispatch(tokens.x, tokens.idx, tokens.weights, into=into, route=route).finish()
            operation = rank.dispatch(tokens.x, into=again, route=route)
            assert operation.info is not None and (into.x == again.x).all() and (into.counts == again.counts).all()
            operation.finish()
            rank.combine_route(route, outputs(rank.index, into, operation.info), out)
            assert (widened(out) == tokens.sums()).all()

    with_ranks(store, run, **FLOWS)


def test_packed_rows(store: weft.Store) -> None:
    """Alignment, padding, and prefix sums of packed rows."""
    def run(rank: ep.Rank) -> None:
        tokens = Tokens(rank.index, 100)
        into = rank.receive(2000, layout="packed", alignment=32, zero_padding=True,
                            range=np.zeros((EXPERTS, CAPACITY), np.int64))
        into.x[:], into.src_token[:] = 0x4000, 7
        rank.dispatch(tokens.x, tokens.idx, tokens.weights, into=into).finish()
        begin, used = 0, np.zeros(2000, bool)
        for e in range(EXPERTS):
            assert into.expert_end[e] == begin + into.counts[e]
            sources = [(int(one) >> 32, int(one) & 0xFFFFFFFF) for one in into.range[e, :RANKS]]
            assert sources[0][0] == 0 and sources[1] == (sources[0][1], into.counts[e] - sources[0][1])
            used[begin : into.expert_end[e]] = True
            begin = (int(into.expert_end[e]) + 31) // 32 * 32
        assert (into.x[:begin][~used[:begin]] == 0).all() and (into.src_token[:begin][~used[:begin]] == -1).all()
        assert (into.x[begin:] == 0x4000).all()  # what lies behind stays
        for r in range(RANKS):
            other = Tokens(r, 100)
            for t in range(100):
                at = int((into.src_rank[used] * 1000 + into.src_token[used] == r * 1000 + t).sum())
                assert at == int((other.idx[t][other.idx[t] >= 0] // EXPERTS == rank.index).sum())

    with_ranks(store, run, mode="latency", max_tokens=128)


def test_rank_major_weights(store: weft.Store) -> None:
    """Local experts and weights at their places of the top-k, and weights that go back to them."""
    def run(rank: ep.Rank) -> None:
        tokens = Tokens(rank.index, 100)
        out, back = np.zeros((100, HIDDEN), np.uint16), np.full((100, TOPK), -1, np.float32)
        into = rank.receive(RANKS * 100, layout="rank_major", keep_places=True)
        operation = rank.dispatch(tokens.x, tokens.idx, tokens.weights, into=into)
        assert operation.info is not None
        for row in range(operation.info.num_rows):
            other = Tokens(int(into.src_rank[row]), 100)
            idx = other.idx[into.src_token[row]]
            own = (idx >= 0) & (idx // EXPERTS == rank.index)
            assert (into.local_expert[row] == np.where(own, idx % EXPERTS, -1)).all()
            assert (into.weights[row] == np.where(own, other.weights[into.src_token[row]], 0)).all()
        operation.combine(outputs(rank.index, into, operation.info), out, row_weights=3 * into.weights,
                          out_weights=back)
        assert (back == np.where(tokens.idx < 0, 0, 3 * tokens.weights)).all()
        assert (widened(out) == tokens.sums()).all()

    with_ranks(store, run, max_tokens=128)


def test_packed_weights(store: weft.Store) -> None:
    """The weight of each packed row, and weights that go back with packed rows, also by a route."""
    def run(rank: ep.Rank) -> None:
        tokens = Tokens(rank.index, 100)
        out, back = np.zeros((100, HIDDEN), np.uint16), np.full((100, TOPK), -1, np.float32)
        into = rank.receive(2000, layout="packed", alignment=32, zero_padding=True)
        into.weights[:] = 7
        with rank.route() as route:
            operation = rank.dispatch(tokens.x, tokens.idx, tokens.weights, into=into, route=route)
            assert operation.info is not None
            begin = 0
            for e in range(EXPERTS):
                for row in range(begin, into.expert_end[e]):
                    other, token = Tokens(int(into.src_rank[row]), 100), into.src_token[row]
                    mine = other.idx[token] == rank.index * EXPERTS + e
                    assert into.weights[row] == other.weights[token][mine]
                begin = (int(into.expert_end[e]) + 31) // 32 * 32
                assert (into.weights[into.expert_end[e] : begin] == 0).all()
            assert (into.weights[begin:] == 7).all()
            y = outputs(rank.index, into, operation.info)
            operation.combine(y, out, row_weights=3 * into.weights, out_weights=back)
            assert (back == np.where(tokens.idx < 0, 0, 3 * tokens.weights)).all()
            assert (widened(out) == tokens.sums()).all()
            rank.combine_route(route, y, out, row_weights=5 * into.weights, out_weights=back, unweighted=True)
            assert (back == np.where(tokens.idx < 0, 0, 5 * tokens.weights)).all()
            assert (widened(out) == tokens.sums(weighted=False)).all()

    with_ranks(store, run, max_tokens=128)


def test_biases_and_unweighted(store: weft.Store) -> None:
    def run(rank: ep.Rank) -> None:
        tokens, out = Tokens(rank.index, 100), np.zeros((100, HIDDEN), np.uint16)
        into = rank.receive(RANKS * 100)
        biases = [bf16(np.full((100, HIDDEN), value)) for value in (2.0, 0.25)]
        for count in range(3):
            operation = rank.dispatch(tokens.x, tokens.idx, tokens.weights, into=into)
            assert operation.info is not None
            operation.combine(outputs(rank.index, into, operation.info), out, bias=biases[:count])
            assert (widened(out) == tokens.sums() + (0, 2, 2.25)[count]).all()
        operation = rank.dispatch(tokens.x, tokens.idx, tokens.weights, into=into)
        with pytest.raises(weft.errors.InvalidError, match="two"):
            operation.combine(into.x, out, bias=[*biases, biases[0]])
        assert operation.info is not None
        operation.combine(outputs(rank.index, into, operation.info), out, unweighted=True)
        assert (widened(out) == tokens.sums(weighted=False)).all()

    with_ranks(store, run, max_tokens=128)


def test_missing_weights_are_made_up_for(store: weft.Store) -> None:
    with ep.Rank(store, rank=0, founders=[0], **{**SIZES, "max_tokens": 16}) as rank:
        rank.activate()
        x, out = bf16(np.full((4, HIDDEN), 2.0)), np.zeros((4, HIDDEN), np.uint16)
        idx, weights = np.array([[0, 5]] * 4), np.full((4, 2), 0.5, np.float32)  # nobody has expert 5
        into = rank.receive(16)
        for renormalize in (False, True):
            result = rank.dispatch(x, idx, weights, into=into).combine(into.x, out, renormalize=renormalize)
            assert result is not None and result.num_missing == 4
            assert (widened(out) == (2.0 if renormalize else 1.0)).all()


def test_what_each_call_says(store: weft.Store) -> None:
    """A group of bf16 and top-4 has room for every type and fewer selections."""
    def run(rank: ep.Rank) -> None:
        out = np.zeros((100, HIDDEN), np.uint16)
        for dtype, combine_dtype, topk in (("bf16", "bf16", 4), ("fp8", "logfmt10", 2), ("fp8_pow2", "bf16", 1),
                                           ("fp8_ue8m0", "bf16", 3), ("bf16", "logfmt10", 4)):
            tokens = Tokens(rank.index, 100, topk)
            sent = [Tokens(r, 100, topk).x for r in range(RANKS)]
            into = rank.receive(RANKS * 100, dtype=dtype, topk=topk)
            operation = rank.dispatch(tokens.x, tokens.idx, tokens.weights, into=into, dtype=dtype)
            y = np.zeros((EXPERTS, RANKS * 100, HIDDEN), np.uint16)
            for e in range(EXPERTS):
                for row in range(into.counts[e]):
                    y[e, row] = sent[into.src_rank[e, row]][into.src_token[e, row]]
            if dtype != "bf16":
                assert into.x.dtype == np.uint8 and (into.scales[0, : into.counts[0]] != 0).all()
            operation.combine(y, out, dtype=combine_dtype)
            wanted = tokens.values * np.where(tokens.idx < 0, 0, tokens.weights).sum(1, keepdims=True)
            worst = 0.08 if combine_dtype == "logfmt10" else 0
            assert (abs(widened(out) - wanted) <= worst * (1 + abs(wanted))).all()

    with_ranks(store, run, max_tokens=128)


def test_opaque_rows(store: weft.Store) -> None:
    """Bytes of the caller's, with 4-byte units of scales beside them: NVFP4, for example."""
    def run(rank: ep.Rank) -> None:
        tokens = Tokens(rank.index, 100)
        random = np.random.default_rng(rank.index)
        rows = random.integers(0, 256, (100, 128), np.uint8)
        scales = random.integers(0, 2**32, (4, 100), np.uint32)
        into = rank.receive(RANKS * 100, layout="rank_major", dtype="opaque", row_bytes=128, scale_bytes=16)
        operation = rank.dispatch(rows, tokens.idx, tokens.weights, into=into, dtype="opaque", scales=scales.T)
        assert operation.info is not None and into.x.shape == (200, 128) and into.scales.shape == (200, 4)
        here = np.flatnonzero(into.src_rank[: operation.info.num_rows] == rank.index)
        assert len(here) > 50
        for row in here:
            token = into.src_token[row]
            assert (into.x[row] == rows[token]).all() and (into.scales[row] == scales[:, token]).all()
        operation.finish()
        with pytest.raises(weft.errors.InvalidError, match="into"):  # rows are longer than those it was made for
            rank.dispatch(np.zeros((1, 256), np.uint8), tokens.idx[:1], tokens.weights[:1], into=into, dtype="opaque")

    with_ranks(store, run, max_tokens=128)


def test_number_of_tokens_in_memory(store: weft.Store) -> None:
    with ep.Rank(store, rank=0, founders=[0], **{**SIZES, "max_tokens": 16}) as rank, rank.route() as route:
        rank.activate()
        x, out = bf16(np.full((8, HIDDEN), 2.0)), np.zeros((8, HIDDEN), np.uint16)
        idx, weights = np.array([[0, 1]] * 8), np.full((8, 2), 0.5, np.float32)
        into, count = rank.receive(16), np.array([5], np.uint32)
        operation = rank.dispatch(x, idx, weights, into=into, num_tokens_at=count, route=route)
        assert operation.info is not None and operation.info.num_rows == 10
        operation.combine(into.x, out)
        assert (out[:5] == x[:5]).all() and (out[5:] == 0).all()
        assert route.arrays().in_rank.shape == (5, CAPACITY)
        rank.dispatch(x, into=into, route=route).combine(into.x, out)
        count[0] = 9
        with pytest.raises(weft.errors.InvalidError):
            rank.dispatch(x, idx, weights, into=into, num_tokens_at=count)


ALONE: dict[str, Any] = {**SIZES, "rank": 0, "founders": [0], "max_tokens": 16, "mode": "throughput",
                         "zero_copy_bytes": 1 << 16}


def in_zero_copy(rank: ep.Rank, kind: Any = np.uint16) -> np.ndarray:
    """All of a rank's zero-copy memory as an array."""
    return np.frombuffer(rank.zero_copy, kind)  # type: ignore[call-overload]


@pytest.mark.parametrize("parts", ["whole", "halves"])
def test_rows_in_zero_copy_memory(store: weft.Store, parts: str) -> None:
    """They give what rows in other memory give: in a dispatch, a combine, and a receive."""
    def run(rank: ep.Rank) -> None:
        tokens, outs = Tokens(rank.index), []
        memory = in_zero_copy(rank).reshape(-1, HIDDEN)
        assert memory.shape == ((1 + RANKS) * TOKENS, HIDDEN) and not memory.any()
        x, y = memory[:TOKENS], memory[TOKENS:]
        x[:] = tokens.x
        plain = rank.receive(RANKS * TOKENS, layout="rank_major")
        there = rank.receive(RANKS * TOKENS, layout="rank_major", x=y)
        for own, into in ((False, plain), (True, plain), (True, there)):
            sent, out = (x if own else tokens.x), np.zeros((TOKENS, HIDDEN), np.uint16)
            if parts == "whole":
                operation = rank.dispatch(sent, tokens.idx, tokens.weights, into=into)
                info, op = operation.info, operation.number
            else:
                op = rank.dispatch_send(sent, tokens.idx, tokens.weights)
                info = rank.dispatch_recv(op, into)
            assert info is not None and (into.x[: info.num_rows] == rows_of(into, info)).all()
            made = outputs(rank.index, into, info)
            if own:
                y[:] = made
            if parts == "whole":
                rank.combine(op, y if own else made, out)
            else:
                rank.combine_send(op, y if own else made, out)
                rank.combine_recv(op, y if own else made, out)
            outs.append(out)
        assert (widened(outs[0]) == tokens.sums()).all()
        assert (outs[1] == outs[0]).all() and (outs[2] == outs[0]).all()
        assert (x == tokens.x).all()

    def rows_of(into: ep.Receive, info: ep.Info) -> np.ndarray:
        sent = np.stack([Tokens(r).x for r in range(RANKS)])
        return sent[into.src_rank[: info.num_rows], into.src_token[: info.num_rows]]

    window = WINDOW if parts == "whole" else 8 << 20  # halves send all rows at once
    with_ranks(store, run, **{**FLOWS, "window_bytes": window}, zero_copy_bytes=(1 + RANKS) * TOKENS * HIDDEN * 2)


def test_zero_copy_memory(store: weft.Store) -> None:
    with ep.Rank(store, **{**ALONE, "zero_copy_bytes": 0}) as rank:
        assert rank.zero_copy is None
    with ep.Rank(store, **ALONE) as rank:
        memory = rank.zero_copy
        assert memory is not None and memory.length == 1 << 16 and memory.device == -1 and memory.address % 4096 == 0
        assert not hasattr(memory, "__cuda_array_interface__")
        view = in_zero_copy(rank)
        view[:] = 3
        assert (memoryview(memory)[:2] == b"\3\0") and (in_zero_copy(rank) == 3).all()  # it is the same each time
        with pytest.raises(weft.errors.BusyError, match="1 views"):
            rank.close()
        assert not rank.closed and rank.index == 0
        held = weft.Buffer(view[8:])
        del view
        with pytest.raises(weft.errors.BusyError, match="views"):
            rank.close()
        assert held.address == memory.address + 16
        del held
    assert rank.closed
    with pytest.raises(BufferError, match="closed"):
        memoryview(memory)  # type: ignore[arg-type]
    with pytest.raises(weft.errors.ClosedError):
        rank.zero_copy  # noqa: B018
    for wrong in ({"mode": "latency"}, {"mode": "default"}, {"zero_copy_bytes": 1 << 60}):
        with pytest.raises(weft.Error, match="zero_copy_bytes") as caught:
            ep.Rank(store, **{**ALONE, **wrong})
        assert isinstance(caught.value, weft.errors.InvalidError) or "mode" not in wrong
    for value in (-1, "many", 1 << 64):
        with pytest.raises(TypeError, match="zero_copy_bytes"):
            ep.Rank(store, **{**ALONE, "zero_copy_bytes": value})


def test_a_rank_closes_with_operations_in_zero_copy_memory(store: weft.Store) -> None:
    """What the rank itself keeps for open operations is no view that anybody has."""
    idx, weights = np.array([[0, 1]] * 16), np.full((16, 2), 0.5, np.float32)
    for in_place in (False, True):
        with ep.Rank(store, **ALONE) as rank:
            rank.activate()
            memory = in_zero_copy(rank)
            x, counts = memory[: 16 * HIDDEN].reshape(16, HIDDEN), in_zero_copy(rank, np.int32)[-EXPERTS:]
            x[:] = bf16(np.full((16, HIDDEN), 2.0))
            if in_place:
                into = rank.receive(16, layout="rank_major", in_place=True, counts=counts)
                op = rank.dispatch(x, idx, weights, into=into).number
                del into
            else:
                op = rank.dispatch_send(x, idx, weights)
            with pytest.raises(weft.errors.BusyError, match="views"):
                rank.close()
            if not in_place:  # it goes on where it was
                into, out = rank.receive(16, layout="rank_major"), np.zeros((16, HIDDEN), np.uint16)
                rank.dispatch_recv(op, into)
                rank.combine_send(op, into.x, out)
                assert (into.x == x).all()
            del x, counts, memory
        assert rank.closed


def test_a_dropped_rank_ends_with_the_last_view(store: weft.Store) -> None:
    rank = ep.Rank(store, **ALONE)
    memory = in_zero_copy(rank)
    view = memory[8:]
    del rank, memory
    gc.collect()
    view[:] = 7
    free = {**ALONE, "rank": None, "founders": []}
    with ep.Rank(store, **free) as other:
        assert other.index == 1  # the first is there still
    assert (view == 7).all()
    del view
    with ep.Rank(store, **free) as other:
        assert other.index == 0


def test_an_exception_is_reported_though_it_holds_views(store: weft.Store) -> None:
    with pytest.raises(KeyError):
        with ep.Rank(store, **ALONE) as rank:
            view = in_zero_copy(rank)
            raise KeyError("of the caller")
    assert not rank.closed
    view[:] = 7
    del view
    assert rank.closed


def test_wrong_sizes(store: weft.Store) -> None:
    for wrong in ({"window_bytes": 100}, {"max_tokens": 10**6}, {"mode": "latency"}):
        with pytest.raises(weft.errors.InvalidError):
            ep.Rank(store, rank=0, founders=[0], **{**SIZES, **FLOWS, **wrong})
    with pytest.raises(ValueError, match="fast"):
        ep.Rank(store, mode="fast")
