#!/usr/bin/env python3
"""What a dispatch and its combine take through `deep_ep.Buffer`: low_latency.py [--ranks 2] [--tokens 128] ...

A process for each rank, each with a GPU of its own; without GPUs on host memory. Times are of both together, back to
back: of calls as a program makes them; of the same calls captured in a graph, twenty pairs in each, so that launching
it counts little (--in-graph); and how long the calls keep the processor. On GPUs they lie between two events around all
of them; the ranks' mean and the slowest rank are printed.
--parts tells what the processor does meanwhile: the calls of weft.ep, which launch the kernels; the tensors that rows
are received into; the rest, which is Python of deep_ep. On host memory calls wait for other ranks: --parts --ranks 1.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from typing import Any, Callable, NamedTuple

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import deep_ep


def span(cuda: bool, warmup: int, count: int, run: Callable[[], Any]) -> tuple[float, float]:
    """Microseconds of one of `count` runs: by the GPU's events (or the clock), and of the processor's calls. Those of
    the warm-up are right ahead, so that a rank whose process begins later than others' does not count."""
    for _ in range(warmup):
        run()
    if not cuda:
        begin = time.perf_counter()
        for _ in range(count):
            run()
        took = (time.perf_counter() - begin) * 1e6 / count
        return took, took
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    begin = time.perf_counter()
    for _ in range(count):
        run()
    called = (time.perf_counter() - begin) * 1e6 / count
    last.record()
    torch.cuda.synchronize()
    return first.elapsed_time(last) * 1e3 / count, called


def begin(rank: int, options: argparse.Namespace, meeting: str) -> tuple[bool, str]:
    """Starts a rank; whether it has a GPU, and its device."""
    cuda = torch.cuda.is_available()
    device = f"cuda:{rank}" if cuda else "cpu"
    if cuda:
        torch.cuda.set_device(rank)
    else:
        torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=options.ranks)
    return cuda, device


class Inputs(NamedTuple):
    """What a rank gives to a dispatch and its combine."""

    x: torch.Tensor
    topk_idx: torch.Tensor
    weights: torch.Tensor
    y: torch.Tensor
    out: torch.Tensor


def make_inputs(options: argparse.Namespace, rank: int, device: str) -> Inputs:
    """Random tokens, and outputs of experts."""
    random = torch.Generator(device=device).manual_seed(rank)
    x = torch.randn((options.tokens, options.hidden), generator=random, device=device).to(torch.bfloat16)
    scores = torch.rand((options.tokens, options.experts * options.ranks), generator=random, device=device)
    topk_idx = scores.topk(options.topk, dim=1).indices.to(deep_ep.topk_idx_t)
    weights = torch.rand((options.tokens, options.topk), generator=random, device=device)
    y = torch.ones((options.experts, options.ranks * options.tokens, options.hidden), dtype=torch.bfloat16,
                   device=device)
    return Inputs(x, topk_idx, weights, y, torch.empty_like(x))


def make_pair(options: argparse.Namespace, buffer: deep_ep.Buffer, given: Inputs) -> Callable[[], Any]:
    """A dispatch, and the combine that answers it."""
    x, topk_idx, weights, y, out = given
    experts = options.experts * options.ranks

    def pair() -> None:
        handle = buffer.low_latency_dispatch(x, topk_idx, options.tokens, experts, use_fp8=not options.bf16)[2]
        buffer.low_latency_combine(y, topk_idx, weights, handle, out=out)

    return pair


def take_apart(buffer: deep_ep.Buffer, given: Inputs, pair: Callable[[], Any], cuda: bool) -> dict[str, float]:
    """Microseconds of the processor in a pair, in the calls of weft.ep alone, in the tensors alone; and how many times
    of ten thousand the tensors had to be made."""
    (engine,) = buffer._engines.values()
    (sets,) = engine.sets.values()
    into = sets.take().into
    stream = torch.cuda.current_stream().cuda_stream if cuda else None

    def calls() -> None:
        number, _ = sets.dispatch(given.x, given.topk_idx, into, stream)
        engine.sums.combine(number, given.y, given.out, given.weights, stream)

    def bursts(run: Callable[[], Any], size: int = 50) -> float:
        """The least of many, each so short that no call waits for room in the GPU's queue."""
        each = []
        for _ in range(40):
            dist.barrier()
            begin = time.perf_counter()
            for _ in range(size):
                run()
            each.append((time.perf_counter() - begin) * 1e6 / size)
            if cuda:
                torch.cuda.synchronize()
        return min(each)

    figures = {"calls": bursts(calls)}
    pair()
    made = sets.made
    figures["pair"] = bursts(pair)
    figures["made"] = (sets.made - made) * 10000 / (40 * 50)
    figures["tensors"] = bursts(sets.take)
    return figures


def capture(pair: Callable[[], Any], count: int) -> Callable[[], Any]:
    """So many pairs in a graph."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            pair()
    return graph.replay


def print_parts(every: list[dict[str, float]]) -> None:
    """Of the rank whose pair takes longest."""
    slowest = max(every, key=lambda one: one["pair"])
    pair, calls, tensors = (slowest[name] for name in ("pair", "calls", "tensors"))
    print(f"of the processor, in bursts: {pair:.1f} us: calls of weft.ep {calls:.1f}, tensors to receive into "
          f"{tensors:.1f}, the rest {pair - calls - tensors:.1f}")
    print(f"tensors were made anew in {slowest['made']:.0f} of 10,000 dispatches, else used again")


def run_rank(rank: int, options: argparse.Namespace, meeting: str) -> None:
    """One rank."""
    cuda, device = begin(rank, options, meeting)
    buffer = deep_ep.Buffer(dist.group.WORLD, low_latency_mode=True, explicitly_destroy=True)
    given = make_inputs(options, rank, device)
    pair = make_pair(options, buffer, given)
    figures = {}
    for name in ("eager", "graph") if cuda else ("eager",):
        run, pairs = (capture(pair, options.in_graph), options.in_graph) if name == "graph" else (pair, 1)
        dist.barrier()
        took, called = span(cuda, -(-options.warmup // pairs), -(-options.iterations // pairs), run)
        figures[name] = took / pairs, called / pairs
    every: list[Any] = [None] * options.ranks
    dist.all_gather_object(every, figures)
    parts: list[Any] = [None] * options.ranks
    dist.all_gather_object(parts, take_apart(buffer, given, pair, cuda) if options.parts else None)
    if rank == 0:
        where = torch.cuda.get_device_name() if cuda else "host memory"
        print(f"{options.ranks} ranks on {where}: {options.tokens} tokens, hidden {options.hidden}, "
              f"top-{options.topk} of {options.experts * options.ranks} experts, {'bf16' if options.bf16 else 'fp8'}, "
              "combine bf16")
        for name in figures:
            times, calls = zip(*(one[name] for one in every))
            print(f"{name}: {sum(times) / len(times):.1f} us, slowest rank {max(times):.1f} us; its calls take "
                  f"{max(calls):.1f} us of the processor")
        if options.parts:
            print_parts(parts)
    dist.barrier()
    buffer.destroy()
    dist.destroy_process_group()


def main() -> None:
    """Starts the ranks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("ranks", 2), ("tokens", 128), ("hidden", 7168), ("topk", 8), ("experts", 72),
                          ("iterations", 500), ("warmup", 100), ("in-graph", 20)):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"[{default}]")
    parser.add_argument("--bf16", action="store_true", help="dispatch bf16, in the place of fp8")
    parser.add_argument("--parts", action="store_true", help="also what the processor does in a pair, by parts")
    options = parser.parse_args()
    if options.parts and options.ranks > 1 and not torch.cuda.is_available():
        parser.error("--parts: without GPUs the calls wait for other ranks, which would count as work: --ranks 1")
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(run_rank, (options, os.path.join(folder, "meeting")), options.ranks)


if __name__ == "__main__":
    main()
