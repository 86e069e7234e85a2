#!/usr/bin/env python3
"""Installs the distribution `weft-compat` beside `weft`, and runs its tests and mypy. compat.py BUILD

The virtual environment is that of package.py, and so are the reasons to be skipped.
"""
import pathlib
import sys

import package

COMPAT = package.PACKAGE / "compat"


def check(python):
    with package.scratch_folder() as (scratch, environment):
        package.run("mypy", [python, "-m", "mypy", "--strict", "--cache-dir", scratch / "mypy", "--config-file",
                             COMPAT / "pyproject.toml"], env=environment, cwd=COMPAT)
        package.run("names", [python, "-m", "weft_compat"], env=environment, cwd=scratch)
        for folder in sorted(path for path in (COMPAT / "tests").iterdir() if path.is_dir()):
            # A run for each module: they have helpers of one name. -I: what is installed alone; -B: no caches.
            package.run(f"pytest {folder.name}", [
                python, "-IB", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=prepend", folder],
                        env=environment, cwd=scratch)


def main():
    python = package.prepare(pathlib.Path(sys.argv[1]))
    package.pip_install(python, COMPAT)
    check(python)
    print("weft-compat is in order")


if __name__ == "__main__":
    main()
