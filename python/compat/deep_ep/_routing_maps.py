"""Routing maps and probabilities by expert, as `HybridEPBuffer` takes and returns them, and selections, as `weft.ep`
takes them. No function here waits for a GPU."""

from __future__ import annotations

from typing import NamedTuple

import torch


def dense(values: torch.Tensor, columns: torch.Tensor, width: int) -> torch.Tensor:
    """[n][width]: each value [n][k] in its column [n][k]; a column of -1 is none. Elsewhere 0. Values of one column are
    added up."""
    there = columns >= 0
    rows = values.new_zeros((columns.shape[0], width))
    return rows.scatter_add_(1, columns.clamp(min=0).long(), values.masked_fill(~there, 0))


def at_columns(rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """[n][k]: the values of rows [n][width] in the columns [n][k]; 0 for a column of -1. The reverse of `dense`."""
    return rows.gather(1, columns.clamp(min=0).long()).masked_fill(columns < 0, 0)


def indices_to_map(topk_idx: torch.Tensor, topk_weights: torch.Tensor | None, num_of_tokens: int,
                   num_of_experts: int) -> tuple[torch.Tensor, torch.Tensor | None]:
    """(bool [tokens][experts]: whether a token selects an expert; float32 [tokens][experts]: its weights, 0 elsewhere,
    or None without weights). A selection that is no expert has no effect."""
    if topk_idx.dim() != 2 or topk_idx.shape[0] != num_of_tokens:
        raise ValueError(f"topk_idx: {[num_of_tokens, 'top-k']} is wanted, not {list(topk_idx.shape)}")
    columns = topk_idx.masked_fill((topk_idx < 0) | (topk_idx >= num_of_experts), -1)
    routing_map = dense((columns >= 0).int(), columns, num_of_experts) > 0
    return routing_map, None if topk_weights is None else dense(topk_weights.float(), columns, num_of_experts)


class MapSelections(NamedTuple):
    """The selections of a routing map."""

    topk_idx: torch.Tensor
    """int32 [tokens][k]: the experts of each token, ascending, then -1"""
    too_many: torch.Tensor | None
    """bool [tokens]: whether a token has more experts than k; None: no token can"""


def selections_of(routing_map: torch.Tensor, most: int) -> MapSelections:
    """The selections of a routing map, bool [tokens][experts]: up to `most` of each token. Their number k depends on
    the shape of the map alone, since it has to be the same on all ranks."""
    experts = routing_map.shape[1]
    numbers = torch.arange(experts, dtype=torch.int32, device=routing_map.device)
    ascending = torch.where(routing_map, numbers, experts).topk(min(most + 1, experts), 1, largest=False).values
    topk_idx = ascending[:, :most].masked_fill(ascending[:, :most] == experts, -1)
    return MapSelections(topk_idx, ascending[:, most] < experts if experts > most else None)
