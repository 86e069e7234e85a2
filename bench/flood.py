#!/usr/bin/env python3
"""Holds thousands of hostile connections to a listener, and reports what they cost it.

    flood.py HOST PORT --mode silent|slow|garbage|none ... [--count 10000] [--seconds 30] [--pid P] [--tls-hello]
    flood.py @NAME     --mode ...                  an abstract UNIX socket
    flood.py PATH      --mode ...                  a UNIX socket with a name that begins with /

silent: connects and sends nothing. slow: sends one byte a second of a message that begins correctly. garbage: sends as
many random bytes as the listener accepts. If the listener ends a connection, it is opened again at once, so that COUNT
connections are open, or being opened, all the time; a refused connection is tried again after a moment.

Meanwhile lawful callers connect, each on a new connection, one every --every seconds, whether or not earlier ones have
been served: --lawful COMMAND runs a command for each caller, which has been served if the command ends with 0;
--lawful-put puts a key into a store, whose token is in WEFT_TOKEN. A caller that is not served within --deadline
seconds has failed. With --mode none there are lawful callers but no flood.

Prints one JSON object for each of the --repeat rounds: how many connections were open (median over the seconds), how
many were opened, ended by the other side, and refused; with --pid the largest resident memory of that process, its
memory before, and the part of one processor that it used; the same for this program, to separate its own load from the
listener's; how many lawful callers tried, were served and failed, and the median, 99th percentile and maximum of the
served callers' times in seconds; the load of the machine before, and how often a listener's queue was full (all
listeners of the machine).
"""
import argparse
import errno
import heapq
import json
import multiprocessing
import os
import random
import resource
import select
import shlex
import socket
import ssl
import statistics
import subprocess
import sys
import threading
import time

RETRY_S = 0.05
MODES = ["silent", "slow", "garbage", "none"]
BEGINNINGS = {"http": b"POST /v3/kv/put HTTP/1.1\r\nHost: here\r\nX-Slow: ", "tls": bytes.fromhex("16030102000100")}
OPENS_PER_TURN = 200


def process_state(pid):
    """Resident bytes and seconds of processor time of a process."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return int(fields[21]) * resource.getpagesize(), ticks / os.sysconf("SC_CLK_TCK")


def queue_drops():
    """Calls that the system has dropped since its start because a listener's queue was full."""
    with open("/proc/net/netstat") as counters:
        names, values = [line.split() for line in counters if line.startswith("TcpExt:")]
    return int(values[names.index("ListenDrops")])


class Lawful:
    """New lawful callers, in a separate process, so that they do not wait for the flood's Python."""

    def __init__(self, options):
        self.options, self.times, self.failures = options, [], []
        self.ends, self.result = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=self.run)
        self.process.start()

    def call(self):
        options, began = self.options, time.monotonic()
        try:
            if options.lawful_put:
                self.put()
            else:
                subprocess.run(shlex.split(options.lawful), check=True, timeout=options.deadline,
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            self.times.append(time.monotonic() - began)
        except (OSError, subprocess.SubprocessError, ValueError) as failure:
            self.failures.append(f"{getattr(failure, 'stderr', None) or failure!r}"[-200:])

    def put(self):
        options = self.options
        anyone = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # the token authorises; other tests check the server
        anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE
        body = b'{"key": "YQ==", "value": "Yg=="}'
        with socket.create_connection((options.host, options.port), options.deadline) as plain, \
                anyone.wrap_socket(plain) as caller:
            caller.sendall(b"POST /v3/kv/put HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nContent-Length: %d\r\n\r\n%s"
                           % (os.environ["WEFT_TOKEN"].encode(), len(body), body))
            answer = caller.recv(4096)
        if not answer.startswith(b"HTTP/1.1 200"):
            raise ValueError(answer[:40])

    def run(self):
        callers, due = [], time.monotonic()
        while not self.result.poll(max(0, due - time.monotonic())):
            due += self.options.every
            if sum(caller.is_alive() for caller in callers) < self.options.at_once:
                callers.append(threading.Thread(target=self.call))
                callers[-1].start()
        for caller in callers:
            caller.join()
        late = [took for took in self.times if took > self.options.deadline]
        served = sorted(took for took in self.times if took <= self.options.deadline)
        told = {"tried": len(callers), "served": len(served), "failed": len(self.failures) + len(late)}
        if served:
            told.update(p50_s=round(served[len(served) // 2], 3), p99_s=round(served[len(served) * 99 // 100], 3),
                        worst_s=round(served[-1], 3))
        if self.failures:
            told["last_failure"] = self.failures[-1]
        self.result.send(told)

    def has_ended(self):
        return self.ends.poll()

    def end(self):
        told = self.ends.recv()
        self.process.join()
        return told


class Flood:
    def __init__(self, options):
        self.options = options
        self.poll = select.epoll()
        self.open, self.said = {}, {}
        self.waiting = []  # when to open again
        self.speaks = []   # (when, descriptor) of the slow
        self.counts = {"opened": 0, "ended": 0, "refused": 0}
        self.noise = random.Random(1).randbytes(1 << 16)
        self.beginning = BEGINNINGS["tls" if options.tls_hello else "http"]
        host = options.host
        if host.startswith(("@", "/")):
            self.family, self.address = socket.AF_UNIX, "\0" + host[1:] if host[0] == "@" else host
        else:
            info = socket.getaddrinfo(host, options.port, type=socket.SOCK_STREAM)[0]
            self.family, self.address = info[0], info[4]

    def connect(self, now):
        caller = socket.socket(self.family, socket.SOCK_STREAM)
        caller.setblocking(False)
        error = caller.connect_ex(self.address)
        if error not in (0, errno.EINPROGRESS):
            caller.close()
            self.counts["refused"] += 1
            heapq.heappush(self.waiting, now + RETRY_S)
            return
        number = caller.fileno()
        self.open[number], self.said[number] = caller, 0
        self.counts["opened"] += 1
        garbage = self.options.mode == "garbage"
        self.poll.register(number, select.EPOLLIN | select.EPOLLRDHUP | (select.EPOLLOUT if garbage else 0))
        if self.options.mode == "slow":
            heapq.heappush(self.speaks, (now + random.random(), number, caller))

    def end(self, number, now):
        caller = self.open.pop(number)
        self.poll.unregister(number)
        refused = caller.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED
        self.counts["refused" if refused else "ended"] += 1
        caller.close()
        heapq.heappush(self.waiting, now + (RETRY_S if refused else 0))

    def speak(self, number, now, size):
        """Sends `size` bytes; ends the connection if the other side has."""
        place, caller = self.said[number], self.open[number]
        if self.options.mode == "slow":
            what = self.beginning[place:place + size] or b"x"
        else:
            place = random.randrange(len(self.noise) - size)
            what = self.noise[place:place + size]
        try:
            self.said[number] += caller.send(what)
        except BlockingIOError:
            pass
        except OSError:
            self.end(number, now)

    def heard(self, number, events, now):
        try:
            if events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR) and not self.open[number].recv(1 << 16):
                raise ConnectionResetError
        except BlockingIOError:
            pass
        except OSError:
            self.end(number, now)
            return
        if events & select.EPOLLRDHUP:
            self.end(number, now)
        elif events & select.EPOLLOUT:
            self.speak(number, now, 512)

    def turn(self, now):
        for _ in range(OPENS_PER_TURN):
            if not self.waiting or self.waiting[0] > now:
                break
            heapq.heappop(self.waiting)
            self.connect(now)
        while self.speaks and self.speaks[0][0] <= now:
            when, number, caller = heapq.heappop(self.speaks)
            if self.open.get(number) is caller:
                self.speak(number, now, 1)
            if self.open.get(number) is caller:
                heapq.heappush(self.speaks, (when + 1, number, caller))
        due = min([self.waiting[0] if self.waiting else now + 1, self.speaks[0][0] if self.speaks else now + 1])
        for number, events in self.poll.poll(max(0, due - now), 1024):
            if number in self.open:
                self.heard(number, events, now)

    def run(self):
        options = self.options
        self.waiting = [0.0] * (0 if options.mode == "none" else options.count)
        began, open_counts, most, sample = time.monotonic(), [], 0, 0
        drops, load = queue_drops(), os.getloadavg()[0]
        before = process_state(options.pid) if options.pid else None
        lawful = Lawful(options) if options.lawful or options.lawful_put else None
        own = sum(os.times()[:2])
        while (now := time.monotonic()) < began + options.seconds:
            self.turn(now)
            if now >= sample:
                sample = now + 0.2
                open_counts.append(len(self.open))
                if before:
                    most = max(most, process_state(options.pid)[0])
        if lawful:
            lawful.ends.send("nobody new")
            while not lawful.has_ended():  # the last callers have to be served during the flood, too
                self.turn(time.monotonic())
        passed = time.monotonic() - began
        told = lawful.end() if lawful else None
        result = {"mode": options.mode, "count": options.count, "seconds": round(passed, 1),
                  "open": statistics.median(open_counts), **self.counts,
                  "own_processor": round((sum(os.times()[:2]) - own) / passed, 2),
                  "load": round(load, 1), "queue_drops": queue_drops() - drops}
        if before:
            after = process_state(options.pid)
            result.update(rss_before_mb=round(before[0] / 1e6, 1), rss_most_mb=round(max(most, after[0]) / 1e6, 1),
                          rss_after_mb=round(after[0] / 1e6, 1), processor=round((after[1] - before[1]) / passed, 2))
        if told:
            result["lawful"] = told
        return result

    def close(self):
        for caller in self.open.values():
            caller.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("host")
    parser.add_argument("port", nargs="?", type=int, default=0)
    parser.add_argument("--mode", choices=MODES, required=True, nargs="+")
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--pid", type=int)
    parser.add_argument("--tls-hello", action="store_true", help="the slow begin like TLS rather than HTTP")
    parser.add_argument("--lawful", metavar="COMMAND", help="what a lawful caller runs")
    parser.add_argument("--lawful-put", action="store_true", help="lawful callers put a key")
    parser.add_argument("--every", type=float, default=0.1, help="seconds from one lawful caller to the next")
    parser.add_argument("--at-once", type=int, default=100, help="lawful callers; more do not come")
    parser.add_argument("--deadline", type=float, default=5, help="of a lawful caller, in seconds")
    parser.add_argument("--repeat", type=int, default=1, help="rounds through all modes")
    options = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if most != resource.RLIM_INFINITY and most < options.count + 50:
        sys.exit(f"flood.py: {most} descriptors are allowed (ulimit -n), {options.count + 50} wanted")
    modes = options.mode * options.repeat
    for options.mode in modes:
        flood = Flood(options)
        print(json.dumps(flood.run()), flush=True)
        flood.close()


main()
