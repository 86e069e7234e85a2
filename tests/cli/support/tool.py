"""Runs the tool for the tests of this folder."""
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from ports import free_port  # noqa: E402, F401, which tests import from here

WEFT = os.environ["WEFT"]
SOURCE = pathlib.Path(os.environ["WEFT_SOURCE"])
TIMEOUT_S = 120
TRACER = "Tracer caught signal"  # LeakSanitizer's own crash at the end of a program, which hides its exit status
TRIES = 3


def environment(**more):
    """This process's environment, without variables that change the tool's options, and with fixed values of variables
    on which its output depends."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_") and name != "NO_COLOR"}
    nothing_kept = {"XDG_CACHE_HOME": os.path.join(tempfile.gettempdir(), "weft-nothing-kept")}
    return {**kept, **nothing_kept, "LC_ALL": "C.UTF-8", "TERM": "xterm", **more}


def weft(*arguments, **more):
    """Runs the tool, and again if LeakSanitizer crashed, which happens under load once in some hundred runs."""
    for _ in range(TRIES):
        result = subprocess.run([WEFT, *map(str, arguments)], env=environment(**more), capture_output=True, text=True,
                                stdin=subprocess.DEVNULL, timeout=TIMEOUT_S)
        if TRACER not in result.stderr:
            break
    return result


def start(*arguments, **more):
    """Starts the tool; the test reads its output."""
    return subprocess.Popen([WEFT, *map(str, arguments)], env=environment(**more), text=True, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def end(process):
    if process.poll() is None:
        process.kill()
    process.communicate(timeout=TIMEOUT_S)


@contextlib.contextmanager
def running(process):
    """Ends the process when the block is left."""
    try:
        yield process
    finally:
        end(process)


class ToolTest(unittest.TestCase):
    maxDiff = None

    def passes(self, *arguments, **more):
        """Runs the tool, which must succeed and print nothing to standard error; returns its output."""
        result = weft(*arguments, **more)
        self.assertEqual((result.returncode, result.stderr), (0, ""), arguments)
        return result.stdout

    def warns(self, says, *arguments, **more):
        """Runs the tool, which must succeed and say `says` on standard error in lines that begin with its name; returns
        its output."""
        result = weft(*arguments, **more)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(says, result.stderr, arguments)
        for line in result.stderr.splitlines():
            self.assertTrue(line.startswith(("weft: ", "weft[warn] ")), line)
        return result.stdout

    def refused(self, status, says, *arguments, **more):
        """Runs the tool, which must exit with `status`, say `says` on standard error, and print nothing. If its
        output is for a shell, it prints a command that ends the script; returns standard error."""
        result = weft(*arguments, **more)
        self.assertIn(says, result.stderr, arguments)
        for_shell = arguments[:1] == ("env",) and "--json" not in arguments
        printed = "false # weft env failed\n" if for_shell else ""
        self.assertEqual((result.returncode, result.stdout), (status, printed), arguments)
        return result.stderr
