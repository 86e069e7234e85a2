#!/usr/bin/env python3
"""The output of `weft help` for shells and for man: shells are asked what they complete, and man's checker finds no
fault."""
import json
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import tempfile
import time
import unittest

import tool

SHELLS = ["bash", "zsh", "fish"]
DEADLINE_S = 60
ERASE = "\x15"  # Ctrl-U: the line
# For a script: the words of a line, the last one being completed, and what bash would offer.
BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_weft && printf '%s\\n' "${COMPREPLY[@]}"
"""


class Terminal:
    """A shell that believes that somebody types."""

    def __init__(self, *command, folder):
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.chdir(folder)
            path = f"{os.path.dirname(tool.WEFT)}:{os.environ['PATH']}"
            os.execvpe(command[0], command, {"PATH": path, "TERM": "dumb", "HOME": folder, "PS1": "> "})

    def type(self, text):
        os.write(self.terminal, text.encode())

    def wait(self, pattern):
        """What the shell shows until the pattern has come."""
        seen, end = "", time.monotonic() + DEADLINE_S
        while not re.search(pattern, seen) and time.monotonic() < end:
            if select.select([self.terminal], [], [], 1)[0]:
                seen += os.read(self.terminal, 4096).decode(errors="replace")
        return seen

    def close(self):
        os.kill(self.process, 9)
        os.waitpid(self.process, 0)
        os.close(self.terminal)
HIDDEN = ("rank", "slurm await",  # which other commands start
          *(f"slurm {verb}" for verb in ("verify-configs", "generate-report", "list", "install", "uninstall")))


class Completion(tool.ToolTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.share = pathlib.Path(folder.name)
        self.assertEqual(self.passes("help", "--install", self.share), "")
        self.files = {"bash": self.share / "bash-completion/completions/weft",
                      "zsh": self.share / "zsh/site-functions/_weft",
                      "fish": self.share / "fish/vendor_completions.d/weft.fish"}

    def needs(self, program):
        if not shutil.which(program):
            self.skipTest(f"no {program} here (scripts/install-deps.sh --test)")

    def options(self):
        return [row for row in json.loads(self.passes("info", "--json"))["options"] if row["command"] not in HIDDEN]

    def bash(self, *words):
        said = subprocess.run(["bash", "--norc", "-c", BASH, "bash", self.files["bash"], *words], capture_output=True,
                              text=True, timeout=DEADLINE_S)
        self.assertEqual((said.returncode, said.stderr), (0, ""), words)
        return said.stdout.split()

    def fish(self, line):
        script = f"source {self.files['fish']}; complete -C \"{line}\""
        said = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True, timeout=DEADLINE_S,
                              env={**os.environ, "HOME": str(self.share)})
        self.assertEqual((said.returncode, said.stderr), (0, ""), line)
        return [row.split("\t")[0] for row in said.stdout.splitlines()]

    def typed(self, shell, setting, lines):
        """Types each line and TAB in the shell, after the setting; the pattern beside the line has to appear."""
        terminal = Terminal(*shell, folder=self.share)
        self.addCleanup(terminal.close)
        terminal.type(f"{setting}; echo rea''dy\n")
        terminal.wait(r"\nready")
        for line, pattern in lines:
            terminal.type(line + "\t")
            self.assertRegex(terminal.wait(pattern), pattern)
            terminal.type(ERASE)

    def test_what_is_printed_is_what_is_installed(self):
        for shell, file in self.files.items():
            self.assertEqual(self.passes("help", "--completion", shell), file.read_text())

    def test_every_option_of_every_command_is_in_every_script(self):
        rows = self.options()
        self.assertGreater(len(rows), 100)
        for shell in SHELLS:
            text = self.files[shell].read_text()
            for row in rows:
                name = row["option"].removeprefix("--")
                wanted = {"bash": rf"--{name}\b", "zsh": rf"'--{name}[=\[]",
                          "fish": rf"'__weft_of {row['command']}' -l {name} "}[shell]
                self.assertRegex(text, wanted)

    def test_bash_completes_words(self):
        self.assertEqual(self.bash("weft", "el"), ["elastic"])
        self.assertEqual(self.bash("weft", "plan"), ["plan"])
        self.assertEqual(self.bash("weft", "bench", "tr"), ["transfer", "traffic"])
        self.assertEqual(self.bash("weft", "bench", "transfer", "--backe"), ["--backend"])
        self.assertEqual(self.bash("weft", "elastic", "--combine-dtype", ""), ["bf16", "logfmt10"])
        self.assertEqual(self.bash("weft", "elastic", "--combine-dtype", "=", "log"), ["logfmt10"])
        self.assertEqual(self.bash("weft", "elastic", "--combine-dtype", "="), ["bf16", "logfmt10"])
        self.assertEqual(self.bash("weft", "elastic", "--seed", ""), [])
        self.assertEqual(self.bash("weft", "rank", "--"), [])
        self.assertEqual(self.bash("weft", "nonsense", "-"), [])

    def test_bash_completes_for_somebody_who_types(self):
        (self.share / "my-plan.json").write_text("[[0, 1]]")
        self.typed(["bash", "--norc", "--noprofile", "-i"], f"source {self.files['bash']}",
                   [("weft bench transf", "transfer "), ("weft plan my-", r"my-plan\.json ")])

    def test_zsh_completes_for_somebody_who_types(self):
        self.needs("zsh")
        self.typed(["zsh", "-f", "-i"],
                   f"fpath=({self.files['zsh'].parent} $fpath); autoload -Uz compinit; compinit -u -D",
                   [("weft bench transf", "transfer "), ("weft elastic --combine-dty", "dtype="),
                    ("weft elastic --combine-dtype lo", "logfmt10")])

    def test_fish_completes_words(self):
        self.needs("fish")
        # fish 3.3 and 4 also offer words in which the letters stand apart.
        self.assertEqual([word for word in self.fish("weft el") if word.startswith("el")], ["elastic"])
        self.assertEqual(sorted(self.fish("weft bench tr")), ["traffic", "transfer"])
        self.assertEqual(self.fish("weft bench transfer --backe")[0], "--backend")  # before those
        self.assertEqual(self.fish("weft elastic --combine-dtype "), ["bf16", "logfmt10"])
        self.assertEqual(self.fish("weft elastic --combine-dtype=log"), ["--combine-dtype=logfmt10"])
        self.assertEqual(self.fish("weft bench elas"), [])

    def test_each_command_has_a_page(self):
        rows = self.options()
        commands = sorted({row["command"] for row in rows})
        self.assertEqual(sorted(page.name for page in (self.share / "man/man1").iterdir()),
                         sorted(["weft.1"] + [f"weft-{command.replace(' ', '-')}.1" for command in commands]))
        for command in commands:
            page = self.passes("help", "--man", *command.split())
            self.assertEqual(page, (self.share / f"man/man1/weft-{command.replace(' ', '-')}.1").read_text())
            for row in rows:
                if row["command"] == command:
                    self.assertIn(row["option"].replace("-", "\\-"), page)

    def test_pages_are_as_man_wants_them(self):
        """They have no date: the same sources give the same page."""
        self.needs("mandoc")
        for page in (self.share / "man/man1").iterdir():
            said = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page], capture_output=True, text=True,
                                  timeout=DEADLINE_S).stdout
            self.assertEqual([line for line in said.splitlines() if "missing date" not in line], [])

    def test_a_folder_that_cannot_be_written_is_named(self):
        (self.share / "file").write_text("")
        self.refused(3, f"cannot make the folder {self.share}/file/man", "help", "--install", self.share / "file")


if __name__ == "__main__":
    unittest.main(verbosity=2)
