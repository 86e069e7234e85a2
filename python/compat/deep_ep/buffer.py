"""The `Buffer` of `deep_ep` on Weft, with the low-latency calls."""

from __future__ import annotations

import os
from typing import Any

import torch

from weft_compat_ep._arguments import Sizes, experts_of_rank, window_bytes
from weft_compat_ep._engine import Engine, Handle, Hook
from weft_compat_ep._events import EventOverlap
from weft_compat_ep._groups import gatherer
from weft_compat_ep._meeting import Meeting
from weft_compat_ep._rows import check_tensors

from ._throughput import ThroughputCalls

topk_idx_t = torch.int64

DEFAULT_TIMEOUT_S = 100.0
"""a rank that does not take part in an operation for this time is lost; WEFT_DEEP_EP_TIMEOUT changes it"""


def timeout_s() -> float:
    """Seconds after which a rank that does not come is lost."""
    return float(os.environ.get("WEFT_DEEP_EP_TIMEOUT", DEFAULT_TIMEOUT_S))


class Buffer(ThroughputCalls):
    """One rank of a group of torch.distributed (`group`) or of mpi4py (`comm`).

    All ranks construct it, and make the same calls in the same order. The first dispatch of each size makes the
    windows. num_nvl_bytes, num_rdma_bytes, num_qps_per_rank and the arguments that allow transports have no effect,
    since Weft allocates memory and chooses transports itself.
    """

    def __init__(self, group: Any, num_nvl_bytes: int = 0, num_rdma_bytes: int = 0, low_latency_mode: bool = False,
                 num_qps_per_rank: int = 24, allow_nvlink_for_low_latency_mode: bool = True, allow_mnnvl: bool = False,
                 explicitly_destroy: bool = False, enable_shrink: bool = False, comm: Any = None,
                 num_nvl_peers: int | None = None) -> None:
        del num_qps_per_rank, allow_nvlink_for_low_latency_mode, allow_mnnvl, num_nvl_peers
        self.rank, self.group_size, gather = gatherer(group, comm)
        self.group = group
        self.low_latency_mode = low_latency_mode
        self.num_nvl_bytes, self.num_rdma_bytes = num_nvl_bytes, num_rdma_bytes
        self.explicitly_destroy, self.enable_shrink = explicitly_destroy, enable_shrink
        self._seconds = timeout_s()
        self._masked: set[int] = set()
        self._engines: dict[Sizes, Engine] = {}
        self._last: dict[tuple[int, int, int], Engine] = {}
        """the group that was used last, by the maximum number of tokens, the experts and the top-k"""
        self._own: set[Engine] = set()
        self._destroyed = False
        self._meeting = Meeting.by_exchange(self.rank, gather)

    # --- other calls of the original ---

    @staticmethod
    def get_low_latency_rdma_size_hint(num_max_dispatch_tokens_per_rank: int, hidden: int, num_ranks: int,
                                       num_experts: int) -> int:
        """Bytes of windows that a rank has when all others are connected. Weft allocates them itself."""
        return window_bytes(num_max_dispatch_tokens_per_rank, hidden, num_ranks, num_experts)

    # --- low latency ---

    def clean_low_latency_buffer(self, num_max_dispatch_tokens_per_rank: int, hidden: int, num_experts: int) -> None:
        """Does nothing: Weft's windows need no cleaning."""

    def low_latency_dispatch(self, x: torch.Tensor, topk_idx: torch.Tensor, num_max_dispatch_tokens_per_rank: int,
                             num_experts: int, cumulative_local_expert_recv_stats: torch.Tensor | None = None,
                             dispatch_wait_recv_cost_stats: torch.Tensor | None = None, use_fp8: bool = True,
                             round_scale: bool = False, use_ue8m0: bool = False, async_finish: bool = False,
                             return_recv_hook: bool = False) -> tuple[Any, torch.Tensor, Handle, EventOverlap,
                                                                     Hook | None]:
        """Sends tokens to their experts. Returns (recv_x [E][ranks * max][H], or recv_x with its scales; counts [E];
        handle; event; hook). Received rows are in the order of source rank, then token."""
        try:
            engine = self._last[num_max_dispatch_tokens_per_rank, num_experts, topk_idx.shape[1]]
        except (LookupError, AttributeError, TypeError):  # a new or a wrong size
            engine = self._engine_for(x, topk_idx, num_max_dispatch_tokens_per_rank, num_experts)
        try:
            return engine.dispatch(x, topk_idx, use_fp8, round_scale, use_ue8m0, cumulative_local_expert_recv_stats,
                                   dispatch_wait_recv_cost_stats, async_finish, return_recv_hook,
                                   not self.enable_shrink)
        except (AttributeError, TypeError, ValueError):  # wrong, or another hidden or memory than in the call before
            other = self._engine_for(x, topk_idx, num_max_dispatch_tokens_per_rank, num_experts)
            if other is engine:
                raise
        return other.dispatch(x, topk_idx, use_fp8, round_scale, use_ue8m0, cumulative_local_expert_recv_stats,
                              dispatch_wait_recv_cost_stats, async_finish, return_recv_hook, not self.enable_shrink)

    def low_latency_combine(self, x: torch.Tensor, topk_idx: torch.Tensor, topk_weights: torch.Tensor, handle: Handle,
                            use_logfmt: bool = False, zero_copy: bool = False, async_finish: bool = False,
                            return_recv_hook: bool = False, out: torch.Tensor | None = None,
                            combine_wait_recv_cost_stats: torch.Tensor | None = None) -> tuple[
                                torch.Tensor, EventOverlap, Hook | None]:
        """Sends the experts' outputs back; returns (the weighted sums bf16 [tokens][hidden], event, hook)."""
        if combine_wait_recv_cost_stats is not None:
            raise NotImplementedError("combine_wait_recv_cost_stats: Weft measures waiting in dispatches only")
        return self._engine_of(handle).combine(x, topk_idx, topk_weights, handle, use_logfmt, zero_copy, async_finish,
                                               return_recv_hook, out)

    def get_next_low_latency_combine_buffer(self, handle: Handle) -> torch.Tensor:
        """Memory for the outputs of an operation, bf16 [E][ranks * max][H], for low_latency_combine(zero_copy=True).
        Weft never copies outputs before it sends them, so this memory is no faster than any other."""
        return self._engine_of(handle).combine_buffer(handle, handle[0].device)

    def _engine_for(self, x: torch.Tensor, topk_idx: torch.Tensor, max_tokens: int, num_experts: int) -> Engine:
        self._check_alive()
        if not self.low_latency_mode:
            raise RuntimeError("low_latency_dispatch: the buffer was made without low_latency_mode=True")
        check_tensors(x=x, topk_idx=topk_idx)
        if x.dim() != 2 or topk_idx.dim() != 2 or x.shape[0] != topk_idx.shape[0]:
            raise ValueError(f"x {list(x.shape)}, topk_idx {list(topk_idx.shape)}: [tokens][hidden] and [tokens][top-k]"
                             " are wanted")
        sizes = Sizes(max_tokens, x.shape[1], topk_idx.shape[1], experts_of_rank(num_experts, self.group_size),
                      self.group_size, "cuda" if x.is_cuda else "host")
        engine = self._engines.get(sizes)
        if engine is None:
            part = "-".join(str(size) for size in sizes)
            engine = Engine(self._meeting, sizes, range(self.group_size), seconds=self._seconds,
                            op_seconds=self._seconds, part=part)
            self._engines[sizes] = engine
            self._own.add(engine)
            for rank in self._masked:
                engine.mask(rank, True)
        self._last[max_tokens, num_experts, sizes.topk] = engine
        return engine

    def _engine_of(self, handle: Any) -> Engine:
        if handle.__class__ is Handle:
            engine: Engine = handle.operation.engine
            if engine in self._own:
                return engine
        self._check_alive()
        raise TypeError("handle: what low_latency_dispatch of this buffer has answered is wanted, unchanged")

    # --- masks: 1 is masked ---

    def low_latency_update_mask_buffer(self, rank_to_mask: int, mask: bool = False) -> None:
        """Masks a rank (mask=True), or unmasks it: from the next dispatch on this rank sends it no tokens."""
        self._check_shrink("low_latency_update_mask_buffer")
        if not 0 <= rank_to_mask < self.group_size:
            raise ValueError(f"rank_to_mask: {rank_to_mask}: ranks are 0 to {self.group_size - 1}")
        (self._masked.add if mask else self._masked.discard)(rank_to_mask)
        for engine in self._engines.values():
            engine.mask(rank_to_mask, bool(mask))

    def low_latency_query_mask_buffer(self, mask_status: torch.Tensor) -> None:
        """Writes into int32 [ranks]: 1 for each rank that gets no tokens (masked or lost), else 0. The call waits for
        the current stream; in a graph it does not wait, and writes only the masks."""
        self._check_shrink("low_latency_query_mask_buffer")
        check_tensors(mask_status=mask_status)
        if mask_status.dtype != torch.int32 or mask_status.numel() != self.group_size:
            raise ValueError(f"mask_status: int32 [{self.group_size}] is wanted")
        if self._engines:
            next(reversed(self._engines.values())).read_masks(mask_status)
        else:
            mask_status.copy_(torch.tensor([int(rank in self._masked) for rank in range(self.group_size)],
                                           dtype=torch.int32))

    def low_latency_clean_mask_buffer(self) -> None:
        """Unmasks all ranks that this one has masked. Lost ranks stay lost."""
        self._check_shrink("low_latency_clean_mask_buffer")
        for rank in list(self._masked):
            self.low_latency_update_mask_buffer(rank, False)

    def _check_shrink(self, what: str) -> None:
        self._check_alive()
        if not self.enable_shrink:
            raise RuntimeError(f"{what}: the buffer was made without enable_shrink=True")

    # --- the end ---

    def _close(self) -> None:
        self._close_throughput()
        for engine in self._engines.values():
            engine.close()
        self._meeting.close()
        self._engines.clear()
        self._own.clear()
        self._last.clear()
