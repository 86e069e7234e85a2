"""Routing maps and probabilities by expert, as `HybridEPBuffer` takes and returns them, and selections, as `weft.ep`
takes them. No function here waits for a GPU. They have few operations of torch: on a GPU each is a launch."""

from __future__ import annotations

from typing import NamedTuple

import torch


def dense(values: torch.Tensor, columns: torch.Tensor, width: int) -> torch.Tensor:
    """[n][width]: each value [n][k] in its column [n][k], 0 elsewhere. Values of one column are added up. A column of
    -1 is none; its value has to be 0."""
    return values.new_zeros((columns.shape[0], width)).scatter_add_(1, columns.clamp(min=0).long(), values)


def at_columns(rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """[n][k]: the values of rows [n][width] in the columns [n][k]; for a column of -1 any value of the row."""
    return rows.gather(1, columns.clamp(min=0).long())


def indices_to_map(topk_idx: torch.Tensor, topk_weights: torch.Tensor | None, num_of_tokens: int,
                   num_of_experts: int) -> tuple[torch.Tensor, torch.Tensor | None]:
    """(bool [tokens][experts]: whether a token selects an expert; float32 [tokens][experts]: its weights, 0 elsewhere,
    or None without weights). A selection that is no expert has no effect."""
    if topk_idx.dim() != 2 or topk_idx.shape[0] != num_of_tokens:
        raise ValueError(f"topk_idx: {[num_of_tokens, 'top-k']} is wanted, not {list(topk_idx.shape)}")
    there = (topk_idx >= 0) & (topk_idx < num_of_experts)
    columns = topk_idx.masked_fill(~there, -1)
    routing_map = dense(there.int(), columns, num_of_experts) > 0
    if topk_weights is None:
        return routing_map, None
    return routing_map, dense(topk_weights.float().masked_fill(~there, 0), columns, num_of_experts)


class MapSelections(NamedTuple):
    """The selections of a routing map."""

    topk_idx: torch.Tensor
    """int64 [tokens][k]: the experts of each token, ascending, then -1"""
    largest: torch.Tensor | None
    """int64, one number: the largest number of experts of a token; None: no token can have more than k"""


def selections_of(routing_map: torch.Tensor, most: int, numbers: torch.Tensor) -> MapSelections:
    """The selections of a routing map, bool [tokens][experts]: up to `most` of each token. Their number k depends on
    the shape of the map alone, since it has to be the same on all ranks. numbers: int64 [experts], those from 0 on."""
    tokens, experts = routing_map.shape
    place = routing_map.cumsum(1)  # from 1 on, for the experts of a token
    largest = place[:, -1].amax() if experts > most and tokens else None
    # Column 0 is for the experts that a token does not select.
    topk_idx = place.new_full((tokens, experts + 1), -1)
    topk_idx.scatter_(1, place.mul_(routing_map), numbers.expand(tokens, experts))
    return MapSelections(topk_idx[:, 1:1 + min(most, experts)].contiguous(), largest)
