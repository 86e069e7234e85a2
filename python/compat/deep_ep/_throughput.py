"""The high-throughput calls of `Buffer`, which it inherits."""

from __future__ import annotations

import os
from typing import Any

import torch

from weft_compat_ep._calls import Bias, Dispatched, HighThroughput, global_handle, prefix_handle
from weft_compat_ep._events import Config, EventOverlap
from weft_compat_ep._meeting import Meeting
from weft_compat_ep._rows import TOKENS_VARIABLE, DispatchLayout, sizes_of, token_limit
from weft_compat_ep._throughput import Throughput


class ThroughputCalls(HighThroughput):
    """Dispatches of many tokens: one row for each token on each rank, by source rank, then by token.

    The first dispatch of each hidden size and number of experts opens a group of ranks. Its operations have up to
    WEFT_EP_MAX_TOKENS tokens of a rank. Without this variable they have up to 8,192, or up to the next power of two of
    the most tokens that a rank has in that dispatch.
    """

    _meeting: Meeting
    _seconds: float
    enable_shrink: bool

    def _engine_for_many(self, x: torch.Tensor, experts_per_rank: int) -> Throughput:
        engines: dict[Any, Throughput] = self.__dict__.setdefault("_many", {})
        key = (x.shape[1], experts_per_rank, x.is_cuda, os.environ.get(TOKENS_VARIABLE))
        engine = engines.get(key)
        if engine is None:
            memory = "cuda" if x.is_cuda else "host"
            part = f"-{x.shape[1]}-{experts_per_rank}-{memory}"
            tokens = self._meeting.largest(f"tokens{part}", token_limit(x.shape[0]),
                                           range(self.group_size), self._seconds)
            sizes = sizes_of(tokens, x.shape[1], experts_per_rank, self.group_size, memory)
            self._meeting.agree(sizes, part)
            engine = engines[key] = Throughput(
                self._meeting, sizes, range(self.group_size), seconds=self._seconds, op_seconds=self._seconds,
                part="-".join(map(str, sizes)), strict=not self.enable_shrink)
        return engine

    def _plan(self, topk_idx: torch.Tensor, num_experts: int) -> DispatchLayout | None:
        engines: dict[Any, Throughput] = self.__dict__.get("_many", {})
        wanted = num_experts // self.group_size, topk_idx.is_cuda
        for (_, experts_per_rank, cuda, _), engine in engines.items():
            if (experts_per_rank, cuda) == wanted and topk_idx.dim() == 2:
                return engine.layout(topk_idx)
        return None

    def dispatch(self, x: Any, handle: Any = None, num_tokens_per_rank: torch.Tensor | None = None,
                 num_tokens_per_rdma_rank: torch.Tensor | None = None, is_token_in_rank: torch.Tensor | None = None,
                 num_tokens_per_expert: torch.Tensor | None = None, topk_idx: torch.Tensor | None = None,
                 topk_weights: torch.Tensor | None = None, expert_alignment: int = 1, num_worst_tokens: int = 0,
                 config: Config | None = None, previous_event: EventOverlap | None = None, async_finish: bool = False,
                 allocate_on_comm_stream: bool = False) -> Dispatched:
        """Sends tokens to the ranks of their experts, as computed by get_dispatch_layout.

        x: bf16 [tokens][hidden], or (e4m3, scales). Returns (rows [received][hidden] or (rows, scales), local experts
        [received][top-k] with -1 for experts of other ranks, their weights, rows of each local expert rounded up to
        expert_alignment, handle, event). The host waits for the number of rows. With num_worst_tokens it does not wait:
        the result has that number of rows, the rows after the received ones have -1 and undefined values, and the list
        is empty. With a handle, other values are sent along the same paths to the same places, and all results except
        the rows and the event are None.
        """
        del num_tokens_per_rank, num_tokens_per_rdma_rank, allocate_on_comm_stream
        return self._send_many(prefix_handle, x, handle, is_token_in_rank, num_tokens_per_expert, topk_idx,
                               topk_weights, expert_alignment, num_worst_tokens, config, previous_event, async_finish)

    def combine(self, x: torch.Tensor, handle: Any, topk_weights: torch.Tensor | None = None, bias: Bias = None,
                config: Config | None = None, previous_event: EventOverlap | None = None, async_finish: bool = False,
                allocate_on_comm_stream: bool = False) -> tuple[torch.Tensor, torch.Tensor | None, EventOverlap]:
        """Sends rows back: (the sum of each token's rows and of up to two biases, bf16 [tokens][hidden], the sums of
        their weights [tokens][top-k] or None, event). A handle can be used for any number of combines."""
        del allocate_on_comm_stream
        return self._combine_many(x, handle, topk_weights, bias, config, previous_event, async_finish)

    def internode_dispatch(self, x: Any, handle: Any = None, num_tokens_per_rank: torch.Tensor | None = None,
                           num_tokens_per_rdma_rank: torch.Tensor | None = None,
                           is_token_in_rank: torch.Tensor | None = None,
                           num_tokens_per_expert: torch.Tensor | None = None, topk_idx: torch.Tensor | None = None,
                           topk_weights: torch.Tensor | None = None, expert_alignment: int = 1,
                           config: Config | None = None, previous_event: EventOverlap | None = None,
                           async_finish: bool = False, allocate_on_comm_stream: bool = False) -> Dispatched:
        """`dispatch`, with the handle that the original returns between hosts: entry [-4] is a prefix sum of the
        received rows of the ranks."""
        del num_tokens_per_rank, num_tokens_per_rdma_rank, allocate_on_comm_stream
        return self._send_many(global_handle, x, handle, is_token_in_rank, num_tokens_per_expert, topk_idx,
                               topk_weights, expert_alignment, 0, config, previous_event, async_finish)

    internode_combine = combine

    def _close_throughput(self) -> None:
        """Closes the groups that these calls have opened."""
        for engine in self.__dict__.pop("_many", {}).values():
            engine.close()
