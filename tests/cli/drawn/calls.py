#!/usr/bin/env python3
"""Calls the tool with drawn command lines, while its descriptors, files and processes fail: each call ends in time with
a documented exit status and a reason, and leaves whole files and nothing else. calls.py SEED repeats one call,
WEFT_TEST_CALLS=N makes N calls, and WEFT_SHOW=1 prints all of them."""
import contextlib
import os
import pathlib
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import draw
import options
import outcome

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import tool  # noqa: E402
import machine  # noqa: E402, from the folder that tool has added
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts"))
import left_behind  # noqa: E402

SLOWED = 4 if os.environ.get("WEFT_TEST_SLOWED") or machine.is_emulated(tool.WEFT) else 1
DEADLINE_S = 60 * SLOWED
LATE_S = 1.0
SECONDS = 4.0
AT_ONCE = 4


def make_files(folder):
    """The files that drawn arguments name."""
    files = {"good.json": "[[0, 1], [0, 1, 2], [0, -1, 2]]", "bad.json": "[[0, 1], [0, 0]]", "cut.json": '{"a": [1, 2',
             "huge.json": "[[" + ", ".join(map(str, range(5000))) + "]]", "empty": "", "secret": "token-of-a-test\n",
             "matrix.txt": "0 4K\n1K 0\n"}
    for name, text in files.items():
        pathlib.Path(folder, name).write_text(text)
    os.chmod(f"{folder}/secret", 0o600)
    os.mkdir(f"{folder}/folder")
    os.symlink("good.json", f"{folder}/link")


def make_results(folder, environment):
    """Results of earlier runs, which some commands read."""
    def run(*arguments, **more):
        subprocess.run([tool.WEFT, *arguments], cwd=folder, env=environment, check=True, timeout=120,
                       stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **{"stdout": subprocess.DEVNULL, **more})
    with open(f"{folder}/kv.json", "w", encoding="utf-8") as file:
        run("bench", "kv", "--model", "llama-3.1-8b", "--tokens", "16", "--json", stdout=file)
    run("bench", "transfer", *draw.SMALL["bench transfer"], "--timeout-ms", "30000", "--startup-timeout", "60",
        "--json", "figures.json")
    run("elastic", *draw.SMALL["elastic"], "--timeout-ms", "30000", "--startup-timeout", "60", "good.json")
    os.rename(f"{folder}/run", f"{folder}/run-done")


def descriptor(which, kind, stack):
    """What the tool gets as standard input, output or error; None: closed."""
    if kind in ("read", "late", "broken"):
        return subprocess.PIPE
    name = {"null": os.devnull, "full": "/dev/full", "closed": os.devnull}.get(kind, "good.json")
    return stack.enter_context(open(name, "rb" if which == 0 else "wb"))


class Started:
    """A call that runs."""

    def __init__(self, call, folder, environment):
        self.call, self.texts, self.readers = call, {1: b"", 2: b""}, []
        kinds = [call.stdin, call.stdout, call.stderr]

        def prepare():
            for fd, kind in enumerate(kinds):
                if kind == "closed":
                    os.close(fd)
            if call.limit:
                which = getattr(resource, "RLIMIT_" + call.limit[0])
                resource.setrlimit(which, (call.limit[1], resource.getrlimit(which)[1]))

        with contextlib.ExitStack() as stack:
            self.process = subprocess.Popen(
                [tool.WEFT, *call.command.split(), *call.arguments], cwd=folder, env=environment, preexec_fn=prepare,
                stdin=stack.enter_context(open(os.devnull if call.stdin != "text" else f"{folder}/good.json", "rb")),
                stdout=descriptor(1, call.stdout, stack), stderr=descriptor(2, call.stderr, stack))
        for fd, kind, end in ((1, call.stdout, self.process.stdout), (2, call.stderr, self.process.stderr)):
            if kind == "broken":
                end.close()
            elif end:
                reader = threading.Thread(target=self.read, args=(fd, end, LATE_S if kind == "late" else 0))
                reader.start()
                self.readers.append(reader)

    def read(self, fd, end, late_s):
        time.sleep(late_s)
        with end:
            self.texts[fd] = end.read()

    def workers(self, mark):
        return [pid for pid in left_behind.processes(mark) if pid != self.process.pid]

    def disturb(self, mark):
        """Sends the drawn signal."""
        call = self.call
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(call.after_s)
        if self.process.poll() is not None:
            return
        if not call.to_worker:
            self.process.send_signal(call.signal)
            return
        end = time.monotonic() + 1
        while time.monotonic() < end and self.process.poll() is None:
            for pid in self.workers(mark)[:1]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, call.signal)
                return
            time.sleep(0.01)  # between two looks for a worker

    def finish(self, seconds):
        """The exit status; None: it did not end."""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = None
            self.process.kill()
            self.process.wait()
        return status


def what_is_left(mark, patience_s):
    """The processes that are still there, after some time to end."""
    return left_behind.wait_for_the_end(mark, patience_s)


def temporary_files(folder, status):
    """Temporary files that stay. A killed process cannot remove its own."""
    if status < 0:
        return []
    return [str(path) for path in [*folder.rglob("*.tmp"), *(folder / "tmp").iterdir()]
            if not path.name.startswith("weft-bench-")]  # where figures go that cannot be written


def environment_of(call, folder):
    environment = tool.environment(TMPDIR=str(folder / "tmp"), XDG_CACHE_HOME=str(folder / "cache"))
    # LeakSanitizer's own process looks like a worker, needs descriptors, and waits forever if it is killed.
    if call.to_worker or call.limit:
        environment["ASAN_OPTIONS"] = environment.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
    return environment


def run_call(seed, commands, example, silent):
    """Makes the call of the seed; returns the complaints."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="weft-drawn-"))
    try:
        shutil.copytree(example, folder, symlinks=True, dirs_exist_ok=True)
        (folder / "tmp").mkdir()
        call = draw.draw_call(seed, commands, folder)
        for mark, text in (("{silent}", f"127.0.0.1:{silent}"), ("{silent_port}", str(silent)),
                           ("{free_port}", str(tool.free_port()))):
            call.arguments = [argument.replace(mark, text) for argument in call.arguments]
        environment = environment_of(call, folder)
        mark = b"TMPDIR=" + os.fsencode(folder / "tmp")
        began = time.monotonic()
        started = Started(call, folder, environment)
        if call.signal:
            started.disturb(mark)
        status = started.finish(DEADLINE_S)
        took = time.monotonic() - began
        complaints = [] if status is not None else [f"did not end within {DEADLINE_S} s"]
        left = what_is_left(mark, 5 * SLOWED)
        complaints += [f"left process {pid}: {line}" for pid, line in left.items()]
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for reader in started.readers:
            reader.join()
        out, err = (started.texts[fd].decode(errors="replace") for fd in (1, 2))
        if status is not None:
            complaints += outcome.Judge(call, folder, status, out, err).all()
            complaints += [f"left file {name}" for name in temporary_files(folder, status)]
        if os.environ.get("WEFT_SHOW") or complaints:
            print(f"\nseed {seed}, {took:.1f} s, status {status}: {call}", f"\n--- out\n{out[-1500:]}",
                  f"\n--- err\n{err[-3000:]}",
                  *complaints, sep="\n! ", flush=True)
        return complaints, call.command, status
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    seeds = list(map(int, sys.argv[1:]))
    count = int(os.environ.get("WEFT_TEST_CALLS", 0))
    first = int(os.environ.get("WEFT_SEED", random.randrange(1 << 40)))
    silent = socket.create_server(("127.0.0.1", 0))  # takes connections and never answers
    began = time.time()
    commands = options.read(tool.WEFT, tool.environment())
    failed, made, statuses, lock = [], 0, {}, threading.Lock()
    with tempfile.TemporaryDirectory() as example:
        make_files(example)
        make_results(example, tool.environment())
        until = time.monotonic() + SECONDS
        numbers = iter(seeds or range(first, first + (count or 1 << 30)))

        def work():
            nonlocal made
            while seeds or count or time.monotonic() < until:
                with lock:
                    seed = next(numbers, None)
                if seed is None:
                    return
                complaints, command, status = run_call(seed, commands, example, silent.getsockname()[1])
                with lock:
                    made += 1
                    statuses[command, status] = statuses.get((command, status), 0) + 1
                    if complaints:
                        failed.append(seed)
        threads = [threading.Thread(target=work) for _ in range(AT_ONCE)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    shared = [str(path) for path in left_behind.shared_memory(began)]
    print(f"{made} calls from seed {first}; failed: {failed}")
    if os.environ.get("WEFT_SHOW"):
        print(*sorted(statuses.items(), key=str), sep="\n")
    assert made > 0
    assert not shared, f"left in /dev/shm: {shared}"
    assert not failed, f"failed seeds: {failed}"


if __name__ == "__main__":
    main()
