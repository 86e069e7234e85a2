#!/usr/bin/env python3
"""weft doctor reports its findings, also by its exit status, and answers another doctor."""
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import unittest

import tool

CHECKS = ("driver gpus nics rdma loopback mtu memlock huge-pages shm files cma io-uring pidfd futex libraries ucx "
          "libfabric").split()


class Listener:
    """weft doctor --listen 0, with its port."""

    def __init__(self, port=0, **more):
        self.process = subprocess.Popen([tool.WEFT, "doctor", "--listen", str(port)], env=tool.environment(**more),
                                        stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        self.port = int(self.process.stdout.readline())
        self.command = self.process.stdout.readline()
        self.token = re.search(r"WEFT_TOKEN=(\S+) weft doctor --peer \S+:" + str(self.port), self.command)[1]

    def end(self, by=signal.SIGTERM):
        self.process.send_signal(by)
        status = self.process.wait(tool.TIMEOUT_S)
        self.process.stdout.close()
        return status


class Doctor(tool.ToolTest):
    def examine(self, *arguments, **more):
        """The findings, after a look at whether the exit status fits them."""
        result = tool.weft("doctor", "--json", *arguments, **more)
        self.assertEqual(result.stderr, "")
        report = json.loads(result.stdout)
        problems = [row for row in report["findings"] if row["grade"] == "problem"]
        self.assertEqual(result.returncode, 3 if problems else 0)
        self.assertEqual((report["problems"], report["ok"]), (len(problems), not problems))
        return report["findings"]

    def grades(self, check, *arguments, **more):
        return [row["grade"] for row in self.examine(*arguments, **more) if row["check"] == check]

    def test_every_check_of_the_host_says_something(self):
        findings = self.examine()
        for check in CHECKS:
            self.assertIn(check, [row["check"] for row in findings])
        for row in findings:
            self.assertIn(row["grade"], ("ok", "note", "problem"))
            self.assertTrue(row["found"])
            self.assertTrue(row["grade"] == "ok" or row["means"], row)

    def test_a_host_whose_loopback_is_down(self):
        def alone(*arguments):
            return subprocess.run(["unshare", "--map-root-user", "--net", tool.WEFT, *arguments], text=True,
                                  env=tool.environment(), capture_output=True, timeout=tool.TIMEOUT_S, check=False)
        result = alone("doctor", "--json")
        if result.stderr.startswith("unshare:"):
            self.skipTest(f"no network of its own: {result.stderr.strip()}")
        self.assertEqual(result.returncode, 3)
        [found] = [row for row in json.loads(result.stdout)["findings"] if row["check"] == "loopback"]
        self.assertEqual((found["grade"], found["fix"]), ("problem", "run 'ip link set dev lo up'"))
        with tempfile.TemporaryDirectory() as folder:
            result = alone("elastic", "--run-dir", f"{folder}/run")
        self.assertEqual(result.returncode, 3)
        self.assertIn("; no interface that is up leads there ('ip link' shows them)\n", result.stderr)
        result = alone("bench", "ep", "--ranks", "2")
        self.assertEqual(result.returncode, 3)
        self.assertRegex(result.stderr, r"^weft bench ep: the store \S+, where the workers should meet, does not answer"
                         r": .*; no interface that is up leads there")

    def test_text_has_what_json_has(self):
        findings = self.examine()
        result = tool.weft("doctor")
        words = " ".join(result.stdout.split())
        for row in findings:
            if not any(character.isdigit() for character in row["found"]):  # others may have changed
                self.assertIn(" ".join(row["found"].split()), words)
        self.assertNotIn("\033[", result.stdout)
        self.assertIn("\033[", tool.weft("doctor", "--color=always").stdout)

    def test_gpus_and_what_they_cannot_do(self):
        fake = {"WEFT_CUDA_PLUGIN": os.environ["WEFT_FAKE_GPUS"], "FAKE_GPUS": "3"}
        for cannot, check, expected in (("", "gpus", ["ok"] * 3), ("", "peer-access", ["ok"]),
                                        ("windows", "gpus", ["note"] * 3), ("describe", "gpus", ["problem"] * 3),
                                        ("peer", "peer-access", ["problem"])):
            self.assertEqual(self.grades(check, FAKE_GPUS_CANNOT=cannot, **fake), expected, cannot)

    def test_a_peer_is_asked_and_asks_back(self):
        listener = Listener()
        self.addCleanup(lambda: listener.process.poll() is None and listener.process.kill())
        peer = ("--peer", f"127.0.0.1:{listener.port}")
        found = {row["check"]: row["grade"] for row in self.examine(*peer, WEFT_TOKEN=listener.token)}
        self.assertEqual([found[check] for check in ("peer", "peer-back", "peer-mtu")], ["ok"] * 3)
        for stranger in ("weft-doctor", listener.token[:-1]):
            found = {row["check"]: row["grade"] for row in self.examine(*peer, WEFT_TOKEN=stranger)}
            self.assertEqual((found["peer"], "peer-back" in found), ("problem", False))
        self.assertEqual(listener.end(), 0)
        self.assertEqual(self.grades("peer", *peer, WEFT_TOKEN=listener.token), ["problem"])

    def test_a_peer_that_does_not_listen_yet_is_waited_for(self):
        port = tool.free_port()
        early = subprocess.Popen([tool.WEFT, "doctor", "--json", "--peer", f"127.0.0.1:{port}", "--startup-timeout",
                                  str(tool.TIMEOUT_S)], env=tool.environment(WEFT_TOKEN="a word"),
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        self.addCleanup(lambda: early.poll() is None and early.kill())
        self.assertIn(f"waiting for another weft doctor at 127.0.0.1:{port}", early.stderr.readline())
        late = Listener(port, WEFT_TOKEN="a word")
        out, _ = early.communicate(timeout=tool.TIMEOUT_S)
        found = {row["check"]: row["grade"] for row in json.loads(out)["findings"]}
        self.assertEqual([found[check] for check in ("peer", "peer-back")], ["ok"] * 2)
        self.assertEqual(late.end(), 0)
        result = tool.weft("doctor", "--peer", f"127.0.0.1:{port}", "--startup-timeout", 1, WEFT_TOKEN="a word")
        self.assertEqual(result.returncode, 3)

    def test_each_listener_makes_a_token_unless_one_is_given(self):
        first, second = Listener(), Listener()
        self.assertRegex(first.token, "^[0-9a-f]{32}$")
        self.assertNotEqual(first.token, second.token)
        third = Listener(WEFT_TOKEN="a word of its own")
        self.assertNotIn("a word", third.command)  # who gave it knows it
        for one in (first, second, third):
            self.assertEqual(one.end(), 0)

    def test_a_token_is_not_written_to_a_file_that_others_read(self):
        with tempfile.TemporaryFile() as log:
            os.fchmod(log.fileno(), 0o644)
            done = subprocess.run([tool.WEFT, "doctor", "--listen", "0"], env=tool.environment(), check=False,
                                  stdout=log, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                  timeout=tool.TIMEOUT_S)
            self.assertEqual((done.returncode, log.tell()), (2, 0), done.stderr)
            self.assertIn("standard output is a file that other users may read", done.stderr)

    def test_a_peer_that_is_no_doctor_costs_a_deadline(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            peer = f"127.0.0.1:{server.getsockname()[1]}"
            self.assertEqual(self.grades("peer", "--peer", peer, "--timeout-ms", 2000, WEFT_TOKEN="some"), ["problem"])

    def test_an_etcd_is_asked_without_the_token_of_the_peer(self):
        """Which does not go over plain HTTP, nor beside a user: nobody answers, and that is all that is found."""
        peer = ("--peer", "127.0.0.1:1", "--timeout-ms", 500)
        for store in (("--store", "http://nobody.invalid:2379"),
                      ("--store", "https://127.0.0.1:1", "--user", "me", "--password", "it")):
            found, = [row["found"] for row in self.examine(*peer, *store, WEFT_TOKEN="some") if row["check"] == "store"]
            self.assertNotIn("token", found)

    def test_the_store_is_asked(self):
        store = subprocess.Popen([tool.WEFT, "serve", "--insecure", "--port", "0"], env=tool.environment(),
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        url = store.stdout.readline().strip()
        self.assertEqual(self.grades("store", "--store", url), ["ok"])
        store.terminate()
        store.wait(tool.TIMEOUT_S)
        store.stdout.close()
        self.assertEqual(self.grades("store", "--store", url), ["problem"])
        self.assertEqual(self.grades("store"), [])

    def test_a_wish_for_a_nic_that_is_not_there_is_a_problem(self):
        if not os.path.exists("/sys/bus/pci"):
            self.skipTest("no PCI bus to look at")
        host = str(tool.SOURCE / "tests/topology/host_4_nics.xml")
        self.assertEqual(self.grades("nics", HWLOC_XMLFILE=host), ["ok"] * 8)
        self.assertEqual(self.grades("nics", HWLOC_XMLFILE=host, WEFT_NICS="mlx5_7"), ["problem"])

    def test_wrong_arguments_are_refused(self):
        self.refused(2, '--listen: "x" is not a port; want 0 to 65535', "doctor", "--listen", "x")
        self.refused(2, '--listen: "65536" is not a port', "doctor", "--listen", "65536")
        self.refused(2, "--listen and --peer are both given", "doctor", "--listen", "0", "--peer", "a")
        self.refused(2, "set WEFT_TOKEN", "doctor", "--peer", "127.0.0.1:1")
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.refused(3, "is in use", "doctor", "--listen", server.getsockname()[1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
