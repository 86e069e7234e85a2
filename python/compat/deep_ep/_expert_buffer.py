"""What the buffers of the second version of the original interface have in common, and the handles of their
dispatches."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, ClassVar, Optional

import torch

from weft_compat_ep._arguments import check_whole, experts_of_rank
from weft_compat_ep._buffer import CommonBuffer
from weft_compat_ep._calls import DEFAULT_SMS, Bias, biases, finished, processors_of, values_of
from weft_compat_ep._engines import Engines
from weft_compat_ep._events import WINDOW_BYTES, EventHandle, EventOverlap
from weft_compat_ep._groups import gatherer
from weft_compat_ep._meeting import Meeting
from weft_compat_ep._rows import aligned, check_tensors, dispatch_layout, places, token_limit
from weft_compat_ep._throughput import Form, Kept, Throughput

MOST_ALIGNMENT = 256
"""maximum alignment of the parts of experts: weft_ep_recv_args.alignment"""
Dispatched = tuple[Any, Optional[torch.Tensor], Optional[torch.Tensor], "EPHandle", EventOverlap]
"""(rows or (rows, scales), local experts, weights, handle, event)"""
Combined = tuple[torch.Tensor, Optional[torch.Tensor], EventOverlap]
"""(sums, sums of weights, event)"""


class EPHandle:
    """The handle of a dispatch, for combines and for dispatches along the same paths. Values that only programs need
    that read the attributes of a handle are computed at the first access, in the current stream. Programs may set
    attributes to tensors that they have read before, for instance after they have saved them for a backward pass."""

    token_metadata_at_forward: None = None
    channel_linked_list: None = None
    """for the original's transfers between hosts; Weft has none of these"""

    def __init__(self, kept: Kept, form: Form, most: int, weighed: bool) -> None:
        self.kept = kept
        """Weft's route of the dispatch"""
        self.weighed = weighed
        """whether the dispatch had weights"""
        self.do_expand, self.expert_alignment, self.num_sms = form.expand, form.alignment, form.processors
        self.num_experts = kept.engine.sizes.experts
        self.num_max_tokens_per_rank = most
        self.topk_idx = kept.topk_idx
        """[tokens][top-k]: the caller's tensor, or with do_handle_copy a copy"""
        self.num_recv_tokens = kept.tokens
        """received tokens; without do_cpu_sync the maximum number"""
        self.num_expanded_tokens = kept.rows
        """rows of the received tensors"""
        self.num_unaligned_recv_tokens_per_expert = kept.expert_rows
        """int32 [E]: rows of each local expert"""
        self.num_recv_tokens_per_expert_list = [aligned(count, form.alignment) for count in kept.counts or []]
        """rows of each local expert, rounded up to the alignment; empty without do_cpu_sync"""

    @functools.cached_property
    def psum_num_recv_tokens_per_scaleup_rank(self) -> torch.Tensor:
        """int32 [ranks]: received tokens of the ranks up to each."""
        return self.kept.rank_end

    @functools.cached_property
    def psum_num_recv_tokens_per_expert(self) -> torch.Tensor:
        """int32 [E]: with do_expand the index of the row after the last row of each expert; else a prefix sum of the
        rounded counts."""
        if self.kept.expert_end is not None:
            return self.kept.expert_end
        alignment = self.expert_alignment
        ends: torch.Tensor = ((self.kept.expert_rows + (alignment - 1)) // alignment * alignment).cumsum(0).int()
        return ends

    @functools.cached_property
    def recv_src_metadata(self) -> torch.Tensor:
        """int32 [received tokens][2 + top-k]: [0] rank * num_max_tokens_per_rank + token, -1: none, [1] the rank; with
        do_expand, from 2 on, the rows of the selections, -1: of another rank. Without do_expand [received
        tokens][2]."""
        rank, token, slot = self.kept.src_rank, self.kept.src_token, self.kept.slot
        number = (rank * self.num_max_tokens_per_rank + token).masked_fill(rank < 0, -1)
        sources = torch.stack((number, rank), 1)
        return sources if slot is None else torch.cat((sources, slot), 1)

    @functools.cached_property
    def dst_buffer_slot_idx(self) -> torch.Tensor:
        """int32 [tokens][top-k]: index of the token among the tokens that go to the rank of the selection; -1: none."""
        sizes = self.kept.engine.sizes
        layout = dispatch_layout(self.topk_idx, self.num_experts, sizes.capacity)
        return places(self.topk_idx, layout.in_rank, sizes.experts_per_rank)


class ExpertBuffer(CommonBuffer):
    """One rank of a group of torch.distributed. A subclass has the constructor and the operations of one version of the
    original."""

    NOT_HERE: ClassVar[dict[str, str]]
    """beginnings of the names of original calls that do not exist here, and why"""

    def _open(self, group: Any, num_bytes: int | None, num_max_tokens_per_rank: int, hidden: int,
              num_allocated_qps: int, cpu_seconds: int, gpu_seconds: int, explicitly_destroy: bool) -> None:
        """Meets the other ranks."""
        if num_max_tokens_per_rank < 0 or gpu_seconds <= 0 or cpu_seconds <= 0:
            raise ValueError(f"num_max_tokens_per_rank {num_max_tokens_per_rank}, num_gpu_timeout_secs {gpu_seconds}, "
                             f"num_cpu_timeout_secs {cpu_seconds}: none is below 0, and times are above")
        self.rank_idx, self.num_ranks, gather = gatherer(group)
        self.group = group
        self.num_max_tokens_per_rank = num_max_tokens_per_rank or token_limit()
        self.hidden = hidden
        self.explicitly_destroy = explicitly_destroy
        self.scaleout_rank_idx, self.num_scaleout_ranks = 0, 1
        self.scaleup_rank_idx, self.num_scaleup_ranks = self.rank_idx, self.num_ranks
        self.num_rdma_ranks, self.num_nvlink_ranks = self.get_physical_domain_size()
        self.num_bytes = num_bytes or self.get_buffer_size_hint(group, self.num_max_tokens_per_rank, hidden)
        self.num_allocated_qps = num_allocated_qps or self.get_theoretical_num_qps(DEFAULT_SMS)
        self._seconds = float(cpu_seconds)
        self._meeting = Meeting.by_exchange(self.rank_idx, gather)
        self._engines = Engines(self._meeting, range(self.num_ranks), self._seconds, float(gpu_seconds))
        self._destroyed = False

    # --- other calls of the original ---

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Reports that the original's other calls do not exist: `hasattr` of them is False."""
            for beginning, why in self.NOT_HERE.items():
                if name.startswith(beginning):
                    raise AttributeError(f"{name}: {why}")
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    @staticmethod
    def capture() -> EventHandle:
        """An event of the current stream, for previous_event."""
        return EventHandle()

    @staticmethod
    def get_buffer_size_hint(group: Any, num_max_tokens_per_rank: int, hidden: int, num_topk: int = 0,
                             use_fp8_dispatch: bool = False, allow_hybrid_mode: bool = True,
                             allow_multiple_reduction: bool = True) -> int:
        """Maximum size in bytes of a rank's windows for its peers. Weft makes them itself."""
        del num_max_tokens_per_rank, hidden, num_topk, use_fp8_dispatch, allow_hybrid_mode, allow_multiple_reduction
        return WINDOW_BYTES * max(1, int(group.size()) - 1)

    def get_physical_domain_size(self) -> tuple[int, int]:
        """(1, ranks): Weft chooses the transport to each rank itself, and has no domains."""
        return 1, self.num_ranks

    get_logical_domain_size = get_physical_domain_size

    def get_theoretical_num_sms(self, num_experts: int, num_topk: int, num_scaleout_topk: int = 0, rdma_gbs: float = 0,
                                nvlink_gbs: float = 0, sm_read_gbs: float = 200, sm_write_gbs: float = 50) -> int:
        """Default number of processors that Weft uses."""
        del num_experts, num_topk, num_scaleout_topk, rdma_gbs, nvlink_gbs, sm_read_gbs, sm_write_gbs
        return DEFAULT_SMS

    def get_theoretical_num_qps(self, num_sms: int) -> int:
        """1: Weft makes the queue pairs that it needs itself, and ignores this number."""
        del num_sms
        return 1

    def _barrier(self) -> None:
        """Returns when all ranks have reached it, and their earlier launches have run; the host always waits."""
        self._check_alive()
        engine = self._engines.newest()
        if engine is not None:
            engine.rank.barrier()
        else:
            self._meeting.meet(range(self.num_ranks), "barrier", self._seconds)

    # --- operations ---

    def _dispatch(self, x: Any, topk_idx: torch.Tensor | None, topk_weights: torch.Tensor | None, *, form: Form,
                  num_experts: int | None, num_max_tokens_per_rank: int | None, expert_alignment: int | None,
                  handle: EPHandle | None, do_handle_copy: bool, do_cpu_sync: bool | None,
                  asynchronous: bool) -> Dispatched:
        """Sends tokens to the ranks of their experts, or other values by a handle. The buffer is alive."""
        values, scales = values_of(x)
        if handle is not None:
            kept = self._kept_of(handle)
            self._check_cached(handle, topk_idx, num_experts, expert_alignment, do_cpu_sync, form.expand)
            got = kept.engine.again(values, scales, kept, topk_weights, form)
        elif topk_idx is None or num_experts is None:
            raise ValueError("topk_idx, num_experts: both are wanted, or a handle")
        else:
            check_tensors(topk_idx=topk_idx)
            if values.dim() != 2:
                raise ValueError(f"x: a tensor of shape [tokens, hidden] is wanted, not {list(values.shape)}")
            if not 1 <= form.alignment <= MOST_ALIGNMENT:
                raise ValueError(f"expert_alignment: {expert_alignment} is no number from 1 to {MOST_ALIGNMENT}")
            most = num_max_tokens_per_rank or self.num_max_tokens_per_rank
            if values.shape[0] > most:
                raise ValueError(f"x: {values.shape[0]} tokens, and by num_max_tokens_per_rank (default: "
                                 f"WEFT_EP_MAX_TOKENS) there is room for {most} of a rank")
            # One group is used for all calls with fewer tokens: programs pass another number for each size of a batch.
            engine = self._engines.get(values, experts_of_rank(num_experts, self.num_ranks),
                                       max(most, self.num_max_tokens_per_rank))
            form = form._replace(tokens=most * self.num_ranks)
            if do_cpu_sync is not None and not do_cpu_sync:
                form = form._replace(worst=_worst_rows(engine, topk_idx.shape[-1], form))
            topk_idx = topk_idx.clone() if do_handle_copy else topk_idx
            got = engine.dispatch(values, scales, topk_idx, topk_weights, form)
            handle = EPHandle(got.kept, form, most, topk_weights is not None)
        weights = got.weights if handle.weighed or topk_weights is not None else None
        local = None if got.local is None else got.local.to(handle.topk_idx.dtype)
        return got.data, local, weights, handle, finished(asynchronous, x, got)

    def _combine(self, x: torch.Tensor, handle: EPHandle, topk_weights: torch.Tensor | None, bias: Bias, num_sms: int,
                 asynchronous: bool) -> Combined:
        """Sends rows back. The buffer is alive."""
        kept = self._kept_of(handle)
        out, weights = kept.engine.combine(x, kept, topk_weights, biases(bias),
                                           self._processors(num_sms or handle.num_sms))
        return out, weights, finished(asynchronous, x, topk_weights, bias, out, weights)

    @classmethod
    def _form(cls, expand: bool, alignment: int | None, zero_padding: bool, columns: bool, total: torch.Tensor | None,
              num_sms: int, num_max_tokens_per_rank: int | None) -> Form:
        """The form of a dispatch. `TypeError`: an argument is no whole number."""
        check_whole(expert_alignment=alignment or 1, num_sms=num_sms,
                    num_max_tokens_per_rank=num_max_tokens_per_rank or 0)
        return Form(expand=expand, alignment=alignment or 1, zero_padding=zero_padding, columns=columns, total=total,
                    processors=cls._processors(num_sms))

    @staticmethod
    def _processors(num_sms: int) -> int:
        return processors_of(None, num_sms or DEFAULT_SMS)

    def _kept_of(self, handle: Any) -> Kept:
        if not isinstance(handle, EPHandle) or handle.kept.engine not in self._engines:
            raise TypeError("handle: what a dispatch of this buffer has answered is wanted")
        return handle.kept

    @staticmethod
    def _check_cached(handle: EPHandle, topk_idx: torch.Tensor | None, num_experts: int | None,
                      expert_alignment: int | None, do_cpu_sync: bool | None, do_expand: bool) -> None:
        if topk_idx is not None or do_cpu_sync:
            raise ValueError("topk_idx, do_cpu_sync: a dispatch by a handle has the top-k and the counts of the "
                             "handle: leave them out")
        mine = (handle.num_experts, handle.expert_alignment, handle.do_expand)
        given = (num_experts or mine[0], expert_alignment or mine[1], do_expand)
        if given != mine:
            raise ValueError(f"(num_experts, expert_alignment, do_expand) {given}: those of the handle are {mine}")

    # --- the end ---

    def _close(self) -> None:
        self._engines.close()
        self._meeting.close()


def _worst_rows(engine: Throughput, topk: int, form: Form) -> int:
    """Maximum number of rows of a dispatch."""
    most = engine.most if form.tokens is None else form.tokens
    if not form.expand:
        return most
    experts = engine.sizes.experts_per_rank
    return aligned(most * min(topk, experts), form.alignment) + experts * (form.alignment - 1)
