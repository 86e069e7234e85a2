"""Shared parts of the tests on Slurm: jobs that are in a phase, checks of their ends, and several clusters at once."""

import contextlib
import pathlib
import sys
import time

from batch import Batch
from cluster import Cluster
from tool import main, wait_for

LONG = [[0, 1, 2, 3]] + 200 * [[0, 1, 2, 3], [0, 1, 2]]  # with MANY it runs for two minutes: longer than a test
MANY = {"iterations": 1000}


def running(cluster, name, *options, test=""):
    """Starts a batch with one job; returns both the batch and the job's number when phase 1 has begun."""
    batch = Batch(cluster, name).add(LONG, slots=2, test=test, **MANY)
    (number,) = batch.start(*options)
    wait_for("phase 1", lambda: batch.began(1) or cluster.state(number) == "FAILED")
    assert batch.began(1), batch.logs()
    return batch, number


def command_lines(cluster):
    """The command lines of the processes of the cluster's jobs: (process id, words)."""
    for pid in cluster.strays():
        with contextlib.suppress(OSError):  # the process has ended
            yield pid, pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


def agents(cluster, word):
    """The agents of the cluster's jobs with the word in their command line."""
    return [pid for pid, line in command_lines(cluster)
            if b"elastic" in line and word in line and b"srun" not in line[0]]


def processes_of(cluster, node):
    """All processes of a node's jobs: first slurmstepd of each step, then the processes that run in the steps."""
    steps, others = [], []
    for pid in cluster.strays():
        with contextlib.suppress(OSError):
            environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if f"SLURMD_NODENAME=n{node}".encode() in environment:
                others.append(pid)
                parent = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
                if b"slurmstepd" in pathlib.Path(f"/proc/{parent}/cmdline").read_bytes():
                    steps.append(parent)
    return list(dict.fromkeys(steps + others))


def has_measured(results, phase=0):
    """Whether a rank passed the phase according to the results of a run."""
    return any(rank["state"] == "passed" for rank in results["phases"][phase]["ranks"])


def expect_bad(cluster, batch, number, job_state, run_state, *words):
    """Checks that job and run ended in these states, the words are in the output, and no process is left."""
    assert cluster.wait_end(number)[0] == job_state, (cluster.job(number), batch.logs())
    batch.follow(status=1)
    (run,) = batch.states()
    assert run["state"] == run_state, run
    text = run["why"] + run.get("results", {}).get("error", "") + batch.logs()
    for word in words:
        assert word in text, (word, text)
    nothing_runs(cluster)
    return run


def nothing_runs(cluster):
    def runs():
        return any(b"elastic" in line or b"--rank" in b" ".join(line) for _, line in command_lines(cluster))
    wait_for("the end of all agents and ranks", lambda: not runs())


# --- lists of tests, each on a cluster, at once ---

def on_one_cluster(tests):
    def run():
        with Cluster() as cluster:
            for test in tests:
                began = time.monotonic()
                test(cluster)
                print(f"passed: {test.__name__} ({time.monotonic() - began:.1f} s)", flush=True)
    return run


def run_lists(lists, more=()):
    """Runs all lists at once, each on one cluster, and the tests of `more`, which make their own clusters. If the
    command line names a list or a test, runs only that."""
    each = {test.__name__: on_one_cluster([test]) for tests in lists.values() for test in tests}
    whole = {**{name: on_one_cluster(tests) for name, tests in lists.items()}, **{test.__name__: test for test in more}}
    main({**each, **whole} if len(sys.argv) > 1 else whole, at_once=3)
