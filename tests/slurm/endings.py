"""`weft slurm` on a real Slurm: jobs that are preempted, cancelled in each phase, or lose a node; and jobs that begin
and end with others."""

import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
from batch import Batch, numbers  # noqa: E402
from cluster import kill  # noqa: E402
from job_checks import LONG, MANY, agents, expect_bad, has_measured, nothing_runs, processes_of, run_lists  # noqa: E402
from job_checks import running  # noqa: E402
from tool import WEFT, wait_for  # noqa: E402

SHORT = [[0, 1, 2, 3], [0, 1]]
# The signal of the lead or that of its follower may come first.
INTERRUPTED = r"(agent 1 on n2: )?interrupted by SIGTERM: ended in phase \d+ "


def results_of(batch, attempt):
    """Of the attempt of the first run, from 0."""
    (file,) = (batch.path / "t0").glob(f"job*.{attempt}/results.json")
    return json.loads(file.read_text())


# --- preemption: an urgent job takes all nodes ---

def preempt(cluster, number, ends_in):
    """An urgent job comes; returns its number when the other one has the state."""
    done = cluster.call("sbatch", "--parsable", "--partition=urgent", "--nodes=4", "--exclusive", "--output=/dev/null",
                        "--wrap=sleep 600")
    urgent = int(done.stdout)
    wait_for(f"{ends_in} of the preempted job", lambda: cluster.state(number) == ends_in)
    return urgent


def runs_again(cluster, batch, number, urgent):
    """Once the urgent job has gone: the second attempt reads a short plan, and its results are the run's."""
    first = results_of(batch, 0)
    assert re.match(INTERRUPTED, first["error"]), first["error"]
    assert has_measured(first), "what the first attempt measured is kept"
    (run,) = batch.states()
    assert run["state"] == "waits", run
    (batch.path / "t0" / "plan.json").write_text(json.dumps(SHORT))
    cluster.call("scancel", urgent)
    cluster.call("scontrol", "update", f"jobid={number}", "starttime=now+2")  # Slurm would wait two minutes
    batch.follow()
    assert cluster.job(number)["Restarts"] == "1", cluster.job(number)
    (run,) = batch.states()
    assert run["state"] == "passed" and len(run["results"]["phases"]) == len(SHORT), run


def preempted_and_requeued(cluster):
    """PreemptMode=REQUEUE: the agents end, and the run begins again, in another folder."""
    batch, number = running(cluster, "requeue", "--partition", "again", "--requeue")
    runs_again(cluster, batch, number, preempt(cluster, number, "PENDING"))


def preempted_with_grace(cluster):
    """The same with a GraceTime: Slurm requeues at its end only what still runs, so the job waits for that."""
    batch, number = running(cluster, "grace", "--partition", "graced", "--requeue")
    urgent = preempt(cluster, number, "PENDING")
    runs_again(cluster, batch, number, urgent)


def preempted_and_cancelled(cluster):
    """PreemptMode=CANCEL: the run says so, and keeps what was measured."""
    batch, number = running(cluster, "cancel", "--partition", "ended")
    urgent = preempt(cluster, number, "PREEMPTED")
    run = expect_bad(cluster, batch, number, "PREEMPTED", "cancelled", "SIGTERM")
    assert run["why"].startswith("preempted by another job: ") and has_measured(run["results"]), run["why"]
    cluster.call("scancel", urgent)


# --- nodes that fail ---

def dead_slurmd(cluster):
    """A slurmd that is killed takes no process of the job with it: the run goes on to its end, on the node that Slurm
    has given up."""
    batch = Batch(cluster, "slurmd").add(SHORT, slots=2, test=held("go"), **MANY)
    (number,) = batch.start()
    wait_for("the job", lambda: cluster.state(number) == "RUNNING" and (batch.path / "t0" / "pre_test.log").exists())
    (batch.work / "go").touch()
    wait_for("phase 0", lambda: batch.began(0))
    cluster.kill_node(2)
    cluster.call("scontrol", "update", "nodename=n2", "state=down", "reason=test")  # else after SlurmdTimeout
    batch.follow()
    (run,) = batch.states()
    assert run["state"] == "passed", run
    assert {rank["host"] for rank in run["results"]["phases"][0]["ranks"]} == {"n1", "n2"}, run["results"]
    back(cluster, 2)


def lost_node(cluster):
    """A node that stops: the run ends, and says which agent, ranks, node and phase."""
    batch, number = running(cluster, "node")
    cluster.kill_node(2)
    kill(processes_of(cluster, 2))
    wait_for("the lead's results", lambda: list((batch.path / "t0").glob("job*.0/results.json")))
    cluster.call("scontrol", "update", "nodename=n2", "state=down", "reason=test")
    run = expect_bad(cluster, batch, number, "FAILED", "failed", "on n2", " in phase ")
    assert has_measured(run["results"]), "what was measured is kept"
    back(cluster, 2)


def lost_first_node(cluster):
    """The node of the lead and of the job's script: Slurm starts the job again, with --requeue."""
    batch, number = running(cluster, "first", "--requeue")
    cluster.kill_node(1)
    kill(processes_of(cluster, 1))
    cluster.call("scontrol", "update", "nodename=n1", "state=down", "reason=test")
    wait_for("the queue", lambda: cluster.state(number) == "PENDING")
    nothing_runs(cluster)
    (batch.path / "t0" / "plan.json").write_text(json.dumps(SHORT))
    cluster.call("scontrol", "update", f"jobid={number}", "starttime=now+2")
    batch.follow()
    (run,) = batch.states()
    assert run["state"] == "passed" and "n1" not in {rank["host"] for rank in run["results"]["phases"][0]["ranks"]}, run
    back(cluster, 1)


def back(cluster, node):
    """The node again."""
    cluster.start_node(node)
    cluster.call("scontrol", "update", f"nodename=n{node}", "state=resume", check=False)
    cluster.wait_idle()


# --- scancel in each phase ---

def held(name, key="pre_test"):
    """A hook of a test that goes on when the file of that name is there."""
    return f"""{key} = 'until [ -e "$SLURM_SUBMIT_DIR/{name}" ]; do sleep 0.1; done'"""


def cancel(cluster, batch, number):
    """With `weft slurm cancel`; a second one finds nothing to do. Returns the run."""
    assert batch.weft("cancel", batch.path).startswith("1 job cancelled")
    run = expect_bad(cluster, batch, number, "CANCELLED", "cancelled")
    assert batch.weft("cancel", batch.path).startswith("0 jobs cancelled")
    return run


def cancelled_at_its_start(cluster):
    """While pre_test runs: there are no results, and no agent ever starts."""
    batch = Batch(cluster, "start").add(SHORT, nodes=1, test=held("never"))
    (number,) = batch.start()
    wait_for("pre_test", lambda: (batch.path / "t0" / "pre_test.log").exists())
    run = cancel(cluster, batch, number)
    assert "left no results" in run["why"] and not list((batch.path / "t0").glob("node-*.log")), run


def cancelled_in_a_phase(cluster):
    """What was measured is kept, and the reason has the phase."""
    batch, number = running(cluster, "running")
    run = cancel(cluster, batch, number)
    assert has_measured(run["results"]) and re.search(INTERRUPTED, run["why"]), run["why"]


def standing_follower(cluster):
    """A weft that stands still where it follows another one."""
    file = cluster.folder / "weft"
    file.write_text(f"""#!/bin/sh
case " $* " in *" --rank-server "*) kill -STOP $$ ;; esac
exec {WEFT} "$@"
""")
    file.chmod(0o755)
    return file


def cancelled_between_phases(cluster):
    """When a phase has ended and the next one needs ranks of another node, whose agent stands still."""
    batch = Batch(cluster, "between").add([[0, 1], [0, 1, 2, 3], [0, 1]], slots=2, **MANY)
    (number,) = batch.start("--followers", "late", weft=standing_follower(cluster))
    wait_for("a follower", lambda: agents(cluster, b"--rank-server"))
    wait_for("the end of phase 0", lambda: any(event["kind"] == "phase_end" for event in batch.events()))
    run = cancel(cluster, batch, number)
    assert has_measured(run["results"]) and re.search(INTERRUPTED, run["why"]), run["why"]


def cancelled_near_its_end(cluster):
    """While post_test runs: the results are whole, though the run is cancelled."""
    batch = Batch(cluster, "end").add(SHORT, nodes=1, test=held("never", "post_test"))
    (number,) = batch.start()
    wait_for("post_test", lambda: (batch.path / "t0" / "post_test.log").exists())
    run = cancel(cluster, batch, number)
    assert run["results"]["passed"] and has_measured(run["results"], len(SHORT) - 1), run


# --- tests that begin and end with others ---

def with_another(cluster):
    """start_post_init begins when the other has begun, not when it ends; end_post_comp is cancelled at that end."""
    depends = 'dependencies = [{{type = "{}", id = "t0"}}]'
    batch = Batch(cluster, "others").add(SHORT, nodes=1, test=held("go"))
    batch.add(SHORT, nodes=1, test=depends.format("start_post_init"))
    batch.add(LONG, nodes=1, test=depends.format("end_post_comp"), **MANY)
    said = batch.run()
    one, two, three, canceller = numbers(said)
    assert cluster.wait_end(two)[0] == "COMPLETED" and cluster.state(one) == "RUNNING", "it did not wait for the end"
    wait_for("a phase of the one that ends with it", lambda: batch.began(1, "t2"))
    assert cluster.state(canceller) == "PENDING", cluster.job(canceller)
    (batch.work / "go").touch()
    assert cluster.wait_end(one)[0] == "COMPLETED" and cluster.wait_end(three)[0] == "CANCELLED"
    batch.follow(status=1)
    first, second, third = batch.states()
    assert (first["state"], second["state"], third["state"]) == ("passed", "passed", "cancelled"), batch.states()
    assert has_measured(third["results"]), "what it measured is kept"
    nothing_runs(cluster)


run_lists({
    "preemption": (preempted_and_requeued, preempted_with_grace, preempted_and_cancelled),
    "nodes": (dead_slurmd, lost_node, lost_first_node),
    "cancellation": (with_another, cancelled_at_its_start, cancelled_between_phases, cancelled_in_a_phase,
                     cancelled_near_its_end),
})
