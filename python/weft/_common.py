"""Functions that the modules share: times, arguments, and the objects that are open at the end of the process."""

from __future__ import annotations

import atexit
import math
import operator
import os
import threading
import weakref
from collections.abc import Iterable
from typing import Protocol, TypeVar

from . import _weft

T = TypeVar("T")
FOREVER = 0xFFFFFFFF
"""WEFT_WAIT_FOREVER"""
_NO_TIME = "timeout: {!r:.60} is no time: seconds from 0 on are wanted, or None for no deadline"


def milliseconds(timeout: float | None) -> int:
    """Seconds as the milliseconds that the library takes; None: no deadline."""
    if timeout is None:
        return FOREVER
    try:
        is_time = bool(timeout >= 0)
    except (TypeError, ValueError):
        raise TypeError(_NO_TIME.format(timeout)) from None
    if not is_time:
        raise ValueError(_NO_TIME.format(timeout))
    return min(math.ceil(timeout * 1000), FOREVER - 1) if timeout < 4e6 else FOREVER - 1


def option_ms(seconds: float | None) -> int:
    """Seconds of an option as milliseconds, at least one; None: 0, the default."""
    return 0 if seconds is None else max(1, milliseconds(seconds))


U16, U32, U64 = range(2**16), range(2**32), range(2**64)
I32, I64 = range(-(2**31), 2**31), range(-(2**63), 2**63)
"""ranges of the library's integer arguments, for `whole`"""


def whole(name: str, value: object, within: range = U32) -> int:
    """A whole number that fits into the library's argument."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name}: a whole number is wanted, not {value!r:.60}") from None
    if number not in within:
        raise ValueError(f"{name}: {number} is out of range: {within[0]} to {within[-1]} is wanted") from None
    return number


def text(name: str, value: object) -> str:
    """A str that can be encoded as UTF-8."""
    if not isinstance(value, str):
        raise TypeError(f"{name}: a str is wanted, not {value!r:.60}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} has a surrogate in it, which UTF-8 has not") from None
    return value


def listed(name: str, what: str, values: Iterable[T]) -> list[T]:
    """All values as a list. `TypeError`: `values` is not iterable."""
    try:
        entries = iter(values)
    except TypeError:
        raise TypeError(f"{name}: a list of {what} is wanted, not {values!r:.60}") from None
    return list(entries)


class Closable(Protocol):
    """An object that is closed at the end of the process."""

    def close(self) -> None:
        """Closes it."""


# Ranks, agents, stores: an object is closed before the objects that it uses.
_open: tuple[weakref.WeakSet[Closable], ...] = (weakref.WeakSet(), weakref.WeakSet(), weakref.WeakSet())
RANKS, AGENTS, STORES = 0, 1, 2


def note_open(order: int, thing: Closable) -> None:
    """Closes `thing` when the process ends, unless it was closed before, so that peers see it leave instead of die."""
    _open[order].add(thing)


def _close_all() -> None:
    _weft.end_openings()
    for things in _open:
        for thing in list(things):
            try:
                thing.close()
            except Exception:
                continue  # the process ends: there is no caller for the error


def _after_fork() -> None:
    _weft.set_main_thread(threading.main_thread().ident or 0)
    for things in _open:
        things.clear()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_after_fork)
_weft.set_main_thread(threading.main_thread().ident or 0)
