"""`nixl_ep`: ranks as processes that join, leave, die and are masked, on CPU tensors, two of them also on GPUs."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import weft  # noqa: E402
from ep_world import World, run, wait_for  # noqa: E402

import nixl_ep  # noqa: E402


@pytest.mark.parametrize(("what", "ranks"), [("original_numbers", 3), ("new_tcp_store", 3)])
def test_ranks(what: str, ranks: int) -> None:
    run("ep_nixl_ranks", what, ranks)


@pytest.mark.parametrize("what", ["original_numbers", "masks", "grow_and_shrink"])
def test_two_ranks(what: str, device: str) -> None:
    run("ep_nixl_ranks", what, 2, device=device)


def test_ranks_join_leave_and_come_back() -> None:
    world = World("ep_nixl_ranks", 4)
    try:
        for rank in range(4):
            world.start("join_and_leave", rank)
        world.end(1)
        wait_for(world.store, "left")
        world.start("join_and_leave", 1, "again")
        world.end_all()
    finally:
        world.close()


def test_killed_rank() -> None:
    world = World("ep_nixl_ranks", 3)
    try:
        for rank in range(3):
            world.start("killed", rank)
        world.end(2, -9)
        world.end_all()
    finally:
        world.close()


@pytest.mark.parametrize("half", ["dispatch", "combine"])
def test_silent_rank(half: str) -> None:
    run("ep_nixl_ranks", "silent", 3, half)


@pytest.mark.parametrize(("what", "ranks"), [("staged", 4), ("staged_and_dropped", 3), ("early", 3)])
def test_ranks_that_join_later(what: str, ranks: int) -> None:
    run("ep_nixl_ranks", what, ranks)


def test_ranks_that_come_before_the_first_operation() -> None:
    run("ep_nixl_ranks", "before_the_first_operation", 4)


def test_store_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with weft.Server(insecure=True) as server:
        monkeypatch.setenv("NIXL_ETCD_ENDPOINTS", server.url)
        run("ep_nixl_ranks", "named_store", 2)


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="timeout_ms"):
        nixl_ep.Buffer(timeout_ms=0)
    buffer = nixl_ep.Buffer(rank=1)
    with pytest.raises(RuntimeError, match="update_memory_buffers"):
        buffer.connect_ranks([0])
    with pytest.raises(RuntimeError, match="dispatch: call update_memory_buffers first"):
        buffer.dispatch(torch.zeros((1, 128), dtype=torch.bfloat16), torch.zeros((1, 1), dtype=torch.int64), 4, 8)
    with pytest.raises(ValueError, match="below num_ranks"):
        buffer.update_memory_buffers(1, 2, 0)
    buffer.update_memory_buffers(4, 2, 0)
    with pytest.raises(ValueError, match="ranks are 0 to 3"):
        buffer.connect_ranks([4])
    with pytest.raises(RuntimeError, match="place to meet"):
        buffer.connect_ranks([0])
    with pytest.raises(ValueError, match="this rank"):
        buffer.disconnect_ranks([1])
    with pytest.raises(RuntimeError, match="connect_ranks first"):
        buffer.dispatch(torch.zeros((1, 128), dtype=torch.bfloat16), torch.zeros((1, 1), dtype=torch.int64), 4)
    with pytest.raises(RuntimeError, match="low_latency_mode=True"):
        buffer.ht_dispatch(torch.zeros((1, 128), dtype=torch.bfloat16), topk_idx=torch.zeros((1, 1), dtype=torch.int64),
                           is_token_in_rank=torch.zeros((1, 4)), num_tokens_per_expert=torch.zeros(8))
    buffer.destroy()
    buffer.destroy()
    for call in (lambda: buffer.connect_ranks([0]), buffer.barrier,
                 lambda: buffer.query_mask_buffer(torch.zeros(4, dtype=torch.int32))):
        with pytest.raises(RuntimeError, match="destroyed"):
            call()
