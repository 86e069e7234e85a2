"""The high-throughput calls of `deep_ep` and `nixl_ep`, of `ElasticBuffer` and of `HybridEPBuffer`: ranks as processes
on CPU tensors, and on GPUs where there are two, against a plain reference."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from ep_world import World, run  # noqa: E402


@pytest.mark.parametrize(("what", "ranks"), [("values", 3), ("codes", 3), ("without_topk", 3), ("training", 2),
                                             ("operations", 2), ("mistakes", 2), ("disagree", 2),
                                             ("room", 2)])
def test_buffer(what: str, ranks: int, device: str) -> None:
    run("ep_throughput_ranks", what, ranks, device=device)


def test_killed_rank(device: str) -> None:
    last = 2 if device == "cpu" else 1
    world = World("ep_throughput_ranks", last + 1, device)
    try:
        for rank in range(last + 1):
            world.start("killed", rank)
        world.end(last, -9)
        world.end_all()
    finally:
        world.close()


@pytest.mark.parametrize(("what", "ranks"), [("tokens", 3), ("selections", 3), ("codes", 3), ("references", 3),
                                             ("deferred", 2), ("operations", 2), ("mistakes", 2)])
def test_elastic_buffer(what: str, ranks: int, device: str) -> None:
    run("ep_elastic_ranks", what, ranks, device=device)


@pytest.mark.parametrize(("what", "ranks"), [("tokens", 3), ("permutes", 3), ("training", 2), ("mistakes", 2)])
def test_hybrid_ep_buffer(what: str, ranks: int, device: str) -> None:
    run("ep_hybrid_ranks", what, ranks, device=device)


@pytest.mark.parametrize("what", ["join", "room"])
def test_nixl_ep(what: str) -> None:
    run("ep_nixl_many_ranks", what, 3)
