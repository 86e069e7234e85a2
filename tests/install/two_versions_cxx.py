#!/usr/bin/env python3
"""Two C++ libraries of one process, built with headers of two versions, each get initial values of their own size.

Without optimisation, an inline function of external linkage is one function for both libraries, and its value is longer
than the caller's struct. To show that the check can fail, headers with such functions have to be refused.
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

CXX = os.environ.get("CXX") or "c++"
LIBRARY = """#include <cstring>
#include <new>
#include <weft/weft.h>

namespace {
// A place with bytes behind it that nobody may touch.
template <typename T> struct place {
  alignas(T) unsigned char bytes[sizeof(T) + 256];
  place() { std::memset(bytes, 0xaa, sizeof bytes); }
  bool good(T *made) const {
    bool kept = made->size == sizeof(T);
    for (std::size_t i = sizeof(T); i < sizeof bytes; i++)
      kept = kept && bytes[i] == 0xaa;
    return kept;
  }
};
} // namespace

extern "C" int NAME() {
  for (int i = 0; i < 1000; i++) {
%s
  }
  return 0;
}
"""
EACH = """    {{
      place<{name}> room;
      if (!room.good(new (room.bytes) {name}({macro})))
        return 1;
    }}"""
MAIN = """#include <stdio.h>
int first(void), second(void);
int main(void) {
  int a = first(), b = second();
  printf("%d %d\\n", a, b);
  return a + b;
}
"""


def build(work, name, include):
    """One library, with the headers of `include`."""
    structs = [s for h in public_headers.read(ROOT / "include") if h.name not in public_headers.NOT_YET
               for s in h.structs if s.macro]
    source = LIBRARY % "\n".join(EACH.format(name=s.name, macro=s.macro) for s in structs)
    path = pathlib.Path(work, f"{name}.cpp")
    path.write_text(source.replace("int NAME()", f"int {name}()"), encoding="utf-8")
    subprocess.run([CXX, "-std=c++11", "-O0", "-w", "-fPIC", "-shared", "-fno-stack-protector", "-I", include, path,
                    "-o", pathlib.Path(work, f"lib{name}.so")], check=True)


def works(work, include, later):
    """Whether both libraries get their own values; `first` is built with today's headers."""
    for order in (["first", "second"], ["second", "first"]):
        build(work, "first", include)
        build(work, "second", later)
        main = pathlib.Path(work, "main.c")
        main.write_text(MAIN, encoding="utf-8")
        subprocess.run([os.environ.get("CC") or "cc", main, "-L", work, *[f"-l{name}" for name in order],
                        f"-Wl,-rpath,{work}", "-o", pathlib.Path(work, "main")], check=True)
        if subprocess.run([pathlib.Path(work, "main")], capture_output=True).returncode != 0:
            return False
    return True


def with_external_linkage(include, out):
    folder = pathlib.Path(out, "weft")
    folder.mkdir(parents=True)
    for path in (pathlib.Path(include) / "weft").glob("*.h"):
        text = path.read_text(encoding="utf-8").replace("\nnamespace {\n", "\ninline namespace shared {\n")
        folder.joinpath(path.name).write_text(text, encoding="utf-8")
    return out


def main():
    if not shutil.which(CXX):
        print(f"skipped: no compiler {CXX}")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as work:
        later = pathlib.Path(work, "later")
        subprocess.run([ROOT / "scripts" / "next-headers.py", later], check=True)
        if not works(work, ROOT / "include", later):
            sys.exit("two libraries with headers of two versions disturb each other")
        shared = [with_external_linkage(include, pathlib.Path(work, name)) for include, name in
                  ((ROOT / "include", "shared"), (later, "shared_later"))]
        if works(work, *shared):
            sys.exit("functions of external linkage are not found: this check cannot fail")
    print("each library has its own initial values")


if __name__ == "__main__":
    main()
