"""Answers of etcd that changed with a version: each difference once, with the version that introduced it.

Some came with etcd, others with grpc-gateway 2, which reads and writes its JSON. etcd has that gateway from 3.6 on. For
an etcd 3.5 its builder chose the gateway (the project 1, Debian 13 2), and its version does not show which; its answer
to a path that does not exist does. The embedded server follows the newer, and where it does not, `why` gives the
reason.
"""
import json
import re
from typing import Any, Callable, NamedTuple, Optional

GATEWAY_2 = "grpc-gateway 2"
NOWHERE = "/v3/nowhere"


class Answer(NamedTuple):
    status: int
    body: Any  # a dict: these members, None for one that must not be there; else the text, None for any


class Difference(NamedTuple):
    what: str
    since: Any       # (major, minor) of etcd, or GATEWAY_2
    request: tuple   # method, path, body
    older: Answer
    newer: Answer
    embedded: Optional[Answer] = None  # where it is not `newer`
    why: str = ""                      # of `embedded`
    older_too: Optional[Answer] = None  # of gateways 1, whose releases differ
    modern: Optional[Callable] = None  # (status, answer) of an older etcd -> of a newer one, where sequences meet it


def without_error(status, answer):
    if isinstance(answer, dict) and "code" in answer and answer.get("error") == answer.get("message"):
        answer = {name: value for name, value in answer.items() if name != "error"}
    return status, answer


def precondition(status, answer):
    return (400 if status == 412 else status), answer


NO_KEY = {"code": 3, "message": "etcdserver: key is not provided"}
EXISTS = "etcdserver: lease already exists"
A = "YQ=="
TWO = {"request_put": {"key": A}, "request_range": {"key": A}}
UNKNOWN = {"key": A, "sort_target": "SO SO"}
DIFFERENCES = [
    Difference("the health has a reason", (3, 5),
               ("GET", "/health", None),
               Answer(200, {"health": "true", "reason": None}), Answer(200, {"health": "true", "reason": ""})),
    Difference("an error has no \"error\" beside its \"message\"", GATEWAY_2,
               ("POST", "/v3/kv/put", {}),
               Answer(400, {"error": NO_KEY["message"], **NO_KEY}), Answer(400, {"error": None, **NO_KEY}),
               embedded=Answer(400, {"error": NO_KEY["message"], **NO_KEY}), why="clients of older etcds read it",
               modern=without_error),
    Difference("what its state forbids is a bad request", GATEWAY_2,
               ("POST", "/v3/lease/grant", {"ID": 77, "TTL": 600}),
               Answer(412, {"code": 9, "message": EXISTS}), Answer(400, {"code": 9, "message": EXISTS}),
               older_too=Answer(400, {"code": 9, "message": EXISTS}), modern=precondition),
    Difference("a path that does not exist has an error in JSON", GATEWAY_2,
               ("POST", NOWHERE, {}),
               Answer(404, "Not Found\n"), Answer(404, {"code": 5, "message": "Not Found"})),
    Difference("a method that a path does not take has an error in JSON", GATEWAY_2,
               ("GET", "/v3/kv/put", None),
               Answer(405, "Method Not Allowed\n"), Answer(501, {"code": 12, "message": "Method Not Allowed"})),
    Difference("an operation of two requests is refused", GATEWAY_2,
               ("POST", "/v3/kv/txn", {"success": [TWO]}),
               Answer(200, {"succeeded": True}), Answer(400, {"code": 3})),
    Difference("a comparison with two values is refused", GATEWAY_2,
               ("POST", "/v3/kv/txn", {"compare": [{"key": A, "version": "0", "value": A}]}),
               Answer(200, None), Answer(400, {"code": 3})),
    Difference("a member that is there twice is refused", GATEWAY_2,
               ("POST", "/v3/kv/put", '{"key": "YQ==", "key": "YQ=="}'),
               Answer(200, None), Answer(400, {"code": 3})),
    Difference("base64 needs no padding", GATEWAY_2,
               ("POST", "/v3/kv/put", {"key": "YQ"}),
               Answer(400, {"code": 3}), Answer(200, {"code": None})),
    Difference("base64 has the alphabet for URLs too", GATEWAY_2,
               ("POST", "/v3/kv/put", {"key": "-_8="}),
               Answer(400, {"code": 3}), Answer(200, {"code": None})),
    Difference("a name that an enumeration does not have is the first that it has", GATEWAY_2,
               ("POST", "/v3/kv/range", UNKNOWN), Answer(400, {"code": 3}), Answer(200, {"code": None}),
               embedded=Answer(400, {"code": 3}), why="nobody is answered another question than was asked"),
]


def ask(subject, request):
    """What a server says: status, and JSON or text."""
    method, path, body = request
    text = body if isinstance(body, str) or body is None else json.dumps(body)
    subject.connection.request(method, path, text)
    answer = subject.connection.getresponse()
    text = answer.read().decode()
    return answer.status, json.loads(text) if text.startswith("{") else text


def is_said(answer, expected):
    status, body = answer
    if isinstance(expected.body, dict):
        same = isinstance(body, dict) and all(body.get(name) == value for name, value in expected.body.items())
    else:
        same = expected.body in (None, body)
    return status == expected.status and same


class Versions:
    """What an etcd has, by its own words."""

    def __init__(self, etcd):
        self.version = ask(etcd, ("GET", "/version", None))[1]["etcdserver"]
        self.number = tuple(map(int, re.match(r"(\d+)\.(\d+)", self.version).groups()))
        own = self.number >= (3, 6)
        self.gateway_2 = own or (self.number == (3, 5) and isinstance(ask(etcd, ("POST", NOWHERE, {}))[1], dict))

    def has(self, difference):
        return self.gateway_2 if difference.since == GATEWAY_2 else self.number >= difference.since

    def __str__(self):
        return f"etcd {self.version} with grpc-gateway {2 if self.gateway_2 else 1}"


def modern(answer):
    """An answer of any server as the newest etcd would give it."""
    for difference in DIFFERENCES:
        answer = difference.modern(*answer) if difference.modern else answer
    return answer


def check(embedded, etcd):
    """Every difference exists, since the listed version, and the embedded server is on its side of it."""
    versions = Versions(etcd)
    for subject in (embedded, etcd):
        ask(subject, ("POST", "/v3/lease/grant", {"ID": 77, "TTL": 600}))
    for difference in DIFFERENCES:
        has = versions.has(difference)
        said = ask(etcd, difference.request)
        good = [difference.newer] if has else [difference.older, difference.older_too or difference.older]
        assert any(is_said(said, one) for one in good), (
            f"{versions}: \"{difference.what}\" should be {'so' if has else 'otherwise'}, since it came with "
            f"{difference.since}: {difference.request} is answered {said}")
        said = ask(embedded, difference.request)
        assert is_said(said, difference.embedded or difference.newer), (
            f"the embedded server, \"{difference.what}\": {difference.request} is answered {said}, "
            f"not {difference.embedded or difference.newer} {difference.why}")
    for subject in (embedded, etcd):
        ask(subject, ("POST", "/v3/lease/revoke", {"ID": 77}))
    return versions
