"""What operations have to give, computed plainly from the tokens of all ranks."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch.utils._python_dispatch import TorchDispatchMode


def tokens_of(rank: int, ranks: int, *, tokens: int, hidden: int, topk: int, experts: int, seed: int = 0,
              drop: bool = True) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """x, topk_idx (some -1) and topk_weights of a rank: every rank can make those of every other."""
    here: dict[str, Any] = {"generator": torch.Generator("cpu").manual_seed(1000 * seed + rank), "device": "cpu"}
    x = torch.randn((tokens, hidden), **here).to(torch.bfloat16)
    scores = torch.rand((tokens, experts), **here)
    topk_idx = scores.topk(topk, dim=1).indices.to(torch.int64)
    weights = torch.rand((tokens, topk), **here)
    if drop:
        topk_idx[torch.rand((tokens, topk), **here) < 0.1] = -1
    device = torch.get_default_device()
    return x.to(device), topk_idx.to(device), weights.to(device)


def check_received(inputs: list[Any], me: int, recv_x: torch.Tensor, counts: torch.Tensor, handle: Any,
                   experts_per_rank: int, gone: frozenset[int] = frozenset(), exact: bool = True) -> None:
    """Every row of every expert, in order: sources ascend, and so do their tokens."""
    src_info, ranges = handle[0], handle[1]
    for expert in range(experts_per_rank):
        mine = me * experts_per_rank + expert
        at = 0
        for source, (x, topk_idx, _) in enumerate(inputs):
            tokens = [] if source in gone else (topk_idx == mine).any(1).nonzero().flatten().tolist()
            packed = int(ranges[expert, source])
            assert packed & 0xFFFFFFFF == len(tokens), (expert, source)
            assert not tokens or packed >> 32 == at
            assert src_info[expert, at : at + len(tokens)].tolist() == tokens
            rows = recv_x[expert, at : at + len(tokens)].float()
            want = x[tokens].float()
            if exact:
                assert torch.equal(rows, want)
            else:
                most = float(want.abs().max()) if tokens else 0.0
                assert torch.allclose(rows, want, rtol=0.07, atol=2e-3 * (most + 1))
            at += len(tokens)
        assert int(counts[expert]) == at


def outputs(recv_x: torch.Tensor, counts: torch.Tensor, me: int, experts_per_rank: int) -> torch.Tensor:
    """What the experts make: a row times (1 + its expert / 16); rows that nobody sent are NaN."""
    y = torch.full(recv_x.shape, float("nan"), dtype=torch.bfloat16)
    for expert in range(experts_per_rank):
        count = int(counts[expert])
        y[expert, :count] = (recv_x[expert, :count].float() * (1 + (me * experts_per_rank + expert) / 16)).to(
            torch.bfloat16)
    return y


def sums(x: torch.Tensor, topk_idx: torch.Tensor, weights: torch.Tensor, experts_per_rank: int,
         gone: frozenset[int] = frozenset()) -> torch.Tensor:
    """The weighted sums that a combine has to give, in double."""
    keep = topk_idx >= 0
    for rank in gone:
        keep &= topk_idx // experts_per_rank != rank
    factor = (weights.double() * (1 + topk_idx.double() / 16)).masked_fill(~keep, 0).sum(1, keepdim=True)
    return x.double() * factor


def check_sums(out: torch.Tensor, want: torch.Tensor, bound: float) -> None:
    """That no value is NaN, and none further from what it has to be than a part of the largest."""
    assert not out.isnan().any()
    if want.numel():
        error = float((out.double() - want).abs().max() / want.abs().max().clamp(1e-3))
        assert error < bound, f"error {error}"


def refused(kind: type[BaseException], word: str, call: Callable[[], object]) -> None:
    """That a call raises such an exception, whose text has a word."""
    try:
        call()
    except kind as failure:
        assert word in str(failure), failure
    else:
        raise AssertionError(f"not refused: {word}")


class Launches(TorchDispatchMode):
    """Names the operations of torch that compute: on a GPU each of them is a launch. Views and memory that nobody fills
    are none."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        answer = call(*args, **(kwargs or {}))
        name = call.overloadpacket.__name__
        is_view = any(one.alias_info is not None and not one.alias_info.is_write for one in call._schema.returns)
        if not is_view and not name.startswith(("empty", "is_pinned", "_local_scalar")):
            self.names.append(name)
        return answer
