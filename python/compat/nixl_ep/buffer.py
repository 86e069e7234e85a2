"""The `Buffer` of `nixl_ep` on Weft: a rank of a group in which ranks join, leave and die during operations."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import torch
import weft

from weft_compat_ep._arguments import Sizes, window_bytes
from weft_compat_ep._calls import Bias, Dispatched, HighThroughput, global_handle
from weft_compat_ep._engine import Engine, Handle, Hook
from weft_compat_ep._events import Config, EventOverlap
from weft_compat_ep._groups import gatherer
from weft_compat_ep._meeting import Meeting, named_store, publish
from weft_compat_ep._rows import check_tensors, sizes_of, token_limit
from weft_compat_ep._throughput import Throughput

DEFAULT_TIMEOUT_MS = 30000
JOIN_TIMEOUT_S = 120.0
"""minimum time to wait for ranks that join or leave: their processes may have started only just now"""

topk_idx_t = torch.int64

class Buffer(HighThroughput):
    """One rank of a group whose ranks join and leave.

    Ranks meet through `tcp_store_group` (a torch TCPStore), or through the store that WEFT_STORE or
    NIXL_ETCD_ENDPOINTS names, or in `group` (torch.distributed) or `comm` (mpi4py). The sizes of operations are those
    of the first dispatch of the group; a rank that joins later gets them from the others. A buffer has either the
    low-latency calls or, with low_latency_mode=False, those for high throughput.
    """

    def __init__(self, disable_ll_nvlink: bool = False, explicitly_destroy: bool = False, rank: int = 0,
                 low_latency_mode: bool = True, group: Any = None, comm: Any = None, tcp_store_group: Any = None,
                 timeout_ms: int = DEFAULT_TIMEOUT_MS, *, nvlink_backend: str | None = None,
                 enable_shrink: bool = True) -> None:
        if timeout_ms <= 0:
            raise ValueError(f"timeout_ms: {timeout_ms} is no time: milliseconds from 1 on are wanted")
        del disable_ll_nvlink, nvlink_backend  # Weft chooses the transport itself; WEFT_EP_TRANSPORT names one
        del enable_shrink  # of an older version, like nvlink_backend: masks are always available
        self._gather = None
        self.rank, self.group, self.comm = rank, group, comm
        if group is not None or comm is not None:
            self.rank, _, self._gather = gatherer(group, comm)
        self.explicitly_destroy = explicitly_destroy
        self.low_latency_mode = low_latency_mode
        self.group_size = 0
        """all rank indices are less than it: num_ranks of update_memory_buffers"""
        self._experts = 0
        self._op_seconds = timeout_ms / 1000
        self._seconds = max(self._op_seconds, JOIN_TIMEOUT_S)
        self.tcp_store_group = tcp_store_group
        self._meeting: Meeting | None = None
        self._engine: Engine | Throughput | None = None
        self._connected: set[int] = set()
        self._masked: set[int] = set()
        self._staged: set[int] = set()
        """ranks that join at the operation after this rank has unmasked them"""
        self._admitted: set[int] = set()
        """ranks that join at the next operation"""
        self._late = False
        """whether this rank itself joins at its first operation"""
        self._destroyed = False

    # --- other calls of the original ---

    @staticmethod
    def get_rdma_size_hint(num_max_dispatch_tokens_per_rank: int, hidden: int, num_ranks: int,
                           num_experts: int) -> int:
        """Bytes of windows that a rank has when all others are connected. Weft makes them when ranks connect, so
        num_rdma_bytes of update_memory_buffers has no effect."""
        return window_bytes(num_max_dispatch_tokens_per_rank, hidden, num_ranks, num_experts)

    get_low_latency_buffer_size_hint = get_rdma_size_hint

    # --- membership ---

    def update_memory_buffers(self, num_ranks: int, num_experts_per_rank: int, num_rdma_bytes: int = 0,
                              num_nvl_bytes: int = 0) -> None:
        """Sets the maximum number of ranks, and the experts of each. Weft allocates windows when ranks connect, so the
        bytes only affect get_local_buffer_tensor."""
        if num_ranks <= 0 or num_experts_per_rank <= 0:
            raise ValueError(f"update_memory_buffers: {num_ranks} ranks with {num_experts_per_rank} experts each: both "
                             "have to be at least 1")
        if not self.rank < num_ranks:
            raise ValueError(f"num_ranks: this is rank {self.rank}, and ranks are below num_ranks, {num_ranks}")
        if self._engine and (num_ranks, num_experts_per_rank) != (self.group_size, self._experts):
            raise ValueError(f"update_memory_buffers: the group has operations for {self.group_size} ranks with "
                             f"{self._experts} experts each; begin with the most ranks that there will be")
        self.group_size, self._experts = num_ranks, num_experts_per_rank
        self.num_rdma_bytes, self.num_nvl_bytes = num_rdma_bytes, num_nvl_bytes

    def set_tcp_store_group(self, tcp_store_group: Any) -> None:
        """The store through which later ranks find this one, which then calls connect_ranks for them; None: this rank
        does not need it any more."""
        if tcp_store_group is not None and not hasattr(tcp_store_group, "set"):
            raise TypeError(f"tcp_store_group: a TCPStore is wanted, not {tcp_store_group!r:.60}")
        self.tcp_store_group = tcp_store_group
        if tcp_store_group is not None and self._meeting is not None:
            publish(tcp_store_group, {**self._meeting.info, "invites": "1"})

    def connect_ranks(self, remote_ranks: Iterable[int], activate: bool = True) -> None:
        """Adds ranks to the group, always including this one, and returns when the next operation has all of them. All
        ranks of the group have to call it, and all ranks that join. activate=False: the call returns at once, and the
        new ranks are masked; they join at the first operation after the ranks of the group have called
        update_mask_buffer(rank, False), and until then they take part in no operation."""
        ranks = self._ranks_of(remote_ranks, "connect_ranks") - {self.rank}
        meeting = self._meet(ranks)
        new = ranks - (set(self._engine.rank.view.ranks) if self._engine else self._connected)
        self._connected |= ranks
        (self._masked.update if not activate else self._masked.difference_update)(new)
        if self._engine is None:
            # The first dispatch fixes the sizes.
            if meeting.sizes() is None and meeting.pair(ranks, self._seconds):
                return
            sizes = meeting.sizes()
            assert sizes is not None
            self._late = meeting.joins_late(ranks, self._seconds)
            if self._late:
                return
            self._engine = self._open(sizes)
        else:
            meeting.invite(ranks if activate else new, staged=not activate)
            (self._staged.update if not activate else self._staged.difference_update)(new)
            self._admitted -= new
            if not activate:
                return
        self._reach(ranks | {self.rank}, "connect_ranks")

    def _reach(self, ranks: set[int], what: str) -> None:
        """Runs operations without tokens until the next one has all of these ranks."""
        assert self._engine is not None
        self._engine.reach(ranks, set(), what)
        self._apply_masks()

    def _admit(self) -> None:
        """Before an operation: waits for the ranks that join at it."""
        if self._admitted:
            self._reach(self._admitted | {self.rank}, "unmasked ranks")
            assert self._meeting is not None
            self._meeting.withdraw(self._admitted)
            self._admitted.clear()

    def disconnect_ranks(self, remote_ranks: Iterable[int]) -> None:
        """Removes ranks from the group, and returns when the next operation is without them. All remaining ranks have
        to call it. The removed ranks may already have died or left."""
        ranks = self._ranks_of(remote_ranks, "disconnect_ranks")
        if self.rank in ranks:
            raise ValueError(f"disconnect_ranks: {self.rank} is this rank: it leaves by destroy()")
        for known in (self._connected, self._masked, self._staged, self._admitted):
            known -= ranks
        if self._engine is not None:
            assert self._meeting is not None
            self._meeting.withdraw(ranks)
            self._engine.remove(ranks, "disconnect_ranks")
        elif self._meeting is not None:
            self._meeting.unpair(ranks)

    def barrier(self) -> None:
        """Returns when all ranks of the group have reached it; a rank that dies, or does not reach it in time, is
        lost."""
        self._check_alive()
        if self._late:
            self._join()
        if self._engine is not None:
            self._admit()
            self._engine.settle()
            self._engine.pass_barrier()
        elif self._meeting is not None:
            self._meeting.pass_together(self._connected, self._seconds)

    def _ranks_of(self, ranks: Iterable[int], what: str) -> set[int]:
        self._check_ready(what)
        wanted = {int(rank) for rank in ranks}
        if wanted and not 0 <= min(wanted) <= max(wanted) < self.group_size:
            raise ValueError(f"{what}: {sorted(wanted)}: ranks are 0 to {self.group_size - 1}")
        return wanted

    def _check_ready(self, what: str) -> None:
        self._check_alive()
        if self.group_size == 0:
            raise RuntimeError(f"{what}: call update_memory_buffers first: it says how many ranks there may be, and "
                               "how many experts each has")

    def _meet(self, others: set[int]) -> Meeting:
        if self._meeting is None:
            named = named_store()
            if self.tcp_store_group is not None:
                first = self.rank < min(others, default=self.group_size)
                self._meeting = Meeting.by_tcp_store(self.tcp_store_group, self.rank, first, self._seconds)
            elif named is not None:
                self._meeting = Meeting(named, self.rank)
            elif self._gather is not None:
                self._meeting = Meeting.by_exchange(self.rank, self._gather)
            else:
                raise RuntimeError("connect_ranks: ranks need a place to meet: tcp_store_group= or group= of this "
                                   "class, or WEFT_STORE or NIXL_ETCD_ENDPOINTS in the environment")
        return self._meeting

    def _open(self, sizes: Sizes) -> Engine | Throughput:
        if (sizes.capacity, sizes.experts_per_rank) != (self.group_size, self._experts):
            raise ValueError(f"the group has {sizes.capacity} ranks at most, with {sizes.experts_per_rank} experts "
                             f"each; update_memory_buffers said {self.group_size} and {self._experts}")
        if (sizes.mode == "latency") != self.low_latency_mode:
            raise ValueError(f"the group is for {sizes.mode}; this buffer has low_latency_mode={self.low_latency_mode}")
        assert self._meeting is not None
        if self.low_latency_mode:
            return Engine(self._meeting, sizes, self._connected, seconds=self._seconds, op_seconds=self._op_seconds)
        return Throughput(self._meeting, sizes, self._connected, seconds=self._seconds, op_seconds=self._op_seconds,
                          strict=False)

    def _begin(self, sizes: Sizes) -> Engine | Throughput:
        """Opens the rank for the first operation, whose sizes all ranks agree on."""
        self._met().agree(sizes)
        return self._join() if self._late else self._open_for(sizes)

    def _met(self) -> Meeting:
        if self._meeting is None:
            raise RuntimeError("dispatch: call connect_ranks first")
        return self._meeting

    def _open_for(self, sizes: Sizes) -> Engine | Throughput:
        self._engine = self._open(sizes)
        self._apply_masks()
        return self._engine

    def _join(self) -> Engine | Throughput:
        """Joins the group at the first operation of this rank: see connect_ranks."""
        assert self._meeting is not None
        self._meeting.await_admission(self._connected, self._seconds)
        sizes = self._meeting.sizes()
        assert sizes is not None
        engine = self._open_for(sizes)
        self._late = False
        self._reach(self._connected | {self.rank}, "the first operation")
        return engine

    def _apply_masks(self) -> None:
        if self._engine is not None:
            for rank in self._masked:
                self._engine.mask(rank, True)

    # --- masks: 1 is masked ---

    def update_mask_buffer(self, rank_to_mask: int, mask: bool = False) -> None:
        """Masks a rank (mask=True), or unmasks it: from the next dispatch on this rank sends it no tokens."""
        self._ranks_of([rank_to_mask], "update_mask_buffer")
        (self._masked.add if mask else self._masked.discard)(rank_to_mask)
        if rank_to_mask in self._staged | self._admitted:
            assert self._meeting is not None
            self._meeting.invite([rank_to_mask], staged=bool(mask))
            (self._staged if mask else self._admitted).add(rank_to_mask)
            (self._admitted if mask else self._staged).discard(rank_to_mask)
        if self._engine is not None:
            self._engine.mask(rank_to_mask, bool(mask))

    def query_mask_buffer(self, mask_status: torch.Tensor) -> None:
        """Writes into int32 [num_ranks]: 1 for each rank that gets no tokens (masked, lost, or not there), else 0.
        The call waits for the current stream; in a graph it does not wait, and writes only the masks."""
        self._check_alive()
        check_tensors(mask_status=mask_status)
        if mask_status.dtype != torch.int32 or mask_status.numel() < self.group_size:
            raise ValueError(f"mask_status: int32 [{self.group_size}] is wanted")
        if self._engine is not None:
            self._engine.read_masks(mask_status)
            for rank in self._admitted:
                mask_status[rank] = 0
            return
        there = (self._connected | {self.rank}) - self._masked
        mask_status.copy_(torch.tensor([int(rank not in there) for rank in range(mask_status.numel())],
                                       dtype=torch.int32))

    def clean_mask_buffer(self) -> None:
        """Unmasks all ranks that this one has masked. Lost ranks stay lost."""
        for rank in list(self._masked):
            self.update_mask_buffer(rank, False)

    # --- operations ---

    def low_latency_dispatch(self, x: torch.Tensor, topk_idx: torch.Tensor, num_max_dispatch_tokens_per_rank: int,
                             num_experts: int | None = None,
                             cumulative_local_expert_recv_stats: torch.Tensor | None = None,
                             dispatch_wait_recv_cost_stats: torch.Tensor | None = None, use_fp8: bool = True,
                             round_scale: bool = False, use_ue8m0: bool = False, async_finish: bool = False,
                             return_recv_hook: bool = False) -> tuple[Any, torch.Tensor, Handle, EventOverlap,
                                                                     Hook | None]:
        """Sends tokens to their experts. Returns (recv_x [E][ranks * max][H], or recv_x with its scales; counts [E];
        handle; event; hook). Received rows are in the order of source rank, then token."""
        engine = self._engine_for(x, topk_idx, num_max_dispatch_tokens_per_rank, num_experts)
        return engine.dispatch(x, topk_idx, use_fp8, round_scale, use_ue8m0, cumulative_local_expert_recv_stats,
                               dispatch_wait_recv_cost_stats, async_finish, return_recv_hook, False)

    def _engine_for(self, x: torch.Tensor, topk_idx: torch.Tensor, max_tokens: int, num_experts: int | None) -> Engine:
        self._check_ready("dispatch")
        if num_experts is not None and not 0 < num_experts <= self.group_size * self._experts:
            raise ValueError(f"num_experts: {num_experts}, but {self.group_size} ranks have {self._experts} each")
        check_tensors(x=x, topk_idx=topk_idx)
        if x.dim() != 2 or topk_idx.dim() != 2 or x.shape[0] != topk_idx.shape[0]:
            raise ValueError(f"x {list(x.shape)}, topk_idx {list(topk_idx.shape)}: [tokens][hidden] and [tokens][top-k]"
                             " are wanted")
        self._check_mode(True)
        engine = self._engine or self._begin(Sizes(max_tokens, x.shape[1], topk_idx.shape[1], self._experts,
                                                   self.group_size, "cuda" if x.is_cuda else "host"))
        self._admit()
        assert isinstance(engine, Engine)
        sizes = engine.sizes
        if (max_tokens, x.shape[1], x.is_cuda) != (sizes.max_tokens, sizes.hidden, sizes.memory == "cuda"):
            raise ValueError(f"the group has operations of at most {sizes.max_tokens} tokens with hidden "
                             f"{sizes.hidden} in {sizes.memory} memory, this one has {max_tokens} with {x.shape[1]} in "
                             f"{'cuda' if x.is_cuda else 'host'} memory")
        return engine

    def _begun(self, what: str) -> Engine:
        self._check_ready(what)
        self._check_mode(True)
        if self._engine is None:
            raise RuntimeError(f"{what}: there was no low_latency_dispatch")
        assert isinstance(self._engine, Engine)
        return self._engine

    def _check_mode(self, low_latency: bool) -> None:
        if self.low_latency_mode != low_latency:
            raise RuntimeError(f"the buffer was made with low_latency_mode={self.low_latency_mode}, and has the calls "
                               f"for {'high throughput' if low_latency else 'low latency'}")

    def low_latency_combine(self, x: torch.Tensor, topk_idx: torch.Tensor, topk_weights: torch.Tensor, handle: Handle,
                            use_logfmt: bool = False, zero_copy: bool = False, async_finish: bool = False,
                            return_recv_hook: bool = False, out: torch.Tensor | None = None,
                            combine_wait_recv_cost_stats: torch.Tensor | None = None) -> tuple[
                                torch.Tensor, EventOverlap, Hook | None]:
        """Sends the experts' outputs back; returns (the weighted sums bf16 [tokens][hidden], event, hook)."""
        if combine_wait_recv_cost_stats is not None:
            raise NotImplementedError("combine_wait_recv_cost_stats: Weft measures waiting in dispatches only")
        engine = self._begun("low_latency_combine")
        engine.operation_of(handle)
        return engine.combine(
            x, topk_idx, topk_weights, handle, use_logfmt, zero_copy, async_finish, return_recv_hook, out)

    def dispatch(self, *args: Any, **kwargs: Any) -> Any:
        """low_latency_dispatch, or ht_dispatch with low_latency_mode=False."""
        return (self.low_latency_dispatch if self.low_latency_mode else self.ht_dispatch)(*args, **kwargs)

    def combine(self, *args: Any, **kwargs: Any) -> Any:
        """low_latency_combine, or ht_combine with low_latency_mode=False."""
        return (self.low_latency_combine if self.low_latency_mode else self.ht_combine)(*args, **kwargs)

    def get_next_combine_buffer(self, handle: Handle) -> torch.Tensor:
        """Memory for the outputs of an operation, bf16 [E][ranks * max][H], for low_latency_combine(zero_copy=True).
        Weft never copies outputs before it sends them, so this memory is no faster than any other."""
        engine = self._begun("get_next_combine_buffer")
        engine.operation_of(handle)
        return engine.combine_buffer(handle, handle[0].device)

    def clean_buffer(self, *_: Any) -> None:
        """Does nothing: Weft's windows need no cleaning. Older versions of the original had this call."""

    clean_low_latency_buffer = clean_buffer

    # --- high throughput ---

    def _engine_for_many(self, x: torch.Tensor, experts_per_rank: int) -> Throughput:
        self._check_mode(False)
        if experts_per_rank != self._experts:
            raise ValueError(f"num_tokens_per_expert: {experts_per_rank} experts of each rank, and "
                             f"update_memory_buffers said {self._experts}")
        engine = self._engine or self._begin(sizes_of(self._room_for(x.shape[0]), x.shape[1], self._experts,
                                                      self.group_size, "cuda" if x.is_cuda else "host"))
        self._admit()
        assert isinstance(engine, Throughput)
        return engine

    def _room_for(self, tokens: int) -> int:
        """The largest number of tokens of a rank in one operation: enough for the first dispatch of each rank that
        begins the group. A rank that joins later gets the number from the group."""
        meeting = self._met()
        sizes = meeting.sizes() if self._late else None
        if sizes is not None:
            return sizes.tokens
        return meeting.largest("tokens", token_limit(tokens), self._connected, self._seconds)

    def ht_dispatch(self, x: Any, handle: Any = None, num_tokens_per_rank: torch.Tensor | None = None,
                    num_tokens_per_rdma_rank: torch.Tensor | None = None, is_token_in_rank: torch.Tensor | None = None,
                    num_tokens_per_expert: torch.Tensor | None = None, topk_idx: torch.Tensor | None = None,
                    topk_weights: torch.Tensor | None = None, expert_alignment: int = 1, config: Config | None = None,
                    previous_event: EventOverlap | None = None, async_finish: bool = False,
                    allocate_on_comm_stream: bool = False) -> Dispatched:
        """Sends tokens to the ranks of their experts, as computed by get_dispatch_layout. Returns (rows, one for each
        token on each rank, or (rows, scales); local experts [received][top-k], -1 for experts of other ranks; their
        weights; rows of each local expert, rounded up to expert_alignment; handle, whose entry [-4] is a prefix sum of
        the received rows of the ranks; event). With a handle, other values are sent along the same paths, and all
        results except the rows and the event are None."""
        del num_tokens_per_rank, num_tokens_per_rdma_rank, allocate_on_comm_stream
        return self._send_many(global_handle, x, handle, is_token_in_rank, num_tokens_per_expert, topk_idx,
                               topk_weights, expert_alignment, 0, config, previous_event, async_finish)

    def ht_combine(self, x: torch.Tensor, handle: Any, topk_weights: torch.Tensor | None = None, bias: Bias = None,
                   config: Config | None = None, previous_event: EventOverlap | None = None, async_finish: bool = False,
                   allocate_on_comm_stream: bool = False) -> tuple[torch.Tensor, torch.Tensor | None, EventOverlap]:
        """Sends rows back: (the sum of each token's rows and of up to two biases, the sums of their weights or None,
        event)."""
        del allocate_on_comm_stream
        return self._combine_many(x, handle, topk_weights, bias, config, previous_event, async_finish)

    # --- the end ---

    def _close(self) -> None:
        if self._engine is not None:
            self._engine.close()
        elif self._meeting is not None:
            with contextlib.suppress(weft.errors.Error):  # the rank that serves the store may have ended
                self._meeting.leave()
        if self._meeting is not None:
            self._meeting.close()
        self._engine = self._meeting = None
