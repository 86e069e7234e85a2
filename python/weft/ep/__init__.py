"""Elastic expert parallelism: dispatch and combine among ranks that join, leave and die.

One rank of two, on host memory with numpy::

    with weft.ep.Rank(store, rank=0, founders=[0, 1], hidden=256, topk=2, experts_per_rank=2) as rank:
        rank.activate()
        into = rank.receive(rows=256)                    # buffers for what comes, made once
        operation = rank.dispatch(x, topk_idx, topk_weights, into=into)
        y = experts(into.x, into.counts)                 # [E][rows][H]
        operation.combine(y, out)                        # [T][H]

**Symbols in shapes.** T: tokens of this rank. H: hidden. K: top-k of the dispatch. E: experts per rank. [rows]: the
rows of the receive, so [E][rows] is E parts with room for as many rows each. [capacity]: the capacity of the group.

**Types.** Rows are bf16, or fp8 (e4m3) with scales; see `weft.memory` for frameworks without them. **Memory.** All
arrays are in the rank's memory: memory of the host, or of its GPU. **CUDA.** Calls launch kernels in ``stream`` (a
number, or torch's, cupy's or ``__cuda_stream__`` objects; None: the default stream) and return; with ``info=True`` they
wait. The caller must not change the arrays until the kernels have run; the rank keeps them alive until the operation
after the next. Only one thread at a time may use a rank (else `weft.errors.BusyError`), but any thread may use
`Rank.next_event`, `Rank.events`, `Rank.interrupt` and `Rank.committed_view`.
"""

from __future__ import annotations

from .. import _weft
from .._weft import Info, Prepared, Result
from ._operation import Operation
from ._rank import Rank
from ._receive import Receive
from ._route import Route, RouteArrays, RouteInfo
from ._values import (
    BLOCK,
    Array,
    CombineDType,
    DType,
    Event,
    EventKind,
    Layout,
    Limits,
    Memory,
    Mode,
    PeerStats,
    RankState,
    ReceiveStatus,
    Stats,
    View,
)

__all__ = ["BLOCK", "Array", "CombineDType", "DType", "Event", "EventKind", "Info", "Layout", "Limits", "Memory",
           "Mode", "Operation", "PeerStats", "Prepared", "Rank", "RankState", "Receive", "ReceiveStatus", "Result",
           "Route", "RouteArrays", "RouteInfo", "Stats", "View", "limits"]


def limits() -> Limits:
    """The limits of this library."""
    return Limits(*_weft.limits())
