"""Descriptors of the library in an event loop of asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import AsyncIterator
from typing import Any, Callable, NamedTuple, Protocol, TypeVar

T = TypeVar("T")


class Source(Protocol):
    """An object with a descriptor to wait for."""

    def fileno(self) -> int:
        """The descriptor."""


class _Waiting(NamedTuple):
    """The waits for one descriptor in one loop, which has one reader for each descriptor."""

    source: Source
    futures: set[asyncio.Future[None]]


_loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, _Waiting]] = weakref.WeakKeyDictionary()


def _end(loop: asyncio.AbstractEventLoop, fd: int) -> None:
    """Ends all waits for a descriptor, in the thread of the loop."""
    here = _loops.get(loop, {}).pop(fd, None)
    if here is None:
        return
    loop.remove_reader(fd)
    for ready in here.futures:
        if not ready.done():
            ready.set_result(None)


def readable(source: Source) -> asyncio.Future[None]:
    """A future that ends when the descriptor of `source` is readable, or `wake` is called. Any number of futures may
    wait for one descriptor. The wait begins with the call."""
    loop, fd = asyncio.get_running_loop(), source.fileno()
    there = _loops.setdefault(loop, {})
    here = there.get(fd)
    if here is None or here.source is not source:
        _end(loop, fd)  # of a source that was closed; the system has reused the number of its descriptor
        here = there[fd] = _Waiting(source, set())
        try:
            loop.add_reader(fd, _end, loop, fd)
        except OSError:
            del there[fd]
            source.fileno()  # raises if another thread has closed the source meanwhile
            raise
    waiting, ready = here, loop.create_future()

    def leave(_: object) -> None:
        waiting.futures.discard(ready)
        if not waiting.futures and there.get(fd) is waiting:
            _end(loop, fd)

    ready.add_done_callback(leave)
    waiting.futures.add(ready)
    try:
        source.fileno()  # once more: that thread may have called wake() before this wait began
    except Exception:
        ready.cancel()
        raise
    return ready


def wake(source: Source) -> None:
    """Ends all waits for `source`, and, if it is an agent, for its transfers: it was closed, or the events that made it
    readable were taken. Any thread may call this function."""
    try:
        running: Any = asyncio.get_running_loop()
    except RuntimeError:
        running = None
    for ref in _loops.keyrefs():  # a list, which does not change if other threads start or end loops
        loop = ref()
        if loop is None:
            continue
        for fd in [fd for fd, here in list(_loops.get(loop, {}).items())
                   if here.source is source or getattr(here.source, "_agent", None) is source]:
            if loop is running:
                _end(loop, fd)
            else:
                with contextlib.suppress(RuntimeError):  # that loop was closed, so it has no waits
                    loop.call_soon_threadsafe(_end, loop, fd)


async def each(source: Source, take: Callable[[], T | None]) -> AsyncIterator[T]:
    """Yields the results of `take`, which is called until it returns None, and again once `source` is readable."""
    while True:
        one = take()
        if one is not None:
            yield one
        else:
            await readable(source)
