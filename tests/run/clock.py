"""Whole runs while the wall clock steps forward and back by seconds and hours, ten times a second."""

import os
import time

from judge import check_states
from stores import Etcd
from tool import Run, main, wait_for

STEPS = {"LD_PRELOAD": os.environ["WEFT_CLOCK_STEPS"]}
PLAN = [[0, 1, 2], [0, 1, 2, 3], [0, -1, 2, 3], [0, 1, 2]]
ITERATIONS = 300


def runs_under_steps(*arguments):
    """A run ends right, and the times of its events are of the monotonic clock, each process' in their order."""
    begin = time.monotonic_ns()
    with Run("--iterations", ITERATIONS, *arguments, plan=PLAN, environment=STEPS) as run:
        run.expect(0)
        end = time.monotonic_ns()
        results, events = run.results(), run.events()
        check_states(results, PLAN, iterations=ITERATIONS)
        assert 0 < results["elapsed_s"] < (end - begin) / 1e9, results["elapsed_s"]
        assert all(begin < event["time_ns"] < end for event in events)
        for own in ("run_begin", "phase_begin", "phase_end", "run_end"), ("launch",):
            times = [event["time_ns"] for event in events if event["kind"] in own]
            assert len(times) > 3 and times == sorted(times), (own, times)
        for row in results["transitions"]:
            times = [row[key] for key in ("launch_us", "connect_us", "first_dispatch_us") if row[key] is not None]
            assert all(0 <= us < (end - begin) / 1e3 for us in times), row


def on_an_embedded_store():
    runs_under_steps()


def on_etcd():
    with Etcd() as etcd:
        runs_under_steps("--store", etcd.url)
        wait_for("the end of the run's keys", lambda: not etcd.keys())


def the_steps_are_seen():
    """Else the tests above prove nothing: the date of a run is hours away from this one's."""
    seen = set()
    for _ in range(8):
        with Run(plan=[[0]], environment=STEPS) as run:
            run.expect(0)
            started = time.mktime(time.strptime(run.results()["started"], "%Y-%m-%dT%H:%M:%SZ")) - time.timezone
            seen.add(abs(started - time.time()) > 1000)
        if True in seen:
            return
    raise AssertionError("no run saw a step")


main({test.__name__: test for test in (on_an_embedded_store, on_etcd, the_steps_are_seen)})
