#!/usr/bin/env python3
"""What Python adds to a post of 8 bytes over shm, and to a dispatch and a combine on host memory,
also of Rank.prepare.

post.py [--batches N] [--rounds N] [--include DIR] [--library DIR] [--limit]

The same loops run in C (post.c, compiled here) and in Python, turn by turn; each figure is the median of batches of 500
calls, the least of all rounds. --library: the folder of libweft.so.0; default: that of the installed package. --limit:
exit status 1 where Python adds more than 1 us to a post, or 3 us to a dispatch or a combine.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import weft

HERE = pathlib.Path(__file__).resolve().parent
BATCH = 500
LIMITS = {"post": 1000, "dispatch": 3000, "combine": 3000, "dispatch, prepared": 3000, "combine, prepared": 3000}


def build(folder: str, include: pathlib.Path, library: pathlib.Path) -> str:
    program = f"{folder}/post"
    subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", f"-I{include}", HERE / "post.c", library / "libweft.so.0",
                    f"-Wl,-rpath,{library}", "-o", program], check=True)
    return program


def time_posts(batches: int) -> float:
    source, target = np.full(1, 7, np.uint64), np.zeros(1, np.uint64)
    with weft.Agent("a", transports="shm") as a, weft.Agent("b", transports="shm") as b:
        here, there = a.register(source), b.register(target)
        peer = a.load(b.metadata())
        each = []
        with a.write(here, there.descriptor(), peer) as transfer:
            for _ in range(batches):
                begin = time.perf_counter_ns()
                for _ in range(BATCH):
                    transfer.post()
                    while not transfer.poll():
                        pass
                each.append((time.perf_counter_ns() - begin) / BATCH)
    if target[0] != 7:
        sys.exit("post: the bytes did not arrive")
    return statistics.median(each)


def time_operations(batches: int, prepared: bool) -> tuple[float, float]:
    x, out = np.zeros((1, 256), np.uint16), np.zeros((1, 256), np.uint16)
    topk_idx, weights = np.array([[0, 1]]), np.full((1, 2), 0.5, np.float32)
    first, second = [], []
    clock = time.perf_counter_ns
    with weft.Store.local() as store, weft.ep.Rank(store, rank=0, founders=[0], hidden=256, topk=2,
                                                   experts_per_rank=2, max_tokens=8, capacity=8) as rank:
        rank.activate()
        into = rank.receive(rows=8)
        y, calls = into.x, rank.prepare()
        for _ in range(batches):
            sums = [0, 0]
            for _ in range(BATCH):
                begin = clock()
                if prepared:
                    number, _ = calls.dispatch(x, topk_idx, into)
                    middle = clock()
                    calls.combine(number, y, out, weights)
                else:
                    operation = rank.dispatch(x, topk_idx, weights, into=into)
                    middle = clock()
                    operation.combine(y, out)
                sums[1] += clock() - middle
                sums[0] += middle - begin
            first.append(sums[0] / BATCH)
            second.append(sums[1] / BATCH)
    return statistics.median(first), statistics.median(second)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--include", type=pathlib.Path, default=HERE.parent.parent / "include")
    parser.add_argument("--library", type=pathlib.Path, default=pathlib.Path(weft.__file__).parent)
    parser.add_argument("--limit", action="store_true")
    options = parser.parse_args()
    rounds: dict[str, list[tuple[float, float]]] = {name: [] for name in LIMITS}
    with tempfile.TemporaryDirectory() as folder:
        program = build(folder, options.include, options.library)
        for _ in range(options.rounds):
            said = subprocess.run([program, str(options.batches)], stdout=subprocess.PIPE, text=True, check=True)
            in_c = json.loads(said.stdout)
            in_python = dict(zip(LIMITS, (time_posts(options.batches), *time_operations(options.batches, False),
                                          *time_operations(options.batches, True))))
            for name in LIMITS:
                rounds[name].append((in_c[name.partition(",")[0]], in_python[name]))
    print(f"{'':20}{'C, ns':>10}{'Python, ns':>12}{'more, ns':>10}{'at most':>10}")
    over = False
    for name, limit in LIMITS.items():
        c, python = (min(one[i] for one in rounds[name]) for i in range(2))
        over = over or python - c > limit
        print(f"{name:20}{c:10.0f}{python:12.0f}{python - c:10.0f}{limit:10}")
    sys.exit(1 if options.limit and over else 0)


if __name__ == "__main__":
    main()
