#!/usr/bin/env python3
"""The examples in the comments of the public headers compile, in C and in C++, without a warning.

What an example takes for granted stands in given.h, beside this.
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

LANGUAGES = {"c": [os.environ.get("CC") or "cc", "-std=c17"], "c++": [os.environ.get("CXX") or "c++", "-std=c++17"]}
FLAGS = ["-Wall", "-pedantic", "-Werror", "-Wno-unused-but-set-variable", "-Wno-unused-variable", "-fsyntax-only",
         "-I", str(ROOT / "include"), "-I", str(HERE)]


def compiles(language, example):
    source = f'#include "given.h"\nvoid example(void);\nvoid example(void) {{\n{example}}}\n'
    done = subprocess.run([*LANGUAGES[language], *FLAGS, "-x", language, "-"], input=source, capture_output=True,
                          text=True)
    return done.returncode == 0, done.stderr


def main():
    languages = [language for language, command in LANGUAGES.items() if shutil.which(command[0])]
    examples = [(header.name, example) for header in public_headers.read(ROOT / "include")
                for example in header.examples]
    if len(examples) < 4:
        sys.exit(f"only {len(examples)} examples were found in the headers: has their form changed?")
    failed = False
    for name, example in examples:
        for language in languages:
            good, said = compiles(language, example)
            if not good:
                print(f"{name}, as {language}:\n{example}\n{said}")
                failed = True
    if any(compiles(language, "  weft_nothing();\n")[0] for language in languages):
        sys.exit("an example that calls what does not exist compiles: this check cannot fail")
    print(f"{len(examples)} examples, in {' and '.join(languages)}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
