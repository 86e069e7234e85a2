"""`weft slurm` on a real Slurm: transfers between nodes, and commands in front of the program: containers and a
profiler. Their commands are stand-ins here, which record their arguments and run the program behind them."""

import csv
import io
import json
import pathlib
import socket
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
from batch import Batch  # noqa: E402
from cluster import Cluster  # noqa: E402
from job_checks import run_lists  # noqa: E402
from tool import free_port  # noqa: E402

BENCH = """
[[Tests]]
id = "t0"
name = "t0"
description = "transfers"
test_template_name = "NIXLBench"
num_nodes = 2
[Tests.cmd_args]
docker_image_url = "none"
backend = ["UCX", "LIBFABRIC"]
initiator_seg_type = "DRAM"
target_seg_type = "DRAM"
op_type = "WRITE"
start_block_size = "4kb"
max_block_size = "64kb"
total_buffer_size = "8mb"
num_iter = 50
warmup_iter = 5
check_consistency = true
"""

NSYS = """[Tests.nsys]
trace = "cuda,nvtx"
force_overwrite = true
extra_args = ["-w", "true"]
"""

STAND_IN = """#!/bin/sh
# Notes its arguments, and runs the program that begins at the word that ends in "{first}".
printf '%s\\n' "$SLURMD_NODENAME $*" >> "{notes}"
while [ $# -gt 0 ]; do
  case $1 in */{first}) exec "$@" ;; esac
  shift
done
exit 127
"""


def stand_in(cluster, name, first="weft"):
    """A command of that name in the jobs' PATH; returns the file in which it notes its arguments."""
    folder, notes = cluster.folder / "bin", cluster.folder / f"{name}.notes"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(STAND_IN.format(first=first, notes=notes))
    (folder / name).chmod(0o755)
    if str(folder) not in cluster.environment["PATH"]:
        cluster.environment["PATH"] = f"{folder}:{cluster.environment['PATH']}"
    return notes


def check_table(text, rows):
    """What CloudAI's users read of a benchmark: the latency is that of a block, by the bandwidth."""
    table = list(csv.DictReader(io.StringIO(text)))
    assert [int(line["block_size"]) for line in table] == [row["keys"]["bytes"] for row in rows], text
    for line, row in zip(table, rows):
        bandwidth = next(figure["value"] for figure in row["figures"] if figure["name"] == "bandwidth")
        assert line["batch_size"] == "1" and float(line["bw_gb_sec"]) == bandwidth, (line, row)
        assert abs(float(line["avg_lat"]) * bandwidth * 1e3 / row["keys"]["bytes"] - 1) < 1e-4, (line, row)


def transfers_between_nodes(cluster):
    """NIXLBench by weft: workers of two nodes meet and check what they write; the grid of back ends has a best step."""
    batch = Batch(cluster, "bench")
    batch.tests.append(BENCH)
    text = batch.run("--single-sbatch", "--follow")
    assert text.count(": passed") == 2, text
    report = json.loads(batch.weft("report", batch.path, "--format", "json", "--html"))
    for run, backend in zip(report["runs"], ("UCX", "LIBFABRIC")):
        rows = run["figures"]["rows"]
        assert run["action"] == {"backend": backend} and run["figures"]["passed"] and rows, run
        assert {row["keys"]["bytes"] for row in rows} == {4096, 8192, 16384, 32768, 65536}, rows
        highest = max(figure["value"] for row in rows for figure in row["figures"] if figure["name"] == "bandwidth")
        assert run["default"] == highest > 0, run
        assert (batch.path / run["directory"] / "report.html").stat().st_size > 1000
        check_table((batch.path / run["directory"] / "nixlbench.csv").read_text(), rows)
        assert sorted(file.name for file in (batch.path / run["directory"]).glob("node-*.log")), "a step for each node"
    best = max(report["runs"], key=lambda run: run["default"])
    assert report["best"]["t0"]["step"] == best["step"], report["best"]


def in_apptainer(cluster):
    """`apptainer exec` with the run's directory, the mounts and the image, in front of each agent."""
    notes = stand_in(cluster, "apptainer")
    batch = Batch(cluster, "apptainer").add("no_expansion", slots=2)
    batch.run("--container", "apptainer", "--container-image", "/images/weft.sif", "--container-mounts", "/data:/data",
              "--follow")
    lines = notes.read_text().splitlines()
    assert len(lines) == 2 and {line.split()[0] for line in lines} == {"n1", "n2"}, lines
    directory = batch.path / "t0"
    for line in lines:
        assert f" exec --bind {directory}:{directory},/data:/data /images/weft.sif " in line, line


def under_nsys(cluster):
    """`nsys profile` with the options of the test's table, in front of each agent, and a report for each node."""
    notes = stand_in(cluster, "nsys")
    batch = Batch(cluster, "nsys").add("no_expansion", slots=2, test=NSYS)
    (number,) = batch.start()
    batch.follow()
    lines = notes.read_text().splitlines()
    output = batch.path / "t0" / f"job{number}.0-nsys-%q{{SLURMD_NODENAME}}"
    assert len(lines) == 2 and {line.split()[0] for line in lines} == {"n1", "n2"}, lines
    for line in lines:
        assert f" profile --trace=cuda,nvtx --force-overwrite=true -w true --output {output} " in line, line


def own_program(cluster):
    """--as-written: processes start in their phases, and a text in a log makes a run fail that ends with 0."""
    notes = cluster.folder / "notes"
    notes.mkdir()
    plan = [[0, 1], [0, 1, 2, 3, 4], [0, 1, 2, -4], [0, 1, 2, 4]]
    program = str(pathlib.Path(__file__).resolve().parent / "support/own_program.py")
    for name, says, status in (("own", "", 0), ("fatal", "no plan phases were found for rank 9, exiting", 1)):
        port = free_port()
        batch = Batch(cluster, name).add(
            plan, test=f'extra_env_vars = {{ NOTES = "{notes}", SAYS_n2 = "{says}" }}',
            python_executable=sys.executable, elastic_script=program, store_port=port, port=port)
        batch.run("--as-written", "--container", "none", "--plan", batch.work / f"{name}-0.json", "--follow",
                  status=status)
        (run,) = json.loads(batch.weft("report", batch.path, "--format", "json"))["runs"]
        assert run["state"] == ("failed" if status else "passed") and run["default"] == 30.5, run
        assert (says in run["why"]) and ("node-n2.log:" in run["why"]) == bool(status), run["why"]
        started = (notes / "started").read_text().splitlines()
        assert sorted(started) == ["0 n1 2", "1 n1 2", "1 n2 1", "3 n2 1"], started
        (notes / "started").unlink()


def over_ipv6():
    """Slurm says addresses of IPv6 without brackets: agents and workers find the store of the first node there."""
    try:
        with socket.socket(socket.AF_INET6) as one:
            one.bind(("::1", 0))
    except OSError:
        print("left out: no IPv6 here")
        return
    with Cluster(address="::1") as cluster:
        assert "1 run passed" in Batch(cluster, "six").add("no_expansion", slots=2).run("--follow")
        batch = Batch(cluster, "sixes")
        batch.tests.append(BENCH.replace('["UCX", "LIBFABRIC"]', '"LIBFABRIC"'))
        assert "1 run passed" in batch.run("--follow")


run_lists({"programs": (transfers_between_nodes, in_apptainer, under_nsys, own_program)}, more=(over_ipv6,))
