#!/usr/bin/env python3
"""The C examples of README.md compile against the public headers without a warning, as C11 and as C++11."""
import os
import pathlib
import re
import subprocess
import sys


def main():
    root = pathlib.Path(os.environ["WEFT_SOURCE"])
    examples = re.findall(r"^```c\n(.*?)^```", (root / "README.md").read_text(encoding="utf-8"), flags=re.M | re.S)
    if not examples:
        sys.exit("README.md has no C example")
    flags = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", "-I", str(root / "include"), "-x"]
    commands = [[os.environ.get("CC") or "cc", "-std=c11", *flags, "c", "-"],
                [os.environ.get("CXX") or "c++", "-std=c++11", *flags, "c++", "-"]]
    results = [subprocess.run(command, input=example, text=True).returncode
               for command in commands for example in examples]
    print(f"{len(examples)} examples")
    sys.exit(1 if any(results) else 0)


if __name__ == "__main__":
    main()
