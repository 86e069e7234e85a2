"""`ElasticBuffer`, the second version of the original interface."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from weft_compat_ep._calls import AnyEvent, Bias, wait_for

from ._expert_buffer import Combined, Dispatched, EPHandle, ExpertBuffer

ONLY_EXPERTS = "Weft has the calls of ElasticBuffer for experts, and none for pipelines, gathers and Engram tables"


class ElasticBuffer(ExpertBuffer):
    """One rank of a group of torch.distributed (`group`), for operations of up to num_max_tokens_per_rank tokens.

    All ranks construct it, and make the same calls in the same order. num_bytes, num_cpu_bytes and the other arguments
    about the original's buffers, queue pairs and reductions have no effect: Weft chooses the size of its windows, its
    order of rows is always the same, and it reduces within a rank before it sends.
    """

    NOT_HERE: ClassVar[dict[str, str]] = dict.fromkeys(
        ("agrs_", "all_gather", "create_agrs_", "destroy_agrs_", "engram_", "pp_"), ONLY_EXPERTS)

    def __init__(self, group: Any, num_bytes: int | None = None, num_cpu_bytes: int = 0,
                 num_max_tokens_per_rank: int = 0, hidden: int = 0, num_topk: int = 0, use_fp8_dispatch: bool = False,
                 deterministic: bool = False, allow_hybrid_mode: bool = True, allow_multiple_reduction: bool = True,
                 prefer_overlap_with_compute: bool = True, sl_idx: int = 3, num_allocated_qps: int = 0,
                 num_cpu_timeout_secs: int = 300, num_gpu_timeout_secs: int = 100,
                 explicitly_destroy: bool = False) -> None:
        del num_cpu_bytes, num_topk, use_fp8_dispatch, sl_idx
        self.deterministic, self.prefer_overlap_with_compute = deterministic, prefer_overlap_with_compute
        self.allow_hybrid_mode, self.allow_multiple_reduction = allow_hybrid_mode, allow_multiple_reduction
        self._open(group, num_bytes, num_max_tokens_per_rank, hidden, num_allocated_qps, num_cpu_timeout_secs,
                   num_gpu_timeout_secs, explicitly_destroy)

    def barrier(self, use_comm_stream: bool = True, with_cpu_sync: bool = False, sequential: bool = True) -> None:
        """Returns when all ranks have reached it, and their earlier launches have run; the host always waits."""
        del use_comm_stream, with_cpu_sync, sequential
        self._barrier()

    def dispatch(self, x: Any, topk_idx: torch.Tensor | None = None, topk_weights: torch.Tensor | None = None,
                 cumulative_local_expert_recv_stats: torch.Tensor | None = None, num_experts: int | None = None,
                 num_max_tokens_per_rank: int | None = None, expert_alignment: int | None = None, num_sms: int = 0,
                 num_qps: int = 0, previous_event: AnyEvent = None, previous_event_before_epilogue: AnyEvent = None,
                 async_with_compute_stream: bool = False, allocate_on_comm_stream: bool = False,
                 handle: EPHandle | None = None, do_handle_copy: bool = True, do_cpu_sync: bool | None = None,
                 do_expand: bool = False, do_zero_padding: bool = False,
                 use_tma_aligned_col_major_sf: bool = False) -> Dispatched:
        """Sends tokens to the ranks of their experts: (rows or (rows, scales), local experts, weights, handle, event).

        x: bf16 [tokens][hidden], or (e4m3, scales). Rows are in the order of source rank, then token. Local experts and
        weights are [rows][top-k]: -1 and 0 for experts of other ranks. do_expand: a row for each selection, packed by
        expert, whose parts begin at multiples of expert_alignment (1 to 256); no local experts, and weights [rows].
        Without topk_weights there are no weights. With do_zero_padding the rows between the parts are 0. With
        do_cpu_sync (the default) the host waits, and the result has as many rows as were received; else it has the
        maximum number of rows. With a handle, other values are sent along the same paths to the same places.
        """
        del num_qps, allocate_on_comm_stream
        self._check_alive()
        wait_for(previous_event)
        wait_for(previous_event_before_epilogue)
        form = self._form(do_expand, expert_alignment, do_zero_padding, use_tma_aligned_col_major_sf,
                          cumulative_local_expert_recv_stats, num_sms, num_max_tokens_per_rank)
        return self._dispatch(x, topk_idx, topk_weights, form=form, num_experts=num_experts,
                              num_max_tokens_per_rank=num_max_tokens_per_rank, expert_alignment=expert_alignment,
                              handle=handle, do_handle_copy=do_handle_copy, do_cpu_sync=do_cpu_sync,
                              asynchronous=async_with_compute_stream)

    def combine(self, x: torch.Tensor, handle: EPHandle, topk_weights: torch.Tensor | None = None, bias: Bias = None,
                num_sms: int = 0, num_qps: int = 0, previous_event: AnyEvent = None,
                previous_event_before_epilogue: AnyEvent = None, async_with_compute_stream: bool = False,
                allocate_on_comm_stream: bool = False) -> Combined:
        """Sends rows back: (the sum of each token's rows and of up to two biases, bf16 [tokens][hidden], the sums of
        their weights [tokens][top-k] or None, event)."""
        del num_qps, allocate_on_comm_stream
        self._check_alive()
        wait_for(previous_event)
        wait_for(previous_event_before_epilogue)
        return self._combine(x, handle, topk_weights, bias, num_sms, async_with_compute_stream)
