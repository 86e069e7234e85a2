"""Maps arguments of the originals to arguments of `weft.ep`: pure functions, without torch."""

from __future__ import annotations

import functools
import numbers
from typing import Any, NamedTuple

import weft

BLOCK = 128
"""values that share an fp8 scale"""


class Sizes(NamedTuple):
    """The sizes that all ranks of a group have in common."""

    max_tokens: int
    hidden: int
    topk: int
    experts_per_rank: int
    capacity: int
    memory: str
    mode: str = "latency"
    tokens: int = 0
    """throughput: tokens of a rank in one operation, at most"""

    @property
    def experts(self) -> int:
        """The experts of all ranks."""
        return self.experts_per_rank * self.capacity


def dispatch_type(use_fp8: bool, round_scale: bool, use_ue8m0: bool) -> str:
    """The type of the rows of a dispatch. use_ue8m0 without round_scale is refused, as by the originals."""
    if use_ue8m0 and not round_scale:
        raise ValueError("use_ue8m0: such scales are powers of two, so it wants round_scale=True as well")
    if not use_fp8:
        return "bf16"
    return "fp8_ue8m0" if use_ue8m0 else "fp8_pow2" if round_scale else "fp8"


def scales_of_row(kind: str, hidden: int) -> int:
    """The number of 4-byte values that the scales of a row take: floats, or words of four ue8m0; 0 for bf16."""
    if kind == "bf16":
        return 0
    return (hidden + 511) // 512 if kind == "fp8_ue8m0" else hidden // BLOCK


def check_whole(**given: object) -> None:
    """Raises `TypeError` if an argument is no whole number."""
    for name, one in given.items():
        if not isinstance(one, numbers.Integral):
            raise TypeError(f"{name}: a whole number is wanted, not {one!r:.60}")


def experts_of_rank(num_experts: int, num_ranks: int) -> int:
    """Experts that each rank holds."""
    check_whole(num_experts=num_experts)
    if num_experts <= 0 or num_experts % num_ranks:
        raise ValueError(f"num_experts: {num_experts} is no positive multiple of the number of ranks, {num_ranks}")
    return num_experts // num_ranks


def differences(mine: Sizes, theirs: Sizes) -> str:
    """The sizes on which two ranks disagree, as the end of a sentence."""
    pairs = zip(Sizes._fields, mine, theirs)
    return ", ".join(f"{name} {here} here and {there} there" for name, here, there in pairs if here != there)


@functools.lru_cache(maxsize=64)
def window_bytes(max_tokens: int, hidden: int, num_ranks: int, num_experts: int) -> int:
    """Bytes of the windows that a rank has for operations of these sizes when all others are connected.

    The library gives the number: two ranks of this process connect through a separate store, and the bytes that one
    has for the other are multiplied by the number of peers.
    """
    experts = experts_of_rank(num_experts, num_ranks)
    options: dict[str, Any] = {"capacity": 2, "max_tokens": max_tokens, "hidden": hidden, "experts_per_rank": experts,
                               "topk": 8, "mode": "latency", "prefix": "/hint/"}
    with weft.Store.local() as store, weft.ep.Rank(store, rank=0, **options) as one, \
            weft.ep.Rank(store, rank=1, **options):
        one.connect([1])
        return max(1, num_ranks - 1) * one.peer_stats(1).window_bytes
