"""The time of Weft's kernels that do the work of the originals' kernels, by the names that programs know.

At low latency a dispatch and a combine are one kernel each, which has this name. An operation of many tokens runs
several kernels, and some of them side by side. Its time is that in which at least one of them runs.
"""

from __future__ import annotations

import re
import statistics
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

KINDS = {"dispatch": "dispatch", "dispatch_impl": "dispatch", "combine": "combine", "combine_impl": "combine"}
"""names of the originals' kernels, and the operation that each is for"""
WITHIN = {"dispatch_copy_epilogue_impl": "dispatch_impl", "combine_reduce_epilogue_impl": "combine_impl",
          "notify": "dispatch"}
"""names of work for which Weft has no kernel, and the name in whose time it is"""
OF_KIND = {"plan_kernel": "dispatch", "rows_kernel": "dispatch", "notify_kernel": "dispatch", "lists": "dispatch",
           "compare": "dispatch", "answers_kernel": "combine", "by_rank_kernel": "combine", "end": "combine"}
"""kernels of operations of many tokens"""
DATA = "rows_kernel", "answers_kernel", "by_rank_kernel"
"""those that move rows: each operation has one"""
HEADERS = "control"
"""the kernel that exchanges headers: a dispatch and a combine both have it, before their rows"""
NAME = re.compile(r"(?:void )?\(anonymous namespace\)::(\w+)[<(]")


class Run(NamedTuple):
    """One run of a kernel."""

    name: str
    begin: float
    end: float
    """microseconds"""


def runs_of(events: Iterable[Any]) -> list[Run]:
    """The runs of kernels among the events of torch's profiler, in the order in which they began."""
    return sorted((Run(event.name, event.time_range.start, event.time_range.end) for event in events
                   if event.device_time > 0), key=lambda run: run.begin)


def many_tokens(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """The runs that belong to dispatches and to combines of many tokens. A barrier has none of these kernels."""
    found: dict[str, list[Run]] = {"dispatch": [], "combine": []}
    waiting: list[Run] = []
    for run in runs:
        match = NAME.match(run.name)
        name = match.group(1) if match else ""
        if name == HEADERS:
            waiting.append(run)
        elif name in OF_KIND:
            found[OF_KIND[name]].append(run)
        if name in DATA:
            found[OF_KIND[name]] += waiting
            waiting = []
    return found


def busy(runs: Iterable[Run]) -> float:
    """Seconds in which at least one of the runs was going on."""
    total, until = 0.0, float("-inf")
    for run in sorted(runs, key=lambda one: one.begin):
        total += max(0.0, run.end - max(run.begin, until))
        until = max(until, run.end)
    return total / 1e6


def times_of(runs: Sequence[Run], names: Sequence[str], calls: int, period: int) -> list[Any]:
    """For each name the seconds of its kernels: see bench_kineto, whose function was called so many times."""
    many = many_tokens(runs)
    _warn_of_others(many, names, calls)
    return [_time_of(runs, many, name, calls, period) for name in names]


def _time_of(runs: Sequence[Run], many: dict[str, list[Run]], name: str, calls: int, period: int) -> Any:
    kind = KINDS.get(name)
    if kind is not None and many[kind]:
        if period > 1:
            raise ValueError(f"num_kernels_per_period: it goes with low latency; a {kind} of many tokens runs several "
                             "kernels, some of them side by side, which do not come by turns")
        return busy(many[kind]) / calls
    times = [(run.end - run.begin) / 1e6 for run in runs if (kind or name) in run.name]
    if not times and name in WITHIN:
        warnings.warn(f"bench_kineto: Weft has no kernel for {name!r}, whose work is in the time of {WITHIN[name]!r}: "
                      "its own time is nan", stacklevel=4)
        return [float("nan")] * period if period > 1 else float("nan")
    if not times:
        raise RuntimeError(f"bench_kineto: no kernel with {kind or name!r} in its name has run")
    turns = [statistics.fmean(times[turn::period]) for turn in range(period)]
    return turns if period > 1 else turns[0]


def _warn_of_others(many: dict[str, list[Run]], names: Sequence[str], calls: int) -> None:
    """Says what is in no result: a combine sends weights back by a dispatch, of which its name does not tell."""
    asked = {KINDS.get(WITHIN.get(name, name)) for name in names}
    if "combine" in asked and "dispatch" not in asked and many["combine"] and many["dispatch"]:
        warnings.warn("bench_kineto: dispatches have run as well, for "
                      f"{busy(many['dispatch']) / calls * 1e6:.1f} us a call, which are in no result: a combine with "
                      "topk_weights sends them back by a dispatch", stacklevel=4)
