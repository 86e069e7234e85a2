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
    """Raises an error that names the argument that is no number. Only used after a call has failed, so that successful
    operations need no such check."""
    whole("op", op, U64)
    whole("processors", processors)


class Rank:
    """One rank's membership in a group, with its buffers.

    store: where the group agrees; prefix: prefix of the group's keys, ending in "/". rank: index of this rank (None:
    the lowest free one); founders: the ranks of the first view, this one among them. Without founders this rank joins
    the group, or founds it alone if there is none (never with join_only). ordered: on a GPU, the caller promises that
    this rank never runs at the same time as other ranks of this process with the flag, so that each may use all
    processors. All ranks of a group have the same capacity, max_tokens, hidden, topk, experts_per_rank, dtype,
    combine_dtype, mode, window_bytes, zero_copy_bytes, operations_per_step and memory. Types, memory and mode are
    names (``"fp8"``, ``"cuda"``) or members of `DType`, `CombineDType`, `Memory`, `Mode`. Times are in seconds. struct
    weft_ep_options describes the other arguments.
    """

    def __init__(self, store: Store, *, rank: int | None = None, founders: Iterable[int] = (),
                 prefix: str | None = None, capacity: int = 64, max_tokens: int = 128, hidden: int = 7168,
                 topk: int = 8, experts_per_rank: int = 2, dtype: DType | str = DType.BF16,
                 combine_dtype: CombineDType | str = CombineDType.BF16, memory: Memory | str = Memory.HOST,
                 device: int | None = None, transport: str | None = None, listen: str | None = None,
                 host_id: str | None = None, op_timeout: float | None = None, lease_ttl: int = 0,
                 max_processors: int = 0, join_only: bool = False, ordered: bool = False,
                 mode: Mode | str = Mode.DEFAULT, window_bytes: int = 0, max_rows: int = 0,
                 zero_copy_bytes: int = 0, operations_per_step: int = 1, timeout: float | None = 10.0) -> None:
        options = {
            "prefix": prefix, "transport": transport, "listen": listen, "host_id": host_id,
            "rank": -1 if rank is None else rank, "capacity": capacity, "max_tokens": max_tokens, "hidden": hidden,
            "topk": topk, "experts_per_rank": experts_per_rank, "dtype": DType.of(dtype),
            "combine_dtype": CombineDType.of(combine_dtype, "combine_dtype"), "op_timeout_ms": option_ms(op_timeout),
            "lease_ttl_s": lease_ttl, "memory": Memory.of(memory), "device": -1 if device is None else device,
            "max_processors": max_processors, "window_bytes": window_bytes,
            "flags": (1 if join_only else 0) | (2 if ordered else 0),
            "mode": Mode.of(mode), "max_rows": max_rows, "zero_copy_bytes": zero_copy_bytes,
            "operations_per_step": operations_per_step,
            "founders": listed("founders", "ranks", founders),
        }
        self._handle = _weft.rank_open(handle_of(store), options, milliseconds(timeout))
        self.capacity = capacity or 64
        """all rank indices are less than it"""
        self.max_tokens = max_tokens or 128
        """maximum number of tokens of a rank in one operation"""
        self.hidden = hidden or 7168
        """values of a token"""
        self.topk = topk or 8
        """maximum number of experts that a token selects"""
        self.experts_per_rank = experts_per_rank or 2
        """experts that each rank holds"""
        self.dtype = DType(DType.of(dtype) or DType.BF16)
        """type of a dispatch if a call names no other"""
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
        """The GPU's index; -1 if there is none."""
        return self._handle.device

    @property
    def zero_copy(self) -> _weft.ZeroCopy | None:
        """Memory for rows that peers read in place: zero_copy_bytes, zeroed, in any layout. None: the rank was opened
        without it. ``numpy.frombuffer`` makes an array of it on the host, ``torch.as_tensor`` on a GPU.
        weft_ep_get_zero_copy_memory() describes which rows peers read there, and when they may be overwritten. `close`
        frees the memory. It raises an error while an array in this memory is in use; on a GPU, while the object from
        which the array was made is in use."""
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
        """State of each rank index, as this rank sees it: [capacity]."""
        return [RankState(one) for one in self._handle.states()]

    # --- membership ---

    def activate(self, timeout: float | None = 10.0) -> None:
        """Makes this rank active. A founder waits for the other founders and the first view. A joiner waits until the
        running ranks, which continue meanwhile, have fixed its first operation. `weft.errors.DeadlineError` names the
        missing ranks."""
        self._handle.activate(milliseconds(timeout))

    def connect(self, ranks: Iterable[int], timeout: float | None = 10.0) -> None:
        """Connects to ranks, each as soon as it has been opened. The other side needs no call."""
        self._handle.connect(ranks, milliseconds(timeout))

    def offer(self, timeout: float | None = 10.0) -> None:
        """Offers this rank, which is not active, for a view: an active rank may then add it with `change`."""
        self._handle.offer(milliseconds(timeout))

    def withdraw(self, rank: int | None = None, timeout: float | None = 10.0) -> None:
        """Withdraws the offer of a rank; None: of this rank."""
        self._handle.withdraw(self.index if rank is None else whole("rank", rank, I32), milliseconds(timeout))

    def await_start(self, timeout: float | None = None) -> int:
        """Waits until a view has taken this rank in, and returns the number of its first operation, in which it has to
        take part."""
        return self._handle.await_start(milliseconds(timeout))

    def change(self, add: Iterable[int] = (), remove: Iterable[int] = (), timeout: float | None = 10.0) -> None:
        """Proposes one view with all of `add`, which have offered themselves, and without all of `remove`; returns when
        it is agreed on. The whole change happens, or nothing."""
        self._handle.change(add, remove, milliseconds(timeout))

    def disconnect(self, ranks: Iterable[int], timeout: float | None = 10.0) -> None:
        """Proposes the view without `ranks`, which may include this one. It takes effect within the next few
        operations, which all ranks, including the leaving ones, have to run."""
        self._handle.disconnect(ranks, milliseconds(timeout))

    def mask(self, rank: int, masked: bool = True) -> None:
        """Masks an active rank, or unmasks it, from the next dispatch on: this rank sends it no tokens."""
        self._handle.mask_update(whole("rank", rank, I32), bool(masked))

    def masks(self, into: Array = None, stream: Any = None) -> list[bool] | None:
        """Whether this rank masks each rank index: [capacity]. With `into` the call writes to an int32 array in rank
        memory instead, in a stream; CUDA requires that."""
        return self._handle.masks(into, stream)

    def set_mark(self, mark: int) -> None:
        """Sets a number that this rank sends with every operation; `Info.mark` is the lowest number of all ranks."""
        self._handle.set_mark(whole("mark", mark, U64))

    # --- operations ---

    def receive(self, rows: int | None = None, *, layout: Layout | str = Layout.PER_EXPERT,
                dtype: DType | str | None = None, topk: int | None = None, row_bytes: int = 0, scale_bytes: int = 0,
                alignment: int = 1, keep_places: bool = False, zero_padding: bool = False, in_place: bool = False,
                **arrays: Array) -> Receive:
        """Buffers to receive into, of `rows` rows for each expert (PER_EXPERT) or in total (default: max_tokens times
        the capacity). On host memory numpy makes the arrays that are not given: x, scales for fp8, counts, src_rank and
        src_token; with RANK_MAJOR local_expert and weights for `topk` (default: the group's); with PACKED slot,
        expert_end and weights; with in_place rows_at instead of x: the addresses of the rows, which stay in the
        windows. On CUDA memory the caller gives all arrays. numpy's type is uint16 for bf16 and uint8 for fp8.
        row_bytes, scale_bytes: sizes of OPAQUE rows and scales."""
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
        """A record of where the tokens of an operation go, for later operations. max_tokens, topk: maximum of a
        dispatch that fills it (0: the group's); max_rows: maximum number of rows received in it (0: max_tokens of the
        group times the capacity); alignment: alignment in `RouteArrays.slot` and `RouteArrays.expert_end`, 1 to 256. On
        CUDA memory this needs THROUGHPUT; host memory has routes in both modes."""
        return Route(self, max_tokens=max_tokens, max_rows=max_rows, topk=topk, alignment=alignment)

    def dispatch(self, x: Array, topk_idx: Array = None, topk_weights: Array = None, *, into: Receive,
                 scales: Array = None, dtype: DType | str = DType.GROUP, route: Route | None = None,
                 check_route: bool = False, stream: Any = None, num_tokens_at: Array = None, processors: int = 0,
                 recycle: bool = False, info: bool | None = None) -> Operation:
        """Sends this rank's tokens to their experts and receives what the others have sent.

        x: [T][H], bf16, or with `scales` e4m3; OPAQUE: rows of any bytes; rows may have a distance. topk_idx: [T][K],
        int64 or int32, global experts, -1: none; its number of rows is T, and further rows of the other arrays, also of
        the combine, are not used. topk_weights: [T][K] f32; None: they come with the combine (PER_EXPERT and PACKED,
        with LATENCY). scales: f32 [T][H/128], ue8m0 uint32 [T][ceil(H/512)], OPAQUE uint32 [T][n], with any strides.
        dtype: type of the rows that are sent, with rows no larger than those that the group was opened for. route: with
        topk_idx the dispatch fills the route; without topk_idx it goes by the route, and topk_weights is None; see
        `Route`. check_route: topk_idx has to be equal to the selections in the route, else `weft.errors.InvalidError`
        names the first difference. The dispatch then uses the route if it is filled, and fills it if it was only
        planned; on CUDA memory the call waits for the stream, and cannot be captured. num_tokens_at: one number in rank
        memory, which is T. processors: maximum number of processors of the kernel. recycle: ends the operation of two
        dispatches ago. info: whether to return what the dispatch did; None: on host memory only, because on CUDA memory
        it requires to wait for the kernel.

        The loss of a rank is no error: see `Info.num_lost`. `weft.errors.RoomError`: `into` has too few rows. The
        error's ``rows_needed`` is the necessary number, and its ``op`` is open: call `dispatch_recv` with more room.
        """
        try:
            number, returned = self._handle.dispatch(into, x, topk_idx, topk_weights, scales, route,
                                                     dtype if dtype.__class__ is DType else DType.of(dtype), stream,
                                                     num_tokens_at, processors,
                                                     (1 if recycle else 0) | (2 if check_route else 0),
                                                     self._host if info is None else bool(info))
        except TypeError:
            _check_numbers(0, processors)
            raise
        return Operation(self, number, returned)

    def dispatch_send(self, x: Array, topk_idx: Array = None, topk_weights: Array = None, *, scales: Array = None,
                      dtype: DType | str = DType.GROUP, route: Route | None = None, check_route: bool = False,
                      stream: Any = None, num_tokens_at: Array = None, processors: int = 0,
                      recycle: bool = False) -> int:
        """The sending half of `dispatch`; returns the number of the operation."""
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
        """Sends the experts' outputs back, and sums the received rows into `out`.

        y: bf16 in the row order of the receive, [E][rows][H] or [rows][H]; None after `combine_rows`. out: bf16
        [T][H]. topk_weights: [T][K] f32, if the dispatch had none. row_weights: f32, RANK_MAJOR [rows][K], otherwise
        one for each row of y; they are sent back with the rows into out_weights [T][K]. bias: up to two arrays bf16
        [T][H], added to the sum. renormalize: scales tokens with missing contributions by (all weights) / (weights that
        came). keep: the operation stays open for another combine. unweighted: rows are added without weights. result:
        whether to return what the combine did; None: on host memory only.
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
        """A `dispatch` and a `combine` with fixed options, for programs that call them very often: each is one call of
        C, without a frame of Python. Arguments, results and errors are those of the calls of the same name.

        ``dispatch(x, topk_idx, into, stream=None)`` returns (number of the operation, `Info` or None), and
        ``combine(op, y, out, topk_weights=None, stream=None, keep=False)`` a `Result` or None; their halves are
        ``dispatch_send(x, topk_idx, stream=None)``, ``dispatch_recv(op, into, stream=None)``, ``combine_send`` and
        ``combine_recv``. Shapes are exact: x [T][H]; topk_idx [T][K]; y [E][rows][H], or [rows][H]; out [T][H];
        topk_weights [T][K].
        """
        return self._handle.prepare(DType.of(dtype), CombineDType.of(combine_dtype, "combine_dtype"),
                                    whole("processors", processors),
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
        """A combine that goes by a route, as a separate operation: sends the rows of y, in the row order of the receive
        that filled the route, back to the ranks from which the tokens came. All ranks of the view have to call it.
        Arguments are as with `combine`; `Operation.result` says what it did. With keep the operation stays open for
        `combine`."""
        flags = (1 if renormalize else 0) | (2 if keep else 0) | (4 if unweighted else 0)
        try:
            number, returned = self._handle.combine_route(route, y, out, topk_weights, row_weights, out_weights, bias,
                                                      CombineDType.of(dtype), stream, processors, flags,
                                                      self._host if result is None else bool(result))
        except TypeError:
            _check_numbers(0, processors)
            raise
        return Operation(self, number, None, returned)

    def combine_rows(self, op: int, into: Array, num_rows: int = 0) -> None:
        """RANK_MAJOR on host memory: writes into uint64 [rows] the addresses at which the caller has to write the
        outputs of the rows in place; then `combine` has no y."""
        self._handle.combine_rows(whole("op", op, U64), into, whole("num_rows", num_rows))

    def finish(self, op: int) -> None:
        """Ends a received operation without a combine, or an operation that a combine left open. Either all ranks do
        this, or none."""
        self._handle.finish(whole("op", op, U64))

    def wait(self, op: int | None = None, timeout: float | None = None, *,
             result: bool = False) -> tuple[Info, Result | None]:
        """CUDA: waits until the launches of an operation (None: the newest, also of a graph) have run."""
        return self._handle.wait(op, bool(result), milliseconds(timeout))

    def barrier(self) -> None:
        """Runs an operation without tokens: returns when every active rank has reached it."""
        self._handle.barrier()

    # --- events and counters ---

    def next_event(self) -> Event | None:
        """Takes the oldest event in the queue, or returns None. The call does not wait."""
        event = self._handle.next_event()
        return None if event is None else Event(EventKind(event[0]), *event[1:])

    def fileno(self) -> int:
        """A descriptor that is readable while events are queued. Use it for select and poll, but never read from it."""
        return self._handle.fileno()

    def events(self) -> AsyncIterator[Event]:
        """Events as they come: ``async for event in rank.events()``."""
        return _asyncio.each(self, self.next_event)

    def interrupt(self) -> None:
        """Ends the present wait of another thread, or else the next wait, with `weft.errors.CanceledError`.
        weft_ep_interrupt() describes the state afterwards."""
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
        """Leaves at once and frees everything; calls of other threads end with `weft.errors.ClosedError`. A second call
        is no error. `weft.errors.BusyError`: an array in `zero_copy` is in use, and the rank stays open. If an
        exception ends a ``with``, the exception may itself hold such arrays; the rank is then closed when the last
        array is released."""
        self._handle.close()
        _asyncio.wake(self)

    def __enter__(self) -> Rank:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        try:
            self.close()
        except BusyError:  # the exception that is raised may hold the arrays itself
            if kind is None or not self._handle.close_after_views():
                raise

    def __repr__(self) -> str:
        return "<weft.ep.Rank closed>" if self.closed else f"<weft.ep.Rank {self.index}>"
