"""Layouts of dispatches, computed by Weft's planning kernels, which take less time than operations of torch."""

from __future__ import annotations

from typing import Any

import torch
import weft

from ._arguments import Sizes
from ._membership import is_capturing, stream_of
from ._rows import DispatchLayout, power_of_two


class Planner:
    """A route that is planned again and again, and never filled."""

    def __init__(self, route: weft.ep.Route) -> None:
        self._route = route
        self._tokens = -1
        self._known: tuple[torch.Tensor, ...] = ()

    def plan(self, topk_idx: torch.Tensor, stream: Any) -> DispatchLayout:
        """The layout of a dispatch, in new tensors."""
        self._route.plan(topk_idx, stream)
        if self._tokens != topk_idx.shape[0]:
            self._tokens = topk_idx.shape[0]
            arrays = self._route.arrays(0)
            self._known = tuple(torch.as_tensor(array, device=topk_idx.device) for array in
                                (arrays.tokens_per_rank, arrays.tokens_per_expert, arrays.in_rank))
        per_rank, per_expert, in_rank = self._known
        return DispatchLayout(per_rank.clone(), per_expert.clone(), in_rank.clone().view(torch.bool))


class Planners:
    """The planners of a rank."""

    def __init__(self, rank: weft.ep.Rank, sizes: Sizes) -> None:
        self._rank, self._sizes = rank, sizes
        self._planners: dict[Any, Planner] = {}
        """by the largest number of tokens, the top-k, and the stream, which orders the uses of a planner"""

    def layout(self, topk_idx: torch.Tensor) -> DispatchLayout | None:
        """Computes the same as `_rows.dispatch_layout` from [tokens][top-k], in two launches and three copies. None: it
        is no CUDA tensor that a rank accepts unchanged, or a graph is being captured, in which no route can be made."""
        tokens, topk = topk_idx.shape
        usual = topk_idx.is_cuda and topk_idx.dtype == torch.int64 and topk_idx.is_contiguous()
        fits = 0 < tokens <= self._sizes.tokens and 0 < topk <= self._sizes.topk
        if not usual or not fits or is_capturing(topk_idx):
            return None
        stream = stream_of(topk_idx)
        key = (power_of_two(tokens), topk, stream)
        planner = self._planners.get(key)
        if planner is None:
            route = self._rank.route(max_tokens=min(key[0], self._sizes.max_tokens), max_rows=1, topk=topk)
            planner = self._planners[key] = Planner(route)
        return planner.plan(topk_idx, stream)

    def clear(self) -> None:
        """Releases all routes."""
        self._planners.clear()
