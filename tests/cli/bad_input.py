#!/usr/bin/env python3
"""Wrong arguments end with exit status 2 and a sentence that says what is wrong and what would be right."""
import pathlib
import subprocess
import tempfile
import unittest

import tool

ELASTIC = [
    (["--hidden-dim", "0"], "--hidden-dim: 0 is out of range; want 128 to 16384, a multiple of 128"),
    (["--hidden-dim", "16512"], "--hidden-dim: 16512 is out of range; want 128 to 16384"),
    (["--hidden-dim", "7169"], "--hidden-dim: 7169 is not a multiple of 128; the nearest are 7168 and 7296; want 128"),
    (["--hidden-dim", "16383"], "--hidden-dim: 16383 is not a multiple of 128; the nearest are 16256 and 16384; want"),
    (["--num-topk", "0"], "--num-topk: 0 is out of range; want 1 to 16"),
    (["--num-topk", "17"], "--num-topk: 17 is out of range; want 1 to 16"),
    (["--num-tokens", "1025", "--mode", "latency"],
     "--num-tokens 1025 is more than the 1024 that --mode latency allows"),
    (["--num-tokens", "32769"], "--num-tokens: 32769 is out of range; want 0 to 32768 tokens"),
    (["--num-tokens", "-1"], "--num-tokens: -1 is out of range"),
    (["--num-experts-per-rank", "0"], "--num-experts-per-rank: 0 is out of range; want 1 to 256 experts"),
    (["--num-experts-per-rank", "257"], "--num-experts-per-rank: 257 is out of range"),
    (["--num-processes", "0"], "--num-processes: 0 is out of range; want 1 to 4096"),
    (["--num-processes", "4097"], "--num-processes: 4097 is out of range"),
    (["--num-processes", "two"], '--num-processes: "two" is not a whole number'),
    (["--store-port", "65536"], "--store-port: 65536 is out of range; want 0 to 65535"),
    (["--iterations", "0"], "--iterations: 0 is out of range"),
    (["--timeout-ms", "1"], "--timeout-ms: 1 is out of range; want 10 to 600000 ms"),
    (["--dtype", "fp7"], '--dtype: "fp7" is none of bf16, fp8, fp8-pow2, fp8-ue8m0; did you mean fp8?'),
    (["--memory", "disk"], '--memory: "disk" is none of host, cuda, auto'),
    (["--layout", "rows"], '--layout: "rows" is none of per-expert, rank-major'),
    (["--negative", "killed"], '--negative: "killed" is none of kill, leave, lost; did you mean kill?'),
    (["--store", "localhost:2379"], '--store: "localhost:2379" is not the URL of a server; want http://HOST:PORT'),
    (["--etcd-server", "http://a:0"], '--etcd-server: "http://a:0" is not the URL of a server'),
    (["--plan"], "--plan needs a value: --plan PLAN"),
    (["--plan", "--json"], '--plan needs a value, and "--json" looks like an option'),
    (["--plan="], "--plan: is empty"),
    (["a.json", "b.json"], 'unexpected argument "b.json": PLAN is "a.json" already'),
    (["--num-proceses", "8"], "unknown option --num-proceses; did you mean --num-processes?"),
    (["--etcd-sever", "x"], "unknown option --etcd-sever; did you mean --etcd-server?"),
    (["--num_tokns=8"], "unknown option --num_tokns; did you mean --num-tokens?"),
    (["--listen", "node7"], "--listen: 'node7' is not a numeric address"),
    (["--listen", "203.0.113.9"], "--listen: 203.0.113.9 is not an address of this host"),
    (["--job", "a/b"], "--job: the name 'a/b' may only have letters"),
    (["--processors", "16"], "--processors is given for --memory host: it limits kernels on GPUs"),
    (["--cert", "c.pem"], "--cert is given without --key"),
    (["--key", "k.pem"], "--key is given without --cert"),
    (["--user", "root"], "--user is given without --password"),
    (["--password", "x"], "--password is given without --user"),
    (["--user", "root", "--password", "x"], "--user is given without --store: only etcd has users"),
    (["--tcp-server", "a:99999"], '--tcp-server: "a:99999" is not HOST or HOST:PORT'),
    (["--rank-server", "http://a"], '--rank-server: "http://a" is not HOST or HOST:PORT'),
    (["--rank-server", "b"], "--rank-server is given without a token"),
    (["--tcp-server", "b"], "--tcp-server is given without a token"),
    (["--rank-server=a", "--tcp_server=b"], "--tcp-server is given without a token"),
    (["--store", "http://a:1", "--tcp-server", "b"], "--store http://a:1 is not at the host of --tcp-server b"),
    (["--store", "http://a:1", "--rank-server", "b"], "--store http://a:1 is not at the host of --rank-server b"),
]


class BadInput(tool.ToolTest):
    def test_elastic_refuses_wrong_options(self):
        for arguments, says in ELASTIC:
            self.assertIn("weft elastic: ", self.refused(2, says, "elastic", *arguments))

    def test_elastic_without_a_plan_has_the_default_one(self):
        """Which has a phase of 4 ranks and then one of 8."""
        self.refused(2, "phase 0 has 4 live ranks", "elastic", "--num-processes", "3", "--num-agents", "1")
        self.refused(2, "phase 1 has 8 live ranks", "elastic", "--num-processes", "7", "--num-agents", "1")

    def test_wrong_variables_are_named(self):
        self.refused(2, 'WEFT_STORE: "etcd:2379" is not the URL of a server', "elastic", WEFT_STORE="etcd:2379")
        self.refused(2, 'WEFT_TIMEOUT_MS: "5s" is not a whole number', "elastic", WEFT_TIMEOUT_MS="5s")

    def test_no_arguments_give_a_short_help(self):
        self.refused(2, "Usage: weft COMMAND")

    def test_unknown_commands_are_named_with_the_nearest(self):
        self.refused(2, 'unknown command "elastik"; did you mean elastic?', "elastik")
        self.refused(2, "unknown option --verson; want a command first", "--verson")
        self.refused(2, 'unknown command "pla"; did you mean plan?', "help", "pla")
        self.refused(2, 'unexpected argument "p2p": elastic has no commands of its own', "help", "elastic", "p2p")
        self.refused(2, 'unexpected argument "p2p": plan has no', "help", "--man", "plan", "p2p")
        self.refused(2, 'unknown command "versoin"; did you mean version?', "versoin")
        self.refused(2, 'unknown command "bandwidth"\n', "bandwidth")

    def test_an_address_that_cannot_be_listened_at_is_named_with_its_option(self):
        for command, more in (("serve", ["--token", "s3cret"]), ("bench ep", []), ("bench transfer", [])):
            says = f"weft {command}: --listen: 'node7' is not a numeric address"
            self.refused(2, says, *command.split(), *more, "--listen", "node7")

    def test_a_value_that_looks_like_an_option_is_shown_as_the_shell_takes_it(self):
        self.refused(2, "if it is meant, write --options='--dtype fp8'\n", "slurm", "run", "--options", "--dtype fp8")
        self.refused(2, "if it is meant, write --options=--kineto\n", "slurm", "run", "--options", "--kineto")

    def test_what_excludes_each_other_is_not_passed_over(self):
        self.refused(2, "--man and --install are both given: want one of them", "help", "--man", "--install", "x")
        self.refused(2, "COMMAND and --completion are both given: want one", "help", "plan", "--completion", "zsh")
        self.refused(2, "--shell and --json are both given: want one of them", "env", "--shell", "--json")
        self.refused(2, "--listen and --peer are both given: want one of them", "doctor", "--listen", "1", "--peer",
                     "x")

    def test_a_directory_without_results_differs_from_a_run_without_them(self):
        with tempfile.TemporaryDirectory() as directory:
            self.refused(3, f"{directory} is not the directory of a run: it has no results.json", "report", directory)
            pathlib.Path(directory, "events.jsonl").touch()
            self.refused(3, f"the run in {directory} has no results.json: it has not ended yet, or was killed",
                         "report", directory)

    def test_each_command_refuses_what_it_does_not_take(self):
        for command, argument in (("plan", "--jsn"), ("report", "--fromat"), ("serve", "--prot"), ("info", "--topolgy"),
                                  ("help", "--mna")):
            self.refused(2, "did you mean --", command, argument)
        self.refused(2, 'unexpected argument "x": this command takes options only', "serve", "x")
        self.refused(2, 'unexpected argument "x": this command takes options only', "info", "x")
        self.refused(2, "PLAN is missing: file of the plan", "plan")
        self.refused(2, "DIR is missing: run directory", "report")
        self.refused(2, '--format: "xml" is none of text, json, csv', "report", "--format", "xml", "x")
        self.refused(2, '--color: "maybe" is none of auto, always, never', "info", "--color=maybe")

    def test_where_no_run_directory_can_be_made_another_is_offered(self):
        offer = "(--run-dir DIR chooses another)"
        with tempfile.NamedTemporaryFile() as file:
            for place in (file.name, f"{file.name}/run", "/proc/run", "/dev/null"):
                says = f"cannot make the run directory {place} {offer}: "
                text = self.refused(3, says, "elastic", "--run-dir", place)
                self.assertEqual(len(text.splitlines()), 1, text)
        result = subprocess.run([tool.WEFT, "elastic"], cwd="/proc", env=tool.environment(), capture_output=True,
                                text=True, timeout=tool.TIMEOUT_S, check=False)
        self.assertEqual((result.returncode, result.stdout), (3, ""))
        self.assertRegex(result.stderr,
                         r"cannot make the run directory weft-run/\S+ \(--run-dir DIR chooses another\): ")

    def test_output_that_cannot_be_written_is_no_success(self):
        with tempfile.TemporaryDirectory() as folder:
            figures = f"{folder}/figures.json"
            with open(figures, "w", encoding="utf-8") as file:
                file.write(self.passes("p2p", "--op", "write", "-s", "8", "-n", "1", "--json"))
            compare = f"compare {figures} {figures}"
            for arguments, what in (("--help", "to standard output"), ("p2p --op write -s 8 -n 1", "the results"),
                                    ("p2p --op write -s 8 -n 1 --csv", "the results"), (compare, "the comparison"),
                                    (f"{compare} --csv", "the comparison"), (f"{compare} --json", "the comparison"),
                                    (f"{compare} --markdown", "the comparison")):
                result = subprocess.run(["sh", "-c", f"'{tool.WEFT}' {arguments} > /dev/full"], env=tool.environment(),
                                        capture_output=True, text=True, timeout=tool.TIMEOUT_S, check=False)
                self.assertEqual(result.returncode, 3)
                self.assertIn(f"cannot write {what}: No space left on device", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
