#!/usr/bin/env python3
"""Runs the tests of `deep_ep` and `nixl_ep` with the torch that the system's packages have. with_torch.py BUILD

Without torch, python_compat runs few of them. Skipped where the system has none, or one that is too old, and for the
reasons of package.py.
"""
import os
import pathlib
import re
import subprocess
import sys

import package

PACKAGES = "/usr/lib/python3/dist-packages"
OLDEST = (2, 3)


def find_torch():
    """Checks that this Python finds a torch there that is new enough."""
    done = subprocess.run([sys.executable, "-c", "import torch; print(torch.__version__)"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, env={**os.environ, "PYTHONPATH": PACKAGES}, check=False)
    if done.returncode != 0:
        package.skip(f"no torch of the system's: {package.telling_line(done.stdout)}")
    version = done.stdout.strip()
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < OLDEST:
        package.skip(f"the system's torch is {version}, and the tests take {'.'.join(map(str, OLDEST))} or newer")
    return version


def main():
    version = find_torch()
    python = package.prepare(pathlib.Path(sys.argv[1]))
    package.pip_install(python, package.PACKAGE / "compat")
    with package.scratch_folder() as (scratch, environment):
        package.run(f"pytest with torch {version}", [
            python, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", package.PACKAGE / "compat/tests/ep"],
                    env={**environment, "PYTHONPATH": PACKAGES}, cwd=scratch)


if __name__ == "__main__":
    main()
