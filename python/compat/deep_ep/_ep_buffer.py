"""`EPBuffer`, the buffer for experts of version 2.5 of the original interface."""

from __future__ import annotations

from typing import Any, ClassVar, Union

import torch

from weft_compat_ep._calls import AnyEvent, Bias, wait_for
from weft_compat_ep._events import EventOverlap

from ._expert_buffer import Combined, Dispatched, EPHandle, ExpertBuffer


class EPBuffer(ExpertBuffer):
    """One rank of a group of torch.distributed (`group`), for operations of up to num_max_tokens_per_rank tokens.

    All ranks construct it, and make the same calls in the same order. The arguments about the original's buffers, queue
    pairs and reductions have no effect, as in `ElasticBuffer`; Weft has no memory for redundant experts.
    """

    NOT_HERE: ClassVar[dict[str, str]] = {"lb_": "Weft does not move weights of redundant experts"}

    def __init__(self, group: Any, num_bytes: int | None = None, num_max_tokens_per_rank: int = 0, hidden: int = 0,
                 num_topk: int = 0, use_fp8_dispatch: bool = False, lb_allocation_plan_or_num_bytes: Any = 0,
                 deterministic: bool = False, allow_hybrid_mode: bool = True, allow_multiple_reduction: bool = True,
                 prefer_overlap_with_compute: bool = True, sl_idx: int | None = None, num_allocated_qps: int = 0,
                 num_cpu_timeout_secs: int = 300, num_gpu_timeout_secs: int = 100,
                 explicitly_destroy: bool = False) -> None:
        del num_topk, use_fp8_dispatch, sl_idx
        if lb_allocation_plan_or_num_bytes != 0:
            raise NotImplementedError("lb_allocation_plan_or_num_bytes: Weft has no memory for redundant experts")
        self.num_lb_bytes = 0
        self.deterministic, self.prefer_overlap_with_compute = deterministic, prefer_overlap_with_compute
        self.allow_hybrid_mode, self.allow_multiple_reduction = allow_hybrid_mode, allow_multiple_reduction
        self._open(group, num_bytes, num_max_tokens_per_rank, hidden, num_allocated_qps, num_cpu_timeout_secs,
                   num_gpu_timeout_secs, explicitly_destroy)

    def get_theoretical_num_sms(self, num_experts: int, num_topk: int, num_scaleout_topk: int = 0, rdma_gbs: float = 0,
                                nvlink_gbs: float = 0, sm_read_gbs: float = 0, sm_write_gbs: float = 0) -> int:
        """Default number of processors that Weft uses."""
        return super().get_theoretical_num_sms(num_experts, num_topk, num_scaleout_topk, rdma_gbs, nvlink_gbs,
                                               sm_read_gbs, sm_write_gbs)

    def barrier(self, wait_comm_stream: bool = True, with_cpu_sync: bool = False, sequential: bool = True,
                context_idx: int | None = None) -> None:
        """Returns when all ranks have reached it, and their earlier launches have run; the host always waits."""
        del wait_comm_stream, with_cpu_sync, sequential, context_idx
        self._barrier()

    def dispatch(self, x: Any, topk_idx: torch.Tensor | None = None, topk_weights: torch.Tensor | None = None,
                 cumulative_local_expert_recv_stats: torch.Tensor | None = None, num_experts: int | None = None,
                 num_max_tokens_per_rank: int | None = None, expert_alignment: int | None = None, num_sms: int = 0,
                 num_qps: int = 0, previous_event: AnyEvent = None, async_with_compute_stream: bool = False,
                 allocate_on_comm_stream: bool = False, handle: EPHandle | None = None, do_handle_copy: bool = False,
                 do_cpu_sync: bool | None = None, do_expand: bool = False, do_zero_padding: bool = False,
                 use_tma_aligned_col_major_sf: bool = False,
                 defer_epilogue: bool = False) -> Union[Dispatched, EventOverlap]:
        """Sends tokens to the ranks of their experts, as `ElasticBuffer.dispatch` does. With defer_epilogue the result
        is an event alone, whose first wait returns (rows or (rows, scales), local experts, weights, handle). The
        dispatch is complete before the call returns, with the wait of the host for counts."""
        del num_qps, allocate_on_comm_stream
        self._check_alive()
        if do_handle_copy:
            raise ValueError("do_handle_copy: the handle keeps the caller's topk_idx")
        _check_deferred(defer_epilogue, async_with_compute_stream)
        wait_for(previous_event)
        form = self._form(do_expand, expert_alignment, do_zero_padding, use_tma_aligned_col_major_sf,
                          cumulative_local_expert_recv_stats, num_sms, num_max_tokens_per_rank)
        done = self._dispatch(x, topk_idx, topk_weights, form=form, num_experts=num_experts,
                              num_max_tokens_per_rank=num_max_tokens_per_rank, expert_alignment=expert_alignment,
                              handle=handle, do_handle_copy=False, do_cpu_sync=do_cpu_sync,
                              asynchronous=async_with_compute_stream)
        return _deferred(done) if defer_epilogue else done

    def combine(self, x: torch.Tensor, handle: EPHandle, topk_weights: torch.Tensor | None = None, bias: Bias = None,
                num_sms: int = 0, num_qps: int = 0, previous_event: AnyEvent = None,
                async_with_compute_stream: bool = False, allocate_on_comm_stream: bool = False,
                defer_epilogue: bool = False) -> Union[Combined, EventOverlap]:
        """Sends rows back, as `ElasticBuffer.combine` does. With defer_epilogue the result is an event alone, whose
        first wait returns (sums, sums of weights or None)."""
        del num_qps, allocate_on_comm_stream
        self._check_alive()
        _check_deferred(defer_epilogue, async_with_compute_stream)
        wait_for(previous_event)
        done = self._combine(x, handle, topk_weights, bias, num_sms, async_with_compute_stream)
        return _deferred(done) if defer_epilogue else done


def _check_deferred(defer_epilogue: bool, asynchronous: bool) -> None:
    if defer_epilogue and not asynchronous:
        raise ValueError("defer_epilogue: it goes with async_with_compute_stream, since results come from the event")


def _deferred(done: Union[Dispatched, Combined]) -> EventOverlap:
    """The event of a call, whose first wait returns the other results."""
    results, event = done[:-1], done[-1]
    event.register_hook_after_wait(lambda: results)
    return event
