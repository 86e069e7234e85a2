"""How a run ends early: signals, deaths, silent ranks. Nothing may be left behind, and the reason must be reported."""

import os
import signal
import time

from judge import states
from relay import Relay
from stores import Etcd
from tool import Run, main, ranks_of, wait_for

PLAN = [[0, 1, 2]]
LONG = ["--iterations", 100000]


def running(run, count=3):
    """The rank processes, once all of them are in the phase."""
    wait_for("the phase", lambda: run.text().count("-> start phase 0") == count)
    pids = ranks_of(run.job)
    assert len(pids) == count, pids
    return pids


def ends_with(number):
    def test():
        with Etcd() as etcd:
            with Run("--store", etcd.url, *LONG, plan=PLAN) as run:
                running(run)
                run.process.send_signal(number)
                run.expect(128 + number)
                assert "interrupted by" in run.text()
                assert etcd.keys() == [], etcd.keys()
                assert run.results()["passed"] is False
                assert set(states(run.results(), 0).values()) == {"interrupted"}, states(run.results(), 0)
    return test


def a_killed_agent_takes_its_ranks_and_its_keys_with_it():
    with Etcd() as etcd:
        with Run("--store", etcd.url, *LONG, plan=PLAN) as run:
            running(run)
            assert etcd.keys()
            os.kill(run.process.pid, signal.SIGKILL)
            run.wait()
            run.expect_nothing_left()
            wait_for("the end of the leases", lambda: not etcd.keys())


def a_run_on_etcd_leaves_no_key():
    with Etcd() as etcd:
        with Run("--store", etcd.url, plan=[[0, 1], [0, 1, 2], [0, -1, 2], [1, 0]]) as run:
            run.expect(0)
            assert "etcd 3" in run.results()["store"]
        assert etcd.keys() == [], etcd.keys()


def a_rank_that_dies_unplanned_ends_the_run_and_is_named():
    with Run(*LONG, plan=PLAN) as run:
        victim = sorted(running(run))[1]
        rank = next(e["rank"] for e in run.events() if e["kind"] == "launch" and e["pid"] == victim)
        os.kill(victim, signal.SIGABRT)
        run.expect(5)
        assert f"rank {rank} on" in run.text() and "signal 6 (Aborted)" in run.text(), run.text()
        assert run.results()["exit_status"] == 5 and f"rank {rank} " in run.results()["error"]


def last_words_of_a_rank_may_be_no_text():
    """The agent sends the lead, in JSON, which takes only UTF-8, whatever bytes a library wrote last."""
    with Run(*LONG, plan=[[0]]) as run:
        victim, = running(run, 1)
        with open(run.path / "rank-0.log", "ab") as log:
            log.write(b"caf\xe9\n")
        os.kill(victim, signal.SIGABRT)
        run.expect(5)
        assert "signal 6 (Aborted)" in run.text() and "| caf?" in run.text(), run.text()


def a_rank_that_falls_silent_is_lost_after_one_deadline():
    with Run(*LONG, "--timeout-ms", 3000, plan=PLAN) as run:
        victim = running(run)[0]
        os.kill(victim, signal.SIGSTOP)
        run.expect(5)
        assert "was lost in" in run.text() and "which the plan does not expect" in run.text(), run.text()


def silence_of_the_store_ends_the_run():
    with Etcd() as etcd:
        with Run("--store", etcd.url, *LONG, "--startup-timeout", 12, plan=PLAN) as run:
            running(run)
            etcd.process.kill()
            assert run.wait() == 3, run.text()
            assert "has not answered" in run.text(), run.text()
            run.expect_nothing_left()


def a_store_that_dies_before_the_lead_knows_of_the_start_is_blamed():
    """The agent has it from its ranks, to print it, before the lead can have it from the store."""
    with Etcd() as etcd, Relay(etcd.port, delay=(0.15, 0.15)) as relay:
        with Run("--store", relay.url, *LONG, "--startup-timeout", 20, plan=PLAN) as run:
            running(run)
            etcd.process.kill()
            assert run.wait() == 3, run.text()
            assert "has not answered" in run.text() and "did not start" not in run.text(), run.text()
            run.expect_nothing_left()


def a_short_silence_of_the_store_does_not():
    with Etcd() as etcd:
        with Run("--store", etcd.url, "--iterations", 1500, plan=PLAN) as run:
            running(run)
            etcd.process.send_signal(signal.SIGSTOP)
            before = len(run.events())
            end = time.monotonic() + 3  # seconds of silence, well below a lease's life: the span is what is tested
            wait_for("the silence", lambda: time.monotonic() > end)
            etcd.process.send_signal(signal.SIGCONT)
            run.expect(0)
            assert len(run.events()) >= before


main({
    "ctrl_c": ends_with(signal.SIGINT),
    "sigterm": ends_with(signal.SIGTERM),
    **{test.__name__: test for test in (
        a_killed_agent_takes_its_ranks_and_its_keys_with_it,
        a_run_on_etcd_leaves_no_key,
        a_rank_that_dies_unplanned_ends_the_run_and_is_named,
        last_words_of_a_rank_may_be_no_text,
        a_rank_that_falls_silent_is_lost_after_one_deadline,
        silence_of_the_store_ends_the_run,
        a_store_that_dies_before_the_lead_knows_of_the_start_is_blamed,
        a_short_silence_of_the_store_does_not,
    )},
}, at_once=3)
