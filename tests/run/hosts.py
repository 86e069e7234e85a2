"""Plans on three test hosts: agents in network namespaces of their own, veth links between them, and an etcd."""

import json
import os
import re
import shlex
import signal

from digests import check_digests, digests_of
from remote_hosts import RANKS, Agents, FarEtcd, Hosts
from judge import check_states
from tool import SOURCE, Run, main, wait_for

GROW = [[0, 1, 2], [0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]]
KILLS = [[0, 1, 2, 3, 4, 5], [0, 1, -2, 3, 4, -5], [0, 1, 2, 3, 4, 5]]
REPLACE = [[0, 1, 2], [3, 4, 5], [0, 1]]
CUT = [[0, 1, 2, 3, 4, 5], [0, 1, 2, 3, -4, -5], [0, 1, 2, 3, 4, 5]]
LONG = [[0, 1, 2, 3, 4, 5]]


def check_ways(agents, transport):
    """Ranks of one host met on it, those of two by the transport."""
    hosts = {event["rank"]: event["at"] for event in agents.events("launch")}
    met = agents.events("connected")
    assert {hosts[event["rank"]] == hosts[event["peer"]] for event in met} == {True, False}, met
    for event in met:
        name = event["detail"].partition(" ")[0]  # then what its library has chosen
        assert name == ("" if hosts[event["rank"]] == hosts[event["peer"]] else transport), event


def check_uses(agents):
    """The report has what libfabric chose, and only the lead warns, once, of TCP that nobody asked for."""
    uses = agents.runs[0].results()["config"]["uses"]
    assert re.fullmatch(r"ofi tcp\S* eth0", uses), uses
    texts = [run.text() for run in agents.runs]
    assert uses in texts[0], texts[0]
    warnings = [text.count("transfers to another host go over TCP: libfabric has chosen") for text in texts]
    assert warnings == [1, 0, 0], warnings


def runs_right(plan, *arguments, transport="ofi", ways=True):
    """It passes, is judged as on one host, and every whole operation gave every rank the same bits as there."""
    with Hosts() as hosts, FarEtcd(hosts) as etcd:
        with Agents(hosts, etcd, plan, "--digests", *arguments, transport=transport) as agents:
            for run in agents.runs:
                run.expect(0)
            check_states(agents.runs[0].results(), plan)
            if ways:
                check_ways(agents, transport)
                check_uses(agents)
            found = digests_of(event for run in agents.runs for event in run.events())
        assert etcd.keys() == [], etcd.keys()
    views = {tuple(rank for rank in phase if rank >= 0) for phase in plan}
    check_digests(found, sorted(views), *arguments)


def ranks_grow_across_hosts():
    runs_right(GROW)


def ranks_are_killed_and_rejoin():
    runs_right(KILLS, ways=False)  # the two may change places


def ranks_are_killed_and_rejoin_over_ucx():
    runs_right(KILLS, transport="ucx", ways=False)


def rows_in_fp8_with_late_weights_are_the_same():
    runs_right(GROW, "--dtype", "fp8")


def all_ranks_are_replaced():
    runs_right(REPLACE, ways=False)


def a_host_is_cut_off(transport):
    """Its ranks are lost to the others, which go on; when its link is back, new ones join from there."""
    with Hosts() as hosts, FarEtcd(hosts) as etcd:
        with Agents(hosts, etcd, CUT, "--negative", "lost", transport=transport) as agents:
            wait_for("phase 1", lambda: agents.started(1) == len(CUT[1]))
            hosts.cut(2, [RANKS])
            wait_for("their loss", lambda: {e["peer"] for e in agents.events("peer_lost") if e["at"] != 2} >= {4, 5})
            hosts.join(2, [RANKS])
            for run in agents.runs:
                run.expect(0)
            check_states(agents.runs[0].results(), CUT)
            check_ways(agents, transport)
            places = [(e["rank"], e["at"]) for e in agents.events("launch")]
            assert places.count((4, 2)) == places.count((5, 2)) == 2, places
        assert etcd.keys() == [], etcd.keys()


def a_host_is_cut_off_and_its_ranks_rejoin():
    a_host_is_cut_off("ofi")


def a_host_is_cut_off_and_its_ranks_rejoin_over_ucx():
    a_host_is_cut_off("ucx")


def a_host_that_disappears_is_named():
    """Its ranks are lost, or its agent, whichever is seen first; the run ends and says so."""
    with Hosts() as hosts, FarEtcd(hosts) as etcd:
        with Agents(hosts, etcd, LONG, "--iterations", 100000) as agents:
            wait_for("the phase", lambda: agents.started(0) == len(LONG[0]))
            hosts.cut(2)
            lead = agents.runs[0]
            lead.expect_status(5)
            error = lead.results()["error"]
            named = "rank [45] was lost in phase 0, which the plan does not expect|agent 1 on .* has ended"
            assert re.search(named, error), error
            hosts.join(2)
            for run in agents.runs[1:]:
                assert run.wait() in (3, 5), run.text()
                run.expect_nothing_left()


def the_commands_of_the_readme_work():
    """As they stand there, but for addresses, sizes and the name of the job; no network is chosen."""
    text = (SOURCE / "README.md").read_text().split("### On several hosts")[1].replace("10.0.0.1", "10.78.0.2")
    token, lead, other = re.search(r"```sh\n(.*?)\n```", text, re.DOTALL)[1].splitlines()
    environment = dict([shlex.split(token, comments=True)[1].split("=")])
    program, command, option, plan, *rest = shlex.split(lead)
    assert (program, command, option) == ("build/release/weft", "elastic", "--plan"), lead
    plan = (SOURCE / plan).read_text()
    with Hosts() as hosts:
        with Run(*rest, plan=plan, environment=environment, inside=hosts.inside(0)) as one:
            wait_for("the lead", lambda: "waiting for agents" in one.text())
            with Run(*shlex.split(other, comments=True)[2:], job=one.job, environment=environment,
                     inside=hosts.inside(1)) as two:
                one.expect(0)
                two.expect(0)
                check_states(one.results(), json.loads(plan))
                assert list(two.path.glob("rank-*.log")), "ranks ran on both hosts"


def a_rank_killed_from_outside_is_lost_to_all_hosts():
    with Hosts() as hosts, FarEtcd(hosts) as etcd:
        with Agents(hosts, etcd, LONG, "--iterations", 100000) as agents:
            wait_for("the phase", lambda: agents.started(0) > 0)
            os.kill(agents.events("launch")[0]["pid"], signal.SIGKILL)
            agents.runs[0].expect_status(5)
            for run in agents.runs:
                run.wait()
                run.expect_nothing_left()


main({test.__name__: test for test in (
    ranks_grow_across_hosts,
    ranks_are_killed_and_rejoin,
    ranks_are_killed_and_rejoin_over_ucx,
    rows_in_fp8_with_late_weights_are_the_same,
    all_ranks_are_replaced,
    a_host_is_cut_off_and_its_ranks_rejoin,
    a_host_is_cut_off_and_its_ranks_rejoin_over_ucx,
    a_host_that_disappears_is_named,
    a_rank_killed_from_outside_is_lost_to_all_hosts,
    the_commands_of_the_readme_work,
)}, at_once=2)
