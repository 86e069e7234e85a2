"""Test hosts: network namespaces with two networks, one for ranks and one for agents and the store. There are a real
etcd, and an agent of a run on each host."""

import os
import pathlib
import re
import subprocess
import uuid

from namespaces import need_namespaces
from stores import Etcd
from tool import Run, wait_for

HOSTS = 3
RANKS, AGENTS = NETWORKS = range(2)
PORT = 2379
ARP_BYTES = 28  # size of an ARP request for IPv4


class Hosts:
    """Host i has eth0, 10.78.0.<i + 2>, for ranks and eth1, 10.79.0.<i + 2>, for the store at 10.79.0.1."""

    def __enter__(self):
        need_namespaces()
        self.name = "weft-" + uuid.uuid4().hex[:6]
        self.switch = self.name + "-s"
        self.hosts = [f"{self.name}-{i}" for i in range(HOSTS)]
        try:
            for one in (self.switch, *self.hosts):
                self.ip("netns", "add", one)
                self.ip("-n", one, "link", "set", "lo", "up")
            for net in NETWORKS:
                self.ip("-n", self.switch, "link", "add", f"br{net}", "type", "bridge")
                self.address(self.switch, net, f"br{net}", 1)
                for i, host in enumerate(self.hosts):
                    self.ip("link", "add", f"eth{net}", "netns", host, "type", "veth", "peer", "name", f"p{net}{i}",
                            "netns", self.switch)
                    self.ip("-n", self.switch, "link", "set", f"p{net}{i}", "master", f"br{net}", "up")
                    self.address(host, net, f"eth{net}", i + 2)
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

    def address(self, where, net, link, number):
        self.ip("-n", where, "address", "add", f"10.{78 + net}.0.{number}/24", "dev", link)
        self.ip("-n", where, "link", "set", link, "up")
        if where != self.switch:
            wait_for("a link", lambda: self.state(where, link) == "up\n")

    @staticmethod
    def state(where, link):
        return subprocess.run(["ip", "netns", "exec", where, "cat", f"/sys/class/net/{link}/operstate"],
                              capture_output=True, text=True, check=True).stdout

    def cut(self, host, nets=NETWORKS):
        for net in nets:
            self.ip("-n", self.switch, "link", "set", f"p{net}{host}", "down")

    def join(self, host, nets=NETWORKS):
        for net in nets:
            self.ip("-n", self.switch, "link", "set", f"p{net}{host}", "up")

    def deafen(self, host, other, count):
        """Drops the host's first `count` ARP requests for the other host's address. The host sends one request for each
        connection, so as many connections fail. False: the firewall for this does not work here."""
        rules = f"""table arp deaf {{
            chain in {{ type filter hook input priority 0;
                arp operation request arp saddr ip 10.78.0.{host + 2} quota {ARP_BYTES * count + 1} bytes counter drop
            }}
        }}"""
        try:
            subprocess.run([*self.inside(other), "nft", rules], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            return False
        subprocess.run([*self.inside(host), "sysctl", "-qw", "net.ipv4.neigh.eth0.mcast_solicit=1",
                        "net.ipv4.neigh.eth0.retrans_time_ms=100"], check=True)
        return True

    def unheard(self, host):
        """The number of ARP requests that got no answer."""
        rules = subprocess.run([*self.inside(host), "nft", "list", "table", "arp", "deaf"], check=True,
                               capture_output=True, text=True).stdout
        return int(re.search(r"counter packets (\d+)", rules)[1])

    def inside(self, host):
        return ["ip", "netns", "exec", self.hosts[host]]


class FarEtcd(Etcd):
    """A real etcd at the switch."""

    def __init__(self, hosts):
        self.hosts = hosts

    def start(self):
        self.url = f"http://10.79.0.1:{PORT}"
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", self.hosts.switch, "etcd", "--data-dir", self.data,
             "--listen-client-urls", self.url, "--advertise-client-urls", self.url, "--listen-peer-urls", self.peer,
             "--initial-advertise-peer-urls", self.peer, "--initial-cluster", f"default={self.peer}"],
            stdout=self.log, stderr=self.log)
        wait_for("etcd", self.healthy)

    def control(self, *arguments):
        command = ["ip", "netns", "exec", self.hosts.switch, "etcdctl", "--endpoints", self.url, *arguments]
        return subprocess.run(command, capture_output=True, check=False, text=True,
                              env=dict(os.environ, ETCDCTL_API="3"))

    def healthy(self):
        return self.control("endpoint", "health").returncode == 0

    def keys(self, prefix="/weft/"):
        found = self.control("get", "--prefix", "--keys-only", prefix)
        assert found.returncode == 0, found.stderr
        return found.stdout.split()

    def renew_leases(self):
        """Renews all leases, for an agent that is stopped while a busy machine starts other agents."""
        for lease in self.control("lease", "list").stdout.split()[3:]:  # "found N leases"
            self.control("lease", "keep-alive", "--once", lease)


class Agents:
    """An agent on each host, with two slots; the first one leads. Host 0 has ranks 0 and 1 of phase 0, host 1 has 2 and
    3, host 2 has 4 and 5, if the plan has them: the last agent is stopped until the others have their ranks."""

    def __init__(self, hosts, etcd, plan, *arguments, transport=None):
        self.hosts, self.etcd = hosts, etcd
        self.shared = ["--store", etcd.url, "--num-processes", 2, *arguments]
        self.environment = {
            "UCX_TLS": "tcp",  # no shared memory, since these hosts are one
            "WEFT_INTERFACE": "eth0", "FI_TCP_IFACE": "eth0", "UCX_NET_DEVICES": "eth0",
        }
        if transport:
            self.environment["WEFT_EP_TRANSPORT"] = transport
        self.runs = [Run("--num-agents", HOSTS, *self.shared, plan=plan, environment=self.environment,
                         inside=hosts.inside(0))]
        lead = self.runs[0]
        wait_for("the lead", lambda: "waiting for agents" in lead.text() or lead.process.poll() is not None)
        assert lead.process.poll() is None, lead.text()
        last = self.follow(2)
        wait_for("the last host's agent", lambda: any(key.endswith("/agent/1") for key in etcd.keys()))
        last.pause()
        between = self.follow(1)
        self.runs += [between, last]
        wait_for("the other hosts' ranks", lambda: etcd.renew_leases() or all(
            self.has(i, rank) for i in (0, 1) for rank in (2 * i, 2 * i + 1) if rank in plan[0]))
        last.resume()

    def follow(self, host):
        return Run(*self.shared, job=self.runs[0].job, environment=self.environment, inside=self.hosts.inside(host))

    def has(self, host, rank):
        return pathlib.Path(self.runs[host].path, f"rank-{rank}.log").exists()

    def started(self, phase):
        """The number of ranks that have reported the start of the phase."""
        return sum(run.text().count(f"-> start phase {phase}\n") for run in self.runs)

    def events(self, kind):
        """The events of this kind of all agents, each with the number of the host that recorded it."""
        return [dict(event, at=at) for at, run in enumerate(self.runs) for event in run.events()
                if event["kind"] == kind]

    def __enter__(self):
        return self

    def __exit__(self, *why):
        for run in self.runs:
            run.__exit__(*why)
