"""Agents that are killed or stopped during a run: their ranks end with them, and the others go on, or end and name the
agent."""

import contextlib
import os
import signal
import time

from judge import check_states
from stores import Etcd, Serve
from tool import Run, free_port, main, ranks_of, wait_for

PLAN = [[0, 1, 2, 3], [0, 1, 2, 3, 4], [0, 1, -2, 3]]
TWO = ["--num-agents", 2, "--num-processes", 3]
LONG = ["--iterations", 1000000]
LEASE = 10  # seconds


def follower(lead, *arguments):
    return Run(*arguments, "--num-processes", 3, job=lead.job)


@contextlib.contextmanager
def two_agents(url):
    """A lead and a follower on one store, each rank in phase 0, which does not end."""
    with Run(*TWO, *LONG, "--store", url, plan=PLAN) as lead, follower(lead, "--store", url) as other:
        wait_for("phase 0", lambda: (lead.text() + other.text()).count("-> start phase 0") == 4)
        yield lead, other


def ranks_at(run):
    """The ranks that this agent has launched: their processes, by number."""
    return {e["rank"]: e["pid"] for e in run.events() if e["kind"] == "launch"}


def kill(run):
    """SIGKILL to the agent alone; its ranks die with it."""
    pids = ranks_at(run).values()
    os.kill(run.process.pid, signal.SIGKILL)
    run.process.wait()
    wait_for("the end of its ranks", lambda: not set(pids) & set(ranks_of(run.job)))


def names_who_is_gone(lead, other):
    """The lead's reason: the agent itself, or one of its ranks, whoever was missed first."""
    error = lead.results()["error"]
    assert "agent 1 on" in error or any(f"rank {rank} was lost" in error for rank in ranks_at(other)), error


def the_second_agent_is_killed(kind):
    def test():
        with kind() as store:
            with two_agents(store.url) as (lead, other):
                kill(other)
                lead.expect(5)
                names_who_is_gone(lead, other)
            wait_for("the end of the leases", lambda: not store.keys())
    return test


def the_lead_is_killed(kind):
    def test():
        with kind() as store:
            with two_agents(store.url) as (lead, other):
                kill(lead)
                assert other.wait() == 5, other.text()
                other.expect_nothing_left()
                assert f"the lead of job '{lead.job}' has ended or is unreachable" in other.text(), other.text()
            wait_for("the end of the leases", lambda: not store.keys())
    return test


def the_lead_is_killed_and_the_store_with_it():
    port = free_port()
    with Run(*TWO, *LONG, "--store-port", port, plan=PLAN) as lead:
        with follower(lead, "--rank-server", f"127.0.0.1:{port}") as other:
            wait_for("phase 0", lambda: (lead.text() + other.text()).count("-> start phase 0") == 4)
            kill(lead)
            assert other.wait() == 3, other.text()
            other.expect_nothing_left()
            assert f"127.0.0.1:{port} has not answered for {LEASE} s" in other.text(), other.text()


def stopped(arguments, seconds):
    """SIGSTOP to the only agent while a phase runs, SIGCONT after so long; the run ends right."""
    with Run(*arguments, "--iterations", 300, plan=PLAN) as run:
        wait_for("phase 0", lambda: run.text().count("-> start phase 0") == 4)
        run.pause()
        end = time.monotonic() + seconds  # the span is what is tested
        wait_for("the end of the stop", lambda: time.monotonic() > end)
        run.resume()
        run.expect(0)
        check_states(run.results(), PLAN, iterations=300)


def the_agent_is_stopped_for_less_than_a_lease():
    stopped([], LEASE / 2)


def the_agent_is_stopped_for_longer_than_a_lease_and_its_store_with_it():
    stopped([], LEASE + 3)


def the_agent_is_stopped_for_longer_than_a_lease_by_etcd():
    with Etcd() as etcd:
        stopped(["--store", etcd.url], LEASE + 3)
        wait_for("the end of the run's keys", lambda: not etcd.keys())


def the_second_agent_is_stopped_for_longer_than_a_lease():
    with Serve() as store:
        with two_agents(store.url) as (lead, other):
            other.pause()
            lead.expect_status(5)
            assert "agent 1 on" in lead.results()["error"], lead.text()
            other.resume()
            assert other.wait() == 5, other.text()
            assert "agent 1 on" in other.text(), other.text()
            other.expect_nothing_left()


main({
    "the_second_agent_is_killed_on_an_embedded_store": the_second_agent_is_killed(Serve),
    "the_second_agent_is_killed_on_etcd": the_second_agent_is_killed(Etcd),
    "the_lead_is_killed_on_an_embedded_store": the_lead_is_killed(Serve),
    "the_lead_is_killed_on_etcd": the_lead_is_killed(Etcd),
    **{test.__name__: test for test in (
        the_lead_is_killed_and_the_store_with_it,
        the_agent_is_stopped_for_less_than_a_lease,
        the_agent_is_stopped_for_longer_than_a_lease_and_its_store_with_it,
        the_agent_is_stopped_for_longer_than_a_lease_by_etcd,
        the_second_agent_is_stopped_for_longer_than_a_lease,
    )},
}, at_once=4)
