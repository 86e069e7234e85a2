#!/usr/bin/env python3
"""Shows that the checks of the sources find their faults: each check runs over a small tree that contains one fault."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
NO_TOOL = 77
STYLE = (HERE.parents[1] / ".clang-format").read_text(encoding="utf-8")
LAYERS = "low 1 - what is below\nhigh 2 - what is above\n"
GOOD = {
    "src/low/one.c": '// Number one.\n#include "low/two.h"\n',
    "src/low/two.h": "// Number two.\n#ifndef LOW_TWO_H\n#define LOW_TWO_H\n#endif\n",
}

# check, files beside the good ones, words of what it prints
FAULTS = [
    ("layers", {"src/low/up.c": '// Looks up.\n#include "high/it.h"\n'}, "low includes high/it.h"),
    ("layers", {"src/low/up.cu": '// Looks up.\n#include "high/it.h"\n'}, "low includes high/it.h"),
    ("layers", {"src/odd/one.c": "// Belongs nowhere.\n"}, "the layer odd is not in"),
    ("links", {"page.md": "[there](nowhere.md)\n"}, "leads nowhere"),
    ("links", {"page.md": "See `src/low/three.c`, and `low/one.c`.\n"}, "there is no src/low/three.c"),
    ("links", {"page.md": "See `low/three.c`.\n"}, "there is no src/low/three.c"),
    ("links", {"page.md": "See `src/low/one.c` `three.c`.\n"}, "there is no file three.c"),
    ("links", {"page.md": "# One\n[two](#two)\n"}, "page.md has no heading for #two"),
    ("links", {"page.md": "# One\n", "more/other.md": "[two](../page.md#two)\n"}, "page.md has no heading for #two"),
    ("text", {"src/low/tab.cuh": "// A\ttab.\n"}, "a tab"),
    ("text", {"src/low/bare.c": "int bare;\n"}, "no comment at its head"),
    ("text", {"src/low/guard.h": "// Guarded.\n#ifndef GUARD_H\n#define GUARD_H\n#endif\n"}, "want LOW_GUARD_H"),
    ("scripts", {"run.sh": "#!/bin/sh\necho $1\n"}, "SC2086"),
    ("scripts", {"run.sh": '#!/bin/sh\necho "$1"\n'}, "run.sh: not executable"),
    ("format", {"src/low/wide.c": "// Formatted otherwise.\nint  wide;\n"}, "src/low/wide.c:2"),
    ("format", {"src/low/wide.cu": "// Formatted otherwise.\nint  wide;\n"}, "src/low/wide.cu:2"),
    ("text", {f"src/low/n{i}.c": "// One of many.\n" for i in range(20)}, "more than"),
    ("text", {"docs/results.md": "A line.\n" * 121}, "docs/results.md: 121 lines, more than 120"),
]


def write(root, files):
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


def lint(root, check):
    environment = dict(os.environ, WEFT_SOURCE=str(root))
    result = subprocess.run([sys.executable, HERE / "lint.py", check], env=environment, capture_output=True, text=True)
    return result.returncode, result.stdout + result.stderr


def expect(root, check, words):
    status, said = lint(root, check)
    if status == NO_TOOL:
        return
    if (status, words in said) != (1 if words else 0, True):
        sys.exit(f"lint.py {check}: exit status {status}, wanted words \"{words}\" in:\n{said}")


def compile_layer(root, layer, sources, below="", target="objects"):
    """Compiles as CMake does for a target of src/LAYER/BELOW; `sources`: file relative to the layer -> its code."""
    base = root / "build/src" / layer / below / "CMakeFiles" / f"weft_{layer}_{target}.dir"
    for name, code in sources.items():
        write(root, {f"src/{layer}/{name}": code})
        parts = os.path.relpath(name, below or ".").split(os.sep)
        made = base.joinpath(*["__" if part == ".." else part for part in parts[:-1]], f"{parts[-1]}.o")
        made.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cc", "-c", "-o", made, root / "src" / layer / name], check=True)


def circles(root):
    result = subprocess.run([sys.executable, HERE / "circles.py", root / "build", root], capture_output=True, text=True)
    return result.returncode, result.stdout


def check_circles(root):
    there = {"a/one.c": "void two(void); void one(void) { two(); }\n", "b/two.c": "void two(void) {}\n"}
    compile_layer(root, "low", there)
    status, said = circles(root)
    assert status == 1 and "src/low/a/one.c: no other file uses one" in said, said
    write(root, {"tests/use.c": "void use(void) { one(), it(), top(); }\n"})
    assert circles(root) == (0, "\n"), circles(root)
    compile_layer(root, "low", {**there, "b/two.c": "void two(void) {} void third_of(void) {}\n"})
    status, said = circles(root)
    assert status == 1 and "src/low/b/two.c: third_of begins with no name" in said, said
    compile_layer(root, "low", {**there, "b/two.c": "void one(void); void two(void) { one(); }\n"})
    status, said = circles(root)
    assert status == 1 and "2 files use each other in a circle, and 1 may" in said, said
    assert "the folders a, b use each other" in said, said
    shutil.rmtree(root / "build")
    # A plug-in in a folder with a CMakeLists.txt of its own, which also compiles a file of the folder beside it.
    shared = {"flow/it.c": "void it(void) {}\n", "ucx/top.c": "void it(void); void top(void) { it(); }\n"}
    compile_layer(root, "low", shared, "ucx", "plugin")
    assert circles(root) == (0, "\n"), circles(root)
    compile_layer(root, "low", {"flow/it.c": "void top(void); void it(void) { top(); }\n"}, "ucx", "plugin")
    status, said = circles(root)
    assert status == 1 and "the folders flow, ucx use each other" in said, said


def main():
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        checks = [(check, {}, "") for check in ("layers", "text", "links", "format")]
        cache = {"python/.ruff_cache/CACHEDIR.TAG": "Signature", "python/.ruff_cache/0.8/entry": "no newline, a \t"}
        checks.append(("text", cache, ""))
        for check, fault, words in [*checks, *FAULTS]:
            shutil.rmtree(root)
            write(root, {"tests/lint/layers.txt": LAYERS, ".clang-format": STYLE, **GOOD, **fault})
            expect(root, check, words)
        if shutil.which("nm") and shutil.which("cc"):
            check_circles(root)
    print(f"{len(FAULTS)} faults found, and circles")


if __name__ == "__main__":
    main()
