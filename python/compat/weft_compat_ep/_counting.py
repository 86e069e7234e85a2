"""Operations without the values, which tell a rank how many tokens come, before it makes the tensors for them."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import weft

from ._arguments import Sizes
from ._pinned import READS_IN_ORDER, Pinned, Told
from ._rows import Arrays

COUNT_BYTES = 16
"""of a row of an operation that counts: the fewest that an opaque row has"""


class Probe(NamedTuple):
    """An operation that counts."""

    operation: weft.ep.Operation
    arrays: Arrays | None
    """where tokens come from, if it was asked for"""


class Counts(NamedTuple):
    """What it has found."""

    rows: int
    """tokens that come"""
    experts: list[int]
    """rows of each local expert"""


class Counting:
    """What operations that count send, and receive into: the same ones serve all of them. What the host waits for is
    in its own memory, where kernels of a GPU write it."""

    def __init__(self, rank: weft.ep.Rank, sizes: Sizes, device: torch.device) -> None:
        self._rank, self._sizes, self._most = rank, sizes, sizes.tokens * sizes.capacity
        self._blank = torch.zeros((max(1, sizes.tokens), COUNT_BYTES), dtype=torch.uint8, device=device)
        self._scratch = torch.empty((self._most, COUNT_BYTES), dtype=torch.uint8, device=device)
        cuda = device.type == "cuda"
        self._told = Told() if cuda and READS_IN_ORDER else None
        """None: a call waits for what an operation did, and says it"""
        pinned = Pinned(sizes.experts_per_rank, torch.int32) if cuda else None
        self._counts = pinned.tensor if pinned is not None else torch.empty(sizes.experts_per_rank, dtype=torch.int32,
                                                                            device=device)
        self._waited: dict[str, Any] = {"counts": pinned if pinned is not None else self._counts}
        if self._told is not None:
            self._waited["told"] = self._told.memory
        self._into = self._receive(**self._waited)

    def _receive(self, **arrays: Any) -> weft.ep.Receive:
        return self._rank.receive(self._most, layout="rank_major", dtype="opaque", row_bytes=COUNT_BYTES,
                                  x=self._scratch, **arrays)

    def begin(self, topk_idx: torch.Tensor, weights: torch.Tensor, waits: bool, with_sources: bool, processors: int,
              stream: Any) -> Probe:
        """Begins an operation. waits: the host will wait for it; with_sources: it tells where tokens come from, too."""
        arrays, into = None, self._into
        if with_sources:
            arrays = Arrays.make(self._most, topk_idx.shape[1], False, self._sizes, topk_idx.device)
            into = self._receive(keep_places=True, **(arrays.named() | (self._waited if waits else {})))
        operation = self._rank.dispatch(self._blank[:topk_idx.shape[0]], topk_idx, weights, into=into, dtype="opaque",
                                        processors=processors, stream=stream,
                                        info=True if waits and self._told is None else None)
        return Probe(operation, arrays)

    def wait(self, operation: weft.ep.Operation) -> Counts:
        """What it has found. Where ranks were lost, its `info` says which."""
        told = self._told
        if told is not None and (not told.spin(operation.number) or told.num_lost):
            operation.info = operation.wait()[0]
        known: Any = operation.info or told
        return Counts(known.num_rows, self._counts.tolist())
