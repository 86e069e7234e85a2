#!/usr/bin/env python3
"""hosts.py PROGRAM TRANSPORT SCENARIO...: agents on three test hosts (network namespaces, veth links, an etcd).

One host is cut off from the others and from the store: briefly, for longer than its peers wait, or for longer than its
lease.

Agent a is on host 0, c on host 1, b on host 2, which is cut off.
"""
import os
import re
import select
import subprocess
import sys

from remote_hosts import FarEtcd, Hosts
from tool import wait_for

PROGRAM, TRANSPORT, *SCENARIOS = sys.argv[1:]
DEADLINE_S = 90
KEY = "/weft/test/agents/b"
PLACES = {"a": 0, "b": 2, "c": 1}
# One processor of this machine may serve all hosts: short enough to wait for, long enough to be heard in.
PATIENCE_MS, MUCH_PATIENCE_MS = 3000, 60000
LEASE_S, LONG_LEASE_S = 3, 60
VAIN_CALLS = 2
# In /proc/net/tcp: 10.78.0, and a listener.
RANKS_NET, LISTENS = "004E0A", "0A"


class Agent:
    """The program on one of the test hosts."""

    def __init__(self, hosts, etcd, name, lease, patience):
        environment = dict(os.environ, WEFT_INTERFACE="eth0", FI_TCP_IFACE="eth0", FI_PROVIDER="tcp",
                           UCX_NET_DEVICES="eth0", UCX_TLS="tcp")
        self.name, self.written = name, 0
        self.process = subprocess.Popen(
            [*hosts.inside(PLACES[name]), PROGRAM, name, TRANSPORT, etcd.url, str(lease), str(patience)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        said = self.hear()
        if said.startswith("skipped"):
            self.end()
            print(said)
            sys.exit(77)
        assert said == "ready", said

    def hear(self):
        ready, _, _ = select.select([self.process.stdout], [], [], DEADLINE_S)
        assert ready, f"agent {self.name} says nothing"
        return self.process.stdout.readline().strip()

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(self, line):
        self.tell(line)
        return self.hear()

    def does(self, line):
        came = self.ask(line)
        assert came == "OK", f"{self.name}: {line}: {came}"

    def fails(self, line, pattern):
        came = self.ask(line)
        assert re.fullmatch(pattern, came), f"{self.name}: {line}: {came}, not {pattern}"
        print(f"  {self.name}: {line}: {came}")

    def events(self, kind, peer):
        """What was told with each such event."""
        return re.findall(rf"{kind} {peer} \((.*?)\);", self.ask("events"))

    def end(self):
        if self.process.poll() is None:
            self.process.stdin.close()
        try:
            self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self.process.stdout.close()


class Three:
    """The hosts, the store and the agents, which have fetched each other."""

    def __init__(self, lease, a=PATIENCE_MS, b=PATIENCE_MS, c=PATIENCE_MS, meet=True):
        self.lease, self.patience, self.meet = lease, {"a": a, "b": b, "c": c}, meet
        self.agents = []

    def __enter__(self):
        self.hosts = Hosts().__enter__()
        try:
            self.etcd = FarEtcd(self.hosts).__enter__()
            try:
                for name, patience in self.patience.items():
                    self.agents.append(Agent(self.hosts, self.etcd, name, self.lease, patience))
                pairs = [(one, other) for one in self.agents for other in self.agents if one is not other]
                for one, other in pairs if self.meet else ():
                    one.does(f"fetch {other.name}")
                for one, other in pairs if self.meet else ():
                    moves(one, other, self.agents.index(one))
            except BaseException:
                self.stop()
                self.etcd.__exit__()
                raise
        except BaseException:
            self.hosts.__exit__()
            raise
        return self

    def stop(self):
        for one in self.agents:
            if one.process.poll() is None:
                one.process.kill()
            one.process.wait()

    def __exit__(self, *failure):
        try:
            if failure[0] is None:
                self.hosts.join(2)
                for one in self.agents:
                    one.end()
                    assert one.process.returncode == 0, f"{one.name} ended with {one.process.returncode}"
                assert self.etcd.keys() == [], self.etcd.keys()
        finally:
            self.stop()
            if failure[0]:
                for one in self.agents:
                    print(f"--- {one.name}, ended with {one.process.returncode}; what nobody heard:",
                          one.process.stdout.read(), sep="\n")
            self.etcd.__exit__()
            self.hosts.__exit__()


def writes(one, other):
    one.tell(f"write {other.name}")
    has_written(one, other)


def has_written(one, other):
    """It ended well, and the notification comes once; none of a write that failed."""
    assert (came := one.hear()) == "OK", f"{one.name}: write {other.name}: {came}"
    other.written += 1
    wait_for(f"{one.name}'s notification", lambda: int(other.ask("notifications")) >= other.written)
    assert other.ask("notifications") == str(other.written), other.ask("notifications")


def moves(one, other, value):
    """A write and a read between the two are right, and the notification comes."""
    one.does(f"fill {value}")
    other.does(f"fill {value + 100}")
    writes(one, other)
    assert other.ask(f"check {value}") == "0", f"{one.name} has written something else to {other.name}"
    other.does(f"fill {value + 50}")
    one.does(f"read {other.name}")
    assert one.ask(f"check {value + 50}") == "0", f"{one.name} has read something else of {other.name}"


def for_a_moment():
    """No agent is reported lost, and transfers in flight end well."""
    with Three(LONG_LEASE_S, a=MUCH_PATIENCE_MS, b=MUCH_PATIENCE_MS, c=MUCH_PATIENCE_MS) as three:
        a, b, c = three.agents
        three.hosts.cut(2)
        a.does("fill 7")
        a.tell("write b")
        ready, _, _ = select.select([a.process.stdout], [], [], 1)
        assert not ready, f"over a link that is down: {a.hear()}"
        three.hosts.join(2)
        has_written(a, b)
        assert b.ask("check 7") == "0"
        moves(a, b, 8)
        moves(b, a, 9)
        for one in three.agents:
            for other in "abc":
                assert not one.events("lost", other) and not one.events("left", other), one.ask("events")


LOST = r"PEER_LOST: b.*: nothing was received from it for \d+ ms.*"
LEFT = r"PEER_LOST: b.*: its key has gone from the store.*"
AGAIN = "load its metadata again"


def within_its_lease():
    with Three(LONG_LEASE_S) as three:
        a, b, c = three.agents
        three.hosts.cut(2)
        a.fails("write b", LOST)  # in flight when it is lost
        a.fails("write b", LOST + AGAIN)
        a.fails("state b", LOST + AGAIN)
        wait_for("b to miss a", lambda: b.events("lost", "a"))
        moves(a, c, 3)
        a.does("fetch b")  # its lease lives
        a.fails("read b", r"(TIMEOUT|UNREACHABLE|PEER_LOST): b: .*")
        three.hosts.join(2)
        b.fails("read a", LOST.replace("b", "a", 1) + AGAIN)  # it stays so
        a.does("fetch b")
        b.does("fetch a")
        moves(a, b, 5)
        moves(b, a, 6)
        assert a.events("left", "b") == [], a.ask("events")


def longer_than_its_lease():
    with Three(LEASE_S, c=MUCH_PATIENCE_MS) as three:
        a, b, c = three.agents
        three.hosts.cut(2)
        a.fails("write b", f"{LOST}|{LEFT}")  # whichever comes first
        wait_for("the end of b's lease", lambda: KEY not in three.etcd.keys())
        wait_for("c to hear of it", lambda: c.events("left", "b"))
        c.fails("write b", LEFT + AGAIN)
        a.fails("fetch b", r"TIMEOUT: fetching agent b: it has not put its metadata at .*")
        moves(a, c, 3)
        three.hosts.join(2)
        wait_for("b's key", lambda: KEY in three.etcd.keys())
        a.fails("read b", f"({LOST}|{LEFT}){AGAIN}")  # it stays so
        for one in (a, c):
            one.does("fetch b")
        for one in (a, c):
            b.does(f"fetch {one.name}")
            moves(one, b, 5)
            moves(b, one, 6)
        assert len(a.events("left", "b") + a.events("lost", "b")) == 1, a.ask("events")
        assert len(c.events("left", "b")) == 1, c.ask("events")


def unreachable_at_first():
    """As right after a link has come back: a host's first calls find nobody at the other's address."""
    with Three(LONG_LEASE_S, meet=False) as three:
        a, b, _ = three.agents
        if not three.hosts.deafen(2, 0, VAIN_CALLS):
            print("  left out, as nft does not work here")
            return
        b.does("fetch a")
        wait_for("vain calls", lambda: three.hosts.unheard(0) == VAIN_CALLS)
        a.does("fetch b")
        moves(b, a, 5)
        moves(a, b, 6)
        for one, other in ((a, "b"), (b, "a")):
            assert one.events("lost", other) == [], one.ask("events")


def queued(hosts, host, column):
    """Bytes in the queues of that host's connections to ranks: column 0, to be sent; 1, to be read."""
    lines = subprocess.run([*hosts.inside(host), "cat", "/proc/net/tcp"], capture_output=True, text=True,
                           check=True).stdout.splitlines()[1:]
    rows = [line.split() for line in lines]
    return sum(int(row[4].split(":")[column], 16) for row in rows
               if row[1].split(":")[0].endswith(RANKS_NET) and row[3] != LISTENS)


def late(patience):
    """Pending writes of b to a when its link was cut do not arrive after a has lost b and reuses the memory."""
    with Three(LONG_LEASE_S, b=patience) as three:
        a, b, _ = three.agents
        b.does("fill 7")
        b.tell("stream a")
        wait_for("what b writes", lambda: a.ask("check 7") == "0")
        three.hosts.cut(2)
        wait_for("a to miss b", lambda: a.events("lost", "b"))
        a.does("fill 9")
        if patience == PATIENCE_MS:
            told = b.hear()
            three.hosts.join(2)
        else:
            three.hosts.join(2)
            told = b.hear()
        assert told.startswith("PEER_LOST: a"), told
        wait_for("what b's host sends still", lambda: queued(three.hosts, 2, 0) == 0)
        wait_for("what a's host has of it", lambda: queued(three.hosts, 0, 1) == 0)
        wrong = a.ask("check 9")
        assert wrong == "0", f"{wrong} bytes were written to a after it had lost b"


def late_write():
    late(PATIENCE_MS)


def late_write_of_the_patient():
    """b has not lost a when its link is back."""
    late(MUCH_PATIENCE_MS)


ALL = {test.__name__: test for test in (for_a_moment, within_its_lease, longer_than_its_lease,
                                        unreachable_at_first, late_write, late_write_of_the_patient)}
for name in SCENARIOS or ALL:
    print(name, flush=True)
    ALL[name]()
