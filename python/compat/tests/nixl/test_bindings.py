"""The layer of numbers, on raw memory, as programs in its style use it."""

from __future__ import annotations

import ctypes
import pickle

import pytest
from conftest import until

import nixl
import nixl._bindings as bindings
import nixl._utils as utils
from nixl._impl.status import NoSuchBackend, NoSuchName


def test_a_transfer_of_raw_memory() -> None:
    config = bindings.nixlAgentConfig(False, False)
    first, second = bindings.nixlAgent("Agent1", config), bindings.nixlAgent("Agent2", config)
    one, two = first.createBackend("UCX", {}), second.createBackend("UCX", {})
    assert one and two and "UCX" in first.getAvailPlugins()
    params, mems = first.getBackendParams(one)
    assert "DRAM_SEG" in mems and "shm" in params["transports"]
    here, there = utils.malloc_passthru(256), utils.malloc_passthru(256)
    utils.ba_buf(here, 256)
    mine, theirs = bindings.nixlRegDList(bindings.DRAM_SEG), bindings.nixlRegDList(bindings.DRAM_SEG)
    mine.addDesc((here, 256, 0, "dead"))
    theirs.addDesc((there, 256, 0, "beef"))
    assert first.registerMem(mine, [one]) == bindings.NIXL_SUCCESS
    assert second.registerMem(theirs, [two]) == bindings.NIXL_SUCCESS
    assert first.loadRemoteMD(second.getLocalMD()) == b"Agent2"
    source = bindings.nixlXferDList(bindings.DRAM_SEG, [(here + 8, 8, 0)])
    target = bindings.nixlXferDList(bindings.DRAM_SEG, [(there + 8, 8, 0)])
    handle = first.createXferReq(bindings.NIXL_WRITE, source, target, "Agent2", "n\0te")
    assert handle != 0
    status = first.postXferReq(handle)
    while status == bindings.NIXL_IN_PROG:
        status = first.getXferStatus(handle)
    assert status == bindings.NIXL_SUCCESS
    notifs: dict[str, list[bytes]] = {}
    while not notifs:
        notifs = second.getNotifs(notifs)
    assert notifs == {"Agent1": [b"n\0te"]}
    utils.verify_transfer(here + 8, there + 8, 8)
    ctypes.memset(there, 0, 8)
    with pytest.raises(AssertionError, match="byte 0"):
        utils.verify_transfer(here, there, 8)
    assert first.releaseXferReq(handle) == bindings.NIXL_SUCCESS
    assert first.deregisterMem(mine, [one]) == second.deregisterMem(theirs, [two]) == bindings.NIXL_SUCCESS
    assert first.invalidateRemoteMD("Agent2") == bindings.NIXL_SUCCESS
    assert first.invalidateRemoteMD("Agent2") == bindings.NIXL_ERR_NOT_FOUND
    utils.free_passthru(here)
    utils.free_passthru(there)


def test_wrong_numbers_and_names() -> None:
    agent = bindings.nixlAgent("Agent1", bindings.nixlAgentConfig())
    with pytest.raises(bindings.nixlNotFoundError, match=r"no plug-in MOONCAKE.*UCX.*Instead: UCX or LIBFABRIC"):
        agent.createBackend("MOONCAKE", {})
    if "GDS" not in agent.getAvailPlugins():
        with pytest.raises(bindings.nixlNotFoundError, match=r"GDS does not work here.*GPU.*Instead: POSIX"):
            agent.createBackend("GDS", {})
    with pytest.raises(bindings.nixlInvalidParamError, match="transports"):
        agent.createBackend("UCX", {"transports": "file"})
    backend = agent.createBackend("UCX", {"num_threads": "4"})  # passed over: Weft has no use for it
    with pytest.raises(bindings.nixlInvalidParamError, match="already"):
        agent.createBackend("UCX", {})
    for call in (agent.getXferStatus, agent.postXferReq, agent.estimateXferCost, agent.queryXferBackend):
        with pytest.raises(bindings.nixlInvalidParamError):
            call(12345)
    with pytest.raises(bindings.nixlInvalidParamError):
        agent.getBackendParams(backend + 1)
    for damaged in (b"", b"text", agent.getLocalMD()[:40], agent.getLocalMD()[:-1], b"WEFTNIXL" + b"\xff" * 100):
        with pytest.raises(bindings.nixlMismatchError):
            agent.loadRemoteMD(damaged)
    with pytest.raises(TypeError, match="nixlRegDList"):
        agent.registerMem(bindings.nixlXferDList(bindings.DRAM_SEG, [(0, 1, 0)]))  # type: ignore[arg-type]
    assert not bindings.NIXL_IN_PROG < 0 and bindings.NIXL_ERR_NO_TELEMETRY == -12


def test_every_damaged_byte_is_refused_or_harmless() -> None:
    first, second = bindings.nixlAgent("Agent1"), bindings.nixlAgent("Agent2")
    good = second.getLocalMD()
    for at in range(0, len(good), 7):
        bad = bytearray(good)
        bad[at] ^= 0xFF
        try:
            first.loadRemoteMD(bytes(bad))
        except (bindings.nixlMismatchError, bindings.nixlNotAllowedError):
            continue
    assert first.loadRemoteMD(good) == b"Agent2"
    until(lambda: first.checkRemoteMD("Agent2", bindings.nixlXferDList(bindings.DRAM_SEG)) == bindings.NIXL_SUCCESS)


def test_names_of_the_module() -> None:
    assert nixl.nixl_agent is nixl._api.nixl_agent and nixl.nixlBackendError is bindings.nixlBackendError
    assert nixl.logging.get_logger("_api").name == "nixl.api" and nixl.DEFAULT_COMM_PORT == 8888
    assert issubclass(bindings.nixlRemoteDisconnectError, Exception)
    assert str(bindings.nixlNotFoundError("no x")) == "NIXL_ERR_NOT_FOUND: no x"


@pytest.mark.parametrize("error", [bindings.nixlNotFoundError("no such agent"), bindings.nixlBackendError(),
                                   NoSuchName("mem_type 'X'"), NoSuchBackend("no back end X")])
def test_exceptions_of_another_process(error: Exception) -> None:
    """As a pool of processes brings them."""
    same = pickle.loads(pickle.dumps(error))
    assert type(same) is type(error) and str(same) == str(error) and str(error).count("NIXL_ERR") == 1
