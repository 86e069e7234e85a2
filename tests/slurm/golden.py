#!/usr/bin/env python3
"""weft slurm dry-run prints the scripts of tests/slurm/golden, which a shell and shellcheck take.

Each folder there has files of TOML, arguments.json, and expected.txt, what is printed. After a change that is meant:
    WEFT=build/release/weft WEFT_SOURCE=$PWD tests/slurm/golden.py --write
The files of docs/guide/slurm.md are read, and its commands run as far as they need no Slurm.
"""
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

import tool

GOLDEN = tool.SOURCE / "tests" / "slurm" / "golden"
# A step that ends with status $1. The next $2 waits return at once, as if by a signal whose trap has run already; with
# $3 the trap runs then.
AWAIT = """
left=$2
wait() {
  [ "$left" -gt 0 ] || { builtin wait "$@"; return; }
  left=$((left - 1))
  [ -z "$3" ] || kill -s USR1 $$
  return 138
}
sh -c "sleep 0.05; exit $1" &
await "$!"
"""
CASES = sorted(path.parent for path in GOLDEN.glob("*/arguments.json"))


def arguments(case):
    return json.loads((case / "arguments.json").read_text(encoding="utf-8"))


def slurm(verb, case):
    more = ["--weft", "/opt/weft/bin/weft"]
    return subprocess.run([tool.WEFT, "slurm", verb, *arguments(case), *more], cwd=case, env=tool.environment(),
                          capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=tool.TIMEOUT_S)


def scripts(output):
    """What dry-run prints: the path and the text of each script."""
    parts = re.split(r"^# ---- (.*)$", output, flags=re.M)
    return list(zip(parts[1::2], (text.lstrip("\n") for text in parts[2::2])))


class Golden(unittest.TestCase):
    maxDiff = None

    def dry_run(self, case):
        result = slurm("dry-run", case)
        self.assertEqual((result.returncode, result.stderr), (0, ""), case)
        return result.stdout

    def test_scripts_are_those_that_are_kept(self):
        self.assertGreaterEqual(len(CASES), 6)
        for case in CASES:
            with self.subTest(case=case.name):
                self.assertEqual(self.dry_run(case), (case / "expected.txt").read_text(encoding="utf-8"))

    def test_a_shell_reads_every_script(self):
        for case in CASES:
            found = scripts(self.dry_run(case))
            self.assertTrue(found)
            for path, text in found:
                with self.subTest(script=path):
                    self.assertTrue(text.startswith("#!/bin/bash\n"))
                    read = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
                    self.assertEqual((read.returncode, read.stderr), (0, ""))

    @unittest.skipUnless(shutil.which("shellcheck"), "shellcheck is not here")
    def test_shellcheck_finds_nothing(self):
        for case in CASES:
            for path, text in scripts(self.dry_run(case)):
                with self.subTest(script=path):
                    read = subprocess.run(["shellcheck", "-"], input=text, capture_output=True, text=True, check=False)
                    self.assertEqual(read.stdout, "")

    def test_a_step_is_awaited_through_signals(self):
        [(_, text)] = scripts(self.dry_run(GOLDEN / "classic"))
        functions = re.search(r"(?ms)^signalled=0$.*?^await\(\) \{$.*?^\}$", text).group()
        for status in (0, 7, 138, 143):
            for waits, trapped in ((0, ""), (1, ""), (1, "yes"), (2, "yes"), (3, "yes")):
                done = subprocess.run(["bash", "-c", "steps=()\n" + functions + AWAIT.replace("$3", trapped), "await",
                                       str(status), str(waits)], timeout=tool.TIMEOUT_S, check=False)
                self.assertEqual(done.returncode, status, (waits, trapped))

    def test_verify_counts_tests_and_runs(self):
        counts = {"classic": (1, 1), "grid": (1, 8), "chain": (3, 3), "bench": (2, 3), "image": (1, 1),
                  "sequence": (1, 2), "late": (1, 1), "profile": (1, 1)}
        for case in CASES:
            tests, runs = counts[case.name]
            said = f"{tests} test{'s' * (tests != 1)}, {runs} run{'s' * (runs != 1)}\n"
            result = slurm("verify", case)
            counted, *memory = result.stdout.splitlines(keepends=True)
            self.assertEqual((counted, result.stderr, result.returncode), (said, "", 0), case)
            self.assertTrue(all(line.startswith("memory of ") for line in memory), case)

    def test_the_guides_files_and_commands_are_right(self):
        guide = (tool.SOURCE / "docs/guide/slurm.md").read_text(encoding="utf-8")
        files = re.findall(r"(?ms)^```toml\n# ([a-z]+\.toml)\n(.*?)^```$", guide)
        self.assertEqual([name for name, _ in files], ["test.toml", "scenario.toml", "system.toml"])
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files:
                pathlib.Path(folder, name).write_text(text, encoding="utf-8")
            pathlib.Path(folder, "plans").symlink_to(tool.SOURCE / "plans")
            said = {line: self.command(line, folder) for block in re.findall(r"(?ms)^```sh\n(.*?)^```$", guide)
                    for line in block.splitlines() if re.match("weft slurm (verify|dry-run|run) ", line)}
        self.assertGreater(len(said), 5)
        [verified] = [text for line, text in said.items() if " verify " in line]
        self.assertEqual(verified.splitlines()[0], "1 test, 2 runs")
        self.assertIn("here: 1 test, 2 runs", guide)

    def command(self, line, folder):
        """What it prints: `run` as dry-run, which takes the same options but for those of running."""
        words = [word for word in shlex.split(line, comments=True) if word not in ("--follow", "--test-only")]
        if words[2] == "run":
            words[2] = "dry-run"
        result = subprocess.run([tool.WEFT, *words[1:]], cwd=folder, env=tool.environment(), capture_output=True,
                                text=True, timeout=tool.TIMEOUT_S, check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""), line)
        return result.stdout


def write():
    for case in CASES:
        result = slurm("dry-run", case)
        if result.returncode or result.stderr:
            sys.exit(f"{case}: {result.stderr}")
        (case / "expected.txt").write_text(result.stdout, encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
    elif "no tomlplusplus" in slurm("verify", CASES[0]).stderr:
        print("skipped: this build has no tomlplusplus")
        sys.exit(77)
    else:
        unittest.main()
