"""Transfers: prepared reads and writes that can be posted many times."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Union

from . import _asyncio, _weft
from ._common import U64, milliseconds, option_ms, whole

if TYPE_CHECKING:
    from .agent import Agent

Descriptors = Union[Sequence[Sequence[int]], Any]
"""Descriptors: (address, length) or (address, length, region) each, or an array of 64-bit integers of shape [count][2]
or [count][3] (numpy, or any buffer). FILE and OBJECT: offsets instead of addresses, and the region is required."""


class TransferInfo(NamedTuple):
    """Properties of a transfer and of its last post."""

    bytes: int
    """bytes of one post"""
    posts: int
    """number of posts so far"""
    start_ns: int
    """when the last post began, by ``time.monotonic_ns()``; 0: there was none"""
    end_ns: int
    """when the last post ended; 0: it is in flight"""
    estimate_ns: int
    """expected time of a post"""
    pairs: int
    """pairs of descriptors"""
    pieces: int
    """pieces into which adjacent pairs were merged"""
    transport: str
    """the transport that carries it"""


class DescriptorList:
    """Descriptors of one agent, looked up once, for any number of transfers: see `Agent.descriptors`."""

    def __init__(self, handle: _weft.List, peer: int) -> None:
        self._handle = handle
        self.peer = peer
        """the peer whose descriptors they are"""

    def __len__(self) -> int:
        return len(self._handle)


class Transfer:
    """A read or write between two lists of descriptors, made by `Agent.read` and `Agent.write`.

    ``post()`` starts it, ``wait()`` or ``await transfer`` waits until it has ended, ``poll()`` returns its state. From
    the post until the end the memory of both sides belongs to it. Only one thread at a time may use a transfer (else
    `BusyError`). It keeps its agent's lists in use until it is closed. A transfer that is garbage-collected in flight
    is cancelled.
    """

    def __init__(self, agent: Agent, handle: _weft.Transfer) -> None:
        self._agent = agent
        self._handle = handle
        self.post = handle.post
        """``post()`` starts it and returns at once. `BusyError`: it is in flight, or the peer has too many unread
        notifications: post again later. `PeerLostError`: the peer has ended. `NotFoundError`: the peer has deregistered
        a region."""
        self.poll = handle.poll
        """``poll()`` returns True if the last post has succeeded, False while it is in flight. If it has failed, the
        call raises the reason: `DeadlineError`, `PeerLostError`, `CanceledError`, or an error of the transport."""

    def post_with(self, *, notification: str | bytes | None = None, tag: int | None = None,
                  timeout: float | None = None) -> None:
        """``post()`` with a notification, a deadline in seconds, or a completion for this post only: with a `tag`,
        `Agent.completions` reports the end."""
        self._handle.post_with(notification, tag is not None, 0 if tag is None else whole("tag", tag, U64),
                               option_ms(timeout))

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the last post has ended, at most `timeout` seconds (None: until its own deadline ends it). True:
        it has succeeded. False: the time has passed, and the transfer continues. Raises the same errors as
        ``poll()``."""
        return self._handle.wait(milliseconds(timeout))

    def run(self, timeout: float | None = None) -> None:
        """Posts, and waits for the end. `timeout` seconds are the deadline of the post (None: the transfer's own)."""
        if timeout is None:
            self.post()
        else:
            self.post_with(timeout=timeout)
        self.wait()

    def cancel(self, timeout: float | None = 5.0) -> None:
        """Cancels the post in flight, and waits until it has ended. `DeadlineError`: it could not be stopped in this
        time."""
        self._handle.cancel(milliseconds(timeout))

    def status(self) -> list[int]:
        """The result of each pair of descriptors in the last post: 0, or an error code."""
        return self._handle.status()

    @property
    def info(self) -> TransferInfo:
        """Size, times and transport."""
        return TransferInfo(*self._handle.info())

    def explain(self) -> str:
        """Which transport carries it, with its expected costs, and why the others do not: one line for each."""
        return self._handle.explain()

    @property
    def error(self) -> str:
        """Why the last post failed; "" if it did not fail, or is in flight."""
        return self._handle.error()

    def fileno(self) -> int:
        """A descriptor that becomes readable when a post ends, for select and poll; read 8 bytes to rearm it. The
        descriptor does not report a post that ended before the first call: call ``poll()`` afterwards."""
        return self._handle.fileno()

    async def _ended(self) -> None:
        self.fileno()  # from now on it shows ends
        while not self.poll():
            await _asyncio.readable(self)
            if self._handle.rearm():
                _asyncio.wake(self)  # others may wait for the end that it showed: of a post since

    def __await__(self) -> Generator[Any, None, None]:
        """Waits in an event loop until the last post has ended; raises the same errors as ``poll()``."""
        return self._ended().__await__()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._handle.closed

    def close(self, timeout: float | None = 5.0) -> None:
        """Frees the transfer. A post in flight is cancelled first, which may take `timeout` seconds. A second call is
        no error."""
        self._handle.close(milliseconds(timeout))
        _asyncio.wake(self)

    def __enter__(self) -> Transfer:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        if self.closed or self._agent.closed:
            return "<weft.Transfer closed>"
        info = self.info
        return f"<weft.Transfer of {info.bytes} bytes by {info.transport}>"
