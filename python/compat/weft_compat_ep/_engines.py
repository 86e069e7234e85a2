"""The groups of ranks for many tokens that a buffer opens: one for each size of operations."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from ._arguments import Sizes
from ._meeting import Meeting
from ._rows import sizes_of
from ._throughput import Throughput


class Engines:
    """The open groups of a buffer. All ranks open the same ones, in the same order."""

    def __init__(self, meeting: Meeting, ranks: Iterable[int], seconds: float, op_seconds: float) -> None:
        self._meeting, self._ranks = meeting, list(ranks)
        self._seconds, self._op_seconds = seconds, op_seconds
        self._open: dict[Sizes, Throughput] = {}

    def get(self, x: torch.Tensor, experts_per_rank: int, tokens: int) -> Throughput:
        """The group for rows like those of x, and up to `tokens` of them from a rank. Opens it at the first call."""
        sizes = sizes_of(tokens, x.shape[-1], experts_per_rank, len(self._ranks), "cuda" if x.is_cuda else "host")
        engine = self._open.get(sizes)
        if engine is None:
            engine = self._open[sizes] = Throughput(
                self._meeting, sizes, self._ranks, seconds=self._seconds, op_seconds=self._op_seconds,
                part="-".join(map(str, sizes)))
        return engine

    def newest(self) -> Throughput | None:
        """The group that was opened last; None before the first."""
        return next(reversed(self._open.values()), None)

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, engine: object) -> bool:
        return engine in self._open.values()

    def close(self) -> None:
        """Leaves all groups."""
        for engine in self._open.values():
            engine.close()
        self._open.clear()
