"""What the ranks of test_throughput.py do with the high-throughput calls of deep_ep.Buffer."""

from __future__ import annotations

import os
import signal
from typing import Any

import torch
import torch.distributed as dist
import weft
from ep_reference import Launches, check_sums, refused, tokens_of
from ep_world import join, wait_for

import deep_ep
from deep_ep.utils.math import align, per_token_cast_back, per_token_cast_to_fp8

H, K, E = 512, 4, 3
LIMIT = 256


def begin(rank: int, ranks: int, store: Any, **options: Any) -> deep_ep.Buffer:
    """A buffer whose groups have room for LIMIT tokens of a rank."""
    os.environ["WEFT_EP_MAX_TOKENS"] = str(LIMIT)
    join(rank, ranks, store)
    return deep_ep.Buffer(dist.group.WORLD, num_nvl_bytes=1 << 20, explicitly_destroy=True, **options)


def finish(buffer: Any) -> None:
    """All leave together."""
    dist.barrier()
    buffer.destroy()
    dist.destroy_process_group()


def inputs_of(ranks: int, seed: int = 0) -> list[Any]:
    """The tokens of all ranks: of each another number, and none of the last of three."""
    return [tokens_of(r, ranks, tokens=0 if r == 2 else 90 + 30 * r, hidden=H, topk=K, experts=E * ranks, seed=seed)
            for r in range(ranks)]


def sent_to(inputs: list[Any], me: int) -> list[tuple[int, torch.Tensor]]:
    """Of each rank the tokens that have an expert of this one, ascending."""
    return [(r, ((idx >= me * E) & (idx < (me + 1) * E)).any(1).nonzero().flatten())
            for r, (_, idx, _) in enumerate(inputs)]


def expected(inputs: list[Any], me: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, list[int]]:
    """Rows, local experts and weights that this rank has to receive, and the rows of the ranks up to each."""
    rows, local, weights, ends = [], [], [], []
    for r, tokens in sent_to(inputs, me):
        x, idx, w = inputs[r]
        idx = idx[tokens] - me * E
        mine = (idx >= 0) & (idx < E)
        rows.append(x[tokens])
        local.append(idx.masked_fill(~mine, -1))
        weights.append(w[tokens].masked_fill(~mine, 0))
        ends.append(len(tokens) + (ends[-1] if ends else 0))
    return torch.cat(rows), torch.cat(local), torch.cat(weights), ends


def ranks_of(idx: torch.Tensor, ranks: int) -> torch.Tensor:
    """bool [tokens][ranks]: whether a token has an expert of a rank."""
    return torch.stack([((idx >= r * E) & (idx < (r + 1) * E)).any(1) for r in range(ranks)], 1)


def layout_of(buffer: deep_ep.Buffer, idx: torch.Tensor, ranks: int) -> dict[str, Any]:
    """The answers of get_dispatch_layout, as arguments; each is looked at."""
    per_rank, per_rdma, per_expert, in_rank, _ = buffer.get_dispatch_layout(idx, E * ranks)
    assert torch.equal(in_rank, ranks_of(idx, ranks)) and in_rank.dtype == torch.bool and per_rdma is None
    assert per_rank.tolist() == in_rank.sum(0).tolist() and per_rank.dtype == torch.int32
    assert per_expert.tolist() == [int((idx == e).sum()) for e in range(E * ranks)] and per_expert.dtype == torch.int32
    return {"num_tokens_per_rank": per_rank, "is_token_in_rank": in_rank, "num_tokens_per_expert": per_expert}


def form_of(x: torch.Tensor, form: str) -> Any:
    """x as bf16 or with scales of some form: those of f32 column by column, as kernels leave them."""
    if form == "bf16":
        return x
    values, scales = per_token_cast_to_fp8(x, form == "ue8m0", form == "ue8m0")
    return values, scales if form == "ue8m0" else scales.t().contiguous().t()


def plain(x: Any) -> torch.Tensor:
    """x as bf16."""
    return x if isinstance(x, torch.Tensor) else per_token_cast_back(*x)


def same(one: Any, other: Any, rows: int | None = None) -> bool:
    """Whether received rows, and their scales, are equal bit by bit; with `rows` the first of them."""
    parts = [(part,) if isinstance(part, torch.Tensor) else part for part in (one, other)]
    return all(torch.equal(a[:rows].contiguous().view(torch.uint8), b[:rows].contiguous().view(torch.uint8))
               for a, b in zip(*parts))


def values(rank: int, ranks: int, store: Any) -> None:
    """Every type of rows: rows, local experts, weights, counts; the largest size; cached; sums of rows and weights."""
    buffer = begin(rank, ranks, store)
    for number, form in enumerate(("bf16", "fp8", "ue8m0")):
        inputs = inputs_of(ranks, number)
        x, idx, weights = inputs[rank]
        rows, local, of_rows, ends = expected(inputs, rank)
        layout = layout_of(buffer, idx, ranks)
        given = {"x": form_of(x, form), "topk_idx": idx, "topk_weights": weights, **layout}
        for alignment in (1, 32):
            received, got_idx, got_weights, counts, handle, event = buffer.dispatch(
                **given, expert_alignment=alignment, async_finish=True, previous_event=buffer.capture())
            event.current_stream_wait()
            assert torch.equal(plain(received), plain(form_of(rows, form)))
            assert torch.equal(got_idx, local) and got_idx.dtype == torch.int64
            assert torch.equal(got_weights, of_rows)
            assert counts == [align(int((local == e).sum()), alignment) for e in range(E)]
            assert handle[0][:, rank].tolist() == ends and handle[0].shape == (ranks, ranks)
            assert torch.equal(handle[0], next(iter(handle))) and torch.equal(handle[0], handle[:1][0])
        worst = ranks * LIMIT
        wide, wide_idx, wide_weights, none, _, _ = buffer.dispatch(**given, num_worst_tokens=worst)
        assert none == [] and plain(wide).shape == (worst, H) and wide_idx.shape == (worst, K)
        assert same(received, wide, len(rows)) and torch.equal(wide_idx[:len(rows)], got_idx)
        assert torch.equal(wide_weights[:len(rows)], got_weights) and (wide_idx[len(rows):] == -1).all()
        cached = buffer.dispatch(given["x"], handle=handle)
        assert same(received, cached[0]) and cached[1:5] == (None, None, None, None)
        for biases in (None, x, (x, x)):
            # What a caller has written to the places of other ranks' experts is added as well.
            sums, of_tokens, _ = buffer.combine(plain(received), handle, topk_weights=got_weights + 1, bias=biases)
            count = ranks_of(idx, ranks).sum(1, keepdim=True)
            added = 0 if biases is None else 1 if isinstance(biases, torch.Tensor) else 2
            check_sums(sums, plain(given["x"]).double() * count + added * x.double(), 0.01)
            assert torch.equal(of_tokens, weights.masked_fill(idx < 0, 0) + count)
    finish(buffer)


CODES: tuple[tuple[torch.dtype, torch.dtype | None, int], ...] = (
    (torch.float8_e4m3fn, torch.int32, H // 128),  # MXFP8: a byte for 32 values
    (torch.int8, torch.float32, 1), (torch.float8_e5m2, torch.float32, H // 128), (torch.uint8, torch.int32, H // 512),
    (torch.float8_e4m3fn, None, 0))
"""types of rows of bytes, and of their scales: each with the number of scales of a row"""


def coded(x: torch.Tensor, code: tuple[torch.dtype, torch.dtype | None, int]) -> Any:
    """Bytes of x as rows of other types, with strided scales."""
    values, kind, words = x.view(torch.uint8)[:, :H].contiguous().view(code[0]), code[1], code[2]
    return values if kind is None else (values, x.view(torch.int32)[:, -words:].view(kind))


def same_code(one: Any, other: Any, rows: int | None = None) -> bool:
    """Whether rows and scales are equal bit by bit, and of the same types."""
    parts = [(part,) if isinstance(part, torch.Tensor) else part for part in (one, other)]
    return [part.dtype for part in parts[0]] == [part.dtype for part in parts[1]] and same(one, other, rows)


def codes(rank: int, ranks: int, store: Any) -> None:
    """Rows of bytes in formats that the library does not know arrive as they are, in the caller's types."""
    buffer = begin(rank, ranks, store)
    for number, code in enumerate(CODES):
        inputs = inputs_of(ranks, number)
        x, idx, weights = inputs[rank]
        rows, local, of_rows, _ = expected(inputs, rank)
        given = {"topk_idx": idx, "topk_weights": weights, **layout_of(buffer, idx, ranks)}
        received, got_idx, got_weights, _, handle, _ = buffer.dispatch(coded(x, code), **given)
        assert same_code(received, coded(rows, code)), code
        assert torch.equal(got_idx, local) and torch.equal(got_weights, of_rows)
        wide = buffer.dispatch(coded(x, code), num_worst_tokens=ranks * LIMIT, **given)[0]
        assert same_code(wide, coded(rows, code), len(rows)), code
        assert same_code(buffer.dispatch(coded(x, code), handle=handle)[0], coded(rows, code)), code
        sums, _, _ = buffer.combine(rows, handle)
        check_sums(sums, x.double() * ranks_of(idx, ranks).sum(1, keepdim=True), 0.01)
    finish(buffer)


def without_topk(rank: int, ranks: int, store: Any) -> None:
    """By is_token_in_rank alone, as between hosts, with the counts that all ranks have said."""
    buffer = begin(rank, ranks, store)
    inputs = inputs_of(ranks)
    x, idx, _ = inputs[rank]
    rows, local, _, ends = expected(inputs, rank)
    for call in (buffer.dispatch, buffer.internode_dispatch):
        received, got_idx, got_weights, counts, handle, _ = call(x, **layout_of(buffer, idx, ranks))
        assert torch.equal(received, rows) and got_idx is None and got_weights is None
        assert counts == [int((local == e).sum()) for e in range(E)]
        sums, none, _ = buffer.internode_combine(received, handle)
        assert none is None and torch.equal(sums, (x.float() * ranks_of(idx, ranks).sum(1, keepdim=True)).bfloat16())
    assert len(handle) == 10 and handle[-4].tolist() == ends
    finish(buffer)


def training(rank: int, ranks: int, store: Any) -> None:
    """Handles of several layers at once, and gradients the other way; then their routes serve other dispatches."""
    buffer = begin(rank, ranks, store)
    layers = [inputs_of(ranks, seed) for seed in range(3)]
    handles = []
    for inputs in layers:
        x, idx, weights = inputs[rank]
        received, _, _, _, handle, _ = buffer.dispatch(x.requires_grad_(), topk_idx=idx, topk_weights=weights,
                                                       config=deep_ep.Config(20), **layout_of(buffer, idx, ranks))
        handles.append((handle, received))
    for inputs, (handle, received) in list(zip(layers, handles))[::-1]:
        gradient = torch.full_like(inputs[rank][0], 0.5)
        back = buffer.dispatch(gradient, handle=handle)[0]
        assert back.shape == received.shape and (back == 0.5).all()
        sums = buffer.combine(received, handle)[0]
        count = ranks_of(inputs[rank][1], ranks).sum(1, keepdim=True)
        check_sums(sums, inputs[rank][0].detach().double() * count, 0.01)
    engine = next(iter(buffer._many.values()))
    del handles, handle, received
    kept = {id(route) for routes in engine.idle.values() for route in routes}
    assert len(kept) == 3
    x, idx, weights = layers[0][rank]
    again = buffer.dispatch(x, topk_idx=idx, topk_weights=weights, **layout_of(buffer, idx, ranks))[4]
    assert id(again.kept.route) in kept
    finish(buffer)


def operations(rank: int, ranks: int, store: Any) -> None:
    """A dispatch makes few operations of torch, and one by a handle none: on a GPU they would take the host longer than
    the dispatch takes."""
    buffer = begin(rank, ranks, store)
    x, idx, weights = inputs_of(ranks)[rank]
    layout = layout_of(buffer, idx, ranks)
    for _ in range(2):  # what is made once
        handle = buffer.dispatch(x, topk_idx=idx, topk_weights=weights, **layout)[4]
    with Launches() as launches:
        buffer.dispatch(x, topk_idx=idx, topk_weights=weights, **layout)
    assert len(launches.names) <= (5 if x.is_cuda else 4), launches.names  # the counts come to the host
    with Launches() as launches:
        received = buffer.dispatch(x, handle=handle)[0]
        buffer.combine(received, handle)
    assert launches.names == [], launches.names
    finish(buffer)


def mistakes(rank: int, ranks: int, store: Any) -> None:
    """Wrong arguments are exceptions that name them, and the next operation is right."""
    buffer = begin(rank, ranks, store)
    x, idx, weights = inputs_of(ranks)[rank]
    layout = layout_of(buffer, idx, ranks)
    given = {"x": x, "topk_idx": idx, "topk_weights": weights, **layout}
    received, _, got_weights, _, handle, _ = buffer.dispatch(**given)

    def dispatch(**changed: Any) -> Any:
        return buffer.dispatch(**{**given, **changed})

    many = torch.zeros((LIMIT + 1, H), dtype=torch.bfloat16)
    refused(ValueError, "WEFT_EP_MAX_TOKENS", lambda: dispatch(x=many, topk_idx=many[:, :K].long(), topk_weights=None))
    refused(ValueError, "num_experts", lambda: buffer.get_dispatch_layout(idx, E * ranks + 1))
    refused(ValueError, "is_token_in_rank", lambda: buffer.dispatch(x, topk_idx=idx))
    refused(ValueError, "num_worst_tokens", lambda: dispatch(topk_idx=None, num_worst_tokens=9))
    refused(ValueError, "topk_weights", lambda: dispatch(topk_weights=weights.double()))
    refused(TypeError, "topk_idx", lambda: dispatch(topk_idx=idx.float()))
    refused(TypeError, "x: bf16", lambda: dispatch(x=x.half()))
    for name in ("x", "is_token_in_rank", "num_tokens_per_expert", "topk_idx", "topk_weights"):
        refused(TypeError, f"{name}: a tensor", lambda name=name: dispatch(**{name: [[0, 1]]}))
    for name in ("expert_alignment", "num_worst_tokens"):
        refused(TypeError, f"{name}: a whole number", lambda name=name: dispatch(**{name: "16"}))
    refused(TypeError, "config: a Config", lambda: dispatch(config=24))
    refused(TypeError, "previous_event: an EventOverlap", lambda: dispatch(previous_event=handle))
    refused(TypeError, "x: a tensor", lambda: buffer.combine(None, handle))
    refused(TypeError, "topk_weights: a tensor", lambda: buffer.combine(received, handle, topk_weights=[1.0]))
    refused(TypeError, "bias: a tensor", lambda: buffer.combine(received, handle, bias=5))
    for wrong in (torch.zeros((len(x), 3), dtype=torch.float64), torch.zeros(len(x)), torch.zeros((len(x), 0)),
                  torch.zeros((len(x) + 1, 4))):
        refused(TypeError, "scales", lambda wrong=wrong: dispatch(x=(x.to(torch.float8_e4m3fn), wrong)))
    refused(TypeError, "scales", lambda: dispatch(x=(x, torch.zeros((len(x), 4)))))
    refused(ValueError, "expert_alignment", lambda: dispatch(expert_alignment=0))
    refused(ValueError, "by a handle", lambda: dispatch(handle=handle))
    refused(ValueError, "of this handle had", lambda: buffer.dispatch(x[1:], handle=handle))
    refused(TypeError, "handle", lambda: buffer.combine(received, tuple(handle)))
    refused(ValueError, "x: bf16", lambda: buffer.combine(received[1:], handle))
    refused(ValueError, "topk_weights", lambda: buffer.combine(received, handle, topk_weights=got_weights[:, :1]))
    refused(ValueError, "at most two", lambda: buffer.combine(received, handle, bias=(x, x, x)))
    refused(ValueError, "bias", lambda: buffer.combine(received, handle, bias=x[1:]))
    if x.is_cuda:  # where nobody waits for kernels
        assert dispatch(num_worst_tokens=2)[0].shape[0] == 2
    else:
        refused(weft.errors.RoomError, "rows", lambda: dispatch(num_worst_tokens=2))  # on all ranks
    os.environ["WEFT_EP_MAX_TOKENS"] = "many"
    refused(ValueError, "'many'", dispatch)
    os.environ["WEFT_EP_MAX_TOKENS"] = str(LIMIT)
    assert torch.equal(dispatch()[0], received)
    finish(buffer)
    refused(RuntimeError, "destroyed", dispatch)


def disagree(rank: int, ranks: int, store: Any) -> None:
    """Ranks whose settings give room for different numbers of tokens: the largest counts on all of them."""
    buffer = begin(rank, ranks, store)
    os.environ["WEFT_EP_MAX_TOKENS"] = str(LIMIT + rank)
    x, idx, weights = tokens_of(rank, ranks, tokens=LIMIT + 1, hidden=H, topk=K, experts=E * ranks)
    given = {"topk_weights": weights, **layout_of(buffer, idx, ranks)}
    received, _, _, counts, _, _ = buffer.dispatch(x, topk_idx=idx, **given)
    assert len(received) > 0 and sum(counts) >= len(received)
    refused(ValueError, f"room for {LIMIT + 1} of a rank", lambda: buffer.dispatch(
        torch.cat([x, x]), topk_idx=torch.cat([idx, idx]), **{**given, "topk_weights": None}))
    finish(buffer)


def room(rank: int, ranks: int, store: Any) -> None:
    """Without a setting the first dispatch determines the room: here that of rank 1, for both."""
    join(rank, ranks, store)
    buffer = deep_ep.Buffer(dist.group.WORLD, explicitly_destroy=True)

    def dispatch(tokens: int) -> Any:
        idx = torch.arange(tokens)[:, None] % (E * ranks)
        x = torch.arange(tokens)[:, None].expand(-1, H).to(torch.bfloat16)
        return buffer.dispatch(x, topk_idx=idx, topk_weights=torch.ones((tokens, 1)), **layout_of(buffer, idx, ranks))

    for mine in (5, 12000) if rank == 0 else (8193, 16384):  # then also up to the power of two
        received, _, _, counts, handle, _ = dispatch(mine)
        sums, _, _ = buffer.combine(received, handle)
        assert sum(counts) == len(received)
        check_sums(sums, torch.arange(mine)[:, None].expand(-1, H).to(torch.bfloat16).double(), 0.01)
    refused(ValueError, "16384 of a rank, as its first dispatch needed or WEFT_EP_MAX_TOKENS", lambda: dispatch(16385))
    refused(ValueError, "at most 32768 of a rank", lambda: dispatch(32769))
    finish(buffer)


def killed(rank: int, ranks: int, store: Any) -> None:
    """A rank dies: the others get an exception, or with enable_shrink go on without its tokens."""
    buffer = begin(rank, ranks, store, enable_shrink=True)
    strict = deep_ep.Buffer(dist.group.WORLD, explicitly_destroy=True)
    inputs = [tokens_of(r, ranks, tokens=40, hidden=H, topk=K, experts=E * ranks) for r in range(ranks)]
    x, idx, weights = inputs[rank]
    given = {"x": x, "topk_idx": idx, "topk_weights": weights, **layout_of(buffer, idx, ranks)}
    for one in (buffer, strict):
        one.dispatch(**given)
    dist.barrier()
    last = ranks - 1
    if rank == last:
        os.kill(os.getpid(), signal.SIGKILL)
    refused(weft.errors.PeerLostError, str(last), lambda: strict.dispatch(**given))
    for _ in range(50):
        received, _, _, _, handle, _ = buffer.dispatch(**given)
        if received.shape[0] == sum(len(tokens) for r, tokens in sent_to(inputs, rank) if r != last):
            break
    rows = torch.cat([inputs[r][0][tokens] for r, tokens in sent_to(inputs, rank) if r != last])
    assert torch.equal(received, rows)
    count = ranks_of(idx, ranks)[:, :last].sum(1, keepdim=True)
    check_sums(buffer.combine(received, handle)[0], x.double() * count, 0.01)
    store.set(f"over/{rank}", "1")
    for other in range(last):
        wait_for(store, f"over/{other}")
    for one in (buffer, strict):
        one.destroy()
    os._exit(0)  # gloo would wait for the rank that was killed
