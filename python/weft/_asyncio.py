"""Descriptors of the library in an event loop of asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Callable, TypeVar

T = TypeVar("T")


async def readable(fd: int) -> None:
    """Waits until a descriptor is readable."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(fd, tell)
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
