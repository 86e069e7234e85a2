#!/usr/bin/env python3
"""weft slurm --as-written: the test's own program gets its processes when the plan needs them, fails if its logs say
so, and its bandwidths are read from the logs.

Scripts stand in for Slurm's commands and for the program: srun runs it here, once for each step.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import tool

SRUN = """\
#!/bin/bash
for word; do case $word in --nodelist=*) export SLURMD_NODENAME=${word#*=} ;; esac; done
while case $1 in -*) true ;; *) false ;; esac; do shift; done
SLURM_LAUNCH_NODE_IPADDR=127.0.0.1 exec "$@"
"""
TEST = """\
name = "own"
description = "A program of its own"
test_template_name = "NixlEP"
[cmd_args]
docker_image_url = "none"
python_executable = "{python}"
elastic_script = "{program}"
plan = "{plan}"
num_processes_per_node = 4
store_port = {port}
port = {port}
"""
BENCH = """\
name = "own"
description = "A benchmark of its own"
test_template_name = "NIXLBench"
[cmd_args]
docker_image_url = "none"
path_to_benchmark = "nixlbench"
"""
PLAN = [[0, 1], [0, 1, 2, 3, 4], [0, 1, 2, -4], [0, 1, 2, 4]]  # rank 4 comes back, as a new process
OTHER = "[rank 4] Dispatch + combine bandwidth: 61.00 GB/s, avg_t=5.0 us"


class AsWritten(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="weft-test-")
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name).resolve()
        for name, text in (("srun", SRUN), ("scontrol", "#!/bin/sh\necho oak1\necho oak2\n"),
                           ("sbatch", "#!/bin/sh\necho 1\n"), ("squeue", "#!/bin/sh\n")):
            (self.folder / name).write_text(text, encoding="utf-8")
            (self.folder / name).chmod(0o755)
        self.program = tool.SOURCE / "tests/slurm/support/own_program.py"
        self.write(json.dumps(PLAN))

    def write(self, plan):
        text = TEST.format(python=sys.executable, program=self.program, plan=plan, port=tool.free_port())
        (self.folder / "test.toml").write_text(text, encoding="utf-8")

    def weft(self, *arguments, status=0):
        result = tool.weft("slurm", *arguments, PATH=f"{self.folder}:{os.environ['PATH']}")
        self.assertEqual(result.returncode, status, result.stderr)
        return result.stderr if status else result.stdout

    def make(self, *options, status=0):
        return self.weft("run", self.folder / "test.toml", "--as-written", "--container", "none", "--nodes", 2,
                         "--output-dir", self.folder / "out", *options, status=status)

    def start(self, status=0, **variables):
        """Runs the job's script, which ends with `status`; returns what it prints."""
        for name in ("phase", "started"):
            (self.folder / name).unlink(missing_ok=True)
        done = subprocess.run(["bash", "script.sbatch"], cwd=self.folder / "out/own/own", timeout=tool.TIMEOUT_S,
                              check=False, capture_output=True, text=True,
                              env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}", "SLURM_JOB_ID": "1",
                                   "NOTES": str(self.folder), "SLURM_JOB_NODELIST": "oak[1-2]", **variables})
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stderr

    def state(self):
        (run,) = json.loads(self.weft("status", self.folder / "out/own", "--json"))["runs"]
        return run["state"], run["why"]

    def started(self):
        return sorted((self.folder / "started").read_text(encoding="utf-8").splitlines())

    def test_processes_start_when_their_phase_begins(self):
        self.make()
        self.start()
        self.assertEqual(self.started(), ["0 oak1 2", "1 oak1 2", "1 oak2 1", "3 oak2 1"])  # rank 4 twice
        self.assertEqual(self.state(), ("passed", ""))

    def test_a_lead_that_ends_early_has_failed_though_it_ends_with_0(self):
        self.make()
        self.start(status=1, ENDS_AFTER="1")
        self.assertEqual(self.started(), ["0 oak1 2", "1 oak1 2", "1 oak2 1"])
        self.assertEqual(self.state(), ("failed", "the run ended with exit status 1 and left no results; "
                                        "phase 2 did not end: the processes of phase 3 do not start"))

    def test_nobody_waits_for_the_port_of_a_lead_that_has_ended(self):
        self.program = self.folder / "empty.py"
        self.program.write_text("", encoding="utf-8")
        self.write(json.dumps(PLAN))
        self.make()
        self.assertIn(" opened: no others start\n", self.start(status=1))
        self.assertEqual(self.state()[0], "failed")

    def test_a_log_with_a_fatal_text_is_that_of_a_failure(self):
        self.write("[[0, 1, 2, 3, 4]]")
        self.make()
        for text in ("Traceback (most recent call last):", "[E] recvValueWithTimeout failed, retrying",
                     "Failed to prepare remote memory view", "srun: error: oak2: task 0: Killed",
                     "Process 0 -> no plan phases were found for rank 3 after phase None, exiting"):
            (self.folder / "out/own/own/node-oak2.log").write_text("one\ntwo\n", encoding="utf-8")
            said = self.start(status=1, SAYS_oak2=text)
            self.assertIn(f"node-oak2.log:3: {text}\n", said)
            self.assertEqual(self.state(), ("failed", "the run ended with exit status 1 and left no results; "
                                            f"node-oak2.log:3: {text}"))
        self.start()  # the logs still have the texts of the attempts before
        self.assertEqual(self.state(), ("passed", ""))

    @unittest.skipUnless(shutil.which("shellcheck"), "shellcheck is not here")
    def test_shellcheck_finds_nothing(self):
        self.make()
        script = self.folder / "out/own/own/script.sbatch"
        done = subprocess.run(["shellcheck", script], capture_output=True, text=True, check=False)
        self.assertEqual(done.stdout, "")

    def test_a_step_that_fails_keeps_its_exit_status(self):
        self.make()
        self.start(status=7, ENDS_oak2="7", SAYS_oak2="Traceback (most recent call last):")
        self.assertIn("exit status 7 and left no results; node-oak2.log:1: Traceback", self.state()[1])

    def test_the_figure_is_read_from_the_logs(self):
        self.make()
        self.start(SAYS_oak2=OTHER)  # the mean of ranks 0 and 1 in phase 3, and of rank 4
        report = json.loads(self.weft("report", self.folder / "out/own", "--format", "json"))
        self.assertAlmostEqual(report["runs"][0]["default"], (30 + 31 + 61) / 3)
        self.assertIn("40.67", self.weft("report", self.folder / "out/own"))

    def test_the_figure_of_nixlbench_is_the_highest_bandwidth_of_its_table(self):
        (self.folder / "test.toml").write_text(BENCH, encoding="utf-8")
        self.make("--store", "http://127.0.0.1:9")
        table = (tool.SOURCE / "tests/compare/formats/nixlbench10.out").read_text(encoding="utf-8")
        (self.folder / "out/own/own/node-oak1.log").write_text(table, encoding="utf-8")
        (self.folder / "out/own/own/status.json").write_text('{"exit_status": 0}', encoding="utf-8")
        (run,) = json.loads(self.weft("report", self.folder / "out/own", "--format", "json"))["runs"]
        self.assertEqual((run["state"], run["default"]), ("passed", 11.702857))

    def test_a_plan_has_a_slot_for_each_process_that_ever_starts(self):
        self.write("[[0, 1, 2, 3], [0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 2, 3, 4, 5, 6, -7], [0, 1, 2, 3, 4, 5, 6, 7]]")
        self.assertIn("needs 9 process slots, since a rank that rejoins takes a new one, but there are 8",
                      self.make(status=2))

    def test_a_plan_in_the_image_starts_all_processes_at_once(self):
        self.write("/plans/in/the/image.json")
        self.assertIn("--followers: the plan is in the image", self.make("--followers", "late", status=2))
        self.make()
        script = (self.folder / "out/own/own/script.sbatch").read_text(encoding="utf-8")
        self.assertIn('\nlaunches=("0 1 4")\n', script)
        self.assertNotIn("phase_ended", script)


if __name__ == "__main__":
    if "no tomlplusplus" in tool.weft("slurm", "verify", tool.SOURCE / "tests/slurm/golden/system.toml").stderr:
        print("skipped: this build has no tomlplusplus")
        sys.exit(77)
    unittest.main()
