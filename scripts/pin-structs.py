#!/usr/bin/env python3
"""Prints a C file that pins the structs of public headers as the compiler lays them out now: pin-structs.py store.h...

A released struct only changes at its end. If a file tests/install/pins_*.c no longer compiles, the error says which
field has moved. Make such a file again only before the first release, or for new fields at the end. Exit status 1 if a
struct has bytes that belong to no field: a later field there would get undefined values from older programs.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

import public_headers

ROOT = pathlib.Path(__file__).resolve().parents[1]
HEAD = """// Pins the structs of {names}: made by scripts/pin-structs.py {names}
#include <stddef.h>

#include <weft/weft.h>

#define PIN_SIZE(type, bytes)          _Static_assert(sizeof(type) == (bytes), "the size of " #type " has changed")
#define PIN_FIELD(type, member, bytes) _Static_assert(offsetof(type, member) == (bytes), #type "." #member " has moved")
"""


def layout(structs, include):
    """Returns [(struct, size, [(field, offset, size)])]; compiles and runs a program that prints it."""
    lines = ["#include <stddef.h>", "#include <stdio.h>", "#include <weft/weft.h>", "int main(void) {"]
    for struct in structs:
        lines.append(f'  printf("%zu\\n", sizeof(struct {struct.name}));')
        lines += [f'  printf("%zu %zu\\n", offsetof(struct {struct.name}, {field}), '
                  f'sizeof(((struct {struct.name} *)0)->{field}));' for field, _ in struct.fields]
    with tempfile.TemporaryDirectory() as work:
        program = pathlib.Path(work, "probe")
        subprocess.run([os.environ.get("CC") or "cc", "-I", include, "-x", "c", "-", "-o", program], check=True,
                       input="\n".join([*lines, "  return 0;", "}", ""]), text=True)
        said = iter(subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines())
    for struct in structs:
        size = int(next(said))
        yield struct, size, [(field, *map(int, next(said).split())) for field, _ in struct.fields]


def padding(struct, size, fields):
    end = 0
    for field, offset, length in fields:
        if offset != end:
            yield f"struct {struct.name} has {offset - end} bytes of padding before {field}"
        end = offset + length
    if size != end:
        yield f"struct {struct.name} has {size - end} bytes of padding at its end"


def main():
    names = sys.argv[1:]
    if not names or names[0].startswith("-"):
        sys.exit(__doc__)
    include = os.environ.get("WEFT_HEADERS") or ROOT / "include"
    structs = [s for header in public_headers.read(include) if header.name in names for s in header.structs]
    print(HEAD.format(names=" ".join(names)))
    faults = []
    for struct, size, fields in layout(structs, include):
        faults += padding(struct, size, fields)
        print(f"PIN_SIZE(struct {struct.name}, {size});")
        for field, offset, _ in fields:
            print(f"PIN_FIELD(struct {struct.name}, {field}, {offset});")
        print()
    for fault in faults:
        print(f"{fault}: give those bytes a name, such as `uint32_t reserved`", file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
