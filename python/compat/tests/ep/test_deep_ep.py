"""`deep_ep`, low latency: ranks as processes on CPU tensors, and on GPUs where there are two, against a plain
reference."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from ep_world import World, run  # noqa: E402


@pytest.mark.parametrize(("what", "ranks"), [("values", 3), ("two_handles", 3), ("results", 2), ("casts", 2),
                                             ("few_tokens", 2), ("mistakes", 2), ("communicator", 2)])
def test_ranks(what: str, ranks: int, device: str) -> None:
    run("ep_deep_ranks", what, ranks, device=device)


def test_masks_and_a_killed_rank(device: str) -> None:
    last = 2 if device == "cpu" else 1
    world = World("ep_deep_ranks", last + 1, device)
    try:
        for rank in range(last + 1):
            world.start("masks", rank)
        world.end(last, -9)
        world.end_all()
    finally:
        world.close()
