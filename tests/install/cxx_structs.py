#!/usr/bin/env python3
"""A C++ program names every struct plainly, and uses every *_INIT as an initial value and in an assignment, in C++11 to
C++23; it also runs, and the exported weft_*_init() functions write the same: cxx_structs.py libweft.so

The program is made of the headers, so that no struct is forgotten.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(os.environ["WEFT_SOURCE"])
sys.path.insert(0, str(ROOT / "scripts"))
import public_headers  # noqa: E402

STANDARDS = ["c++11", "c++14", "c++17", "c++20", "c++23"]
EARLY = {"c++23": "c++2b"}  # what compilers call a standard that is not yet out
DIFFERS = {"weft_store_txn"}  # its function leaves the sizes of entries to the caller
FLAGS = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-O0"]
HEAD = """#include <cstdio>
#include <cstring>
#include <weft/weft.h>

template <typename T> static int differs(const char *name, const T &a, const T &b, bool whole) {
  if (a.size == sizeof(T) && b.size == sizeof(T) && (!whole || std::memcmp(&a, &b, sizeof a) == 0))
    return 0;
  std::printf("%s: the macro and the function make different values\\n", name);
  return 1;
}

int main() {
  int wrong = 0;
"""


def program(headers):
    lines, structs = [HEAD], []
    for header in headers:
        for struct in header.structs:
            if header.name in public_headers.NOT_YET:
                continue
            structs.append(struct.name)
            lines.append(f"  {{ {struct.name} *plain = 0; (void)plain; }}")
            if struct.macro:
                lines.append(f"""  {{
    {struct.name} value = {struct.macro}, function;
    value = {struct.macro};
    std::memset(&function, 0xff, sizeof function);
    {struct.name}_init(&function, sizeof function);
    wrong += differs("{struct.name}", value, function, {"false" if struct.name in DIFFERS else "true"});
  }}""")
    lines.append("  return wrong;\n}\n")
    return "\n".join(lines), structs


def knows(compiler, standard):
    return subprocess.run([compiler, f"-std={standard}", "-x", "c++", "-fsyntax-only", "-"], input="int probe;",
                          capture_output=True, text=True).returncode == 0


def without_function(headers):
    """Structs that a program has to initialise, and cannot: no macro, or no function."""
    functions = {function.name for header in headers for function in header.functions}
    for header in headers:
        for struct in header.structs:
            if header.name not in public_headers.NOT_YET and struct.sized:
                if not struct.macro:
                    yield f"{header.name}: struct {struct.name} has no {struct.name.upper()}_INIT"
                if f"{struct.name}_init" not in functions:
                    yield f"{header.name}: struct {struct.name} has no {struct.name}_init()"


def main():
    library = pathlib.Path(sys.argv[1])
    headers = public_headers.read(ROOT / "include")
    source, structs = program(headers)
    faults = list(without_function(headers))
    names = [os.environ.get("CXX") or "c++", "g++", "clang++"]
    compilers = {os.path.realpath(shutil.which(name)): name for name in names if shutil.which(name)}.values()
    run = 0
    with tempfile.TemporaryDirectory() as work:
        path, binary = pathlib.Path(work, "structs.cpp"), pathlib.Path(work, "structs")
        path.write_text(source, encoding="utf-8")
        for compiler in compilers:
            for standard in STANDARDS:
                name = next((s for s in (standard, EARLY.get(standard)) if s and knows(compiler, s)), None)
                if not name:
                    continue
                built = subprocess.run([compiler, f"-std={name}", *FLAGS, "-I", ROOT / "include", path, library, "-o",
                                        binary, f"-Wl,-rpath,{library.parent}"], capture_output=True, text=True)
                said = built.stderr
                if built.returncode == 0:
                    done = subprocess.run([binary], capture_output=True, text=True)
                    said = done.stdout + done.stderr if done.returncode else ""
                    run += 1
                if said:
                    faults.append(f"{compiler} -std={name}: {said}")
    if not run and not faults:
        print("skipped: no compiler of C++")
        sys.exit(77)
    print("\n".join(faults) or f"{len(structs)} structs, {run} times")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
