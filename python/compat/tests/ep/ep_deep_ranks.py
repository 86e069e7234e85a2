"""What the ranks of test_deep_ep.py do."""

from __future__ import annotations

import copy
import os
import pickle
import signal
from typing import Any

import torch
import torch.distributed as dist
from ep_reference import check_received, check_sums, outputs, refused, sums, tokens_of
from ep_world import join, wait_for

import deep_ep
from deep_ep.utils.math import calc_diff, per_token_cast_back, per_token_cast_to_fp8
from weft_compat_ep._receive_sets import STORAGE_COUNT

T, H, K, E = 24, 512, 4, 3


def begin(rank: int, ranks: int, store: Any, **options: Any) -> tuple[deep_ep.Buffer, list[Any]]:
    """A buffer, and the tokens of all ranks."""
    join(rank, ranks, store)
    hint = deep_ep.Buffer.get_low_latency_rdma_size_hint(T, H, ranks, E * ranks)
    buffer = deep_ep.Buffer(dist.group.WORLD, num_rdma_bytes=hint, low_latency_mode=True, num_qps_per_rank=E,
                            explicitly_destroy=True, **options)
    return buffer, inputs_of(ranks)


def inputs_of(ranks: int, seed: int = 0, drop: bool = True) -> list[Any]:
    """The tokens of all ranks; the last has fewer than the others."""
    return [tokens_of(r, ranks, tokens=T if r + 1 < ranks else T - 5, hidden=H, topk=K, experts=E * ranks, seed=seed,
                      drop=drop) for r in range(ranks)]


def finish(buffer: deep_ep.Buffer) -> None:
    """All leave together."""
    dist.barrier()
    buffer.destroy()
    dist.destroy_process_group()


def values(rank: int, ranks: int, store: Any) -> None:
    """Each form of a dispatch and of a combine, with hooks and without: every row, count and sum."""
    buffer, _ = begin(rank, ranks, store)
    forms = [(False, False, False), (True, False, False), (True, True, False), (True, True, True)]
    for number, (fp8, rounded, ue8m0) in enumerate(forms):
        for hooked in (False, True):
            inputs = inputs_of(ranks, seed=number + 1)
            x, topk_idx, weights = inputs[rank]
            total = torch.full((E,), 7, dtype=torch.int32)
            waits = torch.zeros(ranks, dtype=torch.int64)
            received, counts, handle, event, hook = buffer.low_latency_dispatch(
                x, topk_idx, T, E * ranks, use_fp8=fp8, round_scale=rounded, use_ue8m0=ue8m0, async_finish=not hooked,
                return_recv_hook=hooked, cumulative_local_expert_recv_stats=total, dispatch_wait_recv_cost_stats=waits)
            hook() if hooked else event.current_stream_wait()
            plain = check_form(received, fp8, ue8m0, ranks)
            check_received(inputs, rank, plain, counts, handle, E, exact=not fp8)
            assert torch.equal(total, 7 + counts) and int(waits.sum()) >= 0
            y = outputs(plain, counts, rank, E)
            out, event, hook = buffer.low_latency_combine(y, topk_idx, weights, handle, return_recv_hook=hooked)
            if hooked:
                hook()
            check_sums(out, sums(x, topk_idx, weights, E), 0.07 if fp8 else 0.01)
    finish(buffer)


def check_form(received: Any, fp8: bool, ue8m0: bool, ranks: int) -> torch.Tensor:
    """The types, shapes and strides of what was received; the rows as bf16."""
    if not fp8:
        assert received.dtype == torch.bfloat16 and received.shape == (E, ranks * T, H)
        return received
    values, scales = received
    rows, words = ranks * T, H // 512 if ue8m0 else H // 128
    assert values.dtype == torch.float8_e4m3fn and values.shape == (E, rows, H)
    assert scales.dtype == (torch.int32 if ue8m0 else torch.float32)
    assert scales.shape == (E, rows, words) and scales.stride() == (words * rows, 1, rows)
    return torch.stack([per_token_cast_back(values[e], scales[e]) for e in range(E)])


def casts(rank: int, ranks: int, store: Any) -> None:
    """fp8 rows are bit by bit those of the plain cast, with each form of scales. The plain cast is made on the host: on
    a GPU torch divides by a number through its reciprocal, which rounds twice."""
    buffer, _ = begin(rank, ranks, store)
    inputs = inputs_of(ranks, drop=False)
    for rounded, ue8m0 in ((False, False), (True, False), (True, True)):
        x, topk_idx, weights = inputs[rank]
        (values, scales), _, handle, _, _ = buffer.low_latency_dispatch(
            x, topk_idx, T, E * ranks, round_scale=rounded, use_ue8m0=ue8m0)
        for expert in range(E):
            for source in range(ranks):
                begin_, count = int(handle[1][expert, source]) >> 32, int(handle[1][expert, source]) & 0xFFFFFFFF
                tokens = handle[0][expert, begin_ : begin_ + count].long()
                want, factors = per_token_cast_to_fp8(inputs[source][0][tokens].cpu(), rounded, ue8m0)
                got = values[expert, begin_ : begin_ + count].cpu()
                assert torch.equal(scales[expert, begin_ : begin_ + count].cpu(), factors)
                assert torch.equal(got.view(torch.uint8), want.view(torch.uint8))
        buffer.low_latency_combine(torch.zeros((E, ranks * T, H), dtype=torch.bfloat16), topk_idx, weights, handle)
    finish(buffer)


def two_handles(rank: int, ranks: int, store: Any) -> None:
    """Two operations open at once, combined in either order; one that is never combined; one combined three times."""
    buffer, _ = begin(rank, ranks, store)
    both = [inputs_of(ranks, seed=5), inputs_of(ranks, seed=6)]

    def dispatch(which: int, hooked: bool) -> Any:
        x, topk_idx, _ = both[which][rank]
        return buffer.low_latency_dispatch(x, topk_idx, T, E * ranks, use_fp8=False, return_recv_hook=hooked)

    def combine(which: int, got: Any, **options: Any) -> None:
        x, topk_idx, weights = both[which][rank]
        recv_x, counts, handle = got[:3]
        y = outputs(recv_x, counts, rank, E)
        if options.get("zero_copy"):
            buffer.get_next_low_latency_combine_buffer(handle)[:] = y
            y = torch.full_like(y, float("nan"))  # what counts is the buffer
        out = torch.empty((x.shape[0], H), dtype=torch.bfloat16)
        got_out, _, _ = buffer.low_latency_combine(y, topk_idx, weights, handle, out=out, **options)
        assert got_out is out
        check_sums(out, sums(x, topk_idx, weights, E), 0.03 if options.get("use_logfmt") else 0.01)

    for order in ((0, 1), (1, 0)):
        for hooked in (False, True):
            got = [dispatch(which, hooked) for which in (0, 1)]
            for which in (0, 1):
                if hooked:
                    got[which][4]()
                check_received(both[which], rank, got[which][0], got[which][1], got[which][2], E)
            for which in order:
                combine(which, got[which])
    dispatch(0, False)  # which nobody combines
    got = [None, dispatch(1, False)]
    combine(1, got[1], zero_copy=True)
    combine(1, got[1])
    combine(1, got[1], use_logfmt=True)
    combine(0, dispatch(0, False), use_logfmt=True)
    combine(1, dispatch(1, False))
    engine = next(iter(buffer._engines.values()))
    assert (engine.before.ended, engine.newest.ended) == (True, True)  # what was not combined has no echo
    finish(buffer)


def results(rank: int, ranks: int, store: Any) -> None:
    """Results that a program keeps, in whichever form, stay as they are while it goes on; those that it has dropped
    cost no new tensors."""
    buffer, _ = begin(rank, ranks, store)
    forms: list[Any] = [lambda tensor: tensor, lambda tensor: tensor.view(-1), lambda tensor: tensor.detach()[:1],
                        lambda tensor: torch.from_dlpack(tensor), lambda tensor: [tensor.unsqueeze(0)]]
    kept: list[Any] = []
    for number in range(4 * len(forms)):
        inputs, hooked = inputs_of(ranks, seed=number), number % 2 == 1
        x, topk_idx, weights = inputs[rank]
        recv_x, counts, handle, _, hook = buffer.low_latency_dispatch(x, topk_idx, T, E * ranks, use_fp8=False,
                                                                      return_recv_hook=hooked)
        if hook is not None:
            hook()
        check_received(inputs, rank, recv_x, counts, handle, E)
        out, _, _ = buffer.low_latency_combine(outputs(recv_x, counts, rank, E), topk_idx, weights, handle)
        check_sums(out, sums(x, topk_idx, weights, E), 0.01)
        if number % 4 == 0:
            form = forms[number // 4]
            kept += [(have, copy.deepcopy(have)) for have in map(form, (recv_x, counts, handle[0], handle[1]))]
        del recv_x, counts, handle, hook
    for have, copied in kept:  # as bytes: what no row was written to may be no number
        one, other = (each[0] if isinstance(each, list) else each for each in (have, copied))
        assert torch.equal(one.view(torch.uint8), other.view(torch.uint8))
    del one, other, have, copied, form
    (sets,) = next(iter(buffer._engines.values())).sets.values()
    made = sets.made
    kept.clear()
    x, topk_idx, weights = inputs_of(ranks)[rank]
    for _ in range(10):
        recv_x, _, handle, _, _ = buffer.low_latency_dispatch(x, topk_idx, T, E * ranks, use_fp8=False)
        buffer.low_latency_combine(recv_x, topk_idx, weights, handle)
    assert STORAGE_COUNT == 0 or sets.made <= made + 2, "tensors are made although nobody has those that there are"
    finish(buffer)


def few_tokens(rank: int, ranks: int, store: Any) -> None:
    """A rank without tokens, tokens without experts, and operations of other sizes in the same buffer."""
    buffer, _ = begin(rank, ranks, store)
    for tokens, hidden, topk in ((0, H, K), (1, 128, 1), (T, H, K)):
        inputs = [tokens_of(r, ranks, tokens=tokens if r else 3, hidden=hidden, topk=topk, experts=E * ranks)
                  for r in range(ranks)]
        x, topk_idx, weights = inputs[rank]
        if rank == 1:
            topk_idx.fill_(-1)
        if ranks > 1:
            inputs[1][1].fill_(-1)
        recv_x, counts, handle, _, _ = buffer.low_latency_dispatch(x, topk_idx, T, E * ranks, use_fp8=False)
        check_received(inputs, rank, recv_x, counts, handle, E)
        out, _, _ = buffer.low_latency_combine(outputs(recv_x, counts, rank, E), topk_idx, weights, handle)
        check_sums(out, sums(x, topk_idx, weights, E), 0.01)
    finish(buffer)


def masks(rank: int, ranks: int, store: Any) -> None:
    """A masked rank gets nothing and gives nothing; then a rank is killed, and the others go on and know it."""
    buffer, inputs = begin(rank, ranks, store, enable_shrink=True)
    status = torch.full((ranks,), 9, dtype=torch.int32)
    buffer.low_latency_query_mask_buffer(status)
    assert status.tolist() == [0] * ranks
    x, topk_idx, weights = inputs[rank]

    def operate(gone: frozenset[int]) -> None:
        recv_x, counts, handle, _, _ = buffer.low_latency_dispatch(x, topk_idx, T, E * ranks, use_fp8=False)
        if rank not in gone:
            check_received(inputs, rank, recv_x, counts, handle, E, gone)
        out, _, _ = buffer.low_latency_combine(outputs(recv_x, counts, rank, E), topk_idx, weights, handle)
        check_sums(out, sums(x, topk_idx, weights, E, gone), 0.01)

    operate(frozenset())
    buffer.low_latency_update_mask_buffer(1, True)
    buffer.low_latency_query_mask_buffer(status)
    assert status.tolist() == [int(r == 1) for r in range(ranks)]
    recv_x, counts, handle, _, _ = buffer.low_latency_dispatch(x, topk_idx, T, E * ranks, use_fp8=False)
    if rank == 1:
        assert int(counts.sum()) == 0
    out, _, _ = buffer.low_latency_combine(outputs(recv_x, counts, rank, E), topk_idx, weights, handle)
    check_sums(out, sums(x, topk_idx, weights, E, frozenset({1})), 0.01)
    buffer.low_latency_clean_mask_buffer()
    operate(frozenset())
    dist.barrier()
    last = ranks - 1
    if rank == last:
        os.kill(os.getpid(), signal.SIGKILL)
    for _ in range(50):
        recv_x, counts, handle, _, _ = buffer.low_latency_dispatch(x, topk_idx, T, E * ranks, use_fp8=False)
        buffer.low_latency_combine(torch.zeros_like(recv_x), topk_idx, weights, handle)
        buffer.low_latency_query_mask_buffer(status)
        if status[last] == 1:
            break
    assert status.tolist() == [int(r == last) for r in range(ranks)]
    operate(frozenset({last}))
    store.set(f"over/{rank}", "1")
    for other in range(last):
        wait_for(store, f"over/{other}")
    buffer.destroy()
    os._exit(0)  # gloo would wait for the rank that was killed


def mistakes(rank: int, ranks: int, store: Any) -> None:
    """Wrong arguments are exceptions that name them."""
    buffer, inputs = begin(rank, ranks, store)
    x, topk_idx, weights = inputs[rank]

    def dispatch(**changed: Any) -> Any:
        given: dict[str, Any] = {"x": x, "topk_idx": topk_idx, "num_max_dispatch_tokens_per_rank": T,
                                 "num_experts": E * ranks, "use_fp8": False}
        return buffer.low_latency_dispatch(**{**given, **changed})

    refused(ValueError, "num_experts", lambda: dispatch(num_experts=E * ranks + 1))
    refused(ValueError, "x [", lambda: dispatch(x=x[0]))
    for _ in range(2):  # the second time after a dispatch of this size
        for name in ("x", "topk_idx"):
            refused(TypeError, f"{name}: a tensor is wanted, not None", lambda name=name: dispatch(**{name: None}))
        refused(TypeError, "num_experts: a whole number", lambda: dispatch(num_experts=[E * ranks]))
        refused(TypeError, "topk_idx: a tensor", lambda: buffer.get_dispatch_layout([[0, 1]], E * ranks))
        dispatch()
    recv_x, counts, handle, _, _ = dispatch()
    y = torch.zeros_like(recv_x)
    refused(ValueError, "round_scale", lambda: dispatch(use_fp8=True, use_ue8m0=True))
    refused(TypeError, "x: bf16", lambda: dispatch(x=x.half()))
    refused(TypeError, "topk_idx", lambda: dispatch(topk_idx=topk_idx.float()))
    refused(TypeError, "handle", lambda: buffer.low_latency_combine(y, topk_idx, weights, tuple(handle)))
    refused(ValueError, "topk_weights", lambda: buffer.low_latency_combine(y, topk_idx, weights[:, :1], handle))
    refused(ValueError, "x: a tensor", lambda: buffer.low_latency_combine(y[:1], topk_idx, weights, handle))
    refused(NotImplementedError, "combine_wait", lambda: buffer.low_latency_combine(
        y, topk_idx, weights, handle, combine_wait_recv_cost_stats=counts))
    refused(RuntimeError, "enable_shrink", lambda: buffer.low_latency_update_mask_buffer(0, True))
    for wrong in ({"offset": 1 << 40}, {"offset": -1}, {"size": torch.Size([1 << 40])}):
        refused(ValueError, "get_local_buffer_tensor", lambda wrong=wrong: buffer.get_local_buffer_tensor(
            torch.int8, **wrong))
    out, _, _ = buffer.low_latency_combine(outputs(recv_x, counts, rank, E), topk_idx, weights, handle)
    check_sums(out, sums(x, topk_idx, weights, E), 0.01)  # none of it has done harm
    assert calc_diff(out, sums(x, topk_idx, weights, E)) < 1e-4
    finish(buffer)
    refused(RuntimeError, "destroyed", dispatch)


class Comm:
    """What is used here of a communicator of mpi4py."""

    def __init__(self, rank: int, ranks: int, store: Any) -> None:
        self.rank, self.ranks, self.store, self.turn = rank, ranks, store, 0

    def Get_rank(self) -> int:
        return self.rank

    def Get_size(self) -> int:
        return self.ranks

    def allgather(self, mine: Any) -> list[Any]:
        self.turn += 1
        self.store.set(f"comm/{self.turn}/{self.rank}", pickle.dumps(mine))
        return [pickle.loads(self.store.get(f"comm/{self.turn}/{rank}")) for rank in range(self.ranks)]


def communicator(rank: int, ranks: int, store: Any) -> None:
    """Ranks that know each other by a communicator, with a dispatch by int32."""
    comm = Comm(rank, ranks, store)
    buffer = deep_ep.Buffer(None, 0, 0, low_latency_mode=True, num_nvl_peers=ranks, comm=comm, explicitly_destroy=True)
    assert (buffer.rank, buffer.group_size) == (rank, ranks)
    inputs = inputs_of(ranks)
    x, topk_idx, weights = inputs[rank]
    recv_x, counts, handle, _, _ = buffer.low_latency_dispatch(x, topk_idx.int(), T, E * ranks, use_fp8=False)
    check_received(inputs, rank, recv_x, counts, handle, E)
    out, _, _ = buffer.low_latency_combine(outputs(recv_x, counts, rank, E), topk_idx, weights, handle)
    check_sums(out, sums(x, topk_idx, weights, E), 0.01)
    comm.allgather(None)
    buffer.destroy()
