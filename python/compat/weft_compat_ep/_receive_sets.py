"""The tensors that low-latency dispatches are received into. They are used again as soon as the caller has no reference
to them, which saves most of the time of making and checking them."""

from __future__ import annotations

import math
from operator import attrgetter
from sys import getrefcount
from typing import Any, NamedTuple

import torch
import weft
from torch.multiprocessing.reductions import StorageWeakRef

from ._arguments import Sizes, scales_of_row

KINDS = {kind.name.lower(): kind for kind in weft.ep.DType}
"""types of rows by their names"""
MOST_SETS = 3
"""the most sets that are kept: a caller has the results of at most two operations, and a rank keeps a combined
operation for two more"""
FORGET_AFTER = 100
"""after so many dispatches in a row for which one set was enough, the other sets are released"""
ALIGNMENT = 256
"""the alignment of the tensors that share memory, in bytes"""

in_inference_mode = torch.is_inference_mode_enabled
requires_grad = attrgetter("requires_grad")
use_count: Any = getattr(torch._C, "_storage_Use_Count", None)


def storage_count() -> int:
    """The use count that torch has for the memory of one tensor: 1, or 2 if torch keeps and counts the Python object as
    well. 0: this module does not know how to read the count of this version of torch."""
    tensor = torch.empty(1)
    if use_count is None or not hasattr(tensor, "_use_count") or tensor._use_count() != 1:
        return 0
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):  # else a Receive holds a capsule of the tensor
        return 0
    weak = StorageWeakRef(tensor.untyped_storage())
    before = use_count(weak.cdata)
    alias = tensor.detach()
    counted = before in (1, 2) and use_count(weak.cdata) == before + 1
    del alias
    return int(before) if counted and use_count(weak.cdata) == before else 0


STORAGE_COUNT = storage_count()


def shows_memory(dtype: torch.dtype) -> bool:
    """Whether torch exports the memory of tensors of that type: older versions do not export fp8."""
    try:
        weft.Buffer(torch.empty(1, dtype=dtype))
    except (TypeError, BufferError, RuntimeError):
        return False
    return True


class Part(NamedTuple):
    """A tensor within the memory that the small tensors of a set share."""

    name: str
    dtype: torch.dtype
    begin: int
    """in elements"""
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class Form:
    """The description of the tensors for one type of rows, for operations of given sizes."""

    def __init__(self, sizes: Sizes, kind: str, device: torch.device) -> None:
        self.dtype = KINDS[kind]
        self.device = device
        self.rows = sizes.capacity * sizes.max_tokens
        experts, rows = sizes.experts_per_rank, self.rows
        x_type = torch.bfloat16 if kind == "bf16" else torch.float8_e4m3fn
        # torch.empty_like() takes half of the time of torch.empty(); this model for it has memory for one value only.
        self.x = torch.empty(1, dtype=x_type, device=device).expand((experts, rows, sizes.hidden))
        self.shown = shows_memory(x_type)
        self.bytes = 0
        self.parts: list[Part] = []
        self._add("counts", torch.int32, (experts,), (1,))
        self._add("src_token", torch.int32, (experts, rows), (rows, 1))
        self._add("range", torch.int64, (experts, sizes.capacity), (sizes.capacity, 1))
        if kind != "bf16":
            words = scales_of_row(kind, sizes.hidden)
            # Column by column, as matrix products of fp8 read them: element [e][row][block] at [e][block][row].
            self._add("scales", torch.int32 if kind == "fp8_ue8m0" else torch.float32, (experts, rows, words),
                      (words * rows, 1, rows))

    def _add(self, name: str, dtype: torch.dtype, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self.parts.append(Part(name, dtype, self.bytes // dtype.itemsize, shape, strides))
        taken = math.prod(shape) * dtype.itemsize
        self.bytes += -(-taken // ALIGNMENT) * ALIGNMENT


class ReceiveSet:
    """The tensors of one dispatch, and the `Receive` with them."""

    def __init__(self, rank: weft.ep.Rank, form: Form, expert_total: Any, wait_ns: Any) -> None:
        x = torch.empty_like(form.x)
        rows = x if form.shown else x.view(torch.uint8)
        memory = torch.empty(form.bytes, dtype=torch.uint8, device=form.device).untyped_storage()
        # These are not views of one tensor, so autograd treats each separately.
        small: dict[str, Any] = {part.name: torch.empty(0, dtype=part.dtype, device=form.device).set_(
            memory, part.begin, part.shape, part.strides) for part in form.parts}
        self.into = rank.receive(form.rows, dtype=form.dtype, expert_total=expert_total, wait_ns=wait_ns, x=rows,
                                 **small)
        self.tensors = (x, *small.values())
        """the received tensors: x, counts, src_token, range, and with fp8 the scales"""
        # If the Receive has a view of x as bytes, it cannot check the form of x itself.
        self.form_of_x = None if form.shown else (x.shape, x.stride())
        self.on_gpu = x.is_cuda
        self.inference = in_inference_mode()
        self.with_scales = "scales" in small
        self.memory = x.untyped_storage(), memory
        self.sizes = self.memory[0].nbytes(), form.bytes
        self.weak = tuple(StorageWeakRef(one) for one in self.memory)
        counts: list[tuple[Any, Any]] = []
        if STORAGE_COUNT:  # an older torch has no _use_count
            any_tensor: Any = torch.Tensor  # whose type does not show _use_count in every version of torch
            counts += [(any_tensor._use_count, tensor) for tensor in self.tensors]
            counts += [(requires_grad, tensor) for tensor in self.tensors if tensor.is_floating_point()]
            counts += [(getrefcount, one) for one in self.memory]
            counts += [(use_count, one.cdata) for one in self.weak]
        self.owners = weft.Owners(self.tensors, counts)

    def is_idle(self) -> bool:
        """Whether only this set refers to its tensors (no variable, no view or other tensor of the same memory, no
        gradient, no array of another library), and the tensors are unchanged."""
        if not self.owners.same() or self.inference is not in_inference_mode():
            return False
        x = self.tensors[0]
        return self.form_of_x is None or (x.shape, x.stride()) == self.form_of_x

    def renew(self, expert_total: Any, wait_ns: Any) -> bool:
        """Prepares an idle set for another dispatch. False: that is not possible.

        On a GPU the memory is returned to torch's allocator and allocated again, as for new tensors: only the allocator
        knows which streams still use the memory, which stream takes it, and whether a graph does. On the host the
        memory stays; a tensor whose memory has moved may be shared with another process."""
        try:
            if self.on_gpu:
                for memory, size in zip(self.memory, self.sizes):
                    memory.resize_(0)
                    memory.resize_(size)
            moved = self.into.renew(expert_total=expert_total, wait_ns=wait_ns)
        except (RuntimeError, weft.errors.InvalidError):
            # The memory cannot be resized, there is none left, a shape changed, or the total is wrong. If the caller is
            # to get an error, making new tensors raises it.
            return False
        return self.on_gpu or not moved


class ReceiveSets:
    """The sets for one type of rows of one rank."""

    def __init__(self, rank: weft.ep.Rank, sizes: Sizes, kind: str, device: torch.device) -> None:
        self.rank = rank
        self.form = Form(sizes, kind, device)
        self.calls = rank.prepare(dtype=self.form.dtype, recycle=True)
        self.dispatch = self.calls.dispatch
        self.sets: list[ReceiveSet] = []
        """the set that was used last is the first"""
        self.enough = 0
        """the number of dispatches in a row for which the first set was idle"""
        self.made = 0
        """how many sets were made so far"""

    def take(self, expert_total: Any = None, wait_ns: Any = None) -> ReceiveSet:
        """Tensors that nothing else refers to, and their Receive."""
        sets = self.sets
        for one in sets:
            if one.is_idle():
                if one is sets[0]:
                    self.enough += 1
                    if self.enough == FORGET_AFTER:
                        del sets[1:]
                else:
                    self.enough = 0
                    sets.remove(one)
                    sets.insert(0, one)
                if one.renew(expert_total, wait_ns):
                    return one
                del sets[0]
                break
        made = ReceiveSet(self.rank, self.form, expert_total, wait_ns)
        made.owners.note()
        self.made += 1
        self.enough = 0
        if STORAGE_COUNT:
            sets.insert(0, made)
            del sets[MOST_SETS:]
        return made
