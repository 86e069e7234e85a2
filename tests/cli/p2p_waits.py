#!/usr/bin/env python3
"""Where a target of weft p2p listens, for whom it waits and how long, and how the waits of each side are
interrupted."""
import contextlib
import os
import re
import signal
import socket
import subprocess
import time
import unittest

import tool
from p2p_sides import TOKEN, busy, initiator, running, start, end, target

WAITS = "waits for its turn"


class Listening(tool.ToolTest):
    def test_a_target_listens_at_its_ip(self):
        for option in ("--ip", "--listen"):
            with target("--forever", at=(option, "127.0.0.2")) as (_, port):
                self.refused(3, "127.0.0.1", *initiator(port, "--timeout-ms", 2000), **TOKEN)
                self.passes(*initiator(port, "--ip", "127.0.0.2", "-s", 8, "-n", 5), **TOKEN)

    def test_the_first_line_says_where(self):
        with running("--mode", "target", "--port", 0, WEFT_TOKEN="") as process:
            self.assertRegex(process.stdout.readline(),
                             r"^listening at 0\.0\.0\.0, port \d+ \(every address of this host\)$")
            self.assertRegex(process.stdout.readline(), "^on the other host: WEFT_TOKEN=")
        with running("--mode", "target", "--port", 0, "--ip", "127.0.0.1", WEFT_TOKEN="") as process:
            self.assertRegex(process.stdout.readline(), r"^listening at 127\.0\.0\.1, port \d+$")
            self.assertRegex(process.stdout.readline(), "^on this host: WEFT_TOKEN=")  # no other one reaches it

    def test_on_a_host_of_ipv6_alone(self):
        made = ("ip link set lo up && ip link add weft0 type veth peer name weft1 && ip link set weft1 up && "
                "ip link set weft0 up && ip address add fd00::7/64 dev weft0 nodad || exit 77; ")
        sides = (f'"{tool.WEFT}" p2p --mode target --timeout-ms 60000 & '
                 f'"{tool.WEFT}" p2p --mode initiator --ip fd00::7 --startup-timeout 60 -s 8 -n 5 && wait $!')
        result = subprocess.run(["unshare", "--map-root-user", "--net", "sh", "-c", made + sides], text=True,
                                env=tool.environment(**TOKEN), capture_output=True, timeout=2 * tool.TIMEOUT_S)
        if result.returncode == 77 or result.stderr.startswith("unshare:"):
            self.skipTest(f"no network of its own: {result.stderr.strip()}")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"(?m)^listening at ::, port 5555 \(every address of this host\)$")

    def test_on_a_host_whose_loopback_is_down(self):
        result = subprocess.run(["unshare", "--map-root-user", "--net", tool.WEFT, "p2p"], text=True,
                                env=tool.environment(**TOKEN), capture_output=True, timeout=tool.TIMEOUT_S)
        if result.stderr.startswith("unshare:"):
            self.skipTest(f"no network of its own: {result.stderr.strip()}")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("the loopback interface lo is down: run 'ip link set dev lo up'", result.stderr)

    def test_two_places_contradict_each_other(self):
        self.refused(2, "--ip 127.0.0.1 and --listen 127.0.0.2", "p2p", "--mode", "target", "--ip", "127.0.0.1",
                     "--listen", "127.0.0.2")


class Waiting(tool.ToolTest):
    def test_a_target_that_nobody_comes_to(self):
        with target("--timeout-ms", 10, "--forever") as (patient, _):  # waits longer than the other one
            said = self.refused(124, "no initiator connected to 127.0.0.1, port ", "p2p", "--mode", "target", "--port",
                                0, "--ip", "127.0.0.1", "--quiet", "--timeout-ms", 200, **TOKEN)
            self.assertRegex(said, r"within 0\.2 s.*--timeout-ms.*--forever")
            self.assertIsNone(patient.poll())

    def test_a_target_waits_for_all_that_it_expects(self):
        """One that comes when another has ended, and none that never comes."""
        with target("--initiators", 2) as (process, port):
            for _ in range(2):
                self.assertIsNone(process.poll())
                self.passes(*initiator(port, "-s", 8, "-n", 5), **TOKEN)
            self.assertEqual(process.wait(timeout=tool.TIMEOUT_S), 0)
        with target("--initiators", 2, "--timeout-ms", 5000) as (process, port):  # the first needs some of it to start
            self.passes(*initiator(port, "-s", 8, "-n", 5), **TOKEN)
            self.assertEqual(process.wait(timeout=tool.TIMEOUT_S), 124)

    def test_an_initiator_waits_for_a_target(self):
        port = tool.free_port()
        command = [*initiator(port, "-s", 8, "-n", 5)[1:], "--startup-timeout", tool.TIMEOUT_S]
        with running(*command) as early:
            self.assertIn(f"waiting for a target at 127.0.0.1:{port}", early.stderr.readline())
            with running("--mode", "target", "--port", port, "--ip", "127.0.0.1") as late:
                out, errors = early.communicate(timeout=tool.TIMEOUT_S)
                self.assertEqual((early.returncode, errors), (0, ""))
                self.assertRegex(out, r"(?m)^write +8 B")
                self.assertEqual(late.wait(timeout=tool.TIMEOUT_S), 0)
        self.refused(3, "Connection refused", *initiator(port, "--startup-timeout", 1), **TOKEN)

    def test_the_second_initiator_waits_for_its_turn(self):
        with target() as (process, port), busy(process, port) as first:
            with running(*initiator(port, "-s", 8, "-n", 5)[1:]) as second, \
                    running(*initiator(port, "-s", 8, "-n", 5, "--quiet")[1:]) as gone:
                self.assertIn(WAITS, second.stderr.readline())
                end(gone)  # who has left its place keeps nobody waiting
                self.assertIsNone(second.poll())
                first.send_signal(signal.SIGINT)
                self.assertEqual(first.wait(timeout=tool.TIMEOUT_S), 130)
                out, errors = second.communicate(timeout=tool.TIMEOUT_S)
                self.assertEqual((second.returncode, errors), (0, ""))
                self.assertRegex(out, r"(?m)^write +8 B")
                self.assertEqual(process.wait(timeout=tool.TIMEOUT_S), 5)  # the first one's
                failed, last = process.stderr.read().splitlines()
                self.assertRegex(failed, "^weft p2p: an initiator failed: p2p-initiator-")
                self.assertEqual(last, failed.replace("an initiator failed: ", ""))  # whatever else went on since


class Interrupted(tool.ToolTest):
    def interrupt(self, process, number=signal.SIGINT):
        """It ends, says why, and its status names the signal; returns what it printed."""
        process.send_signal(number)
        out, errors = process.communicate(timeout=tool.TIMEOUT_S)
        self.assertEqual(process.returncode, 128 + number, errors)
        self.assertIn(f"weft p2p: interrupted by {number.name}\n", errors)
        return out

    def test_a_target_that_waits(self):
        for forever in ((), ("--forever",)):
            for number in (signal.SIGINT, signal.SIGTERM):
                with target(*forever) as (process, _):
                    self.interrupt(process, number)

    def test_a_target_at_work(self):
        with target("--forever") as (process, port), busy(process, port) as first:
            self.interrupt(process)
            self.assertEqual(first.wait(timeout=tool.TIMEOUT_S), 5)

    def test_a_target_whose_initiator_measures_for_longer_than_the_time_limit(self):
        """No wait is as long as a measurement may be; and the memory that is measured is not taken away beneath it."""
        with contextlib.ExitStack() as stack:
            pairs = []
            for transport in ("shm", "ofi"):
                process, port = stack.enter_context(target("--forever", "--timeout-ms", 3000, "--transport", transport))
                pairs.append((process, stack.enter_context(busy(process, port))))
            time.sleep(4.5)  # the span is what is tested
            for process, first in pairs:
                self.assertIsNone(first.poll())
                self.interrupt(process)
                self.assertEqual(first.wait(timeout=tool.TIMEOUT_S), 5, first.stderr.read())

    def test_an_initiator_whose_target_does_not_answer(self):
        with socket.create_server(("127.0.0.1", 0)) as mute:
            with running(*initiator(mute.getsockname()[1], "--timeout-ms", 600000)[1:]) as process:
                connection, _ = mute.accept()
                with connection:
                    self.assertEqual(self.interrupt(process), "")

    def test_an_initiator_that_waits_for_its_turn(self):
        with target() as (process, port), busy(process, port):
            second = start(*initiator(port, "-s", 8)[1:])
            try:
                self.assertIn(WAITS, second.stderr.readline())
                self.interrupt(second)
            finally:
                end(second)

    def test_both_sides_in_one(self):
        with running("--op", "write", "-s", "8,64MB", "-n", 20000, "--depth", 1, "--no-check") as process:
            rows = ""
            while not re.search(r"(?m)^write +8 B .*\n", rows):
                rows += process.stdout.readline()  # it comes long before the second one
            self.assertIsNone(process.poll())
            self.assertEqual(self.interrupt(process), "")  # the second never came, and nothing of it


@unittest.skipUnless("STOPPED_TARGET" in os.environ, "a sanitizer's runtime suffers nothing that is preloaded")
class Starting(tool.ToolTest):
    def start(self, status, what, sentence):
        said = self.refused(status, "the target, process ", "p2p", "-s", 8, "--timeout-ms", 10,
                            LD_PRELOAD=os.environ["STOPPED_TARGET"], TEST_TARGET=what)
        self.assertRegex(said, sentence)
        process = int(re.search(r"process (\d+)", said)[1])
        with self.assertRaises(ProcessLookupError):  # nothing is left of it
            os.kill(process, 0)

    def test_a_target_that_stands_still(self):
        self.start(124, "stops", r"process \d+, did not print its port within 5\.0 s")

    def test_a_target_that_ends(self):
        self.start(3, "ends", r"process \d+, ended before it listened")


if __name__ == "__main__":
    unittest.main()
