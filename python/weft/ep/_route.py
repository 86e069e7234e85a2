"""Where the tokens of an operation went, kept for later ones."""

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
    """the operation that filled it"""
    epoch: int
    """the view of that"""
    expert_rows: list[int]
    """rows of each local expert: [E]"""
    num_rows: int
    """received rows: one for each (rank, token)"""
    packed_rows: int
    """PACKED: rows with the room behind the parts of experts"""
    num_ranks: int
    """ranks of the view"""
    num_lost: int
    """of them, whose tokens did not come"""


class RouteArrays(NamedTuple):
    """What a route knows, in rank memory that it owns: read-only arrays of numpy; on CUDA memory objects with
    ``__cuda_array_interface__``, which nobody is to write. The first three are there after `Route.plan` or a dispatch,
    the others after the receive of that dispatch, and None until then. S is `RouteInfo.num_rows`; rows stand by source
    rank, then by token, whatever the layout of the receive was. The next plan or dispatch that fills the route changes
    what is in them; they keep the route's memory."""

    tokens_per_rank: Array
    """int32 [capacity]: tokens of this rank that go to each rank"""
    tokens_per_expert: Array
    """int32 [capacity * E]: selections of each expert by this rank, whether they go or not"""
    in_rank: Array
    """uint8 [T][capacity] 1: the token goes to that rank, else 0"""
    rank_end: Array
    """int32 [capacity]: received rows of the ranks up to this one, itself included: a prefix sum"""
    expert_end: Array
    """int32 [E]: packed row behind the last of each local expert, with the route's alignment: a prefix sum"""
    src_rank: Array
    """int32 [S]: rank that each row came from"""
    src_token: Array
    """int32 [S]: the token's index on that rank"""
    slot: Array
    """int32 [S][K]: packed rows of a row's selections, with the route's alignment; -1: of another rank"""


class Route:
    """Where the tokens of an operation went, kept for later ones: made by `Rank.route`.

    `Rank.dispatch` with the route and top-k *fills* it. `Rank.dispatch` with the route alone, and `Rank.combine_route`,
    *go by* it: tokens go where they went then, with the weights of then, and rows have the places that they had. A
    backward pass is these two: that of a dispatch is a combine by the route, that of a combine a dispatch by it.

    `weft.errors.ConflictError`: a rank has joined since the route was filled, and would be missed; nothing was sent:
    fill it again. `weft.errors.ProtocolError`: the ranks go by routes of different operations. `weft.errors.BusyError`:
    an open operation needs the route, which the call would change. Of ranks that have died since, rows are 0.
    """

    def __init__(self, rank: Rank, *, max_tokens: int = 0, max_rows: int = 0, topk: int = 0,
                 alignment: int = 1) -> None:
        self.rank = rank
        """the rank that it belongs to"""
        self._handle = _weft.route_create(rank._handle, whole("max_tokens", max_tokens), whole("max_rows", max_rows),
                                          whole("topk", topk), whole("alignment", alignment))

    def plan(self, topk_idx: Array, stream: Any = None) -> None:
        """Computes what this rank will send, without sending: the first three of `arrays`. topk_idx: int64 [T][K],
        K that of the route. What the route was filled with is forgotten."""
        self._handle.plan(topk_idx, stream)

    def wait(self, timeout: float | None = None) -> RouteInfo:
        """Waits until the dispatch that fills the route has been received; its counts. On host memory it does not
        wait. `weft.errors.InvalidError`: no dispatch fills it. `weft.errors.RoomError`: more rows came than the route
        has room for, `rows_needed` of them; no operation can go by it."""
        return RouteInfo(*self._handle.wait(milliseconds(timeout)))

    def arrays(self, rows: int | None = None) -> RouteArrays:
        """What it knows. rows: S; None: what `wait` says, for which CUDA memory waits. A worst case, such as the
        route's max_rows, waits for nothing."""
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
        """Gives it up; its memory is freed with the last of its arrays. CUDA: no launch that uses it may still have to
        run. A second time is no error."""
        self._handle.close()

    def __enter__(self) -> Route:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return "<weft.ep.Route closed>" if self.closed else f"<weft.ep.Route of {self.rank!r}>"
