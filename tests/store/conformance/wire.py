#!/usr/bin/env python3
"""Equal random JSON requests to the embedded server and to a real etcd give equal answers and events.

They include requests that only other clients send: previous values, keys or counts alone, ranges in comparisons,
filters and fragments of watches, wrong requests. All reads are of the present: the embedded server reads no past
revisions, and says so. Answers that differ between versions of etcd are in differences.py, with the version of each
difference. A stream has one watch: etcd's gateway may lose the messages that follow the first in a body, once it has
answered.
  wire.py SEED   one sequence, with the answer to every step
"""
import base64
import http.client
import json
import os
import queue
import random
import sys
import threading

sys.path.insert(0, os.path.join(os.environ["WEFT_SOURCE"], "tests", "run", "support"))
import differences  # noqa: E402
from stores import Etcd, Serve  # noqa: E402

SEEDS, STEPS, SYNC_EVERY = 3, 400, 50
DEADLINE_S = 30
KEYS = ["a", "a1", "b", "b2", "c"]
RANGES = [("a", ""), ("a", "b"), ("a1", "b2"), ("b", "\0"), ("\0", "\0"), ("b2", "")]
VALUES = ["", "x", "longer value", "\x01"]
LEASES = [1001, 1002, 1003]
TARGETS = [("VERSION", "version"), ("CREATE", "create_revision"), ("MOD", "mod_revision"), ("VALUE", "value"),
           ("LEASE", "lease")]


def code(text):
    return base64.b64encode(text.encode()).decode()


class Subject:
    """One store: its calls, and what it says with revisions counted from its beginning."""

    def __init__(self, name, port):
        self.name, self.port = name, port
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
        self.streams = []

    def post(self, path, body):
        return differences.ask(self, ("POST", path, body))

    def revision(self):
        return int(self.post("/v3/kv/range", {"key": code("none")})[1]["header"]["revision"])

    def begin(self):
        self.end_streams()
        for lease in LEASES:
            self.post("/v3/lease/revoke", {"ID": lease})
        self.post("/v3/kv/put", {"key": code("a"), "value": code("x")})
        self.post("/v3/kv/deleterange", {"key": code("\0"), "range_end": code("\0")})
        self.base = self.revision()

    def plain(self, value, name=""):
        """Without what no two stores have in common."""
        if name == "header":
            return int(value.get("revision", self.base)) - self.base
        if isinstance(value, dict):
            return {key: self.plain(part, key) for key, part in sorted(value.items())}
        if name in ("keys", "leases"):
            return sorted(json.dumps(part) for part in value)  # in no order
        if isinstance(value, list):
            return [self.plain(part) for part in value]
        if name in ("create_revision", "mod_revision"):
            return int(value) - self.base
        if name == "TTL" and 0 < int(value) <= 3600:
            return "running"
        return value

    def ask(self, path, body):
        status, answer = self.post(path, body)
        if path == "/v3/lease/keepalive" and status == 200:
            answer = answer["result"]
        return differences.modern((status, self.plain(answer)))

    def open_streams(self, watches):
        """Each has been answered when this returns: one from now on would miss what comes before."""
        self.end_streams()
        self.streams = [Stream(self, watch) for watch in watches]
        for stream in self.streams:
            stream.hear()

    def end_streams(self):
        for stream in self.streams:
            stream.close()
        self.streams = []


class Stream:
    """A watch; a thread reads what comes."""

    def __init__(self, subject, watch):
        self.subject, self.watch, self.lines, self.seen = subject, watch, queue.Queue(), []
        self.connection = http.client.HTTPConnection("127.0.0.1", subject.port, timeout=DEADLINE_S * 4)
        self.connection.request("POST", "/v3/watch", json.dumps({"create_request": watch}))
        self.socket = self.connection.sock
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        try:
            answer = self.connection.getresponse()
            while line := answer.readline():
                self.lines.put(json.loads(line)["result"])
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            pass  # closed

    def close(self):
        try:
            self.socket.shutdown(2)
        except OSError:
            pass
        self.thread.join(DEADLINE_S)
        self.connection.close()

    def hear(self):
        """Waits for the next message. False: none comes."""
        try:
            self.seen.append(self.lines.get(timeout=DEADLINE_S))
        except queue.Empty:
            return False
        return True

    def take(self, last):
        """All that comes until the event of revision `last`, 0 for none. Messages may be cut anywhere."""
        while not any(int(event["kv"]["mod_revision"]) == last for message in self.seen
                      for event in message.get("events", [])) and (last or not self.seen):
            if not self.hear():
                return f"not all has come within {DEADLINE_S} s: {self.seen}"
        told = []
        for message in self.seen:
            for word in ("created", "canceled", "cancel_reason", "compact_revision"):
                if word in message:
                    told.append(f"{word}: {message[word]}")
            told += [self.subject.plain(event) for event in message.get("events", [])]
        self.seen = []
        return told


class Maker:
    """Random requests. Leases have numbers of our own; revisions count from the beginning of the sequence."""

    def __init__(self, seed):
        self.dice = random.Random(seed)

    def flags(self, *names):
        return {name: True for name in names if self.dice.random() < 0.25}

    def range(self, bounded=False):
        key, end = self.dice.choice([r for r in RANGES if not bounded or r[1] != "\0"])
        return {"key": code(key), **({"range_end": code(end)} if end else {})}

    def put(self):
        request = {"key": code(self.dice.choice(KEYS)), **self.flags("prev_kv")}
        keep_value, keep_lease = self.dice.random() < 0.1, self.dice.random() < 0.1
        if not keep_value or self.dice.random() < 0.2:
            request["value"] = code(self.dice.choice(VALUES))
        if self.dice.random() < 0.3 and not keep_value:  # of two wrongs at once, etcd tells either
            request["lease"] = self.dice.choice(LEASES)
        request.update({"ignore_value": True} if keep_value else {}, **({"ignore_lease": True} if keep_lease else {}))
        return request

    def get(self):
        request = {**self.range(), **self.flags("keys_only", "count_only", "serializable")}
        if self.dice.random() < 0.3:
            request["limit"] = self.dice.randrange(4)
        if self.dice.random() < 0.2:
            request.update(sort_order=self.dice.choice(["NONE", "ASCEND"]), sort_target="KEY")
        if self.dice.random() < 0.1:
            request["revision"] = 1 << 40  # of the future
        return request

    def delete(self, bounded=False):
        return {**self.range(bounded), **self.flags("prev_kv")}

    def compare(self, base):
        target, member = self.dice.choice(TARGETS)
        number = self.dice.choice([0, 1, 2])
        value = {"value": code(self.dice.choice(VALUES)), "lease": self.dice.choice([0] + LEASES),
                 "version": number}.get(member, base + self.dice.randrange(STEPS) if number else 0)
        result = self.dice.choice(["EQUAL", "GREATER", "LESS", "NOT_EQUAL"])
        return {**self.range(), "target": target, "result": result, member: value}

    def operation(self):
        return self.dice.choice([lambda: {"request_put": self.put()}, lambda: {"request_range": self.get()},
                                 lambda: {"request_delete_range": self.delete(bounded=True)}])()

    def txn(self, base):
        return {"compare": [self.compare(base) for _ in range(self.dice.randrange(3))],
                "success": [self.operation() for _ in range(self.dice.randrange(4))],
                "failure": [self.operation() for _ in range(self.dice.randrange(4))]}

    def lease(self):
        lease = self.dice.choice(LEASES)
        return self.dice.choice([("/v3/lease/grant", {"ID": lease, "TTL": 3600}),
                                 ("/v3/lease/grant", {"ID": lease, "TTL": "3600"}),
                                 ("/v3/lease/revoke", {"ID": lease}), ("/v3/kv/lease/revoke", {"ID": lease}),
                                 ("/v3/lease/timetolive", {"ID": lease, "keys": True}),
                                 ("/v3/lease/keepalive", {"ID": lease}), ("/v3/lease/leases", {})])

    def wrong(self):
        return self.dice.choice([("/v3/kv/put", {}), ("/v3/kv/range", {"key": ""}), ("/v3/kv/deleterange", {}),
                                 ("/v3/kv/put", {"key": code("a"), "lease": 4711}),
                                 ("/v3/kv/put", {"key": code("a"), "value": code("x"), "ignore_value": True}),
                                 ("/v3/lease/grant", {"ID": 9, "TTL": 1 << 60}), ("/v3/lease/revoke", {"ID": 4711}),
                                 ("/v3/kv/txn", {"success": [{"request_put": {"key": code("a")}}] * 2}),
                                 ("/v3/kv/txn", {"success": [{"request_put": {"key": code(str(i))}}
                                                             for i in range(129)]})])

    def malformed(self):
        return self.dice.choice([("/v3/kv/put", "{"), ("/v3/kv/put", '{"key": 5}'), ("/v3/kv/range", '{"key": "?"}'),
                                 ("/v3/kv/range", '{"limit": "many"}'), ("/v3/kv/txn", '{"compare": 7}'),
                                 ("/v3/kv/txn", '{"compare": [{"result": "SO SO"}]}'), ("/v3/nothing", "{}")])

    def watch(self, base, revision):
        key, end = self.dice.choice(RANGES)
        return {"key": code(key), "range_end": code(end), **self.flags("prev_kv", "fragment"),
                "start_revision": self.dice.choice([0, base + 1, self.dice.randrange(base + 1, revision + 2)]),
                "filters": [name for name in ("NOPUT", "NODELETE") if self.dice.random() < 0.25]}


def difference(one, other, place=""):
    """The first place where two answers differ, and both values there."""
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        for i, (a, b) in enumerate(zip(one, other)):
            if a != b:
                return difference(a, b, f"{place}[{i}]")
    elif isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            if one.get(key) != other.get(key):
                return difference(one.get(key), other.get(key), f"{place}.{key}")
    return f"{place}\nembedded: {one}\netcd:     {other}"


def same(step, request, answers, loud):
    if loud:
        print(step, request, answers[0])
    if answers[0] != answers[1]:
        raise AssertionError(f"step {step}: {request}\n{difference(*answers)}")


def marks(subject, keys):
    """Puts and deletes each key; the revisions of both."""
    puts = [int(subject.post("/v3/kv/put", {"key": code(key)})[1]["header"]["revision"]) for key in keys]
    deletes = [int(subject.post("/v3/kv/deleterange", {"key": code(key)})[1]["header"]["revision"]) for key in keys]
    return {key: (put, delete) for key, put, delete in zip(keys, puts, deletes)}


def holds(watch, mark):
    key, end = (base64.b64decode(watch[name]).decode() for name in ("key", "range_end"))
    return mark == key if not end else mark >= key and (end == "\0" or mark < end)


def synchronise(subject):
    """All events of each watch until now."""
    marked = marks(subject, ["a", "a1", "b", "b2", "m"])
    said = []
    for stream in subject.streams:
        filters = stream.watch["filters"]
        last = max(revisions[0 if "NODELETE" in filters else 1] for mark, revisions in marked.items()
                   if holds(stream.watch, mark))
        said.append(stream.take(0 if len(filters) == 2 else last))
    return said


def run(subjects, seed, loud):
    maker = Maker(seed)
    for subject in subjects:
        subject.begin()
    for step in range(STEPS):
        if step % SYNC_EVERY == SYNC_EVERY - 1:
            same(step, [stream.watch for stream in subjects[0].streams], [synchronise(subject) for subject in subjects],
                 loud)
            state, revision = maker.dice.getstate(), subjects[0].revision() - subjects[0].base
            for subject in subjects:  # the same watches, from where each store began
                maker.dice.setstate(state)
                subject.open_streams([maker.watch(subject.base, subject.base + revision) for _ in range(4)])
            continue
        kind, state = maker.dice.randrange(12), maker.dice.getstate()
        answers = []
        for subject in subjects:
            maker.dice.setstate(state)
            if kind < 3:
                request = "/v3/kv/put", maker.put()
            elif kind < 5:
                request = "/v3/kv/range", maker.get()
            elif kind == 5:
                request = "/v3/kv/deleterange", maker.delete()
            elif kind < 9:
                request = "/v3/kv/txn", maker.txn(subject.base)
            elif kind == 9:
                request = maker.lease()
            else:
                request = maker.wrong() if kind == 10 else maker.malformed()
            status, answer = subject.ask(*request)
            answers.append((status, answer if kind < 11 else ""))  # of what no JSON reader takes: that it is refused
        same(step, request, answers, loud)
    for subject in subjects:
        subject.end_streams()


def the_past_is_refused_or_gone(embedded, etcd):
    """A past revision: etcd reads it until it is compacted, the embedded server says that it does not."""
    for subject in (embedded, etcd):
        subject.begin()
        subject.post("/v3/kv/put", {"key": code("a")})
        subject.post("/v3/kv/put", {"key": code("a")})
    ask = {"key": code("a"), "revision": embedded.base + 1}
    status, answer = embedded.post("/v3/kv/range", ask)
    assert (status, answer["code"]) == (501, 12), answer
    ask["revision"] = etcd.base + 1
    assert etcd.post("/v3/kv/range", ask)[1]["kvs"][0]["version"] == "1"
    etcd.post("/v3/kv/compaction", {"revision": etcd.base + 2})
    status, answer = etcd.post("/v3/kv/range", ask)
    assert (status, answer["code"]) == (400, 11), answer


def main():
    seeds = [int(sys.argv[1])] if len(sys.argv) > 1 else range(1, SEEDS + 1)
    with Etcd() as etcd, Serve() as serve:
        subjects = [Subject("embedded", serve.port), Subject("etcd", etcd.port)]
        try:
            for seed in seeds:
                try:
                    run(subjects, seed, len(sys.argv) > 1)
                except AssertionError as error:
                    sys.exit(f"seed {seed}, {error}\nagain: wire.py {seed}")
            the_past_is_refused_or_gone(*subjects)
            versions = differences.check(*subjects)
        finally:
            for subject in subjects:
                subject.end_streams()
    print(f"{len(seeds)} sequences of {STEPS} requests are answered as by {versions}, but for "
          f"{len(differences.DIFFERENCES)} differences, which are as told")


main()
