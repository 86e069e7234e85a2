#!/usr/bin/env python3
"""The comments of the public headers contain what a caller must know:

- each function: which threads may call it: [any], [owner], [transfer], [list] or [callback];
- each function that returns an error: which errors, or "Cannot fail"; a function that returns no int names none;
- each field of a struct: its meaning.

Functions that only write an initial value (weft_*_init) have their rule in weft.h. To show that the check can fail, a
header without these words has to be refused.
"""
import os
import pathlib
import re
import shutil
import sys
import tempfile

ROOT = pathlib.Path(os.environ["WEFT_SOURCE"])
sys.path.insert(0, str(ROOT / "scripts"))
import public_headers  # noqa: E402

THREADS = re.compile(r"\[(any|owner|transfer|list|callback)\]")


def codes(headers):
    text = next(header.text for header in headers if header.name == "err.h")
    return set(re.findall(r"^  X\((\w+), -\d+,", text, flags=re.M))


def function_faults(function, errors):
    if function.name.endswith("_init"):
        return
    if not THREADS.search(function.comment):
        yield "does not say which threads may call it"
    says = re.search(r"\bcannot fail\b", function.comment, flags=re.I) or errors.intersection(
        re.findall(r"\b[A-Z_]+\b", function.comment))
    if re.match(r"int\b", function.text) and not says:
        yield "names no error, and does not say that it cannot fail"


def field_faults(header):
    """Each declaration of a struct has a comment before it, or behind it on its line."""
    for name, body in re.findall(r"^struct (weft_\w+) \{\n(.*?)^\};", header.text, flags=re.M | re.S):
        before = ""
        for part in re.findall(r"/\*\*.*?\*/|[^;/]+;?", body, flags=re.S):
            if part.startswith("/**"):
                before = "" if part.startswith("/**<") else part
                continue
            declaration = part.strip()
            behind = body[body.index(part) + len(part):].lstrip(" \n")
            if declaration and not before and not behind.startswith("/**<"):
                yield f"struct {name}: `{declaration}` has no comment"
            before = before if not declaration else ""


def faults(include):
    headers = public_headers.read(include)
    errors = codes(headers)
    for header in headers:
        if header.name in public_headers.NOT_YET:
            continue
        for function in header.functions:
            for fault in function_faults(function, errors):
                yield f"{header.name}: {function.name}() {fault}"
        for fault in field_faults(header):
            yield f"{header.name}: {fault}"


def main():
    found = list(faults(ROOT / "include"))
    with tempfile.TemporaryDirectory() as work:
        shutil.copytree(ROOT / "include" / "weft", pathlib.Path(work, "weft"))
        with open(pathlib.Path(work, "weft", "store.h"), "a", encoding="utf-8") as header:
            header.write("/** Does something. */\nWEFT_API int weft_store_more(int value);\n"
                         "struct weft_store_more_info {\n  int first; /**< one */\n  int second;\n};\n")
        more = set(faults(work)) - set(found)
    if len(more) != 3:
        found.append(f"what is wrong in a header made for that was not found: {more}")
    print("\n".join(found) or "every function and field says what it has to")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
