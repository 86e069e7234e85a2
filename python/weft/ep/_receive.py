"""The buffers that operations are received into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import _weft
from ._values import Array, DType, Layout, ReceiveStatus

if TYPE_CHECKING:
    from ._rank import Rank


class Receive:
    """The buffers that operations are received into, checked once for any number of operations: see `Rank.receive`.

    The arrays are attributes, as they were given or made: x, scales, counts, src_rank, src_token, range, local_expert,
    weights, expert_total, wait_ns, slot, expert_end, lost, status, rows_at; None for those that do not exist. Their
    shapes are those of struct weft_ep_recv_args.
    """

    FIELDS = ("x", "scales", "counts", "src_rank", "src_token", "range", "local_expert", "weights", "expert_total",
              "wait_ns", "slot", "expert_end", "lost", "status", "rows_at")
    _NAMES = frozenset(FIELDS)

    x: Array = None
    scales: Array = None
    counts: Array = None
    src_rank: Array = None
    src_token: Array = None
    range: Array = None
    local_expert: Array = None
    weights: Array = None
    expert_total: Array = None
    wait_ns: Array = None
    slot: Array = None
    expert_end: Array = None
    lost: Array = None
    rows_at: Array = None

    def __init__(self, rank: Rank, layout: Any, rows: int, dtype: Any, row_bytes: int, scale_bytes: int,
                 alignment: int, flags: int, arrays: dict[str, Array]) -> None:
        if not self._NAMES.issuperset(arrays):
            raise TypeError(f"receive: there is no {', '.join(sorted(arrays.keys() - self._NAMES))}, but "
                            f"{', '.join(self.FIELDS)}")
        self.__dict__.update(arrays)  # `status` is only accessible as a property
        self.status_array = arrays.get("status")
        self.layout = Layout.member(layout)
        """how the rows are laid out"""
        self.rows = rows
        """room of the buffers, in rows"""
        self._handle = _weft.receive(rank._handle, self.layout, rows, DType.of(dtype), row_bytes, scale_bytes,
                                     alignment, flags, arrays)

    def renew(self, *, expert_total: Array = None, wait_ns: Array = None) -> bool:
        """Reads the addresses of the arrays again, for the next operation, and returns whether one of them has changed,
        for instance after a new allocation of its memory. `weft.errors.InvalidError`: the shape, the strides, the type
        or the device of an array changed. `weft.errors.BusyError`: a call of another thread is receiving into the
        arrays. expert_total and wait_ns replace the former ones; None: no such array. The call costs a small part of
        another `Rank.receive`. CUDA: the former arrays are not kept alive any more, so launches that use them have to
        be in streams that the framework's allocator orders."""
        moved: bool = self._handle.renew(expert_total, wait_ns)
        self.expert_total, self.wait_ns = expert_total, wait_ns
        return moved

    @property
    def status(self) -> ReceiveStatus | None:
        """The counts of the last received dispatch, on host memory, if an array ``status`` was given."""
        status = self._handle.status
        return None if status is None else ReceiveStatus(*status)


def make_arrays(rank: Rank, arrays: dict[str, Array], layout: Layout, dtype: DType, rows: int, topk: int,
                row_bytes: int, scale_bytes: int, in_place: bool) -> None:
    """Adds the arrays of a receive on host memory that the caller did not give: see `Rank.receive`."""
    experts, hidden = rank.experts_per_rank, rank.hidden
    shape = (experts, rows) if layout == Layout.PER_EXPERT else (rows,)

    def make(name: str, extra: tuple[int, ...], kind: str) -> None:
        if name in arrays:
            return
        try:
            import numpy as np
        except ImportError as error:
            raise ImportError(f"receive: numpy makes the arrays that are not given, and {name} is not: install it, or "
                              "give all of them") from error
        arrays[name] = np.zeros(extra, kind)

    if in_place:
        make("rows_at", shape, "uint64")
    elif dtype == DType.BF16:
        make("x", (*shape, hidden), "uint16")
    else:
        make("x", (*shape, row_bytes if dtype == DType.OPAQUE else hidden), "uint8")
    if not in_place and dtype in (DType.FP8, DType.FP8_POW2):
        make("scales", (*shape, (hidden + 127) // 128), "float32")
    elif not in_place and dtype == DType.FP8_UE8M0:
        make("scales", (*shape, (hidden + 511) // 512), "uint32")
    elif not in_place and dtype == DType.OPAQUE and scale_bytes:
        make("scales", (*shape, scale_bytes // 4), "uint32")
    make("counts", (experts,), "int32")
    make("src_rank", shape, "int32")
    make("src_token", shape, "int32")
    if layout == Layout.RANK_MAJOR:
        make("local_expert", (rows, topk), "int32")
        make("weights", (rows, topk), "float32")
    if layout == Layout.PACKED:
        make("slot", (rows, topk), "int32")
        make("weights", (rows,), "float32")
        make("expert_end", (experts,), "int32")
