"""Agents in threads with deadlines that are too short, interrupted by signals, closed and dropped in any order."""

from __future__ import annotations

import contextlib
import random
import time

from actor import Actor, Stage
from patience import SECONDS, SEED, Tick, Wrong, others, run_together, ticking

import weft

ACTORS = 4


def interrupted(actor: Actor) -> None:
    """An actor on the main thread, whose calls signals end at any time."""
    with ticking(actor, random.Random(SEED)):
        while time.monotonic() < actor.stage.until:
            with contextlib.suppress(Tick):
                actor.life()
            with contextlib.suppress(Tick, AttributeError):
                actor.end()


def test_impatient_agents(store: weft.Store) -> None:
    stage = Stage(ACTORS, store, SECONDS)
    actors = [Actor(stage, i, SEED + i) for i in range(ACTORS)]
    run_together([actor.run for actor in actors], SECONDS)
    assert sum(actor.bytes_checked for actor in actors) > 0, f"WEFT_SEED={SEED}: nothing was written and read back"


def test_impatient_agents_and_signals(store: weft.Store) -> None:
    stage = Stage(ACTORS, store, SECONDS)
    actors = [Actor(stage, i, SEED + i) for i in range(ACTORS)]
    with others([actor.run for actor in actors[1:]], SECONDS):
        try:
            interrupted(actors[0])
        except Wrong as wrong:
            raise Wrong(f"WEFT_SEED={SEED}: {wrong}") from wrong
