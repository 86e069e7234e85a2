#!/usr/bin/env python3
"""What the calls for many tokens take through `deep_ep.Buffer`: high_throughput.py [--ranks 2] [--tokens 4096] ...

A process for each rank, each with a GPU of its own; without GPUs on host memory. Each call is timed alone, back to
back: a dispatch that waits for its counts, one with room for the worst case, which waits for nothing, one by a handle,
and the combine. The ranks' mean and the slowest rank are printed, and the bytes that cross to other ranks in that time.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from typing import Any, Callable

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from low_latency import begin, span

import deep_ep
from deep_ep.utils.math import per_token_cast_to_fp8


class Calls:
    """The tokens of a rank, and what is timed of them."""

    def __init__(self, options: argparse.Namespace, buffer: deep_ep.Buffer, rank: int, device: str) -> None:
        experts = options.experts * options.ranks
        random = torch.Generator(device=device).manual_seed(rank)
        self.buffer, self.worst = buffer, options.tokens * options.ranks
        self.bf16 = torch.randn((options.tokens, options.hidden), generator=random, device=device).to(torch.bfloat16)
        self.fp8 = per_token_cast_to_fp8(self.bf16)
        scores = torch.rand((options.tokens, experts), generator=random, device=device)
        self.idx = scores.topk(options.topk, dim=1).indices.to(deep_ep.topk_idx_t)
        self.weights = torch.rand((options.tokens, options.topk), generator=random, device=device)
        per_rank, _, per_expert, in_rank, _ = buffer.get_dispatch_layout(self.idx, experts)
        self.layout = {"num_tokens_per_rank": per_rank, "num_tokens_per_expert": per_expert,
                       "is_token_in_rank": in_rank}
        self.sent = int(in_rank.sum()) - int(in_rank[:, rank].sum())
        """rows to other ranks"""
        self.received, _, _, _, self.handle, _ = self.dispatch(self.bf16)

    def dispatch(self, x: Any, **more: Any) -> Any:
        """A dispatch that fills a handle."""
        return self.buffer.dispatch(x, topk_idx=self.idx, topk_weights=self.weights, **self.layout, **more)

    def all(self) -> dict[str, tuple[Callable[[], Any], int]]:
        """Each call, and the bytes of a row in it."""
        hidden = self.bf16.shape[1]
        one, two = hidden + 4 * (hidden // 128), 2 * hidden
        return {
            "layout": (lambda: self.buffer.get_dispatch_layout(self.idx, self.layout["num_tokens_per_expert"].numel()),
                       0),
            "dispatch fp8": (lambda: self.dispatch(self.fp8), one),
            "dispatch fp8, worst case": (lambda: self.dispatch(self.fp8, num_worst_tokens=self.worst), one),
            "dispatch bf16": (lambda: self.dispatch(self.bf16), two),
            "dispatch bf16, worst case": (lambda: self.dispatch(self.bf16, num_worst_tokens=self.worst), two),
            "dispatch bf16, by a handle": (lambda: self.buffer.dispatch(self.bf16, handle=self.handle), two),
            "combine bf16": (lambda: self.buffer.combine(self.received, self.handle), two),
        }


def run_rank(rank: int, options: argparse.Namespace, meeting: str) -> None:
    """One rank."""
    cuda, device = begin(rank, options, meeting)
    os.environ.setdefault("WEFT_EP_MAX_TOKENS", str(options.tokens))
    deep_ep.Buffer.set_num_sms(options.sms)
    buffer = deep_ep.Buffer(dist.group.WORLD, explicitly_destroy=True)
    calls = Calls(options, buffer, rank, device)
    figures = {}
    for name, (call, row) in calls.all().items():
        span(cuda, options.warmup, call)
        dist.barrier()
        figures[name] = (*span(cuda, options.iterations, call), row * calls.sent)
    every: list[Any] = [None] * options.ranks
    dist.all_gather_object(every, figures)
    if rank == 0:
        where = torch.cuda.get_device_name() if cuda else "host memory"
        print(f"{options.ranks} ranks on {where}: {options.tokens} tokens, hidden {options.hidden}, "
              f"top-{options.topk} of {options.experts * options.ranks} experts, {options.sms} processors")
        for name in figures:
            times, host, sent = zip(*(one[name] for one in every))
            rate = f", {max(sent) / max(times) / 1e3:.0f} GB/s to others" if max(sent) else ""
            print(f"{name}: {sum(times) / len(times):.1f} us, slowest rank {max(times):.1f} us{rate}; its calls take "
                  f"{max(host):.1f} us of the processor")
    dist.barrier()
    buffer.destroy()
    dist.destroy_process_group()


def main() -> None:
    """Starts the ranks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("ranks", 2), ("tokens", 4096), ("hidden", 7168), ("topk", 8), ("experts", 32), ("sms", 24),
                          ("iterations", 100), ("warmup", 20)):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"[{default}]")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(run_rank, (options, os.path.join(folder, "meeting")), options.ranks)


if __name__ == "__main__":
    main()
