"""Metadata by hand, by sockets and by a store; all of it and parts; given, taken back, of an agent that has died."""

from __future__ import annotations

import os
import pathlib
import pwd
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator

import numpy as np
import pytest
import weft
from conftest import end, finish, numbers, start, until

import nixl._bindings as bindings
from nixl._api import nixl_agent, nixl_agent_config

Pair = tuple[nixl_agent, nixl_agent]


def free_port() -> int:
    """A port at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listening(name: str) -> tuple[nixl_agent, int]:
    """An agent that answers others, and its port."""
    port = free_port()
    return nixl_agent(name, nixl_agent_config(enable_listen_thread=True, listen_port=port)), port


def test_parts(pair: Pair) -> None:
    first, second = numbers(1024), numbers(2048)
    one, two = pair[1].register_memory(first), pair[1].register_memory(second)
    pair[0].register_memory([first, second])
    with pytest.raises(bindings.nixlNotFoundError):  # nothing says how to reach it
        pair[0].add_remote_agent(pair[1].get_partial_agent_metadata(one))
    pair[0].add_remote_agent(pair[1].get_partial_agent_metadata(one, inc_conn_info=True))
    descs, others = pair[0].get_xfer_descs(first), pair[0].get_xfer_descs(second)
    assert pair[0].check_remote_metadata("target") and pair[0].check_remote_metadata("target", descs)
    assert not pair[0].check_remote_metadata("target", others)
    finish(pair[0], pair[0].initialize_xfer("WRITE", descs, descs, "target", b"part"))
    assert until(pair[1].get_new_notifs) == {"initiator": [b"part"]}  # the two have met, and still
    with pytest.raises(bindings.nixlNotFoundError, match="target has given no metadata"):
        pair[0].initialize_xfer("WRITE", others, others, "target")
    pair[0].add_remote_agent(pair[1].get_partial_agent_metadata(two))
    assert pair[0].check_remote_metadata("target", others) and pair[0].check_remote_metadata("target", descs)
    with pytest.raises(bindings.nixlNotFoundError):
        pair[1].get_partial_agent_metadata(pair[1].get_reg_descs(numbers(8)))
    pair[0].remove_remote_agent("target")
    assert not pair[0].check_remote_metadata("target")
    with pytest.raises(bindings.nixlNotFoundError):
        pair[0].send_notif("target", b"")


def test_sockets_both_ways() -> None:
    target, port = listening("target")
    initiator = nixl_agent("initiator")
    array = numbers()
    target.register_memory(array)
    initiator.register_memory(array)
    initiator.fetch_remote_metadata("target", "127.0.0.1", port)
    initiator.send_local_metadata("127.0.0.1", port)
    until(lambda: initiator.check_remote_metadata("target") and target.check_remote_metadata("initiator"))
    descs = target.get_xfer_descs(array)
    until(lambda: initiator.check_remote_metadata("target", descs))
    finish(initiator, initiator.initialize_xfer("READ", descs, descs, "target", b"read"))
    finish(target, target.initialize_xfer("READ", descs, descs, "initiator", b"read too"))
    until(lambda: target.check_remote_xfer_done("initiator", b"read"))
    until(lambda: initiator.check_remote_xfer_done("target", b"read too"))
    initiator.invalidate_local_metadata("127.0.0.1", port)
    until(lambda: not target.check_remote_metadata("initiator"))


def test_addresses_of_this_host(caplog: pytest.LogCaptureFixture) -> None:
    """Agents listen at the loopback address, and are found by the others of this host too; another host is not."""
    target, port = listening("target")
    initiator = nixl_agent("initiator")
    initiator.fetch_remote_metadata("target", "0.0.0.0", port)
    until(lambda: initiator.check_remote_metadata("target"))
    initiator.fetch_remote_metadata("target", "192.0.2.77", port)
    until(lambda: "192.0.2.77 is another host" in caplog.text and "WEFT_TOKEN" in caplog.text)
    with pytest.raises(bindings.nixlNotAllowedError, match=f"{port} is in use"):
        nixl_agent("late", nixl_agent_config(enable_listen_thread=True, listen_port=port))
    target.agent.close()


def test_parts_by_socket() -> None:
    target, port = listening("target")
    initiator = nixl_agent("initiator")
    first, second = numbers(1024), numbers(2048)
    some = initiator.register_memory(first)
    initiator.register_memory(second)
    initiator.send_partial_agent_metadata(some, True, ["UCX"], "localhost", port)
    until(lambda: target.check_remote_metadata("initiator", target.get_xfer_descs(first)))
    assert not target.check_remote_metadata("initiator", target.get_xfer_descs(second))
    initiator.send_local_metadata("localhost", port)
    until(lambda: target.check_remote_metadata("initiator", target.get_xfer_descs(second)))


def test_who_asks_first_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    initiator = nixl_agent("initiator")
    initiator.fetch_remote_metadata("target", "127.0.0.1", port)  # nobody listens yet
    initiator.fetch_remote_metadata("other", "127.0.0.1", port)
    time.sleep(0.2)
    target = nixl_agent("target", nixl_agent_config(True, True, port))
    until(lambda: initiator.check_remote_metadata("target"))
    until(lambda: "listens the agent 'target', not 'other'" in caplog.text)
    with pytest.raises(bindings.nixlInvalidParamError, match="NIXL_ETCD_ENDPOINTS"):
        target.send_local_metadata()


def test_a_successor_of_the_same_name(pair: Pair) -> None:
    pair[0].add_remote_agent(pair[1].get_agent_metadata())
    other = nixl_agent("target")
    with pytest.raises(bindings.nixlMismatchError, match="remove_remote_agent"):
        pair[0].add_remote_agent(other.get_agent_metadata())
    pair[0].remove_remote_agent("target")
    assert pair[0].add_remote_agent(other.get_agent_metadata()) == b"target"
    pair[0].send_notif("target", b"new")
    assert until(other.get_new_notifs) == {"initiator": [b"new"]}


def test_tokens(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    mine = nixl_agent("mine")
    kept = pathlib.Path(os.environ["XDG_CACHE_HOME"], "weft", "nixl-token")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600 and len(kept.read_text()) == 65
    monkeypatch.setenv("WEFT_TOKEN", "a secret of our own")
    given = nixl_agent("given")
    with pytest.raises(bindings.nixlNotAllowedError, match="WEFT_TOKEN"):
        mine.add_remote_agent(given.get_agent_metadata())
    same = nixl_agent("same")
    assert same.add_remote_agent(given.get_agent_metadata()) == b"given"
    same.send_notif("given", b"by an address that other hosts reach")
    assert until(given.get_new_notifs) == {"same": [b"by an address that other hosts reach"]}
    monkeypatch.delenv("WEFT_TOKEN")
    monkeypatch.setenv("WEFT_TOKEN_FILE", str(tmp_path / "token"))
    with pytest.raises(bindings.nixlBackendError, match="WEFT_TOKEN_FILE names"):
        nixl_agent("without")
    (tmp_path / "token").touch(0o600)
    (tmp_path / "token").write_text("a secret of our own\n# the first line counts, as for the tool\n")
    (tmp_path / "token").rename(tmp_path / "..data")  # behind a link, as Kubernetes mounts a secret
    (tmp_path / "token").symlink_to("..data")
    assert nixl_agent("from a file").add_remote_agent(given.get_agent_metadata()) == b"given"
    monkeypatch.delenv("WEFT_TOKEN_FILE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "weft").mkdir()
    open_to_all = tmp_path / "weft" / "nixl-token"
    open_to_all.write_text("0" * 64)
    open_to_all.chmod(0o644)
    with pytest.raises(bindings.nixlBackendError, match="0600"):
        nixl_agent("careless")


def test_no_place_for_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user of a container, whom the system does not know."""
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    with pytest.raises(bindings.nixlBackendError, match="set WEFT_TOKEN"):
        nixl_agent("homeless")


@pytest.fixture(params=["weft", "etcd"])
def store_url(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> Iterator[str]:
    """A store, by NIXL_ETCD_ENDPOINTS: the embedded one, and an etcd if there is one."""
    if request.param == "weft":
        with weft.Server() as server:
            monkeypatch.setenv("WEFT_STORE_TOKEN", server.token)
            monkeypatch.setenv("NIXL_ETCD_ENDPOINTS", server.url)
            yield server.url
        return
    if os.environ.get("WEFT_TEST_SKIP_ETCD") == "1":
        pytest.skip("WEFT_TEST_SKIP_ETCD=1")
    url, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    try:
        etcd = subprocess.Popen(
            ["etcd", "--data-dir", str(tmp_path / "etcd"), "--listen-client-urls", url, "--advertise-client-urls", url,
             "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster",
             f"default={peers}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except FileNotFoundError:
        pytest.skip("there is no etcd here")
    monkeypatch.setenv("NIXL_ETCD_ENDPOINTS", url)
    with weft.Store(url) as store:
        def answers() -> bool:
            try:
                return bool(store.version())
            except weft.Error:
                return False
        until(answers)
    yield url
    etcd.terminate()
    etcd.wait()


def test_store(store_url: str) -> None:
    target, initiator = nixl_agent("target"), nixl_agent("initiator")
    array, other = numbers(), numbers(2048)
    some = target.register_memory(array)
    initiator.register_memory([array, other])
    initiator.fetch_remote_metadata("target")  # it is waited for
    assert not initiator.check_remote_metadata("target")
    target.send_local_metadata()
    descs = initiator.get_xfer_descs(array)
    until(lambda: initiator.check_remote_metadata("target", descs))
    finish(initiator, initiator.initialize_xfer("WRITE", descs, descs, "target"))
    with pytest.raises(bindings.nixlInvalidParamError, match="label"):
        target.send_partial_agent_metadata(some)
    target.register_memory(other)  # agents that fetched it learn of it by themselves
    until(lambda: initiator.check_remote_metadata("target", initiator.get_xfer_descs(other)))
    target.invalidate_local_metadata()
    until(lambda: not initiator.check_remote_metadata("target"))
    with pytest.raises(bindings.nixlNotFoundError, match="out of the store"):
        initiator.initialize_xfer("WRITE", descs, descs, "target")


def test_labels(store_url: str) -> None:
    target, initiator = nixl_agent("target"), nixl_agent("initiator")
    first, second = numbers(1024), numbers(2048)
    one, two = target.register_memory(first), target.register_memory(second)
    target.send_partial_agent_metadata(one, inc_conn_info=True, label="one")
    initiator.fetch_remote_metadata("target", label="one")
    until(lambda: initiator.check_remote_metadata("target", initiator.get_xfer_descs(first)))
    assert not initiator.check_remote_metadata("target", initiator.get_xfer_descs(second))
    target.send_partial_agent_metadata(two, label="two")
    initiator.fetch_remote_metadata("target", label="two")
    until(lambda: initiator.check_remote_metadata("target", initiator.get_xfer_descs(second)))


PROGRAM = """
import sys, time
import numpy as np
from nixl._api import nixl_agent, nixl_agent_config
agent = nixl_agent("child", nixl_agent_config(backends=sys.argv[1].split(",")))
"""


def metadata_from(child: subprocess.Popen[str]) -> bytes:
    """What a child prints as hexadecimal digits."""
    assert child.stdout is not None
    return bytes.fromhex(child.stdout.readline())


def test_a_stranger_may_notify(tmp_path: pathlib.Path) -> None:
    """An agent hears one whose metadata nobody gave to it, also if that one ends at once."""
    here = nixl_agent("parent")
    array = np.zeros(8, np.uint8)
    here.register_memory(array)
    child = start(tmp_path, PROGRAM + """
agent.add_remote_agent(bytes.fromhex(sys.stdin.readline()))
mine = np.arange(8, dtype=np.uint8)
agent.register_memory(mine)
handle = agent.initialize_xfer("WRITE", agent.get_xfer_descs(mine),
                               agent.get_xfer_descs([(int(sys.argv[2]), 8, 0)], "DRAM"), "parent", b"hello")
state = agent.transfer(handle)
while state == "PROC":
    state = agent.check_xfer_state(handle)
print(state)
""", "UCX", str(array.ctypes.data))
    assert child.stdin is not None
    child.stdin.write(here.get_agent_metadata().hex() + "\n")
    child.stdin.flush()
    until(lambda: here.check_remote_xfer_done("child", b"hello"))
    assert end(child).strip() == "DONE" and array.tolist() == list(range(8))


def test_a_killed_agent(tmp_path: pathlib.Path) -> None:
    child = start(tmp_path, PROGRAM + """
there = np.zeros(1 << 20, np.uint8)
agent.register_memory(there)
print(agent.get_agent_metadata().hex(), flush=True)
print(there.ctypes.data, flush=True)
time.sleep(600)
""", "UCX")
    here, array = nixl_agent("parent"), numbers(1 << 20)
    here.register_memory(array)
    assert here.add_remote_agent(metadata_from(child)) == b"child"
    assert child.stdout is not None
    remote = here.get_xfer_descs([(int(child.stdout.readline()), 1 << 20, 0)], "DRAM")
    handle = here.initialize_xfer("WRITE", here.get_xfer_descs(array), remote, "child")
    finish(here, handle)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    until(lambda: not here.check_remote_metadata("child"))
    with pytest.raises(bindings.nixlRemoteDisconnectError, match="child"):
        finish(here, handle)
    with pytest.raises(bindings.nixlRemoteDisconnectError, match="child"):
        here.send_notif("child", b"are you there?")
    with pytest.raises(bindings.nixlRemoteDisconnectError, match="child"):
        here.initialize_xfer("WRITE", here.get_xfer_descs(array), remote, "child")
    here.release_xfer_handle(handle)
    here.remove_remote_agent("child")
