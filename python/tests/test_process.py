"""What happens to a process: forks, signals, the end, peers that die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from conftest import SIZES, end, start

import weft


@pytest.mark.skipif(sys.version_info < (3, 9), reason="no waitstatus_to_exitcode")
def test_fork(store: weft.Store) -> None:
    agent, rank = weft.Agent("a", store=store), weft.ep.Rank(store, rank=0, founders=[0], **SIZES)
    region, here = agent.register(bytearray(8)), agent.register(bytearray(8))
    transfer = agent.write(region, here)
    watch = store.watch("/")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for call in (agent.peers, transfer.post, transfer.poll, rank.activate, rank.barrier, lambda: store.get("/"),
                         lambda: watch.next(0), lambda: agent.register(bytearray(8)), agent.metadata):
                try:
                    call()
                except weft.errors.ClosedError as error:
                    assert "forked" in str(error)
                else:
                    raise AssertionError(call)
            for thing in (transfer, region, agent, rank, watch, store):
                thing.close()
            with weft.Agent("child") as fresh:
                assert fresh.peers() == []
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    rank.activate()
    transfer.run()
    for thing in (transfer, agent, rank, watch):
        thing.close()


WAITS = {
    "transfer": "t = a.write(a.register(bytearray(8)), b.register(bytearray(8)).descriptor(), a.load(b.metadata()));"
                "t.run(); go(lambda: [t.wait(0.01) for _ in iter(int, 1)])",
    "fetch": "go(lambda: a.fetch('nobody', timeout=None))",
    "news": "go(lambda: a.wait_news(None))",
    "watch": "w = store.watch('/'); w.next(); go(lambda: w.next())",
    "activate": "go(lambda: rank.activate(None))",
    "open": "go(lambda: weft.ep.Rank(store, rank=0, hidden=128, capacity=2, memory='auto', timeout=None))",
    "connect": "go(lambda: rank.connect([1], None))",
    "request": "import socket; s = socket.create_server(('127.0.0.1', 0));"
               "silent = weft.Store(f'http://127.0.0.1:{s.getsockname()[1]}', request_timeout=60);"
               "go(lambda: silent.get('/'))",
    "meet": "import socket; s = socket.create_server(('127.0.0.1', 0));"
            "go(lambda: c.meet(f'127.0.0.1:{s.getsockname()[1]}', timeout=None))",
}
OBEYS = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # also as a job in the background
PROGRAM = f"""
{OBEYS}
import sys, weft
store = weft.Store.local()
a, b = weft.Agent("a", store=store, transports="shm"), weft.Agent("b", transports="shm")
c = weft.Agent("c", token="secret", transports="shm")
rank = weft.ep.Rank(store, rank=0, founders=[0, 1], hidden=128, capacity=2)
def go(wait):
    try:
        print("waiting", flush=True)
        wait()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
exec(sys.argv[1])
"""


QUERY = f"""
{OBEYS}
import os, socket, threading, weft
server, kept = socket.create_server(("127.0.0.1", 0)), []
os.environ.update(AWS_ACCESS_KEY_ID="id", AWS_SECRET_ACCESS_KEY="key", AWS_REGION="here",
                  AWS_ENDPOINT_URL_S3=f"http://127.0.0.1:{{server.getsockname()[1]}}")
def interrupt():
    kept.append(server.accept()[0]) # it gets no answer
    kept[0].recv(1)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
agent = weft.Agent("a", transports="object")
try:
    agent.query(kind=weft.Kind.OBJECT, path="bucket/key", timeout=None)
except KeyboardInterrupt:
    agent.close()
    print("closed")
"""


@pytest.fixture(scope="module")
def interrupted() -> Iterator[dict[str, subprocess.Popen[str]]]:
    """A process for each wait, which begins when those before wait, and one for the query: some take seconds to end,
    all at once."""
    processes: dict[str, subprocess.Popen[str]] = {}
    try:
        if next(one for one in weft.transports() if one.name == "object").works:
            processes["query"] = start(QUERY)
        for name, wait in WAITS.items():
            processes[name] = process = start(PROGRAM, wait)
            assert process.stdout is not None and process.stdout.readline() == "waiting\n", name
            process.send_signal(signal.SIGINT)
        yield processes
    finally:
        for process in processes.values():
            process.kill()
            process.communicate()


@pytest.mark.parametrize("wait", WAITS)
def test_control_c(wait: str, interrupted: dict[str, subprocess.Popen[str]]) -> None:
    assert end(interrupted[wait]) == "interrupted\n"


def test_close_after_an_interrupted_query(interrupted: dict[str, subprocess.Popen[str]]) -> None:
    if "query" not in interrupted:
        pytest.skip("there is no transport of objects")
    assert end(interrupted["query"]) == "closed\n"


OPERATION = f"""
{OBEYS}
import sys, threading, numpy as np, weft
from weft import ep
store = weft.Store.local()
sizes = dict(hidden=128, topk=1, experts_per_rank=1, max_tokens=2, capacity=2, op_timeout=40)
ranks = [ep.Rank(store, rank=i, founders=[0, 1], **sizes) for i in range(2)]
other = threading.Thread(target=ranks[1].activate)
other.start()
ranks[0].activate()
other.join()
try:
    print("waiting", flush=True)
    ranks[0].barrier()  # the other one does not come
except KeyboardInterrupt:
    print("interrupted", flush=True)
other = threading.Thread(target=ranks[1].barrier)
other.start()
ranks[0].barrier()  # the same call again goes on where it was
other.join()
print("met", flush=True)
"""


def test_control_c_in_an_operation() -> None:
    process = start(OPERATION)
    assert process.stdout is not None and process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    assert end(process) == "interrupted\nmet\n"


DIES = """
import sys, weft
agent = weft.Agent("target", token="secret", listen="127.0.0.1:0")
memory = agent.register(bytearray(1 << 20))
print(agent.port, memory.address, flush=True)
sys.stdin.read()
"""


def test_a_peer_that_dies() -> None:
    process = start(DIES)
    assert process.stdout is not None
    port, address = process.stdout.readline().split()
    with weft.Agent("a", token="secret", transports="shm") as agent:
        peer = agent.meet(f"127.0.0.1:{port}")
        here = agent.register(np.ones(1 << 20, np.uint8))
        with agent.write(here, (int(address), 1 << 20), peer) as transfer:
            transfer.run()
            process.kill()
            end(process, -9)
            with pytest.raises(weft.errors.PeerLostError):
                while True:
                    transfer.run()
            while (event := agent.next_event()) is None or event.kind != weft.EventKind.PEER_LOST:
                agent.wait_news(1)
        assert agent.peer(peer).state == weft.PeerState.LOST


def test_the_end_without_a_close() -> None:
    end(start("""
import weft
store = weft.Store.local()
agents = [weft.Agent(name, store=store) for name in "ab"]
here, there = (agent.register(bytearray(1 << 22)) for agent in agents)
transfer = agents[0].write(here, there.descriptor(), agents[0].load(agents[1].metadata()))
transfer.post()
rank = weft.ep.Rank(store, rank=0, founders=[0], hidden=128)
memory = memoryview(agents[0].allocate(64).allocated)
other = weft.ep.Rank(store, rank=0, founders=[0], hidden=128, prefix="/other/", mode="throughput", zero_copy_bytes=64)
rows = memoryview(other.zero_copy)
"""))


PROGRAM_DAEMONS = """
import threading, time, weft
store = weft.Store.local()
server = weft.Server()
client = server.client()
def follow(one):
    for _ in one.watch("/"):
        pass
def ask(one):
    try:
        while True:
            one.range("/", prefix=True)
    except weft.errors.Error:
        pass
for what in (follow, ask):
    for one in (store, client):
        threading.Thread(target=what, args=(one,), daemon=True).start()
class Late:
    def __del__(self):
        time.sleep(0.2)  # for so long at least the interpreter has ended when the process does
weft.late = Late()
time.sleep(0.3)
print("ends", flush=True)
"""


def test_the_end_while_daemon_threads_call() -> None:
    for process in [start(PROGRAM_DAEMONS) for _ in range(3)]:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, "ends\n", "")


PROGRAM_BACK = """
import threading, time, weft
called = threading.Event()
class Slow:
    def __dlpack_device__(self):
        called.set()
        time.sleep(0.2)  # meanwhile the interpreter ends
    def __dlpack__(self, **options):
        raise AssertionError
threading.Thread(target=weft.Buffer, args=(Slow(),), daemon=True).start()
called.wait()
class Late:
    def __del__(self):
        time.sleep(0.4)  # for so long at least the interpreter has ended when the process does
weft.late = Late()
print("ends", flush=True)
"""


def test_the_end_while_a_call_of_a_daemon_thread_runs_python_code() -> None:
    process = start(PROGRAM_BACK)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "ends\n", "")


PROGRAM_LATE = """
import atexit, threading
ends, done = threading.Event(), threading.Event()
def wait_for_the_thread():
    ends.set()
    assert done.wait(60)
    weft.Agent("main").close()  # the process does not go on before this thread
    print("ends", flush=True)
atexit.register(wait_for_the_thread)  # before the import: it is called after weft has closed everything
import weft
store = weft.Store.local()
def open_late():
    ends.wait()
    for late in (lambda: weft.Agent("late"), lambda: weft.ep.Rank(store, hidden=128), weft.Store.local, weft.Server,
                 lambda: weft.Store("http://127.0.0.1:1"), lambda: store.watch("/")):
        try:
            late()
            print("opened", flush=True)
        except weft.errors.ClosedError:
            pass
    done.set()
threading.Thread(target=open_late, daemon=True).start()
"""


def test_no_other_thread_opens_anything_once_the_process_ends() -> None:
    """Nobody would close it, and its threads would use libraries while the process takes them down."""
    assert end(start(PROGRAM_LATE)) == "ends\n"
