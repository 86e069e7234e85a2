"""`deep_ep`, low latency: ranks as processes on CPU tensors, against a plain reference."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from ep_world import World, run  # noqa: E402


@pytest.mark.parametrize(("what", "ranks"), [("values", 3), ("two_handles", 3), ("casts", 2), ("few_tokens", 2),
                                             ("mistakes", 2), ("communicator", 2)])
def test_ranks(what: str, ranks: int) -> None:
    run("ep_deep_ranks", what, ranks)


def test_masks_and_a_killed_rank() -> None:
    world = World("ep_deep_ranks", 3)
    try:
        for rank in range(3):
            world.start("masks", rank)
        for rank in (2, 0, 1):
            world.end(rank, -9 if rank == 2 else 0)
    finally:
        world.close()
