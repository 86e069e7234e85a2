"""Ranks of one group in threads: one stays, the others come with deadlines that are too short, run a few operations,
and leave, close or drop their rank. The contents of all rows and sums are checked."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from patience import Caller, Tick, Wrong

import weft
from weft import ep
from weft.errors import (
    BusyError,
    CanceledError,
    ClosedError,
    ConflictError,
    DeadlineError,
    ExistsError,
    FencedError,
    InvalidError,
    NotConnectedError,
    NotFoundError,
    PeerLostError,
)

SIZES: dict[str, Any] = {"hidden": 128, "topk": 2, "experts_per_rank": 2, "max_tokens": 8, "capacity": 4,
                         "op_timeout": 20.0}
ENDED = (ClosedError, BusyError)
OUT = (FencedError, NotConnectedError, CanceledError, *ENDED)
"""how an operation ends for a rank that is outside, was interrupted, or was closed by another thread"""


class Party:
    """What the ranks share."""

    def __init__(self, ranks: int, store: weft.Store, seconds: float, mode: str) -> None:
        self.store, self.mode = store, mode
        self.until = time.monotonic() + seconds
        self.ranks: list[ep.Rank | None] = [None] * ranks
        self.over = False


class Gone(Exception):
    """The rank takes part no more: it is closed, or outside the view."""


class Visitor(Caller):
    """The thread of one rank at a time."""

    def __init__(self, party: Party, index: int, seed: int) -> None:
        super().__init__(f"rank {index}", seed)
        self.party, self.index = party, index
        self.operations = self.rows_checked = self.visits = 0
        self.into: Any = None

    # --- operations ---

    def tokens(self, number: int) -> tuple[Any, Any, Any]:
        """Content that says where it comes from, as small whole numbers of bf16."""
        draw, count = self.draw, self.draw.randrange(SIZES["max_tokens"] + 1)
        values = np.zeros((count, SIZES["hidden"]), np.float32)
        values[:, 0], values[:, 1], values[:, 2] = self.index, np.arange(count), number % 64
        x = (values.view(np.uint32) >> 16).astype(np.uint16)
        first = np.array([draw.randrange(2 * len(self.party.ranks)) for _ in range(count)], np.int64).reshape(count, 1)
        return x, np.concatenate([first, (first + 3) % (2 * len(self.party.ranks))], 1), \
            np.full((count, 2), 0.5, np.float32)

    def until_done(self, name: str, function: Callable[[], Any], may: tuple[type[Exception], ...],
                   is_done: Callable[[], bool] | None) -> Any:
        """Makes a call again after each interruption, until it ends; None: with an exception of `may`, or with a `Tick`
        that came when the call was over."""
        while True:
            try:
                return self.call(name, function, may=may, through=(CanceledError, ClosedError),
                                 ticks=is_done is not None)
            except CanceledError:
                continue
            except Tick:
                if is_done is not None and is_done():
                    return None
            except ClosedError:
                raise Gone from None

    def is_received(self, number: int) -> bool:
        """Whether an operation was received, and is open still."""
        try:
            self.rank.combine(number, object())
        except TypeError:  # the first check has passed
            return True
        except InvalidError:
            return False
        raise Wrong("combine accepts any object")

    def operate(self) -> None:
        """The next operation: of its number all ranks know which one it is."""
        rank, may = self.rank, (FencedError, NotConnectedError, BusyError)
        number = rank.next_op
        if number % 5 == 0:
            self.until_done("barrier", rank.barrier, (PeerLostError, *may), None)
            return
        x, idx, weights = self.tokens(number)
        out, into = np.full_like(x, 7), self.into
        done = self.until_done("dispatch", lambda: rank.dispatch(x, idx, weights, into=into), may,
                               lambda: self.is_received(number))
        if done is None and not self.is_received(number):
            raise Gone
        if done is not None and done.number != number:
            raise Wrong(f"{self.name}: operation {done.number} instead of {number}")
        self.check_rows(number)
        result = self.until_done("combine", lambda: rank.combine(number, into.x, out), may,
                                 lambda: not self.is_received(number))
        if result is not None and result.num_missing == 0 and not np.array_equal(out, x):
            raise Wrong(f"{self.name}: operation {number}: another sum than the own rows")
        self.operations += 1

    def check_rows(self, number: int) -> None:
        into = self.into
        for expert, count in enumerate(into.counts):
            rows = (into.x[expert, :count, :3].astype(np.uint32) << 16).view(np.float32)
            if not (np.array_equal(rows[:, 0], into.src_rank[expert, :count])
                    and np.array_equal(rows[:, 1], into.src_token[expert, :count])
                    and np.all(rows[:, 2] == number % 64)):
                raise Wrong(f"{self.name}: operation {number}: other rows than were sent: {rows}")
            self.rows_checked += int(count)

    # --- coming and going ---

    def open(self, founders: list[int]) -> bool:
        draw, party = self.draw, self.party
        rank = self.call("open", ep.Rank, party.store, rank=self.index, founders=founders, mode=party.mode,
                         join_only=not founders, timeout=10 if founders else draw.choice([0.0, 0.003, 10, 10]),
                         may=(DeadlineError, ExistsError, BusyError, ClosedError), **SIZES)
        if rank is None:
            return False
        self.rank = rank
        self.into = rank.receive(rows=4 * SIZES["max_tokens"])
        party.ranks[self.index] = rank
        return True

    def come(self) -> bool:
        """Whether the rank has become active, by calls that it makes until one has enough time."""
        rank, draw = self.rank, self.draw
        limit = time.monotonic() + draw.choice([0.0, 0.02, 5.0, 5.0])
        may = (DeadlineError, ConflictError, PeerLostError, NotFoundError, *OUT)
        while not self.party.over:
            if self.call("activate", rank.activate, self.some_time(), may=may) is None and rank.active:
                return True
            if time.monotonic() > limit or rank.closed:
                return False
        return False

    def visit(self) -> None:
        """One rank, from its opening to one of its ends."""
        draw = self.draw
        try:
            if not self.open([]) or not self.come():
                return
            self.visits += 1
            for _ in range(draw.randrange(12)):
                self.operate()
            if draw.random() < 0.6:
                while self.rank.active and not self.party.over:
                    self.call("disconnect", self.rank.disconnect, [self.index], self.some_time(),
                              may=(DeadlineError, ConflictError, NotFoundError, *OUT))
                    self.operate()
        except (Gone, *ENDED):
            pass
        finally:
            self.end()

    def end(self) -> None:
        """One of the ways to lose a rank."""
        self.party.ranks[self.index] = None
        if not hasattr(self, "rank"):
            return
        way = self.draw.randrange(3)
        if way == 0:
            self.call("close", self.rank.close, may=(BusyError,))
        elif way == 1:
            try:
                with self.rank:
                    raise ZeroDivisionError
            except ZeroDivisionError:
                pass
        del self.rank
        self.into = None
        if way == 2 and self.draw.random() < 0.5:
            gc.collect()

    def come_and_go(self) -> None:
        """The thread of a visitor."""
        while not self.party.over:
            self.visit()

    # --- what belongs to others ---

    def meddle(self) -> None:
        """The thread that calls, interrupts and closes the ranks of others."""
        while not self.party.over:
            time.sleep(self.draw.uniform(0, 0.005))
            rank = self.draw.choice(self.party.ranks)
            if rank is not None:
                self.meddle_with(rank)

    def meddle_with(self, rank: ep.Rank) -> None:
        """One call, whatever the rank is doing."""
        draw = self.draw
        draw.choice([
            lambda: self.call("interrupt", rank.interrupt, may=ENDED),
            lambda: self.call("interrupt", rank.interrupt, may=ENDED),
            lambda: self.call("next_event", rank.next_event, may=ENDED),
            lambda: self.call("stats", lambda: rank.stats, may=ENDED),
            lambda: self.call("states", lambda: rank.states, may=ENDED),
            lambda: self.call("masks", rank.masks, np.zeros(4, np.int32), may=ENDED),
            lambda: self.call("metrics", rank.metrics, may=ENDED),
            lambda: self.call("committed_view", lambda: rank.committed_view, may=ENDED),
            lambda: self.call("peer_stats", rank.peer_stats, 1, may=(NotFoundError, *ENDED)),
            lambda: self.call("finish", rank.finish, 2**40, may=(InvalidError, *ENDED)),
            lambda: self.call("repr", repr, rank, may=ENDED),
            lambda: self.call("fileno", rank.fileno, may=ENDED)])()
        if rank is not self.party.ranks[0] and draw.random() < 0.05:
            self.call("close", rank.close, may=(BusyError,))
