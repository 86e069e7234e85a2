#!/usr/bin/env python3
"""The CUDA plug-in as a file, and on a host without a driver: plugin.py PROGRAM PLUGIN|-

It exports one symbol, needs no CUDA library, can be loaded anywhere, and says why there is no GPU.
"""
import os
import re
import subprocess
import sys


def out(*command, **environment):
    ran = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60)
    if ran.returncode != 0:
        sys.exit(f"{command} ended with {ran.returncode}: {ran.stdout}{ran.stderr}")
    return ran.stdout


def main():
    program, plugin = sys.argv[1:3]
    if plugin == "-":
        print("skipped: no CUDA compiler was there, so there is no plug-in")
        sys.exit(77)
    failures = []
    dynamic = out("readelf", "-d", plugin)
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic)
    print("needs", needed)
    failures += [f"it needs {n}" for n in needed if re.match(r"lib(cuda|cudart|nvidia|nv|weft)", n)]
    if "soname: [libweft_cuda.so.0]" not in dynamic:
        failures.append("its soname is not libweft_cuda.so.0")
    shown = [line.split()[-1].split("@")[0] for line in out("nm", "-D", "--defined-only", plugin).splitlines()
             if line.split()[-2] != "A"]  # A: the version's own name
    print("shows", shown)
    if shown != ["weft_cuda_api"]:
        failures.append(f"it shows {shown}")
    loaded, count, opened = out(program, "count", WEFT_CUDA_PLUGIN=plugin).splitlines()
    print(loaded, count, opened, sep="\n")
    if loaded != "OK":
        failures.append("it cannot be loaded")
    if not count.startswith("count: OK"):
        for said in (count, opened):
            if not re.match(r"\w+: UNSUPPORTED .*(driver|GPU)", said):
                failures.append(f"'{said}' does not say what is missing")
    print("\n".join(failures), file=sys.stderr)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
