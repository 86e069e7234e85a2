"""The habits of programs that use nixl: each test calls as that program does, on host memory."""

from __future__ import annotations

import asyncio
import pathlib
import pickle
import threading
import time
from collections import defaultdict

import numpy as np
import pytest
from conftest import PATIENCE_S, numbers, start, until


def test_vllm() -> None:
    """A decoder reads blocks of a prefiller that never hears of it but by its notification; both list their blocks
    once, as N x 3 arrays, and each step selects some by their indices."""
    from nixl._api import nixl_agent as NixlWrapper
    from nixl._api import nixl_agent_config
    from nixl._bindings import nixlXferTelemetry

    blocks, size = 64, 512
    caches = {name: numbers(blocks * size + index) for index, name in enumerate(("layer.0", "layer.1"))}
    config = nixl_agent_config(num_threads=8, capture_telemetry=True)
    prefill, decode = NixlWrapper("0b5e-prefill", config), NixlWrapper("77c1-decode", config)
    mine = {name: np.zeros(len(cache), np.uint8) for name, cache in caches.items()}

    def listed(arrays: dict[str, np.ndarray]) -> np.ndarray:
        return np.array([(array.ctypes.data + block * size, size, 0)
                         for array in arrays.values() for block in range(blocks)], np.int64)

    for agent, arrays in ((prefill, caches), (decode, mine)):
        regions = [(array.ctypes.data, array.nbytes, 0, "") for array in arrays.values()]
        agent.register_memory(agent.get_reg_descs(regions, "DRAM"), backends=["UCX"])
    metadata = prefill.get_agent_metadata()  # goes through a socket of vLLM's own
    remote_name = decode.add_remote_agent(metadata)
    assert remote_name == b"0b5e-prefill"
    local = decode.prep_xfer_dlist("NIXL_INIT_AGENT", decode.get_xfer_descs(listed(mine), "DRAM"))
    remote = decode.prep_xfer_dlist(remote_name, decode.get_xfer_descs(listed(caches), "DRAM"))
    chosen = np.array([3, 5, 8, blocks + 3, blocks + 5, blocks + 8])
    handle = decode.make_prepped_xfer("READ", local, chosen, remote, chosen, notif_msg=b"request-1:2")
    decode.transfer(handle)
    until(lambda: decode.check_xfer_state(handle) == "DONE")
    telemetry = decode.get_xfer_telemetry(handle)
    assert isinstance(telemetry, nixlXferTelemetry) and telemetry.totalBytes == 6 * size
    assert telemetry.xferDuration + telemetry.postDuration >= 0
    decode.release_xfer_handle(handle)
    for name, array in mine.items():
        for block in range(blocks):
            part = slice(block * size, (block + 1) * size)
            assert (array[part] == caches[name][part]).all() == (block in (3, 5, 8))
    done = [notif for notifs in until(prefill.get_new_notifs).values() for notif in notifs]
    assert done == [b"request-1:2"]
    decode.send_notif(remote_name, notif_msg=b"HB:request-1")
    assert until(prefill.get_new_notifs) == {"77c1-decode": [b"HB:request-1"]}
    decode.release_dlist_handle(local)
    decode.release_dlist_handle(remote)
    decode.remove_remote_agent(remote_name)


def test_lmcache() -> None:
    """"" is the local agent; a sender writes pages into a receiver's buffer in a loop on the state's words."""
    from nixl._api import nixl_agent as NixlAgent
    from nixl._api import nixl_agent_config

    page, count = 1024, 16
    agents = {role: NixlAgent(role, nixl_agent_config(backends=["UCX"])) for role in ("sender", "receiver")}
    buffers = {"sender": numbers(page * count), "receiver": np.zeros(page * count, np.uint8)}
    handlers = {}
    for role, agent in agents.items():
        address = buffers[role].ctypes.data
        registered = agent.get_reg_descs([(address, page * count, 0, "")], mem_type="cpu")
        agent.register_memory(registered)
        descs = agent.get_xfer_descs([(address + page * i, page, 0) for i in range(count)], mem_type="cpu")
        handlers[role] = agent.prep_xfer_dlist("", descs, mem_type="cpu")
        serialized = agent.get_serialized_descs(descs)
    sender = agents["sender"]
    name = sender.add_remote_agent(agents["receiver"].get_agent_metadata())
    remote = sender.prep_xfer_dlist(name, sender.deserialize_descs(serialized))
    handle = sender.make_prepped_xfer("WRITE", handlers["sender"], [0, 1, 2], remote, [7, 8, 9])
    sender.transfer(handle)
    while True:
        status = sender.check_xfer_state(handle)
        assert status != "ERR"
        if status == "DONE":
            break
        assert status == "PROC"
        time.sleep(0.001)
    assert (buffers["receiver"][7 * page : 10 * page] == buffers["sender"][: 3 * page]).all()
    with pytest.raises(Exception, match="VRAM_SEG"):  # a buffer on a GPU, where there is none
        sender.get_reg_descs([(1 << 40, page, 0, "")], mem_type="cuda") and sender.register_memory(
            [(1 << 40, page, 0, "")], mem_type="cuda")


def test_sglang() -> None:
    """An agent without a back end gets one, with parameters; memory is queried; messages carry room and chunk."""
    from nixl._api import nixl_agent, nixl_agent_config

    agents = {}
    for name in ("prefill", "decode"):
        agent = agents[name] = nixl_agent(name, nixl_agent_config(num_threads=8, backends=[]))
        assert "UCX" in agent.get_plugin_list()
        agent.create_backend("UCX", {"num_threads": "8"})
        assert "UCX" in agent.backends
    pool, target = numbers(8192), np.zeros(8192, np.uint8)
    for name, array in (("prefill", pool), ("decode", target)):
        descs = agents[name].register_memory([(array.ctypes.data, array.nbytes, 0, "")], "DRAM")
        assert descs
        assert agents[name].query_memory(descs, "UCX", mem_type="DRAM")[0] is not None
    prefill = agents["prefill"]
    peer = prefill.add_remote_agent(agents["decode"].get_agent_metadata())
    source = prefill.get_xfer_descs([(pool.ctypes.data + at, 4096, 0) for at in (0, 4096)], "DRAM")
    sink = prefill.get_xfer_descs([(target.ctypes.data + at, 4096, 0) for at in (4096, 0)], "DRAM")
    handle = prefill.initialize_xfer("WRITE", source, sink, peer, b"17_kv_0_1")
    assert handle
    assert prefill.transfer(handle) != "ERR"
    until(lambda: prefill.check_xfer_state(handle) == "DONE")
    assert (target[4096:] == pool[:4096]).all() and (target[:4096] == pool[4096:]).all()
    arrived: dict[str, set[str]] = defaultdict(set)
    for messages in until(agents["decode"].get_new_notifs).values():
        for message in messages:
            room, component, *_ = message.decode("ascii").split("_")
            arrived[room].add(component)
    assert arrived == {"17": {"kv"}}


def test_lmcache_files(tmp_path: pathlib.Path) -> None:
    """An agent with one back end for files: pages of memory and of files by their indices; each file is written under
    another name in an event loop, and then gets its own."""
    from nixl._api import nixl_agent as NixlAgent
    from nixl._api import nixl_agent_config as NixlAgentConfig
    from nixl._api import nixlBind

    page, count = 1024, 16
    name = "DynNixlAgent_0b5e"
    agent = NixlAgent(name, NixlAgentConfig(backends=[]))
    agent.create_backend("POSIX", {"file_path": str(tmp_path), "use_direct_io": "true", "max_capacity_gb": 1})
    buffer = numbers(page * count)
    kept, start = buffer.copy(), buffer.ctypes.data
    registered: nixlBind.nixlRegDList = agent.register_memory([(start, page * count, 0, "")], mem_type="DRAM")
    descs = agent.get_xfer_descs([(at, page, 0) for at in range(start, start + page * count, page)], mem_type="DRAM")
    memory = agent.prep_xfer_dlist("", descs, mem_type="DRAM")
    device = 0

    async def move(operation: str, access: str, files: dict[pathlib.Path, list[int]]) -> None:
        nonlocal device
        texts, pieces = [], []
        for path, pages in files.items():
            device += 1
            texts.append((0, len(pages) * page, device, f"{access},direct:{path}"))
            pieces.extend((at * page, page, device) for at in range(len(pages)))
        opened = agent.register_memory(texts, mem_type="FILE")
        remote = agent.prep_xfer_dlist(name, agent.get_xfer_descs(pieces, mem_type="FILE"), mem_type="FILE")
        here = [at for pages in files.values() for at in pages]
        handle = agent.make_prepped_xfer(operation, memory, here, remote, list(range(len(pieces))))
        state = agent.transfer(handle)
        while state not in ("DONE", "ERR"):
            await asyncio.sleep(0.001)
            state = agent.check_xfer_state(handle)
        assert state == "DONE"
        agent.release_xfer_handle(handle)
        agent.release_dlist_handle(remote)
        agent.deregister_memory(opened)

    first, second = tmp_path / "first.data", tmp_path / "second.data"
    asyncio.run(move("WRITE", "rw,create", {first.with_suffix(".tmp"): [5, 2], second.with_suffix(".tmp"): [9]}))
    for path in (first, second):
        path.with_suffix(".tmp").rename(path)
    assert first.read_bytes() == kept[5 * page : 6 * page].tobytes() + kept[2 * page : 3 * page].tobytes()
    buffer[:] = 0
    asyncio.run(move("READ", "ro", {second: [9], first: [5, 2]}))
    for at in range(count):
        part = slice(at * page, (at + 1) * page)
        assert (buffer[part] == (kept[part] if at in (2, 5, 9) else 0)).all()
    with pytest.raises(nixlBind.nixlBackendError, match="No such file"):
        asyncio.run(move("READ", "ro", {tmp_path / "absent": [0]}))
    agent.release_dlist_handle(memory)
    agent.deregister_memory(registered)


def test_sglang_hicache(tmp_path: pathlib.Path) -> None:
    """The agent of the layer below is replaced by one of the same name; a path that does not exist tells whether files
    can be registered by path; pages go to files of their own, whose numbers begin at 1 each time."""
    from nixl._api import nixl_agent, nixl_agent_config, nixlBind

    name = "hicache_nixl_77c1"
    config = nixl_agent_config(backends=[])
    agent = nixl_agent(name, config)
    low = nixlBind.nixlAgentConfig()
    low.useProgThread, low.useListenThread, low.listenPort = config.enable_pthread, config.enable_listen, config.port
    low.syncMode = getattr(nixlBind, "NIXL_THREAD_SYNC_RW", nixlBind.NIXL_THREAD_SYNC_STRICT)
    low.pthrDelay, low.lthrDelay, low.captureTelemetry = 0, 100000, config.capture_telemetry
    agent.agent = nixlBind.nixlAgent(name, low)
    agent.plugin_list = agent.agent.getAvailPlugins()
    assert "POSIX" in agent.get_plugin_list()
    agent.create_backend("POSIX", {"active": "True"})
    assert agent.get_backend_params("POSIX") == {}
    page = 4096
    pool = numbers(4 * page)
    kept = pool.copy()
    assert agent.register_memory([(pool.ctypes.data, pool.nbytes, 0, "")], "DRAM")
    with pytest.raises(nixlBind.nixlBackendError):
        agent.register_memory(agent.get_reg_descs([(0, page, 1, f"rw:{tmp_path}/nonexistent-nixl-probe")], "FILE"))

    def move(direction: str, keys: list[str], pages: list[int]) -> None:
        access = "rw,create,direct" if direction == "WRITE" else "ro,direct"
        files = agent.register_memory(agent.get_reg_descs(
            [(0, page, at + 1, f"{access}:{tmp_path}/{key}") for at, key in enumerate(keys)], "FILE"))
        host = agent.get_xfer_descs([(pool.ctypes.data + at * page, page, 0) for at in pages], "DRAM")
        handle = agent.initialize_xfer(direction, host, files.trim(), name)
        state = agent.transfer(handle)
        while state != "DONE":
            state = agent.check_xfer_state(handle)
            assert state != "ERR"
        agent.release_xfer_handle(handle)
        agent.deregister_memory(files)

    move("WRITE", ["a", "b"], [0, 1])
    move("WRITE", ["c"], [2])
    pool[:] = 0
    move("READ", ["c", "b"], [2, 1])
    assert not pool[:page].any() and (pool[page : 3 * page] == kept[page : 3 * page]).all()
    found = agent.query_memory([(0, 0, 0, f"{tmp_path}/{key}") for key in ("a", "d")], "POSIX", mem_type="FILE")
    assert [one is not None for one in found] == [True, False]


def test_dynamo() -> None:
    """All arguments by keyword; the waits are coroutines; a writer and a reader in an event loop."""
    import nixl._api as nixl_api
    import nixl._bindings as nixl_bindings

    reader, writer = nixl_api.nixl_agent(agent_name="reader"), nixl_api.nixl_agent(agent_name="writer")
    source, sink = numbers(), np.zeros(4096, np.uint8)
    kept = writer.register_memory(reg_list=[(source.ctypes.data, 4096, 0, "")], mem_type="cpu")
    reader.register_memory(reg_list=[(sink.ctypes.data, 4096, 0, "")], mem_type="cpu")
    assert isinstance(kept, nixl_bindings.nixlRegDList)
    remote_name = reader.add_remote_agent(metadata=writer.get_agent_metadata())
    name = remote_name.decode("utf-8")  # it is bytes
    local = reader.get_xfer_descs(descs=[(sink.ctypes.data, 4096, 0)], mem_type="cpu")
    remote = pickle.loads(pickle.dumps(writer.get_xfer_descs(descs=[(source.ctypes.data, 4096, 0)], mem_type="cpu")))
    assert isinstance(remote, nixl_bindings.nixlXferDList)
    handle = reader.initialize_xfer(operation="READ", local_descs=local, remote_descs=remote, remote_agent=name,
                                    notif_msg=b"key-of-the-operation")

    async def wait() -> None:
        reader.transfer(handle=handle)
        while reader.check_xfer_state(handle=handle) != "DONE":
            await asyncio.sleep(0.001)
        while not any(b"key-of-the-operation" in message for messages in writer.update_notifs().values()
                      for message in messages):
            await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(wait(), PATIENCE_S))
    assert (sink == source).all()
    reader.release_xfer_handle(handle=handle)
    writer.deregister_memory(dereg_list=kept)
    reader.remove_remote_agent(agent=name)


def test_threads() -> None:
    """Several threads share one agent, each with transfers of its own."""
    from nixl import nixl_agent

    first, second = nixl_agent("first"), nixl_agent("second")
    source, sink = numbers(8 * 4096), np.zeros(8 * 4096, np.uint8)
    first.register_memory(source)
    second.register_memory(sink)
    first.add_remote_agent(second.get_agent_metadata())
    failures: list[BaseException] = []

    def move(thread: int) -> None:
        try:
            part = slice(thread * 4096, (thread + 1) * 4096)
            local, remote = first.get_xfer_descs(source[part]), second.get_xfer_descs(sink[part])
            for turn in range(50):
                handle = first.initialize_xfer("WRITE", local, remote, "second", b"%d" % turn)
                state = first.transfer(handle)
                while state == "PROC":
                    state = first.check_xfer_state(handle)
                handle.release()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=move, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not failures and (source == sink).all()
    until(lambda: len(second.update_notifs().get("first", [])) == 400)


def test_objects_that_outlive_the_agents(tmp_path: pathlib.Path) -> None:
    """Objects of Dynamo, and workers of vLLM, give all back in `__del__`: some run after the agents have closed at the
    end of the interpreter."""
    program = start(tmp_path, """
import numpy as np
from nixl._api import nixl_agent, nixl_agent_config

class Worker:
    def __init__(self):
        self.agents = [nixl_agent(name, nixl_agent_config(capture_telemetry=True)) for name in ("first", "second")]
        self.arrays = [np.arange(4096, dtype=np.uint8), np.zeros(4096, np.uint8)]
        self.registered = [agent.register_memory(array) for agent, array in zip(self.agents, self.arrays)]
        here, there = self.agents
        self.name = here.add_remote_agent(there.get_agent_metadata())
        descs = [here.get_xfer_descs(array) for array in self.arrays]
        self.local, self.remote = here.prep_xfer_dlist("", descs[0]), here.prep_xfer_dlist(self.name, descs[1])
        self.handle = here.make_prepped_xfer("WRITE", self.local, [0], self.remote, [0], b"done")
        here.transfer(self.handle)

    def __del__(self):
        here, there = self.agents
        here.release_xfer_handle(self.handle)
        here.release_dlist_handle(self.local)
        here.release_dlist_handle(self.remote)
        here.remove_remote_agent(self.name)
        for agent, registered in zip(self.agents, self.registered):
            agent.deregister_memory(registered)
        print("given back", flush=True)

worker = Worker()
""")
    out, err = program.communicate(timeout=PATIENCE_S)
    assert (program.returncode, out, err) == (0, "given back\n", "")
