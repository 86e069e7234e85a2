"""Several agents: one leads, others follow, on an embedded store and on a real etcd."""

import json
import os
import signal
import socket

from stores import Etcd
from tool import Run, free_port, main, wait_for

LONG = ["--num-agents", 2, "--num-processes", 2, "--iterations", 100000]
PLAN = [[0, 1], [0, 1, 2, 3], [0, 2, -3], [0, 1, 2, 3]]


def agents_of(results):
    """Places that the ranks of the second phase ran in: two agents of two slots each have each slot twice."""
    return sorted(row["local_rank"] for row in results["phases"][1]["ranks"])


def a_follower_joins_by_rank_server():
    port = free_port()
    with Run("--num-agents", 2, "--num-processes", 2, "--store-port", port, plan=PLAN) as lead:
        told = f"with the same token, by:\nweft elastic --rank-server 127.0.0.1:{port} --job {lead.job}\n"
        wait_for("what the lead tells who waits for it", lambda: told in lead.text())
        assert "agents, on this host (--listen ADDRESS admits agents of other hosts)" in lead.text(), lead.text()
        with Run("--rank-server", f"127.0.0.1:{port}", "--num-processes", 2, job=lead.job) as follower:
            lead.expect(0)
            follower.expect(0)
            assert lead.results()["passed"] and agents_of(lead.results()) == [0, 0, 1, 1]
            assert (follower.path / "rank-2.log").exists() and not (lead.path / "rank-2.log").exists()


def a_follower_may_come_before_the_lead():
    port = free_port()
    secret = {"WEFT_TOKEN": "s3cret"}
    with Run("--tcp-server", f"127.0.0.1:{port}", "--num-processes", 2, environment=secret) as follower:
        with Run("--num-agents", 2, "--num-processes", 2, "--store-port", port, plan=PLAN, job=follower.job,
                 environment=secret) as lead:
            lead.expect(0)
            follower.expect(0)


def agents_with_one_command_line_meet_on_etcd():
    with Etcd() as etcd:
        arguments = ["--num-agents", 2, "--num-processes", 2, "--store", etcd.url]
        with Run(*arguments, plan=PLAN) as one, Run(*arguments, plan=PLAN, job=None) as other:
            # Different jobs on one store: each waits for an agent of its own.
            with Run(*arguments, plan=PLAN, job=one.job) as second, Run(*arguments, job=other.job) as without_plan:
                for run in (one, second, other, without_plan):
                    run.expect(0)
        assert etcd.keys() == [], etcd.keys()


def a_second_lead_learns_who_runs_the_job():
    with Etcd() as etcd:
        with Run("--num-agents", 2, "--num-processes", 2, "--store", etcd.url, plan=PLAN) as lead:
            wait_for("the run", lambda: any(key.endswith("/agent/0") for key in etcd.keys()))
            with Run("--store", etcd.url, plan=[[0, 1]], job=lead.job) as other:
                assert other.wait() == 3, other.text()
                assert f"process {lead.process.pid} on" in other.text() and "--job" in other.text(), other.text()
            lead.process.send_signal(signal.SIGTERM)
            assert lead.wait() == 128 + signal.SIGTERM
        assert etcd.keys() == [], etcd.keys()


def the_lead_ends_when_a_follower_dies():
    port = free_port()
    with Run(*LONG, "--store-port", port, plan=PLAN[1:2]) as lead:
        with Run("--rank-server", f"127.0.0.1:{port}", "--num-processes", 2, job=lead.job) as follower:
            wait_for("a rank at the follower", lambda: (follower.path / "rank-2.log").exists())
            os.kill(follower.process.pid, signal.SIGKILL)
            follower.wait()
            assert lead.wait() == 5, lead.text()
            lead.expect_nothing_left()


def a_follower_ends_when_the_lead_dies():
    port = free_port()
    with Run(*LONG, "--store-port", port, plan=PLAN[1:2]) as lead:
        with Run("--rank-server", f"127.0.0.1:{port}", "--num-processes", 2, job=lead.job) as follower:
            wait_for("a rank at the follower", lambda: (follower.path / "rank-2.log").exists())
            os.kill(lead.process.pid, signal.SIGKILL)
            lead.wait()
            assert follower.wait() in (3, 5), follower.text()
            follower.expect_nothing_left()


def a_port_in_use_is_said_with_what_helps():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with Run("--num-agents", 2, "--num-processes", 2, "--store-port", port, plan=PLAN) as lead:
            lead.expect(3)
            assert f"port {port} of 127.0.0.1 is in use" in lead.text(), lead.text()
            assert "Give another port by --store-port" in lead.text(), lead.text()


def a_follower_without_a_lead_says_what_to_look_at():
    port = free_port()
    with Run("--rank-server", f"127.0.0.1:{port}", "--startup-timeout", 1, environment={"WEFT_TOKEN": "s3cret"}) as run:
        run.expect(3)
        for words in (f"at https://127.0.0.1:{port}, for up to 1 s (until ", "no store answers there yet",
                      "did not answer within 1 s", "Is the lead started, at an address that this host reaches"):
            assert words in run.text(), run.text()


def a_follower_tells_how_it_ended(arguments, verdict):
    """As JSON where the lead would print its results as such, and not at all where it is to be quiet."""
    def test():
        port = free_port()
        with Run("--num-agents", 2, "--num-processes", 2, "--store-port", port, plan=PLAN) as lead:
            with Run("--rank-server", f"127.0.0.1:{port}", "--num-processes", 2, *arguments, job=lead.job) as follower:
                lead.expect(0)
                follower.expect(0)
                verdict(follower, lead)
    return test


def in_json(follower, lead):
    verdict = json.loads(follower.printed())
    assert verdict.pop("ranks") > 0, follower.text()
    assert verdict == {"passed": True, "exit_status": 0, "job": lead.job, "run": lead.results()["run"], "agent": 1,
                       "left": False, "error": ""}, follower.text()


def without_a_word(follower, _):
    assert follower.text() == "", follower.text()


def a_follower_tells_in_json_why_it_failed():
    with Etcd() as etcd, Run("--store", etcd.url, "--startup-timeout", 1, "--json") as run:
        run.expect(124)
        verdict = json.loads(run.printed())
        assert not verdict["passed"] and verdict["exit_status"] == 124, verdict
        assert f"no lead of job '{run.job}'" in verdict["error"], verdict


def agents_without_room_are_refused():
    port = free_port()
    with Run("--num-agents", 2, "--num-processes", 1, "--store-port", port, plan=PLAN) as lead:
        with Run("--rank-server", f"127.0.0.1:{port}", "--num-processes", 1, job=lead.job) as follower:
            lead.expect(2)
            assert "4 live ranks" in lead.text() and "2 agents have 2 slots" in lead.text(), lead.text()
            follower.expect(2)


main({
    "a_follower_tells_in_json_how_it_ended": a_follower_tells_how_it_ended(["--json"], in_json),
    "a_quiet_follower_tells_nothing": a_follower_tells_how_it_ended(["--quiet"], without_a_word),
    **{test.__name__: test for test in (
        a_follower_tells_in_json_why_it_failed,
        a_port_in_use_is_said_with_what_helps,
        a_follower_without_a_lead_says_what_to_look_at,
        a_follower_joins_by_rank_server,
        a_follower_may_come_before_the_lead,
        agents_with_one_command_line_meet_on_etcd,
        a_second_lead_learns_who_runs_the_job,
        the_lead_ends_when_a_follower_dies,
        a_follower_ends_when_the_lead_dies,
        agents_without_room_are_refused,
    )},
}, at_once=3)
