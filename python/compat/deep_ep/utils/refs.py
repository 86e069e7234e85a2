"""Dispatch and combine by collectives of torch.distributed alone, with which programs compare results."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.distributed as dist

from .envs import get_global_seed

__all__ = ["combine", "dispatch", "generate_pre_combine_data", "ordered_accumulate"]

PRIME = 131071


def dispatch(x: Any, topk_idx: torch.Tensor, topk_weights: torch.Tensor, num_max_tokens_per_rank: int,
             num_experts: int) -> tuple[Any, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(rows or (rows, scales), local experts, weights, sources, counts). Rows are in the order of source rank, then
    token; experts of other ranks are -1. sources: int32 [rows], rank * num_max_tokens_per_rank + token. counts: int32
    [ranks], rows from each rank."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    of_rank = num_experts // ranks
    owner = topk_idx.div(of_rank, rounding_mode="floor").masked_fill(topk_idx < 0, -1)
    tokens = [(owner == other).any(1).nonzero().flatten() for other in range(ranks)]
    sent = torch.tensor([len(one) for one in tokens], device=topk_idx.device)
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent)
    order, counts = torch.cat(tokens), (received.tolist(), sent.tolist())

    def exchanged(rows: torch.Tensor) -> torch.Tensor:
        flat = rows[order] if rows.element_size() > 1 else rows.view(torch.uint8)[order]
        got = flat.new_empty((sum(counts[0]), *flat.shape[1:]))
        dist.all_to_all_single(got, flat.contiguous(), *counts)
        return got.view(rows.dtype)

    data = tuple(map(exchanged, x)) if isinstance(x, (tuple, list)) else exchanged(x)
    sources = torch.arange(len(topk_idx), device=topk_idx.device, dtype=torch.int32) + rank * num_max_tokens_per_rank
    local = exchanged(topk_idx) - rank * of_rank
    local = local.masked_fill((local < 0) | (local >= of_rank), -1)
    return data, local, exchanged(topk_weights), exchanged(sources), torch.tensor(counts[0], dtype=torch.int32)


def generate_pre_combine_data(src_token_global_idx: torch.Tensor, num_max_tokens_per_rank: int, num_topk: int,
                              hidden: int) -> torch.Tensor:
    """bf16 [tokens][top-k][hidden]: waves whose lengths follow from a token's number and the place of the selection, so
    that every rank can compute the rows of every token."""
    device = src_token_global_idx.device
    most = dist.get_world_size() * num_max_tokens_per_rank * num_topk
    number = src_token_global_idx.long()[:, None] * num_topk + torch.arange(num_topk, device=device)
    step = ((number * PRIME % most).float() + 1) / most
    angles = step[:, :, None] * torch.arange(1, hidden + 1, device=device, dtype=torch.float32)
    return torch.sin(angles + math.sin(float(get_global_seed()))).to(torch.bfloat16)


def ordered_accumulate(data: torch.Tensor, initial_value: torch.Tensor | None = None) -> torch.Tensor:
    """[tokens][hidden]: the sums of [tokens][top-k][hidden], added in float32 in the order of the places, to an initial
    value (float32) if there is one, then rounded to the type of the data."""
    total = torch.zeros_like(data[:, 0], dtype=torch.float32) if initial_value is None else initial_value.clone()
    for place in range(data.shape[1]):
        total += data[:, place].float()
    return total.to(data.dtype)


def combine(y: torch.Tensor, topk_idx: torch.Tensor, num_scaleout_ranks: int, num_scaleup_ranks: int, num_experts: int,
            bias: Any, reduce_in_local: bool, reduce_in_scaleup: bool) -> torch.Tensor:
    """[tokens][hidden]: the sums of rows y [tokens][top-k][hidden] and of up to two biases. Sums within a rank, or
    within a domain of num_scaleup_ranks ranks, are rounded before they are added if reduce_in_... says so."""
    rank = topk_idx.div(num_experts // (num_scaleout_ranks * num_scaleup_ranks), rounding_mode="floor")
    rank = rank.masked_fill(topk_idx < 0, -1)
    if reduce_in_local:
        y = _sums_of_groups(y, rank)
    if reduce_in_scaleup:
        y = _sums_of_groups(y, rank.div(num_scaleup_ranks, rounding_mode="floor").masked_fill(rank < 0, -1))
    initial = None
    for one in (bias,) if isinstance(bias, torch.Tensor) else bias or ():
        initial = one.float() if initial is None else initial + one.float()
    return ordered_accumulate(y, initial)


def _sums_of_groups(y: torch.Tensor, group: torch.Tensor) -> torch.Tensor:
    """y, with the sum of each group at the first place of the group, and 0 at its other places; -1: no group."""
    sums = torch.zeros_like(y)
    for place in range(group.shape[1]):
        same = (group == group[:, place:place + 1]) & (group >= 0)
        is_first = same[:, place] & ~same[:, :place].any(1)
        of_group = ordered_accumulate(y.masked_fill(~same[:, :, None], 0))
        sums[:, place] = of_group.masked_fill(~is_first[:, None], 0)
    return sums
