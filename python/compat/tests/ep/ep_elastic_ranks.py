"""What the ranks of test_throughput.py do with deep_ep.ElasticBuffer."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from ep_reference import Launches, check_sums, refused, tokens_of
from ep_throughput_ranks import CODES, E, H, K, coded, expected, finish, plain, ranks_of, same, same_code, sent_to
from ep_world import join

import deep_ep
from deep_ep.utils import refs
from deep_ep.utils.math import align, per_token_cast_to_fp8

MOST = 64


def begin(rank: int, ranks: int, store: Any) -> tuple[deep_ep.ElasticBuffer, list[Any]]:
    """A buffer for up to MOST tokens of a rank, and the tokens of all ranks."""
    join(rank, ranks, store)
    assert deep_ep.ElasticBuffer.get_buffer_size_hint(dist.group.WORLD, MOST, H) > 0
    buffer = deep_ep.ElasticBuffer(dist.group.WORLD, num_max_tokens_per_rank=MOST, hidden=H, explicitly_destroy=True)
    assert (buffer.rank_idx, buffer.num_ranks) == (rank, ranks) and buffer.get_logical_domain_size() == (1, ranks)
    buffer.barrier()
    return buffer, [tokens_of(r, ranks, tokens=0 if r == 2 else MOST - 9 * r, hidden=H, topk=K, experts=E * ranks)
                    for r in range(ranks)]


def tokens(rank: int, ranks: int, store: Any) -> None:
    """One row for each token: fields of the handle, the cached dispatch, sums and biases; waiting for counts or not."""
    buffer, inputs = begin(rank, ranks, store)
    x, idx, weights = inputs[rank]
    rows, local, of_rows, ends = expected(inputs, rank)
    sources = torch.cat([r * MOST + of_rank for r, of_rank in sent_to(inputs, rank)])
    found = [int((local == e).sum()) for e in range(E)]
    for fp8, waits, alignment in ((False, True, 1), (True, True, 16), (False, False, 16), (True, False, 1)):
        sent = per_token_cast_to_fp8(x) if fp8 else x
        total = torch.full((E,), 7, dtype=torch.int32)
        received, got_idx, got_weights, handle, event = buffer.dispatch(
            sent, idx, weights, cumulative_local_expert_recv_stats=total, num_experts=E * ranks,
            expert_alignment=alignment, async_with_compute_stream=True, do_handle_copy=waits,
            do_cpu_sync=None if waits else False, previous_event=buffer.capture())
        event.current_stream_wait()
        count = len(rows)
        assert plain(received).shape[0] == (count if waits else ranks * MOST)
        assert same(received, per_token_cast_to_fp8(rows) if fp8 else rows, count)
        assert torch.equal(got_idx[:count], local) and (got_idx[count:] == -1).all()
        assert torch.equal(got_weights[:count], of_rows) and total.tolist() == [7 + one for one in found]
        assert handle.psum_num_recv_tokens_per_scaleup_rank.tolist() == ends
        assert torch.equal(handle.recv_src_metadata[:count, 0], sources.int())
        aligned = [align(one, alignment) for one in found]
        assert handle.num_recv_tokens_per_expert_list == (aligned if waits else [])
        assert handle.psum_num_recv_tokens_per_expert.tolist() == [sum(aligned[:e + 1]) for e in range(E)]
        assert handle.num_unaligned_recv_tokens_per_expert.tolist() == found
        assert torch.equal(handle.topk_idx, idx) and (handle.topk_idx is idx) != waits
        check_slots(handle, idx, ranks)
        for field in ("topk_idx", "psum_num_recv_tokens_per_scaleup_rank", "psum_num_recv_tokens_per_expert",
                      "recv_src_metadata", "dst_buffer_slot_idx", "num_unaligned_recv_tokens_per_expert"):
            setattr(handle, field, getattr(handle, field).clone())  # as programs do that save them for a backward pass
        cached = buffer.dispatch(sent, handle=handle)
        assert same(received, cached[0], count) and cached[3] is handle
        assert torch.equal(cached[1], got_idx) and torch.equal(cached[2], got_weights)
        unweighed = buffer.dispatch(sent, idx, num_experts=E * ranks, do_cpu_sync=waits)
        assert unweighed[2] is None and buffer.dispatch(sent, handle=unweighed[3])[2] is None
        cached = buffer.dispatch(sent, topk_weights=2 * weights, handle=handle)
        assert torch.equal(cached[2], 2 * got_weights)
        y = plain(received).masked_fill(torch.arange(len(got_idx))[:, None] >= count, float("nan"))
        for biases in (None, x, (x, x)):
            sums, of_tokens, _ = buffer.combine(y, handle, topk_weights=got_weights, bias=biases)
            added = 0 if biases is None else 1 if isinstance(biases, torch.Tensor) else 2
            check_sums(sums, plain(sent).double() * ranks_of(idx, ranks).sum(1, keepdim=True) + added * x.double(),
                       0.01)
            assert torch.equal(of_tokens, weights.masked_fill(idx < 0, 0))
    buffer.barrier()
    finish(buffer)


def operations(rank: int, ranks: int, store: Any) -> None:
    """What a handle tells is computed when it is asked for, and a dispatch makes few operations of torch: on a GPU all
    of them took the host longer than the dispatch takes."""
    buffer, inputs = begin(rank, ranks, store)
    x, idx, weights = inputs[rank]
    for _ in range(2):  # what is made once
        received, _, _, handle, _ = buffer.dispatch(x, idx, weights, num_experts=E * ranks)
    with Launches() as launches:
        buffer.dispatch(x, idx, weights, num_experts=E * ranks)
    assert len(launches.names) <= (6 if x.is_cuda else 5), launches.names
    with Launches() as launches:
        assert handle.recv_src_metadata is handle.recv_src_metadata
    assert launches.names
    with Launches() as launches:
        buffer.combine(received, handle)
    assert launches.names == [], launches.names
    finish(buffer)


def check_slots(handle: deep_ep.EPHandle, idx: torch.Tensor, ranks: int) -> None:
    """dst_buffer_slot_idx: tokens that go to a rank are counted in their order."""
    for r in range(ranks):
        goes = ((idx >= r * E) & (idx < (r + 1) * E))
        before = goes.any(1).cumsum(0) - 1
        assert torch.equal(handle.dst_buffer_slot_idx[goes], before[:, None].expand(-1, K)[goes].int())
    assert (handle.dst_buffer_slot_idx[idx < 0] == -1).all()


def selections(rank: int, ranks: int, store: Any) -> None:
    """One row for each selection, packed by expert: places, weights, padding, scales by columns; weighted sums."""
    buffer, inputs = begin(rank, ranks, store)
    x, idx, weights = inputs[rank]
    rows, local, of_rows, _ = expected(inputs, rank)
    for fp8, waits, alignment in ((False, True, 16), (True, True, 1), (False, False, 1), (True, False, 16)):
        sent = per_token_cast_to_fp8(x) if fp8 else x
        given = {"do_expand": True, "use_tma_aligned_col_major_sf": True}
        received, none, got_weights, handle, _ = buffer.dispatch(
            sent, idx, weights, num_experts=E * ranks, expert_alignment=alignment, do_cpu_sync=waits, **given)
        padded, _, padded_weights, _, _ = buffer.dispatch(sent, topk_weights=weights, handle=handle,
                                                          do_zero_padding=True, **given)
        assert none is None and buffer.dispatch(sent, handle=handle, **given)[2] is None
        unweighed = buffer.dispatch(sent, idx, num_experts=E * ranks, do_cpu_sync=waits, **given)
        assert unweighed[2] is None and buffer.dispatch(sent, handle=unweighed[3], **given)[2] is None
        if fp8:
            assert received[1].stride()[0] == 1 and received[1].stride()[1] % 4 == 0
        slots = handle.recv_src_metadata[:len(rows), 2:].long()
        here = slots >= 0
        assert torch.equal(here, local >= 0)
        wanted = plain(per_token_cast_to_fp8(rows) if fp8 else rows)[:, None].expand(-1, K, -1)[here]
        assert torch.equal(plain(received)[slots[here]], wanted) and torch.equal(plain(padded)[slots[here]], wanted)
        assert torch.equal(got_weights[slots[here]], of_rows[here]) and torch.equal(padded_weights, got_weights)
        begin_at = 0
        for e in range(E):
            end = int(handle.psum_num_recv_tokens_per_expert[e])
            assert sorted(slots[local == e].tolist()) == list(range(begin_at, end))
            begin_at = align(end, alignment)
            assert not plain(padded)[end:begin_at].any() and not padded_weights[end:begin_at].any()
        assert not waits or plain(received).shape[0] == begin_at == sum(handle.num_recv_tokens_per_expert_list)
        y = torch.full(plain(received).shape, float("nan"), dtype=torch.bfloat16)  # between the parts of experts
        y[slots[here]] = (wanted.float() * got_weights[slots[here]][:, None]).bfloat16()
        sums, of_tokens, _ = buffer.combine(y, handle, topk_weights=got_weights, bias=x)
        kept = weights.masked_fill(idx < 0, 0)
        check_sums(sums, plain(sent).double() * kept.sum(1, keepdim=True).double() + x.double(), 0.02)
        assert torch.equal(of_tokens, kept)
    finish(buffer)


def deferred(rank: int, ranks: int, store: Any) -> None:
    """A buffer of version 2.5: results come with the call, or from the wait for its event, for a layer of experts and
    its backward pass."""
    join(rank, ranks, store)
    hint = deep_ep.EPBuffer.get_buffer_size_hint(dist.group.WORLD, MOST, H, num_topk=K, use_fp8_dispatch=True)
    buffer = deep_ep.EPBuffer(dist.group.WORLD, num_max_tokens_per_rank=MOST, hidden=H, num_topk=K)
    assert buffer.num_bytes >= hint > 0 and buffer.group == dist.group.WORLD and buffer.num_lb_bytes == 0
    buffer.barrier(wait_comm_stream=False, with_cpu_sync=True)
    inputs = [tokens_of(r, ranks, tokens=MOST - 9 * r, hidden=H, topk=K, experts=E * ranks) for r in range(ranks)]
    x, idx, weights = inputs[rank]
    rows, local, _, ends = expected(inputs, rank)
    kept = weights.masked_fill(idx < 0, 0)
    num_sms = buffer.get_theoretical_num_sms(E * ranks, K)
    later: dict[str, Any] = {"num_sms": num_sms, "async_with_compute_stream": True, "allocate_on_comm_stream": True}
    for fp8, waits in ((False, True), (True, True), (False, False)):
        given = {"topk_idx": idx, "topk_weights": weights, "num_experts": E * ranks, "expert_alignment": 16,
                 "do_expand": True, "do_zero_padding": True, "use_tma_aligned_col_major_sf": True, "do_cpu_sync": waits}
        sent = per_token_cast_to_fp8(x) if fp8 else x
        event = buffer.dispatch(sent, **given, **later, previous_event=buffer.capture(), defer_epilogue=True)
        received, none, got_weights, handle = event.current_stream_wait()
        assert none is None and event.wait() is None and handle.topk_idx is idx
        at_once, _, same_weights, again, event = buffer.dispatch(sent, **given, **later)
        event.current_stream_wait(release_handle=True)
        count = int(again.psum_num_recv_tokens_per_expert[-1])
        assert same(received, at_once, count) and torch.equal(got_weights[:count], same_weights[:count])
        y = (plain(received).float() * got_weights[:, None]).bfloat16()
        sums, of_tokens = buffer.combine(y, handle=handle, topk_weights=got_weights, **later,
                                         defer_epilogue=True).wait()
        check_sums(sums, plain(sent).double() * kept.sum(1, keepdim=True).double(), 0.02)
        assert torch.equal(of_tokens, kept)
        of_rows, none, _, cached = buffer.dispatch(  # the backward pass of the combine
            x, handle=handle, do_expand=True, **later, defer_epilogue=True).wait()
        assert none is None and cached is handle and of_rows.shape == plain(received).shape
        of_x, no_weights, event = buffer.combine(of_rows, handle, **later)  # and of the dispatch
        event.current_stream_wait()
        check_sums(of_x, x.double() * (idx >= 0).sum(1, keepdim=True), 0.02)
        assert no_weights is None
    tokens, got_idx, _, handle = buffer.dispatch(x, idx, weights, num_experts=E * ranks, **later,
                                                 defer_epilogue=True).wait()
    assert torch.equal(tokens, rows) and torch.equal(got_idx, local) and handle.num_recv_tokens == ends[-1]
    refused(ValueError, "async_with_compute_stream", lambda: buffer.dispatch(x, handle=handle, defer_epilogue=True))
    refused(ValueError, "async_with_compute_stream", lambda: buffer.combine(tokens, handle, defer_epilogue=True))
    refused(ValueError, "do_handle_copy", lambda: buffer.dispatch(x, handle=handle, do_handle_copy=True))
    refused(NotImplementedError, "lb_allocation_plan", lambda: deep_ep.EPBuffer(
        dist.group.WORLD, lb_allocation_plan_or_num_bytes=1 << 21))
    refused(AttributeError, "redundant", lambda: buffer.lb_prefetch_weights([], [], None))
    assert not hasattr(buffer, "lb_reduce_grads") and not hasattr(deep_ep, "BucketBuffer")
    finish(buffer)


def references(rank: int, ranks: int, store: Any) -> None:
    """`deep_ep.utils.refs`, with which programs compare: its dispatch and combine have the results of the buffer."""
    buffer, inputs = begin(rank, ranks, store)
    x, idx, weights = inputs[rank]
    experts = E * ranks
    for sent in (x, per_token_cast_to_fp8(x)):
        received, got_idx, got_weights, handle, _ = buffer.dispatch(sent, idx, weights, num_experts=experts)
        rows, local, of_rows, sources, counts = refs.dispatch(sent, idx, weights, MOST, experts)
        assert same_code(received, rows) and torch.equal(got_idx, local)
        assert torch.equal(got_weights, of_rows.masked_fill(local < 0, 0))
        assert torch.equal(handle.recv_src_metadata[:, 0], sources)
        assert counts.cumsum(0).tolist() == handle.psum_num_recv_tokens_per_scaleup_rank.tolist()
    y = refs.generate_pre_combine_data(sources, MOST, K, H).masked_fill((local < 0)[:, :, None], 0)
    mine = refs.generate_pre_combine_data(rank * MOST + torch.arange(len(x)), MOST, K, H)
    mine = mine.masked_fill((idx < 0)[:, :, None], 0)
    assert len(x) == 0 or mine.float().std() > 0.5
    for bias in (None, x, (x, x)):
        sums, _, _ = buffer.combine(refs.ordered_accumulate(y), handle, bias=bias)
        want = refs.combine(mine, idx, 1, ranks, experts, bias, True, False)
        check_sums(sums, want.double(), 0.01)
        added = 0 if bias is None else (x if isinstance(bias, torch.Tensor) else 2 * x).double()
        for reduces in ((True, True), (True, False), (False, False)):
            check_sums(refs.combine(mine, idx, ranks, 1, experts, bias, *reduces), mine.double().sum(1) + added, 0.02)
    finish(buffer)


def codes(rank: int, ranks: int, store: Any) -> None:
    """Rows of bytes in formats that the library does not know arrive as they are, in the caller's types. vLLM sends
    MXFP8: e4m3 with words of four ue8m0 scales, each for 32 values."""
    buffer, inputs = begin(rank, ranks, store)
    x, idx, weights = inputs[rank]
    rows, local, _, _ = expected(inputs, rank)
    for code in CODES:
        received, _, _, handle, _ = buffer.dispatch(coded(x, code), idx, weights, num_experts=E * ranks)
        assert same_code(received, coded(rows, code)), code
        assert same_code(buffer.dispatch(coded(x, code), handle=handle)[0], coded(rows, code)), code
        for columns in (False, True):
            given: dict[str, Any] = {"do_expand": True, "use_tma_aligned_col_major_sf": columns}
            packed, _, _, handle, _ = buffer.dispatch(coded(x, code), idx, weights, num_experts=E * ranks,
                                                      expert_alignment=16, do_cpu_sync=columns, **given)
            slots = handle.recv_src_metadata[:len(rows), 2:].long()
            token, place = (slots >= 0).nonzero(as_tuple=True)
            assert torch.equal(slots >= 0, local >= 0)
            for got in (packed, buffer.dispatch(coded(x, code), handle=handle, **given)[0]):
                parts = (got,) if code[1] is None else got
                at = tuple(part.view(torch.uint8)[slots[token, place]].view(part.dtype) if part.dtype.itemsize == 1 else
                           part[slots[token, place]] for part in parts)
                assert same_code(at, coded(rows[token], code)), code
                assert code[1] is None or not columns or parts[1].stride(0) == 1
    finish(buffer)


def mistakes(rank: int, ranks: int, store: Any) -> None:
    """Wrong arguments are exceptions that name them."""
    buffer, inputs = begin(rank, ranks, store)
    x, idx, weights = inputs[rank]
    received, _, _, handle, _ = buffer.dispatch(x, idx, weights, num_experts=E * ranks)
    refused(ValueError, "num_experts", lambda: buffer.dispatch(x, idx))
    refused(ValueError, "expert_alignment", lambda: buffer.dispatch(x, idx, num_experts=E * ranks,
                                                                    expert_alignment=257))
    refused(TypeError, "expert_alignment: a whole", lambda: buffer.dispatch(x, idx, num_experts=E * ranks,
                                                                            expert_alignment="16"))
    refused(TypeError, "topk_idx: a tensor", lambda: buffer.dispatch(x, [[0, 1]], num_experts=E * ranks))
    refused(ValueError, "room for 8", lambda: buffer.dispatch(x, idx, num_experts=E * ranks, num_max_tokens_per_rank=8))
    refused(AttributeError, "pipelines", lambda: buffer.pp_send(x, 0))
    assert not hasattr(buffer, "engram_fetch") and not hasattr(buffer, "unknown")
    assert (buffer.num_bytes, buffer.num_nvlink_ranks, buffer.allow_hybrid_mode) == (
        deep_ep.ElasticBuffer.get_buffer_size_hint(dist.group.WORLD, MOST, H), ranks, True)
    refused(ValueError, "do_cpu_sync", lambda: buffer.dispatch(x, handle=handle, do_cpu_sync=True))
    refused(ValueError, "those of the handle", lambda: buffer.dispatch(x, handle=handle, do_expand=True))
    refused(TypeError, "handle", lambda: buffer.combine(received, (handle,)))
    refused(ValueError, "num_gpu_timeout_secs", lambda: deep_ep.ElasticBuffer(dist.group.WORLD, num_gpu_timeout_secs=0))
    assert torch.equal(buffer.dispatch(x, handle=handle)[0], received)
    finish(buffer)
    refused(RuntimeError, "destroyed", buffer.barrier)
