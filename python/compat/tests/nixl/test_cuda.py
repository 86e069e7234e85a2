"""Transfers between tensors on two GPUs, of two processes: WRITE and READ, whole and in pieces, with notifications."""

from __future__ import annotations

import pathlib

import pytest
from conftest import end, start

torch = pytest.importorskip("torch", reason="torch is not installed")

PROGRAM = """
import os, pathlib, pickle, sys, time
import torch
from nixl._api import nixl_agent

ROWS, COLUMNS = 64, 65536
name, device = sys.argv[1], int(sys.argv[2])
torch.cuda.set_device(device)
agent = nixl_agent(name)
tensor = torch.arange(ROWS * COLUMNS, dtype=torch.int32, device=f"cuda:{device}").view(ROWS, COLUMNS)
if name == "initiator":
    tensor = -tensor
torch.cuda.synchronize()
assert agent.register_memory(tensor)

def wait(ready):
    deadline = time.monotonic() + 50
    while not (answer := ready()):
        assert time.monotonic() < deadline
        time.sleep(0.001)
    return answer

def heard():
    return agent.get_new_notifs().get("initiator")

if name == "target":
    descs = agent.get_serialized_descs(agent.get_xfer_descs(tensor))
    rows = agent.get_serialized_descs(agent.get_xfer_descs([tensor[row] for row in range(ROWS)]))
    pathlib.Path("draft").write_bytes(pickle.dumps((agent.get_agent_metadata(), descs, rows)))
    os.rename("draft", "metadata")
    assert wait(heard) == [b"read"]
    assert wait(heard) == [b"written"]
    want = -torch.arange(ROWS * COLUMNS, dtype=torch.int32, device=tensor.device).view(ROWS, COLUMNS)
    assert torch.equal(tensor[::2], want[::2]) and torch.equal(tensor[1::2], -want[1::2])
    sys.exit()

def finish(handle):
    state = agent.transfer(handle)
    wait(lambda: agent.check_xfer_state(handle) == "DONE" if state == "PROC" else state == "DONE")

wait(pathlib.Path("metadata").exists)
metadata, descs, rows = pickle.loads(pathlib.Path("metadata").read_bytes())
peer = agent.add_remote_agent(metadata)
came = torch.zeros_like(tensor)
agent.register_memory(came)
finish(agent.initialize_xfer("READ", agent.get_xfer_descs(came), agent.deserialize_descs(descs), peer, b"read"))
torch.cuda.synchronize()
assert torch.equal(came, -tensor)
mine = agent.prep_xfer_dlist("NIXL_INIT_AGENT", [tensor[row] for row in range(ROWS)])
theirs = agent.prep_xfer_dlist(peer, agent.deserialize_descs(rows))
even = list(range(0, ROWS, 2))
finish(agent.make_prepped_xfer("WRITE", mine, even, theirs, even, b"written"))
print(agent.query_xfer_backend(agent.initialize_xfer("READ", agent.get_xfer_descs(came), agent.deserialize_descs(descs),
                                                     peer)))
"""


def test_tensors_of_two_gpus(tmp_path: pathlib.Path) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("it takes two GPUs")
    target = start(tmp_path, PROGRAM, "target", "1")
    initiator = start(tmp_path, PROGRAM, "initiator", "0")
    assert end(initiator).strip() == "UCX"
    end(target)
