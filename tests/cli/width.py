#!/usr/bin/env python3
"""The tool's output fits the width of the terminal, and no text is cut for that."""
import fcntl
import os
import pty
import struct
import subprocess
import termios
import unittest

import tool

HOSTS = tool.SOURCE / "tests/topology"
COMMANDS = ["elastic", "p2p", "compare", "plan", "report", "serve", "info", "doctor", "env", "help"]
LONG = "/" + "/".join(40 * ["nowhere"]) + "/libweft_ucx.so.0"  # 337 characters


class Width(tool.ToolTest):
    def too_long(self, text, width):
        """Lines beyond the width. The path of a file of this build may be longer than a line: it stands alone then."""
        def is_path(line):
            return len(line.split()) == 1 and line.strip().startswith("/")
        return [line for line in text.splitlines() if len(line) > width and not is_path(line)]

    def test_every_text_keeps_to_the_width(self):
        texts = [["--help"], ["plan", str(tool.SOURCE / "plans/expansion_fault_rejoin.json")], ["info"]]
        texts += [[command, "--help"] for command in COMMANDS]
        for width in (60, 80, 100):
            for arguments in [["--help"], ["help"]] if width == 60 else texts:
                text = self.passes(*arguments, COLUMNS=str(width))
                self.assertEqual(self.too_long(text, width), [], (arguments, width))
            found = tool.weft("doctor", COLUMNS=str(width)).stdout
            self.assertEqual(self.too_long(found, width), [])
        usage = tool.weft(COLUMNS="60")
        self.assertEqual((usage.returncode, self.too_long(usage.stderr, 60)), (2, []))
        self.assertEqual(self.too_long(self.passes("env"), 100), [])

    def test_hosts_of_many_devices_keep_to_the_width(self):
        for host, width in (("p5en", 80), ("p5en", 100), ("10_nics", 80)):
            text = self.passes("info", "--topology", HWLOC_XMLFILE=str(HOSTS / f"host_{host}.xml"), COLUMNS=str(width))
            self.assertEqual(self.too_long(text, width), [], (host, width))

    def test_a_reason_is_printed_to_its_end(self):
        """A word that is longer than a line stays whole."""
        text = self.warns("there is no file", "info", WEFT_UCX_PLUGIN=LONG)
        self.assertIn(LONG, text)
        self.assertIn("(from WEFT_UCX_PLUGIN): No such file or directory", " ".join(text.split()))

    def test_an_option_s_name_is_never_broken(self):
        text = self.passes("info", COLUMNS="60")
        for name in ("--validate-phase-failures", "--num-experts-per-rank", "--tcp-server"):
            self.assertIn("\n" + name, text)

    def test_an_example_that_is_too_long_is_still_a_command(self):
        text = self.passes("elastic", "--help", COLUMNS="60")
        self.assertEqual(self.too_long(text, 60), [])
        self.assertIn("weft elastic PLAN --num-processes 4 --num-agents 2 --listen 10.0.0.1",
                      " ".join(text.replace("\\\n", "").split()))

    def test_odd_widths(self):
        """Less than 60 columns are taken for 60, and what is no number for none."""
        for columns, width in (("20", 60), ("0", 100), ("wide", 100), ("-5", 100), ("99999999999999999999", 100)):
            text = self.passes("plan", "--help", COLUMNS=columns)
            self.assertEqual(self.too_long(text, width), [])
            self.assertNotEqual(self.too_long(text, width - 12), [])

    def test_the_width_is_that_of_the_terminal(self):
        for columns in (70, 140):
            reader, terminal = pty.openpty()
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
            environment = {name: value for name, value in tool.environment().items() if name != "COLUMNS"}
            process = subprocess.Popen([tool.WEFT, "plan", "--help"], stdout=terminal, env=environment)
            os.close(terminal)
            text = b""
            while chunk := self.read(reader):
                text += chunk
            os.close(reader)
            self.assertEqual(process.wait(tool.TIMEOUT_S), 0)
            widest = max(len(line) for line in text.decode().splitlines())
            self.assertTrue(columns - 12 < widest <= columns or (columns > 100 and 88 < widest <= 100), widest)

    @staticmethod
    def read(reader):
        try:
            return os.read(reader, 65536)
        except OSError:  # the other end was closed
            return b""


if __name__ == "__main__":
    unittest.main(verbosity=2)
