#!/usr/bin/env python3
"""Makes a virtual environment, installs the package `weft` with the libraries of a build folder, and runs its tests,
mypy and ruff; compares the stub with the extension. package.py BUILD
With --docs it writes the reference of the package into BUILD/docs/python instead. With --sanitized, where BUILD was
made with gcc's AddressSanitizer, it runs the random wrong calls, the routes and the impatient threads alone, with an
extension made so too.
With --prepare it compiles the extension, and runs nothing.

What comes from PyPI is kept in BUILD/python-test for the next run. Skipped, with the reason, where it cannot be had.
"""
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig

SOURCE = pathlib.Path(os.environ["WEFT_SOURCE"])
PACKAGE = SOURCE / "python"
TOOLS = ["scikit-build-core>=1.0,<2", "nanobind>=2.9,<4", "numpy>=1.22,<3", "pytest>=8,<10", "mypy>=1.11,<3",
         "ruff>=0.6,<1", 'cmake>=3.26,<5; python_version >= "3.12"']


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def telling_line(text):
    """The line of a failed command's output that gives the reason, or else its last line."""
    lines = [line for line in text.splitlines() if line.strip()]
    told = (line for line in lines if line.startswith(("ERROR", "FAILED")))  # by pip and pytest
    return next(told, lines[-1] if lines else "no reason")


def run(what, command, **options):
    """Runs a command; what it prints is shown only where it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          **options)
    if done.returncode != 0:
        print(done.stdout)
        sys.exit(f"{what}: status {done.returncode}: {telling_line(done.stdout)}")
    print(f"{what}: {telling_line(done.stdout)}" if done.stdout.strip() else what, flush=True)


def make_environment(folder):
    """A virtual environment with the tools; its python."""
    python = folder / "bin" / "python"
    done = folder / "tools.txt"
    if done.exists() and done.read_text() == "\n".join(TOOLS):
        return python
    shutil.rmtree(folder, ignore_errors=True)
    made = subprocess.run([sys.executable, "-m", "venv", folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    if made.returncode != 0:
        skip(f"no virtual environment can be made: {telling_line(made.stdout)}")
    got = subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input",
                          "--retries", "1", "--timeout", "10", *TOOLS], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, check=False)
    if got.returncode != 0:
        skip(f"what the tests need does not come from PyPI: {telling_line(got.stdout)}")
    done.write_text("\n".join(TOOLS))
    return python


def pip_install(python, package, *options):
    """Compiling leaves the processors to tests beside this one, some of which have deadlines to keep. Where it is ended
    by its own deadline, its files stay in the virtual environment, and the next run removes them."""
    temporary = python.parent.parent / "tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    run(f"pip install {package.name}", [
        "nice", "-n", "10", python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index",
        "--no-deps", "--no-build-isolation", "--force-reinstall", package, *options],
        env={**os.environ, "TMPDIR": str(temporary)})


def install(python, build, **more):
    defines = {"WEFT_BUILD_TREE": build, **more}
    if shutil.which("ccache"):
        defines["CMAKE_CXX_COMPILER_LAUNCHER"] = "ccache"
    # Where the next run, and python_compat after python_package, finds what is compiled already.
    pip_install(python, PACKAGE, f"-Cbuild-dir={build / 'python-build'}",
                *[f"-Ccmake.define.{name}={value}" for name, value in defines.items()])


def write_docs(python, build):
    run("pdoc", [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "pdoc>=14,<17"])
    # Named one by one: of a package with __all__, pdoc leaves out the modules that are not in it.
    modules = [f"weft.{path.stem}" for path in sorted((PACKAGE / "weft").iterdir())
               if not path.name.startswith("_") and (path.suffix == ".py" or path.is_dir())]
    run("docs", [python, "-m", "pdoc", "weft", *modules, "!weft._weft", "-o", build / "docs" / "python"])
    print(build / "docs" / "python" / "index.html")


def preloaded():
    """What a python that was not built with AddressSanitizer has to load before all else; the library of C++ too, whose
    exceptions it has to know from the beginning."""
    compiler = os.environ.get("CXX", "g++")
    found = [subprocess.run([compiler, f"-print-file-name={name}"], stdout=subprocess.PIPE, text=True,
                            check=True).stdout.strip() for name in ("libasan.so", "libstdc++.so")]
    return " ".join(str(pathlib.Path(one).resolve()) for one in found)


def install_sanitized(python, build):
    install(python, build, CMAKE_CXX_FLAGS="-fsanitize=address -fno-omit-frame-pointer",
            CMAKE_CXX_FLAGS_RELEASE="-O1 -g1 -DNDEBUG")


# CPython itself frees little at its end, so leaks are not looked for. Python's own allocator would hide what is freed.
def check_sanitized(python):
    with scratch_folder() as (scratch, environment):
        tests = [PACKAGE / "tests" / f"{name}.py" for name in (
            "test_misuse", "test_ep_routes", "test_ep_throughput", "impatient/test_impatient_agents",
            "impatient/test_impatient_ranks")]
        run("pytest", [python, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", *tests], cwd=scratch,
            env={**environment, "LD_PRELOAD": preloaded(), "PYTHONMALLOC": "malloc",
                 "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1"})


def find_python(build):
    """The python of a virtual environment with the tools."""
    if not pathlib.Path(sysconfig.get_paths()["include"], "Python.h").exists():
        skip("no Python.h: install python3-dev")
    if not (build / "libweft.so.0").exists():
        skip(f"{build} has no libweft.so.0")
    return make_environment(build / "python-test")


def prepare(build, install_package=install):
    """The same, with the package installed."""
    python = find_python(build)
    install_package(python, build)
    return python


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    sanitized = "--sanitized" in sys.argv
    python = prepare(build, install_sanitized if sanitized else install)
    if "--prepare" in sys.argv:
        print("the package is installed")
        return
    if sanitized:
        check_sanitized(python)
        print("no call touched memory that it must not")
        return
    if "--docs" in sys.argv:
        write_docs(python, build)
        return
    check(python)
    print("the package is in order")


@contextlib.contextmanager
def scratch_folder():
    """A folder that goes again, and an environment that leaves nothing elsewhere."""
    scratch = pathlib.Path(os.environ.get("TMPDIR", "/tmp"), f"weft-python-{os.getpid()}")
    scratch.mkdir()
    try:
        yield scratch, {**os.environ, "RUFF_CACHE_DIR": str(scratch / "ruff"), "PYTHONDONTWRITEBYTECODE": "1",
                        "TMPDIR": str(scratch), "XDG_CACHE_HOME": str(scratch / "cache")}
    finally:
        shutil.rmtree(scratch)


def check(python):
    with scratch_folder() as (scratch, caches):
        run("ruff", [python, "-m", "ruff", "check", PACKAGE], env=caches)
        run("mypy", [python, "-m", "mypy", "--strict", "--cache-dir", scratch / "mypy", PACKAGE / "weft"],
            env=caches, cwd=PACKAGE)
        stub = scratch / "_weft.pyi"
        run("stubgen", [python, "-m", "nanobind.stubgen", "-q", "-m", "weft._weft", "-o", stub], cwd=scratch)
        if stub.read_text() != (PACKAGE / "weft" / "_weft.pyi").read_text():
            sys.exit(f"python/weft/_weft.pyi is not that of the extension: {python} -m nanobind.stubgen -m weft._weft "
                     "-o python/weft/_weft.pyi")
        run("pytest", [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", PACKAGE / "tests"], env=caches,
            cwd=scratch)


if __name__ == "__main__":
    main()
