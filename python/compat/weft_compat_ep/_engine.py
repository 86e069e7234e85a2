"""The low-latency operations on tensors of torch: a rank of `weft.ep` of fixed sizes, with the calls of the originals.
The same code serves tensors on a GPU, in the current stream, and tensors on the host."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Callable

import torch
import weft

from ._arguments import Sizes, dispatch_type
from ._events import NO_EVENT, EventHandle, EventOverlap
from ._meeting import Meeting
from ._membership import Member, is_capturing, raw_stream, stream_of
from ._receive_sets import ReceiveSet, ReceiveSets

Hook = Callable[[], None]
HIDES_MEMORY = not hasattr(torch.Tensor, "__dlpack_c_exchange_api__")
"""whether torch is an older one, which does not export the memory of a tensor that has a gradient"""


class Operation:
    """One dispatch of this rank, as the engine keeps it. The code that makes one sets the attributes without a value
    here: a constructor for that would take as long as the rest."""

    engine: Engine
    number: int
    topk_idx: torch.Tensor
    received = False
    combined = False
    ended = False
    """whether it cannot be combined any more"""
    combine_buffer: torch.Tensor | None = None


NONE = Operation()
"""stands for an operation before the first"""
NONE.ended = True


class Handle(tuple[Any, ...]):
    """The handle that a dispatch returns for its combine: (src_info int32 [E][rows], layout_range int64 [E][ranks], the
    largest number of tokens of a rank, hidden, experts). An entry of layout_range is begin << 32 | count."""

    operation: Operation


def check_shape(name: str, tensor: torch.Tensor, shape: tuple[int, ...]) -> None:
    """Raises ValueError if the tensor has another shape."""
    if tensor.shape != shape:
        raise ValueError(f"{name}: a tensor of shape {list(shape)} is wanted, not {list(tensor.shape)}")


class Engine(Member):
    """One rank of a group, opened for operations of fixed sizes."""

    def __init__(self, meeting: Meeting, sizes: Sizes, founders: Iterable[int], *, seconds: float, op_seconds: float,
                 part: str = "") -> None:
        self.of_handle = (sizes.max_tokens, sizes.hidden, sizes.experts)
        self.y_shape = (sizes.experts_per_rank, sizes.capacity * sizes.max_tokens, sizes.hidden)
        self.before = self.newest = NONE
        """the two operations that were begun last"""
        self.buffers: dict[int, torch.Tensor] = {}
        self.sets: dict[tuple[bool, bool, bool], ReceiveSets] = {}
        """by use_fp8, round_scale and use_ue8m0"""
        super().__init__(meeting, sizes, founders, seconds=seconds, op_seconds=op_seconds, part=part)
        self.device: int | None = self.rank.device if sizes.memory == "cuda" else None
        """the GPU's index; None: host memory"""
        self.sums, self.sums_logfmt = (self.rank.prepare(combine_dtype=kind, result=False)
                                       for kind in (weft.ep.CombineDType.BF16, weft.ep.CombineDType.LOGFMT10))

    def settle(self) -> None:
        """Ends operations that were dispatched and not combined, as every rank does."""
        for operation in (self.before, self.newest):
            if operation.received and not operation.ended:
                self.rank.finish(operation.number)
                operation.ended = True

    # --- dispatch ---

    def dispatch(self, x: torch.Tensor, topk_idx: torch.Tensor, use_fp8: bool, round_scale: bool, use_ue8m0: bool,
                 expert_total: torch.Tensor | None, wait_ns: torch.Tensor | None, async_finish: bool,
                 return_recv_hook: bool, strict: bool) -> tuple[Any, torch.Tensor, Handle, EventOverlap, Hook | None]:
        """See low_latency_dispatch of either original."""
        sets = self.sets.get((use_fp8, round_scale, use_ue8m0))
        if sets is None:
            sets = self._make_sets(use_fp8, round_scale, use_ue8m0, x.device)
        got = sets.take(expert_total, wait_ns)
        if HIDES_MEMORY and x.requires_grad:
            x = x.detach()
        stream = None if self.device is None else raw_stream(self.device)
        hook, info = None, None
        operation = Operation()
        if return_recv_hook:
            operation.number = sets.calls.dispatch_send(x, topk_idx, stream)
            # The hook holds one of the tensors, too, so that no other dispatch uses the set before the hook is called.
            hook = partial(self._receive, operation, sets, got, got.tensors[0], strict)
        else:
            operation.number, info = sets.dispatch(x, topk_idx, got.into, stream)
        operation.engine, operation.topk_idx = self, topk_idx
        self._begun(operation)
        if not return_recv_hook:
            operation.received = True
            if info is not None and strict:
                self._check_lost(info)
        recv_x: Any
        if got.with_scales:
            recv_x, counts, src_token, layout_range, scales = got.tensors
            recv_x = recv_x, scales
        else:
            recv_x, counts, src_token, layout_range = got.tensors
        tokens, hidden, experts = self.of_handle
        handle = Handle((src_token, layout_range, tokens, hidden, experts))
        handle.operation = operation
        event = EventOverlap(EventHandle(), (x, topk_idx)) if async_finish else NO_EVENT
        return recv_x, counts, handle, event, hook

    def _begun(self, operation: Operation) -> None:
        """Notes a new operation. The one before the previous operation can no longer be combined."""
        self.before.ended = True
        self.before, self.newest = self.newest, operation

    def _make_sets(self, use_fp8: bool, round_scale: bool, use_ue8m0: bool, device: torch.device) -> ReceiveSets:
        kind = dispatch_type(use_fp8, round_scale, use_ue8m0)
        made = self.sets[use_fp8, round_scale, use_ue8m0] = ReceiveSets(self.rank, self.sizes, kind, device)
        return made

    def _receive(self, operation: Operation, sets: ReceiveSets, got: ReceiveSet, recv_x: torch.Tensor,
                 strict: bool) -> None:
        """The second half of a dispatch."""
        info = sets.calls.dispatch_recv(operation.number, got.into, stream_of(recv_x))
        operation.received = True
        if info is not None and strict:
            self._check_lost(info)

    @staticmethod
    def _check_lost(info: weft.ep.Info) -> None:
        if info.num_lost:
            raise weft.errors.PeerLostError(f"ranks {info.lost} were lost in a dispatch. enable_shrink=True goes on "
                                            "without lost ranks, and the masks say which they are")

    # --- combine ---

    def combine_buffer(self, handle: Handle, like: torch.device) -> torch.Tensor:
        """The tensor bf16 [E][rows][H] for the experts' outputs of an operation. There are two of them, since two
        operations may be open."""
        operation = self.operation_of(handle)
        place = operation.number % 2
        buffer = self.buffers.get(place)
        if buffer is None:
            buffer = torch.empty(self.y_shape, dtype=torch.bfloat16, device=like)
            if not is_capturing(buffer):  # else its memory belongs to the graph
                self.buffers[place] = buffer
        operation.combine_buffer = buffer
        return buffer

    def combine(self, x: torch.Tensor, topk_idx: torch.Tensor, topk_weights: torch.Tensor, handle: Handle,
                use_logfmt: bool, zero_copy: bool, async_finish: bool, return_recv_hook: bool,
                out: torch.Tensor | None) -> tuple[torch.Tensor, EventOverlap, Hook | None]:
        """See low_latency_combine of either original. `handle` has to be one of this engine's, as `operation_of`
        checks."""
        operation = handle.operation
        if not operation.received:
            raise RuntimeError("the operation was not received: call the hook of its dispatch first")
        if operation.ended:
            self._check_combine(x, topk_idx, topk_weights, operation, out)
            operation = self._again(operation, topk_idx, handle)
        y = operation.combine_buffer if zero_copy and operation.combine_buffer is not None else x
        if out is None:
            out = torch.empty((topk_idx.shape[0], self.sizes.hidden), dtype=torch.bfloat16, device=x.device)
        if HIDES_MEMORY:
            y, topk_weights = y.detach(), topk_weights.detach()
        stream = None if self.device is None else raw_stream(self.device)
        keep = not self.before.ended and self._has_older(operation)
        calls = self.sums_logfmt if use_logfmt else self.sums
        hook = None
        try:
            if return_recv_hook:
                calls.combine_send(operation.number, y, out, topk_weights, stream, keep)
                hook = partial(self._sum, operation, calls, y, out, topk_weights, keep)
            else:
                calls.combine(operation.number, y, out, topk_weights, stream, keep)
                operation.combined, operation.ended = True, not keep
        except weft.errors.InvalidError:
            self._check_combine(x, topk_idx, topk_weights, operation, out)  # its error uses the names of the originals
            raise
        return out, EventOverlap(EventHandle(), (y, topk_weights, out)) if async_finish else NO_EVENT, hook

    @staticmethod
    def _sum(operation: Operation, calls: weft.ep.Prepared, y: torch.Tensor, out: torch.Tensor,
             topk_weights: torch.Tensor, keep: bool) -> None:
        """The second half of a combine."""
        calls.combine_recv(operation.number, y, out, topk_weights, stream_of(y), keep)
        operation.combined, operation.ended = True, not keep

    def _has_older(self, operation: Operation) -> bool:
        """Whether an older operation is open that is not combined. Operations end in their order, so in that case this
        operation has to stay open until it is recycled, or until this method ends it when the next one is combined."""
        older = self.before
        if older is operation:
            return False
        if older.combined:
            self.rank.finish(older.number)
            older.ended = True
        return not older.ended

    def operation_of(self, handle: Any) -> Operation:
        """The operation of a handle. Raises TypeError if it is no handle of this engine."""
        if handle.__class__ is Handle:
            operation: Operation = handle.operation
            if operation.engine is self:
                return operation
        raise TypeError("handle: what low_latency_dispatch of this buffer has answered is wanted, unchanged, and with "
                        "the same sizes")

    def _check_combine(self, x: torch.Tensor, topk_idx: torch.Tensor, topk_weights: torch.Tensor,
                       operation: Operation, out: torch.Tensor | None) -> None:
        shape = tuple(operation.topk_idx.shape)
        check_shape("x", x, self.y_shape)
        check_shape("topk_idx", topk_idx, shape)
        check_shape("topk_weights", topk_weights, shape)
        if out is not None:
            check_shape("out", out, (shape[0], self.sizes.hidden))

    def _again(self, operation: Operation, topk_idx: torch.Tensor, handle: Handle) -> Operation:
        """Begins an operation for a second combine of a handle whose operation has ended: it dispatches the same tokens
        again, without their values, which gives the same rows."""
        device = topk_idx.device
        sets = self.sets.get((True, False, False)) or self._make_sets(True, False, False, device)
        got = sets.take()
        blank = torch.zeros((topk_idx.shape[0], self.sizes.hidden), dtype=torch.bfloat16, device=device)
        done = self.rank.dispatch(blank, topk_idx, into=got.into, dtype="fp8", stream=stream_of(topk_idx),
                                  recycle=True)
        again = Operation()
        again.engine, again.number, again.topk_idx, again.received = self, done.number, topk_idx, True
        self._begun(again)
        again.combine_buffer = operation.combine_buffer
        if not is_capturing(topk_idx) and not torch.equal(got.tensors[3], handle[1]):
            raise RuntimeError("a handle can be combined again only while the same ranks are there: dispatch again")
        handle.operation = again
        return again

    def close(self) -> None:
        """Leaves the group after all launched work has run."""
        super().close()
        self.before = self.newest = NONE
        self.buffers.clear()
        self.sets.clear()
