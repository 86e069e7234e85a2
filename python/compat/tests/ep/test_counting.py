"""What operations that count leave in the host's memory: read as the library writes it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import weft  # noqa: E402

from weft_compat_ep import _pinned  # noqa: E402
from weft_compat_ep._arguments import Sizes  # noqa: E402
from weft_compat_ep._counting import Counting  # noqa: E402
from weft_compat_ep._pinned import PinnedStatus  # noqa: E402

SIZES = Sizes(8, 512, 2, 3, 1, "host", "throughput", 8)
IDX = torch.tensor([[0, 2], [1, -1], [-1, -1], [2, 1]])


@pytest.fixture
def rank() -> Iterator[weft.ep.Rank]:
    with weft.Store.local() as store, weft.ep.Rank(store, rank=0, founders=[0], capacity=1, max_tokens=8, hidden=512,
                                                   topk=2, experts_per_rank=3, mode="throughput") as one:
        one.activate(20)
        yield one


@pytest.fixture
def status(monkeypatch: pytest.MonkeyPatch) -> PinnedStatus:
    """In memory as any other: there need not be a GPU that would have to write it."""

    def make(self: _pinned.Pinned, count: int, dtype: torch.dtype) -> None:
        self.tensor = torch.zeros(count, dtype=dtype)

    monkeypatch.setattr(_pinned.Pinned, "__init__", make)
    return PinnedStatus()


def test_counts(rank: weft.ep.Rank) -> None:
    counting = Counting(rank, SIZES, torch.device("cpu"))
    for with_sources in (False, True):
        probe = counting.begin(IDX, torch.ones(IDX.shape), True, with_sources, 0, None)
        assert counting.wait(probe.operation) == (3, [1, 2, 2])
        probe.operation.finish()
        assert (probe.arrays is not None) == with_sources
        if probe.arrays is not None:
            assert probe.arrays.src_token[:3].tolist() == [0, 1, 3] and probe.arrays.selected[0].tolist() == [0, 2]


def test_the_status_is_where_the_library_writes_it(rank: weft.ep.Rank, status: PinnedStatus) -> None:
    into = rank.receive(8, layout="rank_major", dtype="opaque", row_bytes=16, status=status.memory.tensor)
    for _ in range(3):
        operation = rank.dispatch(torch.zeros((4, 16), dtype=torch.uint8), IDX, torch.ones(IDX.shape), into=into,
                                  dtype="opaque")
        assert status.spin(operation.number) and not status.spin(operation.number + 1)
        assert into.status is not None
        assert (status.num_rows, status.num_lost) == (into.status.num_rows, into.status.num_lost) == (3, 0)
        operation.finish()


def test_a_look_ends(status: PinnedStatus) -> None:
    begin = time.monotonic()
    assert not status.spin(7)
    assert time.monotonic() - begin < 5
    later = threading.Timer(0.05, lambda: status.memory.tensor.__setitem__(PinnedStatus.WRITTEN, 8))
    later.start()
    until = time.monotonic() + 20
    while not status.spin(7):
        assert time.monotonic() < until
    later.join()
