"""What the ranks of test_cuda.py do: graphs, streams, memory, names of kernels; each rank has a GPU of its own."""

from __future__ import annotations

from typing import Any, Callable

import torch
import torch.distributed as dist
from ep_deep_ranks import E, H, T, begin, finish, inputs_of
from ep_reference import check_received, check_sums, outputs, sums, tokens_of
from ep_throughput_ranks import layout_of
from ep_world import join

import deep_ep
from deep_ep.utils.math import per_token_cast_back
from deep_ep.utils.testing import bench_kineto

TURNS = 50


def graph(rank: int, ranks: int, store: Any) -> None:
    """A dispatch and its combine in a graph, which is replayed with other tokens each time; eager calls between."""
    buffer, inputs = begin(rank, ranks, store)
    x, topk_idx, weights = (tensor.clone() for tensor in inputs[rank])
    kept: dict[str, Any] = {}

    def operate() -> None:
        received, counts, handle, _, hook = buffer.low_latency_dispatch(x, topk_idx, T, E * ranks, use_fp8=False,
                                                                        return_recv_hook=True)
        hook()
        factors = 1 + (rank * E + torch.arange(E)).to(torch.bfloat16) / 16
        out, _, hook = buffer.low_latency_combine(received * factors[:, None, None], topk_idx, weights, handle,
                                                  return_recv_hook=True)
        hook()
        kept.update(received=received, counts=counts, handle=handle, out=out)

    for _ in range(3):
        operate()
    torch.cuda.synchronize()
    dist.barrier()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        operate()
    in_graph = dict(kept)
    for turn in range(6):
        inputs = inputs_of(ranks, seed=turn + 1)
        for mine, given in zip((x, topk_idx, weights), inputs[rank]):
            mine.copy_(given)
        if turn % 3 == 2:
            operate()
        else:
            captured.replay()
        got = kept if turn % 3 == 2 else in_graph
        torch.cuda.synchronize()
        check_received(inputs, rank, got["received"], got["counts"], got["handle"], E)
        check_sums(got["out"], sums(x, topk_idx, weights, E), 0.02)
    del captured
    finish(buffer)


def streams(rank: int, ranks: int, store: Any) -> None:
    """Calls in a stream of the caller's, and an event by which another stream waits for them."""
    buffer, inputs = begin(rank, ranks, store)
    x, topk_idx, weights = inputs[rank]
    mine = torch.cuda.Stream()
    mine.wait_stream(torch.cuda.current_stream())
    for _ in range(5):
        with torch.cuda.stream(mine):
            assert buffer.get_comm_stream() == mine
            received, counts, handle, event, _ = buffer.low_latency_dispatch(x, topk_idx, T, E * ranks, use_fp8=False,
                                                                             async_finish=True)
        event.current_stream_wait()
        check_received(inputs, rank, received, counts, handle, E)
        y = outputs(received, counts, rank, E)
        mine.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(mine):
            out, event, _ = buffer.low_latency_combine(y, topk_idx, weights, handle, async_finish=True)
        event.current_stream_wait()
        check_sums(out, sums(x, topk_idx, weights, E), 0.01)
    finish(buffer)


def low_latency_pair(buffer: Any, mine: tuple[torch.Tensor, ...], ranks: int) -> Callable[[], None]:
    """A dispatch of a rank's tokens, and a combine that answers it."""
    x, topk_idx, weights = mine
    y = torch.ones((E, ranks * T, H), dtype=torch.bfloat16)

    def operate() -> None:
        handle = buffer.low_latency_dispatch(x, topk_idx, T, E * ranks)[2]
        buffer.low_latency_combine(y, topk_idx, weights, handle)

    return operate


def steady(operate: Callable[[], Any], what: str) -> None:
    """That operations take no memory of the GPU once a few have run: neither torch's allocator, nor the library."""
    for _ in range(5):
        operate()
    torch.cuda.synchronize()
    dist.barrier()
    taken = torch.cuda.memory_stats().get("num_device_alloc", 0)
    free = torch.cuda.mem_get_info()[0]
    for _ in range(TURNS):
        operate()
    torch.cuda.synchronize()
    assert torch.cuda.memory_stats().get("num_device_alloc", 0) == taken, what
    assert torch.cuda.mem_get_info()[0] == free, f"{what}: {free} bytes were free, {torch.cuda.mem_get_info()[0]} are"
    dist.barrier()


def memory(rank: int, ranks: int, store: Any) -> None:
    """No allocation in the steady state, at low latency and at high throughput."""
    buffer, inputs = begin(rank, ranks, store)
    x, topk_idx, weights = inputs[rank]
    layout = layout_of(buffer, topk_idx, ranks)

    def high_throughput() -> None:
        received, _, _, _, handle, _ = buffer.dispatch(x, topk_idx=topk_idx, topk_weights=weights, **layout)
        buffer.combine(received, handle)

    steady(low_latency_pair(buffer, inputs[rank], ranks), "low latency")
    steady(high_throughput, "high throughput")
    finish(buffer)


def permutes(rank: int, ranks: int, store: Any) -> None:
    """HybridEPBuffer without waits: in a graph that is replayed with other tokens; with room for too few rows."""
    join(rank, ranks, store)
    buffer = deep_ep.HybridEPBuffer(dist.group.WORLD, H, T, E)
    experts, room = E * ranks, E * ranks * T
    x = torch.zeros((T, H), dtype=torch.bfloat16)
    routing_map = torch.zeros((T, experts), dtype=torch.bool)
    kept: dict[str, Any] = {}

    def operate(rows: int = room) -> None:
        got, probs, _, counts, handle = buffer.dispatch_with_permute(
            hidden=x, routing_map=routing_map, probs=routing_map.float(), num_permuted_tokens=rows, pad_multiple=16,
            non_blocking=True)
        sums, of_tokens = buffer.combine_with_unpermute(hidden=got, probs=probs, handle=handle, pad_multiple=16)
        kept.update(counts=counts, handle=handle, sums=sums, of_tokens=of_tokens)

    operate()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    operate()
    torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()
    dist.barrier()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        operate()
    for turn in range(TURNS):
        generator = torch.Generator("cuda").manual_seed(ranks * turn + rank)
        x.copy_(torch.randn((T, H), generator=generator))
        routing_map.copy_(torch.rand((T, experts), generator=generator) < 0.4)
        captured.replay()
        check_sums(kept["sums"], x.double() * routing_map.sum(1, keepdim=True), 0.01)
        assert torch.equal(kept["of_tokens"], routing_map.float())
    assert int(kept["handle"][10]) == 0 and (kept["counts"] % 16 == 0).all()
    routing_map.fill_(True)
    for rows, too_small in ((16, 1), (room, 0)):
        operate(rows)
        assert int(kept["handle"][10]) == too_small and kept["counts"].tolist() == [ranks * T] * E
    check_sums(kept["sums"], x.double() * experts, 0.01)
    finish(buffer)


def kernels(rank: int, ranks: int, store: Any) -> None:
    """Helpers that look for kernels by the names that programs know find them."""
    buffer, inputs = begin(rank, ranks, store)
    x, topk_idx, weights = inputs[rank]
    y = torch.ones((E, ranks * T, H), dtype=torch.bfloat16)

    def hooked() -> None:
        _, _, handle, _, hook = buffer.low_latency_dispatch(x, topk_idx, T, E * ranks, return_recv_hook=True)
        hook()
        _, _, hook = buffer.low_latency_combine(y, topk_idx, weights, handle, return_recv_hook=True)
        hook()

    dist.barrier()
    operate = low_latency_pair(buffer, inputs[rank], ranks)
    dispatch, combine = bench_kineto(operate, ("dispatch", "combine"), num_tests=10)
    assert 0 < dispatch < 1 and 0 < combine < 1
    halves = bench_kineto(hooked, ("dispatch", "combine"), num_tests=10, num_kernels_per_period=2)
    assert all(len(times) == 2 and min(times) > 0 for times in halves)
    print(f"rank {rank}: dispatch {dispatch * 1e6:.1f} us, combine {combine * 1e6:.1f} us, halves {halves}")
    finish(buffer)


def usual_sizes(rank: int, ranks: int, store: Any) -> None:
    """Low latency with the sizes of a large model: 128 tokens of hidden 7,168, top-8 of 72 experts a rank, fp8."""
    join(rank, ranks, store)
    buffer = deep_ep.Buffer(dist.group.WORLD, low_latency_mode=True, explicitly_destroy=True)
    tokens, hidden, experts = 128, 7168, 72
    for seed in range(4):
        inputs = [tokens_of(r, ranks, tokens=tokens, hidden=hidden, topk=8, experts=experts * ranks, seed=seed)
                  for r in range(ranks)]
        x, topk_idx, weights = inputs[rank]
        (values, scales), counts, handle, _, _ = buffer.low_latency_dispatch(x, topk_idx, tokens, experts * ranks)
        plain = torch.stack([per_token_cast_back(values[e], scales[e]) for e in range(experts)])
        check_received(inputs, rank, plain, counts, handle, experts, exact=False)
        out, _, _ = buffer.low_latency_combine(outputs(plain, counts, rank, experts), topk_idx, weights, handle)
        check_sums(out, sums(x, topk_idx, weights, experts), 0.07)
    finish(buffer)


def many_tokens(rank: int, ranks: int, store: Any) -> None:
    """4,096 tokens of each rank with hidden 7,168, bf16 and back: every row, every sum, and the times of kernels."""
    join(rank, ranks, store)
    buffer = deep_ep.Buffer(dist.group.WORLD, num_nvl_bytes=1 << 30, explicitly_destroy=True)
    tokens, hidden, topk, experts = 4096, 7168, 8, 32 * ranks
    every = [torch.Generator("cuda").manual_seed(r) for r in range(ranks)]
    xs = [torch.randn((tokens, hidden), generator=one).to(torch.bfloat16) for one in every]
    idxs = [torch.rand((tokens, experts), generator=one).topk(topk, 1).indices for one in every]
    x, idx = xs[rank], idxs[rank]
    per_rank, _, per_expert, in_rank, _ = buffer.get_dispatch_layout(idx, experts)

    def dispatch() -> Any:
        received, _, _, _, handle, _ = buffer.dispatch(
            x, topk_idx=idx, topk_weights=torch.ones((tokens, topk)), num_tokens_per_rank=per_rank,
            is_token_in_rank=in_rank, num_tokens_per_expert=per_expert)
        return received, handle

    received, handle = dispatch()
    here = [(one // (experts // ranks) == rank).any(1) for one in idxs]
    assert torch.equal(received, torch.cat([one[there] for one, there in zip(xs, here)]))
    out = buffer.combine(received, handle)[0]
    check_sums(out, x.double() * in_rank.sum(1, keepdim=True), 0.01)
    for names in (("dispatch", "combine"), ("dispatch_impl", "combine_impl")):
        taken = bench_kineto(lambda: buffer.combine(*dispatch()), names, num_tests=5)
        print(f"rank {rank}: " + ", ".join(f"{name} {time * 1e6:.1f} us" for name, time in zip(names, taken)))
        assert all(1e-6 < time < 1 for time in taken)
    finish(buffer)
