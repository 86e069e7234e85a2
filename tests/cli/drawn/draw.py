"""Draws command lines: options of all commands with right and wrong values, places for output files, what happens to
the standard descriptors, and which signal comes when."""
import dataclasses
import json
import pathlib
import random
import signal

# Options that keep each run small. Drawn options follow them, and win.
SMALL = {
    "elastic": ["--hidden-dim", "128", "--num-tokens", "4", "--num-topk", "2", "--iterations", "2", "--warmup", "0",
                "--startup-timeout", "2", "--timeout-ms", "1000", "--store-port", "0", "--run-dir", "run"],
    "p2p": ["--buffer-sizes", "8,4KB", "--iterations", "3", "--warmup", "1", "--timeout-ms", "1000", "--port", "0"],
    "bench transfer": ["--max-block-size", "8192", "--num-iter", "32", "--warmup-iter", "16", "--startup-timeout", "2",
                       "--timeout-ms", "1000", "--store-port", "0", "--backend", "SHM", "--total-buffer-size",
                       "1048576"],
    "bench ep": ["--tokens", "4", "--hidden", "128", "--topk", "2", "--iterations", "3", "--warmup", "1",
                 "--startup-timeout", "2", "--timeout-ms", "1000", "--store-port", "0"],
    "bench traffic": ["--iterations", "3", "--warmup", "1", "--alone", "2", "--startup-timeout", "2", "--timeout-ms",
                      "1000", "--store-port", "0"],
    "bench kv": ["--model", "llama-3.1-8b", "--tokens", "64"],
    "bench limits": ["--show"],  # to measure takes minutes on a crowded host
    "compare": ["--resamples", "200"],
    "serve": ["--port", "0"],
    "doctor": ["--timeout-ms", "300"],
}
SMALL["bench nixlbench"] = [*SMALL["bench transfer"], "--runtime-type", "ASIO", "--local-workers", "2", "--asio-port",
                            "{free_port}"]
OPERANDS = {
    "elastic": ["good.json", "bad.json", "huge.json", "cut.json", "missing.json", "folder"],
    "plan": ["good.json", "bad.json", "huge.json", "cut.json", "missing.json", "folder", "empty"],
    "compare": ["figures.json figures.json", "figures.json", "figures.json cut.json", "missing.json figures.json",
                "figures.json,figures.json figures.json", "empty figures.json", "- figures.json"],
    "report": ["figures.json", "cut.json", "run-done", "missing.json", "folder", "empty", "figures.json figures.json"],
    "slurm verify": ["good.json", "cut.json", "missing.json"],
    "slurm dry-run": ["--plan good.json", "cut.json"],
    "slurm run": ["--plan good.json", "missing.json"],
    "slurm status": ["folder", "missing.json"],
    "slurm report": ["folder", "missing.json"],
    "slurm cancel": ["folder", "missing.json"],
    "bench traffic": ["--matrix matrix.txt", "--matrix empty", "--matrix missing.json", "--plan kv.json",
                      "--model llama-3.1-8b --tokens 16", "--matrix matrix.txt", "cut.json", "--matrix folder"],
    "bench transfer": ["", "", "--backend POSIX --num-files 2", "--backend OBJ --obj-bucket-name x"],
    "bench ep": ["", "", "--ranks 3", "--as-hosts 2", "--mode throughput"],
    "help": ["", "elastic", "bench", "bench ep", "nothing"],
}
WEIGHTS = {"elastic": 8, "p2p": 8, "bench transfer": 6, "bench ep": 6, "bench traffic": 8, "serve": 2, "compare": 3,
           "report": 3, "bench limits": 1, "bench nixlbench": 2}
OUTPUTS = {"json": "json", "html": "html", "prometheus": "prometheus", "csv": "csv", "save-baseline": "json"}
NEVER = {"store-port", "asio-port", "port", "install", "share-gpus"}  # would meet other tests, or change nothing
NUMBERS = {"local-workers": 3, "workers": 4, "local": 4, "num-agents": 2, "local-ranks": 4, "num-processes": 9,
           "iterations": 20, "num-iter": 64, "warmup": 5, "warmup-iter": 16, "alone": 4, "repeat": 2, "seconds": 1,
           "startup-timeout": 2, "timeout-ms": 1500, "tokens": 64, "requests": 2, "resamples": 400, "num-threads": 3,
           "pipeline-depth": 4, "as-hosts": 3, "tp": 2, "pp": 2, "decode-tp": 2, "decode-pp": 2, "num-files": 3,
           "num-tokens": 16, "hidden-dim": 256, "num-experts-per-rank": 4, "window": 100000, "page-size": 64,
           "initiators": 2, "num-initiator-dev": 2, "num-target-dev": 2, "nodes": 3, "max-block-size": 65536,
           "start-block-size": 4096, "total-buffer-size": 1 << 20, "max-batch-size": 4, "start-batch-size": 2,
           "operations-per-step": 4, "shards": 4, "depth": 8}
LISTS = {"op": ["dispatch", "combine,both", "dispatch_send"], "tokens": ["1", "1,4"], "hidden": ["128", "128,256"],
         "topk": ["1", "2"], "ranks": ["2", "3", "1,2"], "experts-per-rank": ["2", "1,4"], "dtype": ["bf16", "fp8"],
         "combine-dtype": ["bf16", "logfmt10"], "layout": ["rank-major,packed", "per-expert"],
         "route": ["fresh", "kept"], "processors": ["0"], "skew": ["uniform", "zipf:1.2", "hot:0.5"],
         "memory": ["host", "cuda"]}
TEXTS = {"URL": ["http://127.0.0.1:1", "http://[::1]:1", "http://{silent}", "localhost"],
         "HOST[:PORT]": ["127.0.0.1:1", "127.0.0.1:{silent_port}", "nowhere.invalid:1"], "HOST": ["127.0.0.1", "::1"],
         "HOST:PORT": ["127.0.0.1:0", "127.0.0.1:x", "203.0.113.9:1"], "ADDRESS": ["127.0.0.1", "::1", "203.0.113.9"],
         "SIZE": ["4KB", "1", "1XB"], "SIZES": ["8", "1,4KB,64KB", "0", "8,,8"], "NICS": ["all", "nothing"],
         "PERCENT": ["5", "-1", "x"], "KEY=VALUE": ["op=WRITE", "op"], "PORT": ["0", "x"],
         "FOLDER": ["folder", "missing"], "PLAN": ["good.json", "bad.json"],
         "DIR": ["folder", "fresh", "missing/x/y", "/proc/x", "good.json", "run-done"],
         "NAMES": ["SHM", "POSIX", "UCX,SHM", "LIBFABRIC", "OBJ", "AUTO"], "NAME": ["shm", "file", "x y", "default"],
         "FILE": ["good.json", "cut.json", "missing.json", "folder", "figures.json", "secret", "empty"],
         "TIME": ["5", "1:0:0", "x"], "PATH": ["fresh.bin", "good.json", "folder", "/dev/full"]}
WRONG = ["", "-1", "0", "x", "99999999999999999999", "1e3", "--json", "\xe9", "%s%n", "x" * 300]


@dataclasses.dataclass
class Call:
    """One call of the tool. `outputs`: paths of files that it may write, with their kinds."""
    command: str
    arguments: list
    outputs: dict
    stdin: str = "null"
    stdout: str = "read"
    stderr: str = "read"
    limit: tuple = ()  # resource, value
    signal: int = 0  # sent to the tool after `after_s`, or to a worker if `to_worker`
    to_worker: bool = False
    after_s: float = 0


def place(draw, name, kind, folder):
    """A place for an output file: its path, and whether it may be written there."""
    which = draw.choices(["fresh", "old", "missing", "full", "folder", "below a file", "proc", "link"],
                         [8, 8, 2, 2, 1, 1, 1, 1])[0]
    path = {"fresh": f"{name}.new", "old": f"{name}.old", "missing": f"missing/{name}", "full": "/dev/full",
            "folder": "folder", "below a file": f"good.json/{name}", "proc": f"/proc/{name}",
            "link": "link"}[which]
    if which == "old":
        pathlib.Path(folder, path).write_text(OLD[kind])
    return path


OLD = {"json": json.dumps({"old": True}) + "\n", "html": "<!DOCTYPE html><p>old</p></html>\n",
       "prometheus": "# old\n", "csv": "old\n1\n"}


def number(draw, option):
    if draw.random() < 0.15:
        return str(draw.choice([option.least - 1, option.most + 1]))
    most = max(option.least, min(option.most, NUMBERS.get(option.name, option.most)))
    least = min(most, 300) if option.name == "timeout-ms" else option.least
    return str(draw.choice([least, most, draw.randint(least, most)]))


def value(draw, command, option, outputs, folder):
    """A value of the option; "" if it is a flag, or None if the option is not to be given."""
    if option.name in NEVER:
        return None
    if option.name in OUTPUTS and option.metavar:
        path = place(draw, option.name, OUTPUTS[option.name], folder)
        path = "-" if option.name in ("json", "csv") and draw.random() < 0.2 else path
        outputs[path] = OUTPUTS[option.name]
        return path
    if not option.metavar:
        return ""
    if draw.random() < 0.12:
        return draw.choice(WRONG)
    if option.choices:
        return draw.choice(option.choices)
    if option.least >= 0:
        return number(draw, option)
    if option.metavar == "LIST":
        return draw.choice(LISTS[option.name])
    return draw.choice(TEXTS.get(option.metavar, ["x"]))


def add_fault(draw, call, ends_itself):
    """Draws descriptors, a limit, and a signal."""
    call.stdin = draw.choices(["null", "closed", "text"], [8, 1, 1])[0]
    call.stdout = draw.choices(["read", "closed", "full", "broken", "late"], [10, 1, 1, 2, 2])[0]
    call.stderr = draw.choices(["read", "closed", "full", "broken"], [20, 1, 1, 1])[0]
    if draw.random() < 0.1:
        call.limit = draw.choice([("FSIZE", draw.choice([0, 100, 1000, 5000])), ("NOFILE", draw.randint(12, 40))])
    if not ends_itself or draw.random() < 0.4:
        call.signal = draw.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
        call.to_worker = ends_itself and draw.random() < 0.4
        call.after_s = draw.random() ** 2 * 1.2
        if call.to_worker:
            call.signal = draw.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGABRT])


def draw_call(seed, commands, folder):
    draw = random.Random(seed)
    names = list(commands)
    command = draw.choices(names, [WEIGHTS.get(name, 1) for name in names])[0]
    outputs, arguments, waits = {}, list(SMALL.get(command, [])), command == "serve"
    if command in OPERANDS:
        arguments += draw.choice(OPERANDS[command]).split()
    options = commands[command]
    # Output files are drawn more often than other options.
    wanted = [option for option in options if option.name in OUTPUTS and draw.random() < 0.4]
    wanted += draw.sample(options, min(len(options), draw.choice([0, 0, 1, 1, 2, 3, 5])))
    for option in wanted:
        text = value(draw, command, option, outputs, folder)
        if text is None:
            continue
        waits |= (option.name, text) in (("mode", "target"), ("mode", "initiator")) or option.name in ("listen", "peer")
        arguments += [f"--{option.name}"] if not option.metavar else \
            draw.choice([[f"--{option.name}", text], [f"--{option.name}={text}"]])
    call = Call(command, arguments, outputs)
    add_fault(draw, call, not waits)
    return call
