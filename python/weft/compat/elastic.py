"""The elastic test of NIXL EP on Weft: ``python -m weft.compat.elastic --plan PLAN``, with that program's options.

It starts ``weft elastic``, which runs the same plans, makes the same checks and more, and prints the same lines and a
report. Further options are passed to it unchanged. Differences: ranks run on GPUs if each rank can have its own GPU,
else in host memory (``--memory`` and WEFT_MEMORY change this); the exit status is not 0 if a phase did not pass.

Agents on several hosts authenticate each other by a token. Without WEFT_TOKEN the first agent writes a random token
into a file beside the plan, PLAN.token, which only its user can read, and removes it at the end; agents with
``--tcp-server`` read the token there. So the plan has to be on a file system that the hosts share, as in a Slurm job. A
plan from a pipe has no such file: several hosts then need WEFT_TOKEN.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

TOKEN_WAIT_S = 60.0
"""how long an agent that joins waits for the token of the first one"""


def make_parser() -> argparse.ArgumentParser:
    """The options of the original program, and the options of the tool that decide how it is started."""
    parser = argparse.ArgumentParser(prog="python -m weft.compat.elastic", allow_abbrev=False,
                                     description="Runs an elastic plan by 'weft elastic'.",
                                     epilog="Further options go to 'weft elastic': see 'weft elastic --help'.")
    number = {"type": int, "metavar": "N"}
    parser.add_argument("--plan", required=True, help="file of the plan: a JSON list of phases, lists of ranks")
    parser.add_argument("--num-processes", **number, help="rank processes of this host")  # type: ignore[arg-type]
    parser.add_argument("--num-tokens", **number, help="tokens of a rank [128]")  # type: ignore[arg-type]
    parser.add_argument("--num-experts-per-rank", **number, help="experts of a rank [2]")  # type: ignore[arg-type]
    parser.add_argument("--hidden-dim", **number, help="values of a token [7168]")  # type: ignore[arg-type]
    parser.add_argument("--num-topk", **number, help="experts that a token selects [8]")  # type: ignore[arg-type]
    parser.add_argument("--tcp-server", metavar="HOST", help="host of the first agent, for all others")
    parser.add_argument("--kineto", action="store_true", help="no effect: times are always measured")
    parser.add_argument("--disable-ll-nvlink", action="store_true", help="no effect: WEFT_EP_TRANSPORT names a way")
    parser.add_argument("--timeout-ms", **number, default=30000,  # type: ignore[arg-type]
                        help="a peer that is silent for so long is lost [%(default)s]")
    parser.add_argument("--validate-phase-failures", action="store_true",
                        help="judges the operations between a loss and the next view too")
    return parser


def command(options: argparse.Namespace, further: Sequence[str]) -> list[str]:
    """The arguments of the tool."""
    made = ["elastic", "--plan", options.plan]
    for name in ("num_processes", "num_tokens", "num_experts_per_rank", "hidden_dim", "num_topk", "tcp_server",
                 "timeout_ms"):
        value = getattr(options, name)
        if value is not None:
            made += [f"--{name.replace('_', '-')}", str(value)]
    made += [f"--{name.replace('_', '-')}" for name in ("kineto", "disable_ll_nvlink", "validate_phase_failures")
             if getattr(options, name)]
    if "WEFT_MEMORY" not in os.environ and not any(word.split("=")[0] == "--memory" for word in further):
        made += ["--memory", "auto"]
    return [*made, *further]


def needs_others(options: argparse.Namespace) -> bool:
    """Whether the plan ever has more ranks than this host has processes; a rank that is killed in a phase also has a
    process in that phase. If the plan cannot be read, the result is False, and the tool reports what is wrong. The
    result is also False for a pipe, because only the tool may read it."""
    if options.num_processes is None or not Path(options.plan).is_file():
        return False
    try:
        phases = json.loads(Path(options.plan).read_text())
        return max(len(phase) for phase in phases) > int(options.num_processes)
    except (OSError, ValueError, TypeError):
        return False


def make_token(path: Path) -> str:
    """A random token, in a new file that only this user can read."""
    token = secrets.token_urlsafe(24)
    path.unlink(missing_ok=True)  # left by a run that was killed
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(f"{token}\n")
    return token


def read_token(path: Path, seconds: float) -> str | None:
    """The token that the first agent has written; None if it did not in time; the tool then reports that it is
    missing."""
    until = time.monotonic() + seconds
    while True:
        try:
            text = path.read_text()
            if text.endswith("\n"):
                return text.strip()
        except FileNotFoundError:
            pass
        if time.monotonic() > until:
            return None
        time.sleep(0.1)


def run(arguments: Sequence[str], environment: dict[str, str]) -> int:
    """Runs the tool, passes signals on to it, and returns its exit status as a shell does."""
    tool = Path(__file__).parents[1] / "weft-tool"
    try:
        process = subprocess.Popen([str(tool), *arguments], env=environment, close_fds=False)  # --plan <(...)
    except OSError as error:
        print(f"weft.compat.elastic: cannot run {tool}: {error.strerror}", file=sys.stderr)
        return 1
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda which, _: process.send_signal(which))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the tool as well
    status = process.wait()
    return status if status >= 0 else 128 - status


def main(words: Sequence[str] | None = None) -> int:
    """The program; its exit status is that of ``weft elastic``."""
    options, further = make_parser().parse_known_args(words)
    environment = dict(os.environ)
    shared = Path(f"{options.plan}.token")
    mine = False
    given = {word.split("=")[0] for word in further}
    if "WEFT_TOKEN" not in environment and not given & {"--token", "--token-file", "--store", "--etcd-server"}:
        token = None
        if options.tcp_server:
            token = read_token(shared, TOKEN_WAIT_S)
        elif needs_others(options):
            try:
                token, mine = make_token(shared), True
            except OSError as error:
                print(f"weft.compat.elastic: no token can be put into {shared} ({error.strerror}): set WEFT_TOKEN, to "
                      "the same secret on all hosts", file=sys.stderr)
                return 1
        if token:
            environment["WEFT_TOKEN"] = token
    try:
        return run(command(options, further), environment)
    finally:
        if mine:
            shared.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
