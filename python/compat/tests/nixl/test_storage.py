"""Files by descriptor and by path, objects by key, and what there is of them."""

from __future__ import annotations

import http.server
import os
import pathlib
import threading
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import pytest
from conftest import finish, numbers

import nixl._bindings as bindings
from nixl._api import nixl_agent, nixl_agent_config


def move(agent: nixl_agent, operation: str, memory: object, file: list[tuple[int, int, int]], kind: str) -> str:
    """Moves memory to or from storage; the back end that did."""
    handle = agent.initialize_xfer(operation, agent.get_xfer_descs(memory), agent.get_xfer_descs(file, kind),
                                   agent.name)
    finish(agent, handle)
    return agent.query_xfer_backend(handle)


@pytest.mark.parametrize("text", ["", "b", b"a"])
def test_open_files(storage: nixl_agent, tmp_path: pathlib.Path, text: str) -> None:
    data, back = numbers(), np.zeros(4096, np.uint8)
    storage.register_memory([data, back])
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    files = storage.register_memory([(0, 4096, fd, text)], "FILE", backends=["POSIX"])
    assert move(storage, "WRITE", data, [(0, 4096, fd)], "FILE") == "POSIX"
    assert (tmp_path / "file").read_bytes() == data.tobytes()
    assert move(storage, "READ", back[:1024], [(3072, 1024, fd)], "FILE") == "POSIX"
    assert (back[:1024] == data[3072:]).all()
    for wrong in ((4000, 100, fd), (0, 4096, fd + 1)):
        with pytest.raises(bindings.nixlNotFoundError):
            storage.initialize_xfer("READ", storage.get_xfer_descs(back[: wrong[1]]),
                                    storage.get_xfer_descs([wrong], "FILE"), "storage")
    storage.deregister_memory(files)
    os.close(fd)


def test_prepared_blocks_of_two_files(storage: nixl_agent, tmp_path: pathlib.Path) -> None:
    data = numbers()
    storage.register_memory(data)
    fds = [os.open(tmp_path / name, os.O_RDWR | os.O_CREAT) for name in ("one", "two")]
    storage.register_memory([(0, 2048, fd, "") for fd in fds], mem_type="FILE")
    local = storage.prep_xfer_dlist("", [(data.ctypes.data + 1024 * i, 1024, 0) for i in range(4)], "DRAM")
    remote = storage.prep_xfer_dlist("storage", [(1024 * (i % 2), 1024, fds[i // 2]) for i in range(4)], "FILE")
    finish(storage, storage.make_prepped_xfer("WRITE", local, [0, 1, 2, 3], remote, [3, 2, 1, 0]))
    blocks = data.reshape(4, 1024)
    assert (tmp_path / "one").read_bytes() == blocks[3].tobytes() + blocks[2].tobytes()
    assert (tmp_path / "two").read_bytes() == blocks[1].tobytes() + blocks[0].tobytes()
    for fd in fds:
        os.close(fd)


def test_files_by_path(storage: nixl_agent, tmp_path: pathlib.Path) -> None:
    data = numbers()
    storage.register_memory(data)
    path = tmp_path / "named"
    storage.register_memory([(0, 0, 7000, str(path))], "FILE")
    move(storage, "WRITE", data, [(0, 4096, 7000)], "FILE")
    assert path.read_bytes() == data.tobytes()
    found = storage.query_memory([(0, 0, 0, str(path)), (0, 0, 0, str(tmp_path / "none"))], "POSIX", "FILE")
    assert found[0] is not None and found[0]["size"] == "4096" and found[1] is None
    with pytest.raises(bindings.nixlInvalidParamError, match="no open file"):
        storage.register_memory([(0, 8, 7001, "")], "FILE")


def test_a_file_that_is_only_read(storage: nixl_agent, tmp_path: pathlib.Path) -> None:
    data = numbers()
    storage.register_memory(data)
    (tmp_path / "file").write_bytes(bytes(4096))
    fd = os.open(tmp_path / "file", os.O_RDONLY)
    storage.register_memory([(0, 4096, fd, "")], "FILE")
    with pytest.raises(bindings.nixlInvalidParamError):
        move(storage, "WRITE", data, [(0, 4096, fd)], "FILE")
    move(storage, "READ", data, [(0, 4096, fd)], "FILE")
    assert not data.any()
    os.close(fd)


def opened() -> int:
    """The number of file descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))


def test_files_that_the_agent_opens(storage: nixl_agent, tmp_path: pathlib.Path) -> None:
    """The text says how to open the path; the device is a number of the program's own, not a descriptor."""
    data, back = numbers(), np.zeros(4096, np.uint8)
    storage.register_memory([data, back])
    path, before = tmp_path / "made", opened()
    for text in (f"rw:{path}", f"ro,direct:{path}"):
        with pytest.raises(bindings.nixlBackendError, match="No such file"):
            storage.register_memory([(0, 4096, 1, text)], "FILE")
    made = storage.register_memory([(0, 4096, 1, f"rw,create,direct,sync:{path}")], "FILE")
    assert path.stat().st_mode & 0o777 == 0o644 and opened() > before
    handle = storage.initialize_xfer("WRITE", storage.get_xfer_descs(data), made.trim(), storage.name)
    finish(storage, handle)
    storage.release_xfer_handle(handle)
    storage.deregister_memory(made)
    assert path.read_bytes() == data.tobytes() and opened() == before
    made = storage.register_memory([(0, 4096, 1, f"ro,noatime:{path}")], "FILE")
    move(storage, "READ", back, [(0, 4096, 1)], "FILE")
    assert (back == data).all()
    with pytest.raises(bindings.nixlInvalidParamError):
        move(storage, "WRITE", data, [(0, 4096, 1)], "FILE")
    storage.agent.close()
    assert opened() < before


@pytest.mark.parametrize("flag", [os.O_SYNC, os.O_DSYNC])
def test_a_synchronous_file_stays_so(storage: nixl_agent, tmp_path: pathlib.Path, flag: int) -> None:
    """Whole pages go through a descriptor that Weft opens: it has to be as synchronous as the program's."""
    path = tmp_path / "file"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | flag)
    storage.register_memory([(0, 4096, fd, "")], "FILE")
    found = [number for number in os.listdir("/proc/self/fd")
             if os.path.realpath(f"/proc/self/fd/{number}") == str(path.resolve())]
    assert str(fd) in found
    for number in found:
        lines = pathlib.Path(f"/proc/self/fdinfo/{number}").read_text().splitlines()
        assert int(next(line for line in lines if line.startswith("flags:")).split()[1], 8) & flag == flag
    os.close(fd)


@pytest.mark.parametrize("text", ["rx:never", "rw,append:never", "ro:", ":never", "rw"])
def test_texts_that_are_no_way_to_open(storage: nixl_agent, tmp_path: pathlib.Path, text: str) -> None:
    data = numbers()
    storage.register_memory(data)
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    storage.register_memory([(0, 4096, fd, text)], "FILE")
    move(storage, "WRITE", data, [(0, 4096, fd)], "FILE")
    assert (tmp_path / "file").read_bytes() == data.tobytes()
    os.close(fd)


def test_a_device_names_one_file(storage: nixl_agent, tmp_path: pathlib.Path) -> None:
    """Two threads of a program may choose the same number: no transfer may go to the other one's file."""
    one = storage.register_memory([(0, 4096, 1, f"rw,create:{tmp_path / 'one'}")], "FILE")
    before = opened()
    for descs in ([(0, 4096, 1, f"rw,create:{tmp_path / 'two'}")],
                  [(0, 4096, 2, f"rw,create:{tmp_path / name}") for name in ("two", "three")]):
        with pytest.raises(bindings.nixlInvalidParamError, match="device"):
            storage.register_memory(descs, "FILE")
        assert opened() == before
    storage.deregister_memory(one)
    storage.register_memory([(0, 4096, 1, f"rw,create:{tmp_path / 'two'}")], "FILE")


def test_a_descriptor_that_another_file_has_got(storage: nixl_agent, tmp_path: pathlib.Path) -> None:
    """A program that closes a file before it deregisters it gets the same descriptor for the next one."""
    data = numbers()
    storage.register_memory(data)
    before = os.open(tmp_path / "before", os.O_RDWR | os.O_CREAT)
    storage.register_memory([(0, 4096, before, "")], "FILE")
    os.close(before)
    after = os.open(tmp_path / "after", os.O_RDWR | os.O_CREAT)
    assert after == before
    storage.register_memory([(0, 4096, after, "")], "FILE")
    move(storage, "WRITE", data, [(0, 4096, after)], "FILE")
    assert (tmp_path / "after").read_bytes() == data.tobytes() and (tmp_path / "before").stat().st_size == 0
    os.close(after)


def test_query_memory(storage: nixl_agent) -> None:
    data = numbers()
    found = storage.query_memory([(data.ctypes.data, 4096, 0, "")], "UCX", mem_type="DRAM")
    assert found == [{"size": "4096"}]
    with pytest.raises(bindings.nixlNotFoundError, match="POSIX"):
        storage.query_memory([(0, 1, 0, "key")], "POSIX", mem_type="OBJ")
    for kind in (ValueError, KeyError):
        with pytest.raises(kind, match="no back end GDS"):
            storage.query_memory([(0, 0, 0, "path")], "GDS", mem_type="FILE")


def test_without_files(pair: tuple[nixl_agent, nixl_agent]) -> None:
    with pytest.raises(bindings.nixlNotFoundError, match="FILE_SEG"):
        pair[0].register_memory([(0, 8, 0, "/tmp/never")], "FILE")


class Objects(http.server.BaseHTTPRequestHandler):
    """As much of S3 as whole objects need."""

    protocol_version = "HTTP/1.1"
    kept: ClassVar[dict[str, bytes]] = {}
    tokens: ClassVar[list[str | None]] = []  # of the requests to write

    def log_message(self, format: str, *arguments: object) -> None:
        """Says nothing."""

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Sends an answer."""
        self.send_response(status)
        for name, value in {"ETag": '"1"', "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_PUT(self) -> None:
        """Keeps an object."""
        self.tokens.append(self.headers["x-amz-security-token"])
        self.kept[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(200)

    def do_GET(self) -> None:
        """Gives an object or a range of it."""
        if self.path not in self.kept:
            return self.answer(404)
        body = self.kept[self.path]
        if "Range" not in self.headers:
            return self.answer(200, body)
        first, last = (int(number) for number in self.headers["Range"].removeprefix("bytes=").split("-"))
        last = min(last, len(body) - 1)
        return self.answer(206, body[first : last + 1], Content_Range=f"bytes {first}-{last}/{len(body)}")

    do_HEAD = do_GET


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server of objects."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    Objects.kept, Objects.tokens = {}, []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Objects)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_objects(s3: str) -> None:
    agent = nixl_agent("objects", nixl_agent_config(backends=["UCX"]))
    agent.create_backend("OBJ", {"endpoint_override": s3, "bucket": "bucket", "access_key": "id", "secret_key": "key"})
    assert agent.get_backend_params("OBJ")["bucket"] == "bucket" and "key" not in str(agent.backend_options.values())
    assert "AWS_SECRET_ACCESS_KEY" not in os.environ
    data, back = numbers(), np.zeros(4096, np.uint8)
    agent.register_memory([data, back])
    agent.register_memory([(0, 4096, 3, "model/key"), (0, 4096, 4, "")], "OBJ")
    assert move(agent, "WRITE", data, [(0, 4096, 3)], "OBJ") == "OBJ"
    move(agent, "WRITE", data, [(0, 4096, 4)], "OBJ")
    assert Objects.kept == {"/bucket/model/key": data.tobytes(), "/bucket/4": data.tobytes()}
    move(agent, "READ", back, [(0, 4096, 3)], "OBJ")
    assert (back == data).all()
    found = agent.query_memory([(0, 0, 3, "model/key"), (0, 0, 5, "absent")], "OBJ", "OBJ")
    assert found == [{"size": "4096"}, None]
    agent.agent.close()


@pytest.mark.parametrize(("keys", "token"), [
    ({}, "of-environment"),
    ({"access_key": "id", "secret_key": "key"}, None),
    ({"access_key": "id", "secret_key": "key", "session_token": "given"}, "given"),
])
def test_a_session_token_goes_with_its_key(s3: str, monkeypatch: pytest.MonkeyPatch, keys: dict[str, str],
                                           token: str | None) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id-of-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "key-of-environment")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-environment")
    agent = nixl_agent("objects", nixl_agent_config(backends=["UCX"]))
    agent.create_backend("OBJ", {"endpoint_override": s3, "bucket": "bucket", **keys})
    data = numbers()
    agent.register_memory([data])
    agent.register_memory([(0, 4096, 3, "key")], "OBJ")
    assert move(agent, "WRITE", data, [(0, 4096, 3)], "OBJ") == "OBJ"
    assert Objects.tokens == [token] and os.environ["AWS_SESSION_TOKEN"] == "of-environment"
    agent.agent.close()


def test_objects_without_a_bucket(s3: str) -> None:
    agent = nixl_agent("objects", nixl_agent_config(backends=[]))
    agent.create_backend("OBJ", {"endpoint_override": s3})
    with pytest.raises(bindings.nixlInvalidParamError, match="bucket"):
        agent.register_memory([(0, 8, 3, "key")], "OBJ")
    agent.agent.close()
