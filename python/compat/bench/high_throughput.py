#!/usr/bin/env python3
"""What the calls for many tokens take through `deep_ep.Buffer`, with --elastic through `deep_ep.ElasticBuffer`, and
with --hybrid through `deep_ep.HybridEPBuffer`: high_throughput.py [--elastic | --hybrid] [--ranks 2] ...

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
from deep_ep.hybrid_ep_buffer import indices_to_map
from deep_ep.utils.math import per_token_cast_to_fp8

Timed = dict[str, tuple[Callable[[], Any], int]]
"""calls by name, and the bytes of a row in each"""


class Tokens:
    """The tokens of a rank."""

    def __init__(self, options: argparse.Namespace, rank: int, device: str) -> None:
        self.experts = options.experts * options.ranks
        random = torch.Generator(device=device).manual_seed(rank)
        self.bf16 = torch.randn((options.tokens, options.hidden), generator=random, device=device).to(torch.bfloat16)
        self.fp8 = per_token_cast_to_fp8(self.bf16)
        scores = torch.rand((options.tokens, self.experts), generator=random, device=device)
        self.idx = scores.topk(options.topk, dim=1).indices.to(deep_ep.topk_idx_t)
        self.weights = torch.rand((options.tokens, options.topk), generator=random, device=device)
        self.two = 2 * options.hidden
        self.one = options.hidden + 4 * (options.hidden // 128)
        """bytes of a row of fp8, with its scales"""
        ranks = self.idx // options.experts
        self.sent = sum(int((ranks == other).any(1).sum()) for other in range(options.ranks) if other != rank)
        """rows to other ranks"""


class Calls(Tokens):
    """What is timed of a Buffer."""

    def __init__(self, options: argparse.Namespace, rank: int, device: str) -> None:
        super().__init__(options, rank, device)
        deep_ep.Buffer.set_num_sms(options.sms)
        self.buffer = deep_ep.Buffer(dist.group.WORLD, explicitly_destroy=True)
        self.worst = options.tokens * options.ranks
        per_rank, _, per_expert, in_rank, _ = self.buffer.get_dispatch_layout(self.idx, self.experts)
        self.layout = {"num_tokens_per_rank": per_rank, "num_tokens_per_expert": per_expert,
                       "is_token_in_rank": in_rank}
        self.received, _, _, _, self.handle, _ = self.dispatch(self.bf16)

    def dispatch(self, x: Any, **more: Any) -> Any:
        """A dispatch that fills a handle."""
        return self.buffer.dispatch(x, topk_idx=self.idx, topk_weights=self.weights, **self.layout, **more)

    def all(self) -> Timed:
        """Each call."""
        one, two = self.one, self.two
        return {
            "layout": (lambda: self.buffer.get_dispatch_layout(self.idx, self.experts), 0),
            "dispatch fp8": (lambda: self.dispatch(self.fp8), one),
            "dispatch fp8, worst case": (lambda: self.dispatch(self.fp8, num_worst_tokens=self.worst), one),
            "dispatch bf16": (lambda: self.dispatch(self.bf16), two),
            "dispatch bf16, worst case": (lambda: self.dispatch(self.bf16, num_worst_tokens=self.worst), two),
            "dispatch bf16, by a handle": (lambda: self.buffer.dispatch(self.bf16, handle=self.handle), two),
            "combine bf16": (lambda: self.buffer.combine(self.received, self.handle), two),
        }


class ElasticCalls(Tokens):
    """What is timed of an ElasticBuffer."""

    def __init__(self, options: argparse.Namespace, rank: int, device: str) -> None:
        super().__init__(options, rank, device)
        self.sms = options.sms
        self.buffer = deep_ep.ElasticBuffer(dist.group.WORLD, num_max_tokens_per_rank=options.tokens,
                                            hidden=options.hidden, explicitly_destroy=True)
        self.received, _, _, self.handle, _ = self.dispatch(self.bf16)
        self.packed, _, _, self.packed_handle, _ = self.dispatch(self.bf16, do_expand=True)

    def dispatch(self, x: Any, **more: Any) -> Any:
        """A dispatch that fills a handle, which keeps the caller's top-k."""
        return self.buffer.dispatch(x, self.idx, self.weights, num_experts=self.experts, num_sms=self.sms,
                                    do_handle_copy=False, **more)

    def all(self) -> Timed:
        """Each call."""
        one, two, expand = self.one, self.two, {"do_expand": True, "expert_alignment": 128}
        return {
            "dispatch fp8": (lambda: self.dispatch(self.fp8), one),
            "dispatch fp8, worst case": (lambda: self.dispatch(self.fp8, do_cpu_sync=False), one),
            "dispatch bf16": (lambda: self.dispatch(self.bf16), two),
            "dispatch bf16, worst case": (lambda: self.dispatch(self.bf16, do_cpu_sync=False), two),
            "dispatch bf16, by a handle": (lambda: self.buffer.dispatch(self.bf16, handle=self.handle), two),
            "combine bf16": (lambda: self.buffer.combine(self.received, self.handle), two),
            "dispatch fp8, packed": (lambda: self.dispatch(self.fp8, **expand), one),
            "dispatch fp8, packed, worst case": (lambda: self.dispatch(self.fp8, do_cpu_sync=False, **expand), one),
            "combine bf16, packed": (lambda: self.buffer.combine(self.packed, self.packed_handle), two),
        }


class HybridCalls(Tokens):
    """What is timed of a HybridEPBuffer. Each token is sent by a routing map, unless the name of a call says top-k."""

    def __init__(self, options: argparse.Namespace, rank: int, device: str) -> None:
        super().__init__(options, rank, device)
        self.buffer = deep_ep.HybridEPBuffer(dist.group.WORLD, options.hidden, options.tokens, options.experts,
                                             num_sms_dispatch_api=options.sms, num_sms_combine_api=options.sms)
        routing_map, probs = indices_to_map(self.idx, self.weights, options.tokens, self.experts)
        self.by_map = {"routing_map": routing_map, "probs": probs}
        self.by_topk = {"topk_idx": self.idx, "topk_weights": self.weights, "num_of_experts": self.experts}
        self.rows, _, _, self.handle = self.buffer.dispatch(self.bf16, **self.by_map)
        self.permuted, self.probs, _, _, self.permute_handle = self.permute(**self.by_map)
        worst = options.tokens * options.ranks * min(options.topk, options.experts)
        self.no_wait = {"non_blocking": True, "num_permuted_tokens": worst}

    def permute(self, **more: Any) -> Any:
        """A dispatch that permutes rows."""
        return self.buffer.dispatch_with_permute(hidden=self.bf16, **more)

    def unpermute(self, **more: Any) -> Any:
        """Its combine."""
        return self.buffer.combine_with_unpermute(hidden=self.permuted, handle=self.permute_handle, **more)

    def all(self) -> Timed:
        """Each call."""
        two = self.two
        return {
            "dispatch bf16": (lambda: self.buffer.dispatch(self.bf16, **self.by_map), two),
            "dispatch bf16, by top-k": (lambda: self.buffer.dispatch(self.bf16, **self.by_topk), two),
            "dispatch bf16, by a handle": (lambda: self.buffer.dispatch(self.bf16, handle=self.handle), two),
            "combine bf16": (lambda: self.buffer.combine(self.rows, handle=self.handle), two),
            "dispatch bf16, permuted": (lambda: self.permute(**self.by_map), two),
            "dispatch bf16, permuted, by top-k": (lambda: self.permute(**self.by_topk), two),
            "dispatch bf16, permuted, worst case": (lambda: self.permute(**self.by_map, **self.no_wait), two),
            "dispatch bf16, permuted, by a handle": (lambda: self.permute(handle=self.permute_handle), two),
            "combine bf16, permuted": (self.unpermute, two),
            "combine bf16, permuted, with probabilities": (lambda: self.unpermute(probs=self.probs), two),
        }


def run_rank(rank: int, options: argparse.Namespace, meeting: str) -> None:
    """One rank."""
    cuda, device = begin(rank, options, meeting)
    os.environ.setdefault("WEFT_EP_MAX_TOKENS", str(options.tokens))
    kind: Any = ElasticCalls if options.elastic else HybridCalls if options.hybrid else Calls
    calls = kind(options, rank, device)
    figures = {}
    for name, (call, row) in calls.all().items():
        dist.barrier()
        figures[name] = (*span(cuda, options.warmup, options.iterations, call), row * calls.sent)
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
    calls.buffer.destroy()
    dist.destroy_process_group()


def main() -> None:
    """Starts the ranks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("ranks", 2), ("tokens", 4096), ("hidden", 7168), ("topk", 8), ("experts", 32), ("sms", 24),
                          ("iterations", 100), ("warmup", 20)):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"[{default}]")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--elastic", action="store_true", help="an ElasticBuffer instead of a Buffer")
    kinds.add_argument("--hybrid", action="store_true", help="a HybridEPBuffer instead of a Buffer")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(run_rank, (options, os.path.join(folder, "meeting")), options.ranks)


if __name__ == "__main__":
    main()
