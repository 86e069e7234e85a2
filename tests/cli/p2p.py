#!/usr/bin/env python3
"""weft p2p measures what two processes send each other, checks it, and reports faults."""
import json
import os
import re
import signal
import subprocess
import tempfile
import unittest

import tool
from p2p_sides import TOKEN, busy, initiator, target

WITH_FAKE_GPUS = {"WEFT_CUDA_PLUGIN": os.environ["FAKE_DEVICE"]}


def listening(parent):
    """The addresses, as the kernel writes them, at which a process and its children listen by TCP."""
    with open(f"/proc/{parent}/task/{parent}/children", encoding="ascii") as children:
        pids = [parent, *children.read().split()]
    folders = [f"/proc/{pid}/fd" for pid in pids]
    held = {os.readlink(f"{folder}/{fd}") for folder in folders for fd in os.listdir(folder)}
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        if os.path.exists(table):
            with open(table, encoding="ascii") as lines:
                rows = [line.split() for line in lines][1:]
            found |= {row[1].split(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in held}
    return found


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

    def test_no_other_host_reaches_the_two(self):
        with tool.running(tool.start("p2p", "--csv", "--op", "write", "-s", "8,16MB", "-n", 10000)) as process:
            while not process.stdout.readline().startswith("write,"):  # of 8 bytes: both have opened all that they use
                self.assertIsNone(process.poll())
            self.assertEqual(listening(process.pid) - {"0100007F", "00000000000000000000000001000000"}, set())

    def test_both_ways_at_once(self):
        said = json.loads(self.passes("p2p", "--json", "--op", "write", "-s", "64KB", "--bidirectional", "--depth", 4))
        [one] = said["results"]
        self.assertGreater(one["gb_per_second"], 0)
        self.assertGreater(one["peer_gb_per_second"], 0)
        self.assertEqual(one["at_once"], 4)

    def test_rates_are_of_one_measurement(self):
        for one in json.loads(self.passes("p2p", "--json", "-s", "8,64KB", "-n", 50, "--depth", 3))["results"]:
            self.assertEqual(one["at_once"], 1 if one["operation"] == "notify" else 3)
            if "gb_per_second" in one:
                bytes_per_second = one["per_second"] * one["bytes"]
                self.assertAlmostEqual(one["gb_per_second"] * 1e9 / bytes_per_second, 1, places=3)

    def test_wrong_arguments(self):
        self.refused(2, "is empty", "p2p", "-s", "")
        for sizes in ("0", "4X", "1MB,", "99999999999999999999", "-1", "1.5MB"):
            self.refused(2, "weft p2p: --buffer-sizes: ", "p2p", "-s", sizes)
        self.refused(2, "--json and --csv", "p2p", "--json", "--csv")
        for mode in ("local", "target", "initiator"):
            self.refused(2, "--token: has 5000 bytes; want 1 to 4095", "p2p", "--mode", mode, "--token", "x" * 5000)
        said = self.refused(2, "4096", "p2p", "--op", "notify", "-s", "1MB")
        self.assertNotIn("has left", said)  # the target is no part of what went wrong
        self.refused(2, "4096", *initiator(1, "--op", "notify", "-s", "1MB"), **TOKEN)  # nor is it asked

    def test_options_of_a_side_that_does_not_run_here(self):
        """Alone, `weft p2p --ip HOST` would measure this host, and `--forever` would never end."""
        alone = {"--ip": "127.0.0.1", "--port": 1, "--listen": "127.0.0.1", "--initiators": 2, "--lend": "8"}
        for option, value in alone.items():
            side = " or --mode initiator" if option in ("--ip", "--port") else ""
            says = f"{option} is given, but both sides run in this command: want --mode target{side}\n"
            self.refused(2, says, "p2p", "-s", 8, option, value)
        self.refused(2, "--forever is given, but both sides", "p2p", "-s", 8, "--mode", "local", "--forever")
        self.refused(2, "--ip is given, but --memory file has no other side", "p2p", "--memory", "file", "--path", "x",
                     "--ip", "127.0.0.1")
        for target_only in (("--listen", "127.0.0.1"), ("--forever",), ("--initiators", 2), ("--lend", 8)):
            self.refused(2, f"{target_only[0]} is given, but only a target has it", "p2p", "--mode", "initiator",
                         *target_only, **TOKEN)

    def test_a_long_reason_is_not_cut(self):
        plugin = f"/{'d' * 200}/libweft_cuda.so.0"
        self.refused(3, f"{plugin} (from WEFT_CUDA_PLUGIN): No such file or directory\n", "p2p", "-s", 8,
                     "--transport", "cuda", WEFT_CUDA_PLUGIN=plugin)

    def test_the_help_names_the_kinds_of_memory(self):
        text = " ".join(self.passes("p2p", "--help").split())
        for kind in ("host", "user", "cuda"):
            self.assertIn(f"({kind})", text)

    def test_only_transports_that_can_are_offered(self):
        offered = "want shm, cuda, ucx, ofi\n"
        self.refused(2, f'there is no transport "smoke"; {offered}', "p2p", "--transport", "smoke")
        self.refused(2, f'there is no transport "sh"; {offered}', "p2p", "--transport", "shm,sh")
        for storage in ("file", "object"):
            self.refused(2, f"{storage} does not reach another process; {offered}", "p2p", "--transport", storage)
            self.refused(2, f"shm does not reach {storage}s; want {storage}\n", "p2p", "--memory", storage, "--path",
                         "a/b", "--transport", "shm")

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


class Gpus(tool.ToolTest):
    def measure(self, *arguments, **more):
        return json.loads(self.passes("p2p", "--json", "--cuda", "-s", "8,100001,1MB", "-n", 5, *arguments,
                                      **{**WITH_FAKE_GPUS, **more}))

    def test_tcp_is_a_warning_unless_it_is_named(self):
        call = ["p2p", "--cuda", "-s", "8,64", "-n", 5, "--transport", "ucx"]
        result = tool.weft(*call, **WITH_FAKE_GPUS)
        if result.returncode == 3 and "cuda" not in result.stderr.lower():
            self.skipTest(f"no UCX here: {result.stderr}")
        if "uses: ucx tcp " not in result.stdout:
            self.skipTest(f"UCX does not use TCP here: {result.stdout}")
        self.assertEqual(result.stderr.count("transfers of GPU memory go over TCP: UCX has chosen"), 1, result.stderr)
        self.assertIn("uses: ucx tcp ", self.passes(*call, UCX_TLS="tcp", **WITH_FAKE_GPUS))

    def test_one_for_each_end(self):
        said = self.measure("--gpu_id", 0)
        self.assertEqual(said["memory"], "cuda")
        self.assertEqual((said["initiator_memory"], said["target_memory"]), ("cuda:0", "cuda:1"))
        self.assertIs(said["same_gpu"], False)
        moved = [one for one in said["results"] if one["operation"] != "notify"]
        self.assertEqual({(one["transport"], one["checked"]) for one in moved}, {("cuda", True)})
        self.assertEqual(self.measure("--gpu-id", 1)["target_memory"], "cuda:0")

    def test_one_gpu_for_both_ends_is_named(self):
        said = self.measure("--target-gpu-id", 0)
        self.assertEqual((said["initiator_memory"], said["target_memory"]), ("cuda:0", "cuda:0"))
        self.assertIs(said["same_gpu"], True)
        self.assertEqual([one for one in said["results"] if "refused" in one], [])
        text = self.passes("p2p", "--cuda", "-s", 8, "-n", 5, "--target-gpu-id", 0, **WITH_FAKE_GPUS)
        self.assertEqual(text.splitlines()[0],
                         "both ends are on GPU 0: copies within the memory of one GPU, without a link")
        text = self.passes("p2p", "--cuda", "-s", 8, "-n", 5, **WITH_FAKE_GPUS)
        self.assertEqual(text.splitlines()[0], "initiator: cuda:0, target: cuda:1")

    def test_one_gpu_where_two_were_meant_has_no_rates(self):
        for more in ({"FAKE_PCI": "0"}, {"FAKE_APART": "1"}):
            run = tool.weft("p2p", "--json", "--cuda", "-s", "8,1MB", "-n", 5, **{**WITH_FAKE_GPUS, **more})
            self.assertEqual(run.returncode, 1, run.stderr)
            self.assertIn("--target-gpu-id", run.stderr)
            said = json.loads(run.stdout)
            self.assertIs(said["same_gpu"], True)
            for one in said["results"]:
                moves = one["operation"] != "notify"
                self.assertIs("both ends are on one GPU" in one.get("refused", ""), moves)
                self.assertIs("gb_per_second" in one or "per_second" in one, not moves)
        run = tool.weft("p2p", "--cuda", "-s", 8, "-n", 5, "--op", "write", **{**WITH_FAKE_GPUS, "FAKE_PCI": "0"})
        self.assertIn("refused", run.stdout.splitlines()[3])

    def test_two_sides_know_that_they_share_a_gpu(self):
        with target("--forever", "--cuda", **WITH_FAKE_GPUS) as (_, port):
            for gpu, same in ((0, True), (1, False)):
                said = json.loads(self.passes(*initiator(port, "--cuda", "--gpu-id", gpu, "-s", 8, "-n", 5, "--json"),
                                              **TOKEN, **WITH_FAKE_GPUS))
                self.assertIs(said["same_gpu"], same)

    def test_a_host_without_gpus_says_so_at_once(self):
        none = {**TOKEN, "WEFT_CUDA_PLUGIN": "/nowhere/plugin.so"}
        for cuda in (("--cuda",), ("--memory", "cuda")):
            self.refused(3, "CUDA plug-in", "p2p", *cuda, **none)
            self.refused(3, "CUDA plug-in", "p2p", "--mode", "target", "--port", 0, *cuda, **none)
            self.refused(3, "CUDA plug-in", *initiator(1, *cuda), **none)  # and not that nobody listens there
        for option in ("--gpu-id", "--target-gpu-id"):
            self.refused(3, f"{option} 2: this host has 2 GPUs", "p2p", "--cuda", option, 2, **WITH_FAKE_GPUS)

    def test_contradictions(self):
        for memory in ("host", "user", "file"):
            self.refused(2, f"--cuda and --memory {memory}", "p2p", "--cuda", "--memory", memory, "--path", "a")
        self.passes("p2p", "--cuda", "--memory", "cuda", "-s", 8, "-n", 5, **WITH_FAKE_GPUS)
        self.refused(2, "--gpu-id is given, but --memory is host: want --cuda", "p2p", "--gpu-id", 1)
        wrong = initiator(1, "--memory", "user", "--gpu-id", 0)
        self.refused(2, "--gpu-id is given, but --memory is user: want --cuda", *wrong, **TOKEN)
        self.refused(2, "--target-gpu-id", "p2p", "--target-gpu-id", 1)
        self.refused(2, "--target-gpu-id", "p2p", "--mode", "target", "--cuda", "--target-gpu-id", 1)


class TwoSides(tool.ToolTest):
    def test_options_of_the_guides(self):
        with target("--memory", "user") as (process, port):
            said = json.loads(self.passes("p2p", "--mode", "initiator", "--ip", "127.0.0.1", "--port", port,
                                          "--buffer_sizes", "1KB,1MB", "--iterations", 10, "--warmup", 2, "--json",
                                          **TOKEN))
            self.assertEqual({one["bytes"] for one in said["results"]}, {1024, 1 << 20})
            self.assertEqual(process.wait(timeout=tool.TIMEOUT_S), 0)

    def test_nobody_is_there(self):
        arguments = ("p2p", "--mode", "initiator", "--port", 1, "--timeout-ms", 2000)
        self.refused(3, "127.0.0.1:1", *arguments, **TOKEN)
        result = tool.weft(*arguments, "--json", **TOKEN)  # a document all the same, for whoever reads one
        said = json.loads(result.stdout)
        self.assertEqual((result.returncode, said["complete"], said["results"]), (3, False, []))

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
        self.refused(2, "needs the token", "p2p", "--mode", "initiator", "--port", 1)

    def test_a_token_is_not_written_to_a_file_that_others_read(self):
        with tempfile.TemporaryFile() as log:
            for mode, status in ((0o644, 2), (0o600, 124)):
                os.fchmod(log.fileno(), mode)
                done = subprocess.run([tool.WEFT, "p2p", "--mode", "target", "--port", "0", "--timeout-ms", "50"],
                                      env=tool.environment(), check=False, stdout=log, stdin=subprocess.DEVNULL,
                                      stderr=subprocess.PIPE, text=True, timeout=tool.TIMEOUT_S)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertEqual("is a file that other users may read" in done.stderr, status == 2, done.stderr)
                log.seek(0)
                self.assertEqual(b"WEFT_TOKEN=" in log.read(), status == 124)

    def test_no_more_is_lent_than_was_said(self):
        with target("--forever", "--lend", "1MB") as (process, port):
            initiator = ("p2p", "--mode", "initiator", "--port", port, "-n", 5, "--depth", 1)
            offered = "a buffer of 1048577 B, but this target offers at most 1 MiB"
            self.refused(3, offered, *initiator, "-s", "1048577", **TOKEN)
            self.passes(*initiator, "-s", "1MB", **TOKEN)
            self.assertIsNone(process.poll())
        self.refused(2, "--lend", "p2p", "--mode", "target", "--port", 0, "--lend", "much", **TOKEN)

    def test_a_target_says_what_it_has_refused(self):
        """Rather than that the initiator has gone, which it does because it was refused."""
        with target("--lend", "1MB") as (process, port):
            self.refused(3, "at the peer: the initiator requests", *initiator(port, "-s", "2MB"), **TOKEN)
            _, errors = process.communicate(timeout=tool.TIMEOUT_S)
            self.assertEqual(process.returncode, 3)
            self.assertRegex(errors, r"^weft p2p: the initiator requests a buffer of .* at most 1 MiB \(--lend\)\n$")

    def test_a_target_that_is_killed_is_a_lost_peer(self):
        with target() as (process, port), busy(process, port) as first:
            process.send_signal(signal.SIGKILL)
            _, errors = first.communicate(timeout=tool.TIMEOUT_S)
            self.assertEqual(first.returncode, 5, errors)

    def test_the_reason_of_an_end_is_not_lost_while_files_are_written(self):
        with tempfile.TemporaryDirectory() as outer, target() as (process, port):
            folder = f"{outer}/folder"
            os.mkdir(folder)
            more = ("--csv", "--op", "write", "-s", "8,16MB", "-n", 10000, "--prometheus", f"{folder}/p2p.prom")
            with tool.running(tool.start(*initiator(port, *more), **TOKEN)) as first:
                while not first.stdout.readline().startswith("write,"):
                    self.assertIsNone(first.poll())
                os.rmdir(folder)
                process.send_signal(signal.SIGKILL)  # within the second size, which takes long
                _, errors = first.communicate(timeout=tool.TIMEOUT_S)
            self.assertEqual(first.returncode, 5, errors)
            self.assertRegex(errors, f"^weft p2p: {folder}/p2p.prom: .*\nweft p2p: .*p2p-target-[0-9a-f]{{16}} .*\n$")

    def test_an_initiator_that_is_killed_ends_the_target(self):
        with target() as (process, port), busy(process, port) as first:
            first.kill()
            self.assertEqual(process.wait(timeout=tool.TIMEOUT_S), 5)


if __name__ == "__main__":
    unittest.main()
