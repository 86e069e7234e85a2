#!/usr/bin/env python3
"""Looks for kernels that spill registers: spills.py COMPILER_VERSION "OBJECT;OBJECT..."

A spilled register costs a trip to memory and back at each use. Nothing else shows it, since the results stay right.
Beside each object lies the compiler's report of its build (cmake/keep_resources.sh). With another compiler than that of
the table below, the script prints what it finds and the test is skipped, because compilers assign registers
differently.
"""
import pathlib
import re
import subprocess
import sys

SKIPPED = 77
COMPILER = "13.0"
# Bytes of spilled stores and loads in the code that are put up with, in steps of STEP. Make them fewer when they are;
# for more there should be a measurement. Of combine the last argument says whether rows are in logfmt10. "any", "late"
# and "strided" kernels are compiled for launches that say something of their own (cuda/kernels/usual.cuh). What the
# others cost with these figures, beside the kernels before them, stands in docs/results/ep-gpu.md.
STEP = 16
ALLOWED = {
    ("any combine<false, true, true>", "sm_80"): 80,
    ("any combine<false, true, true>", "sm_90"): 80,
    ("any combine<true, true, true>", "sm_80"): 128,
    ("any combine<true, true, true>", "sm_90"): 128,
    ("any dispatch<0, true, true>", "sm_80"): 80,
    ("any dispatch<0, true, true>", "sm_90"): 96,
    ("any dispatch<1, true, true>", "sm_90"): 16,
    ("any dispatch<2, true, true>", "sm_90"): 16,
    ("any make_up", "sm_80"): 16,
    ("any record_missing", "sm_80"): 16,
    ("combine<false, true, true>", "sm_80"): 80,
    ("combine<false, true, true>", "sm_90"): 112,
    ("combine<true, true, true>", "sm_80"): 112,
    ("combine<true, true, true>", "sm_90"): 112,
    ("dispatch<0, true, true>", "sm_80"): 64,
    ("dispatch<0, true, true>", "sm_90"): 64,
    ("dispatch<1, true, true>", "sm_90"): 16,
    ("dispatch<2, true, true>", "sm_90"): 16,
    ("dispatch<2, true, true>", "sm_100"): 16,
    ("late combine<true, true, true>", "sm_80"): 112,
    ("late combine<true, true, true>", "sm_90"): 112,
    ("make_places", "sm_80"): 24,
    ("make_places", "sm_90"): 24,
    ("record_missing", "sm_90"): 16,
    ("rows_kernel<false, false>", "sm_80"): 128,
    ("rows_kernel<false, false>", "sm_90"): 128,
    ("rows_kernel<false, true>", "sm_80"): 112,
    ("rows_kernel<false, true>", "sm_90"): 112,
    ("rows_kernel<true, false>", "sm_80"): 96,
    ("rows_kernel<true, false>", "sm_90"): 192,
    ("rows_kernel<true, true>", "sm_80"): 96,
    ("rows_kernel<true, true>", "sm_90"): 96,
    ("strided dispatch<1, true, true>", "sm_90"): 16,
    ("strided dispatch<2, true, true>", "sm_90"): 16,
    ("publish_tails", "sm_80"): 16,
}
KINDS = "any", "late", "strided"  # files that compile the same kernels in another way
KERNEL = re.compile(r"Compiling entry function '(\w+)' for '(sm_\w+)'")
FUNCTION = re.compile(r"Function properties for (\w+)")
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


def plain(names):
    """The names as the source has them, without their arguments."""
    filt = subprocess.run(["c++filt"], input="\n".join(names), stdout=subprocess.PIPE, text=True, check=True)
    local = re.compile(r"\(anonymous namespace\)::|_(INTERNAL|GLOBAL__N_)_\w+::|^void ")
    return {name: local.sub("", told).split("(")[0] for name, told in zip(names, filt.stdout.split("\n"))}


def spilled(words):
    """Bytes by (mangled name, architecture)."""
    found, architecture, function = {}, "?", "?"
    for line in words.splitlines():
        if match := KERNEL.search(line):
            architecture = match[2]
        elif match := FUNCTION.search(line):
            function = match[1]
        elif match := SPILLS.search(line):
            key = function, architecture
            found[key] = max(found.get(key, 0), int(match[2]) + int(match[3]))
    return found


def wrong(name, architecture, count):
    allowed = ALLOWED.get((name, architecture), 0)
    kernel = f"{name} on {architecture}"
    if count > allowed:
        return (f"{kernel} spills {count} bytes of registers, {allowed} are allowed: have it need fewer registers, or "
                "have fewer threads in a block (its __launch_bounds__), which leaves more to each")
    if allowed - count >= 2 * STEP:
        return f"{kernel} spills {count} bytes of registers, {allowed} are allowed: allow {-(-count // STEP) * STEP}"
    return None


def look(objects):
    """Returns the faults, and how many kernels there are."""
    faults, kernels, seen, architectures = [], 0, set(), set()
    for object_file in objects:
        words = pathlib.Path(object_file + ".resources").read_text(encoding="utf-8")
        kernels += len(KERNEL.findall(words))
        found = spilled(words)
        kind = next((f"{kind} " for kind in KINDS if object_file.endswith(f"/{kind}.cu.o")), "")
        names = {name: kind + told for name, told in plain([name for name, _ in found]).items()}
        for (name, architecture), count in sorted(found.items()):
            seen.add((names[name], architecture))
            architectures.add(architecture)
            faults.append(wrong(names[name], architecture, count))
    gone = [key for key in sorted(ALLOWED) if key[1] in architectures and key not in seen]
    faults += [f"{name} on {architecture} may spill here, but is no kernel any more" for name, architecture in gone]
    return [fault for fault in faults if fault], kernels


def main():
    version, objects = sys.argv[1], sys.argv[2].split(";")
    faults, kernels = look(objects)
    if kernels == 0:
        faults.append("the compiler told of no kernel: is -Xptxas -v among its options?")
    for fault in faults:
        print(fault)
    if faults and not version.startswith(COMPILER + "."):
        print(f"the compiler is CUDA {version}, and the table that of CUDA {COMPILER}")
        return SKIPPED
    print(f"{kernels} kernels, compiled by CUDA {version}: {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
