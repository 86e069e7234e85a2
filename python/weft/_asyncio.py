"""Descriptors of the library in an event loop of asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import AsyncIterator
from typing import Any, Callable, NamedTuple, Protocol, TypeVar

T = TypeVar("T")


class Source(Protocol):
    """What has a descriptor to wait for."""

    def fileno(self) -> int:
        """The descriptor."""


class _Waiting(NamedTuple):
    """Those who wait for one descriptor in one loop, which has one reader for each descriptor."""

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
    """Ends when the descriptor of `source` is readable, or `wake` is called. Any number may wait for one, from the call
    on."""
    loop, fd = asyncio.get_running_loop(), source.fileno()
    there = _loops.setdefault(loop, {})
    here = there.get(fd)
    if here is None or here.source is not source:
        _end(loop, fd)  # of a source that was closed, and whose number the system has given away again
        here = there[fd] = _Waiting(source, set())
        try:
            loop.add_reader(fd, _end, loop, fd)
        except OSError:
            del there[fd]
            source.fileno()  # it raises where another thread has closed the source meanwhile
            raise
    waiting, ready = here, loop.create_future()

    def leave(_: object) -> None:
        waiting.futures.discard(ready)
        if not waiting.futures and there.get(fd) is waiting:
            _end(loop, fd)

    ready.add_done_callback(leave)
    waiting.futures.add(ready)
    try:
        source.fileno()  # likewise: it may have called wake() before this waited
    except Exception:
        ready.cancel()
        raise
    return ready


def wake(source: Source) -> None:
    """Ends all waits for `source`, or for a transfer of this agent: it was closed, or what made it readable was taken.
    Any thread may call it."""
    try:
        running: Any = asyncio.get_running_loop()
    except RuntimeError:
        running = None
    for ref in _loops.keyrefs():  # a list, which other threads' loops that come and go do not change
        loop = ref()
        if loop is None:
            continue
        for fd in [fd for fd, here in list(_loops.get(loop, {}).items())
                   if here.source is source or getattr(here.source, "_agent", None) is source]:
            if loop is running:
                _end(loop, fd)
            else:
                with contextlib.suppress(RuntimeError):  # that loop has been closed, and nobody waits in it
                    loop.call_soon_threadsafe(_end, loop, fd)


async def each(source: Source, take: Callable[[], T | None]) -> AsyncIterator[T]:
    """What `take` gives, as it comes: it is asked until it gives None, and again once `source` is readable."""
    while True:
        one = take()
        if one is not None:
            yield one
        else:
            await readable(source)
