"""Other threads of Python run while a call waits, and while it moves many bytes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any, Callable

import pytest

import weft
from weft import ep, store

SIZES: dict[str, Any] = {"hidden": 128, "topk": 2, "experts_per_rank": 2, "max_tokens": 4, "capacity": 2}
WAIT = 0.3


class World:
    """Objects whose calls can wait."""

    def __init__(self) -> None:
        self.store = weft.Store.local()
        self.agents = [weft.Agent(name, store=self.store, transports="shm", progress=progress, token="secret")
                       for name, progress in (("a", "thread"), ("b", "none"))]
        self.rank = ep.Rank(self.store, rank=0, founders=[0, 1], op_timeout=WAIT, **SIZES)
        self.watch = self.store.watch("/nobody-writes-here/")
        begun = self.watch.next(5)
        assert begun is not None and begun.kind == store.EventKind.RESUMED  # Every watch begins so.


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    for thing in (made.watch, made.rank, *made.agents, made.store):
        thing.close()


WAITS: dict[str, Callable[[World], object]] = {
    "wait_news": lambda world: world.agents[0].wait_news(WAIT),
    "wait_news, driven": lambda world: world.agents[1].wait_news(WAIT),
    "fetch": lambda world: world.agents[0].fetch("nobody", timeout=WAIT),
    "activate": lambda world: world.rank.activate(WAIT),
    "connect": lambda world: world.rank.connect([1], WAIT),
    "watch": lambda world: world.watch.next(WAIT),
    "open": lambda world: ep.Rank(world.store, rank=0, timeout=WAIT, **SIZES),
}


def longest_silence(call: Callable[[], object]) -> tuple[float, int]:
    """How long, at most, this thread did not run while `call` ran in another one; and how often it did."""
    over = threading.Event()

    def run() -> None:
        try:
            call()
        except weft.Error:
            pass
        finally:
            over.set()

    thread = threading.Thread(target=run)
    longest, turns, last = 0.0, 0, time.monotonic()
    thread.start()
    while not over.is_set():
        time.sleep(0.001)
        now = time.monotonic()
        longest, last, turns = max(longest, now - last), now, turns + 1
    thread.join()
    return longest, turns


@pytest.mark.parametrize("wait", WAITS)
def test_others_run_during_a_wait(world: World, wait: str) -> None:
    begun = time.monotonic()
    _, turns = longest_silence(lambda: WAITS[wait](world))
    assert time.monotonic() - begun > WAIT / 2, "the call did not wait"
    assert turns > 10


