#!/usr/bin/env python3
"""Tests of CloudAI, as its users have them, become what they mean: in which memory they run, which keys they may have,
and under which names CloudAI's users find commands and files."""
import os
import pathlib
import re
import sys
import tempfile
import unittest

import tool

SYSTEM = """\
name = "oak"
scheduler = "slurm"
output_path = "results"
default_partition = "gpu"
gpus_per_node = {gpus}
[[partitions]]
name = "gpu"
nodes = ["oak[001-016]"]
[[partitions.groups]]
name = "all"
nodes = ["oak[001-016]"]
[global_env_vars]
{variables}
"""
TEST = """\
name = "growth"
description = "Two become four"
test_template_name = "NixlEP"
[cmd_args]
docker_image_url = "image"
plan = [[0, 1], [0, 1, 2, 3]]
num_processes_per_node = {slots}
num_tokens = 128
num_topk = 6
{more}
"""

BENCH = """\
name = "bench"
description = "Transfers"
test_template_name = "NIXLBench"
[cmd_args]
docker_image_url = "image"
runtime_type = "one"
benchmark_group = "one"
backend = "UCX"
"""

SCENARIO = """\
name = "two"
[[Tests]]
id = "one"
test_name = "growth"
num_nodes = 2
[Tests.cmd_args]
num_tokens = [64, 128]
"""


class CloudAI(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="weft-test-")
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.write()

    def write(self, more="", slots=2, gpus=8, variables=""):
        (self.folder / "system.toml").write_text(SYSTEM.format(gpus=gpus, variables=variables), encoding="utf-8")
        (self.folder / "test.toml").write_text(TEST.format(more=more, slots=slots), encoding="utf-8")

    def slurm(self, verb, *options, status=0, **variables):
        """What the command prints; with another `status`, its errors."""
        files = [self.folder / name for name in ("system.toml", "test.toml")]
        result = tool.weft("slurm", verb, *files, "--nodes", 2, *options, **variables)
        self.assertEqual(result.returncode, status, result.stderr)
        return result.stderr if status else result.stdout

    def test_a_run_names_its_memory_and_why(self):
        cuda = "cuda, with a GPU for each rank; the job asks for 8 GPUs of each node"
        auto = "auto, on GPUs if each rank of a node can have its own, else in host memory; "
        few = auto + "a node has 9 process slots, but the job asks for 8 of its GPUs"
        for file, options, variables, option, says in (
                ({}, (), {}, "cuda", cuda),
                ({"gpus": 0}, (), {}, "auto", auto + "the job asks for no GPUs"),
                ({"gpus": 0}, ("--gpus-per-node", 8), {}, "cuda", cuda),
                ({"slots": 9}, (), {}, "auto", few),
                ({"slots": 9, "more": "share_gpus = true"}, (), {}, "cuda", cuda),
                ({"more": 'memory = "host"'}, (), {}, "host", "host, the test says so"),
                ({}, ("--options=--memory host",), {}, "host", "host, an option says so"),
                ({"more": '[extra_cmd_args]\n"--memory" = "host"'}, (), {}, "host", "host, an option says so"),
                ({"variables": 'WEFT_MEMORY = "host"'}, (), {}, None, "host, the variable WEFT_MEMORY says so"),
                ({}, (), {"WEFT_MEMORY": "host"}, None, "host, the variable WEFT_MEMORY says so")):
            with self.subTest(file=file, options=options, variables=variables):
                self.write(**file)
                script = self.slurm("dry-run", *options, **variables)
                self.assertEqual(re.findall(r" --memory[ =](\w+)", script), [option] if option else [], script)
                self.assertIn(f"\n# memory of 1 run: {says}\n", script)
                self.assertIn(f"\n# Memory: {says}.\n", script)
                self.assertEqual(self.slurm("verify", *options, **variables),
                                 f"1 test, 1 run\nmemory of 1 run: {says}\n")

    def test_the_memory_of_a_grid_is_said_once_for_each_answer(self):
        self.write(more='memory = ["host", "auto", "host"]')
        self.assertEqual(self.slurm("verify").splitlines()[1:], [
            "memory of 2 runs: host, the test says so",
            "memory of 1 run: auto, on GPUs if each rank of a node can have its own, else in host memory; "
            "the test says so"])

    def test_an_option_that_the_program_lacks_is_no_run(self):
        self.write(more="use_etcd = true")
        self.assertIn("use_etcd is neither a key of cmd_args nor an option of weft elastic: leave it out\n",
                      self.slurm("verify", status=2))
        self.assertIn(" --use-etcd", self.slurm("dry-run", "--as-written"))

    def test_keys_by_which_workers_of_nixlbench_meet_are_left_out(self):
        (self.folder / "bench.toml").write_text(BENCH, encoding="utf-8")
        for options, left_out in (((), True), (("--as-written", "--store", "http://etcd:2379"), False)):
            result = tool.weft("slurm", "dry-run", self.folder / "bench.toml", "--nodes", 2, *options)
            self.assertEqual(result.returncode, 0, result.stderr)
            for number, key in ((6, "runtime_type"), (7, "benchmark_group")):
                self.assertEqual(f"bench.toml:{number}:1: warning: {key} is left out: " in result.stderr, left_out)
                self.assertEqual(f"--{key} one" in result.stdout, not left_out)
            self.assertIn("benchmark-group" if left_out else "--backend UCX", result.stdout)

    def test_a_list_that_may_be_meant_for_the_nodes_is_explained(self):
        plan = "plan = [[0, 1, 2, 3], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]]\nnum_processes_per_node = [4, 3, 3]"
        text = re.sub(r"(?s)plan = .*per_node = 2", plan, (self.folder / "test.toml").read_text(encoding="utf-8"))
        (self.folder / "test.toml").write_text(text, encoding="utf-8")
        hint = 'want dse_excluded_args = ["cmd_args.num_processes_per_node"]\n'
        self.assertIn(hint, self.slurm("verify", "--nodes", 3, status=2))
        self.assertNotIn(hint, self.slurm("verify", "--nodes", 2, status=2))  # the list has no number for each node
        self.assertNotIn(hint, self.slurm("verify", "--nodes", 3, "--processes-per-node", 1, status=2))
        (self.folder / "test.toml").write_text(
            'dse_excluded_args = ["cmd_args.num_processes_per_node"]\n' + text, encoding="utf-8")
        self.assertIn("\nprocesses=(4 3 3)\n", self.slurm("dry-run", "--nodes", 3))

    def test_too_few_slots_name_what_gives_them(self):
        (self.folder / "plan.json").write_text("[[0, 1], [0, 1, 2, 3]]", encoding="utf-8")
        plan = ("--plan", self.folder / "plan.json")
        result = tool.weft("slurm", "dry-run", *plan, "--nodes", 1, "--processes-per-node", 3)
        self.assertIn("the plan needs 4 (--processes-per-node, on all nodes together)\n", result.stderr)
        self.assertNotIn("--num-processes", result.stderr)
        self.assertIn("the plan needs 4 (num_processes_per_node, on all", self.slurm("verify", "--nodes", 1, status=2))

    def cloudai(self, verb, *options, status=0):
        """CloudAI's own command line, with another word before the verb."""
        (self.folder / "tests").mkdir(exist_ok=True)
        (self.folder / "tests" / "growth.toml").write_text(TEST.format(more="", slots=2), encoding="utf-8")
        (self.folder / "scenario.toml").write_text(SCENARIO, encoding="utf-8")
        result = tool.weft("slurm", verb, "--system-config", self.folder / "system.toml", "--tests-dir",
                           self.folder / "tests", "--test-scenario", self.folder / "scenario.toml", "--output-dir",
                           self.folder / "out", *options, PATH=f"{self.folder}:{os.environ['PATH']}")
        self.assertEqual(result.returncode, status, result.stderr)
        return result.stderr if status else result.stdout

    def test_cloudais_verbs_do_the_same_here(self):
        self.assertEqual(self.cloudai("verify-configs"), self.cloudai("verify"))
        self.assertIn("test_template_name: NixlEP, NIXLBench\n", self.cloudai("list"))
        self.assertIn("scheduler: slurm\n", self.cloudai("list", "reports"))
        self.assertIn("there is nothing to install: ", self.cloudai("install"))
        self.assertIn("there is nothing to uninstall: ", self.cloudai("uninstall"))
        self.assertIn("/out/two: ", self.cloudai("generate-report", status=3))  # no batch was run
        self.stand_in()
        self.cloudai("run")
        printed = tool.weft("slurm", "report", self.folder / "out/two", PATH=str(self.folder)).stdout
        self.assertIn("0 of 2 runs passed", printed)
        self.assertEqual(self.cloudai("generate-report"), printed)
        result = tool.weft("slurm", "generate-report", "--result-dir", self.folder / "out/two", PATH=str(self.folder))
        self.assertEqual(result.stdout, printed)

    def stand_in(self):
        """Commands that stand in for Slurm's: jobs are submitted, and the queue forgets them at once."""
        for name, text in (("sbatch", "echo 1"), ("squeue", "true")):
            (self.folder / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
            (self.folder / name).chmod(0o755)

    def test_a_grid_has_the_trajectory_that_cloudais_users_look_for(self):
        self.stand_in()
        self.cloudai("run")
        self.cloudai("generate-report")
        batch = self.folder / "out" / "two"
        text = (batch / "one" / "trajectory.csv").read_text(encoding="utf-8")
        self.assertEqual(text.splitlines()[0], "step,action.num_tokens,reward,observation.default")
        self.assertEqual(len(text.splitlines()), 3)
        self.assertEqual((batch / "trajectory-one.csv").read_text(encoding="utf-8"), text)


if __name__ == "__main__":
    if "no tomlplusplus" in tool.weft("slurm", "verify", tool.SOURCE / "tests/slurm/golden/system.toml").stderr:
        print("skipped: this build has no tomlplusplus")
        sys.exit(77)
    unittest.main()
