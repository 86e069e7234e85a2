"""The names of kernels that programs give to `bench_kineto`, on events like those of torch's profiler."""

from __future__ import annotations

import math
import pathlib
import re
import warnings
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from deep_ep.utils import _kernels

SOURCES = pathlib.Path(__file__).parents[4] / "src/cuda"


def event(name: str, begin: float, end: float, template: str = "<false, true>") -> Any:
    return SimpleNamespace(name=f"void (anonymous namespace)::{name}{template}((anonymous namespace)::{name}_args)",
                           time_range=SimpleNamespace(start=begin, end=end), device_time=end - begin)


def dispatch_of_many(at: float) -> list[Any]:
    """Plan, headers and rows, side by side: kernels run for 30 us."""
    return [event("rows_kernel", at + 6, at + 30), event("plan_kernel", at, at + 8), event("control", at + 4, at + 10)]


def combine_of_many(at: float) -> list[Any]:
    """Headers, then the rows: 5 + 12 + 3 us."""
    return [event("control", at, at + 5), event("answers_kernel", at + 6, at + 18), event("end", at + 18, at + 21)]


def barrier(at: float) -> list[Any]:
    return [event("dispatch", at, at + 50), event("finish", at + 50, at + 52)]


def times(events: list[Any], *names: str, calls: int = 2, period: int = 1) -> list[Any]:
    return _kernels.times_of(_kernels.runs_of(events), names, calls, period)


def test_many_tokens() -> None:
    """Barriers between the calls count for nothing, and headers belong to the rows after them."""
    events = [one for call in (0, 1000) for make, at in ((barrier, 0), (dispatch_of_many, 100), (combine_of_many, 200))
              for one in make(call + at)]
    for names in (("dispatch_impl", "combine_impl"), ("dispatch", "combine")):
        assert times(events, *names) == pytest.approx([30e-6, 20e-6])
    with pytest.raises(ValueError, match="num_kernels_per_period"):
        times(events, "dispatch", period=2)


def test_low_latency() -> None:
    """One kernel each: both versions' names find it, also in two halves that run by turns."""
    events = [event(name, at, at + long) for at, long in ((0, 4), (100, 6), (200, 4), (300, 6))
              for name in ("dispatch", "combine")]
    assert times(events, "dispatch", "dispatch_impl", "combine_impl") == pytest.approx([5e-6] * 3)
    assert times(events, "dispatch_impl", period=2)[0] == pytest.approx([4e-6, 6e-6])


@pytest.mark.parametrize(("make", "name", "within"), [
    (dispatch_of_many, "dispatch_copy_epilogue_impl", "dispatch_impl"), (dispatch_of_many, "notify", "dispatch"),
    (combine_of_many, "combine_reduce_epilogue_impl", "combine_impl")])
def test_work_without_a_kernel(make: Any, name: str, within: str) -> None:
    with pytest.warns(UserWarning, match=f"no kernel for '{name}', whose work is in the time of '{within}'"):
        whole, part = times(make(0), within, name, calls=1)
    assert whole > 0 and math.isnan(part)


def test_weights_that_go_back() -> None:
    """A combine whose weights go back by a dispatch: a warning says how long that takes."""
    with pytest.warns(UserWarning, match=r"30\.0 us a call, which are in no result"):
        assert times([*combine_of_many(0), *dispatch_of_many(100)], "combine_impl", calls=1) == [pytest.approx(20e-6)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        times(combine_of_many(0), "combine_impl")


def test_no_kernel() -> None:
    for name in ("dispatch_impl", "combine", "another"):
        with pytest.raises(RuntimeError, match=f"no kernel with '{name.split('_')[0]}'"):
            times([event("begin", 0, 1)], name)


def test_names_of_kernels() -> None:
    """Weft's sources have kernels with these names, in a namespace without a name."""
    there = {name for path in SOURCES.rglob("*.cu*")
             for name in re.findall(r"__global__[^;{]*?(\w+)\(const __grid_constant__", path.read_text())}
    assert {*_kernels.OF_KIND, *_kernels.DATA, _kernels.HEADERS, "dispatch", "combine"} <= there
