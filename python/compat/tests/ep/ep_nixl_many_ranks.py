"""What the ranks of test_throughput.py do with the high-throughput calls of nixl_ep.Buffer."""

from __future__ import annotations

from typing import Any

import torch
import weft
from ep_reference import check_sums, refused, tokens_of
from ep_throughput_ranks import E, H, K, expected, ranks_of
from ep_world import wait_for

import nixl_ep

CAPACITY = 3


class Rank:
    """A buffer for high throughput, with the tokens of all ranks."""

    def __init__(self, rank: int, store: Any, more: int = 0) -> None:
        """more: of the tokens of rank 1."""
        self.rank = rank
        self.buffer = nixl_ep.Buffer(rank=rank, explicitly_destroy=True, low_latency_mode=False, tcp_store_group=store)
        self.buffer.update_memory_buffers(CAPACITY, E)
        self.inputs = [tokens_of(r, CAPACITY, tokens=50 + r + more * (r == 1), hidden=H, topk=K, experts=E * CAPACITY)
                       for r in range(CAPACITY)]

    def operate(self, there: list[int], masked: tuple[int, ...] = ()) -> tuple[torch.Tensor, Any]:
        """A dispatch and a combine of the ranks that are there, of which this one has masked some."""
        x, idx, weights = self.inputs[self.rank]
        inputs = [one if r in there else (one[0][:0], one[1][:0], one[2][:0]) for r, one in enumerate(self.inputs)]
        rows, local, of_rows, ends = expected(inputs, self.rank)
        per_rank, none, per_expert, in_rank, _ = self.buffer.get_dispatch_layout(idx, E * CAPACITY)
        received, got_idx, got_weights, counts, handle, event = self.buffer.dispatch(
            x, num_tokens_per_rank=per_rank, num_tokens_per_rdma_rank=none, is_token_in_rank=in_rank,
            num_tokens_per_expert=per_expert, topk_idx=idx, topk_weights=weights, async_finish=True)
        event.current_stream_wait()
        if not masked:
            assert torch.equal(received, rows) and torch.equal(got_idx, local) and torch.equal(got_weights, of_rows)
            assert counts == [int((local == e).sum()) for e in range(E)] and len(handle) == 10
            assert handle[-4].tolist() == ends
        sums, of_tokens, _ = self.buffer.combine(received, handle, topk_weights=got_weights, bias=x)
        goes = ranks_of(idx, CAPACITY)
        goes[:, [r for r in range(CAPACITY) if r not in there or r in masked]] = False
        check_sums(sums, x.double() * (goes.sum(1, keepdim=True) + 1), 0.01)
        came = (idx >= 0) & goes.gather(1, (idx // E).clamp(min=0))
        assert torch.equal(of_tokens, weights.masked_fill(~came, 0))
        return received, handle


def join(rank: int, ranks: int, store: Any) -> None:
    """Two ranks, then three; a handle of before is refused; a masked rank gets nothing of whoever masks it."""
    me = Rank(rank, store)
    if rank < 2:
        me.buffer.connect_ranks([0, 1])
        received, handle = me.operate([0, 1])
        again = me.buffer.ht_dispatch(me.inputs[rank][0], handle=handle)
        assert torch.equal(again[0], received) and again[1:5] == (None, None, None, None)
    me.buffer.connect_ranks([0, 1, 2])
    if rank < 2:
        refused(weft.errors.ConflictError, "joined", lambda: me.buffer.ht_dispatch(me.inputs[rank][0], handle=handle))
    me.operate([0, 1, 2])
    if rank == 0:
        me.buffer.update_mask_buffer(1, mask=True)
    me.operate([0, 1, 2], masked=(1,) if rank == 0 else (-1,))
    me.buffer.clean_mask_buffer()
    me.operate([0, 1, 2])
    x, idx, _ = me.inputs[rank]
    refused(RuntimeError, "high throughput", lambda: me.buffer.low_latency_dispatch(x, idx, 64, E * CAPACITY))
    refused(ValueError, "update_memory_buffers said", lambda: me.buffer.ht_dispatch(
        x, topk_idx=idx, is_token_in_rank=idx, num_tokens_per_expert=torch.zeros(CAPACITY)))
    me.buffer.barrier()
    me.buffer.destroy()


def room(rank: int, ranks: int, store: Any) -> None:
    """The first dispatch determines the room of the group; a rank that joins later has the same. Calls that come too
    early say which ones come first."""
    me = Rank(rank, store, more=9000)
    x, idx, _ = me.inputs[rank]
    layout = {"is_token_in_rank": ranks_of(idx, CAPACITY), "num_tokens_per_expert": torch.zeros(E * CAPACITY)}
    early = nixl_ep.Buffer(rank=rank, low_latency_mode=False, tcp_store_group=store)
    refused(RuntimeError, "update_memory_buffers first", lambda: early.get_dispatch_layout(idx, E * CAPACITY))
    refused(RuntimeError, "update_memory_buffers first", lambda: early.ht_dispatch(x, topk_idx=idx, **layout))
    refused(RuntimeError, "connect_ranks first", lambda: me.buffer.ht_dispatch(x, topk_idx=idx, **layout))
    if rank < 2:
        me.buffer.connect_ranks([0, 1])
        me.operate([0, 1])
        store.set(f"operated/{rank}", "")
    else:  # it joins between two steps
        wait_for(store, "operated/0")
        wait_for(store, "operated/1")
    me.buffer.connect_ranks([0, 1, 2])
    me.operate([0, 1, 2])
    tokens = 16385
    many, experts = torch.zeros((tokens, H), dtype=torch.bfloat16), torch.zeros((tokens, K), dtype=torch.int64)
    refused(ValueError, "room for 16384 of a rank", lambda: me.buffer.ht_dispatch(
        many, topk_idx=experts, is_token_in_rank=ranks_of(experts, CAPACITY),
        num_tokens_per_expert=torch.zeros(E * CAPACITY)))
    me.buffer.barrier()
    me.buffer.destroy()
