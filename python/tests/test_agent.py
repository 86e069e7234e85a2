"""Agents: memory, metadata, transfers, notifications, events, asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import pathlib
import sys
import threading
import time
from collections.abc import AsyncIterator
from typing import Any, TypeVar

import numpy as np
import pytest
from conftest import SIZES, end, in_threads, offered, start

import weft
from weft import SELF
from weft.agent import Completion, EventKind, Notification


def heard(agent: weft.Agent, count: int = 1) -> list[bytes]:
    """The next messages of an agent, waited for."""
    came: list[Notification] = []
    while len(came) < count:
        assert agent.wait_news(20)
        came += agent.notifications()
    return [one.message for one in came]


T = TypeVar("T")
Pair = "tuple[weft.Agent, weft.Agent, int]"


def test_write_and_read(pair: Pair) -> None:
    a, b, peer = pair
    source, target, back = np.arange(1000), np.zeros(1000, np.int64), bytearray(8000)
    here, there, home = a.register(source), offered(pair, target), a.register(back)
    with a.write(here, there.descriptor(), peer, notification=b"done") as transfer:
        for look in (transfer.poll, lambda: transfer.wait(0)):
            with pytest.raises(weft.errors.InvalidError, match="has not been posted"):
                look()
        transfer.run()
        assert transfer.info.bytes == 8000 and transfer.info.transport == "shm" and transfer.status() == [0]
        assert "shm" in transfer.explain() and transfer.error == ""
    assert (source == target).all()
    with a.read(home, there.descriptor(), peer) as transfer:
        transfer.run(timeout=20)
    assert bytes(back) == source.tobytes()
    assert heard(b) == [b"done"]
    assert a.stats(peer).writes == 1 and a.stats().read_bytes == 8000
    assert "weft" in a.metrics()


def test_descriptors(pair: Pair) -> None:
    a, _b, peer = pair
    source, target = np.arange(64, dtype=np.uint8), np.zeros(64, np.uint8)
    here, there = a.register(source), offered(pair, target)
    rows = np.array([[here.address + 8 * i, 8, here.id] for i in range(8)], np.uint64)
    theirs = [there.descriptor(8 * i, 8) for i in range(8)]
    ours, other = a.descriptors(rows), a.descriptors(theirs, peer)
    assert len(ours) == len(other) == 8 and len(a.descriptors((rows[0, 0], rows[0, 1]))) == 1
    assert a.metadata([rows[0, 2]]) == a.metadata([here])
    with pytest.raises(TypeError):
        a.metadata(["x"])  # type: ignore[list-item]
    with a.write(ours, other, peer, local_index=[0, 1], remote_index=[7, 6]) as transfer:
        transfer.run()
    assert target[56:].tolist() == list(range(8)) and target[48:56].tolist() == list(range(8, 16))
    with a.write(ours, other, peer, runs=[(0, 1, 0, 1, 4)]) as transfer:
        transfer.run()
    assert (target[:32] == source[:32]).all()
    with pytest.raises(weft.errors.InvalidError, match="runs: there is no run"):
        a.write(ours, other, peer, runs=[])
    for wrong in ([(1, 2, 3, 4)], [("x", 8)], [(-1, 8)], np.zeros((2, 3), np.float64), np.zeros(3, np.int64), 7):
        with pytest.raises(TypeError):
            a.descriptors(wrong)
    with pytest.raises(weft.errors.InvalidError):
        a.descriptors([(here.address, 0)])
    for empty in ([], np.zeros((0, 3), np.int64)):
        with pytest.raises(weft.errors.InvalidError, match="there is none"):
            a.descriptors(empty)


def test_posts_of_their_own(pair: Pair) -> None:
    a, b, peer = pair
    source, target = np.ones(8, np.uint8), np.zeros(8, np.uint8)
    here, there = a.register(source), offered(pair, target)
    with a.write(here, there.descriptor(), peer, max_notification=16) as transfer:
        transfer.post_with(notification="one", tag=41)
        assert transfer.wait(20)
        with pytest.raises(weft.errors.BusyError, match="41"):
            transfer.post_with(tag=43)  # the completion before it has not been taken
        assert a.wait_news(20) and a.completions() == [Completion(41, 0)]
        transfer.post_with(notification=b"two", tag=42, timeout=20)
        assert transfer.wait(20)
        assert a.wait_news(20) and a.completions() == [Completion(42, 0)]
    assert heard(b, 2) == [b"one", b"two"]


def test_memory_of_the_agent(pair: Pair) -> None:
    a, b, peer = pair
    with b.allocate(4096) as there:
        view = np.frombuffer(there.allocated, np.uint8)  # type: ignore[arg-type]
        here = a.register(np.full(4096, 9, np.uint8))
        a.load(b.metadata())
        with a.write(here, there.descriptor(), peer) as transfer:
            transfer.run()
        assert view.sum() == 9 * 4096
        with pytest.raises(weft.errors.BusyError, match="views"):
            there.close()
        with pytest.raises(weft.errors.BusyError, match="views"):
            b.close()
        del view
    with pytest.raises(BufferError):
        there.view()


def test_regions_keep_their_memory(pair: Pair) -> None:
    a, _b, peer = pair
    there = offered(pair, np.zeros(1 << 20, np.uint8))  # the array has no other owner
    here = a.register(bytearray(1 << 20))
    gc.collect()
    for _ in range(3):
        with a.write(here, there.descriptor(), peer) as transfer:
            transfer.run()
    array = bytearray(8)
    region = a.register(array)
    with pytest.raises(BufferError):
        array.extend(b"more")
    region.close()
    array.extend(b"more")
    frozen = a.register(b"read only")
    assert a.regions()[-1].flags & 1 and frozen.length == 9
    with pytest.raises(weft.errors.InvalidError):
        a.read(frozen, there.descriptor(0, 9), peer)


def test_a_descriptor_keeps_to_its_region(pair: Pair, tmp_path: pathlib.Path) -> None:
    a, _b, peer = pair
    there = offered(pair, bytearray(9))
    assert there.descriptor(8)[1] == 1 and there.descriptor(2, 3)[1] == 3
    for region in (there, a.regions(peer)[0]):
        for offset in (9, 10):
            with pytest.raises(ValueError, match=f"offset: {offset} is beyond the region, which has 9 bytes"):
                region.descriptor(offset)
    with weft.Agent("files", transports="file") as files:
        file = files.register_file(tmp_path / "grows")
        assert file.descriptor(4096, 8)[:2] == (4096, 8)
        with pytest.raises(ValueError, match="length: this region has no limit"):
            file.descriptor()


def test_dropped_transfers_in_flight(pair: Pair) -> None:
    a, _b, peer = pair
    here, there = a.register(bytearray(1 << 24)), offered(pair, bytearray(1 << 24))
    for _ in range(4):
        a.write(here, there.descriptor(), peer).post()
        gc.collect()


@pytest.mark.parametrize("threshold", [20, 40])
def test_notifications_taken_within_a_collection(threshold: int) -> None:
    """Of garbage, which begins while notifications become objects of Python (before CPython 3.12): they stay as they
    came, although others are taken, and others come, meanwhile."""
    with weft.Agent("a", transports="shm") as a, weft.Agent("b", transports="shm", progress="none") as b:
        b.load(a.metadata())
        peer = a.load(b.metadata())
        take, within = b._handle.notifications, []

        def send(messages: list[bytes]) -> None:
            for message in messages:
                a.notify(peer, message)
            moved = 0
            while moved < len(messages):
                moved += b.progress()

        class Cycle:
            def __init__(self) -> None:
                self.me = self

            def __del__(self) -> None:
                within.extend(take(64))
                send([b"!" * 1000] * 64)

        sent, usual = [b"%02d" % number * 500 for number in range(64)], gc.get_threshold()
        send(sent)
        gc.collect()
        gc.disable()
        try:
            Cycle()
            gc.set_threshold(threshold)
            gc.enable()
            came = take(64)
        finally:
            gc.set_threshold(*usual)
            gc.enable()
        gc.collect()
        came += within + take(64)
        assert sorted(message for _, message in came) == sorted([*sent, *[b"!" * 1000] * 64])


def test_files(pair: Pair, tmp_path: pathlib.Path) -> None:
    with weft.Agent("files") as agent:
        data = np.arange(100, dtype=np.uint8)
        memory, file = agent.register(data), agent.register_file(tmp_path / "f")
        with agent.write(memory, [(0, 100, file.id)], SELF) as transfer:
            transfer.run()
        assert (tmp_path / "f").read_bytes() == data.tobytes()
        assert agent.query(kind=weft.Kind.FILE, path=str(tmp_path / "f")).length == 100
        assert not agent.query(kind=weft.Kind.FILE, path=str(tmp_path / "none")).there
        with agent.register_file(os.fsdecode(os.fsencode(tmp_path) + b"/no UTF-8: \xff")):  # as os.listdir() names it
            assert b"no UTF-8: \xff" in os.listdir(os.fsencode(tmp_path))
        part = agent.register_address(data.ctypes.data, 10, read_only=True)
        cloud = agent.register_object("bucket/key", 7, private=True)
        assert agent.regions() == [memory.info, file.info, part.info, cloud.info]


def test_store_and_labels(store: weft.Store) -> None:
    with weft.Agent("a", store=store) as a, weft.Agent("b", store=store) as b:
        region = b.register(bytearray(64))
        with pytest.raises(TimeoutError):
            a.fetch("b", timeout=0.05)
        b.publish()
        b.publish("some", [region])
        peer = a.fetch("b")
        assert a.fetch("b", "some") == peer == a.find("b") and a.peers() == [peer]
        assert a.regions(peer)[0].length == 64
        known = a.peer(peer)
        assert all(one.partition(" ")[0] in known.transports.split(",") for one in known.uses.split("; ") if one)
        b.unpublish()
        while a.peers():
            a.wait_news(1)
        assert a.peer(peer).state == weft.PeerState.LEFT
        with pytest.raises(weft.errors.PeerLostError):
            a.check(peer)


def test_meet() -> None:
    with weft.Agent("a", token="secret", listen="127.0.0.1:0") as a, weft.Agent("b", token="secret") as b, \
            weft.Agent("c", token="other") as c:
        peer = b.meet(f"127.0.0.1:{a.port}")
        b.notify(peer, "hello")
        assert heard(a) == [b"hello"]
        with pytest.raises(weft.errors.AuthError):
            c.meet(f"127.0.0.1:{a.port}")
        with pytest.raises(weft.errors.UnreachableError):
            b.meet("127.0.0.1:1")


def test_events(pair: Pair) -> None:
    a, b, _peer = pair
    b.close()
    kinds = []
    while EventKind.PEER_LEFT not in kinds:
        event = a.next_event()
        if event:
            kinds.append(event.kind)
        else:
            assert a.wait_news(20)
    assert kinds[0] == EventKind.PEER_LOADED


def test_driven_by_its_caller() -> None:
    with weft.Agent("a", progress="none", transports="shm") as a, weft.Agent("b", transports="shm") as b:
        source, target = np.ones(1 << 20, np.uint8), np.zeros(1 << 20, np.uint8)
        here, there = a.register(source), b.register(target)
        peer = a.load(b.metadata())
        b.notify(b.load(a.metadata()), "hello")
        while not (came := a.notifications()):
            assert a.wait_news(20)
        assert came[0].message == b"hello"
        with a.write(here, there.descriptor(), peer) as transfer:
            transfer.run()
        assert target.all()


def test_threads(pair: Pair) -> None:
    a, _b, peer = pair

    def run(i: int) -> None:
        source, target = np.full(50000, i + 1, np.uint8), np.zeros(50000, np.uint8)
        with a.register(source) as here, offered(pair, target) as there:
            with a.write(here, there.descriptor(), peer) as transfer:
                for _ in range(20):
                    transfer.run()
            assert (target == i + 1).all()
            del transfer

    in_threads(4, run)


def test_one_thread_at_a_time(pair: Pair) -> None:
    a, _b, peer = pair
    here, there = a.register(bytearray(8)), offered(pair, bytearray(8))
    transfer = a.write(here, there.descriptor(), peer)
    with pytest.raises(weft.errors.InvalidError):
        transfer.poll()  # it was never posted
    transfer.run()
    transfer.close()
    transfer.close()
    with pytest.raises(weft.errors.ClosedError):
        transfer.post()


PROGRAM_CANCEL = """
import sys, threading, time, weft
sys.setswitchinterval(1e-6)
with weft.Agent("a", transports="shm") as a, weft.Agent("b", transports="shm") as b:
    local, far = a.descriptors(a.register(bytearray(1 << 26))), b.register(bytearray(1 << 26)).descriptor()
    peer = a.load(b.metadata())
    there, shown, ended = a.descriptors(far, peer), [None], []
    def cancel():
        while not ended:
            if shown[0] is not None:
                try:
                    shown[0].cancel()
                except (weft.errors.ClosedError, weft.errors.DeadlineError):
                    pass
            time.sleep(0.0002)
    threads = [threading.Thread(target=cancel) for _ in range(3)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < until:
        transfer = a.write(local, there, peer)
        transfer.post()
        shown[0] = transfer
        while not transfer.closed:
            try:
                transfer.close()
            except (weft.errors.BusyError, weft.errors.DeadlineError):
                pass
        shown[0] = None
    ended.append(True)
    for thread in threads:
        thread.join()
"""


def test_close_while_other_threads_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_PERTURB_", "165")  # what is used after it was freed is found out
    end(start(PROGRAM_CANCEL, "3"))


def test_close_ends_waits_of_other_threads(store: weft.Store) -> None:
    agent = weft.Agent("a", store=store)
    outcome: list[BaseException] = []

    def wait() -> None:
        try:
            agent.fetch("nobody", timeout=None)
        except BaseException as failure:
            outcome.append(failure)

    thread = threading.Thread(target=wait)
    thread.start()
    while not store.range("/", prefix=True).total and not agent._handle.closed and thread.is_alive():
        break
    agent.close()
    thread.join(30)
    assert isinstance(outcome[0], weft.errors.ClosedError)


def test_asyncio(pair: Pair) -> None:
    a, b, peer = pair
    here, there = a.register(np.ones(1 << 22, np.uint8)), offered(pair, np.zeros(1 << 22, np.uint8))

    async def talk() -> None:
        async def hear() -> Notification:
            async for message in b.messages():
                return message
            raise AssertionError

        async def see_leave() -> None:
            async for event in a.events():
                if event.kind == EventKind.PEER_LEFT:
                    return

        hearing, seeing = asyncio.create_task(hear()), asyncio.create_task(see_leave())
        with a.write(here, there.descriptor(), peer, notification="now") as transfer:
            for _ in range(5):
                transfer.post()
                await transfer
        assert (await hearing).message == b"now"
        b.notify(b.find("a"), "nobody takes this one")  # does not keep the events from coming
        b.close()
        await seeing

    asyncio.run(asyncio.wait_for(talk(), 30))


def test_several_coroutines_wait_for_one_agent(pair: Pair) -> None:
    """Of a loop, which has one reader for each descriptor. What one of them takes from the agent wakes the others."""
    a, b, peer = pair

    async def first(items: AsyncIterator[T]) -> T:
        async for item in items:
            return item
        raise AssertionError

    async def talk() -> None:
        hearing = [asyncio.create_task(first(b.messages())) for _ in range(2)]
        ending, seeing = asyncio.create_task(first(b.ends())), asyncio.create_task(first(b.events()))
        assert (await seeing).kind == EventKind.PEER_LOADED
        with b.write(b.register(bytearray(8)), b.register(bytearray(8))) as transfer:
            transfer.post_with(tag=7)
            assert (await ending).tag == 7
        for message in (b"one", b"two"):
            a.notify(peer, message)
        assert {one.message for one in await asyncio.gather(*hearing)} == {b"one", b"two"}

    asyncio.run(asyncio.wait_for(talk(), 30))


@pytest.mark.parametrize("asked", [False, True])
def test_what_nobody_takes_is_bounded(pair: Pair, asked: bool) -> None:
    """Where a program follows messages alone: as in the library, also once it has asked for events."""
    a, b, peer = pair
    before = [b.next_event()] if asked else []

    async def talk() -> None:
        messages = b.messages()
        for number in range(130):
            for _ in range(10):
                region = a.register(bytearray(8))
                b.load(a.metadata())
                region.close()
            a.notify(peer, f"{number}")
            assert (await messages.__anext__()).message == b"%d" % number

    asyncio.run(asyncio.wait_for(talk(), 60))
    a.close()
    while (event := b.next_event()) is None or event.kind != EventKind.PEER_LEFT:
        if event is not None:
            before.append(event)
    passing = [one for one in before if one is not None]  # and those that came after the last message
    assert 1024 <= len(passing) - asked < 1124 and sum(one.dropped for one in passing) > 150


def test_completions_that_nobody_takes_are_bounded(pair: Pair) -> None:
    b, limit = pair[1], 8
    b._inbox.LIMIT = limit
    local = b.register(bytearray(8))
    transfers = [b.write(local, local) for _ in range(80)]

    async def talk() -> None:
        messages = b.messages()
        for number in range(2):
            for transfer in transfers:
                with contextlib.suppress(weft.errors.BusyError):  # its completion waits
                    transfer.post_with(tag=number)
                    await transfer
            b.notify(SELF, "next")
            await messages.__anext__()

    asyncio.run(asyncio.wait_for(talk(), 60))
    assert len(b._inbox.completions) < limit + 64
    tags = [one.tag for one in b.completions()]
    assert tags.count(0) == 80 and len(tags) < 160


def test_several_coroutines_wait_for_one_transfer(pair: Pair) -> None:
    a, _, peer = pair
    here, there = a.register(np.ones(1 << 26, np.uint8)), offered(pair, np.zeros(1 << 26, np.uint8))

    async def post() -> None:
        async def end(transfer: weft.Transfer) -> None:
            await transfer

        with a.write(here, there.descriptor(), peer) as transfer:
            for _ in range(3):
                transfer.post()
                await asyncio.gather(*(end(transfer) for _ in range(3)))

    asyncio.run(asyncio.wait_for(post(), 30))


def test_an_end_that_another_coroutine_takes(pair: Pair) -> None:
    """Of a post that began when the other one had not gone on yet, which waited for the post before."""

    async def post() -> None:
        with weft.Agent("driven", transports="shm", progress="none") as agent:  # a post ends when it is driven
            there = offered(pair, bytearray(1 << 26)).descriptor()
            transfer = agent.write(agent.register(bytearray(1 << 26)), there, agent.load(pair[1].metadata()))
            transfer.post()
            late = transfer.__await__()
            ready = next(late)
            transfer.wait()
            while not ready.done():
                await asyncio.sleep(0)
            transfer.post()
            waiting = asyncio.ensure_future(transfer)
            await asyncio.sleep(0)
            assert not waiting.done()
            transfer.wait()
            with pytest.raises(StopIteration):
                next(late)
            await asyncio.wait_for(waiting, 20)
            transfer.close()

    asyncio.run(post())


@pytest.mark.parametrize("elsewhere", [False, True])
def test_close_ends_waits_of_coroutines(pair: Pair, store: weft.Store, elsewhere: bool) -> None:
    a, watch = pair[0], store.watch("/")
    rank = weft.ep.Rank(store, rank=0, founders=[0], **SIZES)

    async def follow(items: AsyncIterator[Any]) -> None:
        async for _ in items:
            pass

    async def talk() -> None:
        for closing, items in ((watch, watch), (rank, rank.events()), (a, a.messages())):
            following = asyncio.create_task(follow(items))
            await asyncio.sleep(0.05)
            if elsewhere:
                await asyncio.to_thread(closing.close)
            else:
                closing.close()
            with pytest.raises(weft.errors.ClosedError):
                await following

    asyncio.run(asyncio.wait_for(talk(), 30))


@pytest.mark.parametrize("closed", ["the transfer", "its agent", "its agent, by another thread"])
def test_close_ends_waits_for_a_transfer(closed: str) -> None:
    """The number of its descriptor may be another file's when the wait goes on: nothing is read of that."""

    async def post() -> None:
        with weft.Agent("b", transports="shm") as other:
            there = other.allocate(1 << 26).descriptor()
            agent = weft.Agent("a", transports="shm", progress="none")  # nobody drives it: the transfer is in flight
            transfer = agent.write(agent.register(bytearray(1 << 26)), there, agent.load(other.metadata()))
            fd = transfer.fileno()
            transfer.post()
            waiting = asyncio.ensure_future(transfer)
            await asyncio.sleep(0)
            assert not waiting.done()
            if "thread" in closed:
                await asyncio.to_thread(agent.close)
            else:
                (agent if "agent" in closed else transfer).close()
            ends: list[int] = []
            while fd not in ends and len(ends) < 1000:
                ends += os.pipe()
            try:
                for end in ends[1::2]:
                    os.write(end, b"somebody's")
                with pytest.raises(weft.errors.ClosedError):
                    await waiting
                assert all(len(os.read(end, 16)) == 10 for end in ends[::2])
            finally:
                for end in ends:
                    os.close(end)
            agent.close()

    asyncio.run(asyncio.wait_for(post(), 30))


def test_close_while_loops_of_other_threads_come_and_go() -> None:
    interval, until = sys.getswitchinterval(), time.monotonic() + 3
    store = weft.Store.local()

    def follow() -> None:
        async def first(watch: weft.Watch) -> None:
            with pytest.raises(weft.errors.ClosedError):
                async for _ in watch:
                    pass

        async def talk() -> None:
            watch = store.watch("/")
            following = asyncio.create_task(first(watch))
            await asyncio.sleep(0)
            watch.close()
            await following

        while time.monotonic() < until:
            asyncio.run(talk())

    def close() -> None:
        while time.monotonic() < until:
            store.watch("/").close()

    sys.setswitchinterval(1e-6)
    try:
        in_threads(4, lambda i: follow() if i % 2 else close())
    finally:
        sys.setswitchinterval(interval)
        store.close()


def test_await_raises(pair: Pair) -> None:
    a, b, peer = pair
    here, there = a.register(bytearray(8)), offered(pair, bytearray(8))

    async def post() -> None:
        with a.write(here, there.descriptor(), peer) as transfer:
            transfer.post()
            await transfer
            b.close()
            while True:
                try:
                    transfer.post()
                except weft.errors.PeerLostError:
                    raise
                await transfer

    with pytest.raises((weft.errors.PeerLostError, weft.errors.NotFoundError)):
        asyncio.run(asyncio.wait_for(post(), 30))


def test_close_ends_a_wait_for_news() -> None:
    for turn in range(10):
        agent = weft.Agent("a", transports="shm")
        outcome: list[object] = []

        def wait(agent: weft.Agent = agent, outcome: list[object] = outcome) -> None:
            try:
                outcome.append(agent.wait_news(30))
            except weft.errors.ClosedError as failure:
                outcome.append(failure)

        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.01 * turn)
        agent.close()
        thread.join(30)
        assert isinstance(outcome[0], weft.errors.ClosedError)


def test_an_agent_that_nobody_has_closes_with_its_last_view(pair: Pair) -> None:
    def threads() -> set[str]:
        return set(os.listdir("/proc/self/task"))

    before = threads()  # of which some may be ending
    agent = weft.Agent("dropped", transports="shm")
    view = np.frombuffer(agent.allocate(4096).allocated, np.uint8)
    del agent
    gc.collect()
    its = threads() - before
    assert its and not view.any()
    del view
    deadline = time.monotonic() + 10
    while its & threads():
        assert time.monotonic() < deadline, "the agent is open still"
        time.sleep(0.01)


def test_a_transfer_that_nobody_has_keeps_no_memory(pair: Pair) -> None:
    a, _, peer = pair
    size = 1 << 27
    there = offered(pair, np.zeros(size, np.uint8))
    for here in (a.register(np.ones(size, np.uint8)), a.allocate(size)):
        transfer = a.write(here, there.descriptor(), peer)
        transfer.post()
        del transfer
        gc.collect()
        deadline = time.monotonic() + 20
        while not here.closed:
            assert time.monotonic() < deadline
            try:
                here.close()
            except weft.errors.BusyError:
                time.sleep(0.01)  # it is being cancelled


def test_views_hide_no_exception() -> None:
    held: list[memoryview] = []
    with pytest.raises(KeyError, match="mine"), weft.Agent("a", transports="shm") as agent:
        with agent.allocate(4096) as region:
            held.append(region.view())
            raise KeyError("mine")
    assert not agent.closed and not held[0][0]
    held.pop().release()
    assert agent.closed
    with pytest.raises(weft.errors.BusyError), weft.Agent("a", transports="shm") as other:
        view = other.allocate(4096).view()
    view.release()
    other.close()


def test_transports() -> None:
    known = {one.name: one for one in weft.transports()}
    assert known["shm"].works and known["file"].works
    with pytest.raises(weft.errors.NotFoundError):
        weft.Agent("a", transports="carrier pigeon")


def test_tool() -> None:
    import subprocess
    import sys

    said = subprocess.run([sys.executable, "-m", "weft", "info", "--help"], stdout=subprocess.PIPE, text=True)
    assert said.returncode == 0 and "weft info" in said.stdout
    said = subprocess.run([sys.executable, "-c", "import weft.__main__; print('goes on')"], stdout=subprocess.PIPE,
                          text=True)
    assert said.stdout == "goes on\n"
    assert os.access(pathlib.Path(weft.__file__).with_name("weft-tool"), os.X_OK)
