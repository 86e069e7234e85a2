"""What the rank of test_random_calls.py does: random calls of all buffers with right and wrong arguments."""

from __future__ import annotations

import inspect
import os
import random
import signal
from typing import Any

import torch
import torch.distributed as dist
import weft
from ep_world import join

import deep_ep
import nixl_ep

T, H, K, E = 8, 256, 2, 4
CALLS = int(os.environ.get("WEFT_CALLS", "500"))
ALLOWED = (weft.Error, TypeError, ValueError, OverflowError, RuntimeError, NotImplementedError, AssertionError)
"""RuntimeError and AssertionError are what the originals raise for most wrong arguments"""


def bf16(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.bfloat16)


class Draws:
    """Random arguments, right ones by their names, and any others."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.made: list[Any] = [None]

    def anything(self) -> Any:
        draw = self.draw
        return draw.choice([
            lambda: None, lambda: draw.choice([0, 1, -1, 7, 2**31, 2**63, 2**70, -(2**63)]), lambda: draw.random(),
            lambda: float("nan"), lambda: draw.choice(["", "cuda", "\0", "x" * 300]), lambda: b"bytes", object,
            lambda: [], lambda: [0], lambda: (), lambda: {}, lambda: True, lambda: torch.float32, lambda: torch.int64,
            lambda: bf16(T, H), lambda: bf16(0, H), lambda: bf16(H), lambda: bf16(T, H).t(), lambda: bf16(T, H)[::2],
            lambda: torch.zeros((T, K), dtype=torch.int64), lambda: torch.zeros((T, K), dtype=torch.int32),
            lambda: torch.full((T, K), draw.choice([-1, E, 10**9, -7])), lambda: torch.zeros(()),
            lambda: torch.zeros((T, K)), lambda: torch.zeros(E, dtype=torch.int32), lambda: torch.zeros(1, 2, 3, 4, 5),
            lambda: torch.zeros((T, H), dtype=torch.complex64), lambda: torch.zeros((T, H), requires_grad=True),
            lambda: torch.zeros((T, H), device="meta"), lambda: torch.zeros((T, H)).to_sparse(),
            lambda: (bf16(T, H), torch.zeros(T, H // 128)), lambda: draw.choice(self.made),
        ])()

    def right(self, name: str) -> Any:
        """What a parameter of this name may be."""
        draw = self.draw
        tokens = draw.choice([T, T, T, 0, 3])
        values: dict[str, Any] = {
            "x": lambda: bf16(tokens, H), "topk_idx": lambda: torch.randint(0, E, (T, K)),
            "topk_weights": lambda: torch.full((T, K), 0.5), "num_experts": lambda: E,
            "group": lambda: dist.group.WORLD,
            "num_max_dispatch_tokens_per_rank": lambda: T, "num_max_tokens_per_rank": lambda: T, "hidden": lambda: H,
            "num_topk": lambda: K, "num_ranks": lambda: 1, "handle": lambda: draw.choice(self.made),
            "rank_to_mask": lambda: 0, "mask_status": lambda: torch.zeros(1, dtype=torch.int32),
            "remote_ranks": lambda: [0], "new_num_sms": lambda: 20, "dtype": lambda: torch.bfloat16,
            "num_sms": lambda: 4, "cumulative_local_expert_recv_stats": lambda: torch.zeros(E, dtype=torch.int32),
            "num_tokens_per_rank": lambda: torch.tensor([T], dtype=torch.int32),
            "is_token_in_rank": lambda: torch.ones((T, 1), dtype=torch.bool),
            "num_tokens_per_expert": lambda: torch.full((E,), T * K // E, dtype=torch.int32),
            "num_experts_per_rank": lambda: E, "out": lambda: bf16(T, H), "bias": lambda: bf16(T, H),
        }
        return values.get(name, self.anything)()

    def arguments(self, call: Any) -> dict[str, Any]:
        """Arguments for a call: all that it requires, and some of the others."""
        given, wrong = {}, self.draw.choice([0.0, 0.0, 0.1, 0.5])
        for name, parameter in inspect.signature(call).parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            if parameter.default is not parameter.empty and self.draw.random() < 0.6:
                continue
            if isinstance(parameter.default, bool) and self.draw.random() < 0.8:
                given[name] = self.draw.random() < 0.5
            else:
                wild = name != "group" and self.draw.random() < wrong  # the methods of a group are used as they are
                given[name] = self.anything() if wild else self.right(name)
        return given

    def keep(self, result: Any) -> None:
        """Results, and what is in them, are later arguments; hooks and events are called."""
        for one in result if type(result) is tuple else (result,):
            if callable(one) and not isinstance(one, torch.Tensor) and self.draw.random() < 0.7:
                one()
            self.made = [*self.made[-12:], one]


def buffers_of(kind: str) -> Any:
    world = dist.group.WORLD
    if kind == "low latency":
        return deep_ep.Buffer(world, num_rdma_bytes=1 << 20, low_latency_mode=True, num_qps_per_rank=E,
                              explicitly_destroy=True, enable_shrink=True)
    if kind == "high throughput":
        return deep_ep.Buffer(world, num_nvl_bytes=1 << 20, explicitly_destroy=True)
    if kind == "elastic":
        return deep_ep.ElasticBuffer(world, num_max_tokens_per_rank=T, hidden=H, num_topk=K, explicitly_destroy=True)
    buffer = nixl_ep.Buffer(rank=0, group=world, explicitly_destroy=True, low_latency_mode=kind == "nixl_ep")
    buffer.update_memory_buffers(1, E, 1 << 20)
    buffer.connect_ranks([0])
    return buffer


def calls(rank: int, ranks: int, store: Any, kind: str, seed: str) -> None:
    """Random calls of one kind of buffer."""
    join(rank, ranks, store)
    draws = Draws(int(seed))
    buffer, done, last = buffers_of(kind), 0, ""
    names = [name for name, _ in inspect.getmembers(type(buffer), callable) if not name.startswith("_")
             and name != "destroy"]
    failed = 0
    for i in range(CALLS):
        name = draws.draw.choice(names)
        if draws.draw.random() < 0.5:
            name = draws.draw.choice([one for one in names if "dispatch" in one or "combine" in one])
        call = getattr(buffer, name)
        arguments = draws.arguments(call)
        last = f"call {i} of seed {seed}: {name}({', '.join(f'{key}={one!r:.60}' for key, one in arguments.items())})"
        signal.alarm(60)  # no call waits for a rank that does not exist
        try:
            draws.keep(call(**arguments))
            done += 1
        except ALLOWED:
            failed += 1
        except Exception as error:
            raise AssertionError(f"{last}: {type(error).__name__}: {error}") from error
    signal.alarm(0)
    print(kind, done, failed)
    assert done > CALLS / 50 and failed > CALLS / 50, (done, failed, last)
    buffer.destroy()
