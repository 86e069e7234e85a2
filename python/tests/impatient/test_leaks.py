"""What is done again and again leaves no object, no descriptor and no memory behind."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from typing import Any, Callable

import numpy as np
import pytest

import weft
from weft import ep

TURNS = int(os.environ.get("WEFT_TURNS", "100"))
SIZES: dict[str, Any] = {"hidden": 128, "topk": 2, "experts_per_rank": 2, "max_tokens": 4, "capacity": 2}
X, IDX = np.zeros((4, 128), np.uint16), np.array([[0, 1]] * 4)
WEIGHTS = np.full((4, 2), 0.5, np.float32)


class World:
    """What a turn may use without making it."""

    def __init__(self) -> None:
        self.store = weft.Store.local()
        self.a, self.b = (weft.Agent(name, store=self.store, transports="shm,file") for name in "ab")
        self.here, self.there = self.a.register(bytearray(4096)), self.b.register(np.zeros(4096, np.uint8))
        self.b.load(self.a.metadata())
        self.peer = self.a.load(self.b.metadata())
        self.rank = ep.Rank(self.store, rank=0, founders=[0], mode="throughput", **SIZES)
        self.rank.activate()
        self.into = self.rank.receive(rows=8, status=np.zeros(6, np.uint64))
        self.out = np.zeros((4, 128), np.uint16)

    def close(self) -> None:
        for thing in (self.rank, self.a, self.b, self.store):
            thing.close()


def agent(world: World) -> None:
    with weft.Agent("c", store=world.store, transports="shm") as one:
        one.register(bytearray(64))
        one.allocate(4096)
        peer = world.a.load(one.metadata())
        one.publish()
        world.a.invalidate(peer)
        list(one.regions())


def agent_left_to_the_collector(world: World) -> None:
    one = weft.Agent("d", transports="shm")
    transfer = one.write(one.register(bytearray(64)), one.register(bytearray(64)))
    transfer.post()
    del transfer, one
    gc.collect()


def region(world: World) -> None:
    for memory in (bytearray(64), np.zeros(8), weft.Buffer(np.zeros(8)), memoryview(bytearray(8))):
        world.a.register(memory).close()
    made = world.a.allocate(4096)
    with memoryview(made.allocated), contextlib.suppress(weft.errors.BusyError):  # type: ignore[arg-type]
        made.close()
    made.close()


def transfer(world: World) -> None:
    with world.a.write(world.here, world.there.descriptor(), world.peer, notification="n") as one:
        one.run()
        one.post_with(tag=3)
        one.wait()
        one.status(), one.info, one.explain(), one.fileno(), repr(one)
    world.a.read(world.here, world.there.descriptor(), world.peer, local_index=[0], remote_index=[0]).post()
    world.a.completions()
    world.b.notifications()


def messages(world: World) -> None:
    world.a.notify(world.peer, "x")
    world.b.wait_news(0.001)
    world.b.notifications(), world.a.next_event(), world.a.peer(world.peer), world.a.stats(), world.a.metrics()


def store(world: World) -> None:
    world.store.put("/k", b"v")
    world.store.get("/k"), world.store.range("/", prefix=True)
    world.store.txn([weft.Compare("/k", "value", "==", b"v")], [weft.Op.put("/k", b"w"), weft.Op.range("/k")])
    with world.store.watch("/k") as watch:
        watch.next(0.001)
        world.store.put("/k", b"u")
        watch.next(0.1)
    world.store.lease_revoke(world.store.lease_grant(10))


WRONG: list[Callable[[World], object]] = [
    lambda world: world.a.register(object()), lambda world: world.here.descriptor(-1),
    lambda world: world.a.load(b"no metadata"), lambda world: world.a.load(5), lambda world: world.a.peer(77),
    lambda world: world.a.write([(1, 2)], [(1, 2)]), lambda world: world.a.find("nobody"),
    lambda world: world.a.fetch("nobody", timeout=0), lambda world: world.a.notify(77, "x"),
    lambda world: world.a.write(world.here, world.there.descriptor(), world.peer, local_index=[9], remote_index=[0]),
    lambda world: world.store.put("\0", 5), lambda world: world.store.txn([5]), lambda world: world.rank.combine(99),
    lambda world: world.rank.dispatch(X, [1], into=world.into), lambda world: world.rank.receive(nothing=X),
    lambda world: world.rank.dispatch(X[:1], IDX, WEIGHTS, into=world.into), lambda world: world.rank.connect([1], 0),
    lambda world: ep.Rank(world.store, rank=5, founders=[0], **SIZES), lambda world: weft.Agent("\0"),
    lambda world: world.rank.receive(rows=100, x=X), lambda world: weft.Buffer(np.array([None])),
    lambda world: world.rank.combine_route(None), lambda world: world.rank.wait(-1)]


def failures(world: World) -> None:
    for wrong in WRONG:
        try:
            wrong(world)
        except (weft.Error, TypeError, ValueError):
            continue
        raise AssertionError(WRONG.index(wrong))


def rank(world: World) -> None:
    with ep.Rank(world.store, rank=0, founders=[0], prefix="/other/", zero_copy_bytes=1 << 12, mode="throughput",
                 **SIZES) as one:
        one.activate()
        rows = np.frombuffer(one.zero_copy, np.uint16)
        into = one.receive(rows=8)
        one.dispatch(X, IDX, WEIGHTS, into=into).combine(into.x, world.out)
        del rows
        one.dispatch_send(X, IDX, WEIGHTS)


def operation(world: World) -> None:
    one, into, out = world.rank, world.into, world.out
    one.dispatch(X, IDX, WEIGHTS, into=into).combine(into.x, out, bias=[X])
    number = one.dispatch_send(X, IDX, WEIGHTS)
    one.dispatch_recv(number, into)
    one.combine_send(number, into.x, out)
    one.combine_recv(number, into.x, out)
    calls = one.prepare()
    number, _ = calls.dispatch(X, IDX, one.receive(rows=8, layout="packed"))
    one.finish(number)
    one.barrier()
    into.renew(), into.status, one.stats, one.view, one.states, one.masks(), one.metrics(), one.next_event()


def route(world: World) -> None:
    with world.rank.route() as one:
        one.plan(IDX)
        world.rank.dispatch(X, IDX, WEIGHTS, into=world.into, route=one).combine(world.into.x, world.out)
        one.wait(), one.arrays()
        world.rank.dispatch(X, into=world.into, route=one).finish()
        world.rank.combine_route(one, world.into.x, world.out)


def cost(world: World, turn: Callable[[World], None], turns: int) -> tuple[int, int, int]:
    """Blocks of Python's memory, descriptors, and bytes of memory that so many turns leave behind."""
    def now() -> tuple[int, int, int]:
        gc.collect()
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
        return sys.getallocatedblocks(), len(os.listdir("/proc/self/fd")), pages * 4096

    before = now()
    for _ in range(turns):
        turn(world)
    return tuple(b - a for a, b in zip(before, now()))  # type: ignore[return-value]


@pytest.mark.parametrize("turn", [agent, agent_left_to_the_collector, region, transfer, messages, store, failures, rank,
                                  operation, route], ids=lambda turn: turn.__name__)
def test_nothing_is_left(turn: Callable[[World], None]) -> None:
    world = World()
    try:
        cost(world, turn, 30)  # caches fill
        costs = [cost(world, turn, TURNS) for _ in range(4)]
        blocks, descriptors, memory = (min(each) for each in zip(*costs))  # a leak is in all of them, a cache is not
        print(turn.__name__, costs)
        assert descriptors <= 2  # threads of the library close theirs a moment later
        assert blocks < TURNS, f"{blocks} blocks of {TURNS} turns"
        assert memory < 4 << 20, f"{memory} bytes of {TURNS} turns"
    finally:
        world.close()
