"""Random calls with wrong types, lengths, closed objects and dead peers: an exception, never a crash."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any, Callable

import numpy as np
import pytest

import weft
from weft import ep

SEED = int(os.environ.get("WEFT_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
CALLS = int(os.environ.get("WEFT_CALLS", "10000"))
ALLOWED = (weft.Error, TypeError, ValueError, OverflowError, BufferError, MemoryError)
SIZES: dict[str, Any] = {"hidden": 128, "topk": 2, "experts_per_rank": 2, "max_tokens": 4, "capacity": 4,
                         "op_timeout": 0.2}


class World:
    """Objects of every kind, open, closed and of dead peers."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.store = weft.Store.local()
        self.closed_store = weft.Store.local()
        self.agents = [weft.Agent(name, store=self.store, transports="shm,file") for name in "ab"]
        self.gone = weft.Agent("gone", transports="shm")
        self.dead = self.agents[0].load(self.gone.metadata())
        self.peer = self.agents[0].load(self.agents[1].metadata())
        self.regions = [agent.register(bytearray(256)) for agent in self.agents]
        self.lists = [self.agents[0].descriptors(self.regions[0]),
                      self.agents[0].descriptors(self.agents[0].regions(self.peer)[0].descriptor(), self.peer)] \
            if self.agents[0].load(self.agents[1].metadata()) else []
        self.transfers = [self.agents[0].write(*self.lists, self.peer)]
        closed = self.agents[0].write(*self.lists, self.peer)
        closed.close()
        self.transfers.append(closed)
        self.gone.close()
        self.closed_store.close()
        sizes = {**SIZES, "mode": draw.choice(["latency", "throughput"])}
        self.rank = ep.Rank(self.store, rank=0, founders=[0], **sizes)
        self.rank.activate()
        self.idle = ep.Rank(self.store, rank=1, join_only=True, **sizes)
        self.past = ep.Rank(self.store, rank=2, join_only=True, **sizes)
        self.past.close()
        self.receives = [self.rank.receive(rows=8), self.rank.receive(rows=8, layout="rank_major"),
                         self.rank.receive(rows=8, dtype="fp8"), self.rank.receive(rows=1),
                         self.rank.receive(rows=64, layout="packed", alignment=8, zero_padding=True)]
        self.routes = [self.rank.route(), self.rank.route(topk=1, max_rows=3), self.rank.route(max_tokens=2),
                       self.rank.route(), self.idle.route()]
        self.routes[3].close()
        self.ops = [0]

    def value(self, deep: bool = True) -> Any:
        """Anything."""
        draw = self.draw
        simple: list[Callable[[], Any]] = [
            lambda: None, lambda: draw.choice([0, 1, -1, 2, 255, 2**31, 2**32, 2**63, 2**64, -(2**63)]),
            lambda: draw.choice(["", "a", "b", "\0", "\udcff", "bf16", "/k", "x" * 5000]), lambda: b"bytes",
            lambda: draw.random(), lambda: draw.choice([float("nan"), float("inf"), -1.0, 0.0]),
            lambda: draw.choice([True, False]), object, lambda: bytearray(draw.randrange(300)),
            lambda: np.zeros(draw.choice([(), (0,), (4,), (4, 2), (4, 128), (2, 8, 128), (1, 1, 1, 1, 1, 1, 1)]),
                             draw.choice([np.uint8, np.uint16, np.int32, np.int64, np.float32, np.float16])),
            lambda: np.zeros((4, 128), np.uint16), lambda: np.array([[0, 1]] * 4),
            lambda: np.full((4, 2), 0.5, np.float32), lambda: np.zeros((4, 2), np.int64)[::-1],
            lambda: draw.choice(self.ops), lambda: self.dead, lambda: self.peer, lambda: weft.SELF,
            lambda: draw.choice(self.receives), lambda: draw.choice(self.receives).x,
            lambda: draw.choice(self.receives).counts, lambda: draw.choice(self.regions),
            lambda: draw.choice(self.routes), lambda: draw.choice(self.lists),
            lambda: draw.choice(self.regions).descriptor(), lambda: self.store,
        ]
        if deep and draw.random() < 0.3:
            return [self.value(False) for _ in range(draw.randrange(4))]
        return draw.choice(simple)()

    def target(self) -> tuple[Any, list[str]]:
        draw = self.draw
        agent = ["register", "register_address", "allocate", "query", "regions", "metadata", "load", "find", "peer",
                 "check", "invalidate", "descriptors", "read", "write", "notify", "stats", "next_event",
                 "notifications", "completions", "progress", "metrics", "peers", "fetch", "connect", "unpublish"]
        rank = ["dispatch", "dispatch_send", "dispatch_recv", "combine", "combine_send", "combine_recv", "finish",
                "mask", "masks", "set_mark", "receive", "wait", "combine_rows", "next_event", "peer_stats", "withdraw",
                "connect", "change", "route", "combine_route"]
        return draw.choice([
            (draw.choice([*self.agents, self.gone]), agent),
            (draw.choice(self.transfers), ["post", "poll", "wait", "post_with", "status", "explain", "cancel"]),
            (draw.choice([self.rank, self.rank, self.rank, self.idle, self.past]), rank),
            (draw.choice([self.store, self.closed_store]),
             ["get", "range", "put", "delete", "txn", "lease_grant", "lease_ttl", "lease_keepalive", "watch"]),
            (draw.choice(self.routes), ["plan", "wait", "arrays"]),
            (draw.choice(self.regions), ["descriptor"]),
            (weft, ["Buffer"]),
        ])

    def close(self) -> None:
        for thing in (*self.routes, *self.transfers, *self.agents, self.rank, self.idle, self.store):
            thing.close()


# What a call of each name would be right with, so that some get past the first check.
def plausible(world: World, name: str) -> tuple[list[Any], dict[str, Any]]:
    x, idx = np.zeros((4, 128), np.uint16), np.array([[0, 1]] * 4)
    weights, op = np.full((4, 2), 0.5, np.float32), world.draw.choice(world.ops)
    out = np.zeros((4, 128), np.uint16)
    into, route = world.draw.choice(world.receives), world.draw.choice([None, None, *world.routes])
    given = world.draw.random() < 0.6 or route is None  # else by the route
    tokens = [x, idx, weights] if given else [x]
    check = given and route is not None and world.draw.random() < 0.3
    options = {"recycle": True, "route": route, "check_route": check}
    return {
        "dispatch": (tokens, {"into": into, **options}),
        "dispatch_send": (tokens, dict(options)),
        "combine_route": ([world.draw.choice(world.routes), into.x, out], {}),
        "route": ([], {"topk": 2, "max_tokens": 4, "max_rows": 16}), "plan": ([idx], {}),
        "arrays": ([world.draw.choice([None, 0, 3, 100])], {}),
        "dispatch_recv": ([op, into], {}), "combine": ([op, into.x, out], {}), "combine_send": ([op, into.x, out], {}),
        "combine_recv": ([op, into.x, out], {}), "finish": ([op], {}), "wait": ([0.01], {}),
        "write": ([*world.lists, world.peer], {}), "read": ([*world.lists, world.peer], {}),
        "notify": ([world.peer, b"x"], {}), "put": (["/k", b"v"], {}), "fetch": (["b"], {"timeout": 0.0}),
        "connect": ([[1]], {"timeout": 0.0}), "change": ([], {"add": [1], "timeout": 0.0}),
        "descriptors": ([world.regions[0]], {}),
    }.get(name, ([], {}))


QUICK = {"timeout": 0.01}


def one_call(world: World) -> None:
    draw = world.draw
    thing, names = world.target()
    name = draw.choice(names)
    arguments, options = plausible(world, name)
    if draw.random() < 0.8:
        arguments = [world.value() if draw.random() < 0.4 else argument for argument in arguments]
        arguments += [world.value() for _ in range(draw.choice([0, 0, 1, 2]))]
        if options and draw.random() < 0.4:
            options[draw.choice(list(options))] = world.value()
    if name in ("fetch", "connect", "change", "withdraw", "query", "unpublish", "cancel", "wait"):
        if name == "wait" and thing is world.rank:
            arguments = arguments[:1]
        if isinstance(thing, ep.Route):
            arguments = arguments[:1]
        elif name not in ("wait", "cancel") or thing not in world.transfers:
            options["timeout"] = 0.01
        else:
            arguments = [0.01]
    if name in ("register_address", "allocate"):  # addresses that are made up are the caller's own doing
        arguments = [draw.choice([0, -1, "x", None]), draw.choice([0, -1, None])][: 2 if name[0] == "r" else 1]
    result = getattr(thing, name)(*arguments, **options)
    if isinstance(result, ep.RouteArrays):
        sum(int(array.sum()) for array in result if array is not None)
    if isinstance(result, ep.Route):
        world.routes[draw.randrange(4)] = result  # the one before is dropped
    if isinstance(result, ep.Operation):
        world.ops = [*world.ops, result.number][-3:]
    elif name == "dispatch_send":
        world.ops = [*world.ops, result][-3:]
    if name == "register" and draw.random() < 0.9:
        result.close()
    if name == "watch":
        result.close()


def test_random_calls() -> None:
    draw = random.Random(SEED)
    done = failed = 0
    world = World(draw)
    for i in range(CALLS):
        if i % 2500 == 2499:
            world.close()
            world = World(draw)
        try:
            one_call(world)
            done += 1
        except ALLOWED:
            failed += 1
        except BaseException as error:
            pytest.fail(f"call {i} of WEFT_SEED={SEED}: {type(error).__name__}: {error}")
    world.close()
    assert done > CALLS / 50 and failed > CALLS / 50, f"WEFT_SEED={SEED}: {done} calls went well, {failed} did not"


X, IDX = np.zeros((4, 128), np.uint16), np.array([[0, 1]] * 4)
WRONG: dict[str, Callable[[World, Any], object]] = {
    "into": lambda world, wrong: world.rank.dispatch(X, IDX, into=wrong),
    "into: ": lambda world, wrong: world.rank.prepare().dispatch(X, IDX, wrong),
    "route": lambda world, wrong: world.rank.dispatch(X, IDX, into=world.receives[0], route=wrong or 5),
    "route: ": lambda world, wrong: world.rank.combine_route(wrong),
    "ranks": lambda world, wrong: world.rank.connect(wrong),
    "add": lambda world, wrong: world.rank.change(add=wrong),
    "founders": lambda world, wrong: ep.Rank(world.store, founders=wrong),
    "rows": lambda world, wrong: world.rank.receive(rows=wrong or "8"),
    "timeout": lambda world, wrong: world.rank.activate(wrong or "1"),
    "op": lambda world, wrong: world.rank.wait(wrong or "1"),
    "dtype": lambda world, wrong: world.rank.receive(dtype=wrong or 77),
    "lease": lambda world, wrong: world.store.lease_ttl(wrong),
    "lease: ": lambda world, wrong: world.store.put("/k", "v", lease=wrong),
    "compares": lambda world, wrong: world.store.txn(wrong),
    "compares: ": lambda world, wrong: world.store.txn([wrong]),
    "success": lambda world, wrong: world.store.txn([], wrong),
    "success ": lambda world, wrong: world.store.txn([], [wrong]),
    "regions": lambda world, wrong: world.agents[0].metadata(wrong or 5),
    "descriptors": lambda world, wrong: world.agents[0].write(wrong, world.lists[1], world.peer),
    "local_index": lambda world, wrong: world.agents[0].write(*world.lists, world.peer, local_index=wrong or 5,
                                                              remote_index=[0]),
    "kind": lambda world, wrong: world.agents[0].allocate(8, kind=wrong),
    "offset": lambda world, wrong: world.regions[0].descriptor(wrong),
    "transports": lambda world, wrong: weft.Agent("n", transports=wrong or 5),
    "token": lambda world, wrong: weft.Store("http://127.0.0.1:1", token=wrong or "\udcff"),
}


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    made = World(random.Random(1))
    yield made
    made.close()


@pytest.mark.parametrize("wrong", [None, object()], ids=["None", "object"])
@pytest.mark.parametrize("name", WRONG)
def test_the_wrong_argument_is_named(world: World, name: str, wrong: object) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"\b{name.strip(': ')}\b") as raised:
        WRONG[name](world, wrong)
    assert "incompatible" not in str(raised.value) and "has no attribute" not in str(raised.value)


NUMBERS: dict[str, Callable[[World, Any], object]] = {
    "peer": lambda world, wrong: world.agents[0].stats(wrong),
    "peer: ": lambda world, wrong: world.agents[0].descriptors(world.regions[0], wrong),
    "rank": lambda world, wrong: world.rank.mask(wrong),
    "mark": lambda world, wrong: world.rank.set_mark(wrong),
    "max_rows": lambda world, wrong: world.rank.route(max_rows=wrong),
    "alignment": lambda world, wrong: world.rank.receive(rows=8, alignment=wrong),
    "processors": lambda world, wrong: world.rank.dispatch(X, IDX, into=world.receives[0], processors=wrong),
    "processors: ": lambda world, wrong: world.rank.prepare(processors=wrong),
    "op": lambda world, wrong: world.rank.dispatch_recv(wrong, world.receives[0]),
    "op: ": lambda world, wrong: world.rank.combine(wrong, X, X),
    "op:  ": lambda world, wrong: world.rank.finish(wrong),
    "length": lambda world, wrong: world.agents[0].allocate(wrong),
    "device": lambda world, wrong: world.agents[0].register_address(4096, 64, device=wrong),
    "spin_us": lambda world, wrong: weft.Agent("n", transports="shm", spin_us=wrong),
    "tag": lambda world, wrong: world.transfers[0].post_with(tag=wrong),
    "limit": lambda world, wrong: world.store.range("/k", limit=wrong),
    "ttl": lambda world, wrong: world.store.lease_grant(wrong),
    "lease": lambda world, wrong: world.store.lease_ttl(wrong),
}


@pytest.mark.parametrize("wrong", ["1", 1.5, -(2**70), 2**64])
@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_that_is_none_or_out_of_range_is_named(world: World, name: str, wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"^{name.strip(': ')}: .*\b(whole number|id|out of range)\b"):
        NUMBERS[name](world, wrong)


@pytest.mark.parametrize("wrong", [5, "\udcff"])
def test_a_text_that_is_none_is_named(world: World, wrong: Any) -> None:
    for call in (world.agents[0].find, world.agents[0].fetch, weft.Agent):
        with pytest.raises((TypeError, ValueError), match=r"^name(:| has)"):
            call(wrong)


def test_a_sentence_with_bytes_that_are_no_text(world: World) -> None:
    """What the library says of a name is told as it is, though it cannot be printed."""
    with pytest.raises(weft.Error, match=r"\\xff"):
        world.agents[0].register_file("/\udcff/nowhere", read_only=True)
