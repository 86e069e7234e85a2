#!/usr/bin/env python3
"""weft slurm verify reports every fault with its place and what would be right, all faults at once."""
import os
import pathlib
import sys
import tempfile
import unittest

import tool

SYSTEM = """\
name = "oak"
scheduler = "slurm"
output_path = "/results"
default_partition = "gpu"
gpus_per_node = 8
[[partitions]]
name = "gpu"
nodes = ["oak[001-016]"]
[[partitions.groups]]
name = "rack"
nodes = ["oak[001-008]"]
[global_env_vars]
FI_TCP_IFACE = "eth1"
[[partitions]]
name = "spare"
[[partitions.groups]]
name = "rack"
nodes = ["elm[1-4]"]
[[partitions.groups]]
name = "all"
nodes = ["elm[1-9]"]
"""

TEST = """\
name = "growth"
description = "Two become four"
test_template_name = "NixlEP"
agent = "grid_search"
agent_steps = 1
agent_reward_function = "identity"
extra_container_mounts = ["/a:/b"]
[cmd_args]
docker_image_url = "image"
plan = [[0, 1], [0, 1, 2, 3]]
num_processes_per_node = 2
num_tokens = 128
dtype = "fp8"
kineto = true
store_port = 9999
service_startup_timeout_seconds = 60
[extra_env_vars]
NAME = "value"
"""

SCENARIO = """\
name = "nightly"
[[Tests]]
id = "one"
test_name = "growth"
num_nodes = 2
time_limit = "00:30:00"
iterations = 1
[[Tests]]
id = "two"
test_name = "growth"
num_nodes = 2
dependencies = [{ type = "start_post_comp", id = "one" }]
"""

BENCH = """\
name = "bench"
description = "Transfers"
test_template_name = "NIXLBench"
[cmd_args]
docker_image_url = "image"
backend = "SHM"
max_block_size = "64kb"
op_type = "READ"
"""

FILES = {"system.toml": SYSTEM, "test.toml": TEST, "scenario.toml": SCENARIO, "bench.toml": BENCH}

VERIFIED = "2 tests, 2 runs\nmemory of 2 runs: cuda, with a GPU for each rank; the job asks for 8 GPUs of each node\n"
WITHOUT_GPUS = "auto, on GPUs if each rank of a node can have its own, else in host memory; the job asks for no GPUs\n"
ONE_RUN, TWO_RUNS = (f"{n} test{s}, {n} run{s}\nmemory of {n} run{s}: {WITHOUT_GPUS}" for n, s in ((1, ""), (2, "s")))

# File, what stands there, what stands there instead; the place of the fault, and words of what is said.
MUTATIONS = [
    # TOML itself
    ("test.toml", 'name = "growth"', 'name = "growth', "1:", "it is not TOML"),
    ("test.toml", "agent_steps = 1", "agent_steps = 1\nagent_steps = 2", "6:", "it is not TOML"),
    ("scenario.toml", "[[Tests]]\nid = \"one\"", "[[Tests]\nid = \"one\"", "2:", "it is not TOML"),
    ("test.toml", "[cmd_args]", "[.cmd_args]", "", "it is not TOML"),
    ("test.toml", "agent_steps = 1", "\u00e9 = 1", "5:1:", "allowed only in strings and comments"),
    # keys
    ("test.toml", "agent_steps", "agent_stps", "5:1:", "did you mean agent_steps?"),
    ("test.toml", "test_template_name", "test_template", "3:1:", "did you mean test_template_name?"),
    ("test.toml", "extra_env_vars", "extra_env_var", "17:2:", "did you mean extra_env_vars?"),
    ("test.toml", "description = \"Two become four\"\n", "", "1:1:", "a test has no description"),
    ("test.toml", "agent_steps = 1", "colour = 1", "5:1:", "colour is not a key of a test"),
    ("scenario.toml", "time_limit", "time_limits", "6:1:", "did you mean time_limit?"),
    ("scenario.toml", "num_nodes = 2\ntime", "num_node = 2\ntime", "5:1:", "did you mean num_nodes?"),
    ("scenario.toml", "id = \"one\"\n", "", "2:1:", "has no id"),
    ("scenario.toml", "id = \"one\" }]", "ids = \"one\" }]", "12:45:", "did you mean id?"),
    ("scenario.toml", 'name = "nightly"', 'nam = "nightly"', "1:1:", "did you mean name?"),
    ("system.toml", "gpus_per_node", "gpu_per_node", "5:1:", "did you mean gpus_per_node?"),
    ("system.toml", "default_partition = \"gpu\"\n", "", "1:1:", "has no default_partition"),
    # keys of cmd_args
    ("test.toml", "num_tokens", "num_tokns", "12:1:", "did you mean num_tokens?"),
    ("test.toml", "num_processes_per_node", "num_proceses_per_node", "11:1:", "did you mean num_processes_per_node?"),
    ("test.toml", 'docker_image_url = "image"\n', "", "8:2:", "cmd_args has no docker_image_url"),
    ("test.toml", "plan = [[0, 1], [0, 1, 2, 3]]\n", "", "8:2:", "cmd_args has no plan"),
    ("test.toml", "kineto = true", "num_processes = 4", "14:1:", "is set by num_processes_per_node"),
    ("test.toml", "kineto = true", "num-tokens = 16", "14:1:", "the same option as num_tokens in "),
    ("test.toml", "kineto = true", "run_dir = \"x\"", "14:1:", "is set by the script"),
    ("bench.toml", "max_block_size", "max_blok_size", "7:1:", "did you mean max_block_size?"),
    ("test.toml", "kineto = true", "use_etcd = true", "14:1:", "nor an option of weft elastic: leave it out"),
    ("test.toml", "kineto = true", 'debug_level = "info"', "14:1:", "nor an option of weft elastic: leave it out"),
    ("bench.toml", 'op_type = "READ"', "quite_unheard_of = 3", "8:1:", "nor an option of weft bench transfer: leave"),
    # types
    ("test.toml", 'name = "growth"', "name = 7", "1:8:", "want a string"),
    ("test.toml", "agent_steps = 1", 'agent_steps = "1"', "5:15:", "want a whole number"),
    ("test.toml", '["/a:/b"]', '"/a:/b"', "7:26:", "want a list of strings"),
    ("test.toml", '["/a:/b"]', '["/a"]', "7:27:", "want HOST:CONTAINER"),
    ("test.toml", '["/a:/b"]', '["/a:"]', "7:27:", "want HOST:CONTAINER"),
    ("test.toml", '["/a:/b"]', "[4]", "7:27:", "want a string"),
    ("test.toml", "num_processes_per_node = 2", 'num_processes_per_node = "2"', "11:26:", "want a whole number"),
    ("test.toml", "num_processes_per_node = 2", "num_processes_per_node = 2.5", "11:26:", "want a whole number"),
    ("test.toml", "num_tokens = 128", "num_tokens = {a = 1}", "12:14:", "num_tokens is a table"),
    ("test.toml", "num_tokens = 128", "num_tokens = 1979-05-27", "12:14:", "a date or a time"),
    ("test.toml", "num_tokens = 128", "num_tokens = true", "12:14:", "want a value"),
    ("test.toml", "kineto = true", "kineto = 1", "14:10:", "want true or false"),
    ("scenario.toml", "num_nodes = 2\ntime", "num_nodes = \"2\"\ntime", "5:13:", "want a whole number"),
    ("scenario.toml", 'time_limit = "00:30:00"', "time_limit = 30", "6:14:", "want a string"),
    ("system.toml", 'FI_TCP_IFACE = "eth1"', "FI_TCP_IFACE = [1]", "13:16:", "want a string"),
    ("system.toml", 'FI_TCP_IFACE = "eth1"', '"FI-TCP" = "eth1"', "13:1:", "environment variable"),
    # ranges
    ("test.toml", "num_processes_per_node = 2", "num_processes_per_node = 0", "11:26:", "from 1 to 4096"),
    ("test.toml", "num_processes_per_node = 2", "num_processes_per_node = [2, 0]", "11:30:", "from 1 to 4096"),
    ("test.toml", "num_processes_per_node = 2", "num_processes_per_node = []", "11:26:", "empty list"),
    ("test.toml", "store_port = 9999", "store_port = 70000", "15:14:", "from 1 to 65535"),
    ("test.toml", "store_port = 9999", "store_port = 0", "15:14:", "from 1 to 65535"),
    ("test.toml", "timeout_seconds = 60", "timeout_seconds = 0", "16:35:", "from 1 to"),
    ("test.toml", "num_tokens = 128", "num_tokens = 9000000", "12:14:", "num_tokens"),
    ("test.toml", "num_tokens = 128", "num_tokens = [128, -5]", "12:20:", "num_tokens"),
    ("test.toml", "num_tokens = 128", "num_tokens = []", "12:14:", "empty list"),
    ("test.toml", "store_port = 9999", "store_port = [9999, [1]]", "15:21:", "store_port is a list"),
    ("test.toml", 'NAME = "value"', 'NAME = ["value", ["x"]]', "18:18:", "a variable is a list"),
    ("test.toml", 'dtype = "fp8"', 'dtype = "fp9"', "13:9:", "fp8"),
    ("bench.toml", '"READ"', '"REED"', "8:11:", "READ"),
    ("bench.toml", '"SHM"', '"NOPE"', "6:11:", "want one or, separated by commas, several of UCX, LIBFABRIC, SHM"),
    ("bench.toml", '"SHM"', '["SHM", "GUSLI"]', "6:19:", "want one of UCX, LIBFABRIC, SHM, CUDA, AUTO, POSIX"),
    ("bench.toml", '"64kb"', '"64 quarts"', "7:18:", "64 quarts"),
    ("scenario.toml", "num_nodes = 2\ntime", "num_nodes = 0\ntime", "5:13:", "from 1 to"),
    ("scenario.toml", "num_nodes = 2\ntime", "num_nodes = [1, 0]\ntime", "5:17:", "from 1 to"),
    ("scenario.toml", "iterations = 1", "iterations = 0", "7:14:", "from 1 to"),
    ("scenario.toml", '"00:30:00"', '"half an hour"', "6:14:", "minutes, M:S, H:M:S"),
    ("scenario.toml", '"00:30:00"', '"0"', "6:14:", "minutes, M:S, H:M:S"),
    ("system.toml", "gpus_per_node = 8", "gpus_per_node = -1", "5:17:", "from 0 to"),
    # what becomes a line of #SBATCH
    ("system.toml", "gpus_per_node = 8", 'account = "a\\nb"', "5:11:", "want one line"),
    ("system.toml", "gpus_per_node = 8", 'extra_sbatch_args = ["--nice", "a\\nb"]', "5:32:", "want one line"),
    ("system.toml", '"/results"', '"/a\\nb"', "3:15:", "want one line"),
    # names
    ("test.toml", '"NixlEP"', '"NixlEp"', "3:22:", 'did you mean "NixlEP"?'),
    ("test.toml", '"NixlEP"', '"NcclTest"', "3:22:", 'want "NixlEP" or "NIXLBench"'),
    ("test.toml", '"grid_search"', '"bo_gp"', "4:9:", 'want "grid_search"'),
    ("test.toml", '"identity"', '"best"', "6:25:", '"inverse", "negative" or "identity"'),
    ("test.toml", 'NAME = "value"', '"1NAME" = "value"', "18:1:", "environment variable"),
    ("system.toml", '"slurm"', '"lsf"', "2:13:", 'want "slurm"'),
    ("system.toml", 'default_partition = "gpu"', 'default_partition = "cpu"', "4:21:", "not the name of one of [["),
    ("system.toml", 'default_partition = "gpu"', 'default_partition = "gpu,cpu"', "4:21:", 'is "cpu", which is not'),
    ("scenario.toml", 'test_name = "growth"\nnum_nodes = 2\ntime', 'test_name = "groth"\nnum_nodes = 2\ntime', "4:13:",
     'did you mean "growth"?'),
    ("scenario.toml", 'id = "two"', 'id = "one"', "9:6:", "line 3"),
    ("scenario.toml", 'id = "two"', 'id = "../two"', "9:6:", "letters, digits"),
    ("scenario.toml", 'id = "one" }]', 'id = "ones" }]', "12:50:", 'did you mean "one"?'),
    ("scenario.toml", '"start_post_comp"', '"start_post_end"', "12:26:", "start_post_comp"),
    ("scenario.toml", 'id = "one" }]', 'id = "two" }]', "12:50:", "circle"),
    ("scenario.toml", 'iterations = 1', 'dependencies = [{ type = "start_post_comp", id = "two" }]', ":", "circle"),
    ("scenario.toml", "num_nodes = 2\ntime", 'nodes = ["oak[5-1]"]\ntime', "5:10:", "as Slurm writes them"),
    ("scenario.toml", "num_nodes = 2\ntime", 'nodes = ["gpu:attic:1"]\ntime', "5:10:", "no such group"),
    ("scenario.toml", "num_nodes = 2\ntime", 'nodes = ["gpu:rack:9"]\ntime', "5:10:", "the group has 8 nodes"),
    ("scenario.toml", "num_nodes = 2\ntime", 'nodes = ["gpu:rack:1", "spare:rack:1"]\ntime', "5:24:",
     "of one partition"),
    ("scenario.toml", "iterations = 1", "extra_srun_args = \"--comment='a b\"", "7:19:", "a quote without an end"),
    ("scenario.toml", "iterations = 1", 'nodes = ["oak[001-003]"]', "5:13:", "3 are named"),
    ("scenario.toml", "iterations = 1", 'nodes = ["oak001", "oak[001-002]"]', "7:9:", "the 3 names stand for 2 nodes"),
    ("scenario.toml", "num_nodes = 2\ntime", "num_nodes = 17\ntime", "5:13:",
     "17 nodes are requested, but partition gpu of the system has only 16"),
    ("scenario.toml", "num_nodes = 2\ntime", "num_nodes = [16, 17]\ntime", "5:18:", "17 nodes are requested"),
    ("scenario.toml", "num_nodes = 2\ntime", 'nodes = ["oak[001-020]"]\ntime', "5:9:", "20 nodes are requested"),
    ("scenario.toml", 'test_name = "growth"\nnum_nodes = 2\ntime', "num_nodes = 2\ntime", "2:1:",
     "no test_template_name"),
    ("scenario.toml", "test_name", "test_nam", "4:1:", "did you mean test_name?"),
    ("scenario.toml", 'id = "one"\n', 'id = "o ne"\n', "3:6:", "letters, digits"),
    ("scenario.toml", "iterations = 1", 'nodes = ["oak[001-002]"]\nexclude_nodes = ["oak002"]', "8:17:",
     "leaves 1 node of those that are named, but the run needs 2"),
    ("scenario.toml", "iterations = 1", 'exclude_nodes = ["oak[001-010]", "oak[009-016]"]', "7:17:",
     "leaves 0 nodes to choose from in partition gpu, but the run needs 2"),
    ("scenario.toml", "num_nodes = 2\ntime", 'nodes = ["gpu:rack:2"]\nexclude_nodes = ["oak[001-007]"]\ntime', "6:17:",
     "leaves 1 node to choose from in partition gpu, but the run needs 2"),
    ("system.toml", "gpus_per_node = 8", 'container_runtime = "docker"', "5:21:", 'want "none", "pyxis"'),
    ("system.toml", '[[partitions]]\nname = "gpu"', "[[partitions]]\nname = 7", "7:8:", "want a string"),
    # plans
    ("test.toml", "[[0, 1], [0, 1, 2, 3]]", '"missing.json"', "10:8:", "missing.json"),
    ("test.toml", "[[0, 1], [0, 1, 2, 3]]", '"[[0, 1], [0"', "10:8:", "JSON"),
    ("test.toml", "[[0, 1], [0, 1, 2, 3]]", "[[0, 1], [0, -5]]", "10:8:", "5"),
    ("test.toml", "[[0, 1], [0, 1, 2, 3]]", "[[0, 1], []]", "10:8:", "phase 1"),
    ("test.toml", "[[0, 1], [0, 1, 2, 3]]", "[[0, 1], [0, 1, 2, 3, 4, 5]]", "10:8:", "4 process slots"),
    ("test.toml", "[[0, 1], [0, 1, 2, 3]]", '["[[0]]", "[[0, 1, 2, 3, 4]]"]', "10:18:", "4 process slots"),
    ("test.toml", "[[0, 1], [0, 1, 2, 3]]", "7", "10:8:", "plan is"),
    ("test.toml", "[[0, 1], [0, 1, 2, 3]]", '""', "10:8:", "plan is an empty string; want a file's path, JSON, or"),
    ("test.toml", "plan = [[0, 1], [0, 1, 2, 3]]", 'input_json = ""', "10:14:", "input_json is an empty string"),
    ("test.toml", "plan = [[0, 1], [0, 1, 2, 3]]", "input_json = [[0]]", "10:15:", "want a string"),
    ("test.toml", "plan = [[0, 1], [0, 1, 2, 3]]", "plann = [[0]]", "10:1:", "did you mean plan?"),
    ("test.toml", "[cmd_args]", "[cmd_arg]", "8:2:", "did you mean cmd_args?"),
    ("test.toml", "num_processes_per_node = 2\n", "", "8:2:", "has no num_processes_per_node"),
    ("test.toml", "[[0, 1], [0, 1, 2, 3]]", '["[[0]]", 7]', "10:18:", "a plan is a whole number"),
]


class Faults(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="weft-test-")
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        for name, text in FILES.items():
            (self.folder / name).write_text(text, encoding="utf-8")

    def verify(self, *names, options=()):
        return tool.weft("slurm", "verify", *(self.folder / name for name in names), *options)

    def test_what_is_changed_below_is_right_before(self):
        result = self.verify("system.toml", "test.toml", "scenario.toml")
        self.assertEqual((result.stdout, result.stderr, result.returncode), (VERIFIED, "", 0))
        result = self.verify("bench.toml")
        self.assertEqual((result.stdout, result.stderr, result.returncode), ("1 test, 1 run\n", "", 0))

    def test_each_fault_is_reported_at_its_place(self):
        self.assertGreaterEqual(len(MUTATIONS), 50)
        for name, before, after, place, words in MUTATIONS:
            with self.subTest(file=name, now=after):
                self.assertIn(before, FILES[name])
                path = self.folder / name
                path.write_text(FILES[name].replace(before, after, 1), encoding="utf-8")
                names = ["bench.toml"] if name == "bench.toml" else ["system.toml", "test.toml", "scenario.toml"]
                result = self.verify(*names)
                path.write_text(FILES[name], encoding="utf-8")
                begin = f"{path}:{place}" if place != ":" else f"{path}:"
                told = [line for line in result.stderr.splitlines() if line.startswith(begin)]
                self.assertTrue(any(words in line for line in told), result.stderr)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                if "[1, 0]" not in after:  # whose step 1 is too small for the plan, too
                    self.assertEqual(len(result.stderr.splitlines()), 2, result.stderr)  # nothing that follows from it

    def test_a_file_that_two_entries_name_is_reported_once(self):
        entry = '[[Tests]]\nid = "{}"\npath = "missing.toml"\n'
        (self.folder / "scenario.toml").write_text('name = "s"\n' + entry.format("a") + entry.format("b"),
                                                   encoding="utf-8")
        told = self.verify("scenario.toml").stderr.splitlines()
        self.assertEqual(len(told), 2, told)
        self.assertIn("No such file", told[0])

    def test_a_required_key_is_not_handed_on_misspelt(self):
        (self.folder / "test.toml").write_text(TEST.replace("num_processes_per", "num_proceses_per"), encoding="utf-8")
        result = self.verify("test.toml", options=["--as-written", "--nodes", 2])
        self.assertEqual(result.returncode, 2)
        self.assertIn("test.toml:11:1: num_proceses_per_node is neither a key of cmd_args", result.stderr)

    def test_all_faults_are_reported_at_once_in_the_order_of_their_places(self):
        (self.folder / "test.toml").write_text(
            TEST.replace("store_port = 9999", "store_port = 0").replace("agent_steps = 1", "agent_steps = 0"),
            encoding="utf-8")
        (self.folder / "scenario.toml").write_text(
            SCENARIO.replace('id = "two"', 'id = "one"').replace("iterations = 1", "iteration = 1"), encoding="utf-8")
        (self.folder / "system.toml").write_text(SYSTEM.replace('"slurm"', '"lsf"'), encoding="utf-8")
        result = self.verify("system.toml", "test.toml", "scenario.toml")
        places = [line.removeprefix(f"{self.folder}/").split(": ")[0] for line in result.stderr.splitlines()]
        self.assertEqual(places[:-1], ["system.toml:2:13", "test.toml:5:15", "test.toml:15:14", "scenario.toml:7:1",
                                       "scenario.toml:9:6"])
        self.assertEqual(result.stderr.splitlines()[-1], "weft slurm verify: 5 faults")

    def test_a_group_is_its_partition_without_all_other_nodes(self):
        for nodes, options, excluded in [
                ('"gpu:rack:2"', (), "oak[009-016]"),  # which are in no group
                ('"spare:rack:2"', (), "elm[5-9]"),    # all of them are in "all", too
                ('"spare:rack:1", "elm7"', (), "elm[5-6],elm[8-9]"),
                ('"spare:rack:1", "spare:all:1"', (), None),
                ('"spare:rack:1"', ("--exclude", "elm2"), "elm[5-9],elm2")]:
            with self.subTest(nodes=nodes, options=options):
                (self.folder / "scenario.toml").write_text(
                    'name = "s"\n[[Tests]]\nid = "a"\ntest_name = "growth"\nnodes = [' + nodes + "]\n",
                    encoding="utf-8")
                (self.folder / "test.toml").write_text(TEST.replace("[[0, 1], [0, 1, 2, 3]]", "[[0, 1]]"),
                                                       encoding="utf-8")
                files = [self.folder / name for name in ("system.toml", "test.toml", "scenario.toml")]
                script = tool.weft("slurm", "dry-run", *files, *options).stdout
                self.assertEqual([line.split("=", 1)[1].strip("'") for line in script.splitlines()
                                  if line.startswith("#SBATCH --exclude=")], [excluded] if excluded else [])

    def test_a_job_may_name_several_partitions(self):
        files = [self.folder / name for name in ("system.toml", "test.toml")]
        result = tool.weft("slurm", "dry-run", *files, "--nodes", 2, "--partition", "gpu,spare")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("#SBATCH --partition=gpu,spare\n", result.stdout)
        self.assertIn('--partition: the system has no partition "none"\n',
                      self.verify("system.toml", "test.toml", options=["--partition", "gpu,none"]).stderr)
        (self.folder / "system.toml").write_text(
            SYSTEM.replace('default_partition = "gpu"', 'default_partition = "spare,gpu"'), encoding="utf-8")
        result = tool.weft("slurm", "dry-run", *files, "--nodes", 2)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("#SBATCH --partition=spare,gpu\n", result.stdout)

    def test_a_scenario_without_tests_is_a_fault(self):
        (self.folder / "scenario.toml").write_text('name = "s"\npre_test = "true"\n', encoding="utf-8")
        result = self.verify("scenario.toml")
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn(f"{self.folder}/scenario.toml:1:1: a scenario has no Tests", result.stderr)

    def test_files_that_are_none_are_refused(self):
        (self.folder / "other.toml").write_text("colour = 1\n", encoding="utf-8")
        for name, words in (("missing.toml", "No such file"), ("other.toml", "it is neither a test, a scenario")):
            result = self.verify("test.toml", name)
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertIn(words, result.stderr)

    def test_options_are_checked_as_files_are(self):
        for options, words in ((["--time-limit", "soon"], "--time-limit: "), (["--nodelist", "a[2-1]"], "--nodelist: "),
                               (["--container", "pyxis"], "--container-image: "), (["--name", "a/b"], "--name: "),
                               (["--nodes", "1", "--processes-per-node", "3"], "3 process slots"),
                               (["--nodes", "3", "--nodelist", "a,b"], "3 nodes are requested, but 2 are named"),
                               (["--nodelist", "a,a"], "--nodelist: the 2 names stand for 1 node"),
                               (["--followers", "late", "--container-image", "x"], "--followers: "),
                               (["--array", "--single-sbatch"], "want one of them"),
                               *((["--container-mounts", text], "--container-mounts: ")
                                 for text in (":/x", "/a", "/a:", "/a::ro", "/a:/b,:/x", "/a:/b,,/c:/d")),
                               (["--container-image", "x", "--output-dir", "a,b"], "--output-dir: "),
                               *(([f"--{name}", "a\ntouch x"], f'--{name}: "a?touch x" is wrong: want one line')
                                 for name in ("partition", "account", "qos", "reservation", "output-dir"))):
            with self.subTest(options=options):
                result = self.verify("test.toml", options=options)
                self.assertEqual(result.returncode, 2)
                self.assertIn(words, result.stderr)

    def test_strings_and_comments_have_any_characters(self):
        text = TEST.replace("Two become four", "Zwei \u2192 \u00e9l\u00e8ves # 'no comment' \\\" \u00e9").replace(
            'dtype = "fp8"', "# d\u00e9j\u00e0 \" '\ndtype = '''fp8''' # \u00fc")
        (self.folder / "test.toml").write_text("\ufeff" + text, encoding="utf-8")
        result = self.verify("test.toml", options=["--nodes", "2"])
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, ONE_RUN, ""))

    def test_what_is_no_file_in_a_folder_of_tests_is_passed_over(self):
        os.mkfifo(self.folder / "pipe.toml")  # which nobody writes to
        result = tool.weft("slurm", "verify", "--tests-dir", self.folder, self.folder / "scenario.toml")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, TWO_RUNS, ""))

    def test_a_file_counts_once_by_whatever_path(self):
        result = tool.weft("slurm", "verify", "--tests-dir", self.folder, self.folder / "test.toml",
                           f"{self.folder}/./scenario.toml", "--test-scenario", self.folder / "scenario.toml")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, TWO_RUNS, ""))

    def test_a_script_that_waits_for_a_phase_says_what_it_did_not_see(self):
        result = tool.weft("slurm", "await", "--run-dir", self.folder, "--phase", 1, "--timeout", 1)
        self.assertEqual(result.returncode, 124)
        self.assertIn("phase 1 of", result.stderr)
        events = '{"kind": "run_begin"}\n{"kind": "phase_begin", "phase": 0}\n{"kind": "phase_begin", "phase": 1}'
        (self.folder / "events.jsonl").write_text(events, encoding="utf-8")  # whose last line is not whole yet
        self.assertEqual(tool.weft("slurm", "await", "--run-dir", self.folder, "--phase", 0).returncode, 0)
        self.assertEqual(tool.weft("slurm", "await", "--run-dir", self.folder, "--phase", 1, "--timeout",
                                   1).returncode, 124)
        (self.folder / "events.jsonl").write_text(events + "\n", encoding="utf-8")
        self.assertEqual(tool.weft("slurm", "await", "--run-dir", self.folder, "--phase", 1).returncode, 0)

    def test_without_anything_to_run_it_says_what_is_wanted(self):
        result = tool.weft("slurm", "verify")
        self.assertEqual(result.returncode, 2)
        self.assertIn("there is no plan", result.stderr)

    def test_plain_options_are_enough(self):
        plan = tool.SOURCE / "plans" / "expansion_fault_rejoin.json"
        result = tool.weft("slurm", "dry-run", "--plan", plan, "--nodes", 2, "--processes-per-node", 4,
                           "--options=--dtype fp8")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("#SBATCH --nodes=2\n", result.stdout)
        self.assertIn("--num-agents 2", result.stdout)
        self.assertIn(" --dtype fp8\n", result.stdout)

    def test_wrong_options_of_the_program_are_found_before_the_job(self):
        plan = tool.SOURCE / "plans" / "expansion_fault_rejoin.json"

        def dry_run(options, *files):
            return tool.weft("slurm", "dry-run", *(files or ("--plan", plan, "--nodes", 2, "--processes-per-node", 4)),
                             f"--options={options}")
        for options, says in (
                ("--num-tokns 8", "--num-tokns is not an option of weft elastic; did you mean --num-tokens?"),
                ("--zzzz 5", "--zzzz is not an option of weft elastic\n"),
                ("--hidden-dim 7", "--hidden-dim: 7 is out of range; want 128 to 16384"),
                ("--hidden-dim=7", "--hidden-dim: 7 is out of range"),
                ("--dtype fp8 --seed", "--seed needs a value"),
                ("--seed --kineto", "--seed needs a value"),
                ("--dtype fp8 rest", '"rest" is no option; want --NAME, --NAME VALUE or --NAME=VALUE'),
                ("--kineto yes", '"yes" is no option'),
                ("--plan other.json", "--plan is set by the script of the job; leave it out"),
                ("--run_dir=x", "--run_dir is set by the script of the job; leave it out")):
            result = dry_run(options)
            self.assertEqual((result.returncode, result.stdout), (2, ""), options)
            self.assertTrue(result.stderr.startswith(f"--options: {says}"), result.stderr)
        (self.folder / "bench.toml").write_text(BENCH, encoding="utf-8")
        bench = self.folder / "bench.toml"
        self.assertIn("--options: -scheme: \"tpp\" is none of", dry_run("-scheme tpp", bench).stderr)
        self.assertIn("--options: --json is set by", dry_run("--json x", bench).stderr)
        for options, files in (("--dtype fp8 --kineto -q --seed=5 --validate-phase-failures", ()),
                               ("-q --seed 5", ()),
                               ("-check_consistency true -scheme tp --recreate_xfer --num-iter 16", (bench,))):
            result = dry_run(options, *files)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(options, " ".join(result.stdout.replace("\\\n", " ").split()))

    def test_wrong_extra_arguments_are_found_before_the_job(self):
        bench = self.folder / "bench.toml"

        def dry_run(words, *options, test=TEST, path=self.folder / "test.toml"):
            path.write_text(f"{test}[extra_cmd_args]\n{words}\n", encoding="utf-8")
            return tool.weft("slurm", "dry-run", path, self.folder / "system.toml", "--nodes", 2, *options)
        for words, place, says in (
                ('"--num-tokns" = "8"', "20:1", "--num-tokns is not an option of weft elastic; did you mean --num-to"),
                ('"--seed" = "7"\n"--hidden-dim" = "7"', "21:1", "--hidden-dim: 7 is out of range; want 128 to 16384"),
                ('"--seed" = ""', "20:1", "--seed needs a value"),
                ('"seed" = "7"', "20:1", '"seed=7" is no option; want --NAME'),
                ('"--plan" = "other.json"', "20:1", "--plan is set by the script of the job; leave it out")):
            result = dry_run(words)
            self.assertEqual((result.returncode, result.stdout), (2, ""), words)
            self.assertTrue(result.stderr.startswith(f"{self.folder}/test.toml:{place}: {says}"), result.stderr)
        self.assertIn("bench.toml:", dry_run('"-scheme" = "tpp"', test=BENCH, path=bench).stderr)
        for words, options, last in (('"--seed" = "7"\n"--kineto" = ""', ("--options=-q",), "--seed=7 --kineto -q"),
                                     ('"--zzzz" = "7"', ("--as-written",), "--zzzz=7")):
            result = dry_run(words, *options)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(f" {last}\n", result.stdout)
        for word in ("--nocheck_consistency", "--filepath="):
            result = dry_run(f'"{word}" = ""', test=BENCH, path=bench)
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_what_a_file_says_is_no_command_in_a_script(self):
        key = '"zzz; echo $HOME" = 3\nnum_tokens = 128'
        (self.folder / "test.toml").write_text(TEST.replace("num_tokens = 128", key), encoding="utf-8")
        (self.folder / "system.toml").write_text(SYSTEM.replace("gpus_per_node = 8", 'mpi = "pmix; echo"'),
                                                 encoding="utf-8")
        result = tool.weft("slurm", "dry-run", self.folder / "test.toml", self.folder / "system.toml", "--nodes", 2,
                           "--as-written")
        self.assertEqual(result.returncode, 0, result.stderr)
        for words in (" --'zzz; echo $HOME' 3", " --mpi='pmix; echo'"):
            self.assertIn(words, result.stdout)

    def test_a_key_of_very_many_names_is_refused(self):
        for text in ("a" + ".a" * 100000 + " = 1\n", "[a" + ".a" * 100000 + "]\n", '"a"' + ' . "a"' * 16 + " = 1\n"):
            (self.folder / "deep.toml").write_text(text, encoding="utf-8")
            result = self.verify("deep.toml")
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertIn("more than 16 names in a key", result.stderr)
        inside = ".".join(["a"] * 16) + " = {"
        (self.folder / "deep.toml").write_text(inside * 250 + "}" * 250 + "\n", encoding="utf-8")
        self.assertEqual(self.verify("deep.toml").returncode, 2)
        (self.folder / "deep.toml").write_text(f"name = [{'1.5, ' * 100}]\n", encoding="utf-8")
        self.assertIn("it is neither a test", self.verify("deep.toml").stderr)


if __name__ == "__main__":
    if "no tomlplusplus" in tool.weft("slurm", "verify", tool.SOURCE / "tests/slurm/golden/system.toml").stderr:
        print("skipped: this build has no tomlplusplus")
        sys.exit(77)
    unittest.main()
