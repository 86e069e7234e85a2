"""A record of where the tokens of an operation went, for later operations."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import _weft
from .._common import milliseconds, whole
from ._values import Array

if TYPE_CHECKING:
    from ._rank import Rank


class RouteInfo(NamedTuple):
    """The counts of a route, on the host."""

    op: int
    """the operation that filled the route"""
    epoch: int
    """the view of that operation"""
    expert_rows: list[int]
    """rows of each local expert: [E]"""
    num_rows: int
    """received rows: one for each (rank, token)"""
    packed_rows: int
    """PACKED: rows including the padding after the parts of experts"""
    num_ranks: int
    """ranks of the view"""
    num_lost: int
    """number of these ranks whose tokens did not come"""


class RouteArrays(NamedTuple):
    """The arrays of a route, in rank memory that the route owns: read-only arrays of numpy; on CUDA memory objects with
    ``__cuda_array_interface__``, which must not be written. The first three exist after `Route.plan` or a dispatch, the
    others after the receive of that dispatch; until then they are None. S is `RouteInfo.num_rows`; rows are in the
    order of source rank, then token, whatever the layout of the receive was. The next plan or dispatch that fills the
    route changes their contents. They keep the route's memory alive."""

    tokens_per_rank: Array
    """int32 [capacity]: tokens of this rank that go to each rank"""
    tokens_per_expert: Array
    """int32 [capacity * E]: selections of each expert by this rank, also those that are not sent"""
    in_rank: Array
    """uint8 [T][capacity] 1: the token goes to that rank, else 0"""
    rank_end: Array
    """int32 [capacity]: entry r: number of received rows of the ranks 0 to r (a prefix sum)"""
    expert_end: Array
    """int32 [E]: index of the packed row after the last row of each local expert, with the route's alignment (a prefix
    sum)"""
    src_rank: Array
    """int32 [S]: rank that each row came from"""
    src_token: Array
    """int32 [S]: the token's index on that rank"""
    slot: Array
    """int32 [S][K]: packed rows of a row's selections, with the route's alignment; -1: an expert of another rank"""


class Route:
    """A record of where the tokens of an operation went, for later operations: made by `Rank.route`.

    `Rank.dispatch` with the route and top-k *fills* it. `Rank.dispatch` with the route alone, and `Rank.combine_route`,
    *go by* it: tokens go to the same ranks as in the dispatch that filled the route, with the same weights, and rows
    have the same places. A backward pass consists of these two: the backward pass of a dispatch is a combine that goes
    by the route, and the backward pass of a combine is a dispatch that goes by it.

    `weft.errors.ConflictError`: a rank has joined since the route was filled, and the operation would omit it; nothing
    was sent: fill the route again. `weft.errors.ProtocolError`: the ranks go by routes of different operations.
    `weft.errors.BusyError`: an open operation needs the route, which the call would change. Of ranks that have died
    since, rows are 0.
    """

    def __init__(self, rank: Rank, *, max_tokens: int = 0, max_rows: int = 0, topk: int = 0,
                 alignment: int = 1) -> None:
        self.rank = rank
        """the rank to which it belongs"""
        self._handle = _weft.route_create(rank._handle, whole("max_tokens", max_tokens), whole("max_rows", max_rows),
                                          whole("topk", topk), whole("alignment", alignment))

    def plan(self, topk_idx: Array, stream: Any = None) -> None:
        """Computes what this rank will send, without sending: the first three of `arrays`. topk_idx: int64 [T][K], with
        the K of the route. The route loses its earlier contents."""
        self._handle.plan(topk_idx, stream)

    def wait(self, timeout: float | None = None) -> RouteInfo:
        """Waits until the dispatch that fills the route has been received, and returns its counts. On host memory the
        call does not wait. `weft.errors.InvalidError`: no dispatch fills it. `weft.errors.RoomError`: more rows came
        than the route has room for, `rows_needed` of them; no operation can go by it."""
        return RouteInfo(*self._handle.wait(milliseconds(timeout)))

    def arrays(self, rows: int | None = None) -> RouteArrays:
        """The arrays of the route. rows: S; None: the number that `wait` returns, for which the call waits on CUDA
        memory. With an upper bound, such as the route's max_rows, the call does not wait."""
        views = self._handle.arrays(rows)
        if self.rank._host:
            import numpy as np

            return RouteArrays(*(None if view is None else np.asarray(view) for view in views))
        return RouteArrays(*views)

    @property
    def closed(self) -> bool:
        """Whether it, or its rank, was closed."""
        return self._handle.closed

    def close(self) -> None:
        """Closes the route; its memory is freed with the last of its arrays. CUDA: all launches that use the route have
        to be finished. A second call is no error."""
        self._handle.close()

    def __enter__(self) -> Route:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return "<weft.ep.Route closed>" if self.closed else f"<weft.ep.Route of {self.rank!r}>"
