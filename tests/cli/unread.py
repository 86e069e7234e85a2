#!/usr/bin/env python3
"""A command whose output nobody reads ends at the first signal, with the status of any command that a signal ends."""
import fcntl
import os
import signal
import struct
import subprocess
import tempfile
import termios
import time
import unittest

import tool

PIPE = 4096  # bytes; each command below writes more
STILL_S = 0.5  # a command that writes nothing for so long waits for its reader
SIZES = ",".join(str(size) for size in range(1, 33))
TRANSFER = ("bench", "transfer", "--backend", "SHM", "--max_block_size", 4096, "--num_iter", 16, "--warmup_iter", 16)
COMMANDS = ((signal.SIGTERM, TRANSFER), (signal.SIGINT, TRANSFER),
            (signal.SIGTERM, ("p2p", "--csv", "-s", SIZES, "-n", 1)),
            (signal.SIGINT, ("p2p", "--json", "-s", SIZES, "-n", 1)))


def unread(reader):
    """How many bytes are in the pipe."""
    return struct.unpack("i", fcntl.ioctl(reader, termios.FIONREAD, b"\0" * 4))[0]


class Unread(unittest.TestCase):
    def start(self, command, errors):
        """Starts the command, and returns it and its output when it waits for the reader."""
        reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE)
        process = subprocess.Popen([tool.WEFT, *map(str, command)], env=tool.environment(), stdin=subprocess.DEVNULL,
                                   stdout=writer, stderr=errors)
        os.close(writer)
        out = open(reader, encoding="utf-8")
        self.addCleanup(out.close)
        self.addCleanup(tool.end, process)
        deadline, before, since = time.monotonic() + tool.TIMEOUT_S, 0, time.monotonic()
        while before == 0 or time.monotonic() - since < STILL_S:
            self.assertIsNone(process.poll(), command)
            self.assertLess(time.monotonic(), deadline)
            if unread(reader) != before:
                before, since = unread(reader), time.monotonic()
            time.sleep(0.02)
        return process, out

    def test_one_signal_is_enough(self):
        for number, command in COMMANDS:
            with self.subTest(command=command, number=number), tempfile.TemporaryFile("w+") as errors:
                process, _ = self.start(command, errors)
                process.send_signal(number)
                self.assertEqual(process.wait(timeout=tool.TIMEOUT_S), 128 + number)
                errors.seek(0)
                self.assertIn(f"interrupted by {number.name}", errors.read())

    def test_a_slow_reader_gets_what_was_written(self):
        with tempfile.TemporaryFile("w+") as errors:
            process, out = self.start(TRANSFER, errors)
            process.send_signal(signal.SIGTERM)
            text = out.read()
            self.assertEqual(process.wait(timeout=tool.TIMEOUT_S), 128 + signal.SIGTERM)
        self.assertIn("Block Size (B)", text)  # of the first line that did not fit


if __name__ == "__main__":
    unittest.main()
