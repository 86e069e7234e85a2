"""Scenarios of elastic plans that `weft slurm` runs on the cluster of a test, and the files that they leave."""

import json
import re
import subprocess

from tool import SOURCE, WEFT

SMALL = {"hidden_dim": 256, "num_tokens": 8, "iterations": 2, "warmup": 1, "timeout_ms": 20000}


class Batch:
    """A scenario with its directory. It runs on `cluster`."""

    def __init__(self, cluster, name, folder="."):
        self.cluster, self.name, self.work = cluster, name, cluster.folder / "work" / folder
        self.work.mkdir(exist_ok=True)
        self.path, self.scenario = self.work / name, self.work / f"{name}.toml"
        self.tests, self.plans = [], []

    def add(self, plan, nodes=2, slots=4, test="", **arguments):
        """Adds a test with a plan: a list, or the name of a plan in plans/. `test`: more lines of the test."""
        number = len(self.tests)
        file = SOURCE / "plans" / f"{plan}.json" if isinstance(plan, str) else self.work / f"{self.name}-{number}.json"
        if not isinstance(plan, str):
            file.write_text(json.dumps(plan))
        self.plans.append(json.loads(file.read_text()))
        values = {"docker_image_url": "none", "plan": str(file), "num_processes_per_node": slots,
                  "service_startup_timeout_seconds": 120, **SMALL, **arguments}
        self.tests.append(f"""
[[Tests]]
id = "t{number}"
name = "t{number}"
description = "a plan"
test_template_name = "NixlEP"
num_nodes = {nodes}
{test}
[Tests.cmd_args]
""" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items()))
        return self

    def weft(self, *arguments, status=0, seconds=120):
        """Runs `weft slurm`, which must exit with `status`; returns its output."""
        done = self.cluster.call(WEFT, "slurm", *arguments, check=False, seconds=seconds)
        assert done.returncode == status, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}\n{self.logs()}"
        return done.stdout + done.stderr

    def run(self, *arguments, weft=WEFT, status=0):
        """Runs the scenario by `weft slurm run`; its agents run the program `weft`."""
        self.scenario.write_text(f'name = "{self.name}"\n' + "".join(self.tests))
        return self.weft("run", self.scenario, "--output-dir", self.work, "--weft", weft, *arguments, status=status)

    def start(self, *arguments, **more):
        """Submits the scenario; returns the numbers of its jobs."""
        return numbers(self.run(*arguments, **more))

    def follow(self, status=0):
        return self.weft("status", self.path, "--follow", status=status)

    def follower(self):
        """Starts `weft slurm status --follow`, which runs during the test."""
        return subprocess.Popen([WEFT, "slurm", "status", str(self.path), "--follow"], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, env=self.cluster.environment)

    def states(self):
        return json.loads(self.weft("status", self.path, "--json"))["runs"]

    def events(self, run="t0"):
        """The events of the newest lead agent."""
        files = sorted((self.path / run).glob("*/events.jsonl"), key=lambda one: one.stat().st_mtime)
        texts = [text for text in map(lambda file: file.read_text(), files) if "run_begin" in text]
        return [json.loads(line) for line in texts[-1].splitlines(keepends=True) if line[-1] == "\n"] if texts else []

    def began(self, phase, run="t0"):
        return any(event["kind"] == "phase_begin" and event["phase"] >= phase for event in self.events(run))

    def logs(self):
        files = [*self.path.glob("**/job.log"), *self.path.glob("**/node-*.log")]
        return "\n".join(f"--- {file.name}\n" + "\n".join(file.read_text().splitlines()[-25:]) for file in files)


def numbers(text):
    """The numbers of the jobs that `weft slurm run` prints."""
    return [int(number) for number in re.findall(r"^job (\d+):", text, re.MULTILINE)]
