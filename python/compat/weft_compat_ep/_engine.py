"""The low-latency operations on tensors of torch: a rank of `weft.ep` of fixed sizes, and what the originals' calls
make of it. The same code serves tensors on a GPU, in the current stream, and on the host."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Callable

import torch
import weft

from ._arguments import Sizes, dispatch_type, scales_of_row
from ._events import EventHandle, EventOverlap
from ._meeting import Meeting
from ._membership import KINDS, Member, is_capturing, stream_of

Hook = Callable[[], None]


class Operation:
    """One dispatch of this rank, as the engine keeps it."""

    __slots__ = ("combine_buffer", "combined", "ended", "engine", "number", "received", "topk_shape")

    def __init__(self, engine: Engine, number: int, topk_shape: tuple[int, ...]) -> None:
        self.engine = engine
        self.number = number
        self.topk_shape = topk_shape
        self.received = False
        self.combined = False
        self.ended = False
        self.combine_buffer: torch.Tensor | None = None


class Handle(tuple[Any, ...]):
    """What a dispatch leaves for its combine: (src_info int32 [E][rows], layout_range int64 [E][ranks], the most tokens
    of a rank, hidden, experts). An entry of layout_range is begin << 32 | count."""

    operation: Operation

    @classmethod
    def of(cls, entries: tuple[Any, ...], operation: Operation) -> Handle:
        """A handle with its entries."""
        made = cls(entries)
        made.operation = operation
        return made


def check_shape(name: str, tensor: torch.Tensor, shape: tuple[int, ...]) -> None:
    """ValueError: the tensor has another shape."""
    if tensor.shape != shape:
        raise ValueError(f"{name}: a tensor of shape {list(shape)} is wanted, not {list(tensor.shape)}")


class Engine(Member):
    """One rank of a group, opened for operations of fixed sizes."""

    def __init__(self, meeting: Meeting, sizes: Sizes, founders: Iterable[int], *, seconds: float, op_seconds: float,
                 part: str = "") -> None:
        self.rows = sizes.capacity * sizes.max_tokens
        self.open: list[Operation] = []
        self.buffers: dict[int, torch.Tensor] = {}
        self.models: dict[str, dict[str, torch.Tensor]] = {}
        super().__init__(meeting, sizes, founders, seconds=seconds, op_seconds=op_seconds, part=part)

    def settle(self) -> None:
        """Ends what was dispatched and not combined, as every rank does."""
        for operation in self.open:
            if operation.received and not operation.ended:
                self.rank.finish(operation.number)
                operation.ended = True

    # --- dispatch ---

    def dispatch(self, x: torch.Tensor, topk_idx: torch.Tensor, *, use_fp8: bool, round_scale: bool, use_ue8m0: bool,
                 expert_total: torch.Tensor | None, wait_ns: torch.Tensor | None, async_finish: bool,
                 return_recv_hook: bool, strict: bool) -> tuple[Any, torch.Tensor, Handle, EventOverlap, Hook | None]:
        """See low_latency_dispatch of either original."""
        kind = dispatch_type(use_fp8, round_scale, use_ue8m0)
        recv_x, scales, arrays = self._receive_tensors(kind, x.device)
        dtype = KINDS[kind]
        into = self.rank.receive(self.rows, dtype=dtype, expert_total=expert_total, wait_ns=wait_ns, **arrays)
        stream = stream_of(x)
        if x.requires_grad:
            x = x.detach()
        hook = None
        if return_recv_hook:
            operation = self._note(self.rank.dispatch_send(x, topk_idx, dtype=dtype, stream=stream, recycle=True),
                                   topk_idx)

            def hook() -> None:
                self._received(operation, self.rank.dispatch_recv(operation.number, into, stream=stream_of(x)), strict)
        else:
            done = self.rank.dispatch(x, topk_idx, into=into, dtype=dtype, stream=stream, recycle=True)
            operation = self._note(done.number, topk_idx)
            self._received(operation, done.info, strict)
        sizes = self.sizes
        handle = Handle.of((arrays["src_token"], arrays["range"], sizes.max_tokens, sizes.hidden,
                            sizes.experts_per_rank * sizes.capacity), operation)
        event = EventOverlap(EventHandle(), (x, topk_idx)) if async_finish else EventOverlap()
        return (recv_x if scales is None else (recv_x, scales)), arrays["counts"], handle, event, hook

    def _receive_tensors(self, kind: str, device: torch.device) -> tuple[torch.Tensor, torch.Tensor | None,
                                                                        dict[str, torch.Tensor]]:
        like = self.models.get(kind)
        if like is None:
            like = self.models[kind] = self._make_models(kind, device)
        recv_x, scales = torch.empty_like(like["x"]), None
        arrays = {"x": recv_x}
        if kind != "bf16":
            experts, words, rows = like["scales"].shape
            # Column by column, as matrix products of fp8 read them: element [e][row][block] at [e][block][row].
            scales = like["scales"].new_empty_strided((experts, rows, words), (words * rows, 1, rows))
            arrays = {"x": recv_x.view(torch.uint8), "scales": scales}
        for name in ("counts", "src_token", "range"):
            arrays[name] = torch.empty_like(like[name])
        return recv_x, scales, arrays

    def _make_models(self, kind: str, device: torch.device) -> dict[str, torch.Tensor]:
        """Of each tensor that is received into, one of its type and shape that has memory for one value: by it
        torch.empty_like() makes the tensor in half of the time that torch.empty() takes."""
        sizes, rows, experts = self.sizes, self.rows, self.sizes.experts_per_rank
        types = {"x": torch.bfloat16 if kind == "bf16" else torch.float8_e4m3fn, "counts": torch.int32,
                 "src_token": torch.int32, "range": torch.int64}
        shapes: dict[str, tuple[int, ...]] = {"x": (experts, rows, sizes.hidden), "counts": (experts,),
                                              "src_token": (experts, rows), "range": (experts, sizes.capacity)}
        if kind != "bf16":
            types["scales"] = torch.int32 if kind == "fp8_ue8m0" else torch.float32
            shapes["scales"] = (experts, scales_of_row(kind, sizes.hidden), rows)
        return {name: torch.empty(1, dtype=types[name], device=device).expand(shape)
                for name, shape in shapes.items()}

    def _note(self, number: int, topk_idx: torch.Tensor) -> Operation:
        operation = Operation(self, number, topk_idx.shape)
        self.open = [*self.open[-1:], operation]
        return operation

    @staticmethod
    def _received(operation: Operation, info: weft.ep.Info | None, strict: bool) -> None:
        operation.received = True
        if strict and info is not None and info.num_lost:
            raise weft.errors.PeerLostError(f"ranks {info.lost} were lost in a dispatch. enable_shrink=True goes on "
                                            "without lost ranks, and the masks say which they are")

    # --- combine ---

    def combine_buffer(self, handle: Handle, like: torch.device) -> torch.Tensor:
        """bf16 [E][rows][H] for the outputs of an operation: one for each of two operations that may be open."""
        operation = self._operation_of(handle)
        place = operation.number % 2
        buffer = self.buffers.get(place)
        if buffer is None:
            buffer = torch.empty((self.sizes.experts_per_rank, self.rows, self.sizes.hidden), dtype=torch.bfloat16,
                                 device=like)
            if not is_capturing(buffer):  # else it is the graph's
                self.buffers[place] = buffer
        operation.combine_buffer = buffer
        return buffer

    def combine(self, x: torch.Tensor, topk_idx: torch.Tensor, topk_weights: torch.Tensor, handle: Handle, *,
                use_logfmt: bool, zero_copy: bool, async_finish: bool, return_recv_hook: bool,
                out: torch.Tensor | None) -> tuple[torch.Tensor, EventOverlap, Hook | None]:
        """See low_latency_combine of either original."""
        operation = self._operation_of(handle)
        self._check_combine(x, topk_idx, topk_weights, operation, out)
        if operation not in self.open or operation.ended:
            operation = self._again(operation, topk_idx, handle)
        y = operation.combine_buffer if zero_copy and operation.combine_buffer is not None else x
        if out is None:
            out = torch.empty((operation.topk_shape[0], self.sizes.hidden), dtype=torch.bfloat16, device=x.device)
        arguments = {
            "topk_weights": topk_weights.detach() if topk_weights.requires_grad else topk_weights,
            "stream": stream_of(x),
            "dtype": weft.ep.CombineDType.LOGFMT10 if use_logfmt else weft.ep.CombineDType.BF16,
            "keep": self._has_older(operation),
        }
        y, number = y.detach() if y.requires_grad else y, operation.number
        hook = None
        if return_recv_hook:
            self.rank.combine_send(number, y, out, **arguments)

            def hook() -> None:
                self.rank.combine_recv(number, y, out, **{**arguments, "stream": stream_of(y)})
                operation.combined, operation.ended = True, not arguments["keep"]
        else:
            self.rank.combine(number, y, out, **arguments)
            operation.combined, operation.ended = True, not arguments["keep"]
        return out, EventOverlap(EventHandle(), (y, topk_weights, out)) if async_finish else EventOverlap(), hook

    def _has_older(self, operation: Operation) -> bool:
        """Whether an older operation is open, which is not combined. Operations end in their order, so this one has to
        stay open then, until it is recycled, or ended here when the next one is combined."""
        older = self.open[0]
        if older is operation or older.ended:
            return False
        if older.combined:
            self.rank.finish(older.number)
            older.ended = True
        return not older.ended

    def _operation_of(self, handle: Any) -> Operation:
        operation = getattr(handle, "operation", None)
        if not isinstance(operation, Operation) or operation.engine is not self:
            raise TypeError("handle: what low_latency_dispatch of this buffer has answered is wanted, unchanged, and "
                            "with the same sizes")
        return operation

    def _check_combine(self, x: torch.Tensor, topk_idx: torch.Tensor, topk_weights: torch.Tensor,
                       operation: Operation, out: torch.Tensor | None) -> None:
        if not operation.received:
            raise RuntimeError("the operation was not received: call the hook of its dispatch first")
        sizes, shape = self.sizes, operation.topk_shape
        check_shape("x", x, (sizes.experts_per_rank, self.rows, sizes.hidden))
        check_shape("topk_idx", topk_idx, shape)
        check_shape("topk_weights", topk_weights, shape)
        if out is not None:
            check_shape("out", out, (shape[0], sizes.hidden))

    def _again(self, operation: Operation, topk_idx: torch.Tensor, handle: Handle) -> Operation:
        """A second combine of one handle, whose operation has ended: the same tokens are dispatched again, without
        their values, which gives the same rows."""
        device = topk_idx.device
        _, _, arrays = self._receive_tensors("fp8", device)
        blank = torch.zeros((topk_idx.shape[0], self.sizes.hidden), dtype=torch.bfloat16, device=device)
        done = self.rank.dispatch(blank, topk_idx, into=self.rank.receive(self.rows, dtype="fp8", **arrays),
                                  dtype="fp8", stream=stream_of(topk_idx), recycle=True)
        again = self._note(done.number, topk_idx)
        again.received = True
        again.combine_buffer = operation.combine_buffer
        if not is_capturing(topk_idx) and not torch.equal(arrays["range"], handle[1]):
            raise RuntimeError("a handle can be combined again only while the same ranks are there: dispatch again")
        handle.operation = again
        return again

    def close(self) -> None:
        """Leaves the group, when what was launched has run."""
        super().close()
        self.open.clear()
        self.buffers.clear()
