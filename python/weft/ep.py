"""Elastic expert parallelism: dispatch and combine among ranks that join, leave and die.

One rank of two, on host memory with numpy::

    with weft.ep.Rank(store, rank=0, founders=[0, 1], hidden=256, topk=2, experts_per_rank=2) as rank:
        rank.activate()
        into = rank.receive(rows=256)                    # buffers for what comes, made once
        operation = rank.dispatch(x, topk_idx, topk_weights, into=into)
        y = experts(into.x, into.counts)                 # [E][rows][H]
        operation.combine(y, out)                        # [T][H]

**Symbols in shapes.** T: tokens of this rank. H: hidden. K: top-k of the dispatch. E: experts per rank. [rows]: the
room of the receive, so [E][rows] is E parts of as many rows each. [capacity]: that of the group.

**Types.** Rows are bf16, or fp8 (e4m3) with scales; see `weft.memory` for frameworks without them. **Memory.** All
arrays lie in the rank's memory: of the host, or of its GPU. **CUDA.** Calls launch kernels in ``stream`` (a number, or
torch's, cupy's or ``__cuda_stream__`` objects; None: the default stream) and return; with ``info=True`` they wait. The
arrays have to stay unchanged until the kernels have run; the rank keeps them alive until the operation after the next.
One thread at a time uses a rank (`weft.errors.BusyError` else); `Rank.next_event`, `Rank.events`, `Rank.interrupt` and
`Rank.committed_view` are for any thread.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Iterable, Sequence
from types import TracebackType
from typing import Any, NamedTuple

from . import _asyncio, _weft
from ._common import RANKS, milliseconds, note_open, option_ms
from ._weft import Info, Result
from .store import Store

__all__ = ["DType", "Event", "EventKind", "Info", "Layout", "Limits", "Memory", "Mode", "Operation", "PeerStats",
           "Rank", "RankState", "Receive", "Result", "Stats", "View", "limits"]

Array = Any
"""An array of any framework, or a `weft.Buffer` of one."""


class _Named(enum.IntEnum):
    @classmethod
    def of(cls, value: Any) -> int:
        """The number of a name such as ``"bf16"``, of a member or of a number."""
        if isinstance(value, str):
            try:
                return int(cls[value.upper()])
            except KeyError:
                names = ", ".join(name.lower() for name in cls.__members__)
                raise ValueError(f"{cls.__name__}: there is no {value!r}, but {names}") from None
        return int(cls(value))


class DType(_Named):
    """The type of the rows that a dispatch, or a combine, sends."""

    GROUP = 0
    """as the group was opened; there bf16"""
    BF16 = 1
    FP8 = 2
    """e4m3, one f32 scale for 128 values"""
    FP8_POW2 = 3
    """the same, the scale rounded up to a power of two"""
    FP8_UE8M0 = 4
    """the same, the scales as ue8m0: uint32 [ceil(H/512)] for a row"""
    OPAQUE = 5
    """bytes that the library does not look at, and 4-byte units of scales"""


class CombineDType(_Named):
    """The type of the values that a combine sends; what the caller gives and gets is bf16."""

    GROUP = 0
    BF16 = 1
    LOGFMT10 = 2
    """10 bits a value: see enum weft_ep_combine_dtype"""


class Layout(_Named):
    """How received rows are laid out."""

    PER_EXPERT = 1
    """x [E][rows][H]: the rows of each local expert; the combine weighs and sums"""
    RANK_MAJOR = 2
    """x [rows][H]: one row for a token on each rank; the caller weighs, the combine adds"""
    PACKED = 3
    """x [rows][H]: as PER_EXPERT, the parts of experts one after the other"""


class Memory(_Named):
    """Where the rows of operations lie."""

    HOST = 0
    CUDA = 1
    AUTO = 2
    """CUDA if there is a GPU that can do it, else host"""


class Mode(_Named):
    """What a group is made for."""

    DEFAULT = 0
    """LATENCY for few tokens, else THROUGHPUT"""
    LATENCY = 1
    """a few tokens as fast as they can be"""
    THROUGHPUT = 2
    """many tokens, through windows of a bounded size"""


class RankState(enum.IntEnum):
    """What a rank index is to this rank."""

    ABSENT = 0
    CONNECTED = 1
    ACTIVE = 2
    MASKED = 3
    LOST = 4


class EventKind(enum.IntEnum):
    """What happened in the group, as this rank sees it."""

    CONNECTED = 1
    """windows with the rank are mapped in both directions"""
    PEER_LOST = 2
    """it was found dead or silent; `Event.detail` says how"""
    COMMITTED = 3
    """a view is agreed on"""
    ACTIVATED = 4
    """a view takes effect with operation `Event.op`"""
    RELEASED = 5
    """windows with the rank are unmapped"""
    STORE_LOST = 6
    """the store does not answer: operations go on, changes of the view wait"""
    STORE_BACK = 7
    """it answers again"""
    FENCED = 8
    """this rank was removed"""


class Event(NamedTuple):
    """One event of a group."""

    kind: EventKind
    """what happened"""
    rank: int
    """the peer concerned; -1: none"""
    incarnation: int
    """of that rank; 0: none"""
    epoch: int
    """the view concerned; 0: none"""
    op: int
    """ACTIVATED: the operation; else 0"""
    time_ns: int
    """when, by ``time.monotonic_ns()``"""
    dropped: int
    """events for which there was no room since the one that was taken before"""
    detail: str
    """a few words, or "" """


class View(NamedTuple):
    """The agreed list of active ranks."""

    epoch: int
    """its number"""
    ranks: list[int]
    """ascending"""


class Stats(NamedTuple):
    """Counters since the rank was opened: see struct weft_ep_stats."""

    operations: int
    dispatch_wire_bytes: int
    dispatch_logical_bytes: int
    combine_wire_bytes: int
    combine_logical_bytes: int
    connected: int
    window_bytes: int
    activations: int
    lost: int
    missing: int
    wait_ns: int


class PeerStats(NamedTuple):
    """Counters of one peer, since it was connected."""

    incarnation: int
    sent_bytes: int
    received_bytes: int
    window_bytes: int
    wait_ns: int


class Limits(NamedTuple):
    """How large groups may be: see struct weft_ep_limits."""

    max_tokens: int
    max_hidden: int
    max_topk: int
    max_experts_per_rank: int
    max_capacity: int
    max_cuda_ranks: int
    depth: int
    max_combines: int
    max_latency_tokens: int
    min_processors: int


def limits() -> Limits:
    """The limits of this library."""
    return Limits(*_weft.limits())


class Told(NamedTuple):
    """What a dispatch brought, as ``Receive(told=...)`` has it on host memory."""

    op: int
    epoch: int
    mark: int
    num_ranks: int
    num_rows: int
    rows_needed: int
    num_lost: int
    written: int


class Receive:
    """The buffers that operations are received into, checked once for any number of operations: see `Rank.receive`.

    The arrays are attributes, as they were given or made: x, scales, counts, src_rank, src_token, range, local_expert,
    weights, expert_total, wait_ns, slot, expert_end, lost, told, rows_at; None for those that there are none of. Their
    shapes are those of struct weft_ep_recv_args.
    """

    FIELDS = ("x", "scales", "counts", "src_rank", "src_token", "range", "local_expert", "weights", "expert_total",
              "wait_ns", "slot", "expert_end", "lost", "told", "rows_at")

    def __init__(self, rank: Rank, layout: Any, rows: int, dtype: Any, row_bytes: int, scale_bytes: int,
                 alignment: int, flags: int, arrays: dict[str, Array]) -> None:
        unknown = set(arrays) - set(self.FIELDS)
        if unknown:
            raise TypeError(f"receive: there is no {', '.join(sorted(unknown))}, but {', '.join(self.FIELDS)}")
        self.x = arrays.get("x")
        self.scales = arrays.get("scales")
        self.counts = arrays.get("counts")
        self.src_rank = arrays.get("src_rank")
        self.src_token = arrays.get("src_token")
        self.range = arrays.get("range")
        self.local_expert = arrays.get("local_expert")
        self.weights = arrays.get("weights")
        self.expert_total = arrays.get("expert_total")
        self.wait_ns = arrays.get("wait_ns")
        self.slot = arrays.get("slot")
        self.expert_end = arrays.get("expert_end")
        self.lost = arrays.get("lost")
        self.rows_at = arrays.get("rows_at")
        self.told_array = arrays.get("told")
        self.layout = Layout(Layout.of(layout))
        """how the rows are laid out"""
        self.rows = rows
        """the room"""
        self._handle = _weft.receive(rank._handle, int(self.layout), rows, DType.of(dtype), row_bytes, scale_bytes,
                                     alignment, flags, arrays)

    @property
    def told(self) -> Told | None:
        """What the last dispatch brought; host memory, where an array ``told`` was given."""
        told = self._handle.told
        return None if told is None else Told(*told)


class Operation:
    """One dispatch, and the combine that answers it."""

    __slots__ = ("info", "number", "rank")

    def __init__(self, rank: Rank, number: int, info: Info | None) -> None:
        self.rank = rank
        """the rank"""
        self.number = number
        """all ranks number operations alike"""
        self.info = info
        """what the dispatch did; None if it was not asked for"""

    def combine(self, y: Array = None, out: Array = None, **options: Any) -> Result | None:
        """`Rank.combine` of this operation."""
        return self.rank.combine(self.number, y, out, **options)

    def combine_rows(self, into: Array) -> None:
        """`Rank.combine_rows` of this operation."""
        self.rank.combine_rows(self.number, into, self.info.num_rows if self.info else 0)

    def finish(self) -> None:
        """`Rank.finish` of this operation."""
        self.rank.finish(self.number)

    def wait(self, timeout: float | None = None, *, result: bool = False) -> tuple[Info, Result | None]:
        """`Rank.wait` of this operation."""
        return self.rank.wait(self.number, timeout, result=result)

    def __repr__(self) -> str:
        return f"<weft.ep.Operation {self.number}>"


class Rank:
    """One rank's membership in a group, with its buffers.

    store: where the group agrees; prefix: of its keys, ending in "/". rank: its index (None: the lowest free one);
    founders: the ranks of the first view, this one among them; without any, it joins the group, or founds it alone if
    there is none (never with join_only). All ranks of a group have the same capacity, max_tokens, hidden, topk,
    experts_per_rank, dtype, combine_dtype, mode, window_bytes and memory. Types, memory and mode are names (``"fp8"``,
    ``"cuda"``) or members of `DType`, `CombineDType`, `Memory`, `Mode`. Times are in seconds. struct weft_ep_options
    says the rest.
    """

    def __init__(self, store: Store, *, rank: int | None = None, founders: Iterable[int] = (),
                 prefix: str | None = None, capacity: int = 64, max_tokens: int = 128, hidden: int = 7168,
                 topk: int = 8, experts_per_rank: int = 2, dtype: DType | str = DType.BF16,
                 combine_dtype: CombineDType | str = CombineDType.BF16, memory: Memory | str = Memory.HOST,
                 device: int | None = None, transport: str | None = None, listen: str | None = None,
                 host_id: str | None = None, op_timeout: float | None = None, lease_ttl: int = 0,
                 max_processors: int = 0, join_only: bool = False, mode: Mode | str = Mode.DEFAULT,
                 window_bytes: int = 0, max_rows: int = 0, timeout: float | None = 10.0) -> None:
        options = {
            "prefix": prefix, "transport": transport, "listen": listen, "host_id": host_id,
            "rank": -1 if rank is None else rank, "capacity": capacity, "max_tokens": max_tokens, "hidden": hidden,
            "topk": topk, "experts_per_rank": experts_per_rank, "dtype": DType.of(dtype),
            "combine_dtype": CombineDType.of(combine_dtype), "op_timeout_ms": option_ms(op_timeout),
            "lease_ttl_s": lease_ttl, "memory": Memory.of(memory), "device": -1 if device is None else device,
            "max_processors": max_processors, "flags": int(join_only), "window_bytes": window_bytes,
            "mode": Mode.of(mode), "max_rows": max_rows, "founders": list(founders),
        }
        self._handle = _weft.rank_open(store._handle, options, milliseconds(timeout))
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
        self._handle.withdraw(self.index if rank is None else rank, milliseconds(timeout))

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
        self._handle.mask_update(rank, masked)

    def masks(self, into: Array = None, stream: Any = None) -> list[bool] | None:
        """Whether this rank masks each rank index: [capacity]. Or into an int32 array in rank memory, which CUDA
        requires, in a stream."""
        return self._handle.masks(into, stream)

    def set_mark(self, mark: int) -> None:
        """Sets a number that this rank sends with every operation; `Info.mark` is the lowest of all ranks."""
        self._handle.set_mark(mark)

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
        order = Layout(Layout.of(layout))
        kind = DType(DType.of(dtype)) if dtype is not None else self.dtype
        room = self.max_tokens * self.capacity if rows is None else rows
        if self._host:
            self._make_arrays(arrays, order, kind, room, topk or self.topk, row_bytes, scale_bytes, in_place)
        flags = int(keep_places) | int(zero_padding) << 1
        return Receive(self, order, room, kind, row_bytes, scale_bytes, alignment, flags, arrays)

    def _make_arrays(self, arrays: dict[str, Array], layout: Layout, dtype: DType, rows: int, topk: int,
                     row_bytes: int, scale_bytes: int, in_place: bool) -> None:
        import numpy as np

        experts, hidden = self.experts_per_rank, self.hidden
        shape = (experts, rows) if layout == Layout.PER_EXPERT else (rows,)

        def make(name: str, extra: tuple[int, ...], kind: Any) -> None:
            if name not in arrays:
                arrays[name] = np.zeros(extra, kind)

        if in_place:
            make("rows_at", shape, np.uint64)
        elif dtype == DType.BF16:
            make("x", (*shape, hidden), np.uint16)
        else:
            make("x", (*shape, row_bytes if dtype == DType.OPAQUE else hidden), np.uint8)
        if not in_place and dtype in (DType.FP8, DType.FP8_POW2):
            make("scales", (*shape, (hidden + 127) // 128), np.float32)
        elif not in_place and dtype == DType.FP8_UE8M0:
            make("scales", (*shape, (hidden + 511) // 512), np.uint32)
        elif not in_place and dtype == DType.OPAQUE and scale_bytes:
            make("scales", (*shape, scale_bytes // 4), np.uint32)
        make("counts", (experts,), np.int32)
        make("src_rank", shape, np.int32)
        make("src_token", shape, np.int32)
        if layout == Layout.RANK_MAJOR:
            make("local_expert", (rows, topk), np.int32)
            make("weights", (rows, topk), np.float32)
        if layout == Layout.PACKED:
            make("slot", (rows, topk), np.int32)
            make("expert_end", (experts,), np.int32)

    def dispatch(self, x: Array, topk_idx: Array, topk_weights: Array = None, *, into: Receive, scales: Array = None,
                 dtype: DType | str = DType.GROUP, stream: Any = None, num_tokens_at: Array = None,
                 processors: int = 0, recycle: bool = False, info: bool | None = None) -> Operation:
        """Sends this rank's tokens to their experts and receives what the others have sent.

        x: [T][H], bf16, or with `scales` e4m3; rows may have a distance. topk_idx: [T][K], int64 or int32, global
        experts, -1: none. topk_weights: [T][K] f32; None: they come with the combine (PER_EXPERT and PACKED). scales:
        f32 [T][H/128], ue8m0 uint32 [T][ceil(H/512)], with any strides. num_tokens_at: one number in rank memory that
        says T. recycle: ends the operation of two dispatches ago. info: whether to ask what the dispatch did; None: on
        host memory only, since on CUDA memory it waits for the kernel.

        A loss is no error: see `Info.num_lost`. `weft.errors.RoomError`: `into` has too few rows, its ``rows_needed``
        says how many there are, and its ``op`` is open: call `dispatch_recv` with more room.
        """
        number, told = self._handle.dispatch(into._handle, x, topk_idx, topk_weights, scales,
                                             dtype if dtype.__class__ is DType else DType.of(dtype), stream,
                                             num_tokens_at, processors, int(recycle),
                                             self._host if info is None else info)
        return Operation(self, number, told)

    def dispatch_send(self, x: Array, topk_idx: Array, topk_weights: Array = None, *, scales: Array = None,
                      dtype: DType | str = DType.GROUP, stream: Any = None, num_tokens_at: Array = None,
                      processors: int = 0, recycle: bool = False) -> int:
        """The sending half of `dispatch`; the number of the operation."""
        return self._handle.dispatch_send(x, topk_idx, topk_weights, scales, DType.of(dtype), stream, num_tokens_at,
                                          processors, int(recycle))

    def dispatch_recv(self, op: int, into: Receive, *, stream: Any = None, info: bool | None = None) -> Info | None:
        """The receiving half, in the order of operations; arguments and errors as with `dispatch`."""
        return self._handle.dispatch_recv(op, into._handle, stream, self._host if info is None else info)

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
        flags = renormalize | keep << 1 | unweighted << 2
        return self._handle.combine(op, y, out, topk_weights, row_weights, out_weights, bias,
                                    dtype if dtype.__class__ is CombineDType else CombineDType.of(dtype), stream,
                                    processors, flags, self._host if result is None else result)

    def combine_send(self, op: int, y: Array = None, out: Array = None, *, topk_weights: Array = None,
                     row_weights: Array = None, out_weights: Array = None, bias: Sequence[Array] | None = None,
                     dtype: CombineDType | str = CombineDType.GROUP, stream: Any = None, processors: int = 0,
                     renormalize: bool = False, keep: bool = False, unweighted: bool = False) -> None:
        """The sending half of `combine`, with the same arguments."""
        flags = renormalize | keep << 1 | unweighted << 2
        self._handle.combine_send(op, y, out, topk_weights, row_weights, out_weights, bias, CombineDType.of(dtype),
                                  stream, processors, flags, False)

    def combine_recv(self, op: int, y: Array = None, out: Array = None, *, topk_weights: Array = None,
                     row_weights: Array = None, out_weights: Array = None, bias: Sequence[Array] | None = None,
                     dtype: CombineDType | str = CombineDType.GROUP, stream: Any = None, processors: int = 0,
                     renormalize: bool = False, keep: bool = False, unweighted: bool = False,
                     result: bool | None = None) -> Result | None:
        """The receiving half of `combine`, with the same arguments as the sending one."""
        flags = renormalize | keep << 1 | unweighted << 2
        return self._handle.combine_recv(op, y, out, topk_weights, row_weights, out_weights, bias,
                                         CombineDType.of(dtype), stream, processors, flags,
                                         self._host if result is None else result)

    def combine_rows(self, op: int, into: Array, num_rows: int = 0) -> None:
        """RANK_MAJOR on host memory: writes into uint64 [rows] the addresses at which the outputs of the rows are to be
        written in place; then `combine` has no y."""
        self._handle.combine_rows(op, into, num_rows)

    def finish(self, op: int) -> None:
        """Ends a received operation without a combine, or one that a combine left open; all ranks do, or none."""
        self._handle.finish(op)

    def wait(self, op: int | None = None, timeout: float | None = None, *,
             result: bool = False) -> tuple[Info, Result | None]:
        """CUDA: waits until the launches of an operation (None: the newest, also of a graph) have run."""
        return self._handle.wait(op, result, milliseconds(timeout))

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
        return _asyncio.each(self.fileno(), self.next_event)

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
        return PeerStats(*self._handle.peer_stats(rank))

    def metrics(self) -> str:
        """Counters of this rank and its peers, in the OpenMetrics text format 1.0."""
        return self._handle.metrics()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._handle.closed

    def close(self) -> None:
        """Leaves at once and frees everything; calls of other threads end with `weft.errors.ClosedError`. A second time
        is no error."""
        self._handle.close()

    def __enter__(self) -> Rank:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return "<weft.ep.Rank closed>" if self.closed else f"<weft.ep.Rank {self.index}>"
