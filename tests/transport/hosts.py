#!/usr/bin/env python3
"""hosts.py HOST_PROGRAM TRANSPORT [SETTING...]: a transport between two test hosts (network namespaces, a veth pair):
data both ways, a link that goes down and comes back, a peer that is stopped, and one that is killed in mid-write.
"""
import os
import select
import signal
import subprocess
import sys
import time

PROGRAM, TRANSPORT, SETTINGS = sys.argv[1], sys.argv[2], sys.argv[3:]
DEADLINE_S = 60
NAMES = [f"weft{os.getpid()}{side}" for side in "ab"]


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def set_up():
    try:
        for name in NAMES:
            ip("netns", "add", name)
        ip("link", "add", "w0", "netns", NAMES[0], "type", "veth", "peer", "name", "w0", "netns", NAMES[1])
        for number, name in enumerate(NAMES):
            ip("-n", name, "addr", "add", f"10.77.0.{number + 1}/24", "dev", "w0")
            ip("-n", name, "link", "set", "w0", "up")
            ip("-n", name, "link", "set", "lo", "up")
    except (OSError, subprocess.CalledProcessError) as error:
        take_down()
        skip(f"network namespaces need root and iproute2 ({error})")


def wait_for_link():
    """The kernel reports an interface's state up to a second late, and UCX uses only interfaces that are up."""
    deadline = time.monotonic() + DEADLINE_S
    for name in NAMES:
        while True:
            shown = subprocess.run(["ip", "-n", name, "-br", "link", "show", "w0"], capture_output=True, text=True)
            if shown.stdout.split()[1] == "UP":
                break
            assert time.monotonic() < deadline, f"the link does not come up: {shown.stdout}"


def take_down():
    for name in NAMES:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


class Host:
    """The program on one of the test hosts."""

    def __init__(self, number):
        command = ["ip", "netns", "exec", NAMES[number], PROGRAM, TRANSPORT, "w0", *SETTINGS]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.card = self.hear()
        if self.card.startswith("skipped") or "UNSUPPORTED" in self.card:
            skip(self.card)
        assert not self.card.startswith("failed"), self.card

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self):
        ready, _, _ = select.select([self.process.stdout], [], [], DEADLINE_S)
        assert ready, "a host says nothing"
        return self.process.stdout.readline().strip()

    def ask(self, line):
        self.say(line)
        return self.hear()

    def end(self, kill=False):
        if kill:
            self.process.kill()
        self.process.stdin.close()
        self.process.wait(DEADLINE_S)


def couple():
    hosts = Host(0), Host(1)
    assert hosts[0].ask("connect " + hosts[1].card) == "ok"
    return hosts


def check_works(a, b, value):
    assert a.ask(f"fill {value}") == "ok"
    came = a.ask("write 30000")
    assert came.startswith("OK"), came
    wrong = b.ask(f"check {value}").split()[0]
    assert wrong == "0", f"{wrong} bytes are wrong"


def data():
    a, b = couple()
    check_works(a, b, 7)
    deadline = time.monotonic() + DEADLINE_S
    while b.ask("check 7").split()[1] != "1":
        assert time.monotonic() < deadline, "the message did not come"
    b.ask("fill 9")
    assert a.ask("read 30000").startswith("OK")
    assert a.ask("check 9").split()[0] == "0"
    a.end()
    b.end()


def link_down():
    a, b = couple()
    check_works(a, b, 1)
    ip("-n", NAMES[1], "link", "set", "w0", "down")
    came = a.ask("write 300")
    print(f"{TRANSPORT}: write over a link that is down: {came}")
    assert came.split()[0] in ("CANCELED", "PEER_LOST", "UNREACHABLE"), came
    ip("-n", NAMES[1], "link", "set", "w0", "up")
    wait_for_link()
    b.end(kill=True)
    successor = Host(1)
    assert a.ask("disconnect") == "ok"
    assert a.ask("connect " + successor.card) == "ok"
    check_works(a, successor, 2)
    a.end()
    successor.end()


def stopped(op):
    a, b = couple()
    check_works(a, b, 1)
    b.process.send_signal(signal.SIGSTOP)
    came = a.ask(f"{op} 300")
    print(f"{TRANSPORT}: {op} with a stopped process: {came}")
    assert came.split()[0] in ("CANCELED", "PEER_LOST"), came
    b.process.send_signal(signal.SIGCONT)
    a.end()
    b.end()


def killed(op):
    a, b = couple()
    check_works(a, b, 1)
    for round_ in range(200):
        a.say(f"{op} 5000")
        if round_ == 5:
            b.end(kill=True)
        came = a.hear()
        if not came.startswith("OK"):
            break
    print(f"{TRANSPORT}: {op} with a process that is killed: {came}")
    assert came.split()[0] in ("CANCELED", "PEER_LOST", "UNREACHABLE"), came
    a.end()


def main():
    set_up()
    try:
        wait_for_link()
        data()
        link_down()
        for op in "write", "read":
            stopped(op)
            killed(op)
    finally:
        take_down()


main()
