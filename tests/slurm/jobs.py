"""`weft slurm` on a real Slurm of four nodes: elastic plans as jobs, and what ends them."""

import csv
import io
import json
import math
import os
import pathlib
import re
import signal
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
from batch import Batch, numbers  # noqa: E402
from cluster import Cluster  # noqa: E402
from job_checks import LONG, MANY, agents, expect_bad, has_measured, run_lists, running  # noqa: E402
from tool import wait_for  # noqa: E402


def last_line(text):
    return text.strip().splitlines()[-1]


def rejoined_in_its_slot(results, rank):
    """The rank that dies in phase 2 comes back in phase 3: on the node, and in the slot, which its death freed."""
    first, dead, second = ([row for row in results["phases"][phase]["ranks"] if row["rank"] == rank][0]
                           for phase in (1, 2, 3))
    assert dead["state"] == "killed" and second["state"] == "passed", (dead, second)
    place = (first["host"], first["local_rank"])
    assert place[0] and (second["host"], second["local_rank"]) == place, (first, second)
    assert second["incarnation"] != first["incarnation"], "another process"


def plans_over_nodes(cluster):
    """Classic plans over two and four nodes: phases are shown, the report has every rank, and both are of one run."""
    batch = Batch(cluster, "plans").add("expansion_fault_rejoin", nodes=2, slots=4)
    text = batch.add("double_expansion", nodes=4, slots=3).run("--follow")
    for run, plan in zip(("t0", "t1"), batch.plans):
        for phase in range(len(plan)):
            assert f"{run}: phase {phase} ({phase + 1} of {len(plan)}) begins" in text, text
            assert f"{run}: phase {phase} passed" in text, text
        assert f"{run}: passed" in text, text
    assert "2 runs passed" in last_line(text), text
    report = json.loads(batch.weft("report", batch.path, "--format", "json"))
    assert report["passed"] and report["runs_passed"] == 2
    for run in report["runs"]:
        assert run["state"] == "passed" and run["default"] > 0 and run["results"]["passed"], run["why"]
        assert cluster.job(run["job"])["ExitCode"] == "0:0"
    rejoined_in_its_slot(report["runs"][0]["results"], 6)
    rows = list(csv.DictReader(io.StringIO(batch.weft("report", batch.path, "--format", "csv"))))
    assert {row["rank"] for row in rows if row["run"] == "t0"} == {str(rank) for rank in range(8)}
    assert all(float(row["gbps"]) > 0 for row in rows)
    nodes = {row["node"] for row in rows}  # Slurm's names, though all are one host
    assert {"n1", "n2"} <= nodes <= {"n1", "n2", "n3", "n4"}, nodes
    shown = batch.weft("report", batch.path, "--html")
    assert "2 of 2 runs passed" in shown and (batch.path / "t0" / "report.html").stat().st_size > 1000, shown


def late_followers(cluster):
    """The agent of a node that a later phase needs first starts when the phase before that has begun."""
    batch = Batch(cluster, "late").add("single_expansion", nodes=2, slots=4)
    batch.run("--followers", "late", "--follow")
    (file,) = (batch.path / "t0").glob("*/node-*/events.jsonl")
    first = json.loads(file.read_text().splitlines()[0])
    begins = next(event for event in batch.events() if event["kind"] == "phase_begin")
    assert first["time_ns"] > begins["time_ns"], (first, begins)


def folder_of_any_name(cluster):
    """Slurm has patterns in the names of outputs, quotes and blanks in directives: a folder may be called so."""
    for how, logs in (((), {"t0/step1", "t0/step2"}), (("--array",), {"t0"}), (("--single-sbatch",), {""})):
        batch = Batch(cluster, "any" + "".join(how).strip("-"), folder="50%j it's %%a").add(
            "no_expansion", nodes=1, slots=4, num_tokens=[4, 8])
        batch.run(*how, "--follow")
        found = {str(file.parent.relative_to(batch.path)).strip(".") for file in batch.path.glob("**/job*.log")}
        assert logs <= found, (how, found)


def grid_of_eight(cluster):
    """In one job, one after the other; the best step is named by the larger bandwidth."""
    batch = Batch(cluster, "grid").add("no_expansion", nodes=1, slots=4, num_tokens=[4, 8, 16, 32], num_topk=[2, 4])
    text = batch.run("--single-sbatch", "--follow")
    assert text.count(": passed") == 8 and len(numbers(text)) == 1, text
    lines = [line.split(" ", 1)[1] for line in text.splitlines() if ": phase 0 (" in line or ": passed" in line]
    assert lines.index("t0.step1: passed") < lines.index("t0.step8: phase 0 (1 of 1) begins"), "shown as it goes on"
    shown = batch.weft("report", batch.path)
    rows = list(csv.DictReader(io.StringIO((batch.path / "trajectory-t0.csv").read_text())))
    assert [row["step"] for row in rows] == [str(step + 1) for step in range(8)], rows
    assert len({(row["action.num_tokens"], row["action.num_topk"]) for row in rows}) == 8, rows
    best = max(rows, key=lambda row: float(row["observation.default"]))
    assert f"t0: best of 8 steps is step {best['step']} (" in shown, (rows, shown)
    assert best["reward"] == best["observation.default"], "bandwidth is the better the larger"


def iterations(cluster):
    """Three of each step: the best one has an interval against the next, and the page of the batch links all runs."""
    batch = Batch(cluster, "iterations").add("no_expansion", nodes=1, slots=4, test="iterations = 3",
                                             num_tokens=[4, 64])
    batch.run("--single-sbatch", "--follow")
    shown = batch.weft("report", batch.path, "--html")
    report = json.loads(batch.weft("report", batch.path, "--format", "json"))
    best = report["best"]["t0"]
    against = best["against_next"]
    means = [statistics.mean(run["default"] for run in report["runs"] if run["step"] == step) for step in (1, 2)]
    assert means[best["step"] - 1] == max(means) and math.isclose(best["default"], max(means), rel_tol=1e-4), best
    assert math.isclose(against["change_percent"], 100 * (max(means) / min(means) - 1), rel_tol=1e-3), (means, best)
    assert against["low_percent"] < against["change_percent"] < against["high_percent"], against
    assert against["significant"] == (against["low_percent"] > 0), against
    assert f"at 95 %) against the next best, step {against['step']}: " in shown, shown
    page = (batch.path / "report.html").read_text()
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])
    assert data["page"] == "batch" and [run["iteration"] for run in data["runs"]] == [1, 2, 3] * 2, data
    assert all(run["phases"] == ["passed"] and (batch.path / run["page"]).exists() for run in data["runs"]), data


def nothing_twice(cluster):
    """A test behind another one; the same command again submits nothing, also where a number was not noted."""
    batch = Batch(cluster, "again").add("no_expansion", nodes=1)
    batch.add("no_expansion", nodes=1, test='dependencies = [{type = "start_post_comp", id = "t0"}]')
    first = batch.start()
    file = batch.path / "batch.json"
    record = json.loads(file.read_text())
    record["jobs"][1].pop("id")  # as if the command had been killed behind sbatch
    file.write_text(json.dumps(record))
    again = batch.run()
    assert numbers(again) == first and again.count("(submitted before)") == 2, again
    batch.follow()
    one, two = (cluster.job(number) for number in first)
    assert one["EndTime"] <= two["StartTime"], (one, two)
    batch.add("no_expansion")
    assert "has another batch already" in batch.run(status=3)


def array(cluster):
    """A task for each step of a grid."""
    batch = Batch(cluster, "array").add("no_expansion", nodes=1, slots=4, num_tokens=[4, 8])
    text = batch.run("--array", "--follow")
    assert text.count(": passed") == 2 and len(numbers(text)) == 1, text
    assert [run["task"] for run in batch.states()] == [0, 1]


def killed_follower(cluster):
    """With SIGKILL: the run names its rank, node and phase, and its exit status is that of the job."""
    batch, number = running(cluster, "killed")
    (follower,) = wait_for("a follower", lambda: agents(cluster, b"--rank-server"))
    os.kill(follower, signal.SIGKILL)
    run = expect_bad(cluster, batch, number, "FAILED", "failed")
    named = r"rank [23] was lost in phase \d+, .*; rank [23] was on n2|agent 1 on n2 has ended .* in phase \d+"
    assert re.search(named, run["why"]), run["why"]
    assert re.search(named, batch.weft("report", batch.path, "--format", "csv")), "the reports have it, too"
    assert run["results"]["exit_status"] == int(cluster.job(number)["ExitCode"].split(":")[0]) != 0, run["results"]
    assert has_measured(run["results"])


def near_the_time_limit(cluster):
    """The signal that --signal=B:USR1@N sends: the run says so with its phase, and keeps what was measured."""
    batch, number = running(cluster, "limit")
    cluster.call("scancel", "--batch", "--signal=USR1", number)
    run = expect_bad(cluster, batch, number, "FAILED", "failed", "the time limit is near (SIGUSR1): ended in phase")
    assert run["results"]["exit_status"] == 128 + signal.SIGUSR1, run["results"]["exit_status"]
    assert cluster.job(number)["ExitCode"] == f"{128 + signal.SIGUSR1}:0"


def drained_node(cluster):
    """A job that needs it waits and says why; nothing of it ever runs."""
    cluster.call("scontrol", "update", "nodename=n4", "state=drain", "reason=test")
    try:
        batch = Batch(cluster, "drained").add("no_expansion", nodes=4, slots=1)
        (number,) = batch.start()
        wait_for("the reason", lambda: cluster.job(number).get("Reason") not in (None, "None"))
        (run,) = batch.states()
        assert run["state"] == "waits" and run["why"] and run["why"] != "None", run
        batch.weft("cancel", batch.path)
        batch.follow(status=1)
        assert batch.states()[0]["state"] == "cancelled"
    finally:
        cluster.call("scontrol", "update", "nodename=n4", "state=resume")


def test_only(cluster):
    """Slurm says whether it could run, and a job that could not is refused with Slurm's words."""
    batch = Batch(cluster, "only").add("no_expansion")
    assert "1 job could run here" in batch.run("--test-only")
    said = Batch(cluster, "wrong").add("no_expansion").run("--test-only", "--partition", "nowhere", status=3)
    assert "nvalid partition" in said and "wrong.t0" in said, said
    assert batch.states()[0]["state"] == "not_submitted"


def without_the_users_variables(cluster):
    """Some sites have it so that jobs get none; the steps get those of the script all the same, as the token."""
    cluster.environment["SBATCH_EXPORT"] = "NONE"
    try:
        assert "1 run passed" in Batch(cluster, "none").add("no_expansion", slots=2).run("--follow")
    finally:
        del cluster.environment["SBATCH_EXPORT"]


def from_within_another_job(cluster):
    """Whose variables, as of `salloc --gpus 8 --mem-per-cpu 100`, would be options of the steps."""
    own = {"SLURM_JOB_ID": "1", "SLURM_GPUS": "8", "SLURM_MEM_PER_CPU": "100", "SLURM_MEM_PER_NODE": "400"}
    cluster.environment.update(own)
    try:
        assert "1 run passed" in Batch(cluster, "within").add("no_expansion", slots=2).run("--follow")
    finally:
        for name in own:
            del cluster.environment[name]


def lost_terminal(cluster):
    """A follower that is hung up leaves the job alone, and another one shows it again."""
    batch = Batch(cluster, "terminal").add("single_expansion", slots=4)
    batch.start()
    with batch.follower() as follower:
        wait_for("its first line", follower.stdout.readline)
        follower.send_signal(signal.SIGHUP)
        assert follower.wait(30) == 128 + signal.SIGHUP
    assert "t0: passed" in batch.follow()


def requeued(cluster):
    """By its administrator: it begins again, and the report is that of the second attempt."""
    batch, number = running(cluster, "requeued", "--requeue")
    plan = batch.path / "t0" / "plan.json"
    plan.write_text(json.dumps([[0, 1, 2, 3], [0, 1]]))  # what the second attempt reads
    cluster.call("scontrol", "requeue", number)
    wait_for("the queue", lambda: cluster.state(number) == "PENDING")
    # A slurmd refuses a job that begins in the second in which its first attempt was killed.
    cluster.call("scontrol", "update", f"jobid={number}", "starttime=now+2")
    batch.follow()
    assert cluster.job(number)["Restarts"] == "1", cluster.job(number)
    (run,) = batch.states()
    assert run["state"] == "passed" and len(run["results"]["phases"]) == 2, run


def cut_link():
    """The network of a node is lost: the run ends and names it, and what was measured is kept."""
    with Cluster(namespaces=True) as cluster:
        batch = Batch(cluster, "cut").add(LONG, slots=2, **{**MANY, "timeout_ms": 4000})
        (number,) = batch.start("--nodelist", "n2,n3")
        wait_for("phase 1", lambda: batch.began(1) or cluster.state(number) == "FAILED")
        assert batch.began(1), batch.logs()
        cluster.network.cut(3)
        wait_for("the lead's results", lambda: list((batch.path / "t0").glob("*/results.json")), 60)
        (file,) = (batch.path / "t0").glob("*/results.json")
        results = json.loads(file.read_text())
        assert not results["passed"] and results["error"], results["error"]
        cluster.network.join(3)
        assert cluster.wait_end(number, 60)[0] in ("FAILED", "NODE_FAIL"), cluster.job(number)


run_lists({
    "plans": (plans_over_nodes, late_followers, array, test_only, without_the_users_variables, from_within_another_job,
              lost_terminal),
    "sweep": (folder_of_any_name, grid_of_eight, iterations, nothing_twice),
    "ends": (killed_follower, near_the_time_limit, requeued, drained_node),
}, more=(cut_link,))
