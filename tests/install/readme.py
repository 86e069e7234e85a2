#!/usr/bin/env python3
"""The C examples of README.md compile against the public headers, without a warning."""
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
    command = [os.environ.get("CC") or "cc", "-std=c17", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only",
               "-I", str(root / "include"), "-x", "c", "-"]
    results = [subprocess.run(command, input=example, text=True).returncode for example in examples]
    print(f"{len(examples)} examples")
    sys.exit(1 if any(results) else 0)


if __name__ == "__main__":
    main()
