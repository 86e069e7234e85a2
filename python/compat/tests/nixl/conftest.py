"""What the tests of the module nixl share: agents, memory, waiting with a deadline, and programs as processes."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, Callable

import numpy as np
import pytest

from nixl._api import nixl_agent, nixl_agent_config

PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def own_environment(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The token's file goes into a temporary folder, and no store or token of the caller's is used."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp()))
    for name in ("WEFT_TOKEN", "WEFT_TOKEN_FILE", "WEFT_LISTEN", "WEFT_COMPAT", "NIXL_ETCD_ENDPOINTS",
                 "NIXL_ETCD_NAMESPACE", "NIXL_TELEMETRY_ENABLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def pair() -> Iterator[tuple[nixl_agent, nixl_agent]]:
    """Two agents of this process; neither knows the other."""
    first, second = nixl_agent("initiator"), nixl_agent("target")
    yield first, second
    first.agent.close()
    second.agent.close()


@pytest.fixture
def storage() -> Iterator[nixl_agent]:
    """An agent with files and objects."""
    agent = nixl_agent("storage", nixl_agent_config(backends=["UCX", "POSIX"]))
    yield agent
    agent.agent.close()


def until(what: Callable[[], Any]) -> Any:
    """What a call answers once it answers something true; asks again until then."""
    deadline = time.monotonic() + PATIENCE_S
    while not (answer := what()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.001)
    return answer


def finish(agent: nixl_agent, handle: Any, notif: bytes = b"") -> None:
    """Posts a transfer and waits until it is done."""
    state = agent.transfer(handle, notif)
    while state == "PROC":
        state = agent.check_xfer_state(handle)
    assert state == "DONE"


def numbers(count: int = 4096) -> np.ndarray:
    """Bytes that differ."""
    return np.random.default_rng(count).integers(0, 256, count, np.uint8)


def pieces(array: np.ndarray, size: int) -> list[tuple[int, int, int]]:
    """The array's memory as descriptors of `size` bytes each."""
    start = array.ctypes.data
    return [(start + at, size, 0) for at in range(0, array.nbytes, size)]


def start(folder: pathlib.Path, program: str, *arguments: str) -> subprocess.Popen[str]:
    """A process of this Python that runs `program`."""
    return subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, cwd=folder,
                            stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(process: subprocess.Popen[str]) -> str:
    """What a process has printed; it has to end well."""
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, f"status {process.returncode}\n{out}\n{err}"
    return out
