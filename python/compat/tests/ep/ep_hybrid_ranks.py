"""What the ranks of test_throughput.py do with deep_ep.HybridEPBuffer."""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed as dist
from ep_reference import check_sums, refused, tokens_of
from ep_throughput_ranks import E, H, K, expected, finish, plain, ranks_of
from ep_world import join

import deep_ep
from deep_ep.hybrid_ep_buffer import indices_to_map
from deep_ep.utils.math import align, per_token_cast_to_fp8

MOST = 48


def begin(rank: int, ranks: int, store: Any, **options: Any) -> tuple[deep_ep.HybridEPBuffer, list[Any]]:
    """A buffer, and the tokens of all ranks: x, topk_idx, topk_weights. Rank 2 has no token."""
    join(rank, ranks, store)
    buffer = deep_ep.HybridEPBuffer(dist.group.WORLD, H, MOST, E, **options)
    assert buffer.config.hidden_dim == buffer.configurer.buffer_config.hidden_dim == H and buffer.runtime is buffer
    return buffer, [tokens_of(r, ranks, tokens=0 if r == 2 else MOST - 9 * r, hidden=H, topk=K, experts=E * ranks)
                    for r in range(ranks)]


def maps_of(idx: torch.Tensor, weights: torch.Tensor, experts: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A routing map and probabilities, token by token."""
    routing_map, probs = torch.zeros(len(idx), experts, dtype=torch.bool), torch.zeros(len(idx), experts)
    for token, (selected, of_token) in enumerate(zip(idx.tolist(), weights.tolist())):
        for expert, weight in zip(selected, of_token):
            if expert >= 0:
                routing_map[token, expert], probs[token, expert] = True, weight
    return routing_map, probs


def permuted(local: torch.Tensor, weights: torch.Tensor, multiple: int) -> tuple[list[int], torch.Tensor, list[int]]:
    """(the received token of each packed row, -1: a row that fills up; the probabilities; the rows of each expert)."""
    tokens: list[int] = []
    probs: list[float] = []
    counts = []
    for expert in range(E):
        before = len(tokens)
        for token, place in (local == expert).nonzero().tolist():
            tokens.append(token)
            probs.append(float(weights[token, place]))
        fill = align(len(tokens) - before, multiple) - (len(tokens) - before)
        tokens += [-1] * fill
        probs += [0.0] * fill
        counts.append(len(tokens) - before)
    return tokens, torch.tensor(probs, dtype=torch.float32), counts


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors have one type, one shape and the same bits."""
    return one.dtype == other.dtype and one.shape == other.shape and torch.equal(
        one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))


def tokens(rank: int, ranks: int, store: Any) -> None:
    """One row for each token: rows, scales and probabilities, by top-k and by map; the handle; cached; combined."""
    buffer, inputs = begin(rank, ranks, store)
    x, idx, weights = inputs[rank]
    experts = E * ranks
    routing_map, probs = maps_of(idx, weights, experts)
    made = indices_to_map(idx, weights, len(x), experts)
    assert torch.equal(made[0], routing_map) and made[1] is not None and torch.equal(made[1], probs)
    rows, local, of_rows, _ = expected(inputs, rank)
    want = torch.zeros(len(rows), experts)
    mine = torch.zeros(len(rows), E, dtype=torch.bool)
    for row, place in (local >= 0).nonzero().tolist():
        want[row, rank * E + local[row, place]] = of_rows[row, place]
        mine[row, local[row, place]] = True
    by_topk = {"topk_idx": idx, "topk_weights": weights, "num_of_experts": experts}
    by_map = {"routing_map": routing_map, "probs": probs}
    for given in (by_topk, by_map, {**by_topk, "num_dispatched_tokens": len(rows)}):
        for fp8 in (False, True):
            values, scales = per_token_cast_to_fp8(x) if fp8 else (x, torch.ones(len(x), H // 128))
            want_rows, want_scales = per_token_cast_to_fp8(rows) if fp8 else (rows, None)
            sent = values.view(torch.uint8) if fp8 else values
            got, got_probs, got_scales, handle = buffer.dispatch(sent, scales, **given)
            assert got.dtype == sent.dtype and same_bits(got.view(values.dtype), want_rows)
            assert got_scales is None if want_scales is None else same_bits(got_scales, want_scales)
            assert got_probs is not None and same_bits(got_probs, want)
            _, _, _, number, local_map, count, config = handle
            assert int(number) == len(rows) and torch.equal(local_map, mine) and count == len(x)
            assert config.num_of_experts_per_rank == E
            for again in (handle, tuple(handle)):
                cached = buffer.dispatch(sent, scales, handle=again)
                assert torch.equal(cached[0], got) and cached[1] is None
            doubled = buffer.dispatch(sent, scales, probs=2 * probs, handle=handle)[1]
            assert doubled is not None and torch.equal(doubled, 2 * want)
            doubled = buffer.dispatch(sent, scales, topk_idx=idx, topk_weights=2 * weights, handle=handle)[1]
            assert doubled is not None and torch.equal(doubled, 2 * want)
            copies = local_map.sum(1, keepdim=True)
            back = plain((got.view(values.dtype), got_scales)) if fp8 else got
            sums, of_tokens = buffer.combine(back * copies, got_probs, handle)
            check_sums(sums, plain((values, scales) if fp8 else x).double() * (idx >= 0).sum(1, keepdim=True), 0.01)
            assert of_tokens is not None and torch.equal(of_tokens, probs)
            assert buffer.combine(back, handle=handle)[1] is None
    unweighed = buffer.dispatch(x, topk_idx=idx.int(), num_of_experts=experts)
    assert unweighed[1] is None and torch.equal(unweighed[0], rows)
    finish(buffer)


def permutes(rank: int, ranks: int, store: Any) -> None:
    """Rows permuted by expert, with and without waiting: order, rows that fill up, probabilities; cached; combined."""
    buffer, inputs = begin(rank, ranks, store)
    x, idx, weights = inputs[rank]
    experts = E * ranks
    routing_map, probs = maps_of(idx, weights, experts)
    rows, local, of_rows, _ = expected(inputs, rank)
    for multiple, fp8, waits in ((None, False, True), (16, True, True), (16, False, False), (None, True, False)):
        at, want_probs, want_counts = permuted(local, of_rows, multiple or 1)
        total = len(at)
        room = total if waits else align(total + 40, multiple or 1)
        given: dict[str, Any] = {"hidden": x, "pad_multiple": multiple}
        if fp8:
            given["hidden"], given["scaling_factor"] = per_token_cast_to_fp8(x)
        wait = {} if waits else {"num_permuted_tokens": room, "non_blocking": True}
        got, got_probs, scales, counts, handle = buffer.dispatch_with_permute(
            routing_map=routing_map, probs=probs, num_of_experts_per_rank=E, **given, **wait)
        want = torch.cat((rows, torch.zeros(1, H, dtype=torch.bfloat16)))[at]
        want_scales = None
        if fp8:
            cast, of_cast = per_token_cast_to_fp8(torch.cat((rows, torch.zeros(1, H, dtype=torch.bfloat16))))
            want, want_scales = cast.view(torch.uint8)[at].view(cast.dtype), of_cast[at]
            fills = torch.tensor([token < 0 for token in at], dtype=torch.bool)
            want.view(torch.uint8)[fills], want_scales[fills] = 0, 0
        assert len(got) == room and same_bits(got[:total], want) and counts.tolist() == want_counts
        assert counts.dtype == torch.int64 and not (waits and counts.is_cuda)
        assert scales is None if want_scales is None else same_bits(scales[:total], want_scales)
        assert got_probs is not None and len(got_probs) == room
        assert torch.equal(got_probs[:total], want_probs)
        assert len(handle) == 11 and int(handle[3]) == len(rows) and int(handle[10]) == 0
        assert handle[7].tolist() == [int((local == e).sum()) for e in range(E)] and handle[8] == len(x)
        assert torch.equal(handle[4][:len(rows)].sum(0), handle[7])
        if not waits:
            refused(ValueError, "positive multiple", lambda given=given: buffer.dispatch_with_permute(
                routing_map=routing_map, non_blocking=True, **given))
        cached = buffer.dispatch_with_permute(**given, handle=handle, num_permuted_tokens=torch.tensor(total))
        assert same_bits(cached[0], want) and cached[1] is None and cached[3].tolist() == want_counts
        cached = buffer.dispatch_with_permute(**given, probs=3 * probs, handle=handle, num_permuted_tokens=room + 16)
        assert torch.equal(cached[1][:total], 3 * want_probs) and len(cached[0]) == room + 16
        by_topk = buffer.dispatch_with_permute(topk_idx=idx, topk_weights=weights, num_of_experts=experts, **given)
        assert same_bits(by_topk[0], want) and torch.equal(by_topk[1], want_probs)
        outputs = torch.randn(room, H).to(torch.bfloat16)
        for sent in (outputs, outputs[:total]):
            sums, of_tokens = buffer.combine_with_unpermute(hidden=sent, probs=got_probs, handle=handle,
                                                            pad_multiple=multiple)
            assert torch.equal(of_tokens, probs)
        ones = torch.ones(room, H, dtype=torch.bfloat16)
        sums, none = buffer.combine_with_unpermute(hidden=ones, handle=handle, pad_multiple=multiple)
        assert none is None and torch.equal(sums.float(), (idx >= 0).sum(1, keepdim=True).expand(-1, H).float())
    finish(buffer)


class Permute(torch.autograd.Function):
    """A dispatch whose backward pass is a combine."""

    @staticmethod
    def forward(ctx: Any, buffer: Any, x: Any, routing_map: Any, probs: Any, multiple: int) -> Any:
        """(permuted rows, their probabilities, handle)."""
        rows, of_rows, _, _, ctx.handle = buffer.dispatch_with_permute(
            hidden=x, routing_map=routing_map, probs=probs, num_of_experts_per_rank=E, pad_multiple=multiple)
        ctx.buffer, ctx.multiple = buffer, multiple
        return rows, of_rows, ctx.handle

    @staticmethod
    def backward(ctx: Any, grad_rows: Any, grad_probs: Any, _: Any) -> Any:
        """Gradients of x and of the probabilities."""
        x, probs = ctx.buffer.combine_with_unpermute(hidden=grad_rows, probs=grad_probs, handle=ctx.handle,
                                                     pad_multiple=ctx.multiple)
        return None, x, None, probs, None


class Unpermute(torch.autograd.Function):
    """A combine whose backward pass is a dispatch by the same handle."""

    @staticmethod
    def forward(ctx: Any, buffer: Any, rows: Any, handle: Any, multiple: int) -> Any:
        """The sums."""
        ctx.buffer, ctx.handle, ctx.multiple, ctx.rows = buffer, handle, multiple, len(rows)
        return buffer.combine_with_unpermute(hidden=rows, handle=handle, pad_multiple=multiple)[0]

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """The gradient of the rows."""
        rows = ctx.buffer.dispatch_with_permute(hidden=grad, handle=ctx.handle, pad_multiple=ctx.multiple,
                                                num_permuted_tokens=torch.tensor(ctx.rows))[0]
        return None, rows, None, None


def training(rank: int, ranks: int, store: Any) -> None:
    """A layer of experts that double a row times its probability, forward and backward, against torch alone."""
    buffer, inputs = begin(rank, ranks, store, num_sms_dispatch_api=16, num_sms_combine_api=16)
    x, idx, weights = inputs[rank]
    routing_map, probs = maps_of(idx, weights, E * ranks)
    x, probs = x.requires_grad_(), probs.requires_grad_()
    for _ in range(3):
        x.grad = probs.grad = None
        rows, of_rows, handle = Permute.apply(buffer, x, routing_map, probs, 16)
        sums = Unpermute.apply(buffer, 2 * rows * of_rows[:, None].to(rows.dtype), handle, 16)
        grad = torch.randn(sums.shape, generator=torch.Generator("cpu").manual_seed(rank), device="cpu").to(sums)
        sums.backward(grad)
        total = probs.detach().double().sum(1, keepdim=True)
        check_sums(sums.detach(), 2 * x.detach().double() * total, 0.02)
        check_sums(x.grad, 2 * grad.double() * total, 0.02)
        want = 2 * (x.detach().double() * grad.double()).sum(1, keepdim=True) * routing_map
        check_sums(probs.grad, want, 0.02)
    # More tokens than the buffer was made for: it becomes larger.
    more = torch.ones(2 * MOST, H, dtype=torch.bfloat16)
    everywhere = torch.ones(2 * MOST, E * ranks, dtype=torch.bool)
    got, _, _, counts, handle = buffer.dispatch_with_permute(hidden=more, routing_map=everywhere)
    assert counts.tolist() == [2 * MOST * ranks] * E and buffer.config.max_num_of_tokens_per_rank == 2 * MOST
    assert torch.equal(buffer.combine_with_unpermute(hidden=got, handle=handle)[0], E * ranks * more)
    uneven(buffer, rank, ranks)
    finish(buffer)


def uneven(buffer: deep_ep.HybridEPBuffer, rank: int, ranks: int) -> None:
    """Ranks with different numbers of tokens, more than the buffer was made for: all give the same number, which is the
    largest that one of them may have. Rank 0 has none."""
    most, counts = 3 * MOST, [(3 * MOST - 7) * (r > 0) - r for r in range(ranks)]
    x = torch.full((counts[rank], H), 1.0 + rank, dtype=torch.bfloat16)
    everywhere = torch.ones(counts[rank], E * ranks, dtype=torch.bool)
    probs = everywhere.float() / 4
    want = torch.cat([torch.full((count,), 1.0 + r) for r, count in enumerate(counts)])
    got, _, _, handle = buffer.dispatch(x, routing_map=everywhere, probs=probs, num_of_tokens_per_rank=most)
    assert torch.equal(got[:, 0].float(), want) and handle[5] == counts[rank]
    assert buffer.config.max_num_of_tokens_per_rank == most
    assert torch.equal(buffer.combine(got, handle=handle)[0], ranks * x)
    given = {"hidden": x, "num_of_tokens_per_rank": most}
    got, of_rows, _, of_experts, permute = buffer.dispatch_with_permute(routing_map=everywhere, probs=probs, **given)
    assert torch.equal(got[:, 0].float(), want.repeat(E)) and of_experts.tolist() == [sum(counts)] * E
    assert permute[8] == counts[rank]
    for waits in (False, True):
        sums, of_tokens = buffer.combine_with_unpermute(hidden=got, probs=of_rows, handle=permute, non_blocking=waits)
        assert torch.equal(sums, E * ranks * x) and of_tokens is not None and torch.equal(of_tokens, probs)
    assert torch.equal(buffer.dispatch_with_permute(handle=permute, **given)[0], got)
    one = torch.ones(1, H, dtype=torch.bfloat16)
    refused(ValueError, "num_of_tokens_per_rank: 0", lambda: buffer.dispatch(
        one, routing_map=everywhere.new_ones(1, E * ranks), num_of_tokens_per_rank=0))


def mistakes(rank: int, ranks: int, store: Any) -> None:
    """Wrong arguments are exceptions that name them; more experts than a token may have."""
    os.environ["NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN"] = "1"
    buffer, inputs = begin(rank, ranks, store)
    x, idx, weights = inputs[rank]
    routing_map, probs = maps_of(idx, weights, E * ranks)
    assert (buffer.num_of_nodes, buffer.node_rank, buffer.local_rank) == (ranks, rank, 0)
    got, of_domain, _, handle = buffer.dispatch(x, routing_map=routing_map, probs=probs)
    assert of_domain is not None and of_domain.shape[1] == E
    sums, of_tokens = buffer.combine(got, of_domain, handle)
    check_sums(sums, x.double() * ranks_of(idx, ranks).sum(1, keepdim=True), 0.01)
    assert torch.equal(of_tokens, probs)
    rows, _, _, _, permute = buffer.dispatch_with_permute(hidden=x, routing_map=routing_map, probs=probs,
                                                                pad_multiple=8)
    refused(ValueError, "routing_map, topk_idx", lambda: buffer.dispatch(x))
    refused(ValueError, "routing_map, topk_idx", lambda: buffer.dispatch(x, topk_idx=idx))
    refused(ValueError, "routing_map: bool", lambda: buffer.dispatch(x, routing_map=routing_map.int()))
    refused(ValueError, "routing_map: 6 experts", lambda: buffer.dispatch_with_permute(
        hidden=x, routing_map=routing_map, num_of_experts_per_rank=E + 1))
    refused(ValueError, "probs: float32", lambda: buffer.dispatch(x, routing_map=routing_map, probs=probs[:, 1:]))
    refused(ValueError, "scaling_factor", lambda: buffer.dispatch(x.view(torch.uint8)[:, :H], routing_map=routing_map))
    refused(ValueError, "pad_multiple: 16", lambda: buffer.combine_with_unpermute(hidden=rows, handle=permute,
                                                                                  pad_multiple=16))
    refused(ValueError, "combine_with_unpermute", lambda: buffer.combine(rows, handle=permute))
    refused(ValueError, "combine_with_unpermute", lambda: buffer.combine_with_unpermute(hidden=got, handle=handle))
    refused(TypeError, "handle", lambda: buffer.combine(got, handle=(None,) * 7))
    refused(ValueError, "has received", lambda: buffer.combine_with_unpermute(hidden=rows[1:], handle=permute))
    refused(ValueError, "topk_weights", lambda: buffer.dispatch(x, topk_weights=weights, handle=handle))
    refused(ValueError, "more than 16 experts", lambda: buffer.dispatch(
        x, routing_map=torch.ones(len(x), 20 * ranks, dtype=torch.bool)))
    os.environ["NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN"] = "3"
    refused(ValueError, "does not divide", lambda: deep_ep.HybridEPBuffer(dist.group.WORLD, H, MOST, E))
    assert torch.equal(buffer.dispatch(x, handle=handle)[0], got)
    finish(buffer)
    refused(RuntimeError, "destroyed", lambda: buffer.dispatch(x, handle=handle))
