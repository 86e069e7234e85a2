"""Counting operations: dispatches without the values, by which a rank learns how many tokens it will receive, before
it makes the tensors for them."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import weft

from ._arguments import Sizes
from ._pinned import READS_IN_ORDER, Pinned, PinnedStatus
from ._rows import Arrays

COUNT_BYTES = 16
"""the bytes of a row of a counting operation: the least that an opaque row has"""


class Probe(NamedTuple):
    """A counting operation."""

    operation: weft.ep.Operation
    arrays: Arrays | None
    """where tokens come from, if the caller asked for it"""


class Counts(NamedTuple):
    """The results of a counting operation."""

    rows: int
    """tokens that this rank receives"""
    experts: list[int]
    """rows of each local expert"""


class Counting:
    """The tensors that counting operations send and receive into; all of them use the same tensors. Results that the
    host waits for are in host memory, into which kernels of a GPU write them."""

    def __init__(self, rank: weft.ep.Rank, sizes: Sizes, device: torch.device) -> None:
        self._rank, self._sizes, self._most = rank, sizes, sizes.tokens * sizes.capacity
        self._blank = torch.zeros((max(1, sizes.tokens), COUNT_BYTES), dtype=torch.uint8, device=device)
        self._scratch = torch.empty((self._most, COUNT_BYTES), dtype=torch.uint8, device=device)
        cuda = device.type == "cuda"
        self._status = PinnedStatus() if cuda and READS_IN_ORDER else None
        """None: a call waits for the result of an operation, and returns it"""
        pinned = Pinned(sizes.experts_per_rank, torch.int32) if cuda else None
        self._counts = pinned.tensor if pinned is not None else torch.empty(sizes.experts_per_rank, dtype=torch.int32,
                                                                            device=device)
        self._waited: dict[str, Any] = {"counts": pinned if pinned is not None else self._counts}
        if self._status is not None:
            self._waited["status"] = self._status.memory
        self._into = self._receive(**self._waited)

    def _receive(self, **arrays: Any) -> weft.ep.Receive:
        return self._rank.receive(self._most, layout="rank_major", dtype="opaque", row_bytes=COUNT_BYTES,
                                  x=self._scratch, **arrays)

    def begin(self, topk_idx: torch.Tensor, weights: torch.Tensor, waits: bool, with_sources: bool, processors: int,
              stream: Any) -> Probe:
        """Begins a counting operation. waits: the host will wait for it; with_sources: it also finds where tokens come
        from."""
        arrays, into = None, self._into
        if with_sources:
            arrays = Arrays.make(self._most, topk_idx.shape[1], False, self._sizes, topk_idx.device)
            into = self._receive(keep_places=True, **(arrays.named() | (self._waited if waits else {})))
        operation = self._rank.dispatch(self._blank[:topk_idx.shape[0]], topk_idx, weights, into=into, dtype="opaque",
                                        processors=processors, stream=stream,
                                        info=True if waits and self._status is None else None)
        return Probe(operation, arrays)

    def wait(self, operation: weft.ep.Operation) -> Counts:
        """Waits for the results of a counting operation. If ranks were lost, `operation.info` names them."""
        status = self._status
        if status is not None and (not status.spin(operation.number) or status.num_lost):
            operation.info = operation.wait()[0]
        known: Any = operation.info or status
        return Counts(known.num_rows, self._counts.tolist())
