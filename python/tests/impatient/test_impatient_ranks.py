"""Ranks in threads that come and go with deadlines that are too short, and are interrupted and closed by others."""

from __future__ import annotations

import contextlib
import random
import time

import pytest
from patience import SECONDS, SEED, Wrong, others, ticking
from visitor import Gone, Party, Visitor

import weft

RANKS = 4


@pytest.mark.parametrize("mode", ["latency", "throughput"])
@pytest.mark.parametrize("signals", [False, True], ids=["quiet", "signals"])
def test_impatient_ranks(store: weft.Store, mode: str, signals: bool) -> None:
    party = Party(RANKS, store, SECONDS / 2, mode)
    visitors = [Visitor(party, i, SEED + i) for i in range(RANKS)]
    meddler = Visitor(party, RANKS, SEED + RANKS)
    host = visitors[0]
    assert host.open([0])
    host.rank.activate()
    with others([one.come_and_go for one in visitors[1:]] + [meddler.meddle], SECONDS) as thread:
        try:
            with ticking(host, random.Random(SEED), 0.05) if signals else contextlib.nullcontext():
                while thread.is_alive():  # until the last visitor has ended: it may wait for this rank
                    party.over = party.over or time.monotonic() > party.until
                    host.operate()
        except (Wrong, Gone) as wrong:
            raise Wrong(f"WEFT_SEED={SEED}: {wrong!r}") from wrong
        finally:
            party.over = True
            host.end()
    assert host.operations > 0 and sum(one.visits for one in visitors) > 0, f"WEFT_SEED={SEED}"
