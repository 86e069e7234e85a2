#!/usr/bin/env python3
"""Checks that what the documentation names exists: the target of each relative link in a .md file, its heading if the
link names one, and each path of the sources (src/..., tests/...; without src/ only in backticks; with * a pattern).

Prints FILE:LINE: what is wrong; exits 1 if anything is. $WEFT_SOURCE names another tree.
"""
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(os.environ.get("WEFT_SOURCE") or pathlib.Path(__file__).resolve().parents[2])
NOT_OURS = {".git", "build", "__pycache__"}
TOP = r"(?:src|tests|docs|include|bench|scripts|cmake|plans|examples)"
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
LAYERS = r"(?:base|secure|topology|store|group|device|transport|agent|ep|cuda|plan|measure|run|doctor|p2p|cli)"
SOURCE = re.compile(r"`(" + LAYERS + r"/[\w./]+\.(?:c|h|cu|cuh))`")  # without src/ in front
PATH = re.compile(r"(?<![\w/.$])(" + TOP + r"/[\w./*-]*[\w/*])")


def pages():
    for directory, folders, files in os.walk(ROOT):
        folders[:] = sorted(f for f in folders
                            if f not in NOT_OURS and not pathlib.Path(directory, f, "CMakeCache.txt").exists())
        yield from (pathlib.Path(directory, name) for name in sorted(files) if name.endswith(".md"))


def anchors(page):
    """The names that a heading has as the target of a link."""
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            title = re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower())
            yield title.replace(" ", "-")


def check_link(page, target):
    if re.match(r"[a-z]+:", target):
        return None
    name, _, anchor = target.partition("#")
    file = page.parent / name if name else page
    if not file.exists():
        return f"the link to {target} leads nowhere"
    if anchor and file.suffix == ".md" and anchor not in anchors(file):
        return f"{name or page.name} has no heading #{anchor}"
    return None


def check_path(path):
    found = any(ROOT.glob(path.rstrip("/"))) if "*" in path else (ROOT / path).exists()
    return None if found else f"there is no {path}"


def check(page):
    fenced = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        wrong = [] if fenced else [check_link(page, target) for target in LINK.findall(line)]
        outside_links = LINK.sub("", line)
        wrong += [check_path(path) for path in PATH.findall(outside_links)]
        wrong += [check_path("src/" + path) for path in SOURCE.findall(outside_links)]
        for sentence in filter(None, wrong):
            yield f"{page.relative_to(ROOT)}:{number}: {sentence}"


def main():
    found = [line for page in pages() for line in check(page)]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
