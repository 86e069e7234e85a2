"""`python -m weft.compat.elastic`: options, lines, exit status, and the token of several agents."""

from __future__ import annotations

import json
import os
import pathlib
import re
import stat
import subprocess
import sys

import pytest

from weft.compat import elastic

SIZES = ["--num-tokens", "8", "--hidden-dim", "256", "--num-topk", "2", "--iterations", "2", "--memory", "host"]


def start(folder: pathlib.Path, *words: str) -> subprocess.Popen[str]:
    """The program in a folder, without a token of the environment's."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
    return subprocess.Popen([sys.executable, "-m", "weft.compat.elastic", *words], cwd=folder, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)


def test_a_plan_with_a_loss(tmp_path: pathlib.Path) -> None:
    (tmp_path / "plan.json").write_text("[[0, 1], [0, 1, 2], [0, 1, -2]]")
    out, err = start(tmp_path, "--plan", "plan.json", "--num-processes", "3", "--num-experts-per-rank", "2", "--kineto",
                     "--disable-ll-nvlink", "--validate-phase-failures", *SIZES).communicate(timeout=100)
    assert "3 phases" in out, out + err
    number = r"\d+\.\d+"
    for rank, phases in ((0, 3), (1, 3), (2, 1)):
        begun = re.findall(rf"^global_rank={rank}, local_rank=\d+ -> start phase (\d+)$", out, re.M)
        ended = re.findall(rf"^global_rank={rank}, local_rank=\d+ -> end phase (\d+)$", out, re.M)
        assert len(ended) == phases and begun[:len(ended)] == ended
        assert re.search(rf"^\[rank {rank}\] Dispatch \+ combine bandwidth: {number} GB/s, avg_t={number} us, "
                         rf"min_t={number} us, max_t={number} us$", out, re.M)
        assert re.search(rf"^\[rank {rank}\] Dispatch bandwidth: {number} GB/s, avg_t={number} us \| Combine "
                         rf"bandwidth: {number} GB/s, avg_t={number} us$", out, re.M)


def test_wrong_plan_and_wrong_option(tmp_path: pathlib.Path) -> None:
    (tmp_path / "plan.json").write_text("[[0, 0]]")
    for words, sentence in ((["--plan", "plan.json"], "rank 0"), (["--plan", "none.json"], "none.json"),
                            (["--plan", "plan.json", "--num-topk", "many"], "many")):
        process = start(tmp_path, *words)
        _, err = process.communicate(timeout=60)
        assert process.returncode != 0 and sentence in err, err


@pytest.mark.parametrize("way", ["/dev/stdin", "<(cat)"])
def test_a_plan_from_a_pipe(tmp_path: pathlib.Path, way: str) -> None:
    """Which is read once, by the tool, and is open there too."""
    words = ["-m", "weft.compat.elastic", "--num-processes", "2", *SIZES]
    done = subprocess.run(["bash", "-c", f'exec "$0" "$@" --plan {way}', sys.executable, *words], input="[[0, 1]]",
                          text=True, capture_output=True, check=False, cwd=tmp_path, timeout=100)
    assert done.returncode == 0 and "passed 1 phase" in done.stdout, done.stdout + done.stderr


def test_two_agents_and_their_token(tmp_path: pathlib.Path) -> None:
    (tmp_path / "plan.json").write_text("[[0], [0, 1]]")
    words = ["--plan", "plan.json", "--num-processes", "1", *SIZES]
    lead = start(tmp_path, *words, "--listen", "127.0.0.1", "--num-agents", "2", "--store-port", "0")
    lines = []
    assert lead.stderr is not None
    for line in lead.stderr:  # it says where it is found
        lines.append(line)
        found = re.search(r"--rank-server \S*?(127\.0\.0\.1:\d+)", line)
        if found:
            break
    else:
        raise AssertionError("".join(lines))
    mode = stat.S_IMODE((tmp_path / "plan.json.token").stat().st_mode)
    other = start(tmp_path, *words, "--tcp-server", found.group(1))
    told, error = other.communicate(timeout=100)
    out, err = lead.communicate(timeout=100)
    assert other.returncode == 0, told + error
    assert lead.returncode == 0, out + err
    assert mode == 0o600 and not (tmp_path / "plan.json.token").exists()


def test_no_room_for_a_token(tmp_path: pathlib.Path) -> None:
    (tmp_path / "plan.json").write_text("[[0], [0, 1]]")
    (tmp_path / "plan.json.token").mkdir()
    process = start(tmp_path, "--plan", "plan.json", "--num-processes", "1")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and "set WEFT_TOKEN" in err and "Traceback" not in err, err


def test_arguments(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEFT_MEMORY", raising=False)
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps([[0, 1], [0, -1]]))
    parser = elastic.make_parser()
    options, further = parser.parse_known_args(["--plan", str(plan), "--num-processes=2", "--kineto", "--dtype", "fp8"])
    assert elastic.command(options, further) == ["elastic", "--plan", str(plan), "--num-processes", "2", "--timeout-ms",
                                                 "30000", "--kineto", "--memory", "auto", "--dtype", "fp8"]
    assert not elastic.needs_others(options)
    options.num_processes = 1
    assert elastic.needs_others(options)
    for text in ("no plan", "5", "[]", "[1, 2]"):
        plan.write_text(text)
        assert not elastic.needs_others(options)
    options.num_processes = 2
    plan.write_text(json.dumps([[0, 1], [0, -1, 2]]))
    assert elastic.needs_others(options)
    assert elastic.read_token(tmp_path / "none", 0) is None
