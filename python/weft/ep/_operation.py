"""One dispatch, and the combine that answers it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._weft import Info, Result
from ._values import Array

if TYPE_CHECKING:
    from ._rank import Rank


class Operation:
    """One dispatch, and the combine that answers it; or a combine by a route."""

    __slots__ = ("info", "number", "rank", "result")

    def __init__(self, rank: Rank, number: int, info: Info | None, result: Result | None = None) -> None:
        self.rank = rank
        """the rank"""
        self.number = number
        """number of the operation, the same on all ranks"""
        self.info = info
        """what the dispatch did; None if it was not requested"""
        self.result = result
        """what `Rank.combine_route` did; None otherwise"""

    def combine(self, y: Array = None, out: Array = None, **options: Any) -> Result | None:
        """`Rank.combine` of this operation."""
        return self.rank.combine(self.number, y, out, **options)

    def combine_rows(self, into: Array) -> None:
        """`Rank.combine_rows` of this operation."""
        self.rank.combine_rows(self.number, into, self.info.num_rows if self.info else 0)

    def finish(self) -> None:
        """`Rank.finish` of this operation."""
        self.rank.finish(self.number)

    def wait(self, timeout: float | None = None, *, result: bool = False) -> tuple[Info, Result | None]:
        """`Rank.wait` of this operation."""
        return self.rank.wait(self.number, timeout, result=result)

    def __repr__(self) -> str:
        return f"<weft.ep.Operation {self.number}>"
