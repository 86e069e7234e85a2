"""Agents in threads that come and go, use and close each other's, and drop what they made in any order: each call ends
in time, with a result or an exception of the interface."""

from __future__ import annotations

import faulthandler
import gc
import os
import random
import threading
import time
from typing import Any, Callable

import numpy as np
import pytest
import weft
from conftest import numbers

import nixl._bindings as bindings
from nixl._api import nixl_agent, nixl_agent_config
from nixl._impl import agent as low
from nixl._impl import exchange, inbox, peers

SEED = int(os.environ.get("WEFT_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
SECONDS = float(os.environ.get("WEFT_SECONDS", "2"))
ACTORS, SLOT, LONGEST_S = 3, 4096, 20.0
FAILURES = (*(getattr(bindings, name) for name in dir(bindings) if name.startswith("nixl") and name.endswith("Error")),
            KeyError)


class Stage:
    """What the threads share."""

    def __init__(self) -> None:
        self.until = time.monotonic() + SECONDS
        self.agents: list[nixl_agent | None] = [None] * ACTORS
        self.memory: list[np.ndarray | None] = [None] * ACTORS
        self.handles: list[Any] = [None] * ACTORS
        self.failures: list[BaseException] = []
        self.moved = 0
        self.arrays: list[np.ndarray] = []
        """all memory, which an agent may use as long as anybody has it"""

    def over(self) -> bool:
        """The time is up. A processor that others use may need more of it until the first transfer succeeds."""
        late = time.monotonic() - self.until
        return late > LONGEST_S or (late > 0 and self.moved > 0)


class Actor:
    """The thread of one agent at a time."""

    def __init__(self, stage: Stage, index: int) -> None:
        self.stage, self.index, self.draw = stage, index, random.Random(SEED + index)
        self.kept: list[Any] = []

    def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """The result of a call, or None if it failed in a way that the interface has."""
        begun = time.monotonic()
        try:
            return function(*arguments, **options)
        except FAILURES:
            return None
        finally:
            took = time.monotonic() - begun
            assert took < LONGEST_S, f"{function} took {took:.1f} s"

    def run(self) -> None:
        try:
            while not self.stage.over() and not self.stage.failures:
                self.life()
        except BaseException as failure:
            self.stage.failures.append(failure)

    def life(self) -> None:
        draw, stage = self.draw, self.stage
        agent = self.call(nixl_agent, f"actor{self.index}", nixl_agent_config(
            enable_listen_thread=draw.random() < 0.5, listen_port=0, capture_telemetry=draw.random() < 0.5))
        if agent is None:
            return
        self.agent = agent
        memory = numbers(SLOT * ACTORS)
        stage.arrays.append(memory)
        self.registered = self.call(agent.register_memory, memory)
        stage.agents[self.index], stage.memory[self.index] = agent, memory
        for _ in range(draw.randrange(300)):
            draw.choice(STEPS)(self)
        stage.agents[self.index] = stage.memory[self.index] = None
        if draw.random() < 0.5:
            stage.handles[self.index] = None
            self.kept.clear()
        if draw.random() < 0.5:
            agent.agent.close()
        del agent, self.agent  # else the collector closes it
        self.kept.clear()

    def another(self) -> int:
        return (self.index + self.draw.randrange(1, ACTORS)) % ACTORS

    def load(self, index: int = -1) -> None:
        other = self.stage.agents[self.another() if index < 0 else index]
        if other is not None:
            data = self.call(other.get_agent_metadata)
            if data is not None:
                self.call(self.agent.add_remote_agent, data)

    def forget(self) -> None:
        self.call(self.agent.remove_remote_agent, f"actor{self.another()}")

    def trip(self) -> None:
        """Writes into the own slot of another agent's memory, and reads it back."""
        other, draw = self.another(), self.draw
        memory = self.stage.memory[other]
        if memory is None:
            return
        if draw.random() < 0.5:
            self.load(other)
        slot, here = memory[SLOT * self.index :][: draw.choice([1, 64, SLOT])], numbers(SLOT)
        here = np.ascontiguousarray(here[: len(slot)]) + np.uint8(draw.randrange(256))
        back = np.zeros_like(here)
        self.stage.arrays += [here, back]
        names = [self.call(self.agent.register_memory, one) for one in (here, back)]
        ways = [self.call(self.agent.initialize_xfer, way, self.agent.get_xfer_descs(one),
                          self.agent.get_xfer_descs(slot), f"actor{other}", draw.choice([b"", b"done"]))
                for way, one in (("WRITE", here), ("READ", back))]
        if all(way is not None and self.went(way) for way in ways):
            assert np.array_equal(back, here), "other bytes were read than were written"
            self.stage.moved += len(here)
        for way in ways:
            if way is not None and draw.random() < 0.5:
                self.call(self.agent.release_xfer_handle, way)
        for name in names:
            if name is not None and draw.random() < 0.8:
                self.call(self.agent.deregister_memory, name)

    def went(self, handle: Any) -> bool:
        self.stage.handles[self.index] = handle
        state = self.call(self.agent.transfer, handle)
        polls = self.draw.choice([0, 10, 10**6])
        while state == "PROC" and polls > 0:
            state, polls = self.call(self.agent.check_xfer_state, handle), polls - 1
        if self.draw.random() < 0.2:
            self.kept.append(handle)
        return state == "DONE"

    def prepped(self) -> None:
        draw, agent = self.draw, self.agent
        memory = self.stage.memory[self.index]
        local = self.call(agent.prep_xfer_dlist, "NIXL_INIT_AGENT", memory)
        remote = self.call(agent.prep_xfer_dlist, f"actor{self.index}", memory)
        if local is None or remote is None:
            return
        made = self.call(agent.make_prepped_xfer, "WRITE", local, draw.choice([[0], [1], []]), remote, [0])
        if made is not None:
            self.went(made)
            self.call(agent.estimate_xfer_cost, made)
            self.call(agent.get_xfer_telemetry, made)
            self.call(agent.query_xfer_backend, made)
        self.kept.append(draw.choice([local, remote]))

    def talk(self) -> None:
        self.call(self.agent.send_notif, f"actor{self.another()}", b"x" * self.draw.choice([0, 1, 5000]))
        self.call(self.agent.get_new_notifs)
        self.call(self.agent.update_notifs)
        self.call(self.agent.check_remote_xfer_done, f"actor{self.another()}", b"done")

    def look(self) -> None:
        agent, name = self.agent, f"actor{self.another()}"
        self.call(agent.check_remote_metadata, name)
        self.call(agent.make_connection, name)
        self.call(agent.query_memory, self.stage.memory[self.index], "UCX")
        self.call(agent.get_partial_agent_metadata, self.registered, self.draw.random() < 0.5)

    def exchange(self) -> None:
        other = self.stage.agents[self.another()]
        if other is not None:
            try:
                port = other.agent._weft.port
            except weft.errors.ClosedError:
                return
            if port:
                self.call(self.draw.choice([self.agent.send_local_metadata, self.agent.invalidate_local_metadata]),
                          "127.0.0.1", port)

    def meddle(self) -> None:
        """A call with what belongs to another thread, or is closed."""
        draw, other = self.draw, self.another()
        agent, handle = self.stage.agents[other], self.stage.handles[other]
        if agent is None:
            return
        if handle is not None:
            self.call(draw.choice([agent.transfer, agent.check_xfer_state, agent.release_xfer_handle,
                                   agent.query_xfer_backend]), handle)
        self.call(draw.choice([agent.get_new_notifs, agent.update_notifs, agent.get_agent_metadata]))
        self.call(agent.send_notif, f"actor{self.index}", b"y")
        if draw.random() < 0.03:
            agent.agent.close()

    def drop(self) -> None:
        if self.kept:
            self.kept.pop(self.draw.randrange(len(self.kept)))
        gc.collect(self.draw.randrange(2))


STEPS = [Actor.trip] * 6 + [Actor.load, Actor.load, Actor.talk, Actor.meddle] * 3 + [
    Actor.prepped, Actor.prepped, Actor.forget, Actor.look, Actor.exchange, Actor.drop]


def test_impatient_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((low, "_SETTLE_S"), (inbox, "_PATIENCE_S"), (exchange, "_PATIENCE_S"), (exchange, "_EACH_S"),
                         (peers, "_MEET_S")):
        monkeypatch.setattr(module, name, 0.05)
    stage = Stage()
    threads = [threading.Thread(target=Actor(stage, i).run, daemon=True) for i in range(ACTORS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS + 3 * LONGEST_S)
    if any(thread.is_alive() for thread in threads):
        faulthandler.dump_traceback(all_threads=True)
        pytest.fail(f"WEFT_SEED={SEED}: a thread did not end")
    if stage.failures:
        raise AssertionError(f"WEFT_SEED={SEED}: {stage.failures[0]!r}") from stage.failures[0]
    assert stage.moved > 0, f"WEFT_SEED={SEED}: nothing was written and read back"
