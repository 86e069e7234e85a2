"""SIGINT, SIGTERM and SIGHUP at every stage of a run, and SIGUSR1 before a time limit: the run stops cleanly, its exit
status names the signal, and nothing is left behind."""

import json
import signal
import time

from stores import Etcd
from tool import Run, free_port, main, wait_for

PLAN = [[0, 1, 2], [0, 1, 2, 3], [0, -1, 2, 3], [0, 2]]
LONGER = PLAN + 20 * [[0, 2]]  # a signal finds the run going on behind its departure, on a crowded machine too


def has(run, kind, **fields):
    """Whether the run has seen such an event."""
    file = run.path / "events.jsonl"
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    events = [json.loads(line) for line in lines if line.endswith("\n")]
    return any(e["kind"] == kind and all(e.get(k) == v for k, v in fields.items()) for e in events)


STAGES = {
    "the_first_launch": lambda run: has(run, "launch", phase=0),
    "the_first_phase": lambda run: run.text().count("-> start phase 0") == 3,
    "a_transition": lambda run: has(run, "phase_begin", phase=1),
    "a_launch": lambda run: has(run, "launch", phase=1),
    "a_kill": lambda run: has(run, "phase_begin", phase=2),
    "a_departure": lambda run: has(run, "phase_begin", phase=3),
    "the_end": lambda run: has(run, "phase_end", phase=3),
}
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # though these tests run by nohup
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def stopped_at(etcd, stage, number):
    """The run may be over before the signal comes only where the stage is its end."""
    plan = LONGER if stage == "a_departure" else PLAN
    with Run("--store", etcd.url, "--iterations", 100, plan=plan) as run:
        wait_for(stage, lambda: STAGES[stage](run) or run.process.poll() is not None)
        run.process.send_signal(number)
        status = run.wait()
        assert status == 128 + number or (stage == "the_end" and status == 0), (stage, status, run.text())
        run.expect_nothing_left()
        if status:
            results = run.results()
            assert f"interrupted by {number.name}" in run.text() and results["passed"] is False, run.text()
            assert results["exit_status"] == status, results["exit_status"]
        assert etcd.keys() == [], (stage, etcd.keys())


def every_stage(number):
    def test():
        with Etcd() as etcd:
            for stage in STAGES:
                stopped_at(etcd, stage, number)
    return test


def while_agents_are_awaited():
    for number in SIGNALS:
        with Run("--num-agents", 2, "--store-port", free_port(), plan=PLAN) as run:
            wait_for("the lead", lambda: "waiting for agents" in run.text())
            run.process.send_signal(number)
            run.expect(128 + number)
        with Run("--rank-server", f"127.0.0.1:{free_port()}") as run:  # no lead there
            wait_for("the signals' handler", lambda: handles(run, number))
            run.process.send_signal(number)
            run.expect(128 + number)
            assert not run.path.exists()


def nohup():
    """A hangup is ignored from the start, and ends nothing."""
    with Run("--iterations", 100, plan=PLAN, inside=("nohup",)) as run:
        wait_for("phase 0", lambda: has(run, "phase_begin", phase=0))
        run.process.send_signal(signal.SIGHUP)
        run.expect(0)


def handles(run, number):
    """Whether the agent has the signal blocked, to take it from its signalfd."""
    with open(f"/proc/{run.process.pid}/status", encoding="ascii") as file:
        blocked = next(int(line.split()[1], 16) for line in file if line.startswith("SigBlk"))
    return blocked >> (number - 1) & 1


def near_the_time_limit():
    """SIGUSR1, which batch systems send before a job's limit: the lead ends in its phase with what was measured, and
    its followers with its word, whether or not they get the signal."""
    with Run("--num-agents", 2, "--num-processes", 2, "--store-port", port := free_port(), "--iterations", 100,
             plan=LONGER) as lead:
        with Run("--rank-server", f"127.0.0.1:{port}", "--num-processes", 2, job=lead.job) as follower:
            wait_for("phase 1", lambda: has(lead, "phase_begin", phase=1))
            follower.process.send_signal(signal.SIGUSR1)  # means nothing to it
            wait_for("phase 3", lambda: has(lead, "phase_begin", phase=3))
            lead.process.send_signal(signal.SIGUSR1)
            lead.expect_status(128 + signal.SIGUSR1)
            follower.expect_status(128 + signal.SIGUSR1)
            results = lead.results()
            assert "the time limit is near (SIGUSR1): ended in phase" in results["error"], results["error"]
            assert results["phases"][1]["ranks"][0]["state"] == "passed", results["phases"][1]
            assert "the lead ended the run: the time limit is near" in follower.text(), follower.text()


def a_follower_tells_why():
    """SIGTERM to a follower: the lead names it with its reason, also where it hears that and the follower's end at
    once."""
    with Etcd() as etcd:
        with Run("--num-agents", 2, "--num-processes", 2, "--store", etcd.url, "--iterations", 1000000,
                 plan=[[0, 1, 2, 3]]) as lead:
            with Run("--store", etcd.url, "--num-processes", 2, job=lead.job) as follower:
                wait_for("phase 0", lambda: has(lead, "phase_begin", phase=0))
                wait_for("the ranks", lambda: lead.text().count("-> start phase 0") == 2)
                lead.process.send_signal(signal.SIGSTOP)
                follower.process.send_signal(signal.SIGTERM)
                follower.expect_status(128 + signal.SIGTERM)
                lead.process.send_signal(signal.SIGCONT)
                lead.wait()
                error = lead.results()["error"]
                assert error.startswith("agent 1 on ") and ": interrupted by SIGTERM: ended in phase 0" in error, error


def two_signals_are_one():
    with Run("--iterations", 1000000, plan=PLAN) as run:
        wait_for("phase 0", lambda: run.text().count("-> start phase 0") == 3)
        run.process.send_signal(signal.SIGINT)
        run.process.send_signal(signal.SIGTERM)
        status = run.wait()
        assert status in (128 + signal.SIGINT, 128 + signal.SIGTERM), status
        run.expect_nothing_left()


def signals_until_it_has_ended():
    """One signal after the other, as long as the process exists: the exit status is that of the first signal."""
    with Run("--iterations", 1000000, plan=[[0, 1]]) as run:
        wait_for("phase 0", lambda: run.text().count("-> start phase 0") == 2)
        end = time.monotonic() + 60
        while run.process.poll() is None:
            assert time.monotonic() < end, run.text()
            run.process.send_signal(signal.SIGINT)
            time.sleep(0.0002)  # between two of them
        run.expect(128 + signal.SIGINT)


def while_the_store_is_silent():
    with Etcd() as etcd:
        with Run("--store", etcd.url, "--iterations", 1000000, plan=PLAN) as run:
            wait_for("phase 0", lambda: run.text().count("-> start phase 0") == 3)
            etcd.pause()
            run.process.send_signal(signal.SIGINT)
            run.expect(128 + signal.SIGINT)
            assert run.results()["passed"] is False
            etcd.resume()
            wait_for("the end of the leases", lambda: not etcd.keys())


main({
    **{f"{number.name.lower()}_at_every_stage": every_stage(number) for number in SIGNALS},
    **{test.__name__: test for test in (
        while_agents_are_awaited, nohup, near_the_time_limit, a_follower_tells_why, two_signals_are_one,
        signals_until_it_has_ended, while_the_store_is_silent)},
}, at_once=2)
