"""Descriptors of the library in an event loop of asyncio."""

from __future__ import annotations

import asyncio
from typing import AsyncIterator, Callable, TypeVar

T = TypeVar("T")


async def readable(fd: int) -> None:
    """Waits until a descriptor is readable."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(fd, lambda: ready.done() or ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(fd)


async def each(fd: int, take: Callable[[], T | None]) -> AsyncIterator[T]:
    """What `take` gives, as it comes: it is asked until it gives None, and again once `fd` is readable."""
    while True:
        one = take()
        if one is not None:
            yield one
        else:
            await readable(fd)
