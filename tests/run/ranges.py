#!/usr/bin/env python3
"""What a profiler sees of a run: ranges.py PROFILER

PROFILER is what tests/support/nvtx_tool.c became, or "" where Weft is built without NVTX. Each call of EP is a range,
and each range ends once.
"""
import collections
import json
import os
import subprocess
import sys
import tempfile

RANKS, ITERATIONS = 2, 3


def main():
    if len(sys.argv) < 2 or not sys.argv[1]:  # an empty argument does not always arrive
        print("skipped: built without NVTX (WEFT_NVTX), whose header comes with CUDA")
        return 77
    with tempfile.TemporaryDirectory(prefix="weft-ranges-") as folder:
        log = f"{folder}/ranges"
        with open(f"{folder}/plan.json", "w") as plan:
            json.dump([list(range(RANKS))], plan)
        run = subprocess.run([os.environ["WEFT"], "elastic", f"{folder}/plan.json", "--run-dir", f"{folder}/run",
                              "--num-processes", str(RANKS), "--memory", "host", "--hidden-dim", "256",
                              "--num-tokens", "8", "--iterations", str(ITERATIONS)],
                             env=os.environ | {"NVTX_INJECTION64_PATH": sys.argv[1], "WEFT_TEST_RANGES": log},
                             capture_output=True, text=True, timeout=100)
        if run.returncode != 0:
            sys.exit(f"the run failed: {run.stdout[-2000:]}{run.stderr[-2000:]}")
        names, ends = {}, collections.Counter()
        with open(log) as lines:
            for line in lines:
                pid, what, number, *rest = line.split(maxsplit=5)
                if what == "start":
                    assert rest[1] == "weft", line
                    names[pid, number] = rest[2].strip()
                else:
                    ends[pid, number] += 1
    assert set(ends) == set(names) and set(ends.values()) == {1}, "a range did not end once"
    count = collections.Counter((pid, name) for (pid, _), name in names.items())
    print(sorted(collections.Counter(names.values()).items()))
    ranks = {pid for pid, _ in names}
    assert len(ranks) == RANKS, f"ranges of {len(ranks)} processes"
    for pid in ranks:
        for name in "dispatch", "combine":
            calls = count[pid, f"{name}_send"] + count[pid, name]
            assert calls >= ITERATIONS, f"process {pid}: {calls} calls of {name}"
            assert count[pid, f"{name}_recv"] >= ITERATIONS, f"process {pid}: {name}_recv is missing"
    return 0


if __name__ == "__main__":
    sys.exit(main())
