#!/usr/bin/env python3
"""weft slurm run, called again: it continues the same batch, and refuses the directory of another batch.

Scripts stand in for Slurm's commands: sbatch counts jobs, squeue prints the lines of a file, scancel refuses one job.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import tool

SBATCH = """\
#!/bin/sh
[ ! -e "$STAND_IN/refuses" ] || exit 1
[ "$1" != --test-only ] || exit 0
env > "$STAND_IN/sbatch.env"
echo x >> "$STAND_IN/jobs"
number=$(wc -l < "$STAND_IN/jobs")
for word; do
  case $word in
    --job-name=*) name=${word#*=} ;;
    --chdir=*) folder=${word#*=} ;;
  esac
done
echo "$number|$(cat "$STAND_IN/state")|None|oak01|$name|$folder" >> "$STAND_IN/queue"
[ ! -e "$STAND_IN/fails" ] || exit 1
echo "$number"
"""
SCANCEL = '#!/bin/sh\necho "$1" >> "$STAND_IN/cancelled"\n[ "$1" != 1 ] || { echo "scancel: error: no" >&2; exit 1; }\n'
SQUEUE = '#!/bin/sh\nenv > "$STAND_IN/squeue.env"\ntest ! -e "$STAND_IN/queue" || cat "$STAND_IN/queue"\n'
ENTRY = """
[[Tests]]
id = "{0}"
name = "{0}"
description = "{0}"
test_template_name = "NixlEP"
dependencies = [{1}]
job_status_check = {2}
[Tests.cmd_args]
docker_image_url = "image"
plan = [[0]]
num_processes_per_node = 1
"""


class Again(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        for name, text in (("sbatch", SBATCH), ("squeue", SQUEUE), ("scancel", SCANCEL)):
            (self.folder / name).write_text(text, encoding="utf-8")
            (self.folder / name).chmod(0o755)
        (self.folder / "state").write_text("RUNNING", encoding="utf-8")
        self.plan("[[0, 1]]")

    def plan(self, text):
        (self.folder / "plan.json").write_text(text, encoding="utf-8")

    def weft(self, *arguments, **variables):
        return tool.weft("slurm", *arguments, **{"PATH": f"{self.folder}:{os.environ['PATH']}",
                                                 "STAND_IN": str(self.folder), **variables})

    def stand_in(self, name, text):
        (self.folder / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (self.folder / name).chmod(0o755)

    def job_environment(self):
        return {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}", "STAND_IN": str(self.folder),
                "SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "oak01"}

    def need_toml(self):
        if "no tomlplusplus" in self.weft("verify", tool.SOURCE / "tests/slurm/golden/system.toml").stderr:
            self.skipTest("this build has no tomlplusplus")

    def run_batch(self, *options, status=0, files=None):
        """What it prints; with `status`, what it says."""
        what = files or ["--plan", self.folder / "plan.json", "--processes-per-node", 4]
        result = self.weft("run", *what, "--output-dir", self.folder / "out", *options)
        self.assertEqual(result.returncode, status, result.stderr)
        return result.stderr if status else result.stdout

    def test_the_same_goes_on(self):
        self.assertIn("job 1: plan.plan\n", self.run_batch())
        self.assertIn("job 1: plan.plan (submitted before)\n", self.run_batch())

    def test_another_plan_or_size_is_another_batch(self):
        self.run_batch()
        self.plan("[[0, 1, 2]]")
        self.assertIn("has another batch already, whose run plan is a different one", self.run_batch(status=3))
        self.plan("[[0, 1]]")
        for options in (["--time-limit", "5"], ["--options=--hidden-dim 512"], ["--store-port", "4000"],
                        ["--followers", "late"], ["--requeue"]):
            self.assertIn("has another batch already", self.run_batch(*options, status=3), options)
        self.assertIn("job 1: plan.plan (submitted before)\n", self.run_batch())

    def test_what_was_only_tested_is_no_other_batch(self):
        self.run_batch("--test-only", "--iterations", 2)
        (self.folder / "refuses").touch()
        self.run_batch("--test-only", status=3)
        (self.folder / "refuses").unlink()
        self.plan("[[0, 1, 2]]")
        self.assertIn("1 job could run here; nothing was submitted\n", self.run_batch("--test-only"))
        self.assertIn("job 1: plan.plan\n", self.run_batch("--time-limit", "5"))
        self.assertEqual(json.loads((self.folder / "out/plan/plan/plan.json").read_text(encoding="utf-8")), [[0, 1, 2]])
        self.assertIn("has another batch already", self.run_batch("--test-only", status=3))
        self.assertIn("job 1: plan.plan (submitted before)\n", self.run_batch("--time-limit", "5"))

    def test_a_job_of_a_directory_that_is_gone_is_not_this_one(self):
        for state in ("COMPLETED", "RUNNING"):
            (self.folder / "state").write_text(state, encoding="utf-8")
            first = self.run_batch()
            self.assertNotIn("submitted before", first)
            shutil.rmtree(self.folder / "out")
        (self.folder / "refuses").touch()
        self.run_batch(status=3)  # the directory is made, and nothing is submitted
        (self.folder / "refuses").unlink()
        self.assertIn("job 3: plan.plan\n", self.run_batch())
        self.assertIn("job 3: plan.plan (submitted before)\n", self.run_batch())

    def test_a_job_that_was_not_noted_is_found_in_the_queue(self):
        (self.folder / "fails").touch()  # sbatch has submitted it, and was ended before it said so
        self.run_batch(status=3)
        (self.folder / "fails").unlink()
        self.assertIn("job 1: plan.plan (submitted before)\n", self.run_batch())

    def test_nobody_else_reads_or_writes_what_jobs_run(self):
        mask = os.umask(0)
        try:
            self.run_batch()
        finally:
            os.umask(mask)
        batch = self.folder / "out" / "plan"
        found = {str(path.relative_to(batch.parent)): oct(path.stat().st_mode & 0o777)
                 for path in [batch.parent, *batch.parent.rglob("*")]}
        self.assertEqual(found, {**dict.fromkeys((".", "plan", "plan/plan"), "0o700"),
                                 **dict.fromkeys(("plan/batch.json", "plan/lock"), "0o600"),
                                 **{f"plan/plan/{name}": "0o600"
                                    for name in ("env.sh", "plan.json", "run.toml", "script.sbatch")}})

        def refused(what):
            self.assertIn(what, self.run_batch(status=2))
            self.assertEqual((self.folder / "jobs").read_text(encoding="utf-8"), "x\n")

        for there in (batch, batch / "plan"):  # also where all is there, and might be somebody else's
            there.chmod(0o775)
            refused(f"others may write to the directory {there} (mode 0775)")
            self.assertIn("others may write", self.weft("run", batch, "--test-only").stderr)
            there.chmod(0o700)
        if os.geteuid() == 0:
            os.chown(batch, 65534, 65534)
            refused("belongs to user 65534, not to this one, 0")
        os.rename(batch, self.folder / "moved")
        batch.symlink_to(self.folder / "empty")
        (self.folder / "empty").mkdir()
        refused(f"{batch} is a symbolic link")
        batch.unlink()
        batch.parent.chmod(0o777)
        refused(f"any user may write to {batch.parent}, which has no sticky bit")

    def test_variables_stand_for_what_is_not_said(self):
        """sbatch takes them before the lines of a script, and by squeue's the batch would not find its jobs."""
        names = ("ACCOUNT", "ARRAY_INX", "EXPORT", "GPUS_PER_NODE", "OPEN_MODE", "OUTPUT", "PARTITION", "QOS",
                 "REQUEUE", "SIGNAL", "TIMELIMIT", "WAIT")
        variables = {**{f"SBATCH_{name}": "x" for name in names}, "SQUEUE_PARTITION": "x", "SLURM_CONF": "x"}
        for options, kept in ((["--account", "one"], {"EXPORT", "GPUS_PER_NODE", "PARTITION", "QOS", "TIMELIMIT"}),
                              (["--time-limit", "5", "--gpus-per-node", "2"],
                               {"ACCOUNT", "EXPORT", "PARTITION", "QOS"})):
            result = self.weft("run", "--plan", self.folder / "plan.json", "--processes-per-node", 4, "--output-dir",
                               self.folder / f"out{len(options)}", *options, **variables)
            self.assertEqual(result.returncode, 0, result.stderr)
            for command in ("sbatch", "squeue"):
                lines = (self.folder / f"{command}.env").read_text(encoding="utf-8").splitlines()
                self.assertIn("SLURM_CONF=x", lines)
                self.assertFalse([line for line in lines if line.startswith("SQUEUE_")])
            lines = (self.folder / "sbatch.env").read_text(encoding="utf-8").splitlines()
            found = {line for line in lines if line.startswith("SBATCH_")}
            self.assertEqual(found, {f"SBATCH_{name}=x" for name in kept})

    def test_what_describes_a_job_is_not_passed_on_to_the_jobs_that_it_submits(self):
        """They would inherit it, and their srun takes it for options: for memory, for GPUs, for a node list."""
        about = {"SLURM_MEM_PER_CPU": "100", "SLURM_GPUS": "8", "SLURM_CONFIGURED": "x"}
        reach = {"SLURM_CONF": "x", "SLURM_CLUSTERS": "c", "SLURM_JWT": "t"}
        for number, inside in enumerate(({"SLURM_JOB_ID": "7"}, {})):
            result = self.weft("run", "--plan", self.folder / "plan.json", "--output-dir",
                               self.folder / f"out{number}", "--nodes", 2, **about, **reach, **inside)
            self.assertEqual(result.returncode, 0, result.stderr)
            lines = (self.folder / "sbatch.env").read_text(encoding="utf-8").splitlines()
            found = dict(line.split("=", 1) for line in lines if line.startswith("SLURM_"))
            self.assertEqual(found, reach if inside else {**about, **reach})

    def test_a_page_shows_a_batch_in_a_folder_of_whatever_name(self):
        self.run_batch()
        folder = os.fsencode(self.folder) + b"/caf\xe9"
        os.rename(os.fsencode(self.folder / "out"), folder)
        result = subprocess.run([tool.WEFT, "slurm", "report", folder + b"/plan", "--html"], capture_output=True,
                                env=tool.environment(PATH=str(self.folder)), timeout=tool.TIMEOUT_S, check=False)
        self.assertEqual((result.returncode, os.path.exists(folder + b"/plan/report.html")), (0, True), result.stderr)

    def test_a_name_may_have_dots(self):
        self.assertIn("job 1: v1..2.v1..2\n", self.run_batch("--name", "v1..2"))
        batch = self.folder / "out" / "v1..2" / "batch.json"
        text = batch.read_text(encoding="utf-8")
        for path in ("..", "../v1..2", "v1..2/..", "v1..2/../v1..2"):
            batch.write_text(text.replace('"directory": "v1..2"', f'"directory": "{path}"'), encoding="utf-8")
            result = self.weft("status", batch.parent)
            self.assertEqual(result.returncode, 1, path)
            self.assertIn("runs[0] is not as 'weft slurm' writes it", result.stderr)
        batch.write_text(text.replace('"test": "v1..2"', '"test": "v1/../../2"'), encoding="utf-8")  # of a trajectory
        self.assertIn("runs[0] is not as", self.weft("report", batch.parent).stderr)

    def test_a_job_that_slurm_has_forgotten_did_not_pass_if_it_ended_otherwise(self):
        self.run_batch()
        (self.folder / "queue").unlink()
        run = self.folder / "out" / "plan" / "plan"
        (run / "job1.0").mkdir()
        (run / "job1.0" / "results.json").write_text('{"passed": true}', encoding="utf-8")
        for status, state in ((3, "failed"), (0, "passed")):
            (run / "status.json").write_text(json.dumps({"exit_status": status}), encoding="utf-8")
            shown = json.loads(self.weft("status", self.folder / "out" / "plan", "--json").stdout)
            self.assertEqual([run["state"] for run in shown["runs"]], [state], shown)
            self.assertEqual(shown["runs"][0]["why"], "the run ended with exit status 3" if status else "")

    def test_a_status_that_cannot_be_written_leaves_the_old_one(self):
        self.stand_in("srun", 'exit "$(cat "$STAND_IN/ends")"')
        self.stand_in("scontrol", "echo oak01")
        self.run_batch()
        run = self.folder / "out" / "plan" / "plan"
        full = 'trap "" XFSZ; ulimit -f 0; exec bash script.sbatch'  # a write fails then, as on a full file system

        def ended_with(status, command="exec bash script.sbatch"):
            (self.folder / "ends").write_text(str(status), encoding="utf-8")
            done = subprocess.run(["bash", "-c", command], cwd=run, env=self.job_environment(), timeout=60, check=False,
                                  stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, status, done.stderr)
            return json.loads((run / "status.json").read_text(encoding="utf-8"))["exit_status"], done.stderr

        def why(**variables):
            shown = json.loads(self.weft("status", self.folder / "out" / "plan", "--json", **variables).stdout)
            return shown["runs"][0]["why"]

        self.assertEqual(ended_with(4), (4, ""))
        left, said = ended_with(5, full)
        self.assertEqual(left, 4)
        self.assertIn("status.json stays as it was: that this run ended with 5 could not be written", said)
        queue = self.folder / "queue"
        queue.write_text(queue.read_text(encoding="utf-8").replace("RUNNING", "FAILED"), encoding="utf-8")
        unwritten = "; its status.json could not be written: is the file system full, or a quota used up?"
        self.assertEqual(why(), "the job ended as FAILED (None) and left no results" + unwritten)
        queue.unlink()
        self.assertEqual(why(), "Slurm does not know the job, and it left no results" + unwritten)
        (self.folder / "squeue").unlink()
        self.assertEqual(why(PATH="/nowhere"), "it has left no results, and Slurm does not answer" + unwritten)
        self.assertEqual(ended_with(6), (6, ""))
        self.assertEqual(why(PATH="/nowhere"), "the run ended with exit status 6 and left no results")

    def test_a_run_that_left_no_results_failed_with_what_the_first_log_ends_with(self):
        self.run_batch()
        (self.folder / "queue").unlink()
        run = self.folder / "out" / "plan" / "plan"
        (run / "status.json").write_text('{"exit_status": 2}', encoding="utf-8")
        ends = {"job.log": "cannot read env.sh", "pre_test.log": "no licence", "node-oak03.log": "waits for the lead",
                "node-oak02.log": "a step is cancelled\nsrun: error: oak02: task 0: Killed",
                "node-oak01.log": "x" * 5000 + "\nweft elastic: unknown option --\x1b[7m\nsrun: error: oak01: task 0: "
                                  "Exited with exit code 2\nTry 'weft elastic --help'."}
        wanted = ("job.log ends: cannot read env.sh", "pre_test.log ends: no licence",
                  "node-oak03.log ends: waits for the lead", "node-oak02.log ends: a step is cancelled",
                  "node-oak01.log ends: weft elastic: unknown option --?[7m")
        for older, ((name, text), words) in enumerate(zip(ends.items(), wanted)):
            (run / name).write_text(text + "\n", encoding="utf-8")
            os.utime(run / name, (1000 - older, 1000 - older))
            shown = json.loads(self.weft("status", self.folder / "out" / "plan", "--json").stdout)["runs"][0]
            self.assertEqual(shown["why"], f"the run ended with exit status 2 and left no results; {words}")
        (run / "node-oak01.log").write_text("srun: error: o\n" + "\u00e9" * 150, encoding="utf-8")
        os.utime(run / "node-oak01.log", (0, 0))
        shown = json.loads(self.weft("status", self.folder / "out" / "plan", "--json").stdout)["runs"][0]
        self.assertTrue(shown["why"].endswith(f"node-oak01.log ends: {chr(0xe9) * 100}..."), shown["why"])
        (run / "node-oak01.log").write_text("y" * 5000 + "\n", encoding="utf-8")
        (run / "node-oak02.log").unlink()
        os.utime(run / "node-oak01.log", (0, 0))
        shown = json.loads(self.weft("status", self.folder / "out" / "plan", "--json").stdout)["runs"][0]
        self.assertTrue(shown["why"].endswith(f"node-oak01.log ends: {'y' * 200}..."), shown["why"])
        (run / "job1.0").mkdir()
        (run / "job1.0" / "results.json").write_text('{"passed": false, "error": "rank 3 died"}', encoding="utf-8")
        shown = json.loads(self.weft("status", self.folder / "out" / "plan", "--json").stdout)["runs"][0]
        self.assertEqual(shown["why"], "rank 3 died")

    def test_a_job_that_cannot_be_cancelled_keeps_no_other_from_it(self):
        self.run_batch("--iterations", 3)
        result = self.weft("cancel", self.folder / "out" / "plan")
        self.assertEqual((self.folder / "cancelled").read_text(encoding="utf-8").split(), ["1", "2", "3"])
        self.assertEqual((result.returncode, result.stdout), (3, ""))
        self.assertIn("job 1: scancel: no; 2 jobs were cancelled\n", result.stderr)

    def test_a_run_of_one_job_waits_for_those_that_it_names(self):
        self.need_toml()
        behind = '{{ type = "start_post_comp", id = "{}" }}'.format
        tests = (("a", "", "true"), ("b", behind("a"), "true"), ("c", behind("a"), "false"), ("d", behind("b"), "true"))
        scenario = self.folder / "scenario.toml"
        scenario.write_text('name = "one"\n' + "".join(ENTRY.format(*test) for test in tests), encoding="utf-8")
        self.run_batch("--single-sbatch", files=[scenario])
        batch = self.folder / "out" / "one"

        def run(status_of_a):
            for name, *_ in tests:
                status = status_of_a if name == "a" else 0
                left = f'{{"exit_status": {status}, }}'
                text = f"echo {name} >> ran\necho '{left}' > {name}/status.json\nexit {status}\n"
                (batch / name / "script.sbatch").write_text(text, encoding="utf-8")
            done = subprocess.run(["bash", "script.sbatch"], cwd=batch, stdout=subprocess.PIPE, text=True, check=False)
            return done.returncode, (batch / "ran").read_text(encoding="utf-8").split(), done.stdout

        status, ran, said = run(7)
        self.assertEqual((status, ran), (7, ["a", "c"]))
        self.assertIn("b/script.sbatch: does not begin, since", said)
        self.assertEqual(run(0)[:2], (0, ["a", "c", "a", "b", "d"]))

    def test_a_run_that_begins_beside_a_signal_is_reported(self):
        self.need_toml()
        scenario = self.folder / "scenario.toml"
        scenario.write_text('name = "one"\n' + ENTRY.format("a", "", "true") + ENTRY.format("b", "", "true"),
                            encoding="utf-8")
        self.run_batch("--single-sbatch", files=[scenario])
        batch = self.folder / "out" / "one"
        whole = (batch / "script.sbatch").read_text(encoding="utf-8")
        (batch / "a" / "script.sbatch").write_text("exec sleep 60\n", encoding="utf-8")
        for told in self.reported_beside_a_fork(whole):
            (batch / "script.sbatch").write_text(told, encoding="utf-8")
            done = subprocess.run(["bash", "script.sbatch"], cwd=batch, stdout=subprocess.PIPE, text=True, check=False,
                                  timeout=tool.TIMEOUT_S)
            self.assertEqual(done.returncode, 138)
            self.assertNotIn("b/script.sbatch", done.stdout)

    def reported_beside_a_fork(self, script):
        """The script with a signal just before it forks, and just behind that: a shell that was forked loses one."""
        line = r"(?m)^( *\{ echo >&\"\$ready\"; exec .*(?:\\\n.*)*\} &\n)"
        self.assertEqual(len(re.findall(line, script)), 1)
        return [re.sub(line, text, script) for text in (r"kill -s USR1 $$\n\1", r"\1kill -s USR1 $$\n")]

    def test_nobody_waits_for_a_lead_that_ended_before_the_run(self):
        self.stand_in("srun", 'case "$*" in *--nodelist=oak01*) exit 3 ;; esac\nexec sleep 600')
        self.stand_in("scontrol", "echo oak01\necho oak02")
        self.run_batch("--nodes", 2)
        run = self.folder / "out" / "plan" / "plan"
        done = subprocess.run(["bash", "script.sbatch"], cwd=run, env=self.job_environment(), timeout=tool.TIMEOUT_S,
                              check=False)
        self.assertEqual(done.returncode, 3)

    def test_a_step_that_begins_beside_a_signal_is_reported(self):
        self.stand_in("srun", "exec sleep 60")
        self.stand_in("scontrol", "echo oak01")
        self.run_batch()
        run = self.folder / "out" / "plan" / "plan"
        for told in self.reported_beside_a_fork((run / "script.sbatch").read_text(encoding="utf-8")):
            done = subprocess.run(["bash", "-c", told], cwd=run, env=self.job_environment(), timeout=tool.TIMEOUT_S,
                                  check=False)
            self.assertEqual(done.returncode, 138)

    def test_a_run_does_not_begin_behind_a_signal_in_pre_test(self):
        self.need_toml()
        self.stand_in("srun", 'echo x >> "$STAND_IN/steps"')
        self.stand_in("scontrol", "echo oak01")
        for name, hook, status in (("right", "true", 0), ("usr1", "kill -s USR1 $PPID", 138),
                                   ("term", "kill -s TERM $PPID; exec sleep 1000", 143),
                                   ("deaf", 'trap "" USR1; kill -s USR1 $PPID', 138)):
            scenario = self.folder / f"{name}.toml"
            scenario.write_text(f'name = "{name}"\npre_test = \'{hook}\'\n' + ENTRY.format("a", "", "true"),
                                encoding="utf-8")
            self.run_batch(files=[scenario])
            run = self.folder / "out" / name / "a"
            done = subprocess.run(["bash", "script.sbatch"], cwd=run, env=self.job_environment(), timeout=60,
                                  check=False)
            self.assertEqual((done.returncode, (self.folder / "steps").exists()), (status, status == 0), name)
            self.assertEqual(json.loads((run / "status.json").read_text(encoding="utf-8"))["exit_status"], status)
            (self.folder / "steps").unlink(missing_ok=True)


if __name__ == "__main__":
    unittest.main()
