"""What the impatient tests share: calls whose errors and times are checked, seeds, and signals that interrupt."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any, Callable, TypeVar

import weft
from weft import errors

T = TypeVar("T")
SEED = int(os.environ.get("WEFT_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
SECONDS = float(os.environ.get("WEFT_SECONDS", "2"))
LONGEST = 20.0
"""seconds that a call may take beyond its own deadline, also on a busy machine and under a sanitizer"""


class Tick(BaseException):
    """What the handler of a signal raises: like KeyboardInterrupt, no ``except Exception`` swallows it."""


class Wrong(AssertionError):
    """A call that ended in a way that its text does not allow."""


class Caller:
    """One thread that makes random calls."""

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self.draw = random.Random(seed)
        self.calls: dict[str, list[int]] = {}
        self.longest = (0.0, "")
        self.calling = False
        """whether a call may be ended by a `Tick`"""

    def call(self, name: str, function: Callable[..., T], *arguments: Any, may: tuple[type[Exception], ...] = (),
             through: tuple[type[Exception], ...] = (), longest: float = LONGEST, ticks: bool = True,
             **options: Any) -> T | None:
        """The result of a call, or None if it raised an exception of `may`. Those of `through` are raised again."""
        done = self.calls.setdefault(name, [0, 0])
        begun = time.monotonic()
        self.calling = ticks
        try:
            result = function(*arguments, **options)
            done[0] += 1
            return result
        except may:
            done[1] += 1
            return None
        except through:
            raise
        except errors.Error as error:
            raise Wrong(f"{self.name}: {name}: {type(error).__name__}: {error}") from error
        finally:
            self.calling = False
            took = time.monotonic() - begun
            self.longest = max(self.longest, (took, name))
            if took > longest:
                raise Wrong(f"{self.name}: {name} took {took:.1f} s")

    def some_time(self) -> float:
        """A deadline: mostly too short, at times long enough."""
        return self.draw.choice([0.0, 0.0, 0.001, 0.002, 0.005, 0.03])


@contextlib.contextmanager
def ticking(caller: Caller, draw: random.Random, most: float = 0.02) -> Iterator[None]:
    """Signals come at random times. Most of those that come to the package in a call of the caller raise a `Tick`
    there. (The standard library does not bear an exception at any place.)"""
    package, over = os.path.dirname(weft.__file__), False

    def handle(_number: int, frame: FrameType | None) -> None:
        if over:
            return
        signal.setitimer(signal.ITIMER_REAL, draw.uniform(0.0005, most))
        if caller.calling and frame and frame.f_code.co_filename.startswith(package) and draw.random() < 0.7:
            raise Tick

    former = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, most)
    try:
        yield
    finally:
        over = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.signal(signal.SIGALRM, former)


def run_together(callers: list[Callable[[], None]], seconds: float) -> None:
    """Runs each in a thread of its own; raises what one of them raised, with the seed that repeats it."""
    failures: list[BaseException] = []

    def guarded(run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(run,), daemon=True) for run in callers]
    for thread in threads:
        thread.start()
    limit = time.monotonic() + seconds + 2 * LONGEST
    for thread in threads:
        thread.join(max(0.0, limit - time.monotonic()))
    if any(thread.is_alive() for thread in threads):
        faulthandler.dump_traceback(all_threads=True)
        raise Wrong(f"WEFT_SEED={SEED}: a thread did not end")
    if failures:
        raise Wrong(f"WEFT_SEED={SEED}: {failures[0]}") from failures[0]


@contextlib.contextmanager
def others(callers: list[Callable[[], None]], seconds: float) -> Iterator[threading.Thread]:
    """Runs them in the same way beside the caller, until they end. Yields the thread that waits for them."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            run_together(callers, seconds)
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield thread
    finally:
        thread.join()
    if failures:
        raise failures[0]
