"""Plans on three test hosts: agents in network namespaces of their own, veth links between them, and an etcd."""

import os
import signal
import subprocess
import uuid

from judge import check_states
from namespaces import need_namespaces
from stores import Etcd
from tool import Run, main, ranks_of, wait_for

HOSTS = 3
PORT = 2379
GROW = [[0, 1, 2], [0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]]
KILLS = [[0, 1, 2, 3, 4, 5], [0, 1, -2, 3, 4, -5], [0, 1, 2, 3, 4, 5]]
LONG = [[0, 1, 2, 3, 4, 5]]


class Hosts:
    """Host i is at 10.78.0.<i + 2>, the switch and its etcd at 10.78.0.1."""

    def __enter__(self):
        need_namespaces()
        self.name = "weft-" + uuid.uuid4().hex[:6]
        self.switch = self.name + "-s"
        self.hosts = [f"{self.name}-{i}" for i in range(HOSTS)]
        try:
            for one in (self.switch, *self.hosts):
                self.ip("netns", "add", one)
                self.ip("-n", one, "link", "set", "lo", "up")
            self.ip("-n", self.switch, "link", "add", "br0", "type", "bridge")
            self.address(self.switch, "br0", 1)
            for i, host in enumerate(self.hosts):
                self.ip("link", "add", "eth0", "netns", host, "type", "veth", "peer", "name", f"p{i}", "netns",
                        self.switch)
                self.ip("-n", self.switch, "link", "set", f"p{i}", "master", "br0", "up")
                self.address(host, "eth0", i + 2)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *unused):
        for one in (self.switch, *self.hosts):
            subprocess.run(["ip", "netns", "del", one], capture_output=True, check=False)

    @staticmethod
    def ip(*arguments):
        subprocess.run(["ip", *arguments], check=True)

    def address(self, where, link, number):
        self.ip("-n", where, "address", "add", f"10.78.0.{number}/24", "dev", link)
        self.ip("-n", where, "link", "set", link, "up")
        if where != self.switch:
            wait_for("a link", lambda: self.state(where, link) == "up\n")

    @staticmethod
    def state(where, link):
        return subprocess.run(["ip", "netns", "exec", where, "cat", f"/sys/class/net/{link}/operstate"],
                              capture_output=True, text=True, check=True).stdout

    def cut(self, host):
        self.ip("-n", self.switch, "link", "set", f"p{host}", "down")

    def join(self, host):
        self.ip("-n", self.switch, "link", "set", f"p{host}", "up")

    def inside(self, host):
        return ["ip", "netns", "exec", self.hosts[host]]


class FarEtcd(Etcd):
    """A real etcd at the switch."""

    def __init__(self, hosts):
        self.hosts = hosts

    def start(self):
        self.url = f"http://10.78.0.1:{PORT}"
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", self.hosts.switch, "etcd", "--data-dir", self.data,
             "--listen-client-urls", self.url, "--advertise-client-urls", self.url, "--listen-peer-urls", self.peer,
             "--initial-advertise-peer-urls", self.peer, "--initial-cluster", f"default={self.peer}"],
            stdout=self.log, stderr=self.log)
        wait_for("etcd", self.healthy)

    def healthy(self):
        asked = subprocess.run(["ip", "netns", "exec", self.hosts.switch, "etcdctl", "--endpoints", self.url,
                                "endpoint", "health"], capture_output=True, check=False,
                               env=dict(os.environ, ETCDCTL_API="3"))
        return asked.returncode == 0

    def keys(self, prefix="/weft/"):
        found = subprocess.run(["ip", "netns", "exec", self.hosts.switch, "etcdctl", "--endpoints", self.url, "get",
                                "--prefix", "--keys-only", prefix], capture_output=True, check=True, text=True,
                               env=dict(os.environ, ETCDCTL_API="3"))
        return found.stdout.split()


class Agents:
    """An agent on each host; the first leads."""

    def __init__(self, hosts, etcd, plan, *arguments, slots=2):
        shared = ["--store", etcd.url, "--num-processes", slots, *arguments]
        environment = {"UCX_TLS": "tcp"}  # that it takes no shared memory: these hosts are one
        self.runs = [Run("--num-agents", HOSTS, *shared, plan=plan, environment=environment, inside=hosts.inside(0))]
        wait_for("the lead", lambda: "waiting for agents" in self.runs[0].text())
        for i in range(1, HOSTS):
            self.runs.append(Run(*shared, job=self.runs[0].job, environment=environment, inside=hosts.inside(i)))

    def __enter__(self):
        return self.runs

    def __exit__(self, *unused):
        for run in self.runs:
            run.close()


def runs_right(plan, *arguments, slots=2):
    with Hosts() as hosts, FarEtcd(hosts) as etcd:
        with Agents(hosts, etcd, plan, *arguments, slots=slots) as runs:
            for run in runs:
                run.expect(0)
            check_states(runs[0].results(), plan)
        assert etcd.keys() == [], etcd.keys()


def ranks_grow_across_hosts():
    runs_right(GROW)


def ranks_are_killed_and_rejoin():
    runs_right(KILLS)


def rows_in_fp8_with_late_weights_are_the_same():
    runs_right(GROW, "--dtype", "fp8")


def a_host_that_disappears_is_named():
    """Its ranks are lost, the others go on; then its agent is, and the run ends and says so."""
    with Hosts() as hosts, FarEtcd(hosts) as etcd:
        with Agents(hosts, etcd, LONG, "--iterations", 100000, "--timeout-ms", 3000) as runs:
            wait_for("the phase", lambda: "-> start phase 0" in runs[0].text())
            hosts.cut(2)
            runs[0].expect_status(5)
            text = runs[0].text() + str(runs[0].results()["error"])
            assert "agent" in text, text
            hosts.join(2)
            for run in runs[1:]:
                assert run.wait() in (3, 5), run.text()
                run.expect_nothing_left()


def a_rank_killed_from_outside_is_lost_to_all_hosts():
    with Hosts() as hosts, FarEtcd(hosts) as etcd:
        with Agents(hosts, etcd, LONG, "--iterations", 100000) as runs:
            wait_for("the phase", lambda: "-> start phase 0" in runs[0].text())
            os.kill(ranks_of(runs[0].job)[0], signal.SIGKILL)
            assert runs[0].wait() not in (0, 3), runs[0].text()
            for run in runs:
                run.wait()
                run.expect_nothing_left()


main({test.__name__: test for test in (
    ranks_grow_across_hosts,
    ranks_are_killed_and_rejoin,
    rows_in_fp8_with_late_weights_are_the_same,
    a_host_that_disappears_is_named,
    a_rank_killed_from_outside_is_lost_to_all_hosts,
)}, at_once=2)
