"""Timing of calls, by events and by the names of kernels."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any, Callable

import torch
import torch.distributed as dist

from ._kernels import runs_of, times_of

CACHE_BYTES = 256 << 20
"""more than the second-level cache of any GPU"""


def flush_l2_cache(enabled: bool = True) -> None:
    """Empties the second-level cache of a GPU by writing more bytes than it holds."""
    if enabled and torch.cuda.is_available():
        torch.empty(CACHE_BYTES, dtype=torch.uint8, device="cuda").zero_()


def bench(fn: Callable[[], Any], num_warmups: int = 30, num_tests: int = 30,
          post_fn: Callable[[], Any] | None = None, flush_l2: bool = True) -> tuple[float, float, float]:
    """(mean, least, most) seconds of a call: between events of the current stream, or by the clock without a GPU. The
    first of the measured calls is left out. flush_l2: empties the cache before each call."""
    cuda = torch.cuda.is_available()
    for _ in range(num_warmups):
        fn()
    marks = []
    for _ in range(num_tests + 1):
        flush_l2_cache(flush_l2)
        begin = _mark(cuda)
        fn()
        marks.append((begin, _mark(cuda)))
        if post_fn is not None:
            post_fn()
    if cuda:
        torch.cuda.synchronize()
    times = [begin.elapsed_time(end) / 1e3 if cuda else end - begin for begin, end in marks][1:]
    return statistics.fmean(times), min(times), max(times)


def _mark(cuda: bool) -> Any:
    if not cuda:
        return time.monotonic()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def bench_kineto(fn: Callable[[], Any], kernel_names: str | Sequence[str], num_tests: int = 30,
                 suppress_kineto_output: bool = False, trace_path: str | None = None, flush_l2: bool = True,
                 barrier_comm_profiling: bool = False, num_kernels_per_period: int = 1,
                 barrier: Callable[[], Any] | None = None) -> Any:
    """Mean seconds of the kernels whose names contain each of `kernel_names`: a number for one name, a tuple for
    several. With num_kernels_per_period each entry is a list, for kernels that run by turns. flush_l2: empties the
    cache before each call. barrier_comm_profiling: ranks meet before each call, in `barrier` or by an all-reduce.

    The names of the originals' kernels stand for those of Weft that do the same: `dispatch_impl` and `combine_impl`
    mean `dispatch` and `combine`. If fn has operations of many tokens, these names give the seconds of a call in which
    kernels of its dispatches or combines run. For `dispatch_copy_epilogue_impl` and `combine_reduce_epilogue_impl` Weft
    has no kernel: their work is in the time of the two, so their own time is nan, and a warning says so."""
    del suppress_kineto_output
    if not torch.cuda.is_available():
        raise RuntimeError("bench_kineto: kernels run on a GPU, and there is none; bench() measures without one")
    names = (kernel_names,) if isinstance(kernel_names, str) else tuple(kernel_names)
    fn()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        for _ in range(num_tests):
            flush_l2_cache(flush_l2)
            if barrier_comm_profiling and barrier is not None:
                barrier()
            elif barrier_comm_profiling:
                dist.all_reduce(torch.ones(1, dtype=torch.float, device="cuda"))
            fn()
        torch.cuda.synchronize()
    if trace_path is not None:
        profiler.export_chrome_trace(trace_path)
    results = times_of(runs_of(profiler.events()), names, num_tests, num_kernels_per_period)
    return results[0] if isinstance(kernel_names, str) else tuple(results)
