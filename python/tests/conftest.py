"""What the tests share: agents, stores, groups of ranks as threads, and programs as processes."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any, Callable

import numpy as np
import pytest

import weft

SIZES: dict[str, Any] = {"hidden": 256, "topk": 2, "experts_per_rank": 2, "max_tokens": 16, "capacity": 8}


@pytest.fixture
def store() -> Iterator[weft.Store]:
    with weft.Store.local() as opened:
        yield opened


@pytest.fixture
def pair() -> Iterator[tuple[weft.Agent, weft.Agent, int]]:
    """Two agents of this process, and the second as a peer of the first."""
    with weft.Agent("a", transports="shm") as a, weft.Agent("b", transports="shm") as b:
        b.load(a.metadata())
        yield a, b, a.load(b.metadata())


def offered(pair: tuple[weft.Agent, weft.Agent, int], array: object) -> weft.Region:
    """Memory of the second agent, which the first one knows of."""
    region = pair[1].register(array)
    pair[0].load(pair[1].metadata())
    return region


def bf16(values: np.ndarray) -> np.ndarray:
    """f32 as bf16, cut off."""
    return (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def tokens_of(rank: int, ranks: int, count: int = 16) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, topk_idx and topk_weights: every token has two experts, of weights that add up to 1."""
    random = np.random.default_rng(rank)
    x = bf16(random.integers(-8, 8, (count, SIZES["hidden"])))
    first = random.integers(0, 2 * ranks, (count, 1))
    return x, np.concatenate([first, (first + 1) % (2 * ranks)], 1), np.full((count, 2), 0.5, np.float32)


def in_threads(count: int, run: Callable[[int], None]) -> None:
    """Runs `run(i)` in a thread each; raises what one of them raised."""
    failures: list[BaseException] = []

    def guarded(i: int) -> None:
        try:
            run(i)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads), "a thread did not end"
    if failures:
        raise failures[0]


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    """A process of this Python that runs `program`, with pipes."""
    return subprocess.Popen([sys.executable, "-c", program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def end(process: subprocess.Popen[str], want: int = 0) -> str:
    """What a process has printed; it has to end with the status `want`."""
    try:
        out, err = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert process.returncode == want, f"status {process.returncode}\n{out}\n{err}"
    return out
