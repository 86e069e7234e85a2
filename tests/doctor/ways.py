#!/usr/bin/env python3
"""weft doctor --peer between network namespaces: good paths, one that drops large packets, and paths without a
destination.

a (10.78.0.1, 9000) ---- s: a bridge ---- b (10.78.0.2, 9000)
"""
import json
import os
import subprocess
import sys
import uuid

from namespaces import need_namespaces

WEFT = os.environ["WEFT"]
TIMEOUT_S = 60
OTHER = "10.78.0.2"


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True)


class Ways:
    def __enter__(self):
        need_namespaces()
        name = "weft-" + uuid.uuid4().hex[:6]
        self.a, self.b, self.switch = name + "-a", name + "-b", name + "-s"
        self.listener = None
        try:
            for one in (self.a, self.b, self.switch):
                ip("netns", "add", one)
                ip("-n", one, "link", "set", "lo", "up")
            ip("-n", self.switch, "link", "add", "bridge", "mtu", "9000", "type", "bridge")
            ip("-n", self.switch, "link", "set", "bridge", "up")
            for one, port, address in ((self.a, "to-a", "10.78.0.1/24"), (self.b, "to-b", OTHER + "/24")):
                ip("link", "add", "w0", "mtu", "9000", "gso_max_segs", "1", "netns", one, "type", "veth",
                   "peer", "name", port, "mtu", "9000", "netns", self.switch)
                ip("-n", self.switch, "link", "set", port, "master", "bridge", "up")
                ip("-n", one, "link", "set", "w0", "up", "gso_max_segs", "1")
                ip("-n", one, "address", "add", address, "dev", "w0")
            self.listener = subprocess.Popen(self.inside(self.b, "doctor", "--listen", "0", "--timeout-ms", "3000"),
                                             stdout=subprocess.PIPE, text=True)
            self.port = int(self.listener.stdout.readline())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *unused):
        if self.listener:
            self.listener.terminate()
            self.listener.wait(TIMEOUT_S)
            self.listener.stdout.close()
        for one in (self.a, self.b, self.switch):
            subprocess.run(["ip", "netns", "del", one], capture_output=True, check=False)

    @staticmethod
    def inside(namespace, *arguments):
        return ["ip", "netns", "exec", namespace, WEFT, *arguments]

    def mtu(self, namespace, interface, mtu):
        ip("-n", namespace, "link", "set", interface, "mtu", str(mtu))

    def ask(self, host=OTHER):
        """What the checks of the peer find: {check: (grade, sentence)}."""
        command = self.inside(self.a, "doctor", "--json", "--peer", f"{host}:{self.port}", "--timeout-ms", "3000")
        result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        report = json.loads(result.stdout)
        assert result.returncode == (0 if report["ok"] else 3), result
        return {row["check"]: (row["grade"], row["found"]) for row in report["findings"]}

    def expect(self, *expected, host=OTHER):
        """Each (check, grade, part of the sentence) is among the findings."""
        findings = self.ask(host)
        for check, grade, sentence in expected:
            found = findings.get(check)
            assert found and found[0] == grade and sentence in found[1], (check, grade, sentence, found)


def check_good(ways):
    ways.expect(("peer", "ok", "through w0"), ("peer-back", "ok", "can connect to this host"),
                ("peer-mtu", "ok", "256 KiB returned whole; the MTU is 9000"))


def check_mtu(ways):
    """A switch between that takes less than both ends believe, and two ends that differ."""
    for port in ("to-a", "to-b"):
        ways.mtu(ways.switch, port, 1500)
    ways.expect(("peer", "ok", "through w0"), ("peer-mtu", "problem", "256 KiB do not"))
    ways.mtu(ways.b, "w0", 1500)
    ways.expect(("peer-mtu", "note", f"the MTU is 9000 at w0 here, and 1500 at {OTHER}"))
    ways.mtu(ways.a, "w0", 1500)
    ways.expect(("peer-mtu", "ok", "the MTU is 1500"))


def check_nowhere(ways):
    ways.expect(("peer", "problem", "Network is unreachable"), host="10.99.0.1")
    ip("-n", ways.a, "neighbour", "replace", "10.78.0.9", "lladdr", "02:00:00:00:00:09", "dev", "w0",
       "nud", "permanent")
    ways.expect(("peer", "problem", "does not answer"), host="10.78.0.9")


def check_no_way_back(ways):
    """The other host answers, and has no route for calls of its own."""
    rules = ([10, "sport", str(ways.port), "lookup", "main"], [20, "to", "10.78.0.1", "unreachable"])
    for priority, *rule in rules:
        ip("-n", ways.b, "rule", "add", "priority", str(priority), "ipproto", "tcp", *rule)
    ways.expect(("peer", "ok", "through w0"), ("peer-back", "problem", "finds no route when it connects"))
    for priority, *_ in rules:
        ip("-n", ways.b, "rule", "del", "priority", str(priority))


def check_firewall(ways):
    """A firewall in front of this host: outgoing calls are answered, and nobody can call the host."""
    rules = ("add table inet t; add chain inet t in { type filter hook input priority 0; }; "
             "add rule inet t in ct state established accept; add rule inet t in tcp flags syn drop")
    try:
        subprocess.run(["ip", "netns", "exec", ways.a, "nft", rules], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        print("left out: the firewall, as nft does not work here")
        return
    ways.expect(("peer", "ok", "through w0"), ("peer-back", "problem", "gets no answer when it connects"))


def main():
    with Ways() as ways:
        for check in (check_good, check_nowhere, check_no_way_back, check_mtu, check_firewall):
            print(check.__name__, flush=True)
            check(ways)
    return 0


if __name__ == "__main__":
    sys.exit(main())
