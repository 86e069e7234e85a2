"""Enumerations and results of a group's calls."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple, TypeVar

Array = Any
"""An array of any framework, or a `weft.Buffer` of one."""

BLOCK = 128
"""values that share one fp8 scale"""


_Member = TypeVar("_Member", bound="_Named")


class _Named(enum.IntEnum):
    @classmethod
    def of(cls, value: Any, argument: str = "") -> int:
        """The number of a name such as ``"bf16"``, of a member or of a number. The error names the argument, which
        is the class in lower case, or `dtype`, if nothing else is said."""
        if value.__class__ is cls:
            return value
        try:
            return int(cls[value.upper()] if isinstance(value, str) else cls(value))
        except (KeyError, ValueError):
            # GROUP stands for an argument that is not given, so nobody wants it instead of a wrong one.
            names = ", ".join(name.lower() for name in cls.__members__ if name != "GROUP")
            argument = argument or ("dtype" if cls.__name__.endswith("DType") else cls.__name__.lower())
            raise ValueError(f"{argument}: there is no {value!r:.60}, but {names}") from None

    @classmethod
    def member(cls: type[_Member], value: Any) -> _Member:
        """The member of a name, of a member or of a number."""
        return value if value.__class__ is cls else cls(cls.of(value))


class DType(_Named):
    """The type of the rows that a dispatch, or a combine, sends."""

    GROUP = 0
    """the type that the group was opened for; in the options bf16"""
    BF16 = 1
    FP8 = 2
    """e4m3, one f32 scale for 128 values"""
    FP8_POW2 = 3
    """the same, the scale rounded up to a power of two"""
    FP8_UE8M0 = 4
    """the same, the scales as ue8m0: uint32 [ceil(H/512)] for a row"""
    OPAQUE = 5
    """bytes that the library does not interpret, with scales in units of 4 bytes"""


class CombineDType(_Named):
    """The type of the values that a combine sends; the caller's inputs and outputs are bf16."""

    GROUP = 0
    BF16 = 1
    LOGFMT10 = 2
    """10 bits per value: see enum weft_ep_combine_dtype"""


class Layout(_Named):
    """How received rows are laid out."""

    PER_EXPERT = 1
    """x [E][rows][H]: the rows of each local expert; the combine computes the weighted sum"""
    RANK_MAJOR = 2
    """x [rows][H]: one row for a token on each rank; the caller applies the weights, the combine adds"""
    PACKED = 3
    """x [rows][H]: as PER_EXPERT, the parts of experts one after the other"""


class Memory(_Named):
    """Where the rows of operations lie."""

    HOST = 0
    CUDA = 1
    AUTO = 2
    """CUDA if there is a GPU that supports it, else host"""


class Mode(_Named):
    """What a group is made for."""

    DEFAULT = 0
    """LATENCY for few tokens, else THROUGHPUT"""
    LATENCY = 1
    """for a few tokens with the lowest latency"""
    THROUGHPUT = 2
    """for many tokens, through windows of a bounded size"""


class RankState(enum.IntEnum):
    """State of a rank index, as this rank sees it."""

    ABSENT = 0
    CONNECTED = 1
    ACTIVE = 2
    MASKED = 3
    LOST = 4


class EventKind(enum.IntEnum):
    """What happened in the group, as this rank sees it."""

    CONNECTED = 1
    """windows with the rank are mapped in both directions; for a rank on another host `Event.detail` has the way,
    such as "ofi tcp eth0", for people to read"""
    PEER_LOST = 2
    """the rank was found dead or silent; `Event.detail` says how"""
    COMMITTED = 3
    """a view is agreed on"""
    ACTIVATED = 4
    """a view takes effect with operation `Event.op`"""
    RELEASED = 5
    """windows with the rank are unmapped"""
    STORE_LOST = 6
    """the store does not answer: operations continue, changes of the view wait"""
    STORE_BACK = 7
    """the store answers again"""
    FENCED = 8
    """this rank was removed"""


class Event(NamedTuple):
    """One event of a group."""

    kind: EventKind
    """what happened"""
    rank: int
    """the peer concerned; -1: none"""
    incarnation: int
    """incarnation of `rank`; 0: none"""
    epoch: int
    """the view concerned; 0: none"""
    op: int
    """ACTIVATED: the operation; else 0"""
    time_ns: int
    """when it happened, by ``time.monotonic_ns()``"""
    dropped: int
    """events that were discarded since the event that was taken before"""
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
    """Limits of this library: see struct weft_ep_limits."""

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


class ReceiveStatus(NamedTuple):
    """The counts of a received dispatch, from ``Receive(status=...)`` on host memory."""

    op: int
    epoch: int
    mark: int
    num_ranks: int
    num_rows: int
    rows_needed: int
    num_lost: int
    written: int
