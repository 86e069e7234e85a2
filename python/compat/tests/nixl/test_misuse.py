"""Wrong arguments, closed agents, collected handles, forks: an exception, never a crash or a wait without an end."""

from __future__ import annotations

import gc
import os
import random
import sys
import threading
from typing import Any

import numpy as np
import pytest
from conftest import finish, numbers

import nixl._bindings as bindings
from nixl._api import nixl_agent, nixl_agent_config

CALLS = int(os.environ.get("WEFT_TEST_OPERATIONS", "3000"))


def values(agent: nixl_agent, array: np.ndarray) -> list[Any]:
    """Arguments, of which hardly any fits where it lands."""
    descs = agent.get_xfer_descs(array)
    return [None, -1, 0, 1, 1 << 63, 1 << 70, 1.5, "", "target", "initiator", "nobody", "READ", "WRITE", "UCX",
            "POSIX", "DRAM", "FILE", b"", b"\xff" * 40, [], [0], [-1], [(1, 2, 3)], [(0, 0, 0, "")], [("x", 1, 2)],
            (), {}, array, array[::2], np.zeros((3, 3)), descs, agent.get_reg_descs(array),
            bindings.nixlXferDList(bindings.FILE_SEG, [(0, 1 << 63, 9)]), bindings.nixlXferDList(bindings.DRAM_SEG),
            agent, agent.get_agent_metadata(), object(), True]


def test_random_calls(pair: tuple[nixl_agent, nixl_agent]) -> None:
    seed = int(os.environ.get("WEFT_SEED", random.randrange(1 << 32)))
    print(f"WEFT_SEED={seed} repeats it")
    draw = random.Random(seed)
    array = numbers()
    for agent in pair:
        agent.register_memory(array)
    # Left out: what waits for others by design, and what changes nothing.
    names = [name for name in dir(nixl_agent) if not name.startswith("_") and name not in (
        "fetch_remote_metadata", "send_local_metadata", "send_partial_agent_metadata", "invalidate_local_metadata")]
    for _ in range(CALLS):
        agent = draw.choice(pair)
        arguments = [draw.choice(values(agent, array)) for _ in range(draw.randrange(6))]
        try:
            getattr(agent, draw.choice(names))(*arguments)
        except Exception as error:
            assert not isinstance(error, (SystemError, MemoryError)), (error, arguments)
    pair[0].remove_remote_agent("target")
    pair[0].add_remote_agent(pair[1].get_agent_metadata())
    pair[1].register_memory(array)
    pair[0].register_memory(array)
    pair[0].add_remote_agent(pair[1].get_agent_metadata())
    descs = pair[0].get_xfer_descs(array)
    finish(pair[0], pair[0].initialize_xfer("WRITE", descs, descs, "target"))


def test_the_wrong_argument_is_named(pair: tuple[nixl_agent, nixl_agent]) -> None:
    """A handle of the other kind too, whose number would name something else."""
    array = numbers()
    pair[0].register_memory(array)
    descs = pair[0].get_xfer_descs(array)
    prepared = [pair[0].prep_xfer_dlist(name, descs) for name in ("", "initiator")]
    made = pair[0].make_prepped_xfer("WRITE", prepared[0], [0], prepared[1], [0])
    agent, wrong = pair[0], object()
    for call in (agent.transfer, agent.check_xfer_state, agent.estimate_xfer_cost, agent.query_xfer_backend,
                 agent.get_xfer_telemetry, agent.release_xfer_handle):
        for handle in (None, wrong, prepared[0]):
            with pytest.raises(TypeError, match="a nixl_xfer_handle is wanted, not"):
                call(handle)  # type: ignore[operator]
    for handle in (None, wrong, made):
        with pytest.raises(TypeError, match="a nixl_prepped_dlist_handle is wanted, not"):
            agent.make_prepped_xfer("WRITE", handle, [0], prepared[1], [0])  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="a nixl_prepped_dlist_handle is wanted, not"):
            agent.release_dlist_handle(handle)  # type: ignore[arg-type]
    for backends in (None, "UCX", 5):
        with pytest.raises(TypeError, match="backends: a list of names is wanted"):
            agent.register_memory(array, backends=backends)  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="no back end None"):
        agent.register_memory(array, backends=[None])  # type: ignore[list-item]
    pair[0].add_remote_agent(pair[1].get_agent_metadata())
    with pytest.raises(TypeError, match="a nixlXferDList is wanted, not list"):
        agent.check_remote_metadata("target", [(1, 2, 3)])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="metadata: bytes are wanted, not str"):
        agent.add_remote_agent("text")  # type: ignore[arg-type]
    assert agent.transfer(made.__index__()) in ("PROC", "DONE")  # type: ignore[arg-type]


def test_agents_that_do_not_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exceptions are those of the original; the layer below gets the mode that the configuration names."""
    for config in (None, nixl_agent_config(backends=[])):
        with pytest.raises(ValueError, match="name"):
            nixl_agent("", config)
    with pytest.raises(TypeError, match="sync_mode must be a nixl_thread_sync_t"):
        nixl_agent_config(sync_mode=1)  # type: ignore[arg-type]
    modes = []
    low = bindings.nixlAgent
    monkeypatch.setattr(bindings, "nixlAgent", lambda name, config: modes.append(config.syncMode) or low(name, config))
    for listens, mode in ((False, None), (True, None), (False, bindings.NIXL_THREAD_SYNC_RW)):
        nixl_agent("one", nixl_agent_config(enable_listen_thread=listens, listen_port=0, backends=[], sync_mode=mode))
    assert modes == [bindings.NIXL_THREAD_SYNC_NONE, bindings.NIXL_THREAD_SYNC_STRICT, bindings.NIXL_THREAD_SYNC_RW]


def test_after_the_end(pair: tuple[nixl_agent, nixl_agent]) -> None:
    array = numbers()
    registered = pair[0].register_memory(array)
    pair[1].register_memory(array)
    pair[0].add_remote_agent(pair[1].get_agent_metadata())
    descs = pair[0].get_xfer_descs(array)
    handle, prepared = pair[0].initialize_xfer("WRITE", descs, descs, "target"), pair[0].prep_xfer_dlist("", descs)
    pair[0].agent.close()
    pair[0].agent.close()
    for call in (lambda: pair[0].transfer(handle), lambda: pair[0].register_memory(array),
                 lambda: pair[0].get_agent_metadata(), lambda: pair[0].send_notif("target", b""),
                 lambda: pair[0].initialize_xfer("WRITE", descs, descs, "target"), lambda: pair[0].get_new_notifs(),
                 lambda: pair[0].check_remote_xfer_done("target", b""),
                 lambda: pair[0].check_remote_metadata("target")):
        with pytest.raises(bindings.nixlBackendError, match="is closed"):  # and nobody asks for ever
            call()
    handle.release()
    prepared.release()
    del registered


def test_another_thread_closes_the_agent_meanwhile(pair: tuple[nixl_agent, nixl_agent],
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    low = pair[0].agent._weft
    load = low.load

    def load_and_close(blob: bytes) -> int:
        peer = load(blob)
        low.close()
        return peer

    monkeypatch.setattr(low, "load", load_and_close)
    with pytest.raises(bindings.nixlBackendError, match="is closed"):
        pair[0].add_remote_agent(pair[1].get_agent_metadata())


def test_another_thread_sends_while_the_agent_closes(pair: tuple[nixl_agent, nixl_agent],
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    pair[0].add_remote_agent(pair[1].get_agent_metadata())
    pair[0].send_notif("target", b"one")
    agent = pair[0].agent
    wait = agent._inbox.patiently

    def wait_and_send(peer: int, *more: Any) -> None:
        agent._peers.notified.add(peer + 1)  # as genNotif() to another agent does
        wait(peer, *more)

    monkeypatch.setattr(agent._inbox, "patiently", wait_and_send)
    agent.close()
    assert agent._weft.closed


def test_a_transfer_in_flight_is_cancelled(pair: tuple[nixl_agent, nixl_agent]) -> None:
    here, there = np.ones(1 << 26, np.uint8), np.zeros(1 << 26, np.uint8)
    registered = pair[0].register_memory(here)
    pair[1].register_memory(there)
    pair[0].add_remote_agent(pair[1].get_agent_metadata())
    local, remote = pair[0].get_xfer_descs(here), pair[1].get_xfer_descs(there)
    for _ in range(3):
        handle = pair[0].initialize_xfer("WRITE", local, remote, "target")
        state = pair[0].transfer(handle)
        try:
            pair[0].transfer(handle)
        except bindings.nixlRepostActiveError:
            assert state == "PROC"
        pair[0].release_xfer_handle(handle)
        with pytest.raises(bindings.nixlInvalidParamError):
            pair[0].check_xfer_state(handle)
    gone = pair[0].initialize_xfer("WRITE", local, remote, "target")
    pair[0].transfer(gone)
    del gone  # collected, and so cancelled
    gc.collect()
    pair[0].deregister_memory(registered)


def test_threads_share_a_transfer(pair: tuple[nixl_agent, nixl_agent]) -> None:
    """While one of them posts, the others learn that it is in flight; once it has ended, that it has, whoever else
    asks at that moment."""
    here, there = np.ones(1 << 24, np.uint8), np.zeros(1 << 24, np.uint8)
    registered = pair[0].register_memory(here)
    pair[1].register_memory(there)
    pair[0].add_remote_agent(pair[1].get_agent_metadata())
    handle = pair[0].initialize_xfer("WRITE", pair[0].get_xfer_descs(here), pair[1].get_xfer_descs(there), "target")
    finish(pair[0], handle)
    ended, failures = threading.Event(), []

    def ask() -> None:
        try:
            while not ended.is_set():
                assert pair[0].check_xfer_state(handle) in ("PROC", "DONE")
                assert pair[0].query_xfer_backend(handle) == "UCX" and pair[0].estimate_xfer_cost(handle)[0] > 0
        except BaseException as failure:
            failures.append(failure)

    asking = [threading.Thread(target=ask) for _ in range(2)]
    for thread in asking:
        thread.start()
    for _ in range(30):
        finish(pair[0], handle)
        assert all(pair[0].check_xfer_state(handle) == "DONE" for _ in range(100))
    ended.set()
    for thread in asking:
        thread.join()
    assert not failures, failures
    pair[0].release_xfer_handle(handle)
    pair[0].deregister_memory(registered)


@pytest.mark.parametrize("wrong", ["x", 1.5, None, -1, 2**64])
def test_a_descriptor_or_an_index_that_is_no_number_is_shown(pair: tuple[nixl_agent, nixl_agent], wrong: Any) -> None:
    for descs in ([(1, 2, wrong)], [(wrong, 2, 3)]):
        with pytest.raises((TypeError, OverflowError), match=r"^descs: \(.*(whole numbers|0 to 2\*\*64 - 1)"):
            pair[0].get_xfer_descs(descs, "DRAM")
    for text in (5, None):  # bytes(5) would be five zeros
        with pytest.raises(TypeError):
            pair[0].get_reg_descs([(1, 2, 3, text)], "DRAM")
    array = numbers()
    registered = pair[0].register_memory(array)
    local, remote = pair[0].prep_xfer_dlist("", array), pair[0].prep_xfer_dlist("initiator", array)
    with pytest.raises((TypeError, ValueError, bindings.nixlInvalidParamError), match="local_ind"):
        pair[0].make_prepped_xfer("WRITE", local, [wrong], remote, [0])
    with pytest.raises(TypeError, match="remote_indices: a list of whole numbers"):
        pair[0].make_prepped_xfer("WRITE", local, [0], remote, 5)
    del local, remote
    gc.collect()
    pair[0].deregister_memory(registered)


@pytest.mark.parametrize(("arguments", "named"), [
    ((5,), "backend"), ((["UCX"],), "backend"), (("UCX", 5), "initParams"), (("UCX", ["transports"]), "initParams"),
    (("UCX", {5: "shm"}), "initParams: 5"), (("UCX", {"transports": None}), "initParams: 'transports'")])
def test_a_back_end_with_wrong_arguments_names_them(pair: tuple[nixl_agent, nixl_agent], arguments: Any,
                                                    named: str) -> None:
    with pytest.raises(TypeError, match=f"^{named}: "):
        pair[0].create_backend(*arguments)


def test_handles_are_collected(pair: tuple[nixl_agent, nixl_agent]) -> None:
    array = numbers()
    pair[0].register_memory(array)
    for _ in range(100):
        local, remote = pair[0].prep_xfer_dlist("", array), pair[0].prep_xfer_dlist("initiator", array)
        finish(pair[0], pair[0].make_prepped_xfer("WRITE", local, [0], remote, [0]))
    del local, remote
    gc.collect()
    assert not pair[0].agent._lists.items() and not pair[0].agent._requests.items()


def test_agents_are_collected() -> None:
    for turn in range(20):
        agent = nixl_agent("again", nixl_agent_config(enable_listen_thread=turn % 2 == 0, listen_port=0))
        agent.register_memory(numbers())
        del agent
    gc.collect()


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="forks of a process with threads are warned of")
def test_a_forked_child_has_no_agent(pair: tuple[nixl_agent, nixl_agent]) -> None:
    array = numbers()
    pair[0].register_memory(array)
    child = os.fork()
    if child == 0:
        for call in (pair[0].get_agent_metadata, pair[0].get_new_notifs):
            try:
                call()
                os._exit(1)
            except bindings.nixlBackendError:
                continue
        nixl_agent("child").agent.close()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finish(pair[0], pair[0].make_prepped_xfer("WRITE", pair[0].prep_xfer_dlist("", array), [0],
                                              pair[0].prep_xfer_dlist("initiator", array), [0]))
