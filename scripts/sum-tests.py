#!/usr/bin/env python3
"""Sums the JUnit files of several ctest runs: sum-tests.py [--strict] DIRECTORY, sum-tests.py --failures FILE

Reads for each stage, in DIRECTORY:
  STAGE.xml     the results of ctest
  STAGE.alone   the same, if the failed tests ran again, one after the other
  STAGE.tsv     what each test proves: name, folder, sentence (from the build)
  STAGE.broken  instead of these, if the stage did not reach its tests
  STAGE.skipped instead of these, the reason why it was not run
  STAGE.left    processes and files that were left behind, a line for each
  times         a line of words for each stage
Prints failed tests with the end of their output (all of it is in DIRECTORY/STAGE/TEST.log), a table of all tests with
their seconds in each stage and what they prove, skipped tests with reasons, the ten that took longest, the names of the
failed tests once more, and last "N passed, N failed[, N skipped]". Each test counts once for each stage; a stage that
broke or left something behind counts as one failure. With --strict, a test of the stage fast that took 10 s or more
also counts as a failure. A test that failed beside others and passed alone is unsteady: it is printed like a failure,
and counts as passed. It counts as failed if valgrind had found something in it, or a sanitizer had before an assertion
failed. After a failed assertion sanitizer reports do not count, since threads of the test then go on without things
that the test has freed.
Exit status 1 if anything failed, or if nothing ran. --failures prints how many tests of one file failed.
"""
import argparse
import collections
import pathlib
import re
import sys
import textwrap
import xml.etree.ElementTree as xml

WIDTH = 120
SLOWEST = 10
FAST_S = 10  # limit of a test in the stage fast
SHOWN = 40  # lines of a failed test's output
# Messages that are never caused by a lack of processors. Valgrind prints them at the end.
REPORTED = re.compile(r"(Address|Leak|Thread|UndefinedBehavior)Sanitizer|runtime error: ")
MEMCHECK = re.compile(r"^==\d+== ERROR SUMMARY: [1-9]", flags=re.M)
# cmocka's message about a failed assertion, and its place in the source.
ASSERTION = re.compile(r"^(?:ERROR: (.*)\n)?\[ *ERROR *\] --- (?:(.*)\n(?:.*\n)*?)??\[ *LINE *\] --- (.*?): error",
                       flags=re.M)
FUZZED = re.compile(r"#(\d+)\s+DONE\s+cov: (\d+) ft: \d+ corp: (\d+)/(\S+)")
PART_SKIPPED = re.compile(r"^(\S+) .*\.\.\. skipped ['\"](.*)['\"]$|^\[ *SKIPPED *\] (\w+)$", flags=re.M)


class Case:
    """One test in one stage."""

    def __init__(self, stage, element):
        self.stage, self.entry = stage, element.get("name")
        # Under valgrind the same program runs once more; its result is shown in the program's line.
        self.name = self.entry.removeprefix(stage + "_")
        self.seconds = float(element.get("time", 0))
        self.outcome = outcome(element)
        self.output = element.findtext("system-out") or ""

    def reason(self):
        """Why it was skipped: the line with the reason, else the last line."""
        said = ["no reason given"] + [line.strip() for line in self.output.splitlines() if line.strip()]
        return next((line for line in reversed(said) if "skip" in line.lower()), said[-1])

    def reported(self):
        """Valgrind found something, or a sanitizer found something that is no consequence of a failed assertion."""
        failed = ASSERTION.search(self.output)
        return MEMCHECK.search(self.output) or REPORTED.search(self.output[:failed.start()] if failed else self.output)

    def said(self):
        """The failure in one line: the assertion, else the last line."""
        failed = ASSERTION.search(self.output)
        if failed:
            return f"{failed[2] or failed[1] or 'a failure'} at {failed[3]}"
        return next((line.strip() for line in reversed(self.output.splitlines()) if line.strip()), "")

    def cell(self):
        words = {"failed": "FAILED", "skipped": "skip", "unsteady": "UNSTEADY"}
        return words.get(self.outcome) or f"{self.seconds:.1f}"


def outcome(element):
    status = element.get("status")
    if status == "run":
        return "passed"
    if status == "disabled":
        return "skipped"
    # ctest reports "notrun" both for exit status 77 and for a missing program; only the first is a skip.
    skipped = element.find("skipped")
    if status == "notrun" and skipped is not None and skipped.get("message", "").startswith("SKIP_"):
        return "skipped"
    return "failed"


def read_cases(path):
    """Returns the cases of a stage. A test that failed beside others and passed alone is unsteady."""
    cases = [Case(path.stem, element) for element in xml.parse(path).iter("testcase")]
    again = path.with_suffix(".alone")
    alone = {element.get("name"): outcome(element) for element in
             (xml.parse(again).iter("testcase") if again.exists() else ())}
    for case in cases:
        if case.outcome == "failed" and alone.get(case.entry) == "passed" and not case.reported():
            case.outcome = "unsteady"
    return cases


def read_ledgers(directory):
    """Returns test -> (folder, sentence)."""
    ledger = {}
    for path in directory.glob("*.tsv"):
        for line in path.read_text().splitlines():
            name, folder, sentence = line.split("\t")
            ledger[name] = (folder, sentence)
    return ledger


def failed_stages(directory):
    """Returns failures of a stage that are not failed tests: (stage, what, its lines)."""
    for path in sorted(directory.glob("*.broken")):
        yield path.stem, "did not reach its tests:", path.read_text().splitlines() or ["it wrote no results"]
    for path in sorted(directory.glob("*.left")):
        if path.stat().st_size:
            yield path.stem, "left behind:", path.read_text().splitlines()


def print_failures(directory, cases):
    for case in cases:
        if case.outcome in ("failed", "unsteady"):
            path = directory / case.stage / (case.entry + ".log")
            path.parent.mkdir(exist_ok=True)
            path.write_text(case.output)
            alone = ", and passed alone" if case.outcome == "unsteady" else ""
            print(f"{case.cell()} {case.stage}: {case.entry} after {case.seconds:.1f} s{alone}; "
                  f"the end of its output, {path}:")
            print(textwrap.indent("\n".join(case.output.splitlines()[-SHOWN:]), "  "))
    stages = list(failed_stages(directory))
    for stage, what, lines in stages:
        print("\n  ".join([f"FAILED {stage}: {what}", *lines]))
    return len(stages)


def print_names_of_failures(directory, cases):
    """Prints the names again near the last line, for readers who see only the end of a long output."""
    for case in cases:
        if case.outcome in ("failed", "unsteady"):
            said = case.said()
            print(f"{case.cell()} {case.stage}: {case.entry} after {case.seconds:.1f} s{'; ' if said else ''}{said}")
    for stage, what, lines in failed_stages(directory):
        print(f"FAILED {stage}: {what}", "; ".join(lines))


def print_long(cases):
    """Prints the tests that take longest in a run without options."""
    long = [case for case in cases if case.stage == "fast" and case.seconds >= FAST_S]
    for case in long:
        print(f"LONG {case.stage}: {case.entry} took {case.seconds:.1f} s, and those of this stage take less than "
              f"{FAST_S} s: make it shorter, or name it in tests/long.txt")
    return len(long)


def print_table(stages, cases, ledger):
    """Prints a line for each test: its seconds in each stage, and what it proves."""
    folders = collections.defaultdict(dict)
    for case in cases:
        folder = ledger.get(case.name, ("", ""))[0]
        folders[folder].setdefault(case.name, {})[case.stage] = case
    wide = max(len(case.name) for case in cases) + 2
    columns = [max(10, len(stage) + 2) for stage in stages]  # "UNSTEADY" has 8 letters
    indent = wide + sum(columns) + 2
    head = "".join(f"{stage:>{size}}" for stage, size in zip(stages, columns))
    print(f"{'seconds':<{wide}}{head}  what is proved")
    for folder in sorted(folders):
        print(folder)
        for name, runs in folders[folder].items():
            cells = "".join(f"{runs[s].cell() if s in runs else '':>{size}}" for s, size in zip(stages, columns))
            text = textwrap.wrap(ledger.get(name, ("", "(it does not say what it proves)"))[1], max(40, WIDTH - indent))
            print(f"  {name:<{wide - 2}}{cells}  " + ("\n" + " " * indent).join(text))


def print_skips(directory, cases):
    """Prints skipped stages first, then skipped tests, then skipped parts of programs and scripts that passed."""
    for path in sorted(directory.glob("*.skipped")):
        print(f"skipped {path.stem}: {path.read_text().strip()}")
    for case in cases:
        if case.outcome == "skipped":
            print(f"skipped {case.stage}: {case.entry}: {case.reason()}")
    for case in cases:
        for name, reason, other in PART_SKIPPED.findall(case.output) if case.outcome == "passed" else ():
            print(f"skipped {case.stage}: a part of {case.entry}, {name or other}" + (f": {reason}" if reason else ""))


def print_fuzzed(cases):
    for case in cases:
        done = FUZZED.search(case.output)
        if done:
            runs, edges, inputs, size = done.groups()
            print(f"fuzzed {case.name}: {int(runs):,} executions in {case.seconds:.0f} s, corpus of {inputs} inputs "
                  f"({size}), {edges} edges covered")


def line(cases):
    counts = collections.Counter(case.outcome for case in cases)
    words = [f"{counts['passed'] + counts['unsteady']} passed", f"{counts['failed']} failed"]
    if counts["skipped"]:
        words.append(f"{counts['skipped']} skipped")
    return ", ".join(words)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--failures", action="store_true")
    parser.add_argument("directory", type=pathlib.Path)
    arguments = parser.parse_args()
    directory = arguments.directory
    if arguments.failures:
        print(sum(case.outcome == "failed" for case in read_cases(directory)))
        return
    files = sorted(directory.glob("*.xml"), key=lambda path: path.stat().st_mtime)
    stages = [path.stem for path in files]
    cases = [case for path in files for case in read_cases(path)]
    more_failures = print_failures(directory, cases)
    long = print_long(cases)
    if arguments.strict:
        more_failures += long
    if cases:
        print_table(stages, cases, read_ledgers(directory))
        print_fuzzed(cases)
        print_skips(directory, cases)
        print(f"the {SLOWEST} that took longest:")
        for case in sorted(cases, key=lambda case: -case.seconds)[:SLOWEST]:
            print(f"{case.seconds:8.1f} s  {case.stage}: {case.entry}")
    print_names_of_failures(directory, cases)
    print((directory / "times").read_text() if (directory / "times").exists() else "", end="")
    for stage in stages:
        print(f"{stage}: {line([case for case in cases if case.stage == stage])}")
    total = line(cases)
    if more_failures:
        total = re.sub(r"(\d+) failed", lambda found: f"{int(found[1]) + more_failures} failed", total)
    print(total)
    sys.exit(1 if " 0 failed" not in total or total.startswith("0 passed") else 0)


if __name__ == "__main__":
    main()
