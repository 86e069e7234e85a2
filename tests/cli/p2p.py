#!/usr/bin/env python3
"""weft p2p measures what two processes send each other, checks it, and tells what goes wrong."""
import contextlib
import json
import os
import re
import signal
import subprocess
import unittest

import tool


TOKEN = {"WEFT_TOKEN": "of these tests"}


@contextlib.contextmanager
def target(*arguments, **more):
    """A running target and its port."""
    more = {**TOKEN, **more}
    process = subprocess.Popen([tool.WEFT, "p2p", "--mode", "target", "--port", "0", "--listen", "127.0.0.1",
                                *arguments], env=tool.environment(**more), text=True, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        yield process, re.search(r"port (\d+)", process.stdout.readline())[1]
    finally:
        process.kill()
        process.communicate(timeout=tool.TIMEOUT_S)


class Local(tool.ToolTest):
    def test_writes_reads_and_notifications_are_measured_and_checked(self):
        for memory in ("host", "user"):
            said = json.loads(self.passes("p2p", "--json", "-s", "1,8,4096,100001,2MB", "-n", 20, "--memory", memory))
            ran = [(one["operation"], one["bytes"]) for one in said["results"]]
            sizes = [1, 8, 4096, 100001, 2 << 20]
            self.assertEqual(ran, [(op, size) for op in ("write", "read") for size in sizes] +
                             [("notify", size) for size in sizes if size <= 4096])
            for one in said["results"]:
                self.assertEqual(one["checked"], one["operation"] != "notify")
                self.assertLessEqual(one["latency_min_us"], one["latency_p50_us"])
                self.assertLessEqual(one["latency_p50_us"], one["latency_max_us"])
                self.assertGreater(one["latency_min_us"], 0)
                self.assertEqual("gb_per_second" in one, one["operation"] != "notify")

    def test_both_ways_at_once(self):
        said = json.loads(self.passes("p2p", "--json", "--op", "write", "-s", "64KB", "--bidirectional", "--depth", 4))
        [one] = said["results"]
        self.assertGreater(one["gb_per_second"], 0)
        self.assertGreater(one["peer_gb_per_second"], 0)
        self.assertEqual(one["at_once"], 4)

    def test_the_table_names_sizes_and_transport(self):
        table = self.passes("p2p", "-s", "4KB", "-n", 10)
        self.assertRegex(table, r"write +4 KiB .* yes +shm")

    def test_gpu_memory(self):
        said = json.loads(self.passes("p2p", "--json", "--cuda", "--gpu_id", 0, "-s", "8,100001,1MB", "-n", 5,
                                      WEFT_CUDA_PLUGIN=os.environ["FAKE_DEVICE"]))
        self.assertEqual(said["memory"], "cuda")
        moved = [one for one in said["results"] if one["operation"] != "notify"]
        self.assertEqual({(one["transport"], one["checked"]) for one in moved}, {("cuda", True)})
        self.refused(3, "CUDA plug-in", "p2p", "--cuda", WEFT_CUDA_PLUGIN="/nowhere/plugin.so")

    def test_wrong_arguments(self):
        self.refused(2, "is empty", "p2p", "-s", "")
        for sizes in ("0", "4X", "1MB,", "99999999999999999999", "-1", "1.5MB"):
            self.refused(2, "is not a size", "p2p", "-s", sizes)
        self.refused(3, "smoke", "p2p", "--transport", "smoke")
        self.refused(2, "4096", "p2p", "--op", "notify", "-s", "1MB")
        self.refused(2, "cannot reach another process", "p2p", "--transport", "file")

    def test_a_buffer_that_no_host_has_room_for(self):
        for memory in ("host", "user"):  # at once, and not when memory has run out
            self.refused(3, "--buffer-sizes", "p2p", "-s", "1TB", "--memory", memory)
        with target("--forever") as (process, port):
            self.refused(3, "at the peer: ", "p2p", "--mode", "initiator", "--port", port, "-s", "1TB", **TOKEN)
            self.passes("p2p", "--mode", "initiator", "--port", port, "-s", "8", "-n", 5, **TOKEN)
            self.assertIsNone(process.poll())

    def test_one_of_several_transports(self):
        [one] = json.loads(self.passes("p2p", "--json", "--op", "write", "-s", "8", "-n", 5, "--transport",
                                       "shm,shm"))["results"]
        self.assertEqual(one["transport"], "shm")


class TwoSides(tool.ToolTest):
    def test_options_of_the_guides(self):
        with target("--memory", "user") as (process, port):
            said = json.loads(self.passes("p2p", "--mode", "initiator", "--ip", "127.0.0.1", "--port", port,
                                          "--buffer_sizes", "1KB,1MB", "--iterations", 10, "--warmup", 2, "--json",
                                          **TOKEN))
            self.assertEqual({one["bytes"] for one in said["results"]}, {1024, 1 << 20})
            self.assertEqual(process.wait(timeout=tool.TIMEOUT_S), 0)

    def test_nobody_is_there(self):
        self.refused(3, "127.0.0.1:1", "p2p", "--mode", "initiator", "--port", 1, "--timeout-ms", 2000, **TOKEN)

    def test_another_token_is_refused(self):
        with target("--forever", WEFT_TOKEN="right") as (process, port):
            self.refused(3, "", "p2p", "--mode", "initiator", "--port", port, WEFT_TOKEN="wrong")
            self.assertIsNone(process.poll())
            self.passes("p2p", "--mode", "initiator", "--port", port, "-s", "8", "-n", 5, WEFT_TOKEN="right")

    def test_each_target_makes_a_token_unless_one_is_given(self):
        tokens = set()
        for fixed in ("weft-p2p", "weft"):  # what somebody might take for the token of those who name none
            with target("--forever", WEFT_TOKEN="") as (process, port):
                command = process.stdout.readline()
                token = re.search(rf"WEFT_TOKEN=(\S{{32}}) weft p2p --mode initiator --ip 127.0.0.1 --port {port}",
                                  command)[1]
                self.refused(3, "token", "p2p", "--mode", "initiator", "--port", port, "-s", "8", WEFT_TOKEN=fixed)
                self.passes("p2p", "--mode", "initiator", "--port", port, "-s", "8", "-n", 5, WEFT_TOKEN=token)
                for place in ("cmdline", "environ"):
                    with open(f"/proc/{process.pid}/{place}", "rb") as file:
                        self.assertNotIn(token.encode(), file.read())
                tokens.add(token)
        self.assertEqual(len(tokens), 2)
        self.refused(2, "wants the token", "p2p", "--mode", "initiator", "--port", 1)

    def test_no_more_is_lent_than_was_said(self):
        with target("--forever", "--lend", "1MB") as (process, port):
            initiator = ("p2p", "--mode", "initiator", "--port", port, "-n", 5, "--depth", 1)
            offered = "a buffer of 1048577 B, and this target offers 1 MiB at most"
            self.refused(3, offered, *initiator, "-s", "1048577", **TOKEN)
            self.passes(*initiator, "-s", "1MB", **TOKEN)
            self.assertIsNone(process.poll())
        self.refused(2, "--lend", "p2p", "--mode", "target", "--port", 0, "--lend", "much", **TOKEN)

    def test_a_target_that_is_killed_is_a_lost_peer(self):
        with target() as (process, port):
            initiator = subprocess.Popen([tool.WEFT, "p2p", "--mode", "initiator", "--port", port, "-s", "1MB", "-n",
                                          "100000000"], env=tool.environment(**TOKEN), text=True,
                                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            try:
                while not target_is_at_work(process.pid):
                    self.assertIsNone(initiator.poll())
                process.send_signal(signal.SIGKILL)
                _, errors = initiator.communicate(timeout=tool.TIMEOUT_S)
            finally:
                initiator.kill()
            self.assertEqual(initiator.returncode, 5, errors)

    def test_an_initiator_that_is_killed_ends_the_target(self):
        with target() as (process, port):
            initiator = subprocess.Popen([tool.WEFT, "p2p", "--mode", "initiator", "--port", port, "-s", "1MB", "-n",
                                          "100000000"], env=tool.environment(**TOKEN), stdin=subprocess.DEVNULL,
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                while not target_is_at_work(process.pid):
                    self.assertIsNone(initiator.poll())
                initiator.kill()
                self.assertEqual(process.wait(timeout=tool.TIMEOUT_S), 5)
            finally:
                initiator.kill()
                initiator.wait()


def target_is_at_work(pid):
    """Whether the target has made the buffer that the initiator asked for."""
    with open(f"/proc/{pid}/maps", encoding="ascii", errors="replace") as maps:
        for line in maps:
            begin, end = (int(part, 16) for part in line.split()[0].split("-"))
            if "/memfd:weft (" in line and end - begin >= 16 << 20:
                return True
    return False


if __name__ == "__main__":
    unittest.main()
