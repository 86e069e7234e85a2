"""An actor: a thread that opens agents, makes random calls with deadlines that are too short, and drops everything."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import mmap
import select
import time
from typing import Any

import numpy as np
from patience import Caller, Wrong

import weft
from weft.errors import (
    BusyError,
    CanceledError,
    ClosedError,
    DeadlineError,
    ExistsError,
    InvalidError,
    LimitError,
    NotConnectedError,
    NotFoundError,
    PeerLostError,
    UnreachableError,
)

TOKEN = "a token of impatient agents"
SLOT = 24 << 10
"""bytes of each writer in the memory of an actor"""
ENDED = (ClosedError, BusyError)
"""another thread has closed the object, or a call of it is in one that only one thread may use"""
PEER = (PeerLostError, NotFoundError, *ENDED)
HOW_IT_ENDS = (DeadlineError, CanceledError, InvalidError, *PEER)
"""INVALID: the transfer was never posted"""


class OnlyDlpack:
    """An array that has no interface but DLPack."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)


class Stage:
    """What the actors of a test share: each sees the agents of all."""

    def __init__(self, count: int, store: weft.Store, seconds: float, transports: str = "shm") -> None:
        self.count = count
        self.store = store
        self.transports = transports
        self.until = time.monotonic() + seconds
        self.agents: list[weft.Agent | None] = [None] * count
        self.lent: list[tuple[weft.Region, Any] | None] = [None] * count
        self.transfers: list[weft.Transfer | None] = [None] * count


class Actor(Caller):
    """The thread of one agent at a time."""

    def __init__(self, stage: Stage, index: int, seed: int) -> None:
        super().__init__(f"actor {index}", seed)
        self.stage, self.index = stage, index
        self.bytes_checked = 0
        self.mine: list[Any] = []
        self.number = 0
        self.taken: dict[int, int] = {}
        self.loop = asyncio.new_event_loop()

    # --- one agent after the other ---

    def run(self) -> None:
        """Until the time is over."""
        try:
            while time.monotonic() < self.stage.until:
                self.life()
        finally:
            self.loop.close()

    def life(self) -> None:
        """An agent, from its opening to one of its ends."""
        draw = self.draw
        agent = self.call("open", weft.Agent, f"actor {self.index}", transports=self.stage.transports,
                          progress=draw.choice(["thread", "thread", "none"]), heartbeat=0.02, peer_timeout=20,
                          store=self.stage.store, prefix="impatient/", listen="127.0.0.1:0", token=TOKEN,
                          may=(ClosedError,))
        if agent is None:
            return
        self.agent, self.taken = agent, {}
        self.lend()
        self.stage.agents[self.index] = agent
        for _ in range(draw.randrange(300)):
            if time.monotonic() > self.stage.until:
                break
            self.step()
        self.end()

    def end(self) -> None:
        """One of the ways to lose an agent."""
        draw, stage = self.draw, self.stage
        stage.agents[self.index] = stage.lent[self.index] = None
        if draw.random() < 0.5:
            stage.transfers[self.index] = None
        if draw.random() < 0.5:
            self.mine.clear()
        way = draw.randrange(4)
        if way == 0:
            with contextlib.suppress(ZeroDivisionError), self.agent:
                raise ZeroDivisionError
        elif way == 1:
            self.call("close", self.agent.close, may=(BusyError,))
        del self.agent  # else the collector closes it
        self.mine.clear()
        if way == 2:
            gc.collect()

    def step(self) -> None:
        """One random call, or a few that belong together."""
        self.draw.choice(STEPS)(self)

    # --- memory ---

    def some_memory(self, size: int) -> Any:
        draw = self.draw
        kind = draw.randrange(6)
        if kind == 0:
            return bytearray(size)
        if kind == 1:
            return np.zeros(size // 8, np.int64)
        if kind == 2:
            return mmap.mmap(-1, size)
        if kind == 3:
            return (ctypes.c_uint8 * size)()
        if kind == 4:
            return OnlyDlpack(np.zeros(size, np.uint8))
        return weft.Buffer(memoryview(bytearray(size)))

    def lend(self) -> None:
        """Memory with a slot for each actor."""
        size = SLOT * self.stage.count
        if self.draw.random() < 0.3:
            region = self.call("allocate", self.agent.allocate, size, may=ENDED)
            view = None
        else:
            view = bytearray(size) if self.draw.random() < 0.5 else np.zeros(size, np.uint8)
            region = self.call("register", self.agent.register, view, may=ENDED)
        if region is not None:
            self.stage.lent[self.index] = (region, view)

    def lend_anew(self) -> None:
        former = self.stage.lent[self.index]
        if former is None:
            return
        if self.draw.random() < 0.5:
            self.call("region.close", former[0].close, may=ENDED)
        self.lend()

    def enrol(self) -> None:
        """A region that comes and goes."""
        region = self.call("register", self.agent.register, self.some_memory(64), private=self.draw.random() < 0.5,
                           may=ENDED)
        if region is None:
            return
        if self.draw.random() < 0.7:
            self.call("region.close", region.close, may=ENDED)
        else:
            self.mine.append(region)

    def view_of_memory(self) -> None:
        region = self.call("allocate", self.agent.allocate, 4096, may=ENDED)
        if region is None:
            return
        try:
            array = np.frombuffer(region.allocated, np.uint8)
        except BufferError:
            return
        assert not array.any()
        array[:] = 1
        self.call("region.close", region.close, may=ENDED)
        if not region.closed:
            assert array.all()
        del array
        self.call("region.close", region.close, may=ENDED)

    # --- peers ---

    def another(self) -> int:
        return (self.index + self.draw.randrange(1, self.stage.count)) % self.stage.count

    def some_peer(self) -> int:
        peers = self.call("peers", self.agent.peers, may=ENDED)
        return self.draw.choice(peers) if peers else weft.SELF

    def load(self) -> None:
        other = self.stage.agents[self.another()]
        if other is None:
            return
        blob = self.call("metadata", other.metadata, may=ENDED)
        if blob is not None:
            self.call("load", self.agent.load, blob, may=(ExistsError, UnreachableError, PeerLostError, *ENDED))

    def meet(self) -> None:
        other = self.stage.agents[self.another()]
        if other is None:
            return
        port = self.call("port", lambda: other.port, may=ENDED)
        if port is not None:
            self.call("meet", self.agent.meet, f"127.0.0.1:{port}", timeout=self.some_time() * 4,
                      may=(DeadlineError, UnreachableError, PeerLostError, ExistsError, LimitError, *ENDED))

    def publish(self) -> None:
        self.call("publish", self.agent.publish, timeout=self.some_time(), may=(DeadlineError, ExistsError, *ENDED))

    def unpublish(self) -> None:
        self.call("unpublish", self.agent.unpublish, timeout=self.some_time(),
                  may=(DeadlineError, NotFoundError, *ENDED))

    def fetch(self) -> None:
        self.call("fetch", self.agent.fetch, f"actor {self.another()}", timeout=self.some_time(),
                  may=(DeadlineError, ExistsError, UnreachableError, *ENDED))

    def look(self) -> None:
        peer = self.some_peer()
        self.call("peer", self.agent.peer, peer, may=(NotFoundError, *ENDED))
        self.call("stats", self.agent.stats, peer, may=PEER)
        self.call("check", self.agent.check, peer, may=PEER)
        self.call("regions", self.agent.regions, peer, may=PEER)
        self.call("metrics", self.agent.metrics, may=ENDED)
        repr(self.agent)

    def connect(self) -> None:
        self.call("connect", self.agent.connect, self.some_peer(), timeout=self.some_time(),
                  may=(DeadlineError, NotConnectedError, InvalidError, *PEER))

    def invalidate(self) -> None:
        self.call("invalidate", self.agent.invalidate, self.some_peer(), may=(InvalidError, *PEER))

    # --- messages ---

    def notify(self) -> None:
        self.number += 1
        self.call("notify", self.agent.notify, self.some_peer(), f"{self.index} {self.number}",
                  may=(NotConnectedError, *PEER))

    def take(self) -> None:
        """Notifications of a peer come in order, and once."""
        for peer, message in self.call("notifications", self.agent.notifications, may=ENDED) or []:
            if message.startswith(b"of a transfer"):
                continue
            number = int(message.split()[1])
            if self.taken.get(peer, 0) >= number:
                raise Wrong(f"{self.name}: notification {number} of {peer} after {self.taken[peer]}")
            self.taken[peer] = number
        self.call("next_event", self.agent.next_event, may=ENDED)
        self.call("completions", self.agent.completions, may=ENDED)

    def wait_news(self) -> None:
        timeout = self.some_time()
        self.call("wait_news", self.agent.wait_news, timeout, may=ENDED)

    def sleep_on_it(self) -> None:
        fd = self.call("fileno", self.agent.fileno, may=ENDED)
        if fd is not None:
            with contextlib.suppress(OSError, ValueError):  # another thread closes it
                select.select([fd], [], [], 0.001)

    def drive(self) -> None:
        self.call("progress", self.agent.progress, may=ENDED)

    # --- transfers ---

    def trip(self) -> None:
        """Writes into the own slot of another actor, and checks there, and by a read, what it has written."""
        draw, stage = self.draw, self.stage
        other = self.another()
        lent, target = stage.lent[other], stage.agents[other]
        peer = weft.SELF
        if lent is None or target is None:
            return
        peer = self.call("find", self.agent.find, f"actor {other}", may=(NotFoundError, *ENDED)) or 0
        size = draw.choice([1, 64, 4096, 4097, SLOT])
        content = draw.randbytes(size)
        source, back = bytearray(content), np.zeros(size, np.uint8)
        there = lent[0].descriptor(self.index * SLOT, size)
        regions = [self.call("register", self.agent.register, one, may=ENDED) for one in (source, back)]
        if peer == 0 or None in regions:
            return
        may = (InvalidError, UnreachableError, *PEER)
        wrote = self.call("write", self.agent.write, regions[0], there, peer, may=may,
                          notification=draw.choice([None, None, "of a transfer"]),
                          timeout=draw.choice([None, 0.001, 0.005]))
        read = self.call("read", self.agent.read, regions[1], there, peer, may=may)
        if wrote is None or read is None:
            return
        if self.went(wrote):
            if lent[1] is not None and bytes(lent[1][self.index * SLOT : self.index * SLOT + size]) != content:
                raise Wrong(f"{self.name}: other bytes are there")
            if self.went(read):
                if back.tobytes() != content:
                    raise Wrong(f"{self.name}: other bytes were read")
                self.bytes_checked += size
        self.leave(wrote)
        self.leave(read)
        for region in regions:
            if region is not None and draw.random() < 0.7:
                self.call("region.close", region.close, may=ENDED)

    def went(self, transfer: weft.Transfer) -> bool:
        """Posts, and waits in one of the ways; whether the post has succeeded."""
        draw = self.draw
        self.stage.transfers[self.index] = transfer
        if draw.random() < 0.2:
            self.call("post_with", transfer.post_with, tag=draw.choice([None, 7]), timeout=0.001 * draw.randrange(5),
                      may=PEER)
        elif draw.random() < 0.1:
            self.call("run", transfer.run, may=HOW_IT_ENDS)
        else:
            self.call("post", transfer.post, may=PEER)
        if draw.random() < 0.2:
            self.call("cancel", transfer.cancel, self.some_time(), may=(DeadlineError, *ENDED))
        if draw.random() < 0.1:
            self.await_it(transfer)
        for _ in range(draw.randrange(6)):
            if self.call("wait", transfer.wait, self.some_time(), may=HOW_IT_ENDS) is not False:
                break
        return self.call("poll", transfer.poll, may=HOW_IT_ENDS) is True

    def await_it(self, transfer: weft.Transfer) -> None:
        async def wait() -> None:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(transfer._ended(), self.some_time())

        self.call("await", lambda: self.loop.run_until_complete(wait()), may=HOW_IT_ENDS)

    def leave(self, transfer: weft.Transfer) -> None:
        """Closes it, keeps it, or leaves it to the collector, perhaps in flight."""
        draw = self.draw
        way = draw.randrange(5)
        if way < 2:
            self.call("transfer.close", transfer.close, self.some_time(), may=(DeadlineError, *ENDED))
        elif way == 2:
            self.mine.append(transfer)
        elif way == 3:
            self.ask(transfer)

    def ask(self, transfer: weft.Transfer) -> None:
        self.call("status", transfer.status, may=(InvalidError, *ENDED))
        self.call("info", lambda: transfer.info, may=ENDED)
        self.call("explain", transfer.explain, may=ENDED)
        self.call("error", lambda: transfer.error, may=ENDED)
        self.call("transfer.fileno", transfer.fileno, may=ENDED)
        self.call("repr", repr, transfer, may=ENDED)

    def forget(self) -> None:
        if self.mine:
            self.mine.pop(self.draw.randrange(len(self.mine)))

    # --- what belongs to others ---

    def meddle(self) -> None:
        """A call with an object that another thread uses, or has closed."""
        draw, other = self.draw, self.another()
        transfer, agent = self.stage.transfers[other], self.stage.agents[other]
        if transfer is not None:
            draw.choice([
                lambda: self.call("poll", transfer.poll, may=HOW_IT_ENDS),
                lambda: self.call("wait", transfer.wait, 0.001, may=HOW_IT_ENDS),
                lambda: self.call("post", transfer.post, may=PEER),
                lambda: self.call("cancel", transfer.cancel, self.some_time(), may=(DeadlineError, *ENDED)),
                lambda: self.call("transfer.close", transfer.close, self.some_time(), may=(DeadlineError, *ENDED)),
                lambda: self.ask(transfer),
                lambda: self.call("await", self.await_it, transfer)])()
        if agent is not None and draw.random() < 0.3:
            draw.choice([
                lambda: self.call("regions", agent.regions, may=ENDED),
                lambda: self.call("wait_news", agent.wait_news, 0.001, may=ENDED),
                lambda: self.call("next_event", agent.next_event, may=ENDED),
                lambda: self.call("progress", agent.progress, may=ENDED),
                lambda: self.call("stats", agent.stats, may=ENDED),
                lambda: self.call("close", agent.close, may=ENDED)])()

    def collect(self) -> None:
        gc.collect(self.draw.randrange(3))


STEPS = [Actor.trip] * 8 + [Actor.load, Actor.meet, Actor.notify, Actor.take, Actor.meddle] * 3 + [
    Actor.lend_anew, Actor.enrol, Actor.view_of_memory, Actor.publish, Actor.unpublish, Actor.fetch, Actor.look,
    Actor.connect, Actor.invalidate, Actor.wait_news, Actor.sleep_on_it, Actor.drive, Actor.forget, Actor.forget,
    Actor.collect]
