"""Scores of a gate that send more tokens to rank 0 than to the other ranks, for measurements."""

from __future__ import annotations

import math

import torch

__all__ = ["get_unbalanced_scores"]

LARGEST_FACTOR = 100.0
STEPS = 20
"""halvings of the interval in which the factor of the scores of rank 0 is looked for"""


def get_unbalanced_scores(num_tokens: int, num_experts: int, num_ranks: int, num_topk: int, ratio: float,
                          precise: bool) -> torch.Tensor:
    """float32 [tokens][experts], random: the top-k of these scores send about `ratio` times as many tokens to rank 0 as
    to another rank on average. With `precise` the numbers of tokens are exact, and the same for all other ranks, except
    for rounding; each token then goes to the same number of ranks, which routing does not do in practice."""
    if num_ranks < 1 or num_experts % num_ranks or ratio < 1:
        raise ValueError(f"num_ranks {num_ranks}, num_experts {num_experts}, ratio {ratio}: a rank or more is wanted, "
                         "with as many experts each, and a ratio of 1 or more")
    if num_ranks == 1:
        return _random_scores(num_tokens, num_experts, num_experts, 1.0)
    if precise:
        return _precise_scores(num_tokens, num_experts // num_ranks, num_ranks, num_topk, ratio)
    return _random_scores(num_tokens, num_experts, num_experts // num_ranks, _factor(
        num_tokens, num_experts, num_ranks, num_topk, ratio))


def _device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def _random_scores(tokens: int, experts: int, of_rank: int, factor: float) -> torch.Tensor:
    scores = torch.rand((tokens, experts), device=_device())
    scores[:, :of_rank] *= factor
    return scores


def _factor(tokens: int, experts: int, ranks: int, topk: int, ratio: float) -> float:
    """The factor of the scores of rank 0 that gives this ratio."""
    low, high = 1.0, LARGEST_FACTOR
    for _ in range(STEPS if ratio > 1 else 0):
        middle = (low + high) / 2
        chosen = _random_scores(tokens, experts, experts // ranks, middle).topk(topk, 1).indices // (experts // ranks)
        sent = torch.zeros((tokens, ranks), device=_device()).scatter_(1, chosen, 1.0).sum(0)
        if sent[0] > ratio * sent[1:].mean():
            high = middle
        else:
            low = middle
    return low


def _precise_scores(tokens: int, of_rank: int, ranks: int, topk: int, ratio: float) -> torch.Tensor:
    least, most = math.ceil(topk / of_rank), min(topk, ranks, int((ranks - 1) / ratio) + 1)
    if least > most:
        raise ValueError(f"ratio {ratio}: a token goes to {least} ranks at least, but with this ratio to {most} at "
                         "most")
    reached = min(most, max(least, round(ranks * (1 - (1 - 1 / ranks) ** topk))))
    share = tokens * reached / (ranks - 1 + ratio)  # of each other rank
    to_first = min(tokens, tokens if reached == ranks else round(share * ratio))
    first = torch.randperm(tokens, device=_device()) < to_first
    # The other ranks are dealt in turn, so that a token has different ones.
    free = reached - first.long()
    begins = torch.cumsum(free, 0) - free
    places = torch.arange(ranks, device=_device())
    dealt = (begins[:, None] + places[None, :ranks - 1]) % (ranks - 1) + 1
    chosen = torch.zeros((tokens, ranks), device=_device())
    chosen.scatter_(1, dealt, (places[None, :ranks - 1] < free[:, None]).float())
    chosen[:, 0] = first.float()
    # Of each chosen rank one expert comes before all others, and other experts of these ranks before the rest.
    scores = torch.rand((tokens, ranks, of_rank), device=_device())
    scores += chosen[:, :, None]
    best = scores.argmax(2, keepdim=True)
    scores.scatter_add_(2, best, chosen[:, :, None])
    return (scores / 3).view(tokens, ranks * of_rank)
