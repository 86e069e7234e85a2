"""A rank of a group of `weft.ep` for both originals: opened for operations of fixed sizes, with its membership and its
masks. `_engine` has the low-latency operations, `_throughput` has the operations of many tokens."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

import torch
import weft

from ._arguments import Sizes
from ._meeting import Meeting, deadline, left

# Gives the address of a GPU's current stream without making an object of it; a torch for CPUs only lacks this function.
raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None) or (
    lambda device: torch.cuda.current_stream(device).cuda_stream)
KINDS = {kind.name.lower(): kind for kind in weft.ep.DType}
"""types of rows by their names"""


def stream_of(tensor: torch.Tensor) -> int | None:
    """The current stream of a tensor's GPU; None on the host."""
    return raw_stream(tensor.get_device()) if tensor.is_cuda else None


def is_capturing(tensor: torch.Tensor) -> bool:
    """Whether the current stream is captured in a graph."""
    return bool(tensor.is_cuda and torch.cuda.is_current_stream_capturing())


class Member:
    """One rank of a group, opened for operations of fixed sizes."""

    def __init__(self, meeting: Meeting, sizes: Sizes, founders: Iterable[int], *, seconds: float, op_seconds: float,
                 part: str = "", **options: Any) -> None:
        self.sizes = sizes
        self.seconds = seconds
        self.masked: set[int] = set()
        """ranks that this rank masks"""
        self.rank = weft.ep.Rank(
            meeting.store, rank=meeting.rank, founders=sorted(set(founders) | {meeting.rank}),
            prefix=f"{meeting.prefix}group{part}/", capacity=sizes.capacity, max_tokens=sizes.max_tokens,
            hidden=sizes.hidden, topk=sizes.topk, experts_per_rank=sizes.experts_per_rank, mode=sizes.mode,
            memory=sizes.memory, device=torch.cuda.current_device() if sizes.memory == "cuda" else None, ordered=True,
            op_timeout=op_seconds, timeout=seconds, **options)
        try:
            self.rank.activate(seconds)
        except BaseException:
            self.rank.close()
            raise

    def settle(self) -> None:
        """Ends open operations before the view changes, as every rank does."""

    def reach(self, wanted: set[int], unwanted: set[int], what: str) -> None:
        """Runs operations without tokens until the view of the next operation has all of `wanted` and none of
        `unwanted`. A view takes effect at the same operation on all ranks, so all of them stop there."""
        self.settle()
        until = deadline(self.seconds)
        while True:
            view = set(self.rank.view.ranks)
            if wanted <= view and not unwanted & view:
                return
            if left(until) == 0:
                raise TimeoutError(f"{what}: within {self.seconds:g} s ranks {sorted(wanted - view)} did not come in, "
                                   f"and {sorted(unwanted & view)} did not go")
            self.pass_barrier()
            time.sleep(0.0005)

    def pass_barrier(self) -> None:
        """A barrier of the living ranks. A rank that is lost in it is not in the next view."""
        try:
            self.rank.barrier()
        except weft.errors.PeerLostError:
            return

    def remove(self, ranks: set[int], what: str) -> None:
        """Agrees on a view without these ranks, and runs operations until it takes effect."""
        self.settle()
        gone = ranks & set(self.rank.committed_view.ranks)
        if gone:
            self.rank.change(remove=sorted(gone), timeout=self.seconds)
        self.reach(set(), ranks, what)

    def mask(self, rank: int, masked: bool) -> None:
        """Masks or unmasks a rank. A rank that is not in the view gets no tokens anyway."""
        (self.masked.add if masked else self.masked.discard)(rank)
        try:
            self.rank.mask(rank, masked)
        except weft.errors.NotFoundError:
            return

    @contextlib.contextmanager
    def unmasked(self) -> Iterator[None]:
        """Lifts all masks within the context: for rows that answer other ranks."""
        masked = sorted(self.masked)
        for rank in masked:
            self.mask(rank, False)
        try:
            yield
        finally:
            for rank in masked:
                self.mask(rank, True)

    def read_masks(self, into: torch.Tensor) -> None:
        """Writes 1 for each rank that gets no tokens of this rank (masked, lost, or not in the view), else 0."""
        if is_capturing(into):
            self.rank.masks(into, stream_of(into))
            return
        lost: list[int] = []
        if into.is_cuda:
            torch.cuda.current_stream(into.device).synchronize()
            with contextlib.suppress(weft.errors.Error):  # there may have been no operation yet
                lost = self.rank.wait(None, self.seconds)[0].lost
        states = self.rank.states
        into.copy_(torch.tensor([int(state != weft.ep.RankState.ACTIVE or rank in lost)
                                 for rank, state in enumerate(states)][:into.numel()], dtype=torch.int32))

    def close(self) -> None:
        """Leaves the group after all launched work has run."""
        if self.sizes.memory == "cuda" and not sys.is_finalizing():
            torch.cuda.current_stream().synchronize()
        self.rank.close()
