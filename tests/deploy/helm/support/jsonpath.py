#!/usr/bin/env python3
"""What `kubectl get -o jsonpath=TEMPLATE` prints of the JSON at standard input, for the templates of deploy/scripts."""
import json
import re
import sys

PART = re.compile(r'\{range ([^}]*)\}(.*?)\{end\}|\{"([^"]*)"\}|\{([^}]*)\}|([^{}]+)', re.S)
STEP = re.compile(r'\.(\w+)|\[(\*|\d+)\]|\[\?\(@(\.[\w.]+)=="([^"]*)"\)\]')


def find(value, path):
    """All values at the path; a field that is missing is none."""
    found, end = [value], 0
    for step in STEP.finditer(path):
        assert step.start() == end, f"{path}: not understood from {end} on"
        end = step.end()
        name, index, field, wanted = step.groups()
        if name:
            found = [one[name] for one in found if name in one]
        else:
            found = [inner for one in found for place, inner in enumerate(one)
                     if index in ("*", str(place)) or (field and find(inner, field) == [wanted])]
    assert end == len(path), f"{path}: not understood from {end} on"
    return found


def text_of(template, value):
    said = ""
    for list_path, body, literal, path, plain in PART.findall(template):
        if list_path:
            said += "".join(text_of(body, inner) for inner in find(value, list_path))
        else:
            said += " ".join(map(str, find(value, path))) if path else plain + literal.replace("\\n", "\n")
    return said


if __name__ == "__main__":
    print(text_of(sys.argv[1].removeprefix("jsonpath="), json.load(sys.stdin)), end="")
