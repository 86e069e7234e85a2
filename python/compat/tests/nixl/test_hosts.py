"""Two hosts, each a network namespace with processes of its own: WEFT_TOKEN is all that they share."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest
from conftest import end, until

PROGRAM = """
import os, pathlib, sys, time
import numpy as np
from nixl._api import nixl_agent
mode, metadata = sys.argv[1], pathlib.Path("metadata")
agent = nixl_agent(mode)
array = np.arange(100000, dtype=np.uint8) if mode == "prefill" else np.zeros(100000, np.uint8)
agent.register_memory(array)
if mode == "prefill":
    pathlib.Path("draft").write_bytes(array.ctypes.data.to_bytes(8, "little") + agent.get_agent_metadata())
    os.rename("draft", metadata)
    deadline = time.monotonic() + 50
    while not (notifs := agent.get_new_notifs()):
        assert time.monotonic() < deadline
        time.sleep(0.001)
    print(notifs)
else:
    deadline = time.monotonic() + 50
    while not metadata.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    data = metadata.read_bytes()
    name = agent.add_remote_agent(data[8:])
    remote = agent.get_xfer_descs([(int.from_bytes(data[:8], "little"), 100000, 0)], "DRAM")
    handle = agent.initialize_xfer("READ", agent.get_xfer_descs(array), remote, name, b"read")
    state = agent.transfer(handle)
    while state == "PROC":
        state = agent.check_xfer_state(handle)
    print(state, bool((array == np.arange(100000, dtype=np.uint8)).all()))
"""


def run(*command: str) -> None:
    """Runs a command; where it may not, the test is skipped."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"{' '.join(command)}: {done.stderr.strip()}")


def is_up(name: str, device: str) -> bool:
    """Whether an interface counts as running: the kernel looks at its cables once a second where many change."""
    return "state UP" in subprocess.run(["ip", "-n", name, "-o", "link", "show", "dev", device], capture_output=True,
                                        text=True, check=True).stdout


@pytest.fixture(params=["10.77.0.{}/24", "fd00:77::{}/64"], ids=["IPv4", "IPv6 alone"])
def hosts(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Two network namespaces that a cable joins, which leads nowhere else."""
    if os.geteuid() != 0 or not all(shutil.which(tool) for tool in ("ip", "nsenter", "unshare")):
        pytest.skip("network namespaces take root, ip, nsenter and unshare")
    names = [f"weft-nixl-{os.getpid()}-{side}" for side in "ab"]
    ends = [f"w{os.getpid() % 10**8}{side}" for side in "ab"]
    try:
        for name in names:
            run("ip", "netns", "add", name)
        run("ip", "link", "add", ends[0], "netns", names[0], "type", "veth", "peer", "name", ends[1], "netns", names[1])
        for number, (name, device) in enumerate(zip(names, ends)):
            nodad = ["nodad"] if ":" in request.param else []
            run("ip", "-n", name, "addr", "add", request.param.format(number + 1), "dev", device, *nodad)
            run("ip", "-n", name, "link", "set", "lo", "up")
            run("ip", "-n", name, "link", "set", device, "up")
        for name, device in zip(names, ends):
            until(lambda name=name, device=device: is_up(name, device))
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def test_two_hosts(hosts: list[str], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Metadata goes by a file, the data by the network; the reader is a stranger to the agent that hears of it, and
    ends at once."""
    monkeypatch.setenv("WEFT_TOKEN", "a secret of these two hosts, long enough")
    prefill, decode = (
        subprocess.Popen(["nsenter", f"--net=/run/netns/{host}", "unshare", "--pid", "--fork", "--kill-child",
                          "--mount-proc", sys.executable, "-c", PROGRAM, mode], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
        for host, mode in zip(hosts, ("prefill", "decode")))
    assert end(decode).strip() == "DONE True"
    assert end(prefill).strip() == str({"decode": [b"read"]})
