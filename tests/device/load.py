#!/usr/bin/env python3
"""Where the CUDA plug-in is searched, where it is not, and the errors for a faulty one:
load.py PROGRAM LIBRARY|- FAKE OTHER

PROGRAM and LIBRARY load it (try_load.c), FAKE is a plug-in of this version and OTHER one of another.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import machine  # noqa: E402

NAME = "libweft_cuda.so.0"
CALL = "import ctypes, sys; sys.exit(ctypes.CDLL(sys.argv[1]).try_load())"
# Loaded by a path that means something else when the plug-in is looked for.
CHANGED = """import ctypes, os, sys
library = ctypes.CDLL(sys.argv[1])
os.chdir("elsewhere")
sys.exit(library.try_load())"""
NOBODY = 65534
LIBM = next(line.split()[-1] for line in pathlib.Path("/proc/self/maps").read_text().splitlines() if "/libm.so" in line)
failures = []


def run(command, plugin=None, path=None, folder=None, user=None):
    environment = {k: v for k, v in os.environ.items() if k not in ("WEFT_CUDA_PLUGIN", "LD_LIBRARY_PATH")}
    if plugin is not None:
        environment["WEFT_CUDA_PLUGIN"] = str(plugin)
    if path is not None:
        environment["LD_LIBRARY_PATH"] = str(path)
    ran = subprocess.run(command, env=environment, cwd=folder, user=user, capture_output=True, text=True, timeout=60)
    if ran.returncode not in (0, 1):
        failures.append(f"{command} ended with {ran.returncode}: {ran.stdout}{ran.stderr}")
    return ran.stdout.strip()


def expect(what, said, *parts):
    missing = [str(p) for p in parts if str(p) not in said]
    if missing or not said.startswith(str(parts[0])):
        failures.append(f"{what}: it said '{said}', not {missing or parts[0]}")
    print(f"{what}: {said}")


def expect_not_planted(moved, root):
    """A plug-in in the working directory, or wherever the dynamic linker's variable says, is none."""
    planted = root / "elsewhere"
    for what, path in (("empty", ""), ("an empty element", ":"), ("relative", "."), ("absolute", planted)):
        said = run([moved], path=path, folder=planted)
        expect(f"planted, LD_LIBRARY_PATH {what}", said, "UNSUPPORTED", "not installed")
    for name in (NAME, "./" + NAME, "../elsewhere/" + NAME):
        expect(f"named {name}", run([moved], plugin=name, folder=planted), "UNSUPPORTED", "WEFT_CUDA_PLUGIN", name,
               "begins with /")


def expect_owners(program, fake, root):
    """The owner of the file, and other users who can write it, decide whether it is loaded."""
    other_writes = root / "other.so"
    shutil.copy(fake, other_writes)
    other_writes.chmod(0o757)
    expect("everybody can write it", run([program], plugin=other_writes), "UNSUPPORTED", other_writes, "everybody")
    other_writes.chmod(0o755)
    expect("nobody else can", run([program], plugin=other_writes), "OK")
    public = root / "public"
    public.mkdir()
    public.chmod(0o777)
    shutil.copy(fake, public / NAME)
    expect("everybody can exchange it", run([program], plugin=public / NAME), "UNSUPPORTED", "its folder", "everybody")
    public.chmod(0o1777)
    expect("nobody can, by the sticky bit", run([program], plugin=public / NAME), "OK")
    if os.geteuid() != 0:
        print("not root: other owners are not tried")
        return
    os.chown(other_writes, NOBODY, NOBODY)
    expect("it is another user's", run([program], plugin=other_writes), "UNSUPPORTED", "another user")
    os.chown(program, NOBODY, NOBODY)
    expect("the program is that user's too", run([program], plugin=other_writes), "OK")
    os.chown(program, 0, 0)


def expect_privileged(program, fake, root):
    """A program that has more rights than its caller does not look at the variable."""
    root.chmod(0o755)
    theirs = root / "theirs"
    theirs.mkdir()
    shutil.copy(fake, theirs / NAME)
    (root / "safe").mkdir()
    secure = shutil.copy(program, root / "safe" / "program")
    expect("as it is", run([secure], plugin=theirs / NAME), "OK")
    no_more = "NoNewPrivs:\t1\n" in pathlib.Path("/proc/self/status").read_text(encoding="ascii")
    if os.geteuid() != 0 or no_more or os.statvfs(root).f_flag & os.ST_NOSUID:
        print("not root, or this process (no_new_privs) or folder has no set-uid: a set-uid program is not tried")
        return
    if not all(folder.stat().st_mode & 0o001 for folder in root.parents):
        print(f"another user does not get to {root}: a set-uid program is not tried")
        return
    os.chmod(secure, 0o4755)
    said = run([secure], plugin=theirs / NAME, user=NOBODY)
    expect("set-uid", said, "UNSUPPORTED", "not installed")
    shutil.copy(fake, root / "safe" / NAME)
    expect("set-uid, beside it", run([secure], user=NOBODY), "OK")
    os.chown(root / "safe", NOBODY, NOBODY)
    expect("set-uid, its folder is the caller's", run([secure], user=NOBODY), "UNSUPPORTED", "its folder",
           "another user")


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
            expect("none", said, "UNSUPPORTED", root / "bin", "/lib", NAME, "not installed",
                   "WEFT_CUDA_PLUGIN")
        expect("named, not there", run([moved], plugin=root / "no.so"), "UNSUPPORTED", root / "no.so",
               "WEFT_CUDA_PLUGIN")
        expect("named, no library", run([moved], plugin=text), "UNSUPPORTED", text, "WEFT_CUDA_PLUGIN")
        if not machine.is_emulated(program):
            expect("named, no plug-in", run([moved], plugin=LIBM), "UNSUPPORTED", "libm.so.6", "weft_cuda_api")
        expect("named, other version", run([moved], plugin=other), "UNSUPPORTED", other, "another version")
        expect("named", run([moved], plugin=fake), "OK")

        shutil.copy(fake, root / "elsewhere" / NAME)
        if said != "OK":
            expect_not_planted(moved, root)
        expect_owners(moved, fake, root)
        if said != "OK":
            expect_privileged(moved, fake, root)
        shutil.copy(fake, libs)
        expect("in the folder of libraries", run([moved]), "OK")
        expect("nothing in the variable is as none", run([moved], plugin=""), "OK")
        os.symlink(root / "bin" / "program", root / "elsewhere" / "link")
        expect("through a link to the program", run([root / "elsewhere" / "link"]), "OK")
        shutil.copy(other, beside)
        expect("beside goes first", run([moved]), "UNSUPPORTED", beside, "another version")
        beside.write_text("not a library\n")
        expect("what is there and broken is told", run([moved]), "UNSUPPORTED", beside)
        if library != "-" and machine.is_emulated(program):
            print("skipped: a part of device_load, within a library, which is of another machine than Python")
        elif library != "-":
            within = shutil.copy(library, root / "lib" / "libholder.so")
            expect("beside a library", run([sys.executable, "-c", CALL, within]), "OK")
            expect("beside a library by a relative path", run([sys.executable, "-c", CHANGED, "lib/libholder.so"],
                                                              folder=root), "OK")
            shutil.copy(other, libs)
            expect("beside a library, other version", run([sys.executable, "-c", CALL, within]), "UNSUPPORTED", libs)
    print("\n".join(failures), file=sys.stderr)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
