#!/usr/bin/env python3
"""Writes into OUT/weft the public headers of "the next version", for tests of programs and libraries of two versions:
next-headers.py OUT

Each struct that begins with its size gets one more field at its end, `uint64_t next_version`.
"""
import pathlib
import re
import sys

import public_headers

ROOT = pathlib.Path(__file__).resolve().parents[1]
FIELD = "next_version"


def grown(header):
    text = header.text
    for struct in header.structs:
        if struct.sized:
            text, count = re.subn(rf"^(struct {struct.name} \{{\n.*?)^\}};", rf"\1  uint64_t {FIELD}; /**< new */\n}};",
                                  text, count=1, flags=re.M | re.S)
            assert count == 1, struct.name
    return text


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1], "weft")
    folder.mkdir(parents=True, exist_ok=True)
    for header in public_headers.read(ROOT / "include"):
        (folder / header.name).write_text(grown(header), encoding="utf-8")


if __name__ == "__main__":
    main()
