#!/usr/bin/env python3
"""Finds cycles among the files and the folders of each layer, and names in the wrong place: circles.py BUILD [SOURCE]

A file uses another when its object needs a symbol that the other's defines. BUILD is a build folder, whose objects are
read by nm; SOURCE is the source tree (default: around this file). tests/lint/layers.txt says how many files of a layer
may be in one cycle, and whether its folders may. A name that other files can use begins with `weft_`, or with the name
of its layer, of its folder, or of a file in that folder, so that a reader sees where it is defined. At least one other
source file uses the name; otherwise it has to be static or to be removed. Prints every cycle. Exits 1 if a cycle is too
large, or if a name is in the wrong place or used by one file only, and 77 if there is no nm.
"""
import collections
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys

import layers

SKIPPED = 77
DEFINED = "TDBRV"  # of nm's letters: symbols that other files can use
STRONG = "TDBR"  # and that are this file's alone: what compilers and others' headers put into many is weak


def circles(graph):
    """The strongly connected parts of more than one node, by Tarjan's algorithm; graph: node -> set of nodes."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph[node]:
            if other not in index:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            part = stack[stack.index(node):]
            del stack[stack.index(node):]
            if len(part) > 1:
                found.append(sorted(part))

    for node in graph:
        if node not in index:
            visit(node)
    return found


def objects(build, source, layer):
    """The layer's objects: (CMake's target, source file relative to the layer, path of the object).

    What was moved leaves old objects, which have no source any more: those are left out."""
    base = build / "src" / layer
    for path in sorted(base.rglob("*.o")):
        parts = path.relative_to(base).parts
        at = next((i for i, part in enumerate(parts) if part.endswith(".dir")), None)
        if at is None:
            continue
        below = parts[:at - 1]  # folders with a CMakeLists.txt of their own
        inside = [".." if part == "__" else part for part in parts[at + 1:]]
        name = os.path.splitext(os.path.normpath(os.path.join(*below, *inside)))[0]
        if (source / "src" / layer / name).exists():
            yield parts[at], name, path


@functools.lru_cache(maxsize=None)
def symbols(build, source, layer):
    """[(CMake's target, source file, [(nm's letter, symbol)])] of the layer's objects, by one run of nm."""
    found = list(objects(build, source, layer))
    listed = collections.defaultdict(list)
    if found:
        command = ["nm", "-A", *(str(path) for _, _, path in found)]
        for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
            path, rest = line.split(".o:", 1)
            listed[path + ".o"].append(tuple(rest.split()[-2:]))
    return [(target, name, listed[str(path)]) for target, name, path in found]


def read(build, source, layer):
    """file -> the files whose symbols it needs: those of its own target first, as a plug-in has copies of its own."""
    defines, needs, names = collections.defaultdict(dict), collections.defaultdict(set), set()
    for target, name, listed in symbols(build, source, layer):
        names.add(name)
        for letter, symbol in listed:
            if letter in DEFINED:
                defines[target][symbol] = name
            elif letter == "U":
                needs[target, name].add(symbol)
    anywhere = {symbol: name for defined in defines.values() for symbol, name in defined.items()}
    graph = {name: set() for name in names}
    for (target, name), needed in needs.items():
        known = {**anywhere, **defines[target]}
        graph[name] |= {known[s] for s in needed if s in known} - {name}
    return graph


def words(text):
    return set(re.split(r"[/_.]", text))


def misplaced(build, source, layer):
    """A line for each name that says nothing of where it stands."""
    for _, name, listed in symbols(build, source, layer):
        folder = (source / "src" / layer / name).parent
        places = words(f"{layer}/{name}").union(*(words(file.name) for file in folder.iterdir()))
        for letter, symbol in listed:
            if letter in STRONG and symbol.split("_")[0] not in places | {"weft", "main", ""}:
                yield f"src/{layer}/{name}: {symbol} begins with no name of its layer, its folder or a file there"


COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


@functools.lru_cache(maxsize=None)
def users(source):
    """word -> how many files of layers, programs and tests have it; of headers those that do more than declare it."""
    found = collections.Counter()
    for folder in ("src", "python", "bench", "tests"):
        for path in (source / folder).rglob("*"):
            if path.suffix in (".c", ".cpp", ".cu", ".cuh", ".h"):
                counts = collections.Counter(re.findall(r"\w+", COMMENT.sub("", path.read_text(encoding="utf-8"))))
                found.update(word for word, count in counts.items() if path.suffix != ".h" or count > 1)
    return found


def alone(build, source, layer):
    """A line for each name that other files could use and none does. The library and plug-ins have users elsewhere, and
    the build names the tables of transports."""
    for _, name, listed in symbols(build, source, layer):
        named_by_build = f"{layer}_{pathlib.Path(name).parent.name}"
        for letter, symbol in listed:
            elsewhere = symbol.split("_")[0] in ("weft", "main", "") or symbol == named_by_build
            if letter in STRONG and not elsewhere and users(source)[symbol] < 2:
                yield f"src/{layer}/{name}: no other file uses {symbol}: make it static, or take it away"


def by_folder(graph):
    folders = collections.defaultdict(set)
    for name, others in graph.items():
        own = str(pathlib.Path(name).parent)
        folders[own] |= {str(pathlib.Path(other).parent) for other in others} - {own}
    return {own: {f for f in others if f in folders} for own, others in folders.items()}


def check(build, source):
    """Returns a line for each cycle that is too large."""
    wrong, files = [], 0
    for layer in layers.read(source):
        graph = read(build, source, layer.name)
        files += len(graph)
        for circle in circles(graph):
            print(f"{layer.name}: {len(circle)} files: {', '.join(circle)}")
            if len(circle) > layer.files:
                wrong.append(f"src/{layer.name}: {len(circle)} files use each other in a circle, and {layer.files} may")
        for circle in circles(by_folder(graph)):
            print(f"{layer.name}: {len(circle)} folders: {', '.join(circle)}")
            if not layer.folders:
                wrong.append(f"src/{layer.name}: the folders {', '.join(circle)} use each other in a circle")
        wrong += sorted({*misplaced(build, source, layer.name), *alone(build, source, layer.name)})
    return wrong if files else [f"{build}: no objects of a layer are there"]


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(f"usage: {sys.argv[0]} BUILD [SOURCE]")
    if not shutil.which("nm"):
        print("skipped: nm is not installed")
        sys.exit(SKIPPED)
    source = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else pathlib.Path(__file__).resolve().parents[2])
    wrong = check(pathlib.Path(sys.argv[1]), source)
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
