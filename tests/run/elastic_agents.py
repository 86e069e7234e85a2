"""Agents that come and go (--agents elastic): if an agent dies, only its ranks are lost, and its successor restores
them; SIGTERM makes an agent leave, and others may join during the run."""

import os
import signal

from judge import states
from stores import Etcd, Serve
from tool import Run, free_port, main, ranks_of, wait_for

FOUR = [0, 1, 2, 3]
ELASTIC = ["--agents", "elastic", "--num-agents", 2, "--num-processes", 2]
LONG = ["--iterations", 3000]
ENDLESS = ["--iterations", 1000000]


class Meeting:
    """Where the agents of a test meet: on a store that is there already, or inside the lead."""

    def __init__(self, kind=None):
        self.store = kind() if kind else None
        self.port = free_port()

    def __enter__(self):
        if self.store:
            self.store.__enter__()
        return self

    def __exit__(self, *reason):
        if self.store:
            self.store.__exit__(*reason)

    def lead(self, *arguments, plan):
        where = ["--store", self.store.url] if self.store else ["--store-port", self.port]
        return Run(*arguments, *where, plan=plan)

    def follower(self, lead, *arguments, slots=2):
        where = ["--store", self.store.url] if self.store else ["--rank-server", f"127.0.0.1:{self.port}"]
        return Run("--num-processes", slots, *where, *arguments, job=lead.job)


def in_phase(lead, follower, phase):
    """Each rank of the four has begun the phase."""
    wait_for(f"phase {phase}", lambda: (lead.text() + follower.text()).count(f"-> start phase {phase}\n") == 4)


def kinds(run):
    return [event["kind"] for event in run.events()]


def reasons(results, phase):
    return {row["reason"] for row in results["phases"][phase]["ranks"] if row["rank"] in (2, 3)}


def ends_right(results, phase, state, word):
    """Ranks 2 and 3 were lost in that phase, of which all else is measured; in every other phase all four pass."""
    assert results["passed"] and results["error"] == "" and results["exit_status"] == 0, results["error"]
    for index, _ in enumerate(results["phases"]):
        gone = state if index == phase else "passed"
        assert states(results, index) == {0: "passed", 1: "passed", 2: gone, 3: gone}, (index, states(results, index))
        for row in results["phases"][index]["ranks"]:
            assert row["state"] != "passed" or row["both"]["count"] == results["config"]["iterations"], row
    for reason in reasons(results, phase):
        assert reason.startswith("its agent, 1 on ") and word in reason, reason


def a_successor_brings_the_ranks_back(kind):
    def test():
        plan = [FOUR, FOUR, FOUR]
        with Meeting(kind) as meeting, meeting.lead(*ELASTIC, *LONG, plan=plan) as lead:
            with meeting.follower(lead) as first:
                in_phase(lead, first, 1)
                os.kill(first.process.pid, signal.SIGKILL)
                assert first.wait() == -signal.SIGKILL
                with meeting.follower(lead) as second:
                    lead.expect_status(0)
                    second.expect(0)
                    assert "has ended or is unreachable: phase 1 goes on without ranks 2 3" in lead.text(), lead.text()
                    assert "2 lost with an agent" in lead.text(), lead.text()
                    assert "agent_lost" in kinds(lead), kinds(lead)
                    assert (second.path / "rank-2.log").exists()
            results = lead.results()
            ends_right(results, 1, "lost", "ended or was unreachable")
            assert results["plan"] == plan, results["plan"]
            joined = [(c["phase"], c["rank"]) for c in results["transitions"] if c["change"] == "join"]
            assert joined[4:] == [(2, 2), (2, 3)], joined
    return test


def an_agent_leaves_by_sigterm(kind):
    def test():
        plan = [FOUR, FOUR, FOUR]
        with Meeting(kind) as meeting, meeting.lead(*ELASTIC, *LONG, plan=plan) as lead:
            with meeting.follower(lead) as first:
                in_phase(lead, first, 1)
                first.process.send_signal(signal.SIGTERM)
                first.expect_status(0)
                assert "asked to leave (SIGTERM): 2 ranks of this agent leave the group" in first.text(), first.text()
                assert f"left: agent 1 of job {lead.job}, 2 ranks ran here" in first.text(), first.text()
                ended = [event for event in first.events() if event["kind"] == "exit"]
                assert [event["status"] for event in ended] == [0, 0], ended
                with meeting.follower(lead) as second:
                    lead.expect_status(0)
                    second.expect(0)
            ends_right(lead.results(), 1, "left", "left")
            assert "leaves: phase 1 goes on without ranks 2 3" in lead.text(), lead.text()
    return test


def a_second_sigterm_ends_at_once():
    """The lead, which is stopped, cannot say that the ranks may go."""
    with Meeting(Serve) as meeting, meeting.lead(*ELASTIC, *LONG, plan=[FOUR, [0, 1]]) as lead:
        with meeting.follower(lead) as first:
            in_phase(lead, first, 0)
            lead.pause()
            first.process.send_signal(signal.SIGTERM)
            wait_for("the first", lambda: "asked to leave" in first.text())
            first.process.send_signal(signal.SIGTERM)
            first.expect_status(128 + signal.SIGTERM)
            lead.resume()
        lead.expect(0)
        assert states(lead.results(), 0) == {0: "passed", 1: "passed", 2: "left", 3: "left"}, lead.text()


def a_run_that_needs_nobody_else_ends_right():
    """Also where the lost rank was to be killed, and one was to leave, in the next phase."""
    with Meeting() as meeting, meeting.lead(*ELASTIC, *LONG, plan=[FOUR, [0, -3, 1], [0, 1]]) as lead:
        with meeting.follower(lead) as first:
            in_phase(lead, first, 0)
            first.process.send_signal(signal.SIGTERM)
            first.expect_status(0)
        lead.expect(0)
        results = lead.results()
        assert results["passed"] and states(results, 0) == {0: "passed", 1: "passed", 2: "left", 3: "left"}
        assert states(results, 1) == {0: "passed", 1: "passed", 2: "not_member", 3: "not_member"}, states(results, 1)


def slots_that_nobody_brings_end_the_run_by_name():
    with Meeting() as meeting:
        with meeting.lead(*ELASTIC, *LONG, "--startup-timeout", 15, plan=[FOUR, FOUR]) as lead:
            with meeting.follower(lead) as first:
                in_phase(lead, first, 0)
                first.process.send_signal(signal.SIGTERM)
                first.expect_status(0)
            lead.expect(124)
            assert "phase 1 needs 4 process slots, but the agents here have 2" in lead.text(), lead.text()
            assert f"weft elastic --rank-server 127.0.0.1:{meeting.port} --job {lead.job} --num-processes 2" in \
                lead.text(), lead.text()


def more_agents_join_a_running_group():
    """The lead awaits none; each next phase waits for the agent that it lacks."""
    plan = [[0], [0, 1], [0, 1, 2]]
    with Meeting() as meeting:
        with meeting.lead("--agents", "elastic", "--num-agents", 1, "--num-processes", 1, plan=plan) as lead:
            wait_for("the first need", lambda: "phase 1 waits for other agents: 1 more" in lead.text())
            with meeting.follower(lead, slots=1) as one:
                wait_for("the second need", lambda: "phase 2 waits for other agents: 1 more" in lead.text())
                with meeting.follower(lead, slots=1) as other:
                    for run in (lead, one, other):
                        run.expect_status(0)
            assert states(lead.results(), 2) == {0: "passed", 1: "passed", 2: "passed"}


def an_agent_that_dies_while_its_ranks_join():
    """Also two at once: of one the ranks are members, of the other they are about to be."""
    plan = [FOUR, [*FOUR, 4, 5], [*FOUR, 4, 5]]
    arguments = ["--agents", "elastic", "--num-agents", 3, "--num-processes", 2, *LONG]
    with Meeting(Serve) as meeting, meeting.lead(*arguments, plan=plan) as lead:
        with meeting.follower(lead) as one, meeting.follower(lead) as other:
            followers = [one, other]
            logs = ("rank-4.log", "rank-5.log")
            wait_for("ranks that join", lambda: all(any((run.path / name).exists() for run in followers)
                                                   for name in logs))
            for run in followers:
                os.kill(run.process.pid, signal.SIGKILL)
            with meeting.follower(lead, slots=4) as successor:
                lead.expect_status(0)
                successor.expect(0)
        results = lead.results()
        assert results["passed"] and set(states(results, 2).values()) == {"passed"}, states(results, 2)
        lost = {rank for rank, state in states(results, 1).items() if state == "lost"}
        assert lost == {2, 3, 4, 5}, states(results, 1)


def many_tokens_go_on_as_well():
    """In throughput mode all ranks run the same operations: after a loss they line up again."""
    more = ["--mode", "throughput", "--num-tokens", 64, "--iterations", 100]
    with Meeting() as meeting, meeting.lead(*ELASTIC, *more, plan=[FOUR, FOUR, FOUR]) as lead:
        with meeting.follower(lead) as first:
            in_phase(lead, first, 1)
            first.process.send_signal(signal.SIGTERM)
            first.expect_status(0)
        with meeting.follower(lead) as second:
            lead.expect_status(0)
            second.expect(0)
        ends_right(lead.results(), 1, "left", "left")


def a_rank_that_crashes_still_ends_the_run():
    with Meeting() as meeting, meeting.lead(*ELASTIC, *ENDLESS, plan=[FOUR, FOUR]) as lead:
        with meeting.follower(lead) as first:
            in_phase(lead, first, 0)
            ranks = {event["rank"]: event["pid"] for event in first.events() if event["kind"] == "launch"}
            os.kill(ranks[2], signal.SIGSEGV)
            lead.expect_status(5)
            assert first.wait() == 5, first.text()
            assert "rank 2 on" in lead.results()["error"] and "signal 11" in lead.results()["error"], lead.text()
            wait_for("the end of the ranks", lambda: not ranks_of(lead.job))


def the_end_of_the_lead_is_that_of_the_run():
    with Meeting(Serve) as meeting, meeting.lead(*ELASTIC, *ENDLESS, plan=[FOUR, FOUR]) as lead:
        with meeting.follower(lead) as first:
            in_phase(lead, first, 0)
            lead.process.send_signal(signal.SIGTERM)
            lead.expect_status(128 + signal.SIGTERM)
            first.expect(128 + signal.SIGTERM)


def both_have_to_be_one(value):
    """A follower and the lead must be given the same --agents."""
    def test():
        with Meeting() as meeting, meeting.lead(*ELASTIC, plan=[FOUR]) as lead:
            with meeting.follower(lead, "--agents", value) as follower:
                if value == "fixed":
                    follower.expect_status(2)
                    assert '--agents is "fixed" here, but "elastic" at the lead' in follower.text(), follower.text()
                    lead.process.send_signal(signal.SIGTERM)
                    lead.expect(128 + signal.SIGTERM)
                else:
                    lead.expect_status(0)
                    follower.expect(0)
    return test


main({
    "a_successor_brings_the_ranks_back_embedded": a_successor_brings_the_ranks_back(None),
    "a_successor_brings_the_ranks_back_shared": a_successor_brings_the_ranks_back(Serve),
    "a_successor_brings_the_ranks_back_etcd": a_successor_brings_the_ranks_back(Etcd),
    "an_agent_leaves_by_sigterm_embedded": an_agent_leaves_by_sigterm(None),
    "an_agent_leaves_by_sigterm_etcd": an_agent_leaves_by_sigterm(Etcd),
    "a_follower_with_another_wish_is_refused": both_have_to_be_one("fixed"),
    "a_follower_with_the_same_wish_joins": both_have_to_be_one("elastic"),
    **{test.__name__: test for test in (
        a_second_sigterm_ends_at_once,
        a_run_that_needs_nobody_else_ends_right,
        slots_that_nobody_brings_end_the_run_by_name,
        more_agents_join_a_running_group,
        an_agent_that_dies_while_its_ranks_join,
        many_tokens_go_on_as_well,
        a_rank_that_crashes_still_ends_the_run,
        the_end_of_the_lead_is_that_of_the_run,
    )},
}, at_once=3)
