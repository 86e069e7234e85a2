"""Rank processes that stop while they start: they are named soon, with what helps, and first if the run fails because
of them."""

import os
import pathlib
import signal
import time

from stores import Serve
from tool import Run, main, wait_for

PLAN = [[0, 1], [0, 1, 2]]
TRIES = 20
STANDSTILL_S = 6
STOPPED = "is stopped (state T: a signal stopped it; SIGCONT continues it)"


def children(run):
    return set(pathlib.Path(f"/proc/{run.process.pid}/task/{run.process.pid}/children").read_text().split())


def stop_newcomer(run, at):
    """SIGSTOP to rank 2 before it has joined, whose process `at` starts. False: it was faster than that."""
    before = wait_for("phase 0", lambda: "-> start phase 0" in run.text() and children(at))
    new = wait_for("its process", lambda: children(at) - before)
    pid = int(new.pop())
    os.kill(pid, signal.SIGSTOP)
    wait_for("its stop", lambda: "\nState:\tT" in pathlib.Path(f"/proc/{pid}/status").read_text())
    return pid if not any(e["kind"] == "activated" and e["rank"] == 2 for e in at.events()) else 0


def with_a_stopped_rank(check, *arguments):
    for _ in range(TRIES):
        with Run("--iterations", 300, *arguments, plan=PLAN) as run:
            pid = stop_newcomer(run, run)
            if pid:
                check(run, f"rank 2 on {os.uname().nodename}, process {pid}, {STOPPED}", pid)
                return
    raise AssertionError(f"rank 2 was never stopped in time, {TRIES} times")


def one_that_stays_stopped_is_at_fault():
    def check(run, named, _):
        run.expect(124)
        assert run.text().count(f"weft elastic: {named}; others wait for it") == 1, run.text()
        error = run.results()["error"]
        assert error.startswith(named) and "phase 1: rank" in error, error
    with_a_stopped_rank(check, "--startup-timeout", 8)


def one_that_goes_on_is_waited_for():
    def check(run, named, pid):
        wait_for("the notice", lambda: named in run.text())
        os.kill(pid, signal.SIGCONT)
        run.expect(0)
        assert run.text().count(named) == 1 and f"process {pid}, continues" in run.text(), run.text()
        kinds = [event["kind"] for event in run.events()]
        assert kinds.count("standstill") == 1, kinds
    with_a_stopped_rank(check, "--iterations", 3000)


def ranks_go_on_while_their_agent_stands_still():
    """For as long as it takes to fill the pipe by which they tell it how far they are."""
    with Run("--iterations", 1000000, "--num-tokens", 4, "--hidden-dim", 128, plan=[[0, 1]]) as run:
        ranks = wait_for("both", lambda: "-> start phase 0" in run.text() and len(children(run)) == 2 and children(run))
        operated = [used(pid) for pid in sorted(ranks)]
        os.kill(run.process.pid, signal.SIGSTOP)
        try:
            for _ in range(STANDSTILL_S):
                time.sleep(1)  # while the agent stands still, nothing tells how far they are but their processors' time
                before, operated = operated, [used(pid) for pid in sorted(ranks)]
                assert all(now > then for now, then in zip(operated, before)), (before, operated)
        finally:
            os.kill(run.process.pid, signal.SIGCONT)
        run.process.send_signal(signal.SIGINT)
        run.expect(130)
        assert "lost" not in run.results()["error"], run.results()["error"]


def used(pid):
    """Of the processors, by the thread that operates."""
    fields = pathlib.Path(f"/proc/{pid}/task/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def one_of_another_agent_is_reported_by_the_lead():
    for _ in range(TRIES):
        with Serve() as store, Run("--num-agents", 2, "--num-processes", 2, "--store", store.url, "--startup-timeout",
                                   8, "--iterations", 300, plan=PLAN) as lead:
            wait_for("the lead", lambda: "waiting for agents" in lead.text())
            with Run("--store", store.url, "--num-processes", 1, job=lead.job) as other:
                if not (pid := stop_rank_there(other)):
                    continue
                lead.expect_status(124)
                other.expect(124)
                named = f"process {pid}, {STOPPED}"
                assert lead.text().count(f"{named}; others wait") == 1, lead.text()
                assert named in lead.results()["error"].split("phase")[0], lead.results()["error"]
                return
    raise AssertionError(f"a rank was never stopped in time, {TRIES} times")


def stop_rank_there(other):
    """The first rank that the other agent starts, in whichever phase; 0: it was faster."""
    pid = int(wait_for("a rank there", lambda: other.process.poll() is None and children(other)).pop())
    os.kill(pid, signal.SIGSTOP)
    wait_for("its stop", lambda: "\nState:\tT" in pathlib.Path(f"/proc/{pid}/status").read_text())
    return pid if not any(e["kind"] == "activated" for e in other.events()) else 0


main({test.__name__: test for test in (
    one_that_stays_stopped_is_at_fault,
    one_that_goes_on_is_waited_for,
    ranks_go_on_while_their_agent_stands_still,
    one_of_another_agent_is_reported_by_the_lead,
)}, at_once=3)
