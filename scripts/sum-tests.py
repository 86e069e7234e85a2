#!/usr/bin/env python3
"""Sums the JUnit files of several ctest runs: sum-tests.py DIRECTORY

Reads DIRECTORY/STAGE.xml, and takes DIRECTORY/STAGE.broken for a stage that did not come to its tests. Prints a line
for each stage and each failure, and last "N passed, N failed[, N skipped]". Exit status 1 if anything failed, or if
nothing ran.
"""
import pathlib
import sys
import xml.etree.ElementTree as xml

OUTCOMES = ("passed", "failed", "skipped")


def outcome(case):
    status = case.get("status")
    if status == "run":
        return "passed"
    if status == "disabled":
        return "skipped"
    # ctest calls a test that said 77 and a test whose program is missing both "notrun"; only the first is a skip.
    skipped = case.find("skipped")
    if status == "notrun" and skipped is not None and skipped.get("message", "").startswith("SKIP_"):
        return "skipped"
    return "failed"


def line(counts):
    words = [f"{counts['passed']} passed", f"{counts['failed']} failed"]
    if counts["skipped"]:
        words.append(f"{counts['skipped']} skipped")
    return ", ".join(words)


def main():
    directory = pathlib.Path(sys.argv[1])
    total = dict.fromkeys(OUTCOMES, 0)
    for path in sorted(directory.glob("*.xml"), key=lambda p: p.stat().st_mtime):
        counts = dict.fromkeys(OUTCOMES, 0)
        for case in xml.parse(path).iter("testcase"):
            result = outcome(case)
            counts[result] += 1
            if result != "passed":
                print(f"{path.stem}: {case.get('name')} {result}")
        print(f"{path.stem}: {line(counts)}")
        for result in OUTCOMES:
            total[result] += counts[result]
    for path in sorted(directory.glob("*.broken")):
        print(f"{path.stem}: did not come to an end")
        total["failed"] += 1
    print(line(total))
    sys.exit(1 if total["failed"] or not total["passed"] else 0)


if __name__ == "__main__":
    main()
