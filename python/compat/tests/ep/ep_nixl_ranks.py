"""What the ranks of test_nixl_ep.py do."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import torch
from ep_reference import check_received, check_sums, outputs, sums, tokens_of
from ep_world import wait_for

import nixl_ep
from deep_ep.utils.math import calc_diff, per_token_cast_back

T, H, K, E = 16, 512, 3, 2
CAPACITY = 4


def plain_of(received: Any) -> torch.Tensor:
    """Rows of fp8 as bf16."""
    values, scales = received
    return torch.stack([per_token_cast_back(values[e], scales[e]) for e in range(E)])


class Rank:
    """A buffer, with the tokens of all ranks of a phase."""

    def __init__(self, rank: int, store: Any, **options: Any) -> None:
        self.rank = rank
        options = {"tcp_store_group": store, "timeout_ms": 30000, **options}
        self.buffer = nixl_ep.Buffer(rank=rank, explicitly_destroy=True, **options)
        hint = nixl_ep.Buffer.get_rdma_size_hint(T, H, CAPACITY, E * CAPACITY)
        self.buffer.update_memory_buffers(num_ranks=CAPACITY, num_experts_per_rank=E, num_rdma_bytes=hint)

    def operate(self, ranks: set[int], seed: int, gone: frozenset[int] = frozenset(), fp8: bool = False) -> None:
        """One operation of exactly these ranks: every row and every sum."""
        inputs = [tokens_of(r, CAPACITY, tokens=T, hidden=H, topk=K, experts=E * CAPACITY, seed=seed)
                  for r in range(CAPACITY)]
        away = frozenset(range(CAPACITY)) - ranks | gone
        x, topk_idx, weights = inputs[self.rank]
        received, counts, handle, _, hook = self.buffer.dispatch(
            x, topk_idx, T, E * CAPACITY, use_fp8=fp8, return_recv_hook=True)
        hook()
        plain = plain_of(received) if fp8 else received
        check_received(inputs, self.rank, plain, counts, handle, E, away, exact=not fp8)
        out, _, hook = self.buffer.combine(outputs(plain, counts, self.rank, E), topk_idx, weights, handle,
                                           return_recv_hook=True)
        hook()
        check_sums(out, sums(x, topk_idx, weights, E, away), 0.07 if fp8 else 0.01)

    def masked(self) -> list[int]:
        """What query_mask_buffer tells."""
        status = torch.full((CAPACITY,), 9, dtype=torch.int32)
        self.buffer.query_mask_buffer(status)
        return status.tolist()


def join_and_leave(rank: int, ranks: int, store: Any, expected: str = "") -> None:
    """Ranks 0 and 1; 2 and 3 come, at once; 1 leaves; 1 comes back: the first operation after each has them all."""
    me = Rank(rank, store)
    if expected:  # a rank that comes back
        me.buffer.connect_ranks(range(CAPACITY))
        me.operate({0, 1, 2, 3}, 4)
        me.buffer.destroy()
        return
    if rank < 2:
        me.buffer.connect_ranks([0, 1])
        assert me.masked() == [0, 0, 1, 1]
        me.buffer.barrier()
        me.operate({0, 1}, 1)
        me.operate({0, 1}, 1, fp8=True)
        store.set(f"first/{rank}", "1")
        me.buffer.connect_ranks([2, 3])
    else:
        wait_for(store, "first/0")
        me.buffer.connect_ranks([0, 1, 2, 3])
    assert me.masked() == [0, 0, 0, 0]
    me.operate({0, 1, 2, 3}, 2)
    me.buffer.barrier()
    if rank == 1:
        me.buffer.destroy()
        store.set("left", "1")
        return
    me.buffer.disconnect_ranks([1])
    assert me.masked() == [0, 1, 0, 0]
    me.operate({0, 2, 3}, 3)
    me.operate({0, 2, 3}, 3, fp8=True)
    me.buffer.connect_ranks([1])
    me.operate({0, 1, 2, 3}, 4)
    me.buffer.destroy()


def grow_and_shrink(rank: int, ranks: int, store: Any) -> None:
    """A rank alone; one joins it in mid-run, and leaves."""
    me = Rank(rank, store)
    if rank == 0:
        me.buffer.connect_ranks([0])
        for seed in range(3):  # an odd number, which the joiner does not know
            me.operate({0}, seed)
        store.set("alone", "1")
    else:
        wait_for(store, "alone")
    me.buffer.connect_ranks([0, 1])
    for seed in range(3):
        me.operate({0, 1}, seed)
        me.operate({0, 1}, seed, fp8=True)
    me.buffer.barrier()
    if rank == 0:
        me.buffer.disconnect_ranks([1])
        assert me.masked() == [0, 1, 1, 1]
        me.operate({0}, 4)
    me.buffer.destroy()


def killed(rank: int, ranks: int, store: Any) -> None:
    """A rank dies in mid-operation: it is masked, is disconnected, and the others are right without it."""
    me = Rank(rank, store)
    me.buffer.connect_ranks(range(3))
    me.operate({0, 1, 2}, 1)
    me.buffer.barrier()
    inputs = [tokens_of(r, CAPACITY, tokens=T, hidden=H, topk=K, experts=E * CAPACITY, seed=2) for r in range(CAPACITY)]
    x, topk_idx, weights = inputs[rank]
    if rank == 2:
        me.buffer.low_latency_dispatch(x, topk_idx, T, use_fp8=False, return_recv_hook=True)
        os.kill(os.getpid(), signal.SIGKILL)
    for _ in range(3):  # as many on both: each may hear of the death in another one, and both have by the third
        recv_x, counts, handle, _, _ = me.buffer.low_latency_dispatch(x, topk_idx, T, use_fp8=False)
        out, _, _ = me.buffer.low_latency_combine(outputs(recv_x, counts, rank, E), topk_idx, weights, handle)
        assert not out.isnan().any()
    assert me.masked()[2] == 1
    me.buffer.disconnect_ranks([2])
    assert me.masked() == [0, 0, 1, 1]
    me.operate({0, 1}, 3)
    me.buffer.barrier()
    me.buffer.destroy()


def silent(rank: int, ranks: int, store: Any, half: str = "dispatch") -> None:
    """A rank lives on, but makes no call any more: it is lost after timeout_ms, and masked."""
    me = Rank(rank, store, timeout_ms=1000)
    me.buffer.connect_ranks(range(3))
    me.operate({0, 1, 2}, 1)
    inputs = [tokens_of(r, CAPACITY, tokens=T, hidden=H, topk=K, experts=E * CAPACITY, seed=2) for r in range(CAPACITY)]
    x, topk_idx, weights = inputs[rank]
    if rank < 2 or half == "combine":
        received, counts, handle, _, _ = me.buffer.dispatch(x, topk_idx, T, E * CAPACITY, use_fp8=False)
        check_received(inputs, rank, received, counts, handle, E, frozenset({2, 3} if half == "dispatch" else {3}))
    if rank == 2:
        wait_for(store, "lost/0")
        wait_for(store, "lost/1")
        return
    out, _, _ = me.buffer.combine(outputs(received, counts, rank, E), topk_idx, weights, handle)
    check_sums(out, sums(x, topk_idx, weights, E, frozenset({2, 3})), 0.01)
    assert me.masked() == [0, 0, 1, 1]
    me.operate({0, 1}, 3)
    me.buffer.barrier()
    store.set(f"lost/{rank}", "1")
    me.buffer.destroy()


def early(rank: int, ranks: int, store: Any) -> None:
    """A rank that joins has called connect_ranks before the first operation of the others, who know it only later."""
    me = Rank(rank, store)
    if rank < 2:
        me.buffer.connect_ranks([0, 1])
        until = time.monotonic() + 60
        while 2 not in me.buffer._meeting._records("paired"):
            assert time.monotonic() < until
            time.sleep(0.005)
        me.operate({0, 1}, 1)
    me.buffer.connect_ranks([0, 1, 2])
    me.operate({0, 1, 2}, 2)
    me.buffer.barrier()
    me.buffer.destroy()


def begin_in_two_stores(rank: int, store: Any) -> tuple[Rank, Any]:
    """(a rank, another TCPStore): ranks 0 and 1 have met and operated; the others know the other TCPStore alone."""
    import torch.distributed as dist

    second = dist.PrefixStore("second", store)
    me = Rank(rank, store if rank < 2 else second)
    if rank < 2:
        me.buffer.connect_ranks([0, 1])
        me.operate({0, 1}, 1)
    return me, second


def staged(rank: int, ranks: int, store: Any) -> None:
    """As vLLM grows a group: the new ranks look for it in another TCPStore from the beginning. Operations go on without
    them while they are masked, and take long until their first operation; the first operation after the others have
    unmasked them has them all. connect_ranks of the new ranks returns before that."""
    me, second = begin_in_two_stores(rank, store)
    if rank < 2:
        me.buffer.set_tcp_store_group(second)
        me.operate({0, 1}, 1)
        me.buffer.connect_ranks([2, 3], activate=False)
        assert me.masked() == [0, 0, 1, 1]
        me.operate({0, 1}, 2)
        for joiner in (2, 3):
            wait_for(store, f"connected/{joiner}")
        me.operate({0, 1}, 3)
        for mask in (False, True, False):
            me.buffer.update_mask_buffer(2, mask)
            assert me.masked() == [0, 0, int(mask), 1]
        me.buffer.update_mask_buffer(3, mask=False)
        store.set(f"unmasked/{rank}", "1")
    else:
        me.buffer.connect_ranks(range(4))
        store.set(f"connected/{rank}", "1")
        wait_for(store, "unmasked/0")
        wait_for(store, "unmasked/1")
    me.operate({0, 1, 2, 3}, 4)
    assert me.masked() == [0, 0, 0, 0]
    me.buffer.barrier()
    if rank < 2:
        me.buffer.disconnect_ranks([2, 3])
        me.operate({0, 1}, 5)
    me.buffer.destroy()


def staged_and_dropped(rank: int, ranks: int, store: Any) -> None:
    """A rank that is connected with activate=False, and never unmasked, is disconnected; then it is connected anew, and
    joins by a barrier."""
    me = Rank(rank, store)
    if rank < 2:
        me.buffer.connect_ranks([0, 1])
        me.operate({0, 1}, 1)
        me.buffer.connect_ranks([2], activate=False)
        store.set(f"invited/{rank}", "1")
        wait_for(store, "connected")
        me.buffer.disconnect_ranks([2])
        me.operate({0, 1}, 2)
        me.buffer.connect_ranks([2], activate=False)
        me.buffer.clean_mask_buffer()
    else:
        wait_for(store, "invited/0")
        wait_for(store, "invited/1")
        me.buffer.connect_ranks([0, 1])
        store.set("connected", "1")
    me.buffer.barrier()
    me.operate({0, 1, 2}, 3)
    me.buffer.destroy()


def before_the_first_operation(rank: int, ranks: int, store: Any) -> None:
    """Ranks 0 and 1 meet, then 2 and 3 come; 3 is removed and comes back, once as it is and once as a new buffer; 2 is
    replaced without destroy(), as after a crash. Nobody has had an operation: those that run have made more calls than
    those that come."""
    def new() -> Rank:
        return Rank(rank, store)

    me = new()
    if rank < 2:
        me.buffer.connect_ranks([0, 1])
        me.buffer.barrier()
        me.buffer.connect_ranks([2, 3])
    else:
        me.buffer.connect_ranks(range(4))
    me.buffer.connect_ranks([(rank + 1) % 4])  # is there already: nobody waits
    me.buffer.barrier()
    me.buffer.disconnect_ranks([3] if rank < 3 else [0, 1, 2])
    me.buffer.connect_ranks(range(4))
    me.buffer.barrier()
    if rank == 3:
        me.buffer.destroy()
        me = new()
    else:
        me.buffer.disconnect_ranks([3])
    me.buffer.connect_ranks(range(4))
    me.buffer.barrier()
    if rank == 2:
        crashed, me = me, new()
    else:
        me.buffer.disconnect_ranks([2])
    me.buffer.connect_ranks(range(4))
    me.buffer.barrier()
    assert not any(me.masked()[:4])
    me.operate({0, 1, 2, 3}, 1)
    me.buffer.barrier()
    me.buffer.destroy()
    if rank == 2:
        crashed.buffer.destroy()


def masks(rank: int, ranks: int, store: Any) -> None:
    """Masks before and after the first operation; activate=False; clean."""
    me = Rank(rank, store)
    other = 1 - rank
    me.buffer.connect_ranks([other], activate=False)
    assert me.masked() == [int(r != rank) for r in range(CAPACITY)]
    me.operate({rank}, 1)
    me.buffer.update_mask_buffer(other, mask=False)
    me.buffer.barrier()
    me.operate({0, 1}, 2)
    me.buffer.update_mask_buffer(other, True)
    assert me.masked() == [int(r != rank) for r in range(CAPACITY)]
    me.operate({rank}, 3)
    me.buffer.clean_mask_buffer()
    me.operate({0, 1}, 4)
    me.buffer.barrier()
    me.buffer.destroy()


def new_tcp_store(rank: int, ranks: int, store: Any) -> None:
    """A joiner that knows another TCPStore than the ranks that run: set_tcp_store_group tells it where they are."""
    me, second = begin_in_two_stores(rank, store)
    if rank < 2:
        me.buffer.set_tcp_store_group(second)
        me.buffer.connect_ranks([2])
        me.buffer.set_tcp_store_group(None)
    else:
        me.buffer.connect_ranks([0, 1, 2])
    me.operate({0, 1, 2}, 2)
    me.buffer.barrier()
    me.buffer.destroy()


def named_store(rank: int, ranks: int, store: Any) -> None:
    """Ranks that meet in the store that NIXL_ETCD_ENDPOINTS names, without a TCPStore."""
    me = Rank(rank, store, tcp_store_group=None)
    me.buffer.connect_ranks([0, 1])
    me.operate({0, 1}, 1)
    me.buffer.barrier()
    me.buffer.destroy()


def original_numbers(rank: int, ranks: int, store: Any) -> None:
    """The checks of the original's elastic test: constant rows whose last 128 columns are the token's index, some
    selections without expert, counts as gathered, and the sums within calc_diff's bounds."""
    me = Rank(rank, store)
    me.buffer.connect_ranks(range(ranks))
    x = torch.full((T, H), rank - 128.0).to(torch.bfloat16)
    x[:, -128:] = torch.arange(T).to(torch.bfloat16).view(-1, 1)
    for seed, (fp8, rounded) in enumerate(((False, False), (True, False), (True, True))):
        every = [tokens_of(r, ranks, tokens=T, hidden=H, topk=K, experts=E * ranks, seed=seed)[1:]
                 for r in range(ranks)]
        topk_idx, weights = every[rank]
        received, counts, handle, _, _ = me.buffer.dispatch(x, topk_idx, T, use_fp8=fp8, round_scale=rounded)
        gathered = torch.cat([one[0] for one in every])
        plain = plain_of(received) if fp8 else received
        for expert in range(E):
            count = int(counts[expert])
            assert count == int((gathered == rank * E + expert).sum())
            assert sum(int(packed) & 0xFFFFFFFF for packed in handle[1][expert]) == count
            rows = plain[expert, :count]
            assert torch.equal(rows[:, :-128].amax(1), rows[:, :-128].amin(1))
            if not rounded:
                assert torch.equal(rows[:, -1].round().int(), handle[0][expert, :count])
            for source in range(ranks):
                begin, size = int(handle[1][expert, source]) >> 32, int(handle[1][expert, source]) & 0xFFFFFFFF
                if not rounded:
                    assert (rows[begin : begin + size, 0] == source - 128).all()
        out, _, _ = me.buffer.combine(plain.contiguous(), topk_idx, weights, handle)
        assert not out.isnan().any()
        want = x * weights.masked_fill(topk_idx < 0, 0).sum(1, keepdim=True)
        assert calc_diff(want, out) < (9e-4 if rounded else 1e-5)
    me.buffer.barrier()
    me.buffer.destroy()
