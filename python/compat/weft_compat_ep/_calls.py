"""The high-throughput calls that `deep_ep.Buffer` and `nixl_ep.Buffer` have in common, on one rank of `_throughput`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Optional, Union

import torch
import weft

from ._arguments import check_whole, experts_of_rank
from ._buffer import LegacyBuffer
from ._events import Config, EventHandle, EventOverlap
from ._rows import DispatchLayout, aligned, check_tensors, dispatch_layout, ranks_as_experts
from ._throughput import Form, Kept, Received, Throughput

Dispatched = tuple[Any, Optional[torch.Tensor], Optional[torch.Tensor], Optional[list[int]], Any, EventOverlap]
"""(rows or (rows, scales), local experts, weights, rows of each local expert, handle, event)"""
DEFAULT_SMS = 24
"""default number of processors of weft.ep: weft_ep_dispatch_args.processors"""
Bias = Union[torch.Tensor, Sequence[torch.Tensor], None]
AnyEvent = Union[EventOverlap, EventHandle, None]
"""the types of `previous_event`"""


class Later(NamedTuple):
    """An entry of a handle that is computed when a program reads it: on a GPU each entry takes a launch."""

    compute: Callable[[], Any]


def _value(entry: Any) -> Any:
    return entry.compute() if isinstance(entry, Later) else entry


class RouteHandle(tuple[Any, ...]):
    """The handle that a dispatch returns, for its combine and for later dispatches by the same route. Its entries have
    the positions of the original; entries that only the kernels of the originals need are None."""

    kept: Kept

    def __getitem__(self, key: Any) -> Any:
        got = super().__getitem__(key)
        return tuple(map(_value, got)) if isinstance(key, slice) else _value(got)

    def __iter__(self) -> Iterator[Any]:
        return map(_value, super().__iter__())

    @classmethod
    def of(cls, entries: tuple[Any, ...], kept: Kept) -> RouteHandle:
        """A handle with its entries."""
        made = cls(entries)
        made.kept = kept
        return made


def prefix_handle(kept: Kept, in_rank: Any) -> RouteHandle:
    """Six entries. [0]: int32 [ranks][ranks], whose column for this rank has, for each rank, the number of rows
    received from the ranks up to it; the columns for other ranks are 0. [3]: the index of each row's token on its rank.
    [4]: is_token_in_rank."""
    return RouteHandle.of((Later(lambda: kept.prefix), None, None, kept.src_token, in_rank, None), kept)


def global_handle(kept: Kept, in_rank: Any) -> RouteHandle:
    """Ten entries, as the original returns between hosts. [0]: is_token_in_rank. [4]: the number of received rows. [6]:
    for each rank, the number of rows received from the ranks up to it. [7]: int32 [rows][2], the rank and token of each
    row."""
    return RouteHandle.of((in_rank, None, None, None, Later(lambda: kept.rank_end[-1:]), None,
                           Later(lambda: kept.rank_end), Later(lambda: torch.stack((kept.src_rank, kept.src_token), 1)),
                           None, None), kept)


def wait_for(event: AnyEvent) -> None:
    """Makes the current stream wait for the caller's `previous_event`."""
    if event is not None:
        if not hasattr(event, "current_stream_wait"):
            raise TypeError(f"previous_event: an EventOverlap is wanted, not {event!r:.60}")
        event.current_stream_wait()


def finished(asynchronous: bool, *tensors: Any) -> EventOverlap:
    """The event of a call: if it is asynchronous, one that keeps its tensors, else an empty one."""
    return EventOverlap(EventHandle(), tensors) if asynchronous else EventOverlap()


@functools.lru_cache(maxsize=1)
def least_processors() -> int:
    """The least number of processors that a call takes."""
    return weft.ep.limits().min_processors


def processors_of(config: Config | None, num_sms: int) -> int:
    """The number of processors that a call may take: that of the configuration or `num_sms`, or Weft's minimum if that
    is more."""
    if config is not None and not hasattr(config, "num_sms"):
        raise TypeError(f"config: a Config is wanted, not {config!r:.60}")
    return max(num_sms if config is None else config.num_sms, least_processors())


def biases(bias: Bias) -> list[torch.Tensor]:
    """`bias` as a list: None gives an empty list."""
    if bias is None or isinstance(bias, torch.Tensor):
        return [] if bias is None else [bias]
    if not isinstance(bias, (tuple, list)) or not all(isinstance(one, torch.Tensor) for one in bias):
        raise TypeError(f"bias: a tensor is wanted, or two, not {bias!r:.60}")
    return list(bias)


def values_of(x: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The values and the scales of x, which is a tensor or (values, scales)."""
    if isinstance(x, torch.Tensor):
        return x, None
    if not isinstance(x, (tuple, list)) or len(x) != 2 or not all(isinstance(one, torch.Tensor) for one in x):
        raise TypeError(f"x: a tensor is wanted, or (values, scales), not {x!r:.60}")
    return x[0], x[1]


class HighThroughput(LegacyBuffer):
    """The calls of a buffer. A subclass provides their rank in `_engine_for_many`."""

    group_size: int
    rank: int

    def _engine_for_many(self, x: torch.Tensor, experts_per_rank: int) -> Throughput:
        raise NotImplementedError

    def _check_ready(self, what: str) -> None:
        """Raises RuntimeError if this call comes too early, or too late."""
        del what
        self._check_alive()

    def _plan(self, topk_idx: torch.Tensor, num_experts: int) -> DispatchLayout | None:
        """The layout, computed by a rank that is already open for so many experts. None: there is no such rank, or it
        cannot compute the layout."""
        del topk_idx, num_experts
        return None

    def get_dispatch_layout(self, topk_idx: torch.Tensor, num_experts: int, previous_event: EventOverlap | None = None,
                            async_finish: bool = False, allocate_on_comm_stream: bool = False) -> tuple[
                                torch.Tensor, torch.Tensor | None, torch.Tensor, torch.Tensor, EventOverlap]:
        """(tokens for each rank int32 [ranks], None since Weft does not count RDMA ranks apart, selections of each
        expert int32 [experts], whether a token goes to a rank bool [tokens][ranks], event). The call does not
        communicate."""
        del allocate_on_comm_stream
        self._check_ready("get_dispatch_layout")
        experts_of_rank(num_experts, self.group_size)
        check_tensors(topk_idx=topk_idx)
        wait_for(previous_event)
        layout = self._plan(topk_idx, num_experts) or dispatch_layout(topk_idx, num_experts, self.group_size)
        return (layout.tokens_per_rank, None, layout.tokens_per_expert, layout.in_rank,
                finished(async_finish, topk_idx, *layout))

    def _send_many(self, make_handle: Any, x: Any, handle: Any, is_token_in_rank: torch.Tensor | None,
                   num_tokens_per_expert: torch.Tensor | None, topk_idx: torch.Tensor | None,
                   topk_weights: torch.Tensor | None, expert_alignment: int, num_worst_tokens: int,
                   config: Config | None, previous_event: EventOverlap | None, async_finish: bool) -> Dispatched:
        """A dispatch of either original: see Buffer.dispatch of deep_ep."""
        self._check_ready("dispatch")
        check_whole(expert_alignment=expert_alignment, num_worst_tokens=num_worst_tokens)
        if expert_alignment < 1:
            raise ValueError(f"expert_alignment: {expert_alignment} is no number from 1 on")
        values, scales = values_of(x)
        wait_for(previous_event)
        form = Form(worst=num_worst_tokens or None, processors=processors_of(config, self.num_sms))
        if handle is not None:
            if topk_idx is not None or topk_weights is not None:
                raise ValueError("topk_idx, topk_weights: a dispatch by a handle has those of the handle: leave "
                                 "them out")
            kept = self._kept_of(handle)
            rows = kept.engine.rows_again(values, scales, kept, form)
            return rows, None, None, None, None, finished(async_finish, x, rows, kept)
        if is_token_in_rank is None or num_tokens_per_expert is None:
            raise ValueError("is_token_in_rank, num_tokens_per_expert: what get_dispatch_layout answers is wanted, or "
                             "handle=")
        check_tensors(is_token_in_rank=is_token_in_rank, num_tokens_per_expert=num_tokens_per_expert)
        engine = self._engine_for_many(values, experts_of_rank(num_tokens_per_expert.shape[0], self.group_size))
        with_topk = topk_idx is not None
        if topk_idx is None:
            if num_worst_tokens:
                raise ValueError("num_worst_tokens: it goes with topk_idx")
            topk_idx = ranks_as_experts(is_token_in_rank, engine.sizes.experts_per_rank)
        got = engine.dispatch(values, scales, topk_idx, topk_weights, form)
        counts = got.kept.counts or []
        if not with_topk:
            counts = engine.sum_counts(num_tokens_per_expert, form.processors)
        return (got.data, *self._by_token(got, topk_idx, with_topk, topk_weights),
                [aligned(count, expert_alignment) for count in counts],
                make_handle(got.kept, is_token_in_rank), finished(async_finish, x, topk_idx, got))

    @staticmethod
    def _by_token(got: Received, topk_idx: torch.Tensor, with_topk: bool,
                  topk_weights: torch.Tensor | None) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        if not with_topk or got.local is None:
            return None, None
        return got.local.to(topk_idx.dtype), None if topk_weights is None else got.weights

    def _kept_of(self, handle: Any) -> Kept:
        kept = getattr(handle, "kept", None)
        if not isinstance(kept, Kept):
            raise TypeError("handle: what the dispatch of this buffer has answered is wanted, unchanged")
        return kept

    def _combine_many(self, x: torch.Tensor, handle: Any, topk_weights: torch.Tensor | None, bias: Bias,
                      config: Config | None, previous_event: EventOverlap | None, async_finish: bool) -> tuple[
                          torch.Tensor, torch.Tensor | None, EventOverlap]:
        """A combine of either original: (sums bf16 [tokens][hidden], sums of weights [tokens][top-k] or None,
        event)."""
        self._check_alive()
        kept = self._kept_of(handle)
        wait_for(previous_event)
        out, weights = kept.engine.combine(x, kept, topk_weights, biases(bias), processors_of(config, self.num_sms))
        return out, weights, finished(async_finish, x, topk_weights, bias, out, weights)
