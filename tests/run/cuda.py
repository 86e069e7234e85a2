#!/usr/bin/env python3
"""Plans on real GPUs, with the embedded store: $WEFT is the tool. Exits 77 where there are no two GPUs, saying why.

A name behind it runs that one test alone. Needs Python 3.8 or later and nothing else.
"""

import glob
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

WEFT = os.environ.get("WEFT") or sys.exit("WEFT is not set: it is the path of the tool")
SKIPPED = 77
DEADLINE = 180.0  # seconds: contexts of CUDA take some
SMALL = ["--hidden-dim", "512", "--num-tokens", "32", "--iterations", "4", "--warmup", "2", "--startup-timeout", "90",
         "--timeout-ms", "5000"]
# Founded, grown, killed and come back, shrunk, grown, and one that takes the place and the GPU of another.
ON_TWO = [[0], [0, 1], [0, -1], [0, 1], [1], [0, 1], [1, 2]]
ON_FOUR = [[0, 1], [0, 1, 2, 3], [0, 1, -2, 3], [0, 1, 2, 3], [0, 3], [0, 4, 5, 6]]


def gpus():
    """What `weft info` tells of them."""
    told = subprocess.run([WEFT, "info", "--json"], capture_output=True, text=True, timeout=DEADLINE, check=True)
    return json.loads(told.stdout)["gpus"]


def states_of(plan, index):
    expected = {abs(rank): "not_member" for phase in plan for rank in phase}
    expected.update({abs(rank): "passed" if rank >= 0 else "killed" for rank in plan[index]})
    return {str(rank): state for rank, state in expected.items()}


def check_gpus(events):
    """A GPU has one rank at a time."""
    on = {}
    for event in events:
        if event["kind"] == "launch":
            assert event["gpu"] >= 0 and event["gpu"] not in on.values(), (event, on)
            on[event["rank"]] = event["gpu"]
        elif event["kind"] == "exit":
            on.pop(event["rank"], None)


def check(plan, results, events, text, shared):
    assert results["passed"] and results["config"]["memory"] == "cuda", results["error"]
    for index, phase in enumerate(results["phases"]):
        states = {str(row["rank"]): row["state"] for row in phase["ranks"]}
        assert states == states_of(plan, index), (index, states)
        for row in phase["ranks"]:
            if row["state"] != "passed":
                continue
            assert row["checked"] >= 6 and row["both"]["count"] == 4, row
            assert row["gpu"] is not None and row["gpu_name"] and row["window_bytes"] > 0, row
            assert 0 < row["dispatch"]["min"] <= row["both"]["min"], row
    for change in results["transitions"]:
        assert change["change"] != "kill" or change["detect_us"] is not None, change
    if not shared:
        check_gpus(events)
    assert "times by CUDA events" in " ".join(text.split()), text


def run(plan, *arguments, memory="cuda", shared=False, environment=None):
    with tempfile.TemporaryDirectory(prefix="weft-test-") as name:
        path = pathlib.Path(name) / "run"
        command = [WEFT, "elastic", *SMALL, "--memory", memory, "--run-dir", path, "--validate-phase-failures",
                   "--job", f"cuda-{os.getpid()}", "--plan", pathlib.Path(name) / "plan.json", *arguments]
        (pathlib.Path(name) / "plan.json").write_text(json.dumps(plan))
        env = {**{k: v for k, v in os.environ.items() if k != "WEFT_STORE"}, **(environment or {})}
        ran = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=DEADLINE, env=env,
                             check=False)
        text = ran.stdout + ran.stderr
        if ran.returncode != 0:
            logs = "".join(f"--- {log.name}\n{log.read_text()}" for log in sorted(path.glob("rank-*.log")))
            raise AssertionError(f"{command} ended with {ran.returncode}:\n{text}\n{logs}")
        results = json.loads((path / "results.json").read_text())
        events = [json.loads(line) for line in (path / "events.jsonl").read_text().splitlines()]
        check(plan, results, events, text, shared)
        return results, text


def command_of(name, job, *arguments):
    return [str(part) for part in (WEFT, "elastic", "--run-dir", pathlib.Path(name) / "run", "--job", job, *arguments)]


def finish(processes, path):
    """Waits for the agents, of which all are to succeed."""
    deadline = time.monotonic() + DEADLINE
    texts = []
    try:
        for process in processes:
            texts.append(process.communicate(timeout=max(0.1, deadline - time.monotonic()))[0])
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                texts.append(process.communicate()[0])
    if any(process.returncode != 0 for process in processes):
        logs = "".join(f"--- {log.name}\n{log.read_text()}" for log in sorted(path.glob("**/rank-*.log")))
        raise AssertionError(f"agents ended with {[p.returncode for p in processes]}:\n{texts}\n{logs}")
    return texts


def run_far(plan, *arguments, transport=None, each=1):
    """Two agents, with a GPU and `each` ranks each, whose ranks are on different hosts as far as they know."""
    with tempfile.TemporaryDirectory(prefix="weft-test-") as name, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        path, job = pathlib.Path(name), f"far-{os.getpid()}"
        (path / "plan.json").write_text(json.dumps(plan))
        base = {k: v for k, v in os.environ.items() if k != "WEFT_STORE"}
        base["WEFT_EP_TRANSPORT"] = transport or base.get("WEFT_EP_TRANSPORT", "shm")
        base["WEFT_ADDRESS"] = "127.0.0.1"
        base["WEFT_TOKEN"] = "token-of-" + job
        commands = (["--num-agents", 2, "--store-port", port, *SMALL, "--memory", "cuda", "--validate-phase-failures",
                     "--plan", path / "plan.json", *arguments], ["--rank-server", f"127.0.0.1:{port}"])
        shares = ["--share-gpus"] if each > 1 else []
        processes = []
        for index, command in enumerate(commands):
            folder = path / str(index)
            folder.mkdir()
            processes.append(subprocess.Popen(
                command_of(folder, job, *command, *shares, "--num-processes", each), stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True,
                env={**base, "WEFT_HOST_ID": f"host{index}", "CUDA_VISIBLE_DEVICES": str(index)}))
        texts = finish(processes, path)
        results = json.loads((path / "0" / "run" / "results.json").read_text())
        events = [json.loads(line) for line in (path / "0" / "run" / "events.jsonl").read_text().splitlines()]
        check(plan, results, events, texts[0], True)
        return results


def print_times(results):
    for row in results["phases"][1]["ranks"]:
        if row["state"] == "passed":
            print(f"  rank {row['rank']} on GPU {row['gpu']}: dispatch {row['dispatch']['p50']:.1f} us, combine "
                  f"{row['combine']['p50']:.1f} us, {row['window_bytes'] / 1e6:.1f} MB")


def two_gpus_bf16():
    print_times(run(ON_TWO)[0])


def two_gpus_of_many_sizes():
    run(ON_TWO[:3], "--num-tokens", "0")
    run(ON_TWO[:3], "--num-tokens", "1", "--num-topk", "1", "--num-experts-per-rank", "5")
    run(ON_TWO[:3], "--hidden-dim", "7168", "--num-tokens", "128", "--num-experts-per-rank", "16")


def two_gpus_fp8():
    print_times(run(ON_TWO, "--dtype", "fp8")[0])


def two_gpus_fp8_pow2_rank_major():
    run(ON_TWO, "--dtype", "fp8-pow2", "--layout", "rank-major")


def two_gpus_bf16_rank_major():
    run(ON_TWO, "--layout", "rank-major")


def a_rank_that_leaves_is_no_loss():
    run([[0, 1], [0], [0, 1]])


def two_hosts():
    """Ranks come, are killed, come back and leave, each time with one on the other host."""
    print_times(run_far([[0, 1], [0, -1], [0, 1], [0], [0, 1]]))


def two_hosts_by_nvlink():
    """The same where memory of one host's GPU can be mapped on the other: for a process with an IMEX channel."""
    if not glob.glob("/dev/nvidia-caps-imex-channels/channel*"):
        return "an IMEX channel"
    print_times(run_far([[0, 1], [0, -1], [0, 1], [0], [0, 1]], transport="nvlink"))
    print_times(run_far([[0, 1], [0, 1]], "--hidden-dim", "7168", "--num-tokens", "128", "--num-experts-per-rank", "16",
                        transport="nvlink"))
    return None


def two_hosts_fp8_and_logfmt10():
    run_far([[0, 1], [0], [0, 1]], "--dtype", "fp8-ue8m0", "--combine-dtype", "logfmt10", "--hidden-dim", "2048")


def two_hosts_of_the_default_sizes():
    print_times(run_far([[0, 1], [0, 1]], "--hidden-dim", "7168", "--num-tokens", "128", "--num-experts-per-rank",
                        "16"))


def auto_takes_gpus():
    run([[0, 1]], memory="auto")


def four_gpus():
    if len(gpus()["devices"]) < 4:
        return "four GPUs"
    print_times(run(ON_FOUR)[0])
    return None


def four_ranks_take_turns_on_two_gpus():
    run([[0, 1], [0, 1, 2, 3], [0, 1, 2, -3]], "--share-gpus", "--timeout-ms", "20000", shared=True,
        environment={"CUDA_VISIBLE_DEVICES": "0,1"})


def two_gpus_for_throughput():
    """Many pieces through a small window, in each layout. The report says what the library lacks."""
    for layout in ("rank-major", "packed"):
        try:
            results, text = run(ON_TWO, "--mode", "throughput", "--window", str(2 << 20), "--num-tokens", "300",
                                "--layout", layout)
        except AssertionError as error:
            if "is not supported yet" in str(error):
                return f"a library with {layout} rows of throughput on GPUs"
            raise
        left_out = results["config"].get("left_out_why", {})
        assert all(name in " ".join(text.split()) for name in left_out), (left_out, text)
        print(f"throughput, {layout}: left out: {', '.join(left_out) or 'nothing'}")
    return None


def two_gpus_for_throughput_through_the_smallest_rings():
    """Rings of three places, and 23 tokens in each channel: ranks wait for each other's answers all the time."""
    many = ["--mode", "throughput", "--num-tokens", "4096", "--hidden-dim", "7168", "--num-experts-per-rank", "16",
            "--window", str(16 << 20)]
    for plan in ([[0], [0, 1], [0], [0, 1]], [[0, 1], [0, 1]]):
        run(plan, *many, "--num-topk", "1", "--dtype", "fp8-ue8m0")
        run(plan, *many, "--num-topk", "2", "--layout", "packed")
        run(plan, *many, "--num-topk", "4", "--combine-dtype", "logfmt10")


def two_gpus_for_throughput_and_logfmt10():
    for layout in ("rank-major", "packed"):
        run(ON_TWO, "--mode", "throughput", "--num-tokens", "300", "--layout", layout, "--combine-dtype", "logfmt10")


def two_hosts_for_throughput():
    """Many tokens, through a window that is smaller than an operation, with a rank on the other host that is killed."""
    for layout in ("rank-major", "packed"):
        results = run_far([[0, 1], [0, -1], [0, 1], [0], [0, 1]], "--mode", "throughput", "--window", str(2 << 20),
                          "--num-tokens", "300", "--layout", layout)
        print_times(results)
    run_far([[0, 1], [0], [0, 1]], "--mode", "throughput", "--num-tokens", "300", "--dtype", "fp8", "--combine-dtype",
            "logfmt10")


def two_hosts_share_rows():
    """Two ranks on each of two hosts, which take turns on a GPU: a token crosses to the other host once for both."""
    for arguments in ([], ["--layout", "packed", "--dtype", "fp8"]):
        print_times(run_far([[0, 1, 2, 3], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, -3]], "--timeout-ms", "20000",
                            "--mode", "throughput", "--num-tokens", "300", *arguments, each=2))


def more_ranks_than_visible_gpus():
    env = dict(os.environ, CUDA_VISIBLE_DEVICES="1")
    with tempfile.TemporaryDirectory(prefix="weft-test-") as name:
        (pathlib.Path(name) / "plan.json").write_text("[[0, 1]]")
        ran = subprocess.run([WEFT, "elastic", "--memory", "cuda", "--run-dir", name + "/run", name + "/plan.json"],
                             capture_output=True, text=True, timeout=DEADLINE, env=env, check=False)
    assert ran.returncode == 3 and "1 GPU " in ran.stderr and "2 ranks" in ran.stderr, ran


TESTS = (more_ranks_than_visible_gpus, two_gpus_bf16, two_gpus_fp8, two_gpus_bf16_rank_major,
         two_gpus_fp8_pow2_rank_major, two_gpus_of_many_sizes, a_rank_that_leaves_is_no_loss, auto_takes_gpus,
         four_gpus, two_gpus_for_throughput, two_gpus_for_throughput_through_the_smallest_rings,
         two_gpus_for_throughput_and_logfmt10, four_ranks_take_turns_on_two_gpus, two_hosts, two_hosts_by_nvlink,
         two_hosts_fp8_and_logfmt10, two_hosts_of_the_default_sizes, two_hosts_for_throughput, two_hosts_share_rows)


def main():
    found = gpus()
    if not found["available"]:
        print(f"skipped: no GPU can be used: {found['reason']}")
        sys.exit(SKIPPED)
    if len(found["devices"]) < 2:
        print("skipped: two GPUs are wanted, and there is one")
        sys.exit(SKIPPED)
    failed = []
    for test in TESTS:
        if sys.argv[1:] and test.__name__ not in sys.argv[1:]:
            continue
        try:
            wanted = test()
            print(f"skipped: {test.__name__} wants {wanted}" if wanted else f"passed: {test.__name__}", flush=True)
        except (AssertionError, subprocess.SubprocessError) as error:
            failed.append(test.__name__)
            print(f"FAILED: {test.__name__}: {error}", flush=True)
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
