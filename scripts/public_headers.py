"""Reads the declarations of the public headers, for scripts and tests that check all of them.

It is no C parser, but relies on the form of the headers, which clang-format ensures: a struct begins in column 1 with
`struct weft_NAME {`, a function with WEFT_API, and the comment of each stands before it.
"""
import pathlib
import re

# Headers whose calls do not read structs by their size yet. The checks of sizes skip them.
NOT_YET = set()


class Struct:
    """`fields` are (name, declaration); `sized`: it begins with its size; `macro` is its initial value, or None."""

    def __init__(self, header, name, body, macros):
        self.header, self.name = header, name
        self.fields = list(fields_of(body))
        self.sized = self.fields[0] == ("size", "size_t size")
        macro = f"{name.upper()}_INIT"
        self.macro = macro if macro in macros else None


class Function:
    """`text` is the declaration up to the semicolon, `comment` the comment before it, without its asterisks."""

    def __init__(self, header, name, text, comment):
        self.header, self.name, self.text, self.comment = header, name, text, comment


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)


def fields_of(body):
    for declaration in filter(None, (part.strip() for part in without_comments(body).split(";"))):
        declaration = " ".join(declaration.split())
        for part in declaration.split(","):
            yield re.search(r"(\w+)(\[[^\]]*\])*$", part.strip()).group(1), declaration


def plain_comment(comment):
    return " ".join(re.sub(r"^\s*/?\*+/?", "", line).replace("*/", "").strip() for line in comment.splitlines())


class Header:
    def __init__(self, path):
        self.path, self.name = pathlib.Path(path), pathlib.Path(path).name
        self.text = self.path.read_text(encoding="utf-8")
        macros = set(re.findall(r"^ *# *define (\w+)", self.text, flags=re.M))
        self.structs = [Struct(self.name, name, body, macros) for name, body in
                        re.findall(r"^struct (weft_\w+) \{\n(.*?)^\};", self.text, flags=re.M | re.S)]
        self.functions = list(self.find_functions())
        self.examples = list(self.find_examples())

    def find_functions(self):
        for found in re.finditer(r"^WEFT_API ([^;]*?\b(weft_\w+)\([^;]*\))[^;)]*;", self.text, flags=re.M):
            before = self.text[:found.start()].rstrip()
            comment = before[before.rindex("/**"):] if before.endswith("*/") else ""
            yield Function(self.name, found.group(2), found.group(1), plain_comment(comment))

    def find_examples(self):
        """Returns the blocks in comments that are indented by four columns."""
        for comment in re.findall(r"/\*\*.*?\*/", self.text, flags=re.S):
            lines = [line[2:] for line in comment.splitlines() if line.startswith(" *")]
            block = []
            for line in [*lines, ""]:
                if line.startswith("     ") and (block or not line[5:].startswith(" ")):
                    block.append(line[5:])
                elif block and not line.strip():
                    block.append("")
                elif block:
                    yield "\n".join(block).strip("\n") + "\n"
                    block = []
            if block:
                yield "\n".join(block).strip("\n") + "\n"


def read(include):
    """Reads the headers of a folder that contains weft/."""
    headers = [Header(path) for path in sorted((pathlib.Path(include) / "weft").glob("*.h"))]
    if sum(len(header.structs) for header in headers) < 10 or sum(len(header.functions) for header in headers) < 20:
        raise SystemExit(f"few structs and functions were found in {include}: has the form of the headers changed?")
    return headers
