#!/usr/bin/env python3
"""Prints C with an empty body for every public function, for tools that read an interface from a library:
stub-library.py INCLUDE
"""
import sys

import public_headers


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    print("#include <weft/weft.h>")
    for header in public_headers.read(sys.argv[1]):
        for function in header.functions:
            print(f"{function.text} {{ __builtin_trap(); }}")


if __name__ == "__main__":
    main()
