#!/usr/bin/env python3
"""Both libraries define exactly the functions that the public headers declare: symbols.py libweft.so libweft.a

An additional name could be used by a program or collide with one of its names; with a missing name a program would not
link.
"""
import os
import pathlib
import re
import subprocess
import sys


def declared(include):
    names = set()
    for header in include.glob("*.h"):
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", header.read_text(), flags=re.S)
        text = re.sub(r"#define[^\n]*(\\\n[^\n]*)*", "", text)
        names.update(re.findall(r"\bWEFT_API\b[^;(]*?\b(weft_\w+)\s*\(", text))
    return names


def defined(library, *options):
    nm = os.environ.get("NM") or "nm"
    out = subprocess.run([nm, "--defined-only", *options, library], check=True, capture_output=True, text=True).stdout
    lines = (line.split() for line in out.splitlines())
    return {f[2].split("@")[0] for f in lines if len(f) == 3 and f[1] != "A"}  # A: the version's own name


def main():
    shared, static = sys.argv[1:]
    wanted = declared(pathlib.Path(os.environ["WEFT_SOURCE"]) / "include" / "weft")
    if len(wanted) < 6:
        sys.exit(f"only {sorted(wanted)} found in the headers: has their form changed?")
    failed = False
    for library, found in ((shared, defined(shared, "-D")), (static, defined(static, "--extern-only"))):
        for name in sorted(found - wanted):
            print(f"{library} exports {name}, which no public header declares")
        for name in sorted(wanted - found):
            print(f"{library} lacks {name}, which a public header declares")
        failed = failed or found != wanted
    print(f"{len(wanted)} public functions")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
