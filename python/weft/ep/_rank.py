"""One rank's membership in a group."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from types import TracebackType
from typing import Any

from .. import _asyncio, _weft
from .._common import I32, RANKS, U64, listed, milliseconds, note_open, option_ms, whole
from .._weft import Info, Prepared, Result
from ..errors import BusyError
from ..store import Store, handle_of
from ._operation import Operation
from ._receive import Receive, make_arrays
from ._route import Route
from ._values import (
    Array,
    CombineDType,
    DType,
    Event,
    EventKind,
    Layout,
    Memory,
    Mode,
    PeerStats,
    RankState,
    Stats,
    View,
)


def _check_numbers(op: object, processors: object) -> None:
    """Names the one that is none. For a call that has failed: the calls of every operation do without."""
    whole("op", op, U64)
    whole("processors", processors)


class Rank:
    """One rank's membership in a group, with its buffers.

    store: where the group agrees; prefix: of its keys, ending in "/". rank: its index (None: the lowest free one);
    founders: the ranks of the first view, this one among them; without any, it joins the group, or founds it alone if
    there is none (never with join_only). ordered: on a GPU, never at once with others of this process that are so too,
    and therefore with all processors. All ranks of a group have the same capacity, max_tokens, hidden, topk,
    experts_per_rank, dtype, combine_dtype, mode, window_bytes, zero_copy_bytes and memory. Types, memory and mode are
    names (``"fp8"``, ``"cuda"``) or members of `DType`, `CombineDType`, `Memory`, `Mode`. Times are in seconds. struct
    weft_ep_options says the rest.
    """

    def __init__(self, store: Store, *, rank: int | None = None, founders: Iterable[int] = (),
                 prefix: str | None = None, capacity: int = 64, max_tokens: int = 128, hidden: int = 7168,
                 topk: int = 8, experts_per_rank: int = 2, dtype: DType | str = DType.BF16,
                 combine_dtype: CombineDType | str = CombineDType.BF16, memory: Memory | str = Memory.HOST,
                 device: int | None = None, transport: str | None = None, listen: str | None = None,
                 host_id: str | None = None, op_timeout: float | None = None, lease_ttl: int = 0,
                 max_processors: int = 0, join_only: bool = False, ordered: bool = False,
                 mode: Mode | str = Mode.DEFAULT, window_bytes: int = 0, max_rows: int = 0,
                 zero_copy_bytes: int = 0, timeout: float | None = 10.0) -> None:
        options = {
            "prefix": prefix, "transport": transport, "listen": listen, "host_id": host_id,
            "rank": -1 if rank is None else rank, "capacity": capacity, "max_tokens": max_tokens, "hidden": hidden,
            "topk": topk, "experts_per_rank": experts_per_rank, "dtype": DType.of(dtype),
            "combine_dtype": CombineDType.of(combine_dtype), "op_timeout_ms": option_ms(op_timeout),
            "lease_ttl_s": lease_ttl, "memory": Memory.of(memory), "device": -1 if device is None else device,
            "max_processors": max_processors, "window_bytes": window_bytes,
            "flags": (1 if join_only else 0) | (2 if ordered else 0),
            "mode": Mode.of(mode), "max_rows": max_rows, "zero_copy_bytes": zero_copy_bytes,
            "founders": listed("founders", "ranks", founders),
        }
        self._handle = _weft.rank_open(handle_of(store), options, milliseconds(timeout))
        self.capacity = capacity or 64
        """rank indices are below it"""
        self.max_tokens = max_tokens or 128
        """tokens of a rank in one operation, at most"""
        self.hidden = hidden or 7168
        """values of a token"""
        self.topk = topk or 8
        """experts that a token selects, at most"""
        self.experts_per_rank = experts_per_rank or 2
        """experts that each rank holds"""
        self.dtype = DType(DType.of(dtype) or DType.BF16)
        """of a dispatch, where a call says no other"""
        self._host = not self._handle.cuda
        note_open(RANKS, self)

    # --- who is there ---

    @property
    def index(self) -> int:
        """This rank's index."""
        return self._handle.index

    @property
    def incarnation(self) -> int:
        """This rank's incarnation: random, new at each open."""
        return self._handle.incarnation

    @property
    def memory(self) -> Memory:
        """Where the rows lie: HOST or CUDA."""
        return Memory.HOST if self._host else Memory.CUDA

    @property
    def device(self) -> int:
        """The GPU's index; -1 for none."""
        return self._handle.device

    @property
    def zero_copy(self) -> _weft.ZeroCopy | None:
        """Memory for rows that peers read where they lie: zero_copy_bytes of it, zeroed, which the caller lays out.
        None: the rank was opened without. ``numpy.frombuffer`` makes an array of it on the host, ``torch.as_tensor`` on
        a GPU. weft_ep_get_zero_copy_memory() says which rows peers read there, and when they may be overwritten.
        `close` frees it, and refuses to while an array in it is in use; on a GPU, while the object that the array was
        made from is."""
        return self._handle.zero_copy

    @property
    def active(self) -> bool:
        """Whether this rank takes part in the next operation."""
        return self._handle.active

    @property
    def next_op(self) -> int:
        """Number of the next operation."""
        return self._handle.next_op

    @property
    def view(self) -> View:
        """The view of the next operation; before activation, epoch 0 without ranks."""
        return View(*self._handle.view(False))

    @property
    def committed_view(self) -> View:
        """The newest agreed view, which may not have taken effect yet."""
        return View(*self._handle.view(True))

    @property
    def states(self) -> list[RankState]:
        """What each rank index is to this rank: [capacity]."""
        return [RankState(one) for one in self._handle.states()]

    # --- membership ---

    def activate(self, timeout: float | None = 10.0) -> None:
        """Makes this rank active: a founder waits for the others and the first view; a joiner until the running ranks,
        which go on, have fixed its first operation. `weft.errors.DeadlineError` names who is missing."""
        self._handle.activate(milliseconds(timeout))

    def connect(self, ranks: Iterable[int], timeout: float | None = 10.0) -> None:
        """Connects to ranks, each as soon as it has been opened. The other side needs no call."""
        self._handle.connect(ranks, milliseconds(timeout))

    def offer(self, timeout: float | None = 10.0) -> None:
        """Offers this rank, which is not active, to be taken into a view: `change` of an active rank may do so."""
        self._handle.offer(milliseconds(timeout))

    def withdraw(self, rank: int | None = None, timeout: float | None = 10.0) -> None:
        """Takes the offer of a rank back; None: this one's."""
        self._handle.withdraw(self.index if rank is None else whole("rank", rank, I32), milliseconds(timeout))

    def await_start(self, timeout: float | None = None) -> int:
        """Waits until a view has taken this rank in; the number of its first operation, to which it has to come."""
        return self._handle.await_start(milliseconds(timeout))

    def change(self, add: Iterable[int] = (), remove: Iterable[int] = (), timeout: float | None = 10.0) -> None:
        """Proposes one view with all of `add`, which have offered themselves, and without all of `remove`; returns when
        it is agreed on. All of that comes true, or nothing."""
        self._handle.change(add, remove, milliseconds(timeout))

    def disconnect(self, ranks: Iterable[int], timeout: float | None = 10.0) -> None:
        """Proposes the view without ranks, this one perhaps among them; it takes effect within the next operations,
        which all of them go on running."""
        self._handle.disconnect(ranks, milliseconds(timeout))

    def mask(self, rank: int, masked: bool = True) -> None:
        """Masks an active rank, or unmasks it, from the next dispatch on: this rank sends it no tokens."""
        self._handle.mask_update(whole("rank", rank, I32), bool(masked))

    def masks(self, into: Array = None, stream: Any = None) -> list[bool] | None:
        """Whether this rank masks each rank index: [capacity]. Or into an int32 array in rank memory, which CUDA
        requires, in a stream."""
        return self._handle.masks(into, stream)

    def set_mark(self, mark: int) -> None:
        """Sets a number that this rank sends with every operation; `Info.mark` is the lowest of all ranks."""
        self._handle.set_mark(whole("mark", mark, U64))

    # --- operations ---

    def receive(self, rows: int | None = None, *, layout: Layout | str = Layout.PER_EXPERT,
                dtype: DType | str | None = None, topk: int | None = None, row_bytes: int = 0, scale_bytes: int = 0,
                alignment: int = 1, keep_places: bool = False, zero_padding: bool = False, in_place: bool = False,
                **arrays: Array) -> Receive:
        """Buffers to receive into, of `rows` rows for each expert (PER_EXPERT) or in all (default: max_tokens times the
        capacity). On host memory what is not given is made by numpy: x, scales for fp8, counts, and src_rank,
        src_token; with RANK_MAJOR local_expert and weights for `topk` (default: the group's); with PACKED slot and
        expert_end; with in_place rows_at in the place of x: the addresses of the rows, which stay in the windows. On
        CUDA memory the caller gives them. bf16 is made as uint16, fp8 as uint8. row_bytes, scale_bytes: of OPAQUE."""
        order = Layout.member(layout)
        kind = DType.member(dtype) if dtype is not None else self.dtype
        room = self.max_tokens * self.capacity if rows is None else whole("rows", rows)
        row_bytes, scale_bytes = whole("row_bytes", row_bytes), whole("scale_bytes", scale_bytes)
        topk = self.topk if topk is None else whole("topk", topk)
        if self._host:
            make_arrays(self, arrays, order, kind, room, topk or self.topk, row_bytes, scale_bytes,
                        in_place)
        flags = (1 if keep_places else 0) | (2 if zero_padding else 0)
        return Receive(self, order, room, kind, row_bytes, scale_bytes, whole("alignment", alignment), flags, arrays)

    def route(self, *, max_tokens: int = 0, max_rows: int = 0, topk: int = 0, alignment: int = 1) -> Route:
        """Memory for where the tokens of an operation go, for later ones. max_tokens, topk: of a dispatch that fills
        it (0: the group's); max_rows: that it brings (0: max_tokens of the group times the capacity); alignment: of
        `RouteArrays.slot` and `RouteArrays.expert_end`, 1 to 256. On CUDA memory with THROUGHPUT only."""
        return Route(self, max_tokens=max_tokens, max_rows=max_rows, topk=topk, alignment=alignment)

    def dispatch(self, x: Array, topk_idx: Array = None, topk_weights: Array = None, *, into: Receive,
                 scales: Array = None, dtype: DType | str = DType.GROUP, route: Route | None = None,
                 check_route: bool = False, stream: Any = None, num_tokens_at: Array = None, processors: int = 0,
                 recycle: bool = False, info: bool | None = None) -> Operation:
        """Sends this rank's tokens to their experts and receives what the others have sent.

        x: [T][H], bf16, or with `scales` e4m3; OPAQUE: rows of any bytes; rows may have a distance. topk_idx: [T][K],
        int64 or int32, global experts, -1: none. topk_weights: [T][K] f32; None: they come with the combine
        (PER_EXPERT and PACKED, with LATENCY). scales: f32 [T][H/128], ue8m0 uint32 [T][ceil(H/512)], OPAQUE uint32
        [T][n], with any strides. dtype: of the rows that are sent, within what the group was opened for. route: with
        topk_idx the dispatch fills it; without, it goes by it, and topk_weights is None; see `Route`. check_route:
        topk_idx has to be what the route knows, `weft.errors.InvalidError` names the first that differs; the dispatch
        goes by a route that is filled, and fills one that was planned; on CUDA memory the call waits for the stream,
        and cannot be captured. num_tokens_at: one number in rank memory that says T. processors: that the kernel may
        take. recycle: ends the operation of two dispatches ago. info: whether to ask what the dispatch did; None: on
        host memory only, since on CUDA memory it waits for the kernel.

        A loss is no error: see `Info.num_lost`. `weft.errors.RoomError`: `into` has too few rows, its ``rows_needed``
        says how many there are, and its ``op`` is open: call `dispatch_recv` with more room.
        """
        try:
            number, told = self._handle.dispatch(into, x, topk_idx, topk_weights, scales, route,
                                                 dtype if dtype.__class__ is DType else DType.of(dtype), stream,
                                                 num_tokens_at, processors,
                                                 (1 if recycle else 0) | (2 if check_route else 0),
                                                 self._host if info is None else bool(info))
        except TypeError:
            _check_numbers(0, processors)
            raise
        return Operation(self, number, told)

    def dispatch_send(self, x: Array, topk_idx: Array = None, topk_weights: Array = None, *, scales: Array = None,
                      dtype: DType | str = DType.GROUP, route: Route | None = None, check_route: bool = False,
                      stream: Any = None, num_tokens_at: Array = None, processors: int = 0,
                      recycle: bool = False) -> int:
        """The sending half of `dispatch`; the number of the operation."""
        try:
            return self._handle.dispatch_send(x, topk_idx, topk_weights, scales, route, DType.of(dtype), stream,
                                              num_tokens_at, processors,
                                              (1 if recycle else 0) | (2 if check_route else 0))
        except TypeError:
            _check_numbers(0, processors)
            raise

    def dispatch_recv(self, op: int, into: Receive, *, stream: Any = None, info: bool | None = None) -> Info | None:
        """The receiving half, in the order of operations; arguments and errors as with `dispatch`."""
        try:
            return self._handle.dispatch_recv(op, into, stream, self._host if info is None else bool(info))
        except TypeError:
            _check_numbers(op, 0)
            raise

    def combine(self, op: int, y: Array = None, out: Array = None, *, topk_weights: Array = None,
                row_weights: Array = None, out_weights: Array = None, bias: Sequence[Array] | None = None,
                dtype: CombineDType | str = CombineDType.GROUP, stream: Any = None, processors: int = 0,
                renormalize: bool = False, keep: bool = False, unweighted: bool = False,
                result: bool | None = None) -> Result | None:
        """Sends the experts' outputs back, and sums what comes into `out`.

        y: bf16 in the row order of the receive, [E][rows][H] or [rows][H]; None after `combine_rows`. out: bf16
        [T][H]. topk_weights: [T][K] f32, when the dispatch had none. row_weights: RANK_MAJOR [rows][K] f32, which go
        back with the rows into out_weights [T][K]. bias: up to two of bf16 [T][H], added to the sum. renormalize:
        makes up for what is missing. keep: the operation stays open for another combine. unweighted: rows are added as
        they are. result: whether to ask what the combine did; None: on host memory only.
        """
        flags = (1 if renormalize else 0) | (2 if keep else 0) | (4 if unweighted else 0)
        try:
            return self._handle.combine(op, y, out, topk_weights, row_weights, out_weights, bias,
                                        dtype if dtype.__class__ is CombineDType else CombineDType.of(dtype), stream,
                                        processors, flags, self._host if result is None else bool(result))
        except TypeError:
            _check_numbers(op, processors)
            raise

    def prepare(self, *, dtype: DType | str = DType.GROUP, combine_dtype: CombineDType | str = CombineDType.GROUP,
                processors: int = 0, recycle: bool = False, renormalize: bool = False, info: bool | None = None,
                result: bool | None = None) -> Prepared:
        """A `dispatch` and a `combine` whose options are said once, for programs that call them over and over: each is
        one call of C, without a frame of Python. Arguments, results and errors are those of the calls of the same name.

        ``dispatch(x, topk_idx, into, stream=None)`` answers (number of the operation, `Info` or None), and
        ``combine(op, y, out, topk_weights=None, stream=None, keep=False)`` a `Result` or None; their halves are
        ``dispatch_send(x, topk_idx, stream=None)``, ``dispatch_recv(op, into, stream=None)``, ``combine_send`` and
        ``combine_recv``. Shapes are exact: x [T][H]; topk_idx [T][K]; y [E][rows][H], or [rows][H]; out [T][H];
        topk_weights [T][K].
        """
        return self._handle.prepare(DType.of(dtype), CombineDType.of(combine_dtype), whole("processors", processors),
                                    1 if recycle else 0, 1 if renormalize else 0,
                                    self._host if info is None else bool(info),
                                    self._host if result is None else bool(result))

    def combine_send(self, op: int, y: Array = None, out: Array = None, *, topk_weights: Array = None,
                     row_weights: Array = None, out_weights: Array = None, bias: Sequence[Array] | None = None,
                     dtype: CombineDType | str = CombineDType.GROUP, stream: Any = None, processors: int = 0,
                     renormalize: bool = False, keep: bool = False, unweighted: bool = False) -> None:
        """The sending half of `combine`, with the same arguments."""
        flags = (1 if renormalize else 0) | (2 if keep else 0) | (4 if unweighted else 0)
        try:
            self._handle.combine_send(op, y, out, topk_weights, row_weights, out_weights, bias, CombineDType.of(dtype),
                                      stream, processors, flags, False)
        except TypeError:
            _check_numbers(op, processors)
            raise

    def combine_recv(self, op: int, y: Array = None, out: Array = None, *, topk_weights: Array = None,
                     row_weights: Array = None, out_weights: Array = None, bias: Sequence[Array] | None = None,
                     dtype: CombineDType | str = CombineDType.GROUP, stream: Any = None, processors: int = 0,
                     renormalize: bool = False, keep: bool = False, unweighted: bool = False,
                     result: bool | None = None) -> Result | None:
        """The receiving half of `combine`, with the same arguments as the sending one."""
        flags = (1 if renormalize else 0) | (2 if keep else 0) | (4 if unweighted else 0)
        try:
            return self._handle.combine_recv(op, y, out, topk_weights, row_weights, out_weights, bias,
                                             CombineDType.of(dtype), stream, processors, flags,
                                             self._host if result is None else bool(result))
        except TypeError:
            _check_numbers(op, processors)
            raise

    def combine_route(self, route: Route, y: Array = None, out: Array = None, *, topk_weights: Array = None,
                      row_weights: Array = None, out_weights: Array = None, bias: Sequence[Array] | None = None,
                      dtype: CombineDType | str = CombineDType.GROUP, stream: Any = None, processors: int = 0,
                      renormalize: bool = False, keep: bool = False, unweighted: bool = False,
                      result: bool | None = None) -> Operation:
        """A combine by a route, as an operation of its own: the rows of y, in the row order of the receive that filled
        the route, go back the ways that the tokens came. All ranks of the view call it. Arguments as with `combine`;
        `Operation.result` is what it did. With keep the operation stays open for `combine`."""
        flags = (1 if renormalize else 0) | (2 if keep else 0) | (4 if unweighted else 0)
        try:
            number, told = self._handle.combine_route(route, y, out, topk_weights, row_weights, out_weights, bias,
                                                      CombineDType.of(dtype), stream, processors, flags,
                                                      self._host if result is None else bool(result))
        except TypeError:
            _check_numbers(0, processors)
            raise
        return Operation(self, number, None, told)

    def combine_rows(self, op: int, into: Array, num_rows: int = 0) -> None:
        """RANK_MAJOR on host memory: writes into uint64 [rows] the addresses at which the outputs of the rows are to be
        written in place; then `combine` has no y."""
        self._handle.combine_rows(whole("op", op, U64), into, whole("num_rows", num_rows))

    def finish(self, op: int) -> None:
        """Ends a received operation without a combine, or one that a combine left open; all ranks do, or none."""
        self._handle.finish(whole("op", op, U64))

    def wait(self, op: int | None = None, timeout: float | None = None, *,
             result: bool = False) -> tuple[Info, Result | None]:
        """CUDA: waits until the launches of an operation (None: the newest, also of a graph) have run."""
        return self._handle.wait(op, bool(result), milliseconds(timeout))

    def barrier(self) -> None:
        """An operation without tokens: returns when every active rank has come to it."""
        self._handle.barrier()

    # --- events and counters ---

    def next_event(self) -> Event | None:
        """The oldest event that is queued, or None. It does not wait."""
        event = self._handle.next_event()
        return None if event is None else Event(EventKind(event[0]), *event[1:])

    def fileno(self) -> int:
        """A descriptor that is readable while events are queued: for select and poll, never to read from."""
        return self._handle.fileno()

    def events(self) -> AsyncIterator[Event]:
        """Events as they come: ``async for event in rank.events()``."""
        return _asyncio.each(self, self.next_event)

    def interrupt(self) -> None:
        """Ends the wait that another thread is in, else the next one, with `weft.errors.CanceledError`. What that
        leaves: see weft_ep_interrupt()."""
        self._handle.interrupt()

    @property
    def stats(self) -> Stats:
        """Counters since the rank was opened."""
        return Stats(*self._handle.stats())

    def peer_stats(self, rank: int) -> PeerStats:
        """Counters of a connected peer."""
        return PeerStats(*self._handle.peer_stats(whole("rank", rank, I32)))

    def metrics(self) -> str:
        """Counters of this rank and its peers, in the OpenMetrics text format 1.0."""
        return self._handle.metrics()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._handle.closed

    def close(self) -> None:
        """Leaves at once and frees everything; calls of other threads end with `weft.errors.ClosedError`. A second time
        is no error. `weft.errors.BusyError`: an array in `zero_copy` is in use, and the rank stays open. Where an
        exception ends a ``with``, which may hold such arrays itself, the last of them closes the rank."""
        self._handle.close()
        _asyncio.wake(self)

    def __enter__(self) -> Rank:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        try:
            self.close()
        except BusyError:  # the exception, which is to be told, may hold the arrays itself
            if kind is None or not self._handle.close_after_views():
                raise

    def __repr__(self) -> str:
        return "<weft.ep.Rank closed>" if self.closed else f"<weft.ep.Rank {self.index}>"
