#!/usr/bin/env python3
"""Checks the sources in $WEFT_SOURCE (default: around this file): lint.py layers|text|scripts|format|links

Prints FILE:LINE: what is wrong; exits 1 if anything is, 77 if the tool that a check needs is not here.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import layers

ROOT = pathlib.Path(os.environ.get("WEFT_SOURCE") or pathlib.Path(__file__).resolve().parents[2])
NOT_OURS = {".git", "build", "__pycache__", "LICENSE"}
CODE_SUFFIXES = (".c", ".h", ".cu", ".cuh")
MOST_FILES = 16  # of a folder of src/: .c or .cu, and headers that stand alone. It only ever goes down
# Pages that are read from beginning to end, and how many lines they may have.
MOST_LINES = {"docs/design/README.md": 150, "docs/results.md": 120}
TEXT_SUFFIXES = {*CODE_SUFFIXES, ".py", ".sh", ".md", ".txt", ".cmake", ".in", ".json", ".map", ""}
SKIPPED = 77


def is_ours(folder):
    # What CMake built, and what ruff, mypy or pytest keep for their next run.
    made = any((folder / mark).exists() for mark in ("CMakeCache.txt", "CACHEDIR.TAG"))
    return not made and folder.name not in NOT_OURS and not folder.name.startswith("weft-run")


def sources(*suffixes):
    """Our files, as paths relative to the root; without suffixes, all that hold text."""
    for directory, folders, files in os.walk(ROOT):
        folders[:] = sorted(f for f in folders if is_ours(pathlib.Path(directory, f)))
        for name in sorted(files):
            path = pathlib.Path(directory, name)
            wanted = path.suffix in (suffixes or TEXT_SUFFIXES)
            if wanted and name not in NOT_OURS and not (name.startswith(".") or path.is_symlink()):
                yield path.relative_to(ROOT)


def lines(path):
    return enumerate((ROOT / path).read_text(encoding="utf-8").splitlines(), 1)


def layer_order():
    """The folders of src/, from the bottom layer up, below which is the public interface."""
    return ["weft"] + [layer.name for layer in layers.read(ROOT)]


# Within ep, the kernels know nothing of the engine, and the oracle shares nothing with it.
def private_to_ep(path, included):
    if path.parts[:3] == ("src", "ep", "oracle"):
        return included.startswith("ep/") and not included.startswith("ep/oracle/")
    if path.parts[:3] == ("src", "ep", "kernels"):
        return included.startswith("ep/") and not included.startswith("ep/kernels/")
    return path.parts[:2] == ("src", "ep") and included.startswith("ep/oracle/")


def check_layers():
    order = layer_order()
    found = []
    for path in sources(*CODE_SUFFIXES):
        if path.parts[0] not in ("src", "include"):
            continue
        own = path.parts[1]
        if own not in order:
            found.append(f"{path}: the layer {own} is not in tests/lint/layers.txt")
            continue
        for number, line in lines(path):
            include = re.match(r'\s*#\s*include\s*["<]((\w+)/[^">]+)[">]', line)
            if not include or include[2] not in order:
                continue
            if order.index(include[2]) > order.index(own):
                found.append(f"{path}:{number}: {own} includes {include[1]}, which is above it")
            elif private_to_ep(path, include[1]):
                found.append(f"{path}:{number}: {'/'.join(path.parts[1:-1])} must not know {include[1]}")
    return found


def check_head(path):
    """A file of src/ begins with a comment that says what it is; a header's guard is its path."""
    text = (ROOT / path).read_text(encoding="utf-8")
    found = [] if text.startswith("//") else [f"{path}: no comment at its head"]
    wanted = re.sub(r"\W", "_", "/".join(path.parts[1:])).upper()
    guard = re.search(r"^#ifndef (\w+)$", text, flags=re.M)
    if path.suffix in (".h", ".cuh") and (not guard or guard[1] != wanted):
        found.append(f"{path}: its guard: want {wanted}")
    return found


def check_folders():
    """No folder of src/ has so many files that nobody finds his way in it."""
    units = {}
    for path in sources(*CODE_SUFFIXES):
        if path.parts[0] == "src":
            units.setdefault(path.parent, set()).add(path.stem)
    return [f"{folder}: {len(names)} files, more than {MOST_FILES}"
            for folder, names in units.items() if len(names) > MOST_FILES]


def check_text():
    unfinished = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
    found = check_folders()
    for path in sources():
        if path.parts[0] == "src" and path.suffix in CODE_SUFFIXES:
            found += check_head(path)
        content = (ROOT / path).read_bytes()
        if not content:
            continue
        if not content.endswith(b"\n"):
            found.append(f"{path}: no newline at its end")
        length, most = content.count(b"\n"), MOST_LINES.get(path.as_posix())
        if most and length > most:
            found.append(f"{path}: {length} lines, more than {most}")
        if b"\r" in content:
            found.append(f"{path}: carriage returns")
        for number, line in lines(path):
            if unfinished.search(line):
                found.append(f"{path}:{number}: unfinished: {line.strip()}")
            if line != line.rstrip():
                found.append(f"{path}:{number}: white space at the end")
            if line == "#include <cmocka.h>" and path.name != "cmocka_all.h":
                found.append(f"{path}:{number}: want cmocka_all.h, which mends what cmocka's macros spoil")
            if "\t" in line:
                found.append(f"{path}:{number}: a tab")
            if len(line) > 120 and path.suffix in (*CODE_SUFFIXES, ".py", ".sh"):
                found.append(f"{path}:{number}: {len(line)} columns, more than 120")
    return found


def anchors(path):
    """What a link to a document may have after its #: its headings, as GitHub writes them."""
    found, fenced = set(), False
    for _, line in lines(path):
        fenced ^= line.lstrip().startswith("```")
        heading = re.match(r"#+ (.*)", line)
        if heading and not fenced:
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1])
            name = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
            found.add(name if name not in found else f"{name}-1")
    return found


def check_link(path, link):
    """Returns the fault of the link in the document at `path`, or nothing if its target exists."""
    name, _, anchor = link.partition("#")
    there = pathlib.Path(os.path.normpath(path.parent / name)) if name else path
    if "://" in link:
        return None
    if not (ROOT / there).exists():
        return f"the link leads nowhere: {link}"
    if anchor and there.suffix == ".md" and anchor not in anchors(there):
        return f"{there} has no heading for #{anchor}"
    return None


def check_links():
    """What documents name is there: where their links lead, and files in backticks, with or without src/."""
    found = []
    folders = {path.parts[0] for path in sources() if len(path.parts) > 1}
    names_of_code = {path.name for path in sources(*CODE_SUFFIXES)}
    layer_names = set(layer_order())
    for path in sources(".md"):
        for number, line in lines(path):
            for link in re.findall(r"\]\(([^)\s]+)[^)]*\)", line):
                wrong = check_link(path, link)
                if wrong:
                    found.append(f"{path}:{number}: {wrong}")
            for name in re.findall(r"`([\w./-]+/[\w.-]+\.\w+)`", line):
                first = name.split("/")[0]
                if first in folders and not (ROOT / name).exists() and first not in layer_names:
                    found.append(f"{path}:{number}: there is no {name}")
                elif first in layer_names and not ((ROOT / "src" / name).exists() or (ROOT / name).exists()
                                                   or (ROOT / "include" / name).exists()):
                    found.append(f"{path}:{number}: there is no src/{name}")
            for name in re.findall(r"`([\w-]+\.\w+)`", line):
                if pathlib.Path(name).suffix in CODE_SUFFIXES and name not in names_of_code:
                    found.append(f"{path}:{number}: there is no file {name}")
    return found


def check_scripts():
    if not shutil.which("shellcheck"):
        print("skipped: shellcheck is not installed")
        sys.exit(SKIPPED)
    scripts = [p for p in sources(".sh", "") if re.match(rb"#!.*[/ ](ba)?sh\n", (ROOT / p).read_bytes())]
    if not scripts:
        return ["no shell scripts found"]
    result = subprocess.run(["shellcheck", "--format=gcc", *scripts], cwd=ROOT, capture_output=True, text=True)
    found = (result.stdout + result.stderr).splitlines()
    found += [f"{p}: not executable" for p in scripts if not os.access(ROOT / p, os.X_OK)]
    return found


def clang_format_14():
    """Other versions differ in details."""
    for name in ("clang-format-14", "clang-format"):
        if shutil.which(name):
            version = subprocess.run([name, "--version"], capture_output=True, text=True).stdout
            if re.search(r"version 14\.", version):
                return name
    return None


def check_format():
    tool = clang_format_14()
    if not tool:
        print("skipped: clang-format 14 is not installed")
        sys.exit(SKIPPED)
    files = [str(p) for p in sources(*CODE_SUFFIXES)]
    result = subprocess.run([tool, "--dry-run", *files], cwd=ROOT, capture_output=True, text=True)
    return [line for line in result.stderr.splitlines() if re.match(r"\S+:\d+:\d+: ", line)]


def main():
    checks = {"layers": check_layers, "text": check_text, "scripts": check_scripts, "format": check_format,
              "links": check_links}
    if len(sys.argv) != 2 or sys.argv[1] not in checks:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(checks)}")
    found = checks[sys.argv[1]]()
    print("\n".join(found))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
