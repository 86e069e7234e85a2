"""Two agents whose lead does not know of the other: on separate hosts, started by the commands that users type."""

import contextlib
import json
import re
import shlex
import socket

from judge import check_states
from remote_hosts import FarEtcd, Hosts
from stores import Etcd
from tool import Run, free_port, main, plan_file, wait_for

PLAN = plan_file("single_expansion")
LEAD = "10.78.0.2"
NEEDS = "phase 1 needs 4 more process slots than the 4 of this agent"
SECRET = {"WEFT_TOKEN": "s3cret"}
NO_TOKEN = {"WEFT_TOKEN": ""}


def told_command(run):
    """The command that the lead prints for the others: its variables and its arguments."""
    wait_for("the command", lambda: "weft elastic --" in run.text() or run.process.poll() is not None)
    assert NEEDS in run.text(), run.text()
    line = re.search(r"^.*weft elastic --.*--num-processes \d+$", run.text().replace("\r", ""), re.MULTILINE)[0]
    words = shlex.split(line)
    return dict(word.split("=") for word in words if re.match(r"[A-Z_]+=", word)), words[words.index("elastic") + 1:]


def check(one, two):
    one.expect(0)
    two.expect(0)
    check_states(one.results(), json.loads(PLAN))
    assert (two.path / "rank-7.log").exists() and not (one.path / "rank-7.log").exists(), "the other ran what was added"


def with_the_store_of_the_lead():
    """By the command that the lead prints, and by that of the other agent's user."""
    with Hosts() as hosts:
        for typed in (["--tcp_server", LEAD, "--num_processes", 4, "--disable-ll-nvlink", "--kineto"], None):
            with Run("--num-processes", 4, plan=PLAN, environment=SECRET, inside=hosts.inside(0)) as one:
                variables, arguments = told_command(one)
                assert variables == {} and f"--rank-server {LEAD}:9999" in " ".join(arguments), arguments
                wait_for("the wait", lambda: "phase 1 waits for other agents: 4 more process slots" in one.text())
                with Run(*(typed or arguments), plan=PLAN if typed else None, job=one.job, environment=SECRET,
                         inside=hosts.inside(1)) as two:
                    check(one, two)
                    assert not typed or "--kineto has no effect" in two.text(), two.text()


def with_a_token_that_the_lead_makes():
    with Hosts() as hosts, Run("--num-processes", 4, plan=PLAN, environment=NO_TOKEN, inside=hosts.inside(0),
                               terminal=True) as one:
        variables, arguments = told_command(one)
        with Run("--rank-server", LEAD, "--num-processes", 4, plan=PLAN, job=one.job, environment=NO_TOKEN,
                 inside=hosts.inside(1)) as without:
            without.expect_status(2)
            assert "without a token" in without.text(), without.text()
        with Run(*arguments, environment=variables, inside=hosts.inside(1), job=one.job) as two:
            check(one, two)


def with_an_etcd():
    """No token is needed there; a store beside --rank-server is taken."""
    with Hosts() as hosts, FarEtcd(hosts) as etcd:
        for beside in ("--rank-server", "--tcp-server"):
            with Run("--num-processes", 4, "--etcd-server", etcd.url, plan=PLAN, environment=NO_TOKEN,
                     inside=hosts.inside(0)) as one:
                assert told_command(one)[1][:2] == ["--store", etcd.url]
                with Run("--num-processes", 4, beside, "10.79.0.1", "--etcd-server", etcd.url, plan=PLAN, job=one.job,
                         environment=NO_TOKEN, inside=hosts.inside(1)) as two:
                    check(one, two)


def by_an_etcd_that_is_not_there():
    """The other agent's user names an etcd beside the lead, which has only its own store: that is found, and said."""
    absent = f"http://{LEAD}:2379"
    arguments = ["--rank-server", LEAD, "--etcd-server", absent, "--num-processes", 4]
    with Hosts() as hosts, Run("--num-processes", 4, plan=PLAN, environment=SECRET, inside=hosts.inside(0)) as one:
        told_command(one)
        with Run(*arguments, job=one.job, environment=NO_TOKEN, inside=hosts.inside(1)) as without:
            without.expect_status(2)
            for words in (f"the store {absent} does not answer", f"own store, https://{LEAD}:9999, does",
                          f"WEFT_TOKEN=TOKEN weft elastic --rank-server {LEAD}"):
                assert words in without.text(), without.text()
        with Run(*arguments, job=one.job, environment=SECRET, inside=hosts.inside(1)) as two:
            check(one, two)
            said = f"the store {absent} does not answer; joins the run of the lead's own store, https://{LEAD}:9999"
            assert said in two.text(), two.text()


def by_an_etcd_that_has_another_job():
    """It is there, at the lead's host, and the lead does not use it."""
    port = free_port()
    with Etcd() as etcd, Run("--num-processes", 4, "--store-port", port, plan=PLAN, environment=SECRET) as one:
        told_command(one)
        with Run("--rank-server", f"127.0.0.1:{port}", "--num-processes", 4, job=one.job,
                 environment={**SECRET, "WEFT_STORE": etcd.url}) as two:
            check(one, two)
            assert f"the store {etcd.url} has no run of the job; joins the run" in two.text(), two.text()


def names_of_one_host():
    """Are compared by their addresses, not as text."""
    for lead, host in (("localhost", "127.0.0.1"), ("127.0.0.1", "localhost"), (socket.gethostname(), "localhost")):
        with Run("--rank-server", lead, "--store", f"http://{host}:{free_port()}", "--startup-timeout", 1,
                 environment=NO_TOKEN) as run:
            run.expect(3)
            assert "the lead's store did not answer within 1 s" in run.text(), run.text()


def a_store_in_the_environment_elsewhere_than_the_lead():
    with Run("--rank-server", f"127.0.0.1:{free_port()}", "--startup-timeout", 1,
             environment={**SECRET, "WEFT_STORE": "http://192.0.2.1:2379"}) as run:
        run.expect(3)
        assert "WEFT_STORE http://192.0.2.1:2379 is ignored" in run.text(), run.text()


def a_store_elsewhere_than_the_lead():
    with Run("--rank-server", "10.0.0.1", "--store", "http://10.0.0.10:2379") as run:
        run.expect(2)
        assert "http://10.0.0.10:2379" in run.text() and "--rank-server 10.0.0.1" in run.text(), run.text()


def what_a_follower_is_given_is_compared():
    """Equal values are accepted silently, a differing value is an error that names both values."""
    with Etcd() as etcd, Run("--num-processes", 4, "--store", etcd.url, plan=PLAN) as one:
        wait_for("the wait", lambda: "phase 1 waits" in one.text())
        arguments = ["--rank-server", "127.0.0.1", "--store", etcd.url, "--num-processes", 4]
        for more, plan, words in ((["--hidden-dim", 512], None, "--hidden-dim is 512 here, but 256 at the lead"),
                                  (["--digests"], None, "--digests is true here, but false at the lead"),
                                  ([], [[0], [1]], "--plan is [[0],[1]] here, but [[0,1,2,3],")):
            with Run(*arguments, *more, plan=plan, job=one.job) as other:
                other.expect_status(2)
                assert words in other.text(), other.text()
        with Run(*arguments, "--hidden_dim", 256, plan=PLAN, job=one.job) as two:
            check(one, two)
            assert "passed: agent 1 of job" in two.text() and "4 ranks ran here" in two.text(), two.text()


def a_follower_says_what_it_waits_for():
    with Etcd() as etcd, Run("--store", etcd.url, "--startup-timeout", 1) as run:
        run.expect(124)
        assert f"waits for the lead of job '{run.job}' at {etcd.url}, for up to 1 s" in run.text(), run.text()


def the_port_of_the_store_is_the_follower_s_too():
    port = free_port()
    with Run("--num-processes", 4, "--listen", "127.0.0.1", "--store-port", port, plan=PLAN, environment=SECRET) as one:
        with Run("--rank-server", "127.0.0.1", "--store-port", port, "--num-processes", 4, job=one.job,
                 environment=SECRET) as two:
            check(one, two)


def nobody_comes():
    """The lead waits when a phase needs other agents, and names what is missing."""
    with Etcd() as etcd, Run("--num-processes", 2, "--store", etcd.url, "--startup-timeout", 3,
                             plan=[[0, 1], [0, 1, 2, 3, 4], [0, 1, 2]]) as run:
        run.expect(124)
        assert "phase 1 needs 3 more process slots, phase 2 needs 1 more than the 2 of this agent" in run.text()
        assert "phase 1 needs 5 process slots" in run.text() and "the missing 3" in run.text(), run.text()
        assert [row["state"] for row in run.results()["phases"][0]["ranks"][:2]] == ["passed"] * 2, run.results()


def the_first_phase_needs_others():
    with Etcd() as etcd, Run("--num-processes", 2, "--store", etcd.url, plan=[[0, 1, 2, 3]]) as one:
        wait_for("the wait", lambda: "phase 0 waits for other agents: 2 more process slots" in one.text())
        with contextlib.ExitStack() as stack:
            arguments = ("--num-processes", 1, "--store", etcd.url)
            others = [stack.enter_context(Run(*arguments, job=one.job)) for _ in range(2)]
            one.expect(0)
            for other in others:
                other.expect(0)
                assert "1 rank ran here" in other.text(), other.text()


main({test.__name__: test for test in (
    with_the_store_of_the_lead,
    with_a_token_that_the_lead_makes,
    with_an_etcd,
    by_an_etcd_that_is_not_there,
    by_an_etcd_that_has_another_job,
    names_of_one_host,
    a_store_elsewhere_than_the_lead,
    a_store_in_the_environment_elsewhere_than_the_lead,
    the_port_of_the_store_is_the_follower_s_too,
    nobody_comes,
    what_a_follower_is_given_is_compared,
    a_follower_says_what_it_waits_for,
    the_first_phase_needs_others,
)}, at_once=2)
