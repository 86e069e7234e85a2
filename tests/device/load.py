#!/usr/bin/env python3
"""Where the CUDA plug-in is looked for, and what is said when it is not right: load.py PROGRAM LIBRARY|- FAKE OTHER

PROGRAM and LIBRARY load it (try_load.c), FAKE is a plug-in of this version and OTHER one of another.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

NAME = "libweft_cuda.so.0"
CALL = "import ctypes, sys; sys.exit(ctypes.CDLL(sys.argv[1]).try_load())"
failures = []


def run(command, plugin=None, path=None):
    environment = {k: v for k, v in os.environ.items() if k not in ("WEFT_CUDA_PLUGIN", "LD_LIBRARY_PATH")}
    if plugin is not None:
        environment["WEFT_CUDA_PLUGIN"] = str(plugin)
    if path is not None:
        environment["LD_LIBRARY_PATH"] = str(path)
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    if ran.returncode not in (0, 1):
        failures.append(f"{command} ended with {ran.returncode}: {ran.stdout}{ran.stderr}")
    return ran.stdout.strip()


def expect(what, said, *parts):
    missing = [str(p) for p in parts if str(p) not in said]
    if missing or not said.startswith(str(parts[0])):
        failures.append(f"{what}: it said '{said}', not {missing or parts[0]}")
    print(f"{what}: {said}")


def main():
    program, library, fake, other = sys.argv[1:5]
    with tempfile.TemporaryDirectory() as work:
        root = pathlib.Path(work).resolve()
        for folder in ("bin", "lib", "elsewhere"):
            (root / folder).mkdir()
        moved = shutil.copy(program, root / "bin" / "program")
        beside, libs = root / "bin" / NAME, root / "lib" / NAME
        text = root / "text.so"
        text.write_text("not a library\n")

        said = run([moved])
        if said == "OK":
            print("a plug-in is installed on this host: what is said without one is not looked at")
        else:
            expect("none", said, "UNSUPPORTED", root / "bin" / NAME, "/lib/" + NAME, "dynamic linker",
                   "WEFT_CUDA_PLUGIN")
        expect("named, not there", run([moved], plugin=root / "no.so"), "UNSUPPORTED", root / "no.so",
               "WEFT_CUDA_PLUGIN")
        expect("named, no library", run([moved], plugin=text), "UNSUPPORTED", text, "WEFT_CUDA_PLUGIN")
        expect("named, no plug-in", run([moved], plugin="libm.so.6"), "UNSUPPORTED", "libm.so.6", "weft_cuda_api")
        expect("named, other version", run([moved], plugin=other), "UNSUPPORTED", other, "another version")
        expect("named", run([moved], plugin=fake), "OK")

        shutil.copy(fake, root / "elsewhere" / NAME)
        expect("where the dynamic linker looks", run([moved], path=root / "elsewhere"), "OK")
        shutil.copy(fake, libs)
        expect("in the folder of libraries", run([moved]), "OK")
        expect("nothing in the variable is as none", run([moved], plugin=""), "OK")
        os.symlink(root / "bin" / "program", root / "elsewhere" / "link")
        expect("through a link to the program", run([root / "elsewhere" / "link"]), "OK")
        shutil.copy(other, beside)
        expect("beside goes first", run([moved]), "UNSUPPORTED", beside, "another version")
        beside.write_text("not a library\n")
        expect("what is there and broken is told", run([moved]), "UNSUPPORTED", beside)
        if library != "-":
            within = shutil.copy(library, root / "lib" / "libholder.so")
            expect("beside a library", run([sys.executable, "-c", CALL, within]), "OK")
            shutil.copy(other, libs)
            expect("beside a library, other version", run([sys.executable, "-c", CALL, within]), "UNSUPPORTED", libs)
    print("\n".join(failures), file=sys.stderr)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
