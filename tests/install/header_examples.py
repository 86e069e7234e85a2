#!/usr/bin/env python3
"""The examples in the comments of the public headers compile, in C and in C++, without a warning.

The declarations that an example assumes are in given.h, in this folder.
"""
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = pathlib.Path(os.environ["WEFT_SOURCE"])
sys.path.insert(0, str(ROOT / "scripts"))
import public_headers  # noqa: E402

# Each in the oldest standard that the headers take, by the compiler of this build and by clang where it is here.
STANDARDS = {"c": ("c11", os.environ.get("CC") or "cc", "clang"),
             "c++": ("c++11", os.environ.get("CXX") or "c++", "clang++")}
FLAGS = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-Wno-unused-but-set-variable", "-Wno-unused-variable",
         "-fsyntax-only", "-I", str(ROOT / "include"), "-I", str(HERE)]


def works(language, compiler, standard):
    """Whether it is here, and has the headers of a C library, which clang has not on every machine."""
    probe = subprocess.run([compiler, f"-std={standard}", "-x", language, "-fsyntax-only", "-"],
                           input="#include <stdint.h>\n", capture_output=True, text=True)
    return probe.returncode == 0


def compilers():
    """(language, command) of each that can be asked."""
    found = []
    for language, (standard, *names) in STANDARDS.items():
        for name in dict.fromkeys(names):
            if shutil.which(name) and works(language, name, standard):
                found.append((language, [name, f"-std={standard}"]))
    return found


def compiles(language, command, example):
    source = f'#include "given.h"\nvoid example(void);\nvoid example(void) {{\n{example}}}\n'
    done = subprocess.run([*command, *FLAGS, "-x", language, "-"], input=source, capture_output=True,
                          text=True)
    return done.returncode == 0, done.stderr


def main():
    asked = compilers()
    examples = [(header.name, example) for header in public_headers.read(ROOT / "include")
                for example in header.examples]
    if len(examples) < 4:
        sys.exit(f"only {len(examples)} examples were found in the headers: has their form changed?")
    failed = False
    for name, example in examples:
        for language, command in asked:
            good, said = compiles(language, command, example)
            if not good:
                print(f"{name}, by {' '.join(command)}:\n{example}\n{said}")
                failed = True
    if not asked:
        print("skipped: no compiler is here")
        sys.exit(77)
    if any(compiles(language, command, "  weft_nothing();\n")[0] for language, command in asked):
        sys.exit("an example that calls what does not exist compiles: this check cannot fail")
    print(f"{len(examples)} examples, by {', '.join(' '.join(command) for _, command in asked)}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
