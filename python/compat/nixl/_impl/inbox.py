"""Messages that an agent receives: notifications for its program, and messages of other agents of this module.

Every notification of Weft begins with a byte that names its type. A notification that is too long for Weft is sent in
pieces, which arrive in order. Notifications of other threads, or of a transfer that ends, may arrive between them, so
all pieces of one notification have the same number.
"""

from __future__ import annotations

import itertools
import struct
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial

import weft
from weft import errors

from ..logging import get_logger
from .status import nixlBackendError, nixlRemoteDisconnectError, translated

WHOLE, PIECE, LAST, TELL, FETCH, FORGET, ASK, ANSWER = b"N", b"C", b"L", b"T", b"F", b"I", b"Q", b"A"
"""a notification; a piece of one, and the last piece; regions of the sender; a request for the receiver's regions; the
sender withdraws its metadata; a question whether all earlier messages were taken; its answer"""

ROOM = 4096 - 1
"""bytes of the program that fit into one notification of Weft"""
_NUMBER = struct.Struct("<Q")
_PIECE_ROOM = ROOM - _NUMBER.size
_PATIENCE_S = 10.0
_LOOK_EACH = 256
"""after so many further senders the inbox checks which of them Weft has forgotten"""
logger = get_logger("agent")

_alive: weakref.WeakSet[Inbox] = weakref.WeakSet()


class Inbox:
    """The notifications of one agent."""

    def __init__(self, agent: weft.Agent, told: Callable[[int, bytes, bytes], None]) -> None:
        self._agent = agent
        self._told = weakref.WeakMethod(told)
        self._lock = threading.Lock()
        self._names: dict[int, str] = {}
        self._pieces: dict[int, dict[bytes, bytearray]] = {}
        self._numbers = itertools.count()
        self._waiting: list[tuple[str, bytes]] = []
        self._answers: set[int] = set()
        self.heard: set[int] = set()
        """peers that have sent something: they know this agent"""
        self._look_at = _LOOK_EACH
        _alive.add(self)

    def pump(self) -> None:
        """Takes the messages that have arrived, and handles those of the agents themselves. It does not wait."""
        if not self._lock.acquire(blocking=False):
            return  # another thread does it
        messages: list[tuple[int, bytes, bytes]] = []
        try:
            self._agent.progress()  # finds arrived messages now, and not after the agent's thread has woken
            for one in self._agent.notifications():
                self._take(one.peer, one.message, messages)
            if len(self.heard) >= self._look_at:
                self._drop_forgotten()
        except errors.ClosedError:
            return
        finally:
            self._lock.release()
        for peer, kind, rest in messages:
            told = self._told()
            if told is not None:
                told(peer, kind, rest)

    def _take(self, peer: int, message: bytes, messages: list[tuple[int, bytes, bytes]]) -> None:
        kind, rest = message[:1], message[1:]
        self.heard.add(peer)
        if kind == PIECE:
            self._pieces.setdefault(peer, {}).setdefault(rest[: _NUMBER.size], bytearray()).extend(rest[_NUMBER.size :])
        elif kind in (WHOLE, LAST):
            whole = rest
            if kind == LAST:
                before = self._pieces.get(peer, {}).pop(rest[: _NUMBER.size], bytearray())
                whole = bytes(before + rest[_NUMBER.size :])
            try:
                self._waiting.append((self._name(peer), whole))
            except errors.PeerLostError as error:  # only this notification is lost
                logger.warning("a notification of %d bytes is lost, whose sender has no name any more: %s", len(whole),
                               error)
        elif kind == ANSWER:
            self._answers.add(peer)
        else:
            messages.append((peer, kind, rest))

    def _drop_forgotten(self) -> None:
        """Drops the state of peers that Weft has forgotten: all of their notifications were taken."""
        for peer in list(self.heard):
            try:
                self._agent.peer(peer)
            except (errors.PeerLostError, errors.NotFoundError):
                self.heard.discard(peer)
                self._answers.discard(peer)
                self._names.pop(peer, None)
                self._pieces.pop(peer, None)
        self._look_at = len(self.heard) + _LOOK_EACH

    def _name(self, peer: int) -> str:
        if peer not in self._names:
            self._names[peer] = self._agent.name if peer == weft.SELF else self._agent.peer(peer).name
        return self._names[peer]

    def taken(self) -> list[tuple[str, bytes]]:
        """(sender's name, message) of all notifications that were not taken yet, in order for each sender.
        `nixlBackendError`: there is none, and none will arrive, since the agent is closed."""
        self.pump()
        with self._lock:
            waiting, self._waiting = self._waiting, []
        if not waiting and self._agent.closed:
            with translated():
                self._agent.fileno()  # raises the error, also in a forked child
        return waiting

    def send(self, peer: int, kind: bytes, message: bytes = b"") -> None:
        """Sends a message. While the receiver has too many unread messages, the call waits, for some seconds."""
        self.patiently(peer, lambda: self._agent.notify(peer, kind + message))

    def patiently(self, peer: int, send: Callable[[], None], patience_s: float = _PATIENCE_S) -> None:
        """Calls `send` again and again while the receiver has too many unread messages, for some seconds."""
        deadline = time.monotonic() + patience_s
        while True:
            try:
                send()
                return
            except errors.BusyError as error:
                if time.monotonic() > deadline:
                    raise nixlBackendError(f"{self._name(peer)} has not read its notifications for {patience_s:.0f} "
                                           f"s: {error}") from error
            pump_all()
            time.sleep(0.001)

    def notify(self, peer: int, message: bytes) -> None:
        """Sends a notification of the program, of any length."""
        with translated():
            if len(message) <= ROOM:
                self.send(peer, WHOLE, message)
                return
            number = _NUMBER.pack(next(self._numbers))
            last = (len(message) - 1) // _PIECE_ROOM * _PIECE_ROOM
            for at in range(0, last, _PIECE_ROOM):
                self.send(peer, PIECE, number + message[at : at + _PIECE_ROOM])
            self.send(peer, LAST, number + message[last:])

    def settle(self, peers: set[int], patience_s: float) -> None:
        """Waits, for a bounded time, until these peers have taken all messages to them: when an agent closes, its
        unread messages are lost."""
        asked = set()
        deadline = time.monotonic() + patience_s
        for peer in list(peers):  # other threads add to them
            self._answers.discard(peer)
            try:
                self.patiently(peer, partial(self._agent.notify, peer, ASK), deadline - time.monotonic())
                asked.add(peer)
            except (errors.Error, nixlBackendError, nixlRemoteDisconnectError):
                continue  # it has left, or does not read
        while time.monotonic() < deadline:
            pump_all()
            asked = {peer for peer in asked - self._answers if self._is_there(peer)}
            if not asked:
                return
            time.sleep(0.0005)

    def _is_there(self, peer: int) -> bool:
        try:
            self._agent.check(peer)
        except errors.Error:
            return False
        return True


def pump_all() -> None:
    """Makes all agents of this process take arrived messages: one thread may have several agents, and wait for one."""
    for inbox in list(_alive):
        inbox.pump()
