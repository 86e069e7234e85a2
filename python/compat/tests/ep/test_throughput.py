"""The high-throughput calls of `deep_ep` and `nixl_ep`, and `ElasticBuffer`: ranks as processes on CPU tensors, against
a plain reference."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from ep_world import World, run  # noqa: E402


@pytest.mark.parametrize(("what", "ranks"), [("values", 3), ("without_topk", 3), ("training", 2), ("mistakes", 2),
                                             ("disagree", 2)])
def test_buffer(what: str, ranks: int) -> None:
    run("ep_throughput_ranks", what, ranks)


def test_killed_rank() -> None:
    world = World("ep_throughput_ranks", 3)
    try:
        for rank in range(3):
            world.start("killed", rank)
        for rank in (2, 0, 1):
            world.end(rank, -9 if rank == 2 else 0)
    finally:
        world.close()


@pytest.mark.parametrize(("what", "ranks"), [("tokens", 3), ("selections", 3), ("mistakes", 2)])
def test_elastic_buffer(what: str, ranks: int) -> None:
    run("ep_elastic_ranks", what, ranks)


def test_nixl_ep() -> None:
    run("ep_nixl_many_ranks", "join", 3)
