"""`HybridEPBuffer`, the interface of the original's branch for training: rows for each token, or permuted by expert, by
routing maps or by top-k."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import torch
import weft

from weft_compat_ep._arguments import check_whole, experts_of_rank
from weft_compat_ep._buffer import CommonBuffer
from weft_compat_ep._calls import DEFAULT_SMS, Later, RouteHandle, processors_of
from weft_compat_ep._engines import Engines
from weft_compat_ep._groups import gatherer
from weft_compat_ep._meeting import Meeting
from weft_compat_ep._rows import aligned, check_tensors, pad_rows
from weft_compat_ep._throughput import Form, Kept, Received

from ._routing_maps import at_columns, dense, indices_to_map, selections_of
from .buffer import timeout_s

__all__ = ["HybridEPBuffer", "indices_to_map"]

MOST_EXPERTS = weft.ep.limits().max_topk
TOO_MANY = f"routing_map: a token has more than {MOST_EXPERTS} experts"
DOMAIN_VARIABLE = "NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN"


class HybridEPBuffer(CommonBuffer):
    """One rank of a group of torch.distributed (`group`), for operations of up to max_num_of_tokens_per_rank tokens.

    All ranks construct it, and make the same calls in the same order. A call with more tokens makes the buffer larger,
    so all ranks have to make it with as many, or with one num_of_tokens_per_rank: the largest number of tokens that a
    rank has in this call. The numbers of processors (`num_sms_...`) limit the calls of their name;
    the other arguments have no effect, since Weft allocates memory itself and compiles nothing at run time.

    Calls run in the current stream. `num_of_hybrid_ep_ranks_per_nvlink_domain` ranks form a domain, by default all
    ranks. This number decides only how many columns the probabilities of `dispatch` and `combine` have.
    """

    def __init__(self, group: Any, hidden_dim: int, max_num_of_tokens_per_rank: int, num_local_experts: int,
                 use_fp8: bool = False, num_sms_dispatch_api: int | None = None, num_sms_combine_api: int | None = None,
                 num_sms_preprocessing_api: int | None = None, num_blocks_permute: int | None = None,
                 num_blocks_unpermute: int | None = None, load_cached_kernels: bool = False,
                 use_shared_buffer: bool = True, enable_custom_allgather: bool = False,
                 num_of_hybrid_ep_ranks_per_nvlink_domain: int | None = None, use_mnnvl: bool | None = None) -> None:
        del num_sms_preprocessing_api, num_blocks_permute, num_blocks_unpermute, load_cached_kernels
        del use_shared_buffer, enable_custom_allgather, use_mnnvl
        check_whole(hidden_dim=hidden_dim, max_num_of_tokens_per_rank=max_num_of_tokens_per_rank,
                    num_local_experts=num_local_experts)
        self.rank, self.group_size, gather = gatherer(group)
        self.group, self.use_fp8 = group, use_fp8
        self.num_sms_dispatch_api = num_sms_dispatch_api or DEFAULT_SMS
        self.num_sms_combine_api = num_sms_combine_api or DEFAULT_SMS
        domain = _domain_size(num_of_hybrid_ep_ranks_per_nvlink_domain, self.group_size)
        self.num_of_hybrid_ep_ranks_per_nvlink_domain = domain
        self.node_rank, self.local_rank = divmod(self.rank, domain)
        self.num_of_nodes = self.group_size // domain
        self.config = SimpleNamespace(
            hidden_dim=hidden_dim, max_num_of_tokens_per_rank=max_num_of_tokens_per_rank,
            num_of_experts_per_rank=num_local_experts, num_of_ranks_per_node=domain, num_of_nodes=self.num_of_nodes)
        self.configurer = SimpleNamespace(buffer_config=self.config)
        self.explicitly_destroy = False
        self._numbers: torch.Tensor | None = None
        self._largest: torch.Tensor | None = None
        self._meeting = Meeting.by_exchange(self.rank, gather)
        self._engines = Engines(self._meeting, range(self.group_size), timeout_s(), timeout_s())
        self._destroyed = False

    @property
    def runtime(self) -> HybridEPBuffer:
        """The original's inner object: here the buffer itself."""
        return self

    # --- one row for each token ---

    def dispatch(self, hidden: torch.Tensor, scaling_factor: torch.Tensor | None = None,
                 topk_idx: torch.Tensor | None = None, topk_weights: torch.Tensor | None = None,
                 num_of_experts: int | None = None, probs: torch.Tensor | None = None,
                 routing_map: torch.Tensor | None = None, num_dispatched_tokens_tensor: torch.Tensor | None = None,
                 num_dispatched_tokens: int | None = None, handle: Any = None, *,
                 num_of_tokens_per_rank: int | None = None) -> tuple[
                     torch.Tensor, torch.Tensor | None, torch.Tensor | None, Any]:
        """Sends tokens to the ranks of their experts: (rows, probabilities, scales, handle).

        hidden: bf16 [tokens][hidden], or e4m3 (also as uint8) with scaling_factor float32 [tokens][hidden / 128]. Where
        tokens go: routing_map bool [tokens][experts], with probs float32 of that shape; or topk_idx [tokens][top-k],
        with topk_weights and num_of_experts. Rows are in the order of source rank, then token. Probabilities are
        float32 [rows][experts of the domain], in which the columns of other ranks' experts are 0; None if none are
        given. Scales are None for bf16. The host waits for the number of rows, unless num_dispatched_tokens gives it.
        With a handle, other values are sent along the same paths to the same places.

        The handle has seven entries. [3]: int32 [1], received tokens. [4]: bool [rows][local experts], the experts of
        each row. [5]: tokens of this rank. [6]: the configuration.
        """
        del num_dispatched_tokens_tensor
        self._check_alive()
        values, scales = _values(hidden, scaling_factor)
        form = Form(worst=num_dispatched_tokens or None, processors=processors_of(None, self.num_sms_dispatch_api))
        weighed = probs is not None or (topk_weights is not None and routing_map is None)
        if handle is None:
            got = self._first(values, scales, form, topk_idx, topk_weights, num_of_experts, probs, routing_map,
                              num_of_tokens_per_rank)
        else:
            kept = _kept_of(handle, self._engines, packed=False)
            weights = _weights_by(kept, topk_idx, topk_weights, probs)
            got = kept.engine.again(values, scales, kept, weights, form)
        data, of_rows = _rows(got, hidden)
        of_domain = None
        if weighed and got.weights is not None:
            of_domain = dense(got.weights, self._columns(got.kept), self._width(got.kept))
        return data, of_domain, of_rows, self._token_handle(got.kept)

    def combine(self, hidden: torch.Tensor, probs: torch.Tensor | None = None, handle: Any = None) -> tuple[
            torch.Tensor, torch.Tensor | None]:
        """Sends rows back: (the sums of each token's rows, bf16 [tokens][hidden]; float32 [tokens][experts], the
        probabilities of its rows, or None without probs). hidden: bf16, as many rows as `dispatch` has returned. probs:
        float32 [rows][experts of the domain], of which the columns of this rank's experts are sent."""
        self._check_alive()
        kept = _kept_of(handle, self._engines, packed=False)
        weights = None
        if probs is not None:
            _check_probs(probs, kept.rows, self._width(kept))
            weights = at_columns(probs.detach(), self._columns(kept)).masked_fill_(kept.local < 0, 0)
        return self._combine(hidden, kept, weights)

    # --- rows permuted by expert ---

    def dispatch_with_permute(self, *, hidden: torch.Tensor, topk_idx: torch.Tensor | None = None,
                              topk_weights: torch.Tensor | None = None, num_of_experts_per_rank: int | None = None,
                              num_of_experts: int | None = None, use_fp8: bool | None = None,
                              routing_map: torch.Tensor | None = None, probs: torch.Tensor | None = None,
                              scaling_factor: torch.Tensor | None = None,
                              num_permuted_tokens: int | torch.Tensor | None = None, pad_multiple: int | None = None,
                              handle: Any = None, non_blocking: bool = False, fuse_permute_dispatch: bool = False,
                              num_dispatched_tokens: int | None = None, use_host_meta: bool | None = None,
                              num_of_tokens_per_rank: int | None = None) -> tuple[
                                  torch.Tensor, torch.Tensor | None, torch.Tensor | None, torch.Tensor, Any]:
        """Sends tokens to their experts: (rows, probabilities, scales, rows of each local expert, handle).

        The arguments are those of `dispatch`. There is a row for each selection, packed by expert, then by source rank,
        then by token; probabilities are float32 [rows]. The part of each expert has a multiple of pad_multiple rows (1
        to 256); the rows that fill it up are 0. The numbers of rows, int64 [local experts], include them. The host
        waits for these numbers, which are in host memory then. With non_blocking it does not wait: the result has
        num_permuted_tokens rows, of which those after the last part are undefined, and the numbers are on the GPU. With
        a handle, other values are sent along the same paths to the same places.

        The handle has eleven entries. [3] and [4] are those of `dispatch`. [7]: int32 [local experts], their rows
        without those that fill up. [8]: tokens of this rank. [9]: the configuration. [10]: int32 [1], whether
        num_permuted_tokens was too small.
        """
        del use_fp8, fuse_permute_dispatch, num_dispatched_tokens
        self._check_alive()
        check_whole(pad_multiple=pad_multiple or 0)
        if use_host_meta is not None:
            non_blocking = not use_host_meta
        values, scales = _values(hidden, scaling_factor)
        wanted = None if num_permuted_tokens is None else int(num_permuted_tokens)
        form = Form(expand=True, alignment=pad_multiple or 1, zero_padding=True,
                    processors=processors_of(None, self.num_sms_dispatch_api))
        weighed = probs is not None or (topk_weights is not None and routing_map is None)
        if handle is None:
            if num_of_experts_per_rank is not None and num_of_experts is None:
                num_of_experts = num_of_experts_per_rank * self.group_size
            if non_blocking:
                form = form._replace(worst=_checked_rows(wanted, form.alignment))
            got = self._first(values, scales, form, topk_idx, topk_weights, num_of_experts, probs, routing_map,
                              num_of_tokens_per_rank)
        else:
            kept = _kept_of(handle, self._engines, packed=True)
            _check_alignment(kept, pad_multiple)
            got = kept.engine.again(values, scales, kept, _weights_by(kept, topk_idx, topk_weights, probs), form)
        data, of_rows = _rows(got, hidden)
        probabilities = got.weights if weighed else None
        if wanted is not None and wanted != got.kept.rows:
            data, of_rows, probabilities = (_resized(one, wanted, got.kept) for one in (data, of_rows, probabilities))
        return data, probabilities, of_rows, _padded_counts(got.kept), self._permute_handle(got.kept)

    def combine_with_unpermute(self, *, hidden: torch.Tensor, probs: torch.Tensor | None = None, handle: Any = None,
                               pad_multiple: int | None = None, fuse_unpermute_combine: bool = False,
                               num_dispatched_tokens: int | None = None, non_blocking: bool = False) -> tuple[
                                   torch.Tensor, torch.Tensor | None]:
        """Sends permuted rows back: (the sums of each token's rows, bf16 [tokens][hidden]; float32 [tokens][experts],
        the probabilities of its rows, or None without probs). hidden: bf16, the rows that `dispatch_with_permute` has
        returned, or the first of them; probs: float32 [rows]."""
        del fuse_unpermute_combine, num_dispatched_tokens, non_blocking  # a combine never waits for a GPU
        self._check_alive()
        kept = _kept_of(handle, self._engines, packed=True)
        _check_alignment(kept, pad_multiple)
        check_tensors(hidden=hidden)
        weights = None
        if probs is not None:
            if probs.dtype != torch.float32 or probs.dim() != 1:
                raise ValueError(f"probs: float32 [rows] is wanted, not {probs.dtype} {list(probs.shape)}")
            weights = _resized(probs.detach(), kept.rows, kept)
        return self._combine(_resized(hidden, kept.rows, kept), kept, weights)

    # --- what both forms share ---

    def _first(self, values: torch.Tensor, scales: torch.Tensor | None, form: Form, topk_idx: torch.Tensor | None,
               topk_weights: torch.Tensor | None, num_of_experts: int | None, probs: torch.Tensor | None,
               routing_map: torch.Tensor | None, num_of_tokens_per_rank: int | None) -> Received:
        """A dispatch that makes a new handle."""
        largest = None
        check_whole(num_of_tokens_per_rank=num_of_tokens_per_rank or 0)
        most = len(values) if num_of_tokens_per_rank is None else num_of_tokens_per_rank
        if len(values) > most:
            raise ValueError(f"num_of_tokens_per_rank: {most}, and this rank has {len(values)} tokens")
        if routing_map is not None:
            check_tensors(routing_map=routing_map)
            if routing_map.dtype != torch.bool or routing_map.dim() != 2 or len(routing_map) != len(values):
                raise ValueError(f"routing_map: bool {[len(values), 'experts']} is wanted, not {routing_map.dtype} "
                                 f"{list(routing_map.shape)}")
            if num_of_experts not in (None, routing_map.shape[1]):
                raise ValueError(f"routing_map: {routing_map.shape[1]} experts, and there are {num_of_experts}")
            num_of_experts = routing_map.shape[1]
            topk_idx, largest = selections_of(routing_map, MOST_EXPERTS, self._numbers_for(routing_map))
            topk_weights = None
        elif topk_idx is None or num_of_experts is None:
            raise ValueError("routing_map, topk_idx: a routing map is wanted, or topk_idx with num_of_experts, or a "
                             "handle")
        check_tensors(topk_idx=topk_idx)
        experts = experts_of_rank(num_of_experts, self.group_size)
        if probs is not None:
            _check_probs(probs, len(values), num_of_experts)
            topk_weights = at_columns(probs.detach(), topk_idx)
        self.config.max_num_of_tokens_per_rank = max(self.config.max_num_of_tokens_per_rank, most)
        engine = self._engines.get(values, experts, self.config.max_num_of_tokens_per_rank)
        known = self._note_largest(largest, form.worst is None)
        got = engine.dispatch(values, scales, topk_idx, topk_weights, form)
        if known is not None and int(known) > MOST_EXPERTS:  # the host has waited for counts, which come after it
            raise ValueError(TOO_MANY)
        return got

    def _numbers_for(self, routing_map: torch.Tensor) -> torch.Tensor:
        """int64 [experts]: the numbers of the experts. Made once, since on a GPU that is a launch."""
        numbers = self._numbers
        if numbers is None or numbers.device != routing_map.device or len(numbers) != routing_map.shape[1]:
            numbers = self._numbers = torch.arange(routing_map.shape[1], device=routing_map.device)
        return numbers

    def _note_largest(self, largest: torch.Tensor | None, waits: bool) -> torch.Tensor | None:
        """Checks the largest number of experts of a token. If the host will wait for the GPU in this call (`waits`), it
        is only copied, and the caller checks the result afterwards. If it will not, the GPU stops at such a token."""
        if largest is None:
            return None
        if not largest.is_cuda:
            if int(largest) > MOST_EXPERTS:
                raise ValueError(TOO_MANY)
            return None
        if not waits:
            torch._assert_async(largest <= MOST_EXPERTS, TOO_MANY)
            return None
        if self._largest is None:
            self._largest = torch.empty((), dtype=torch.int64, device="cpu", pin_memory=True)
        return self._largest.copy_(largest, non_blocking=True)

    def _combine(self, hidden: torch.Tensor, kept: Kept, weights: torch.Tensor | None) -> tuple[
            torch.Tensor, torch.Tensor | None]:
        sums, of_tokens = kept.engine.combine(hidden, kept, weights, [], processors_of(None, self.num_sms_combine_api),
                                              own_weights=True)
        return sums, None if of_tokens is None else dense(of_tokens, kept.topk_idx, kept.engine.sizes.experts)

    def _width(self, kept: Kept) -> int:
        """The number of experts of a domain."""
        return kept.engine.sizes.experts_per_rank * self.num_of_hybrid_ep_ranks_per_nvlink_domain

    def _columns(self, kept: Kept) -> torch.Tensor:
        """[received tokens][top-k]: the columns of their local experts among the experts of this rank's domain; -1: an
        expert of another rank."""
        first = self.local_rank * kept.engine.sizes.experts_per_rank
        return kept.local if first == 0 else (kept.local + first).masked_fill_(kept.local < 0, -1)

    def _token_handle(self, kept: Kept) -> RouteHandle:
        return RouteHandle.of((kept, None, None, *_received(kept), len(kept.topk_idx), self.config), kept)

    def _permute_handle(self, kept: Kept) -> RouteHandle:
        return RouteHandle.of((kept, None, None, *_received(kept), None, None, kept.expert_rows, len(kept.topk_idx),
                               self.config, Later(lambda: _is_too_small(kept))), kept)

    def _close(self) -> None:
        self._engines.close()
        self._meeting.close()


def _domain_size(given: int | None, ranks: int) -> int:
    """The number of ranks of a domain."""
    said = os.environ.get(DOMAIN_VARIABLE) or str(given or ranks)
    if not said.isdigit() or int(said) < 1 or ranks % int(said):
        raise ValueError(f"{DOMAIN_VARIABLE}: {said!r} does not divide {ranks}, the number of ranks")
    return int(said)


def _values(hidden: torch.Tensor, scaling_factor: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Rows and scales in the types that `weft.ep` takes. Scales go with 8-bit rows only, as in the original."""
    check_tensors(hidden=hidden)
    if hidden.element_size() == 1:
        if scaling_factor is None:
            raise ValueError(f"scaling_factor: rows of {hidden.dtype} need their scales")
        return hidden, scaling_factor
    return hidden.view(torch.bfloat16) if hidden.dtype == torch.float16 else hidden, None


def _rows(got: Received, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The received rows in the type of the caller's rows, and their scales."""
    data, scales = got.data if isinstance(got.data, tuple) else (got.data, None)
    return data.view(hidden.dtype), scales


def _weights_by(kept: Kept, topk_idx: torch.Tensor | None, topk_weights: torch.Tensor | None,
                probs: torch.Tensor | None) -> torch.Tensor | None:
    """Weights that a dispatch by a handle is given, in the order of the handle's selections; None: none are given."""
    if probs is None and topk_weights is not None:
        if topk_idx is None:
            raise ValueError("topk_weights: they go with topk_idx")
        probs = indices_to_map(topk_idx, topk_weights.detach(), len(kept.topk_idx), kept.engine.sizes.experts)[1]
    if probs is None:
        return None
    _check_probs(probs, len(kept.topk_idx), kept.engine.sizes.experts)
    return at_columns(probs.detach(), kept.topk_idx)


def _check_probs(probs: torch.Tensor, rows: int, columns: int) -> None:
    check_tensors(probs=probs)
    if probs.dtype != torch.float32 or tuple(probs.shape) != (rows, columns):
        raise ValueError(f"probs: float32 {[rows, columns]} is wanted, not {probs.dtype} {list(probs.shape)}")


def _checked_rows(rows: int | None, alignment: int) -> int:
    """The number of rows that a dispatch is given that does not wait."""
    if rows is None or rows <= 0 or rows % alignment:
        raise ValueError(f"num_permuted_tokens: {rows}; with non_blocking it is a positive multiple of pad_multiple, "
                         f"{alignment}")
    return rows


def _check_alignment(kept: Kept, pad_multiple: int | None) -> None:
    if pad_multiple is not None and (pad_multiple or 1) != kept.alignment:
        raise ValueError(f"pad_multiple: {pad_multiple}, and the dispatch of this handle had {kept.alignment}")


def _resized(rows: Any, wanted: int, kept: Kept) -> Any:
    """Permuted rows as a tensor of another number of rows: padded with rows of 0, or the first rows. None stays
    None."""
    if rows is None or len(rows) == wanted:
        return rows
    if kept.counts is not None and min(wanted, len(rows)) < kept.rows:
        raise ValueError(f"{min(wanted, len(rows))} rows, and the dispatch of this handle has received {kept.rows}")
    return pad_rows(rows, wanted)[:wanted]


def _kept_of(handle: Any, engines: Engines, packed: bool) -> Kept:
    """What a dispatch has kept: the first entry of its handle."""
    kept = handle[0] if isinstance(handle, (tuple, list)) and handle else None
    if not isinstance(kept, Kept) or kept.engine not in engines:
        raise TypeError("handle: what a dispatch of this buffer has answered is wanted")
    if (kept.slot is not None) != packed:
        raise ValueError("handle: rows of dispatch go back by combine, rows of dispatch_with_permute by "
                         "combine_with_unpermute")
    return kept


def _received(kept: Kept) -> tuple[Any, Any]:
    """The entries of a handle about received tokens: their number, and their local experts."""
    def number() -> torch.Tensor:
        if kept.counts is None:
            return kept.rank_end[-1:]
        return torch.tensor([kept.tokens], dtype=torch.int32, device="cpu")

    def experts() -> torch.Tensor:
        return dense((kept.local >= 0).int(), kept.local, kept.engine.sizes.experts_per_rank) > 0

    return Later(number), Later(experts)


def _padded_counts(kept: Kept) -> torch.Tensor:
    """int64 [local experts]: rows of each with those that fill up; in host memory if the host knows them."""
    if kept.counts is not None:
        return torch.tensor([aligned(count, kept.alignment) for count in kept.counts], dtype=torch.int64, device="cpu")
    rows = kept.expert_rows.long()
    return rows if kept.alignment == 1 else (rows + (kept.alignment - 1)) // kept.alignment * kept.alignment


def _is_too_small(kept: Kept) -> torch.Tensor:
    return (_padded_counts(kept).sum() > kept.rows).int().view(1)
