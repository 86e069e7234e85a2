"""The operations of many tokens on tensors of torch: a rank of `weft.ep` with mode="throughput", with the calls of the
originals. A token has one row on each rank that it goes to. A dispatch fills a route, which its combines and later
dispatches use.

A caller that wants tensors of the exact size waits for a count first, as in the originals: an operation with rows of 16
bytes finds how many tokens each rank sends. For a caller that gives the largest size there is only one operation, and
the host does not wait.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
import weft

from ._arguments import Sizes
from ._counting import Counting, Counts, Probe
from ._meeting import Meeting
from ._membership import Member, stream_of
from ._planning import Planners
from ._rows import (
    Arrays,
    DispatchLayout,
    aligned,
    check_tensors,
    check_weights,
    first_rows,
    of_type,
    pad_rows,
    power_of_two,
    row_kind,
    scales_like,
    spread,
)

EARLY_BYTES = 8 << 20
"""if the small arrays for the largest number of rows take at most so many bytes, they are made before the number of
rows is known"""


class Kept:
    """The state that a dispatch leaves: its route, and where its rows came from. Tensors are in this rank's memory;
    those that few programs need are computed at the first use."""

    def __init__(self, engine: Throughput, route: weft.ep.Route, key: tuple[int, int, int, int], rows: int,
                 topk_idx: torch.Tensor) -> None:
        self.engine, self.route = engine, route
        self._index, self._key = engine.rank.index, key
        self.rows = rows
        """the number of rows of the tensors that were received into"""
        self.topk_idx = topk_idx
        """the caller's: [tokens][top-k]"""
        self.alignment = key[3]
        """the alignment of the experts' parts, if rows are packed by expert"""
        self.counts: list[int] | None = None
        """rows of each local expert, if the host has waited for them"""
        self.tokens = 0
        """the received tokens; without such a wait their largest number"""
        self.expert_rows: torch.Tensor
        """int32 [E]: rows of each local expert"""
        self.expert_end: torch.Tensor | None = None
        """int32 [E]: index after the last packed row of each local expert; None: rows are not packed"""
        self.slot: torch.Tensor | None = None
        """int32 [n][top-k]: packed rows of a received token's selections, -1: of another rank; None: not packed"""
        self._arrays: Arrays

    def note(self, arrays: Arrays, tokens: int) -> None:
        """Keeps what a receive has written, for up to that many tokens."""
        self._arrays, self.tokens = arrays, tokens
        self.expert_rows, self.expert_end = arrays.counts, arrays.expert_end
        if arrays.expert_end is not None:
            self.slot = first_rows(arrays.selected, tokens)

    @functools.cached_property
    def local(self) -> torch.Tensor:
        """int32 [n][top-k]: local experts of each received token at their places, -1: of another rank."""
        if self.slot is None or self.expert_end is None:
            return first_rows(self._arrays.selected, self.tokens)
        expert = torch.searchsorted(self.expert_end, self.slot, right=True, out_int32=True)
        return expert.masked_fill_(self.slot < 0, -1)

    @functools.cached_property
    def src_rank(self) -> torch.Tensor:
        """int32 [n]: rank that each received token came from; -1: none."""
        return self._of_tokens(self._arrays.src_rank)

    @functools.cached_property
    def src_token(self) -> torch.Tensor:
        """int32 [n]: its index there; -1: none."""
        return self._of_tokens(self._arrays.src_token)

    def _of_tokens(self, of_rows: torch.Tensor) -> torch.Tensor:
        """[n]: of each token the value of one of its rows; -1: it has none."""
        if self.slot is None:
            return first_rows(of_rows, self.tokens)
        row = self.slot.amax(1) if self.tokens else self.slot.new_zeros(0)
        return of_rows[row.clamp(min=0).long()].masked_fill_(row < 0, -1)

    @functools.cached_property
    def rank_end(self) -> torch.Tensor:
        """int32 [ranks]: for each rank, the number of tokens received from the ranks up to it, including it."""
        if self.slot is None:
            counts = self._arrays.range.view(torch.int32)[::2]  # the lower halves, on little-endian processors
        else:
            ranks = self.src_rank.long() + 1  # 0: none
            counts = ranks.new_zeros(self.engine.sizes.capacity + 1).scatter_add_(0, ranks, torch.ones_like(ranks))[1:]
        return torch.cumsum(counts, 0, dtype=torch.int32)

    @functools.cached_property
    def prefix(self) -> torch.Tensor:
        """int32 [ranks][ranks]: the column of this rank is rank_end; the others are 0."""
        ends = self.rank_end
        prefix = ends.new_zeros(ends.shape[0], ends.shape[0])
        prefix[:, self._index] = ends
        return prefix

    def __del__(self) -> None:
        self.engine.idle.setdefault(self._key, []).append(self.route)


class Received(NamedTuple):
    """The results of a dispatch."""

    data: Any
    """rows [rows][hidden]; for fp8 (rows, scales)"""
    local: torch.Tensor | None
    """int32 [rows][top-k]: local experts at their places, -1: an expert of another rank; None if rows are packed"""
    weights: torch.Tensor | None
    """float32 [rows][top-k]; [rows] if rows are packed by expert"""
    kept: Kept


class Form(NamedTuple):
    """The layout in which a dispatch is received, its limits, and its processors."""

    expand: bool = False
    """one row for each selection, packed by expert; else one for each token"""
    alignment: int = 1
    """the alignment of the experts' parts, if rows are packed; 1 to 256"""
    worst: int | None = None
    """the largest number of rows received; None: the exact number, for which the host waits"""
    tokens: int | None = None
    """the largest number of tokens received; None: as many as the group has room for"""
    zero_padding: bool = False
    """whether rows between the parts of experts become 0"""
    columns: bool = False
    """scales column by column, each padded to a multiple of 16 bytes"""
    total: torch.Tensor | None = None
    """int32 [E]: the numbers of rows of local experts are added to it"""
    processors: int = 0
    """the largest number of a GPU's processors; 0: Weft chooses"""


class Values(NamedTuple):
    """Rows of a dispatch, in the form that the library takes."""

    x: torch.Tensor
    scales: torch.Tensor | None
    kind: str
    dtypes: tuple[torch.dtype, torch.dtype]
    """the caller's types of rows and scales"""


class Selections(NamedTuple):
    """The selections of a dispatch, in the form that the library takes."""

    topk_idx: torch.Tensor
    weights: torch.Tensor


class Throughput(Member):
    """One rank of a group for many tokens."""

    def __init__(self, meeting: Meeting, sizes: Sizes, founders: Iterable[int], *, seconds: float, op_seconds: float,
                 part: str = "", strict: bool = True) -> None:
        self.most = sizes.tokens * sizes.capacity
        """the largest number of tokens that a rank receives"""
        self.room = min(sizes.tokens, sizes.max_tokens)
        """the largest number of tokens that a rank sends"""
        self.strict = strict
        self.idle: dict[tuple[int, int, int, int], list[weft.ep.Route]] = {}
        """routes of handles that were deleted, by their sizes"""
        self._counting: Counting | None = None
        super().__init__(meeting, sizes, founders, seconds=seconds, op_seconds=op_seconds, part=part,
                         max_rows=self.most)
        self._planners = Planners(self.rank, sizes)

    def layout(self, topk_idx: torch.Tensor) -> DispatchLayout | None:
        """See `Planners.layout`. None also if ranks may be lost or masked, since a plan leaves these out."""
        return self._planners.layout(topk_idx) if self.strict else None

    # --- dispatch ---

    def dispatch(self, x: torch.Tensor, scales: torch.Tensor | None, topk_idx: torch.Tensor,
                 weights: torch.Tensor | None, form: Form) -> Received:
        """Sends tokens to the ranks of their experts, and fills a route. weights: None means 1 for each."""
        values = self._values(x, scales)
        self._check_tokens(x, topk_idx, weights)
        chosen = self._selections(x, topk_idx, weights)
        counted = arrays = None
        probe = self._count(chosen, form, False) if form.worst is None else None
        if not form.expand and Arrays.bytes_of(self.most, topk_idx.shape[1]) <= EARLY_BYTES:
            # Made while the ranks count, for the largest number of rows.
            arrays = Arrays.make(max(1, form.worst or self.most), topk_idx.shape[1], False, self.sizes, x.device)
        if probe is not None:
            counted = self._await(probe)
        kept = self._keep(topk_idx, chosen, form, counted)
        if arrays is None:
            arrays = self._arrays(kept, form, x.device)
        into, data = self._receive(kept, values, form, **arrays.named())
        try:
            operation = self.rank.dispatch(values.x, chosen.topk_idx, chosen.weights, into=into, scales=values.scales,
                                           dtype=values.kind, route=kept.route, processors=form.processors,
                                           stream=stream_of(x))
        except weft.errors.RoomError as failure:
            self._pass_over(failure, kept, values, form)
            raise
        self._end(operation)
        # Each received token has a row at least, so no more tokens come than there is room for rows.
        kept.note(arrays, min(self._most_of(form), kept.rows) if counted is None else counted.rows)
        local = None if form.expand else first_rows(arrays.selected, kept.rows)
        return Received(data, local, first_rows(arrays.weights, kept.rows), kept)

    def rows_again(self, x: torch.Tensor, scales: torch.Tensor | None, kept: Kept, form: Form) -> Any:
        """Sends other values by the route of an earlier dispatch, to the same places. Returns only the rows, one for
        each token."""
        values = self._values(x, scales)
        self._check_again(x, kept)
        return self._go(kept, values, form, x, counts=torch.empty_like(kept.expert_rows))

    def again(self, x: torch.Tensor, scales: torch.Tensor | None, kept: Kept, weights: torch.Tensor | None,
              form: Form) -> Received:
        """Sends other values by the route of an earlier dispatch, to the same places, with other weights if they are
        given. Without them packed rows have no weights."""
        values = self._values(x, scales)
        self._check_again(x, kept)
        self._check_tokens(x, kept.topk_idx, weights)
        form = form._replace(expand=kept.slot is not None, alignment=kept.alignment, worst=kept.rows)
        given = None
        if weights is not None:
            probe = self._count(self._selections(x, kept.topk_idx, weights), form, True)
            self._end(probe.operation)
            assert probe.arrays is not None
            given = first_rows(probe.arrays.weights, kept.tokens)
        arrays = self._arrays(kept, form, x.device)
        data = self._go(kept, values, form, x, **arrays.named())
        if kept.slot is not None:
            return Received(data, None, None if given is None else spread(given, kept.slot, kept.rows), kept)
        return Received(data, first_rows(arrays.selected, kept.rows),
                        first_rows(arrays.weights, kept.rows) if given is None else given, kept)

    def _go(self, kept: Kept, values: Values, form: Form, x: torch.Tensor, **arrays: torch.Tensor) -> Any:
        """Runs a dispatch by a filled route, and returns the received rows."""
        into, data = self._receive(kept, values, form, **arrays)
        self._end(self.rank.dispatch(values.x, into=into, scales=values.scales, dtype=values.kind, route=kept.route,
                                     processors=form.processors, stream=stream_of(x)))
        return data

    def _check_again(self, x: torch.Tensor, kept: Kept) -> None:
        self._check_kept(kept)
        if x.shape[0] != kept.topk_idx.shape[0]:
            raise ValueError(f"x: {x.shape[0]} tokens, and the dispatch of this handle had {kept.topk_idx.shape[0]}")
        self._check_rows(x)

    def _check_tokens(self, x: torch.Tensor, topk_idx: torch.Tensor, weights: torch.Tensor | None) -> None:
        check_tensors(topk_idx=topk_idx)
        check_weights(weights)
        if topk_idx.dim() != 2 or topk_idx.shape[0] != x.shape[0] or topk_idx.shape[1] == 0:
            raise ValueError(f"x {list(x.shape)}, topk_idx {list(topk_idx.shape)}: [tokens][hidden] and [tokens][top-k]"
                             " are wanted")
        if topk_idx.dtype not in (torch.int64, torch.int32):
            raise TypeError(f"topk_idx: int64 or int32 is wanted, not {topk_idx.dtype}")
        if weights is not None and (weights.dtype != torch.float32 or weights.shape != topk_idx.shape):
            raise ValueError(f"topk_weights: float32 {list(topk_idx.shape)} is wanted, not {weights.dtype} "
                             f"{list(weights.shape)}")
        self._check_rows(x)

    def _check_rows(self, x: torch.Tensor) -> None:
        if x.shape[0] > self.room:
            most = weft.ep.limits().max_tokens
            if x.shape[0] > most:
                raise ValueError(f"x: {x.shape[0]} tokens, and an operation has at most {most} of a rank: send them in "
                                 "several operations")
            raise ValueError(f"x: {x.shape[0]} tokens, and this group has room for {self.room} of a rank, as its first "
                             "dispatch needed or WEFT_EP_MAX_TOKENS said: set that variable to the largest number, at "
                             f"most {most}, on all ranks")
        if (x.shape[1], x.is_cuda) != (self.sizes.hidden, self.sizes.memory == "cuda"):
            raise ValueError(f"x: hidden {x.shape[1]} on {x.device}, and the group has {self.sizes.hidden} in "
                             f"{self.sizes.memory} memory")

    def _most_of(self, form: Form) -> int:
        """The largest number of tokens that a dispatch receives."""
        return self.most if form.tokens is None else min(self.most, form.tokens)

    def _check_kept(self, kept: Kept) -> None:
        if kept.engine is not self:
            raise TypeError("handle: it is not one of this buffer and these sizes")

    @staticmethod
    def _values(x: torch.Tensor, scales: torch.Tensor | None) -> Values:
        kind = row_kind(x, scales)
        dtypes = x.dtype, torch.float32 if scales is None else scales.dtype
        if x.element_size() == 1:
            x = of_type(x, torch.uint8)
        if kind == "opaque" and scales is not None:
            scales = of_type(scales, torch.int32)
        return Values(pad_rows(x.detach().contiguous()), pad_rows(scales), kind, dtypes)

    @staticmethod
    def _selections(x: torch.Tensor, topk_idx: torch.Tensor, weights: torch.Tensor | None) -> Selections:
        """The selections of a dispatch. If there is no token, there is one that selects no expert, since a route needs
        at least one."""
        if weights is None:
            weights = torch.ones(topk_idx.shape, dtype=torch.float32, device=x.device)
        if x.shape[0] == 0:
            topk_idx = topk_idx.new_full((1, topk_idx.shape[1]), -1)
        return Selections(topk_idx.contiguous(), pad_rows(weights.detach().contiguous()))

    def _arrays(self, kept: Kept, form: Form, device: torch.device) -> Arrays:
        """The arrays of a receive. The library needs at least one row."""
        return Arrays.make(max(1, kept.rows), kept.topk_idx.shape[1], form.expand, self.sizes, device)

    def _count(self, chosen: Selections, form: Form, with_sources: bool) -> Probe:
        """Begins a counting operation. The host has to wait for it, unless form.worst gives the largest number of
        rows."""
        if self._counting is None:
            self._counting = Counting(self.rank, self.sizes, chosen.topk_idx.device)
        return self._counting.begin(*chosen, form.worst is None, with_sources, form.processors,
                                    stream_of(chosen.topk_idx))

    def _await(self, probe: Probe) -> Counts:
        """Waits for the results of a counting operation, and ends it."""
        assert self._counting is not None
        counts = self._counting.wait(probe.operation)
        self._end(probe.operation)
        return counts

    def _keep(self, topk_idx: torch.Tensor, chosen: Selections, form: Form, counted: Counts | None) -> Kept:
        """A route for this dispatch: the route of a deleted handle with the same sizes, if there is one, else a new
        one. counted: None if form.worst gives the number of rows."""
        if counted is None:
            rows = form.worst or 0
            number = self._most_of(form) if form.expand else min(self.most, rows)
        else:
            number = counted.rows
            rows = sum(aligned(count, form.alignment) for count in counted.experts) if form.expand else number
        key = (min(power_of_two(chosen.topk_idx.shape[0]), self.sizes.max_tokens),
               min(power_of_two(number), self.most), topk_idx.shape[1], form.alignment if form.expand else 1)
        idle = self.idle.get(key)
        route = idle.pop() if idle else self.rank.route(max_tokens=key[0], max_rows=key[1], topk=key[2],
                                                        alignment=key[3])
        kept = Kept(self, route, key, rows, topk_idx)
        kept.counts = counted.experts if counted else None
        return kept

    def _receive(self, kept: Kept, values: Values, form: Form, **arrays: Any) -> tuple[weft.ep.Receive, Any]:
        """The Receive, and its rows that the caller gets. The library needs at least one row."""
        rows = max(1, kept.rows)
        scales = None if values.scales is None else scales_like(values.scales, rows, form.columns)
        x = torch.empty((rows, self.sizes.hidden), dtype=values.dtypes[0], device=values.x.device)
        sizes = (x.shape[1], 0 if scales is None else 4 * scales.shape[1]) if values.kind == "opaque" else (0, 0)
        into = self.rank.receive(
            rows, layout="packed" if form.expand else "rank_major", dtype=values.kind, row_bytes=sizes[0],
            scale_bytes=sizes[1], alignment=kept.alignment, keep_places=not form.expand,
            zero_padding=form.expand and form.zero_padding, expert_total=form.total,
            x=of_type(x, values.x.dtype), scales=scales, **arrays)
        data = first_rows(x, kept.rows)
        return into, data if scales is None else (data, first_rows(of_type(scales, values.dtypes[1]), kept.rows))

    def _pass_over(self, failure: weft.errors.RoomError, kept: Kept, values: Values, form: Form) -> None:
        """Host memory only: receives the rows for which there was no room, and ends the operation, so that the next
        operation can follow."""
        if failure.op is None:
            return
        kept.rows = failure.rows_needed
        arrays = self._arrays(kept, form, values.x.device)
        self.rank.dispatch_recv(failure.op, self._receive(kept, values, form, **arrays.named())[0])
        self.rank.finish(failure.op)

    def _end(self, operation: weft.ep.Operation) -> None:
        """Ends an operation: its combine will be a separate operation by the route."""
        operation.finish()
        if self.strict and operation.info is not None and operation.info.num_lost:
            raise weft.errors.PeerLostError(f"ranks {operation.info.lost} were lost in a dispatch")

    # --- combine ---

    def combine(self, x: torch.Tensor, kept: Kept, weights: torch.Tensor | None, bias: Sequence[torch.Tensor],
                processors: int, own_weights: bool = False) -> tuple[torch.Tensor, torch.Tensor | None]:
        """(bf16 [tokens][hidden]: for each token the sum of its rows and of the biases; float32 [tokens][top-k]: the
        sums of the weights of its rows, or None without weights). own_weights: only the weights of this rank's experts
        are sent, as with packed rows."""
        self._check_kept(kept)
        check_tensors(x=x)
        check_weights(weights)
        tokens, hidden = kept.topk_idx.shape[0], self.sizes.hidden
        if x.dtype != torch.bfloat16 or tuple(x.shape) != (kept.rows, hidden):
            raise ValueError(f"x: bf16 {[kept.rows, hidden]} is wanted, the rows of the dispatch, not {x.dtype} "
                             f"{list(x.shape)}")
        for one in bias:
            if one.dtype != torch.bfloat16 or tuple(one.shape) != (tokens, hidden):
                raise ValueError(f"bias: bf16 {[tokens, hidden]} is wanted, not {one.dtype} {list(one.shape)}")
        if len(bias) > 2:
            raise ValueError(f"bias: at most two are added, not {len(bias)}")
        with_rows = own_weights or kept.slot is not None
        own = None if weights is None else self._weights_of_rows(weights, kept)
        out = torch.empty((max(1, tokens), hidden), dtype=torch.bfloat16, device=x.device)
        back = None
        if own is not None and with_rows:
            back = torch.empty((max(1, tokens), kept.topk_idx.shape[1]), dtype=torch.float32, device=x.device)
        self.rank.combine_route(kept.route, pad_rows(x.detach().contiguous()), out, unweighted=kept.slot is not None,
                                row_weights=pad_rows(own) if with_rows else None, out_weights=back,
                                bias=[pad_rows(one.detach().contiguous()) for one in bias] or None,
                                processors=processors, stream=stream_of(x))
        if own is None or back is not None:
            return out[:tokens], None if back is None else back[:tokens]
        with self.unmasked():  # like a combine, which answers masked ranks, too
            return out[:tokens], self._send_back(own, kept, processors)

    @staticmethod
    def _weights_of_rows(weights: torch.Tensor, kept: Kept) -> torch.Tensor:
        """The weights of rows: packed [rows], else [rows][top-k]."""
        shape = (kept.rows,) if kept.slot is not None else (kept.rows, kept.topk_idx.shape[1])
        if weights.dtype != torch.float32 or tuple(weights.shape) != shape:
            raise ValueError(f"topk_weights: float32 {list(shape)} is wanted, not {weights.dtype} "
                             f"{list(weights.shape)}")
        return weights.detach().contiguous()

    def _send_back(self, weights: torch.Tensor, kept: Kept, processors: int) -> torch.Tensor:
        """Sums weights at the ranks that the tokens came from. The weights are sent as opaque rows, with the token's
        index after them, to the first expert of each of these ranks. A combine of weft.ep sends weights back as well,
        but for a selection only the weight from the rank of its expert, while the originals add up all weights of a
        row."""
        tokens, topk = kept.topk_idx.shape
        words = aligned(topk + 1, 4)
        rows = torch.zeros((max(1, weights.shape[0]), words), dtype=torch.int32, device=weights.device)
        rows[:weights.shape[0], :topk] = weights.view(torch.int32)
        rows[:weights.shape[0], topk] = kept.src_token
        home = pad_rows(kept.src_rank.long() * self.sizes.experts_per_rank)
        home = home.masked_fill(home < 0, -1) if weights.shape[0] else torch.full_like(home, -1)
        room = min(self.most, max(1, tokens * self.sizes.capacity))
        total = torch.zeros((max(1, tokens), topk), dtype=torch.float32, device=weights.device)
        for begin in range(0, self.most, self.sizes.max_tokens):  # the same number of operations on all ranks
            end = begin + self.sizes.max_tokens
            come = self._exchange(pad_rows(rows[begin:end]), _none_if_empty(home[begin:end]), room, processors)
            total.index_add_(0, come[:, topk].long(), come[:, :topk].view(torch.float32))  # rows that nobody sent are 0
        return total[:tokens]

    def _exchange(self, rows: torch.Tensor, experts: torch.Tensor, room: int, processors: int) -> torch.Tensor:
        """Sends each row of int32 to one expert. Returns [room][words]: the received rows, then rows of 0."""
        come = torch.zeros((room, rows.shape[1]), dtype=torch.int32, device=rows.device)
        width = 4 * rows.shape[1]
        counts = torch.empty(self.sizes.experts_per_rank, dtype=torch.int32, device=rows.device)
        into = self.rank.receive(room, layout="rank_major", dtype="opaque", row_bytes=width, x=come.view(torch.uint8),
                                 counts=counts)
        self._end(self.rank.dispatch(rows.view(torch.uint8), experts[:, None].contiguous(),
                                     torch.ones((rows.shape[0], 1), dtype=torch.float32, device=rows.device), into=into,
                                     dtype="opaque", processors=processors, stream=stream_of(rows)))
        return come

    def sum_counts(self, tokens_per_expert: torch.Tensor, processors: int) -> list[int]:
        """The number of rows of each local expert, summed over the numbers that all ranks send. The host waits for
        it."""
        ranks, experts = self.sizes.capacity, self.sizes.experts_per_rank
        rows = torch.zeros((ranks, aligned(experts, 4)), dtype=torch.int32, device=tokens_per_expert.device)
        rows[:, :experts] = tokens_per_expert.view(ranks, experts)
        firsts = torch.arange(ranks, dtype=torch.int64, device=rows.device) * experts
        counts: list[int] = self._exchange(rows, firsts, ranks, processors)[:, :experts].sum(0).tolist()
        return counts

    def close(self) -> None:
        """Leaves the group after all launched work has run."""
        super().close()
        self.idle.clear()
        self._planners.clear()
        self._counting = None


def _none_if_empty(experts: torch.Tensor) -> torch.Tensor:
    return experts if experts.shape[0] else experts.new_full((1,), -1)
