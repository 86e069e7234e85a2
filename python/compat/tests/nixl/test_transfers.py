"""Transfers between two agents: by lists, by prepared lists, again and again, with notifications, within an agent."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
import weft
from conftest import PATIENCE_S, finish, numbers, pieces, until

import nixl._bindings as bindings
import nixl._impl.agent as nixl_impl_agent
import nixl._impl.inbox as nixl_impl_inbox
from nixl._api import nixl_agent, nixl_agent_config

Pair = tuple[nixl_agent, nixl_agent]


def known(pair: Pair, *arrays: np.ndarray) -> None:
    """Registers each array with both agents, and lets the first know the second."""
    for agent in pair:
        agent.register_memory(list(arrays))
    assert pair[0].add_remote_agent(pair[1].get_agent_metadata()) == b"target"


@pytest.mark.parametrize("operation", ["WRITE", "READ"])
def test_there_and_back(pair: Pair, operation: str) -> None:
    here, there = numbers(), np.zeros(4096, np.uint8)
    known(pair, here, there)
    sides = (here, there) if operation == "WRITE" else (there, here)
    local, remote = (pair[0].get_xfer_descs(side) for side in sides)
    handle = pair[0].initialize_xfer(operation, local, remote, "target", notif_msg=b"done")
    finish(pair[0], handle)
    assert (here == there).all()
    assert until(pair[1].get_new_notifs) == {"initiator": [b"done"]}
    assert pair[0].query_xfer_backend(handle) == "UCX"
    assert pair[0].estimate_xfer_cost(handle) == (pair[0].estimate_xfer_cost(handle)[0], 0, "ANALYTICAL_BACKEND")
    pair[0].release_xfer_handle(handle)
    handle.release()  # a second time is no error


def test_the_back_end_of_a_transfer_within_an_agent(pair: Pair) -> None:
    array = numbers()
    pair[0].register_memory(array)
    halves = [pair[0].get_xfer_descs(half) for half in (array[:2048], array[2048:])]
    handle = pair[0].initialize_xfer("WRITE", *halves, "initiator")
    finish(pair[0], handle)
    assert (array[:2048] == array[2048:]).all()
    assert pair[0].query_xfer_backend(handle) == "UCX"


def strided(array: np.ndarray, *rows: tuple[int, int, int, int]) -> np.ndarray:
    """Rows (offset, length, stride, count) of an array, as (address, length, device, stride, count)."""
    return np.array([(array.ctypes.data + at, length, 0, stride, count) for at, length, stride, count in rows],
                    np.uint64)


@pytest.mark.parametrize("most", [1 << 20, 3])
def test_strided_lists(pair: Pair, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """N x 5 arrays: each row is as many descriptors as it says, one after the other; also where they are more than a
    list of Weft has, of which a transfer looks up those that it moves."""
    monkeypatch.setattr(nixl_impl_agent, "MOST_DESCRIPTORS", most)
    here, there = numbers(), np.zeros(4096, np.uint8)
    known(pair, here, there)
    local = pair[0].prep_xfer_dlist("NIXL_INIT_AGENT", strided(here, (0, 64, 256, 4), (1024, 64, 64, 4)), "DRAM")
    remote = pair[0].prep_xfer_dlist("target", strided(there, (2048, 64, 128, 8)), mem_type="DRAM")
    handle = pair[0].make_prepped_xfer("WRITE", local, [1, 3, 6], remote, np.array([0, 7, 2]), b"done")
    finish(pair[0], handle)
    expected = np.zeros(4096, np.uint8)
    for source, sink in ((256, 2048), (768, 2048 + 7 * 128), (1024 + 2 * 64, 2048 + 2 * 128)):
        expected[sink : sink + 64] = here[source : source + 64]
    assert (there == expected).all() and until(pair[1].get_new_notifs) == {"initiator": [b"done"]}
    for wrong in ([8], [-1]):
        with pytest.raises(bindings.nixlInvalidParamError):
            pair[0].make_prepped_xfer("WRITE", local, wrong, remote, wrong)
    if most == 3:
        with pytest.raises(bindings.nixlInvalidParamError, match="at most 3 descriptors, and these are 4"):
            pair[0].make_prepped_xfer("WRITE", local, range(4), remote, range(4))
        eight = pair[0].get_xfer_descs([(here.ctypes.data + at, 8, 0) for at in range(0, 64, 8)], "DRAM")
        with pytest.raises(bindings.nixlInvalidParamError, match="these are 8"):
            pair[0].initialize_xfer("WRITE", eight, eight, "initiator")
    pair[0].release_xfer_handle(handle)
    pair[0].release_dlist_handle(remote)


def test_wrong_strided_lists(pair: Pair) -> None:
    here = numbers()
    known(pair, here, np.zeros(4096, np.uint8))
    with pytest.raises(ValueError, match="mem_type"):
        pair[0].prep_xfer_dlist("", strided(here, (0, 8, 8, 8)))
    for wrong in ([(0, 8, 8, 1 << 62)], [(0, 8, 1 << 62, 1 << 20)], [(0, 8, 8, 1 << 25), (0, 8, 8, (1 << 25) + 1)]):
        with pytest.raises(bindings.nixlInvalidParamError, match="descs"):
            pair[0].prep_xfer_dlist("", strided(here, *wrong), "DRAM")
    with pytest.raises(bindings.nixlInvalidParamError):
        pair[0].prep_xfer_dlist("", -strided(here, (0, 8, 8, 8)).astype(np.int64), "DRAM")
    with pytest.raises(bindings.nixlInvalidParamError):
        pair[0].prep_xfer_dlist("", strided(here, (0, 8, 8, 0)), "DRAM")  # of nothing
    assert pair[0].prep_xfer_dlist("", strided(here, (64, 8, 0, 3)), "DRAM")  # the same piece three times


@pytest.mark.parametrize("index", [list, lambda some: np.array(list(some), np.int32)])
def test_prepared_lists(pair: Pair, index: object) -> None:
    here, there = numbers(), np.zeros(4096, np.uint8)
    known(pair, here, there)
    local = pair[0].prep_xfer_dlist("NIXL_INIT_AGENT", np.array(pieces(here, 256)), "DRAM")
    remote = pair[0].prep_xfer_dlist("target", pieces(there, 256), mem_type="cpu")
    handle = pair[0].make_prepped_xfer("WRITE", local, index(range(8)), remote, index(range(15, 7, -1)))  # type: ignore
    finish(pair[0], handle)
    moved = here.reshape(16, 256)[:8][::-1]
    assert (there.reshape(16, 256)[8:] == moved).all() and not there[:2048].any()
    for wrong in ([0, 16], [-1, 0], [0]):
        with pytest.raises(bindings.nixlInvalidParamError):
            pair[0].make_prepped_xfer("READ", local, wrong, remote, [0, 1])
    with pytest.raises(bindings.nixlInvalidParamError, match="NIXL_INIT_AGENT"):
        pair[0].make_prepped_xfer("READ", remote, [0], local, [0])
    pair[0].release_dlist_handle(local)
    with pytest.raises(bindings.nixlInvalidParamError, match="released"):
        pair[0].make_prepped_xfer("READ", local, [0], remote, [0])
    finish(pair[0], handle)  # it has what it needs


@pytest.mark.parametrize("kind", ["<f8", "<f4", "<f2", "<u8", ">i4", "<i2", "u1", "?"])
def test_arrays_of_indices(pair: Pair, kind: str) -> None:
    """The original converts an array of any type. vLLM joins the blocks of groups by np.concatenate, which makes an
    array of floats if one of the groups is an empty list."""
    here, there = numbers(), np.zeros(4096, np.uint8)
    known(pair, here, there)
    local = pair[0].prep_xfer_dlist("", pieces(here, 256), "DRAM")
    remote = pair[0].prep_xfer_dlist("target", pieces(there, 256), "DRAM")
    chosen = np.concatenate([[0, 1], []]).astype(kind)
    assert np.concatenate([[0, 1], []]).dtype == np.float64
    finish(pair[0], pair[0].make_prepped_xfer("WRITE", local, chosen, remote, chosen[::-1]))
    assert (there[:256] == here[256:512]).all() and (there[256:512] == here[:256]).all() and not there[512:].any()
    for wrong in (chosen.reshape(2, 1), chosen.reshape(1, 2)):
        with pytest.raises(ValueError, match=r"local_indices: .* of one dimension"):
            pair[0].make_prepped_xfer("WRITE", local, wrong, remote, chosen)


@pytest.mark.parametrize("wrong", [[0.5, 1.0], [float("nan"), 1.0], [float("inf"), 1.0], [0j, 1j], ["0", "1"]])
def test_an_array_of_other_values_is_no_array_of_indices(pair: Pair, wrong: list[object]) -> None:
    array = numbers()
    known(pair, array, array)
    local, remote = pair[0].prep_xfer_dlist("", pieces(array, 256), "DRAM"), pair[0].prep_xfer_dlist("target", array)
    with pytest.raises(TypeError, match="local_indices: a list of whole numbers"):
        pair[0].make_prepped_xfer("WRITE", local, np.array(wrong), remote, [0, 0])


def test_posts_again_with_other_notifications(pair: Pair) -> None:
    here = numbers()
    known(pair, here)
    descs = pair[0].get_xfer_descs(here)
    handle = pair[0].initialize_xfer("WRITE", descs, descs, "target")
    for notification in (b"", b"first", b"", b"x" * 3000, b"y" * 10000, "text"):
        finish(pair[0], handle, notification)  # type: ignore[arg-type]
    came: list[bytes] = []
    until(lambda: came.extend(pair[1].get_new_notifs().get("initiator", [])) or len(came) >= 5)
    assert came == [b"first", b"first", b"x" * 3000, b"y" * 10000, b"text"]  # one stays until another is given


def test_notifications_alone(pair: Pair) -> None:
    known(pair)
    sent = [b"", b"a\0b", b"long " * 4000, b"tag:1", b"tag:2"]
    for message in sent:
        pair[0].send_notif("target", message)
    until(lambda: len(pair[1].update_notifs().get("initiator", [])) == len(sent))
    assert pair[1].notifs["initiator"] == sent and pair[1].get_new_notifs() == {}
    assert pair[1].check_remote_xfer_done("initiator", b"tag:2") and pair[1].notifs["initiator"] == sent[:4]
    assert not pair[1].check_remote_xfer_done("initiator", b"ag:1")
    assert pair[1].check_remote_xfer_done("initiator", b"ag:1", tag_is_prefix=False)
    assert not pair[1].check_remote_xfer_done("nobody", b"")
    with pytest.raises(TypeError):
        pair[0].send_notif("target", 3)  # type: ignore[arg-type]
    pair[1].add_remote_agent(pair[0].get_agent_metadata())
    pair[1].send_notif("initiator", "back", backend="UCX")  # type: ignore[arg-type]
    assert until(pair[0].get_new_notifs) == {"target": [b"back"]}


def test_names_in_bytes(pair: Pair) -> None:
    """Programs give the name that `add_remote_agent` returned to other calls without decoding it."""
    source, sink = numbers(), np.zeros(4096, np.uint8)
    pair[0].register_memory(source)
    pair[1].register_memory(sink)
    descs = pair[1].get_xfer_descs(sink)
    name = pair[0].add_remote_agent(pair[1].get_agent_metadata())
    back = pair[1].add_remote_agent(pair[0].get_agent_metadata())
    assert (name, back) == (b"target", b"initiator")
    pair[0].make_connection(name)
    assert pair[0].check_remote_metadata(name, descs)
    remote = pair[0].prep_xfer_dlist(name, descs)
    prepared = pair[0].make_prepped_xfer("WRITE", pair[0].prep_xfer_dlist("", source), [0], remote, [0], b"prepared")
    pair[0].transfer(prepared)
    until(lambda: pair[1].check_remote_xfer_done(back, b"prepared"))
    assert (sink == source).all()
    pair[0].transfer(pair[0].initialize_xfer("READ", pair[0].get_xfer_descs(source), descs, name, b"listed"))
    until(lambda: pair[1].check_remote_xfer_done(back, b"listed"))
    pair[1].send_notif(back, b"alone")
    until(lambda: pair[0].check_remote_xfer_done(name, b"alone"))
    pair[0].remove_remote_agent(name)
    assert not pair[0].check_remote_metadata(name)


def test_notifications_within_a_long_one(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread's, or a transfer's that ends meanwhile: they come between its pieces, and belong to none."""
    known(pair)
    inbox = pair[0].agent._inbox
    send, between = inbox.send, [b"c" * 9000, b"short", b"b" * 9000]

    def interrupted(peer: int, kind: bytes, message: bytes = b"") -> None:
        send(peer, kind, message)
        if between and kind != nixl_impl_inbox.WHOLE:
            pair[0].send_notif("target", between.pop())

    monkeypatch.setattr(inbox, "send", interrupted)
    pair[0].send_notif("target", b"a" * 20000)
    came: list[bytes] = []
    until(lambda: came.extend(pair[1].get_new_notifs().get("initiator", [])) or len(came) >= 4)
    assert sorted(came) == [b"a" * 20000, b"b" * 9000, b"c" * 9000, b"short"]


def test_many_notifications(pair: Pair) -> None:
    known(pair)
    for number in range(3000):  # more than Weft keeps for a receiver that does not read
        pair[0].send_notif("target", b"%d" % number)
    came: list[bytes] = []
    until(lambda: came.extend(pair[1].get_new_notifs().get("initiator", [])) or len(came) >= 3000)
    assert came == [b"%d" % number for number in range(3000)]


def test_last_words(pair: Pair) -> None:
    """What was sent right before an agent closes is not lost with it."""
    known(pair)
    pair[0].send_notif("target", b"last")
    pair[0].agent.close()
    assert until(pair[1].get_new_notifs) == {"initiator": [b"last"]}


def test_who_reads_nothing_keeps_no_agent_from_closing(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    known(pair)
    receiver = pair[1].agent._inbox
    monkeypatch.setattr(receiver, "pump", lambda: None)
    pair[0].send_notif("target", b"first")
    to = pair[0].agent._peers.find("target").id
    with pytest.raises(weft.errors.BusyError):
        while True:
            pair[0].agent._weft.notify(to, b"Nmore")
    start = time.monotonic()
    pair[0].agent.close()
    assert time.monotonic() - start < 6  # 2 seconds are promised


def test_a_sender_that_is_forgotten_costs_its_own_notification(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weft forgets a peer that has gone, once its notifications are taken and many others have gone since."""
    known(pair)
    agent = pair[1].agent._weft
    pair[1].send_notif("target", b"before")
    pair[0].send_notif("target", b"of nobody")
    pair[1].send_notif("target", b"after")
    with monkeypatch.context() as patched:
        def forgotten(peer: int) -> None:
            raise weft.errors.PeerLostError(f"peer {peer} has been gone for a long time")

        patched.setattr(agent, "peer", forgotten)
        came: list[bytes] = []
        until(lambda: came.extend(pair[1].get_new_notifs().get("target", [])) or len(came) >= 2)
    assert came == [b"before", b"after"]
    pair[0].send_notif("target", b"again")
    assert until(pair[1].get_new_notifs) == {"initiator": [b"again"]}


def test_nothing_is_kept_of_senders_that_come_and_go(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a name nor a piece of a notification whose rest does not come, once Weft has forgotten the sender."""
    monkeypatch.setattr(nixl_impl_inbox, "_LOOK_EACH", 16)
    receiver = pair[1].agent._inbox
    receiver._look_at = 16
    for number in range(320):  # Weft remembers the last 256 that have gone
        sender = nixl_agent(f"sender {number}", nixl_agent_config(backends=[]))
        sender.create_backend("UCX", {"transports": "shm"})  # a fifth of the time that opening all of them takes
        known((sender, pair[1]))
        pair[1].add_remote_agent(sender.get_agent_metadata())
        sender.send_notif("target", b"whole")
        sender.agent._inbox.send(sender.agent._peers.find("target").id, nixl_impl_inbox.PIECE, b"a piece")
        assert until(pair[1].get_new_notifs) == {sender.name: [b"whole"]}
        sender.agent.close()
        receiver.pump()
        pair[1].remove_remote_agent(sender.name)
    known(pair)
    pair[0].send_notif("target", b"of one that stays")
    assert until(pair[1].get_new_notifs) == {"initiator": [b"of one that stays"]}
    for kept in (receiver.heard, receiver._names, receiver._pieces):
        assert len(kept) <= 256 + 2 * 16


def test_an_agent_closes_where_a_transfer_cannot_be_stopped(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    here = numbers()
    pair[0].register_memory(here)
    descs = pair[0].get_xfer_descs(here)
    handle = pair[0].initialize_xfer("WRITE", descs, descs, "initiator")
    finish(pair[0], handle)
    with monkeypatch.context() as patched:
        def fail(_: object) -> None:
            raise bindings.nixlRepostActiveError("it could not be stopped so soon")

        patched.setattr("nixl._impl.requests.Request.close", fail)
        pair[0].agent.close()
    assert pair[0].agent._weft.closed


def test_threads_wait_for_notifications(pair: Pair) -> None:
    """Each for its own: what one takes from the agent is not lost to the others."""
    known(pair)
    missed: list[bytes] = []

    def wait(thread: int) -> None:
        for number in range(50):
            deadline = time.monotonic() + PATIENCE_S
            while not pair[1].check_remote_xfer_done("initiator", b"%d.%d." % (thread, number)):
                if time.monotonic() > deadline:
                    missed.append(b"%d.%d." % (thread, number))
                    return

    threads = [threading.Thread(target=wait, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for number in range(50):
        for thread in range(8):
            pair[0].send_notif("target", b"%d.%d." % (thread, number))
    for thread in threads:
        thread.join()
    assert not missed


def test_within_an_agent() -> None:
    agent = nixl_agent("alone", nixl_agent_config(backends=["UCX"], capture_telemetry=True))
    here, there = numbers(), np.zeros(4096, np.uint8)
    agent.register_memory([here, there])
    local = agent.prep_xfer_dlist("", pieces(here, 1024), "DRAM")
    remote = agent.prep_xfer_dlist("alone", pieces(there, 1024), "DRAM")
    handle = agent.make_prepped_xfer("WRITE", local, [0, 1, 2, 3], remote, [0, 1, 2, 3], notif_msg=b"to myself")
    with pytest.raises(bindings.nixlNotPostedError):
        agent.check_xfer_state(handle)
    finish(agent, handle)
    assert (here == there).all() and until(agent.get_new_notifs) == {"alone": [b"to myself"]}
    apart = agent.make_prepped_xfer("WRITE", local, [0, 1, 2, 3], remote, [0, 1, 2, 3], skip_desc_merge=True)
    listed = agent.initialize_xfer("WRITE", agent.get_xfer_descs(pieces(here, 1024), "DRAM"),
                                   agent.get_xfer_descs(pieces(there, 1024), "DRAM"), "alone")
    for one, descriptors in ((handle, 1), (apart, 4), (listed, 4)):
        if one is not handle:
            finish(agent, one)
        telemetry = agent.get_xfer_telemetry(one)
        assert (telemetry.totalBytes, telemetry.descCount) == (4096, descriptors)
        assert 0 < telemetry.startTime <= time.monotonic_ns() // 1000
        assert telemetry.xferDuration >= telemetry.postDuration >= 0  # the one includes the other
    agent.send_notif("alone", b"again")
    assert until(agent.get_new_notifs) == {"alone": [b"again"]}
    assert agent.check_remote_metadata("alone")
    agent.make_connection("alone")


def test_what_is_refused(pair: Pair) -> None:
    here, stranger = numbers(), numbers()
    known(pair, here)
    mine, other = (pair[0].get_xfer_descs(one) for one in (here, stranger))
    half = pair[0].get_xfer_descs(here[:2048])
    with pytest.raises(bindings.nixlNotFoundError):
        pair[0].initialize_xfer("WRITE", other, mine, "target")
    with pytest.raises(bindings.nixlNotFoundError):
        pair[0].initialize_xfer("WRITE", mine, other, "target")
    with pytest.raises(bindings.nixlNotFoundError, match="nobody"):
        pair[0].initialize_xfer("WRITE", mine, mine, "nobody")
    with pytest.raises(bindings.nixlInvalidParamError):
        pair[0].initialize_xfer("WRITE", mine, half, "target")
    with pytest.raises(bindings.nixlInvalidParamError, match="READ"):
        pair[0].initialize_xfer("COPY", mine, mine, "target")
    with pytest.raises(bindings.nixlNotFoundError, match="POSIX"):
        pair[0].initialize_xfer("WRITE", mine, mine, "target", backends=["POSIX"])
    with pytest.raises(bindings.nixlNotSupportedError):
        pair[0].prep_mem_view(mine)
    with pytest.raises(bindings.nixlNoTelemetryError):
        pair[0].get_xfer_telemetry(pair[0].initialize_xfer("WRITE", mine, mine, "target"))
    with pytest.raises(bindings.nixlInvalidParamError):
        pair[0].register_memory(here[::2])
    with pytest.raises(bindings.nixlNotFoundError):
        pair[0].deregister_memory(pair[0].get_reg_descs(stranger))
    with pytest.raises(bindings.nixlNotFoundError, match="VRAM_SEG"):
        pair[0].register_memory([(1 << 40, 8, 0, "")], "VRAM")
    with pytest.raises(bindings.nixlBackendError, match="0x1000"):
        pair[0].register_memory([(4096, 1 << 20, 0, "")], "DRAM")  # nothing is mapped there
    for error in (KeyError, bindings.nixlInvalidParamError):  # as in the original, and as here
        with pytest.raises(error, match="COPY"):
            pair[0].initialize_xfer("COPY", mine, mine, "target")
        with pytest.raises(error, match="RAM"):
            pair[0].get_xfer_descs([(1, 2, 3)], "RAM")
    for error in (TypeError, bindings.nixlInvalidParamError):
        with pytest.raises(error, match="register_memory"):
            pair[0].register_memory(mine)
    with pytest.raises(KeyError, match="POSIX"):
        pair[0].get_new_notifs(backends=["POSIX"])
    assert pair[0].get_xfer_descs("some text") is None
    with pytest.raises(TypeError):
        pair[0].get_xfer_descs(100)


def test_memory_that_is_registered_twice(pair: Pair) -> None:
    here = numbers()
    registered = [pair[0].register_memory(here) for _ in range(3)]
    descs = pair[0].get_xfer_descs(here)
    handle = pair[0].initialize_xfer("WRITE", descs, descs, "initiator")
    pair[0].deregister_memory(registered[0])
    finish(pair[0], handle)  # what is left of it holds the memory
    twice = pair[0].get_reg_descs([tuple(registered[0][0])] * 2, "DRAM")
    pair[0].deregister_memory(twice)
    with pytest.raises(bindings.nixlNotFoundError):
        pair[0].deregister_memory(registered[0])
    with pytest.raises(bindings.nixlNotFoundError):
        pair[0].initialize_xfer("WRITE", descs, descs, "initiator")


def test_deregistration_of_all_or_none(pair: Pair) -> None:
    small, here, there = np.zeros(64, np.uint8), np.ones(1 << 28, np.uint8), np.zeros(1 << 28, np.uint8)
    registered = pair[0].register_memory([small, here])
    pair[1].register_memory(there)
    pair[0].add_remote_agent(pair[1].get_agent_metadata())
    handle = pair[0].initialize_xfer("WRITE", pair[0].get_xfer_descs(here), pair[1].get_xfer_descs(there), "target")
    if pair[0].transfer(handle) != "PROC":
        pytest.skip("the transfer is not long enough to be in flight")
    with pytest.raises(bindings.nixlNotAllowedError, match="in flight"):
        pair[0].deregister_memory(registered)
    pair[0].prep_xfer_dlist("", small)
    until(lambda: pair[0].check_xfer_state(handle) == "DONE")
    pair[0].deregister_memory(registered)


def test_deregistration_releases_what_uses_it(pair: Pair) -> None:
    here = numbers()
    registered = pair[0].register_memory(here)
    pair[1].register_memory(here)
    pair[0].add_remote_agent(pair[1].get_agent_metadata())
    descs = pair[0].get_xfer_descs(here)
    handle = pair[0].initialize_xfer("WRITE", descs, descs, "target")
    prepared = pair[0].prep_xfer_dlist("", descs)
    finish(pair[0], handle)
    pair[0].deregister_memory(registered)
    with pytest.raises(bindings.nixlInvalidParamError, match="released"):
        pair[0].transfer(handle)
    with pytest.raises(bindings.nixlNotFoundError):
        pair[0].initialize_xfer("WRITE", descs, descs, "target")
    pair[0].release_xfer_handle(handle)
    pair[0].release_dlist_handle(prepared)


@pytest.mark.parametrize("pause_s", [0, 0.06])
def test_an_agent_that_was_removed_and_added_again(pair: Pair, pause_s: float) -> None:
    """It sees this one leave within some 20 ms, where the two have met for notifications."""
    here, there = numbers(), np.zeros(4096, np.uint8)
    pair[0].register_memory(here)
    pair[1].register_memory(there)
    local, remote = pair[0].get_xfer_descs(here), pair[1].get_xfer_descs(there)
    for _ in range(3):
        pair[0].add_remote_agent(pair[1].get_agent_metadata())
        pair[0].make_connection("target")
        pair[0].remove_remote_agent("target")
        time.sleep(pause_s)
        pair[0].add_remote_agent(pair[1].get_agent_metadata())
        for _ in range(2):
            finish(pair[0], pair[0].initialize_xfer("WRITE", local, remote, "target"))
            time.sleep(0.06)
        pair[0].remove_remote_agent("target")
    assert (there == here).all()
