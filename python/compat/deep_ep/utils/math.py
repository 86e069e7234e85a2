"""Arithmetic that programs use to check operations."""

from __future__ import annotations

from typing import Any

import torch

BLOCK = 128
E4M3_MAX = 448.0


def safe_div(a: float, b: float) -> float:
    """a / b; 0 if both are 0."""
    return 0 if a == 0 and b == 0 else a / b


def ceil_div(x: int, y: int) -> int:
    """x / y, rounded up."""
    return -(-x // y)


def align(x: int, y: int) -> int:
    """The least multiple of y that is at least x."""
    return ceil_div(x, y) * y


def calc_diff(x: torch.Tensor, y: torch.Tensor) -> float:
    """The difference of two tensors: 1 - 2 sum(xy) / sum(x^2 + y^2), in double, of values shifted by 1."""
    x, y = x.double() + 1, y.double() + 1
    return float(1 - 2 * (x * y).sum() / (x * x + y * y).sum())


def hash_tensor(t: torch.Tensor) -> int:
    """The sum of a tensor's bits, as whole numbers: equal tensors have equal sums."""
    flat = t.contiguous().view(torch.uint8).flatten()
    flat = torch.nn.functional.pad(flat, (0, -flat.numel() % 4))
    return int(flat.view(torch.int32).to(torch.int64).sum())


def hash_tensors(*tensors: Any) -> int:
    """The exclusive or of `hash_tensor` of several tensors, also in lists and tuples; other objects count as 0."""
    value = 0
    for one in tensors:
        if isinstance(one, (tuple, list)):
            value ^= hash_tensors(*one)
        elif isinstance(one, torch.Tensor):
            value ^= hash_tensor(one)
    return value


def count_bytes(*tensors: Any) -> int:
    """The bytes of tensors, also in lists and tuples; None has 0 bytes."""
    total = 0
    for one in tensors:
        if isinstance(one, (tuple, list)):
            total += count_bytes(*one)
        elif one is not None:
            total += one.numel() * one.element_size()
    return total


def create_grouped_scores(scores: torch.Tensor, group_idx: torch.Tensor, num_groups: int) -> torch.Tensor:
    """[tokens][experts]: the scores of experts in the groups that a token names ([tokens][n]), 0 elsewhere."""
    tokens, experts = scores.shape
    chosen = scores.new_zeros((tokens, num_groups), dtype=torch.bool).scatter_(1, group_idx, True)
    grouped: torch.Tensor = scores.unflatten(1, (num_groups, -1)) * chosen.unsqueeze(-1)
    return grouped.view(tokens, experts)


def _blocks_of(x: torch.Tensor) -> torch.Tensor:
    """float32 [tokens][blocks][128]: the values of tokens, padded with 0."""
    padded = torch.nn.functional.pad(x.float(), (0, -x.shape[1] % BLOCK))
    return padded.view(x.shape[0], padded.shape[1] // BLOCK, BLOCK)


def per_token_cast_to_fp8(x: torch.Tensor, round_scale: bool = False,
                          use_ue8m0: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Casts [tokens][hidden] to e4m3 with a scale for each 128 values: amax / 448, with amax at least 1e-4. With
    round_scale scales are rounded up to a power of two; with use_ue8m0 they are ue8m0, four in an int32."""
    hidden = x.shape[1]
    blocks = _blocks_of(x)
    most = blocks.abs().amax(2).clamp(1e-4)
    scales, factors = most / E4M3_MAX, torch.full_like(most, E4M3_MAX) / most  # number / tensor rounds twice
    if round_scale:
        scales = torch.exp2(torch.ceil(torch.log2(scales)))
        factors = 1 / scales
    values = (blocks * factors.unsqueeze(2)).clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)
    values = values.flatten(1)[:, :hidden].contiguous()
    if not use_ue8m0:
        return values, scales
    exponents = torch.nn.functional.pad((scales.view(torch.int32) >> 23).to(torch.uint8), (0, -scales.shape[1] % 4))
    return values, exponents.view(torch.int32)


def per_token_cast_back(x_fp8: torch.Tensor, x_scales: torch.Tensor) -> torch.Tensor:
    """Casts fp8 values with their scales, of either form, to bf16. The result of an empty tensor is empty."""
    if x_fp8.numel() == 0:
        return x_fp8.to(torch.bfloat16)
    tokens, hidden = x_fp8.shape
    if x_scales.dtype == torch.int32:
        exponents = x_scales.reshape(-1).view(torch.uint8).view(tokens, -1)[:, : ceil_div(hidden, BLOCK)]
        x_scales = (exponents.to(torch.int32) << 23).view(torch.float32)
    blocks = _blocks_of(x_fp8) * x_scales.unsqueeze(2)
    return blocks.to(torch.bfloat16).flatten(1)[:, :hidden].contiguous()


def inplace_unique(x: torch.Tensor, num_slots: int) -> None:
    """Replaces each row by its distinct values below num_slots, the most frequent first, followed by -1."""
    counts = torch.zeros((x.shape[0], num_slots + 1), dtype=x.dtype, device=x.device)
    counts.scatter_add_(1, x.masked_fill(x < 0, num_slots), torch.ones_like(x))
    counts, values = counts[:, :num_slots].sort(dim=1, descending=True, stable=True)
    kept = min(num_slots, x.shape[1])
    x.fill_(-1)
    x[:, :kept] = values[:, :kept].masked_fill(counts[:, :kept] == 0, -1)
