#!/usr/bin/env python3
"""tests/install/pins_*.c pins every public struct with each of its fields, the offsets agree, and no struct has bytes
that belong to no field.

To show that the check can fail, a header with an extra field at the front of a struct has to be refused.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(os.environ["WEFT_SOURCE"])
sys.path.insert(0, str(ROOT / "scripts"))
import public_headers  # noqa: E402


def compiles(path, include):
    command = [os.environ.get("CC") or "cc", "-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only",
               "-I", str(include), str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode == 0, done.stderr


def with_another_field(work):
    folder = pathlib.Path(work, "weft")
    folder.mkdir()
    for path in (ROOT / "include" / "weft").glob("*.h"):
        text = path.read_text(encoding="utf-8")
        (folder / path.name).write_text(re.sub(r"^(struct weft_store_kv \{)$", r"\1 int more;", text, flags=re.M))
    return work


def main():
    files = [path for path in sorted((ROOT / "tests" / "install").glob("pins_*.c"))
             if "PIN_FIELD(struct " in path.read_text(encoding="utf-8")]
    pinned = "".join(path.read_text(encoding="utf-8") for path in files)
    fields = set(re.findall(r"PIN_FIELD\(struct (\w+), (\w+), \d+\);", pinned))
    sizes = set(re.findall(r"PIN_SIZE\(struct (\w+), \d+\);", pinned))
    faults = []
    structs = [s for h in public_headers.read(ROOT / "include") if h.name not in public_headers.NOT_YET
               for s in h.structs]
    for struct in structs:
        if struct.name not in sizes:
            faults.append(f"{struct.header}: struct {struct.name} is not pinned: see scripts/pin-structs.py")
            continue
        faults += [f"{struct.header}: struct {struct.name}: {field} is not pinned" for field, _ in struct.fields
                   if (struct.name, field) not in fields]
    for path in files:
        good, said = compiles(path, ROOT / "include")
        if not good:
            faults.append(said)
    names = sorted({struct.header for struct in structs})
    unnamed = subprocess.run([ROOT / "scripts" / "pin-structs.py", *names], capture_output=True, text=True)
    if unnamed.returncode != 0:
        faults.append(unnamed.stderr)
    with tempfile.TemporaryDirectory() as work:
        include = with_another_field(work)
        if compiles(ROOT / "tests" / "install" / "pins_store.c", include)[0]:
            faults.append("pins_store.c compiles although weft_store_kv has a field too many: this check cannot fail")
    print("\n".join(faults) or f"{len(structs)} structs, {len(fields)} fields")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
