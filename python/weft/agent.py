"""Agents: registered memory, peers, transfers and notifications.

Two agents of one process, the shortest use::

    with weft.Agent("a") as a, weft.Agent("b") as b:
        here, there = numpy.arange(1000), numpy.zeros(1000, int)
        source, target = a.register(here), b.register(there)
        peer = a.load(b.metadata())
        with a.write(source, target.descriptor(), peer) as transfer:
            transfer.run()

Any thread may use an agent at any time, unless it was opened with ``progress="none"``.
"""

from __future__ import annotations

import asyncio
import collections
import enum
import os
import select
from collections.abc import AsyncIterator, Iterable, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Union

from . import _asyncio, _weft
from ._common import AGENTS, I32, U64, listed, milliseconds, note_open, option_ms, text, whole
from .errors import BusyError
from .memory import Kind, MemoryStatus, Region, RegionInfo
from .store import Store, handle_of
from .transfer import DescriptorList, Descriptors, Transfer

SELF = 2**64 - 1
"""the agent itself, as its own peer: both sides of a transfer are its own"""


class PeerState(enum.IntEnum):
    """State of a peer, as far as the agent knows."""

    ALIVE = 1
    LEFT = 2
    LOST = 3


class PeerInfo(NamedTuple):
    """What an agent knows of a peer."""

    incarnation: int
    """incarnation of the agent of that name"""
    received_ns: int
    """when the agent last received something from it, or loaded it, by ``time.monotonic_ns()``"""
    state: PeerState
    """its state"""
    num_regions: int
    """number of its regions that the agent knows; 0 if it has ended"""
    name: str
    """its name"""
    reason: str
    """why it has ended; "" if it lives"""
    transports: str
    """transports that reach it, comma-separated, in the order of preference"""
    uses: str
    """what libfabric and UCX have chosen for it, such as "ofi tcp eth0": words for people, whose format may change"""


class Notification(NamedTuple):
    """A few bytes that a peer has sent."""

    peer: int
    """the sender, which may have left or may be lost since"""
    message: bytes
    """what it sent"""


class Completion(NamedTuple):
    """The end of a post with a tag."""

    tag: int
    """the tag given to `Transfer.post_with`"""
    code: int
    """0, or the error code with which the post failed: see `weft.errors.by_code`"""


class EventKind(enum.IntEnum):
    """What happened to a peer."""

    PEER_LOADED = 1
    """metadata of a new incarnation was loaded"""
    PEER_UPDATED = 2
    """its regions changed"""
    PEER_LEFT = 3
    """it closed, its key in the store was deleted, or this agent invalidated it"""
    PEER_LOST = 4
    """it was found dead or silent"""


class Event(NamedTuple):
    """What happened to a peer."""

    kind: EventKind
    """what happened"""
    dropped: int
    """events that were discarded since the event that was taken before"""
    peer: int
    """the peer"""
    time_ns: int
    """when it happened, by ``time.monotonic_ns()``"""
    name: str
    """the peer's name"""
    detail: str
    """a few words, or "" """


class AgentStats(NamedTuple):
    """Counters of transfers and notifications; transfers count when they end. Times are sums, from post to end."""

    reads: int
    read_bytes: int
    read_errors: int
    read_cancels: int
    read_ns: int
    writes: int
    write_bytes: int
    write_errors: int
    write_cancels: int
    write_ns: int
    notifications_sent: int
    notifications_taken: int
    messages_dropped: int


class TransportInfo(NamedTuple):
    """A transport that this version knows."""

    name: str
    """its name in ``Agent(transports=...)``"""
    flags: int
    """bits of enum weft_transport_flag: 1 it works here, 2 it carries notifications, 4 it reaches other hosts, 8 it is
    only for transfers of an agent with itself"""
    local_kinds: int
    """memory of this agent's side: bits 1 << `Kind`"""
    remote_kinds: int
    """memory of the peer's side: the same bits"""
    what: str
    """what it uses; "": this build does not contain it"""
    why: str
    """why it does not work here; "" if it works"""
    version: str
    """version of the library that it uses"""

    @property
    def works(self) -> bool:
        """Whether it works here."""
        return bool(self.flags & 1)


def transports() -> list[TransportInfo]:
    """The transports that this version knows, in order of preference. The call may take some milliseconds for each."""
    return [TransportInfo(*one) for one in _weft.transport_list()]


Local = Union[Region, DescriptorList, Descriptors]
"""One side of a transfer: a region (all of it), a list that was made before, or descriptors."""


class _Inbox:
    """Queues for everything that makes an agent's descriptor readable. Without them a coroutine that waits for one kind
    would be woken again and again by another kind that nobody takes. The queues have the same limits as those of the
    library. Notifications: beyond LIMIT, peers have to wait. Completions: beyond LIMIT they stay in the library, where
    each transfer has at most one. Events are taken once the program has asked for one; of the events that may be
    discarded the last LIMIT are kept, and `Event.dropped` counts the others."""

    LIMIT = 1024

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.notifications: collections.deque[Notification] = collections.deque()
        self.completions: collections.deque[Completion] = collections.deque()
        self._events: collections.deque[Event] = collections.deque()
        self._passing = 0
        self._dropped = 0
        self.asked = False
        """whether the program has asked for an event"""

    def take(self) -> None:
        handle, news = self._agent._handle, False
        while len(self.notifications) < self.LIMIT and (taken := handle.notifications(64)):
            self.notifications.extend(Notification(*one) for one in taken)
            news = True
        while self.asked and (event := handle.next_event()) is not None:
            self._add(Event(EventKind(event[0]), *event[1:]))
            news = True
        while len(self.completions) < self.LIMIT and (ended := handle.completions(64)):
            self.completions.extend(Completion(*one) for one in ended)
            news = True
        if news:
            _asyncio.wake(self._agent)  # others may wait for what their descriptor shows no longer

    def _add(self, event: Event) -> None:
        self._events.append(event)
        self._passing += _passes(event)
        if self._passing > self.LIMIT:
            oldest = next(i for i, one in enumerate(self._events) if _passes(one))
            self._dropped += 1 + self._events[oldest].dropped
            self._passing -= 1
            del self._events[oldest]

    def next_event(self) -> Event | None:
        """The oldest event that has not been taken, or None."""
        self.asked = True
        if self._events:
            event = self._events.popleft()
            self._passing -= _passes(event)
        else:
            new = self._agent._handle.next_event()
            if new is None:
                return None
            event = Event(EventKind(new[0]), *new[1:])
        unseen, self._dropped = self._dropped, 0
        return event._replace(dropped=event.dropped + unseen)

    async def wait(self) -> None:
        ready, timeout_ms = self._agent._handle.arm()
        if max(len(self.notifications), len(self.completions)) >= self.LIMIT:
            await asyncio.sleep(0.02)  # the descriptor stays readable: look now and then
            return
        if not ready:
            return
        try:
            forever = timeout_ms == 0xFFFFFFFF
            await asyncio.wait_for(_asyncio.readable(self._agent), None if forever else timeout_ms / 1000)
        except asyncio.TimeoutError:
            return  # the agent has something to do: arm() does it


def _passes(event: Event) -> bool:
    """Whether it may be discarded if nobody takes it; the end of a peer may not."""
    return event.kind in (EventKind.PEER_LOADED, EventKind.PEER_UPDATED)


class Agent:
    """One end of all transfers of a process.

    name: unique among the agents that know each other. transports: names, or None for all that work here. progress:
    ``thread``, or ``none``: the caller drives the agent with `wait_news`, `progress`, `Transfer.poll` and
    `Transfer.wait`, from one thread at a time. store and prefix: for `publish` and `fetch`. listen: ``HOST:PORT`` to
    which other agents connect with `meet`; token: the secret that these agents share. spin_us: microseconds without
    work after which the thread sleeps. All other times are in seconds; None means the default of weft/agent.h.
    """

    def __init__(self, name: str, *, transports: str | Sequence[str] | None = None, progress: str = "thread",
                 spin_us: int = 0, heartbeat: float | None = None, peer_timeout: float | None = None,
                 transfer_timeout: float | None = None, lease_ttl: int = 0, store: Store | None = None,
                 prefix: str | None = None, listen: str | None = None, token: str | None = None) -> None:
        if progress not in ("thread", "none"):
            raise ValueError(f"progress: {progress!r} is neither 'thread' nor 'none'")
        names = transports if transports is None or isinstance(transports, str) else ",".join(
            map(str, listed("transports", "names", transports)))
        self._handle = _weft.agent_open(text("name", name), names, progress == "none", whole("spin_us", spin_us),
                                        option_ms(heartbeat), option_ms(peer_timeout), option_ms(transfer_timeout),
                                        whole("lease_ttl", lease_ttl),
                                        None if store is None else handle_of(store), prefix, listen, token)
        self.name = name
        """its name"""
        self._inbox = _Inbox(self)
        note_open(AGENTS, self)

    # --- memory ---

    def _region(self, kind: Kind, flags: int, source: object = None, address: int = 0, length: int = 0,
                device: int = -1, fd: int = -1, path: str | None = None,
                transports: str | None = None) -> Region:
        kind = _kind(kind)
        number = self._handle.register(int(kind), flags, source, whole("address", address, U64),
                                       whole("length", length, U64), whole("device", device, I32), fd, path, transports)
        if source is None and (kind != Kind.CUDA or device >= 0):  # nothing to ask for, however many there are
            where = device if kind == Kind.CUDA else -1
            return Region(self, RegionInfo(number, address, length, kind, where, flags))
        known = next(one for one in self.regions() if one.id == number)
        return Region(self, known)

    def register(self, buffer: object, *, read_only: bool = False, private: bool = False,
                 transports: str | None = None) -> Region:
        """Registers the contiguous memory of an array, on the host or on a GPU; the array says which. A read-only array
        gives a read-only region. private: no metadata contains the region, so only this agent's own side of transfers
        can use it. The agent keeps the array alive until the region or the agent is closed."""
        return self._region(Kind.HOST, _flags(read_only, private), buffer, transports=transports)

    def register_address(self, address: int, length: int, *, kind: Kind = Kind.HOST, device: int = -1,
                         read_only: bool = False, private: bool = False, transports: str | None = None) -> Region:
        """Registers `length` bytes at an address, which the caller keeps mapped until the region is closed."""
        return self._region(kind, _flags(read_only, private), None, address, length, device, transports=transports)

    def register_file(self, file: str | os.PathLike[str] | int, length: int = 0, *, read_only: bool = False,
                      private: bool = False, transports: str | None = None) -> Region:
        """Registers a file, given by its path or by an open descriptor, which has to stay open. length: bytes that may
        be used; 0: no limit. If there is no file at the path, the call creates it, except with read_only."""
        fd, path = (whole("file", file, I32), None) if isinstance(file, int) else (-1, os.fspath(file))
        return self._region(Kind.FILE, _flags(read_only, private), None, 0, length, fd=fd, path=path,
                            transports=transports)

    def register_object(self, name: str, length: int = 0, *, read_only: bool = False, private: bool = False,
                        transports: str | None = None) -> Region:
        """Registers ``bucket/key`` of an S3 store. A transfer that writes to it has to write the whole object, from
        byte 0 on."""
        return self._region(Kind.OBJECT, _flags(read_only, private), None, 0, length, path=name, transports=transports)

    def allocate(self, length: int, *, kind: Kind = Kind.HOST, device: int = -1) -> Region:
        """Allocates `length` bytes of zeros that peers of this host can map, and registers them: see `Region.view` and
        `Region.allocated`."""
        kind = _kind(kind)
        memory = self._handle.allocate(int(kind), whole("length", length, U64), whole("device", device, I32))
        return Region(self, RegionInfo(memory.region, memory.address, length, kind, memory.device, 0), memory)

    def query(self, *, address: int = 0, length: int = 0, kind: Kind = Kind.HOST, path: str | None = None,
              fd: int = -1, timeout: float | None = 5.0) -> MemoryStatus:
        """Whether memory, a file or an object exists, and how long it is. It need not be registered."""
        return MemoryStatus(*self._handle.query(int(_kind(kind)), whole("address", address, U64),
                                                whole("length", length, U64), whole("fd", fd, I32), path,
                                                milliseconds(timeout)))

    def regions(self, peer: int = SELF) -> list[RegionInfo]:
        """What this agent knows of the regions of a peer, or of its own, by ascending id."""
        return [RegionInfo(one[0], one[1], one[2], Kind(one[3]), one[4], one[5])
                for one in self._handle.regions(_peer(peer))]

    # --- metadata and peers ---

    def metadata(self, regions: Iterable[Region | int] | None = None, *, addresses: bool = True) -> bytes:
        """This agent's metadata for `load` of another agent: name, addresses of its transports, and its regions (None:
        all except the private ones). Metadata without addresses only updates a peer that was loaded before."""
        return self._handle.metadata(_ids(regions), bool(addresses))

    def load(self, metadata: bytes) -> int:
        """Loads the metadata of another agent, and returns its id as a peer. An agent without a token trusts any
        metadata."""
        return self._handle.load(metadata)

    def publish(self, label: str | None = None, regions: Iterable[Region | int] | None = None, *,
                addresses: bool = True, timeout: float | None = 10.0) -> None:
        """Puts metadata into the store with a lease, and keeps it there; with a label, a selection of regions."""
        self._handle.publish(label, _ids(regions), bool(addresses), milliseconds(timeout))

    def unpublish(self, label: str | None = None, *, timeout: float | None = 10.0) -> None:
        """Deletes what was published; without a label, peers that fetched this agent see it leave."""
        self._handle.unpublish(label, milliseconds(timeout))

    def fetch(self, name: str, label: str | None = None, *, timeout: float | None = 10.0) -> int:
        """Waits until the agent of that name is in the store, loads its metadata, and returns its id as a peer. From
        then on this agent loads all changes."""
        return self._handle.fetch(text("name", name), label, milliseconds(timeout))

    def meet(self, address: str, *, timeout: float | None = 10.0) -> int:
        """Exchanges metadata with the agent that listens at ``HOST:PORT``, and returns its id as a peer."""
        return self._handle.meet(text("address", address), milliseconds(timeout))

    @property
    def port(self) -> int:
        """The port at which it listens. `NotFoundError`: it does not listen."""
        return self._handle.port()

    def find(self, name: str) -> int:
        """The living peer of that name. `NotFoundError`: there is none."""
        return self._handle.find(text("name", name))

    def peers(self) -> list[int]:
        """The ids of the living peers."""
        return self._handle.peers()

    def peer(self, peer: int) -> PeerInfo:
        """What is known of a peer, also of a peer that has ended."""
        known = self._handle.peer_info(_peer(peer))
        return PeerInfo(known[0], known[1], PeerState(known[2]), *known[3:])

    def check(self, peer: int) -> None:
        """Raises `PeerLostError`, with the reason, unless the peer lives as far as this agent knows."""
        self._handle.check(_peer(peer))

    def connect(self, peer: int, *, timeout: float | None = 10.0) -> None:
        """Makes the connection for notifications, before the first notification needs it."""
        self._handle.connect(_peer(peer), milliseconds(timeout))

    def invalidate(self, peer: int) -> None:
        """Ends a peer on this side; transfers in flight end with `PeerLostError`."""
        self._handle.invalidate(_peer(peer))

    def add_transport(self, transport: str) -> None:
        """Opens another transport."""
        self._handle.add_transport(text("transport", transport))

    # --- transfers ---

    def descriptors(self, descriptors: Local, peer: int = SELF) -> DescriptorList:
        """A list of descriptors, of a peer or of this agent, looked up once for many transfers."""
        if isinstance(descriptors, DescriptorList):
            return descriptors
        if isinstance(descriptors, Region):
            descriptors = [descriptors.descriptor()]
        elif isinstance(descriptors, tuple) and descriptors and not hasattr(descriptors[0], "__len__"):
            descriptors = [descriptors]
        return DescriptorList(self._handle.list(_peer(peer), descriptors), peer)

    def read(self, local: Local, remote: Local, peer: int = SELF, **options: Any) -> Transfer:
        """A transfer from descriptors of a peer into this agent's own: see `transfer`."""
        return self.transfer("read", local, remote, peer, **options)

    def write(self, local: Local, remote: Local, peer: int = SELF, **options: Any) -> Transfer:
        """A transfer from this agent's own descriptors into a peer's: see `transfer`."""
        return self.transfer("write", local, remote, peer, **options)

    def transfer(self, op: str, local: Local, remote: Local, peer: int = SELF, *,
                 local_index: Iterable[int] | None = None, remote_index: Iterable[int] | None = None,
                 runs: Iterable[tuple[int, int, int, int, int]] | None = None,
                 notification: str | bytes | None = None, max_notification: int = 0, timeout: float | None = None,
                 transport: str | None = None) -> Transfer:
        """Prepares a transfer, ``read`` or ``write``: the i-th local descriptor is paired with the i-th remote one.
        local_index and remote_index, or runs of (local_first, local_stride, remote_first, remote_stride, count), give
        other pairs. notification: sent to the peer once the data of a post is visible there; max_notification: maximum
        bytes of a notification of `Transfer.post_with`. timeout: deadline of each post in seconds."""
        if op not in ("read", "write"):
            raise ValueError(f"op: {op!r} is neither 'read' nor 'write'")
        here, there = self.descriptors(local), self.descriptors(remote, peer)
        handle = self._handle.transfer(op == "write", here._handle, there._handle, local_index, remote_index, runs,
                                       notification, option_ms(timeout),
                                       whole("max_notification", max_notification), transport)
        return Transfer(self, handle)

    def completions(self) -> list[Completion]:
        """The completions of posts with a tag that have not been taken, in the order in which the posts ended."""
        taken = list(self._inbox.completions)
        self._inbox.completions.clear()
        while ended := self._handle.completions(64):
            taken.extend(Completion(*one) for one in ended)
        return taken

    # --- notifications and events ---

    def notify(self, peer: int, message: str | bytes) -> None:
        """Sends a few bytes, at most 4,096, to the application of a peer. `BusyError`: the peer has too many unread
        ones."""
        self._handle.notify(_peer(peer), message)

    def notifications(self) -> list[Notification]:
        """The received notifications that have not been taken; those of one peer in the order in which they were
        sent."""
        taken = list(self._inbox.notifications)
        self._inbox.notifications.clear()
        while more := self._handle.notifications(64):
            taken.extend(Notification(*one) for one in more)
        return taken

    def next_event(self) -> Event | None:
        """The oldest event that has not been taken, or None. The call does not wait. The agent keeps at most 1,024 of
        `EventKind.PEER_LOADED` and PEER_UPDATED; it discards the oldest of these if there are more, and `Event.dropped`
        counts them. Once the program has asked for an event, the agent keeps all PEER_LEFT and PEER_LOST until they are
        taken; before that only the last 1,024."""
        return self._inbox.next_event()

    def fileno(self) -> int:
        """A descriptor that is readable while there are notifications, events (once the program has asked for one) or
        completions that have not been taken. Use it for select and poll, but never read from it."""
        return self._handle.fileno()

    def wait_news(self, timeout: float | None = None) -> bool:
        """Waits, at most `timeout` seconds, until there may be something to take. False: the time has passed. With
        ``progress="none"`` the call drives the agent meanwhile."""
        left_ms = milliseconds(timeout)
        poller = select.poll()
        poller.register(self.fileno(), select.POLLIN)
        while True:
            ready, sleep_ms = self._handle.arm()
            if not ready:
                return True
            slice_ms = min(sleep_ms, left_ms, 100)
            if poller.poll(slice_ms):
                self.fileno()  # it may be readable because another thread has closed the agent, and that is an error
                return True
            if left_ms != 0xFFFFFFFF:
                left_ms -= slice_ms
            if left_ms == 0:
                return False

    async def _each(self, queue: collections.deque[Any]) -> AsyncIterator[Any]:
        while True:
            self._inbox.take()
            while queue:
                yield queue.popleft()
            await self._inbox.wait()

    async def events(self) -> AsyncIterator[Event]:
        """Events as they come: ``async for event in agent.events()``. See `next_event` for how many are kept."""
        self._inbox.asked = True
        while True:
            self._inbox.take()
            while (event := self._inbox.next_event()) is not None:
                yield event
            await self._inbox.wait()

    def messages(self) -> AsyncIterator[Notification]:
        """Notifications as they come: ``async for message in agent.messages()``. Other kinds are kept up to their usual
        limits meanwhile."""
        return self._each(self._inbox.notifications)

    def ends(self) -> AsyncIterator[Completion]:
        """Completions as they come: ``async for end in agent.ends()``. If nobody takes them and there are 1,024, a
        transfer with a further one cannot make its next post with a tag."""
        return self._each(self._inbox.completions)

    # --- progress and counters ---

    def progress(self) -> int:
        """Drives all transports once, and returns the number of requests and messages that made progress."""
        return self._handle.progress()

    def stats(self, peer: int = 0) -> AgentStats:
        """Counters of transfers with a living peer (`SELF`: with itself); 0: with all peers."""
        return AgentStats(*self._handle.stats(_peer(peer)))

    def metrics(self) -> str:
        """Counters and histograms, in the OpenMetrics text format 1.0."""
        return self._handle.metrics()

    def serve_metrics(self, address: str = "127.0.0.1:0") -> int:
        """Serves `metrics` over HTTP, path /metrics, until the agent closes, and returns the port."""
        return self._handle.serve_metrics(text("address", address))

    def metrics_bearer(self) -> str:
        """What a client sends as ``Authorization: Bearer`` to read the metrics of an agent with a token."""
        return self._handle.metrics_bearer()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._handle.closed

    def close(self) -> None:
        """Closes the agent: cancels transfers in flight, informs the peers, frees the regions. The call waits for calls
        of other threads, which end with `ClosedError`. `BusyError`: views of memory that the agent allocated are in
        use, and the agent stays open. A second call is no error. If an exception ends a ``with``, the exception may
        itself hold such views; the agent is then closed when the last view is released."""
        self._handle.close()
        _asyncio.wake(self)

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        try:
            self.close()
        except BusyError:  # the exception that is raised may hold the views itself
            if kind is None or not self._handle.close_after_views():
                raise

    def __repr__(self) -> str:
        return f"<weft.Agent {self.name}{' closed' if self.closed else ''}>"


def _ids(regions: Iterable[Region | int] | None) -> list[int] | None:
    if regions is None:
        return None
    return [one.id if isinstance(one, Region) else whole("regions", one, U64)
            for one in listed("regions", "regions or their ids", regions)]


def _peer(peer: object) -> int:
    return whole("peer", peer, U64)


def _kind(kind: object) -> Kind:
    try:
        return Kind(kind)  # type: ignore[arg-type]
    except ValueError:
        raise ValueError(f"kind: {kind!r:.60} is no member of weft.Kind, which has "
                         f"{', '.join(Kind.__members__)}") from None


def _flags(read_only: bool, private: bool) -> int:
    return (1 if read_only else 0) | (2 if private else 0)
