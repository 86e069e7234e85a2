"""Computations for operations of many tokens outside the library: layouts, types of rows, tensors to receive into. No
function here waits for a GPU."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import torch
import weft

from ._arguments import BLOCK, Sizes

DEFAULT_TOKENS = 8192
TOKENS_VARIABLE = "WEFT_EP_MAX_TOKENS"


def token_limit(tokens: int = 0) -> int:
    """The largest number of tokens of a rank in one operation, if the caller does not give it: WEFT_EP_MAX_TOKENS, else
    enough for `tokens` tokens. Memory grows with it, so the library's largest number is no good default."""
    most = weft.ep.limits().max_tokens
    said = os.environ.get(TOKENS_VARIABLE)
    if said is None:
        return min(most, max(DEFAULT_TOKENS, power_of_two(tokens)))
    if not said.isdigit() or not 0 < int(said) <= most:
        raise ValueError(f"{TOKENS_VARIABLE}: {said!r} is no number from 1 to {most}")
    return int(said)


def sizes_of(tokens: int, hidden: int, experts_per_rank: int, ranks: int, memory: str) -> Sizes:
    """The sizes of a group for up to `tokens` tokens of a rank. Weights are sent back by a dispatch with as many rows
    as a rank has received, so the group has room for more tokens."""
    limits = weft.ep.limits()
    return Sizes(min(tokens * ranks, limits.max_tokens), hidden, limits.max_topk, experts_per_rank, ranks, memory,
                 "throughput", tokens)


def power_of_two(count: int) -> int:
    """The first power of two that is not below a number."""
    return 1 << max(0, count - 1).bit_length()


def aligned(count: int, to: int) -> int:
    """The first multiple of `to` that is not below a number."""
    return -(-count // to) * to


class DispatchLayout(NamedTuple):
    """The result of get_dispatch_layout, without its event."""

    tokens_per_rank: torch.Tensor
    """int32 [ranks]"""
    tokens_per_expert: torch.Tensor
    """int32 [experts]"""
    in_rank: torch.Tensor
    """bool [tokens][ranks]"""


def check_tensors(**given: Any) -> None:
    """Raises `TypeError` if an argument is no tensor."""
    for name, one in given.items():
        if not isinstance(one, torch.Tensor):
            raise TypeError(f"{name}: a tensor is wanted, not {one!r:.60}")


def check_weights(topk_weights: Any) -> None:
    """Raises `TypeError` if the weights are neither None nor a tensor."""
    if topk_weights is not None:
        check_tensors(topk_weights=topk_weights)


def dispatch_layout(topk_idx: torch.Tensor, num_experts: int, num_ranks: int) -> DispatchLayout:
    """The number of tokens for each rank and each expert, and whether a token goes to a rank."""
    if topk_idx.dim() != 2 or topk_idx.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"topk_idx: int64 or int32 [tokens][top-k] is wanted, not {topk_idx.dtype} "
                        f"{list(topk_idx.shape)}")
    # There are few operations, since each takes longer to launch than to run. Expert e is counted in column e + 1; the
    # first and the last column are for numbers that are no expert.
    columns = topk_idx.clamp(-1, num_experts).long() + 1
    selected = columns.new_zeros((topk_idx.shape[0], num_experts + 2), dtype=torch.int32)
    selected.scatter_add_(1, columns, torch.ones_like(columns, dtype=torch.int32))
    selected = selected[:, 1:-1]
    in_rank = selected.unflatten(1, (num_ranks, num_experts // num_ranks)).any(2)
    return DispatchLayout(in_rank.sum(0, dtype=torch.int32), selected.sum(0, dtype=torch.int32), in_rank)


def ranks_as_experts(in_rank: torch.Tensor, experts_per_rank: int) -> torch.Tensor:
    """A top-k that sends tokens to the ranks of `in_rank`: it selects the first expert of each."""
    ranks, most = in_rank.shape[1], weft.ep.limits().max_topk
    firsts = torch.arange(ranks, dtype=torch.int64, device=in_rank.device) * experts_per_rank
    idx = torch.where(in_rank.bool(), firsts, torch.full_like(firsts, -1))
    return idx if ranks <= most else idx.sort(1, descending=True).values[:, :most].contiguous()


def row_kind(x: torch.Tensor, scales: torch.Tensor | None) -> str:
    """The type of the rows of x, by its name in weft.ep: bytes with scales that the library does not know are opaque,
    as are bytes without scales."""
    if x.dim() != 2:
        raise ValueError(f"x: {list(x.shape)} is no shape [tokens][hidden]")
    if scales is None:
        if x.dtype != torch.bfloat16 and x.element_size() != 1:
            raise TypeError(f"x: bf16 is wanted, or (e4m3, its scales), not {x.dtype}")
        return "bf16" if x.dtype == torch.bfloat16 else "opaque"
    if (x.element_size() != 1 or scales.dtype not in (torch.float32, torch.int32) or scales.dim() != 2
            or scales.shape[0] != x.shape[0] or scales.shape[1] == 0):
        raise TypeError(f"x: {x.dtype} with scales {scales.dtype} {list(scales.shape)}; wanted are 8 bits [tokens]"
                        "[hidden], such as e4m3, with scales float32 or int32 [tokens][n]: n is hidden / 128, or for "
                        "int32 of ue8m0 hidden / 512, or another number for formats that only the program knows")
    block, kind = (BLOCK, "fp8") if scales.dtype == torch.float32 else (4 * BLOCK, "fp8_ue8m0")
    return kind if scales.shape[1] == -(-x.shape[1] // block) else "opaque"


def scales_like(scales: torch.Tensor, rows: int, columns: bool) -> torch.Tensor:
    """A tensor for the scales of received rows; with `columns` column by column, each padded to a multiple of 16
    bytes."""
    words = scales.shape[1]
    if not columns:
        return torch.empty((rows, words), dtype=scales.dtype, device=scales.device)
    return torch.empty((words, aligned(rows, 4)), dtype=scales.dtype, device=scales.device).t()[:rows]


class Arrays(NamedTuple):
    """The tensors that a receive writes besides rows. Their memory is two tensors, each of which one operation fills:
    on a GPU a fill is a launch, and a launch for each array took the host longer than the dispatch."""

    src_rank: torch.Tensor
    src_token: torch.Tensor
    """-1 in rows that nobody sent"""
    selected: torch.Tensor
    """int32 [rows][top-k]: local_expert, or slot where rows are packed; -1 in rows that nobody sent"""
    range: torch.Tensor
    counts: torch.Tensor
    weights: torch.Tensor
    """[rows][top-k], where rows are packed [rows]; 0 in rows that nobody sent"""
    expert_end: torch.Tensor | None
    """int32 [E]; None where rows are not packed"""

    @staticmethod
    def bytes_of(rows: int, topk: int) -> int:
        """The approximate size of their memory."""
        return 4 * rows * (2 + 2 * topk)

    @classmethod
    def make(cls, rows: int, topk: int, packed: bool, sizes: Sizes, device: torch.device) -> Arrays:
        """Arrays for that many rows."""
        ranks, experts = sizes.capacity, sizes.experts_per_rank
        none = torch.full((rows * (2 + topk),), -1, dtype=torch.int32, device=device)
        src_rank, src_token, selected = none.split_with_sizes((rows, rows, rows * topk))
        weighed = rows if packed else rows * topk
        zeros = torch.zeros(2 * ranks + experts + weighed, dtype=torch.int32, device=device)
        ranges, counts, weights = zeros.split_with_sizes((2 * ranks, experts, weighed))
        # .data makes tensors that are no views to autograd: it forbids a caller to change views in place that a custom
        # Function returns.
        return cls(src_rank, src_token, selected.view(rows, topk).data, ranges.view(torch.int64), counts,
                   (weights.view(torch.float32) if packed else weights.view(torch.float32).view(-1, topk)).data,
                   torch.empty_like(counts) if packed else None)

    def named(self) -> dict[str, torch.Tensor]:
        """The arrays that the receive takes, by their names."""
        both = {"counts": self.counts, "src_rank": self.src_rank, "src_token": self.src_token}
        if self.expert_end is not None:
            return {**both, "slot": self.selected, "weights": self.weights, "expert_end": self.expert_end}
        return {**both, "range": self.range, "local_expert": self.selected, "weights": self.weights}


def spread(values: torch.Tensor, slot: torch.Tensor, rows: int) -> torch.Tensor:
    """[rows]: the values of selections, [n][top-k], at their packed rows; 0 elsewhere."""
    at = slot.long()
    at = at.masked_fill(at < 0, rows).flatten()
    return values.new_zeros(rows + 1).scatter_(0, at, values.flatten())[:rows]


def places(topk_idx: torch.Tensor, in_rank: torch.Tensor, experts_per_rank: int) -> torch.Tensor:
    """int32 [tokens][top-k]: for each selection, the place of the token among the tokens that go to the same rank; -1:
    none."""
    before = (in_rank.int().cumsum(0, dtype=torch.int32) - 1).masked_fill(~in_rank, -1)
    ranks = topk_idx.long() // experts_per_rank
    return before.gather(1, ranks.clamp(0, in_rank.shape[1] - 1)).masked_fill(topk_idx < 0, -1)


def of_type(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The same bytes as another type, or the tensor itself if it has this type already."""
    return tensor if tensor.dtype == dtype else tensor.view(dtype)


def first_rows(tensor: torch.Tensor, rows: int) -> torch.Tensor:
    """The first rows of a tensor, or the tensor itself if it has no more. To autograd they are no view."""
    return tensor if tensor.shape[0] == rows else tensor[:rows].data


def pad_rows(tensor: Any, rows: int = 1) -> Any:
    """The tensor, padded with rows of 0 to that many rows; None stays None."""
    if tensor is None or tensor.shape[0] >= rows:
        return tensor
    return torch.cat((tensor, tensor.new_zeros((rows - tensor.shape[0], *tensor.shape[1:]))))
