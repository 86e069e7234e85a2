"""Prepared lists and transfers, and the handles (numbers) by which programs refer to them."""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import weft
from weft import errors
from weft.transfer import DescriptorList, Transfer

from .inbox import ROOM, WHOLE, Inbox
from .lists import nixlXferDList
from .peers import Peer, Peers
from .status import (
    failure_of,
    nixl_mem_t,
    nixl_status_t,
    nixl_xfer_op_t,
    nixlInvalidParamError,
    nixlNotPostedError,
    nixlRepostActiveError,
)

_LEAST_ROOM = 256  # the least room for notifications, in bytes, of a transfer that is made again for a longer one
_CLOSE_S = 5.0
_MOMENT_S = 0.01
Thing = TypeVar("Thing")


class Table(Generic[Thing]):
    """Objects by their handles: numbers that are not 0 and are never used twice."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._next = itertools.count(1)
        self._lock = threading.RLock()  # a handle may be collected, and released, within a call
        self._things: dict[int, Thing] = {}

    def add(self, thing: Thing) -> int:
        """Adds an object, and returns its number."""
        with self._lock:
            number = next(self._next)
            self._things[number] = thing
            return number

    def get(self, number: int) -> Thing:
        """The object of that number. `nixlInvalidParamError`: there is none."""
        try:
            return self._things[int(number)]
        except KeyError:
            raise nixlInvalidParamError(f"{number} is no {self._what} of this agent, or was released") from None

    def remove(self, number: int) -> None:
        """Removes the object of that number, if there is one."""
        with self._lock:
            self._things.pop(int(number), None)

    def items(self) -> list[tuple[int, Thing]]:
        """All numbers with their objects."""
        with self._lock:
            return list(self._things.items())


@dataclass
class Prepared:
    """A list of descriptors that Weft has looked up."""

    list: DescriptorList | None
    """None: there are more descriptors than a list of Weft can have, and a transfer looks up those that it moves"""
    peer: Peer | None
    """the peer whose memory it describes; None: this agent's own memory"""
    remote: bool
    """whether it is the remote side of transfers: of a peer, or of this agent itself"""
    descs: nixlXferDList

    def overlaps(self, mem: nixl_mem_t, desc: tuple[Any, ...]) -> bool:
        """Whether it uses memory of this agent that a registered descriptor names."""
        if self.peer is not None or self.descs.getType() != mem:
            return False
        first, size, device = desc[:3]
        by_address = mem in (nixl_mem_t.DRAM_SEG, nixl_mem_t.VRAM_SEG)
        return any((one[2] == device or by_address) and one[0] < first + size and first < one[0] + one[1]
                   if size else one[2] == device for one in self.descs)


class nixlXferTelemetry:
    """Times and sizes of a transfer's last post. Times are in microseconds."""

    def __init__(self, startTime: int = 0, postDuration: int = 0, xferDuration: int = 0, totalBytes: int = 0,
                 descCount: int = 0) -> None:
        self.startTime = startTime
        """the time of the post, by ``time.monotonic()``"""
        self.postDuration = postDuration
        """the duration of the call that posted it"""
        self.xferDuration = xferDuration
        """from the beginning of that call to the end of the transfer; 0 while it is in flight"""
        self.totalBytes = totalBytes
        self.descCount = descCount
        """the number of descriptors of each list, or, with prepared lists, of requests into which they were merged"""

    def __repr__(self) -> str:
        return (f"<nixlXferTelemetry {self.totalBytes} bytes, {self.descCount} descriptors, posted in "
                f"{self.postDuration} us, moved in {self.xferDuration} us>")


nixlXferTelemetry.__module__ = "nixl._bindings"


class Request:
    """A transfer, with the notification that it sends. Any thread may call it."""

    def __init__(self, agent: weft.Agent, peers: Peers, inbox: Inbox, op: nixl_xfer_op_t, local: Prepared,
                 remote: Prepared, indices: tuple[Any, Any] | None, notification: bytes, merged: bool) -> None:
        self._agent, self._peers, self._inbox = agent, peers, inbox
        self._op = "write" if op == nixl_xfer_op_t.NIXL_WRITE else "read"
        self.local, self.remote = local, remote
        assert local.list is not None and remote.list is not None
        self._lists = local.list, remote.list
        self._indices = indices
        self._counted = None if merged else local.descs.descCount() if indices is None else len(indices[0])
        self._notification = notification
        self._room = 0
        self._owed: bytes | None = None
        self._posted = False
        self._sending = False  # while a thread starts it, or sends a notification after its data: for seconds perhaps
        self._start_ns = self._post_ns = 0
        self._lock = threading.RLock()  # one thread at a time uses a transfer of Weft
        self._transfer = self._make(min(len(notification), ROOM))

    @property
    def peer(self) -> int:
        """The id of the agent of the remote side."""
        return weft.SELF if self.remote.peer is None else self.remote.peer.id

    def _make(self, room: int) -> Transfer:
        if room:
            self._introduce()
        self._room = room
        local_index, remote_index = self._indices or (None, None)
        return self._agent.transfer(self._op, *self._lists, self.peer, local_index=local_index,
                                    remote_index=remote_index, max_notification=room + 1 if room else 0)

    def _introduce(self) -> None:
        if self.remote.peer is not None:
            self._peers.introduce(self.remote.peer)
            self._peers.notified.add(self.peer)

    @property
    def transport(self) -> str:
        """The transport that carries it."""
        with self._lock:
            return self._transfer.info.transport

    @property
    def active(self) -> bool:
        """Whether it is in flight."""
        try:
            with self._lock:
                return self._posted and not self._transfer.poll()
        except errors.Error:
            return False

    def uses(self, mem: nixl_mem_t, desc: tuple[Any, ...]) -> bool:
        """Whether it uses memory of this agent that a registered descriptor names."""
        return self.local.overlaps(mem, desc) or self.remote.overlaps(mem, desc)

    def post(self, notification: bytes) -> nixl_status_t:
        """Starts the transfer with this notification, or with the previous one if this is empty."""
        with self._lock:
            self._sending = True
            try:
                self._post(notification)
            finally:
                self._sending = False
            return self._state()

    def _post(self, notification: bytes) -> None:
        start = time.monotonic_ns()
        try:
            if notification or self._notification:
                self._post_with(notification or self._notification)
            else:
                self._transfer.post()
        except errors.BusyError as error:
            raise nixlRepostActiveError(str(error)) from error
        except errors.Error as error:
            raise failure_of(error) from error
        self._posted = True
        self._start_ns, self._post_ns = start, time.monotonic_ns() - start

    def _post_with(self, notification: bytes) -> None:
        if self._posted and self.active:
            raise nixlRepostActiveError("the transfer is in flight: wait until check_xfer_state() says that it is not")
        self._notification = notification
        if len(notification) > ROOM:  # too long to travel with the data: it is sent afterwards
            self._introduce()
            self._owed = notification
            self._transfer.post()
            return
        self._owed = None
        if len(notification) > self._room:
            self._transfer.close()
            self._transfer = self._make(max(len(notification), _LEAST_ROOM))
        self._inbox.patiently(self.peer, lambda: self._transfer.post_with(notification=WHOLE + notification))

    def state(self) -> nixl_status_t:
        """The state of its last post; raises a failure."""
        while not self._lock.acquire(timeout=0 if self._sending else _MOMENT_S):
            if self._sending:  # another thread posts or sends; otherwise the lock is held only for a moment
                return nixl_status_t.NIXL_IN_PROG
        try:
            return self._state()
        finally:
            self._lock.release()

    def _state(self) -> nixl_status_t:
        if not self._posted:
            raise nixlNotPostedError("the transfer was made, and not posted yet")
        try:
            if not self._transfer.poll():
                return nixl_status_t.NIXL_IN_PROG
        except errors.Error as error:
            raise failure_of(error) from error
        if self._owed is not None:
            owed, self._owed = self._owed, None
            self._sending = True
            try:
                self._inbox.notify(self.peer, owed)
            finally:
                self._sending = False
        return nixl_status_t.NIXL_SUCCESS

    def estimate_us(self) -> int:
        """The expected duration of a post."""
        with self._lock:
            return max(1, round(self._transfer.info.estimate_ns / 1000))

    def telemetry(self) -> nixlXferTelemetry:
        """Times and sizes of its last post."""
        with self._lock:
            if not self._posted:
                raise nixlNotPostedError("the transfer was made, and not posted yet")
            info, start_ns, post_ns = self._transfer.info, self._start_ns, self._post_ns
        moved = max(post_ns, info.end_ns - start_ns) if info.end_ns else 0  # both times are by CLOCK_MONOTONIC
        return nixlXferTelemetry(start_ns // 1000, post_ns // 1000, moved // 1000, info.bytes,
                                 info.pieces if self._counted is None else self._counted)

    def close(self) -> None:
        """Frees the transfer; a post in flight is cancelled. `nixlRepostActiveError`: it could not be stopped within
        seconds, or another thread was posting it all that time."""
        if not self._lock.acquire(timeout=_CLOSE_S):
            raise nixlRepostActiveError("another thread is posting the transfer")
        try:
            self._transfer.close(_CLOSE_S)
        except errors.DeadlineError as error:
            raise nixlRepostActiveError(str(error)) from error
        except errors.ClosedError:
            return
        finally:
            self._lock.release()
