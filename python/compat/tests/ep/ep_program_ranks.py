"""What the ranks of test_ep_programs.py do: each function has the calls of one program, in its order, with the
arguments that it gives by position and by keyword, and the attributes that it reads."""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed as dist
from ep_reference import check_received, check_sums, outputs, sums, tokens_of
from ep_throughput_ranks import expected, plain, ranks_of
from ep_world import join

import deep_ep
import nixl_ep
from deep_ep.utils.math import align, per_token_cast_back, per_token_cast_to_fp8

T, H, K, E = 24, 512, 4, 3
CAPACITY = 4
"""ranks that there may be, of nixl_ep"""


def meet(rank: int, ranks: int, store: Any) -> Any:
    """The group of all ranks."""
    os.environ["WEFT_EP_MAX_TOKENS"] = "256"
    join(rank, ranks, store)
    return dist.group.WORLD


def tokens(ranks: int, seed: int, most: int = T, drop: bool = True) -> list[Any]:
    """The tokens of all ranks; rank 1 has fewer."""
    return [tokens_of(r, ranks, tokens=most - 5 * r, hidden=H, topk=K, experts=E * ranks, seed=seed, drop=drop)
            for r in range(ranks)]


def leave(buffer: Any) -> None:
    """All leave together."""
    dist.barrier()
    buffer.destroy()
    dist.destroy_process_group()


def vllm_low_latency(rank: int, ranks: int, store: Any) -> None:
    """Two batches at once, each with its handle; hooks; scales as words of ue8m0; sums into a tensor of its own."""
    group = meet(rank, ranks, store)
    hint = deep_ep.Buffer.get_low_latency_rdma_size_hint(num_max_dispatch_tokens_per_rank=T, hidden=H, num_ranks=ranks,
                                                         num_experts=E * ranks)
    buffer = deep_ep.Buffer(group=group, num_nvl_bytes=1 << 20, num_rdma_bytes=hint, low_latency_mode=True,
                            num_qps_per_rank=E, allow_nvlink_for_low_latency_mode=True, allow_mnnvl=False,
                            explicitly_destroy=True)
    handles: list[Any] = [None, None]
    for ue8m0 in (False, True):
        batches, results = [tokens(ranks, seed) for seed in (1, 2)], []
        for batch in (0, 1):
            x, topk_idx, _ = batches[batch][rank]
            expert_x, counts, handles[batch], _, hook = buffer.low_latency_dispatch(
                x, topk_idx, T, E * ranks, use_fp8=True, round_scale=ue8m0, use_ue8m0=ue8m0, async_finish=False,
                return_recv_hook=True)
            hook()
            values, scales = expert_x
            assert scales.dtype == (torch.int32 if ue8m0 else torch.float32)
            results.append((torch.stack([per_token_cast_back(values[e], scales[e]) for e in range(E)]), counts))
        for batch in (0, 1):
            x, topk_idx, weights = batches[batch][rank]
            rows, counts = results[batch]
            check_received(batches[batch], rank, rows, counts, handles[batch], E, exact=False)
            output = torch.empty_like(x)
            _, _, hook = buffer.low_latency_combine(
                outputs(rows, counts, rank, E), topk_idx, weights, handles[batch], async_finish=False, zero_copy=False,
                return_recv_hook=batch == 0, out=output)
            if hook is not None:
                hook()
            check_sums(output, sums(x, topk_idx, weights, E), 0.07)
    leave(buffer)


def vllm_high_throughput(rank: int, ranks: int, store: Any) -> None:
    """Everything by keyword; the configurations of the number of ranks; an event where the call is asynchronous."""
    group = meet(rank, ranks, store)
    buffer = deep_ep.Buffer(group=group, num_nvl_bytes=1 << 20, num_rdma_bytes=0, low_latency_mode=False,
                            num_qps_per_rank=1, explicitly_destroy=True)
    deep_ep.Buffer.set_num_sms(20)
    inputs = tokens(ranks, 3, most=90)
    x, topk_idx, weights = inputs[rank]
    rows, local, of_rows, _ = expected(inputs, rank)
    for asynchronous in (True, False):
        before = None if asynchronous else buffer.capture()
        per_rank, per_rdma_rank, per_expert, in_rank, event = buffer.get_dispatch_layout(
            topk_idx=topk_idx, num_experts=E * ranks, previous_event=before, async_finish=False,
            allocate_on_comm_stream=False)
        received, got_idx, got_weights, counts, handle, event = buffer.dispatch(
            x=per_token_cast_to_fp8(x), handle=None, num_tokens_per_rank=per_rank,
            num_tokens_per_rdma_rank=per_rdma_rank, is_token_in_rank=in_rank, num_tokens_per_expert=per_expert,
            topk_idx=topk_idx, topk_weights=weights, expert_alignment=1,
            config=deep_ep.Buffer.get_dispatch_config(ranks), previous_event=before, async_finish=asynchronous,
            allocate_on_comm_stream=False)
        if event.event is not None:
            event.current_stream_wait()
        assert torch.equal(got_idx, local) and torch.equal(got_weights, of_rows)
        assert counts == [int((local == e).sum()) for e in range(E)]
        out, _, event = buffer.combine(
            x=plain(received), handle=handle, topk_weights=None, config=deep_ep.Buffer.get_combine_config(ranks),
            previous_event=before, async_finish=asynchronous, allocate_on_comm_stream=False)
        if event.event is not None:
            event.current_stream_wait()
        check_sums(out, x.double() * ranks_of(topk_idx, ranks).sum(1, keepdim=True), 0.07)
    assert len(rows) == len(plain(received))
    leave(buffer)


def vllm_second_version(rank: int, ranks: int, store: Any) -> None:
    """Decode: room for the next power of two of the batch, and no wait; prefill: packed by expert, exact. One group of
    ranks serves all of these sizes."""
    group = meet(rank, ranks, store)
    buffer = deep_ep.ElasticBuffer(
        group=group, num_max_tokens_per_rank=64, hidden=H, num_topk=K, use_fp8_dispatch=False, allow_hybrid_mode=True,
        prefer_overlap_with_compute=True, allow_multiple_reduction=True, explicitly_destroy=True)
    assert buffer.get_theoretical_num_sms(num_experts=E * ranks, num_topk=K) > 0
    for batch in (6, 9, 33, 64):
        inputs = tokens(ranks, batch, most=batch)
        x, topk_idx, weights = inputs[rank]
        rows, local, of_rows, ends = expected(inputs, rank)
        most = min(64, 1 << max(batch - 1, 0).bit_length())
        received, got_idx, got_weights, handle, event = buffer.dispatch(
            x=x, topk_idx=topk_idx, topk_weights=weights, num_experts=E * ranks, num_max_tokens_per_rank=most,
            do_expand=False, do_cpu_sync=False, async_with_compute_stream=False)
        assert event.event is None and handle.num_recv_tokens_per_expert_list == []
        assert received.shape == (ranks * most, H) == (handle.num_recv_tokens, H)
        assert handle.num_max_tokens_per_rank == most
        assert handle.psum_num_recv_tokens_per_scaleup_rank.tolist() == ends
        count = ends[-1]
        assert torch.equal(received[:count], rows) and torch.equal(got_idx[:count], local)
        assert torch.equal(got_weights[:count], of_rows) and (got_idx[count:] == -1).all()
        sources = handle.recv_src_metadata[:count]
        assert torch.equal(sources[:, 0] // most, sources[:, 1]) and (handle.recv_src_metadata[count:] == -1).all()
        out, _, event = buffer.combine(x=received, handle=handle, topk_weights=None, async_with_compute_stream=True)
        event.current_stream_wait()
        check_sums(out, x.double() * ranks_of(topk_idx, ranks).sum(1, keepdim=True), 0.01)
        prefill(buffer, x, topk_idx, weights, ranks)
    assert len(buffer._engines) == 1
    leave(buffer)


def prefill(buffer: deep_ep.ElasticBuffer, x: torch.Tensor, topk_idx: torch.Tensor, weights: torch.Tensor,
            ranks: int) -> None:
    """A dispatch of vllm_second_version that is packed by expert, and its combine."""
    received, none, got_weights, handle, _ = buffer.dispatch(
        x=x, topk_idx=topk_idx, topk_weights=weights, num_experts=E * ranks, num_max_tokens_per_rank=None,
        do_expand=True, do_cpu_sync=True, async_with_compute_stream=False)
    assert none is None and sum(handle.num_recv_tokens_per_expert_list) == len(received) == len(got_weights)
    assert handle.num_expanded_tokens == len(received)
    out, _, _ = buffer.combine(x=(received.float() * got_weights[:, None]).bfloat16(), handle=handle,
                               topk_weights=None)
    check_sums(out, x.double() * weights.masked_fill(topk_idx < 0, 0).sum(1, keepdim=True), 0.02)


def vllm_nixl(rank: int, ranks: int, store: Any) -> None:
    """Room for more ranks than there are; the list to connect to has the caller; later no store is needed."""
    num_experts = CAPACITY * E
    hint = nixl_ep.Buffer.get_rdma_size_hint(num_max_dispatch_tokens_per_rank=T, hidden=H, num_ranks=CAPACITY,
                                             num_experts=num_experts)
    buffer = nixl_ep.Buffer(rank=rank, tcp_store_group=store)
    buffer.update_memory_buffers(num_ranks=CAPACITY, num_experts_per_rank=E, num_rdma_bytes=hint)
    buffer.connect_ranks(list(range(ranks)))
    assert isinstance(getattr(nixl_ep, "topk_idx_t", torch.int64), torch.dtype)
    inputs = [tokens_of(r, CAPACITY, tokens=T, hidden=H, topk=K, experts=E * ranks) for r in range(CAPACITY)]
    gone = frozenset(range(ranks, CAPACITY))
    for turn in range(2):
        x, topk_idx, weights = inputs[rank]
        received, counts, handle, _, hook = buffer.dispatch(
            x, topk_idx, T, num_experts, use_fp8=False, round_scale=False, use_ue8m0=False, async_finish=False,
            return_recv_hook=True)
        hook()
        check_received(inputs, rank, received, counts, handle, E, gone)
        output = torch.empty_like(x)
        _, _, hook = buffer.combine(outputs(received, counts, rank, E), topk_idx, weights, handle, async_finish=False,
                                    zero_copy=False, return_recv_hook=True, out=output)
        hook()
        check_sums(output, sums(x, topk_idx, weights, E), 0.01)
        buffer.set_tcp_store_group(store if turn == 0 else None)
    buffer.barrier()
    buffer.destroy()


def sglang_nixl(rank: int, ranks: int, store: Any) -> None:
    """Events in the place of hooks; the masks are read after each combine; an older version cleans the buffer."""
    hint = nixl_ep.Buffer.get_rdma_size_hint(T, H, ranks, E * ranks)
    buffer = nixl_ep.Buffer(rank=rank, tcp_store_group=store)
    buffer.update_memory_buffers(num_ranks=ranks, num_experts_per_rank=E, num_rdma_bytes=hint)
    buffer.connect_ranks(list(range(ranks)))
    active = torch.ones(ranks, dtype=torch.int32)
    masks = torch.zeros_like(active)
    inputs = tokens(ranks, 4)
    x, topk_idx, weights = inputs[rank]
    assert (x.shape[0] * buffer.group_size * topk_idx.shape[1] + E * ranks) // (E * ranks) > 0
    assert (buffer.runtime.get_num_rdma_ranks(), buffer.runtime.get_num_nvl_ranks()) == (1, ranks)
    received, counts, handle, event, hook = buffer.dispatch(
        x, topk_idx, T, E * ranks, use_fp8=True, async_finish=True, return_recv_hook=False, round_scale=False,
        use_ue8m0=False)
    assert hook is None
    event.current_stream_wait()
    rows = torch.stack([per_token_cast_back(received[0][e], received[1][e]) for e in range(E)])
    out, event, hook = buffer.combine(x=outputs(rows, counts, rank, E), topk_idx=topk_idx, topk_weights=weights,
                                      handle=handle, async_finish=True, return_recv_hook=False)
    event.current_stream_wait()
    buffer.query_mask_buffer(masks)
    active.copy_(1 - masks)
    assert active.tolist() == [1] * ranks
    check_sums(out, sums(x, topk_idx, weights, E), 0.07)
    buffer.clean_buffer(T, H, E * ranks)
    buffer.barrier()
    buffer.destroy()


def sglang_both_modes(rank: int, ranks: int, store: Any) -> None:
    """One buffer for prefill and decode: configurations from a file of JSON, rows of experts in steps of 128."""
    group = meet(rank, ranks, store)
    config = deep_ep.Config(**{"num_sms": 24, "num_max_nvl_chunked_send_tokens": 16,
                               "num_max_nvl_chunked_recv_tokens": 512, "num_max_rdma_chunked_send_tokens": 16,
                               "num_max_rdma_chunked_recv_tokens": 512})
    nvl_bytes = config.get_nvl_buffer_size_hint(2 * H, ranks)
    rdma_bytes = max(config.get_rdma_buffer_size_hint(2 * H, ranks),
                     deep_ep.Buffer.get_low_latency_rdma_size_hint(T, H, ranks, E * ranks))
    buffer = deep_ep.Buffer(group, nvl_bytes, rdma_bytes, low_latency_mode=True,
                            num_qps_per_rank=max(config.num_sms, E), allow_mnnvl=True)
    inputs = tokens(ranks, 5)
    x, topk_idx, weights = inputs[rank]
    rows, local, _, _ = expected(inputs, rank)
    event = deep_ep.Buffer.capture()
    per_rank, per_rdma_rank, per_expert, in_rank, event = buffer.get_dispatch_layout(
        topk_idx, E * ranks, previous_event=event, async_finish=True, allocate_on_comm_stream=True)
    received, _, _, counts, handle, event = buffer.dispatch(
        x, topk_idx=topk_idx, topk_weights=weights, num_tokens_per_rank=per_rank,
        num_tokens_per_rdma_rank=per_rdma_rank, is_token_in_rank=in_rank, num_tokens_per_expert=per_expert,
        previous_event=event, async_finish=True, allocate_on_comm_stream=True, expert_alignment=128, config=config)
    event.current_stream_wait()
    assert torch.equal(received, rows) and counts == [align(int((local == e).sum()), 128) for e in range(E)]
    out, _, event = buffer.combine(received, handle, async_finish=True, previous_event=deep_ep.Buffer.capture(),
                                   allocate_on_comm_stream=True, config=None)
    event.current_stream_wait()
    check_sums(out, x.double() * ranks_of(topk_idx, ranks).sum(1, keepdim=True), 0.01)
    assert buffer.low_latency_mode
    buffer.clean_low_latency_buffer(T, H, E * ranks)
    received, counts, handle, event, _ = buffer.low_latency_dispatch(
        x, topk_idx, T, E * ranks, use_fp8=False, async_finish=True, return_recv_hook=False, round_scale=False,
        use_ue8m0=False)
    event.current_stream_wait()
    out, event, _ = buffer.low_latency_combine(
        x=outputs(received, counts, rank, E), topk_idx=topk_idx, topk_weights=weights, handle=handle,
        async_finish=True, return_recv_hook=False)
    event.current_stream_wait()
    check_sums(out, sums(x, topk_idx, weights, E), 0.01)
    leave(buffer)


def sglang_second_version(rank: int, ranks: int, store: Any) -> None:
    """Decode packed by expert, without a wait; prefill by token, cut to what has come; a rank without tokens gives one
    of no weight. The same calls are made to a buffer of version 2.5."""
    group = meet(rank, ranks, store)
    for kind in (deep_ep.ElasticBuffer, deep_ep.EPBuffer):
        buffer = kind(group, num_max_tokens_per_rank=T, hidden=H, num_topk=K, use_fp8_dispatch=True,
                      allow_hybrid_mode=False, sl_idx=0, prefer_overlap_with_compute=False)
        sglang_batches(buffer, rank, ranks)
        del buffer  # destroys itself
    deep_ep.destroy_all_managed_nccl_comm()
    dist.destroy_process_group()


def sglang_batches(buffer: deep_ep.ElasticBuffer | deep_ep.EPBuffer, rank: int, ranks: int) -> None:
    """The two layouts of sglang_second_version."""
    assert buffer.num_bytes > 0
    num_sms = buffer.get_theoretical_num_sms(E * ranks, K)
    num_qps = buffer.get_theoretical_num_qps(num_sms)
    inputs = tokens(ranks, 6, drop=False)
    inputs[1] = (inputs[1][0].new_zeros((1, H)), torch.arange(K)[None], inputs[1][2].new_zeros((1, K)))
    x, topk_idx, weights = inputs[rank]
    rows, local, _, ends = expected(inputs, rank)
    for expand in (False, True):
        recv_x, recv_idx, recv_weights, handle, event = buffer.dispatch(
            per_token_cast_to_fp8(x), topk_idx=topk_idx, topk_weights=weights, num_experts=E * ranks,
            num_max_tokens_per_rank=T, expert_alignment=128, num_sms=num_sms, num_qps=num_qps,
            use_tma_aligned_col_major_sf=False, do_cpu_sync=not expand, do_expand=expand)
        assert event.event is None
        if expand:
            assert recv_idx is None and handle.psum_num_recv_tokens_per_expert.shape == (E,)
            y = (plain(recv_x).float() * recv_weights[:, None]).bfloat16()
        else:
            count = int(handle.psum_num_recv_tokens_per_scaleup_rank[-1].item())
            assert count == ends[-1] and list(handle.num_recv_tokens_per_expert_list) == [
                align(int((local == e).sum()), 128) for e in range(E)]
            y = (plain((recv_x[0][:count], recv_x[1][:count])).float() * recv_weights[:count].sum(1, keepdim=True))
            y = y.bfloat16()
        out, _, event = buffer.combine(y, handle=handle, topk_weights=recv_weights, num_sms=num_sms, num_qps=num_qps)
        assert event.event is None
        check_sums(out, x.double() * weights.sum(1, keepdim=True), 0.07)
    assert len(rows) == ends[-1]
    dist.barrier()


class Dispatch(torch.autograd.Function):
    """A dispatch whose derivative is the combine by its handle."""

    @staticmethod
    def forward(ctx: Any, x: Any, topk_idx: Any, weights: Any, buffer: Any, num_experts: int) -> Any:
        before = deep_ep.EventOverlap(deep_ep.utils.EventHandle())
        per_rank, per_rdma_rank, per_expert, in_rank, event = buffer.get_dispatch_layout(
            topk_idx, num_experts, previous_event=before, async_finish=True, allocate_on_comm_stream=True)
        received, got_idx, got_weights, counts, handle, event = buffer.dispatch(
            x, topk_idx=topk_idx, topk_weights=weights, num_tokens_per_rank=per_rank,
            num_tokens_per_rdma_rank=per_rdma_rank, is_token_in_rank=in_rank, num_tokens_per_expert=per_expert,
            previous_event=event, async_finish=True, allocate_on_comm_stream=True)
        event.current_stream_wait()
        ctx.buffer, ctx.handle = buffer, handle
        return received, got_idx, got_weights, torch.tensor(counts), handle

    @staticmethod
    def backward(ctx: Any, of_rows: Any, _idx: Any, of_weights: Any, _counts: Any, _handle: Any) -> Any:
        of_x, of_weights, event = ctx.buffer.combine(
            of_rows.contiguous(), ctx.handle, topk_weights=of_weights.float(),
            previous_event=deep_ep.EventOverlap(deep_ep.utils.EventHandle()), async_finish=True,
            allocate_on_comm_stream=True)
        event.current_stream_wait()
        return of_x, None, of_weights, None, None


class Combine(torch.autograd.Function):
    """A combine whose derivative is a dispatch by the same handle."""

    @staticmethod
    def forward(ctx: Any, y: Any, buffer: Any, handle: Any) -> Any:
        out, _, event = buffer.combine(y, handle=handle, async_finish=True, previous_event=None,
                                       allocate_on_comm_stream=True)
        event.current_stream_wait()
        ctx.buffer, ctx.handle = buffer, handle
        return out, None

    @staticmethod
    def backward(ctx: Any, of_out: Any, _: Any) -> Any:
        of_y, _, _, _, _, event = ctx.buffer.dispatch(of_out.contiguous(), handle=ctx.handle, previous_event=None,
                                                      async_finish=True, allocate_on_comm_stream=True)
        event.current_stream_wait()
        return of_y, None, None


def megatron(rank: int, ranks: int, store: Any) -> None:
    """Training: a layer of experts between a dispatch and a combine, and its derivatives; a buffer of the sizes that
    configurations hint at."""
    group = meet(rank, ranks, store)
    configs = (deep_ep.Buffer.get_dispatch_config(group.size()), deep_ep.Buffer.get_combine_config(group.size()))
    nvl_bytes = max(config.get_nvl_buffer_size_hint(2 * H, group.size()) for config in configs)
    rdma_bytes = max(config.get_rdma_buffer_size_hint(2 * H, group.size()) for config in configs)
    buffer = deep_ep.Buffer(group, nvl_bytes, rdma_bytes)
    assert buffer.group == group and buffer.num_nvl_bytes >= nvl_bytes and buffer.num_rdma_bytes >= rdma_bytes
    x, topk_idx, weights = tokens(ranks, 7)[rank]
    x, weights = x.requires_grad_(), weights.requires_grad_()
    for _ in range(2):
        x.grad = weights.grad = None
        received, got_idx, got_weights, counts, handle = Dispatch.apply(x, topk_idx, weights, buffer, E * ranks)
        assert received.requires_grad and int(counts.sum()) >= 0
        y = received * got_weights.masked_fill(got_idx < 0, 0).sum(1, keepdim=True).to(received.dtype)
        out, _ = Combine.apply(y, buffer, handle)
        out.float().sum().backward()
        chosen = topk_idx >= 0
        check_sums(out.detach(), x.detach().double() * weights.detach().masked_fill(~chosen, 0).sum(1, keepdim=True),
                   0.02)
        check_sums(x.grad, weights.detach().double().masked_fill(~chosen, 0).sum(1, keepdim=True).expand(-1, H), 0.02)
        check_sums(weights.grad, x.detach().double().sum(1, keepdim=True).expand(-1, K).masked_fill(~chosen, 0), 0.05)
    leave(buffer)


def lightllm(rank: int, ranks: int, store: Any) -> None:
    """A buffer of the second version for prefill; and one for decode, whose memory is scratch for prefill, and which is
    cleaned before it serves again."""
    group = meet(rank, ranks, store)
    elastic = deep_ep.ElasticBuffer(group, num_max_tokens_per_rank=64, hidden=H, num_topk=K, use_fp8_dispatch=True,
                                    allow_multiple_reduction=True)
    decode = deep_ep.Buffer(group, num_rdma_bytes=1 << 20, low_latency_mode=True, num_qps_per_rank=E)
    scratch = decode.get_local_buffer_tensor(torch.uint8, use_rdma_buffer=True)
    assert scratch.numel() == 1 << 20 and scratch.dtype == torch.uint8
    first = scratch.narrow(0, 0, scratch.numel() // 2).fill_(7)
    inputs = tokens(ranks, 8)
    x, topk_idx, weights = inputs[rank]
    received, _, _, handle, event = elastic.dispatch(
        per_token_cast_to_fp8(x), topk_idx, weights, num_experts=E * ranks, expert_alignment=128,
        previous_event=elastic.capture(), async_with_compute_stream=True, allocate_on_comm_stream=True, do_expand=True)
    with event(release_handle=True):
        pass
    assert event.event is None and len(plain(received)) == handle.num_expanded_tokens
    decode.clean_low_latency_buffer(T, H, E * ranks)
    received, counts, handle, _, hook = decode.low_latency_dispatch(x, topk_idx, T, E * ranks, use_fp8=False,
                                                                    async_finish=False, return_recv_hook=True)
    hook()
    out, _, hook = decode.low_latency_combine(outputs(received, counts, rank, E), topk_idx, weights, handle,
                                              async_finish=False, return_recv_hook=True)
    hook()
    check_sums(out, sums(x, topk_idx, weights, E), 0.01)
    assert (first == 7).all() and decode.get_local_buffer_tensor(torch.float32, torch.Size([3, 5]), 7,
                                                                 use_rdma_buffer=True).shape == (3, 5)
    elastic.destroy()
    leave(decode)
