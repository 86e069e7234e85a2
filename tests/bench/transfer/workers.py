#!/usr/bin/env python3
"""Workers of weft bench transfer: schemes, checks, stores, and how a run ends."""
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import unittest

import bench
import serving
import tool

CHECKED = (*bench.SMALL, "--check_consistency")
MANY = 300000 if "WEFT_TEST_SLOWED" in os.environ else 1000000
LONG = ("--backend", "SHM", "--start_block_size", 4096, "--max_block_size", 8192, "--num_iter", 8000000)


class Schemes(bench.BenchTest):
    """Four workers at most, on whatever processors there are, so that a row may be refused."""

    def check(self, *arguments):
        for op in ("WRITE", "READ"):
            said = self.figures(*CHECKED, "--op_type", op, *arguments, statuses=(0, bench.HELD_UP))
            self.assertEqual((said["complete"], len(said["rows"])), (True, 2), said)
        return said

    def test_schemes(self):
        for scheme, initiators, targets in (("pairwise", 2, 2), ("manytoone", 3, 1), ("onetomany", 1, 3), ("tp", 1, 3),
                                            ("tp", 2, 1)):
            said = self.check("--scheme", scheme, "--num_initiator_dev", initiators, "--num_target_dev", targets)
            self.assertEqual({row["keys"]["workers"] for row in said["rows"]}, {initiators + targets})
            self.assertEqual({(row["keys"]["initiators"], row["keys"]["targets"]) for row in said["rows"]},
                             {(initiators, targets)})

    def test_initiators_count_alike(self):
        said = self.figures("--backend", "SHM", "--scheme", "manytoone", "--num_initiator_dev", 2, "--start_block_size",
                            64, "--max_block_size", 64, "--num_iter", 20000, statuses=(0, bench.HELD_UP))
        counts = {figure["name"]: figure["count"] for figure in said["rows"][0]["figures"]}
        self.assertEqual(counts["latency"], 2 * 4096)
        one = self.figures("--backend", "SHM", "--start_block_size", 64, "--max_block_size", 64, "--num_iter", 20000)
        counts = {figure["name"]: figure["count"] for figure in one["rows"][0]["figures"]}
        self.assertEqual(counts["latency"], 20000)

    def test_the_longest_of_several_initiators_is_that_of_all_requests(self):
        """One of a million, which waits for its stopped process, is hardly ever among the some thousand chosen."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        saved = pathlib.Path(folder.name, "figures.json")
        with bench.running("--backend", "SHM", "--scheme", "manytoone", "--num_initiator_dev", 2, "--start_block_size",
                           65536, "--max_block_size", 65536, "--num_iter", MANY, "--json", saved) as process:
            self.assertIn("Block Size", next(line for line in process.stdout if line.startswith("Block Size")))
            children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            time.sleep(0.3)  # into the row
            for stop in (signal.SIGSTOP, signal.SIGCONT):
                for child in children:
                    os.kill(int(child), stop)
                time.sleep(0.5)
            _, errors = process.communicate(timeout=tool.TIMEOUT_S)
        self.assertIn(process.returncode, (0, bench.HELD_UP), errors)
        figures = json.loads(saved.read_text())["rows"][0]["figures"]
        latency = next(one for one in figures if one["name"] == "latency")
        self.assertGreater(latency["max"], 400000)
        self.assertLess(latency["p999"], 400000)

    def test_one_process_with_many_devices(self):
        said = self.check("--mode", "MG", "--num_initiator_dev", 2, "--num_target_dev", 2)
        self.assertEqual([(row["keys"]["workers"], row["keys"]["initiators"]) for row in said["rows"]], [(2, 2)] * 2)

    def test_threads_batches_and_pipelines(self):
        self.check("--num_threads", 2, "--pipeline_depth", 3, "--start_batch_size", 2, "--max_batch_size", 2)
        self.check("--pipeline_depth", 200)  # more than there are iterations

    def test_requests_and_memory_made_anew(self):
        self.check("--recreate_xfer")
        self.check("--recreate_xfer", "--prepared_xfer", "--pipeline_depth", 4)
        self.check("--reregister_mem")
        self.check("--reregister_mem", "--scheme", "onetomany", "--num_target_dev", 2)
        self.check("--reregister_mem", "--mode", "MG", "--num_initiator_dev", 2, "--num_target_dev", 2)

    def test_memory_of_devices(self):
        fake = {"WEFT_CUDA_PLUGIN": os.environ["FAKE_DEVICE"]}
        for op in ("WRITE", "READ"):
            said = self.figures("--backend", "CUDA", *CHECKED[2:], "--op_type", op,
                                "--initiator_seg_type", "VRAM", "--target_seg_type", "VRAM", statuses=(0, 1), **fake)
            self.assertEqual([(row["keys"]["initiator_memory"], row["keys"]["target_memory"], row["keys"]["transport"])
                              for row in said["rows"]], [("cuda:0", "cuda:1", "cuda")] * 2)
        one = self.figures("--backend", "CUDA", *CHECKED[2:], "--enable_vmm", "--scheme", "onetomany",
                           "--num_target_dev", 2, "--initiator_seg_type", "VRAM", "--target_seg_type", "VRAM",
                           statuses=(1,), **fake)  # three workers, two devices: two of them are on one
        self.assertIn("one GPU", one["rows"][0]["refused"])

    def test_sizes_that_are_no_powers(self):
        self.check("--start_block_size", 1, "--max_block_size", 2)
        self.check("--start_block_size", 1001, "--max_block_size", 3000, "--max_batch_size", 1, "--num_threads", 2)

    def test_a_spoilt_byte_is_found(self):
        for op, who in (("WRITE", "what rank 0 has written to rank 1"), ("READ", "what rank 0 has read")):
            result = tool.weft("bench", "transfer", *CHECKED, "--op_type", op, "--transport", "fault:1:spoil=100:shm")
            self.assertEqual(result.returncode, 4, result.stderr)
            self.assertIn(who, result.stderr)
            self.assertIn("1 of 4096 bytes of a block are wrong, the first of them byte 2048", result.stderr)
            tool.weft("bench", "transfer", *bench.SMALL, "--op_type", op, "--transport", "fault:1:spoil=100:shm")


class Bounds(bench.BenchTest):
    """A bound is of a route; a figure is of all pairs."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.at = pathlib.Path(folder.name)
        self.kept = {"XDG_CACHE_HOME": str(self.at / "cache")}

    def keep(self, **facts):
        """What is measured of this host, and a bound besides."""
        tool.weft("bench", "limits", "--seconds", 1, **self.kept)
        [path] = (self.at / "cache" / "weft").glob("limits-*.json")
        document = json.loads(path.read_text())
        document["entries"] = [one for one in document["entries"] if one["kind"] not in ("nic", facts["kind"])]
        document["entries"].append({"name": "of this test", "device": "", "other": "", "processors": 0, "bytes": 0,
                                    "measured": True, "detail": "made up", **facts})
        path.write_text(json.dumps(document))

    @staticmethod
    def bound_of(said):
        [figure] = [one for one in said["rows"][0]["figures"] if one["name"] == "bandwidth"]
        return figure["bound_name"], figure["bound"]

    def meet(self, backend, *workers):
        """The bound where each of them seems to be a machine, by its boot id, and of a name."""
        probe = subprocess.run(["unshare", "-mu", "true"], capture_output=True)
        if os.geteuid() != 0 or probe.returncode != 0:
            self.skipTest("needs root and namespaces")
        address, half = f"127.0.0.1:{bench.free_port()}", len(workers) // 2
        same = [tool.WEFT, "bench", "transfer", "--backend", backend, *bench.SMALL[2:], "--num_initiator_dev", half,
                "--num_target_dev", half, "--json", self.at / "out.json", "--quiet"]
        env = tool.environment(**self.kept, **bench.TOKEN)
        with contextlib.ExitStack() as stack:
            running = []
            for place, (machine, name) in enumerate(workers):
                boot = self.at / f"boot{machine}"
                boot.write_text(f"1111111{machine}-2222-3333-4444-555555555555\n")
                more = ["--rank_server", address] if place else ["--local_workers", 1, "--listen", "127.0.0.1",
                                                                 "--store_port", address.split(":")[1]]
                command = ["unshare", "-mu", "sh", "-c", f"hostname {name} && mount --bind {boot} "
                           "/proc/sys/kernel/random/boot_id && exec \"$@\"", "sh", *same, *more]
                running.append(stack.enter_context(tool.running(subprocess.Popen(
                    list(map(str, command)), env=env, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE))))
            said = [worker.communicate(timeout=tool.TIMEOUT_S) for worker in running]
        if any(words in errors for _, errors in said for words in ("cannot be reached", "no transport")):
            self.skipTest("no transport to other hosts here")
        for worker, (_, errors) in zip(running, said):
            self.assertIn(worker.returncode, (0, bench.HELD_UP), errors)
        return self.bound_of(json.loads((self.at / "out.json").read_text()))

    def test_machines_are_distinguished_by_their_boot(self):
        self.keep(kind="nic", device="eth9", gbps=1000)
        self.assertEqual(self.meet("LIBFABRIC", (0, "one"), (1, "one")), ("of this test", 1000))
        self.assertNotIn("of this test", self.meet("SHM", (0, "one"), (0, "other")))  # two containers

    def test_each_of_several_machines_has_its_nics(self):
        self.keep(kind="nic", device="eth9", gbps=1000)
        self.assertEqual(self.meet("LIBFABRIC", *((machine, "one") for machine in range(4))), ("of this test", 2000))

    def test_each_of_several_gpus_has_its_link(self):
        if "WEFT_TEST_SLOWED" in os.environ:
            self.skipTest("the limits of several GPUs take a minute here")
        fake = {"WEFT_CUDA_PLUGIN": os.environ["FAKE_DEVICE"], **self.kept,
                "FAKE_PCI": ",".join(f"0000:0{gpu}:00.0" for gpu in range(1, 5))}
        tool.weft("bench", "limits", "--seconds", 1, **fake)
        bounds = [self.bound_of(self.figures(
            "--backend", "CUDA", *bench.SMALL[2:], "--mode", "MG", "--num_initiator_dev", pairs, "--num_target_dev",
            pairs, "--initiator_seg_type", "VRAM", "--target_seg_type", "VRAM", statuses=(0, bench.HELD_UP), **fake))
            for pairs in (1, 2)]
        kept = json.loads(next((self.at / "cache" / "weft").glob("limits-*.json")).read_text())["entries"]
        links = {one["name"]: one["gbps"] for one in kept if one["kind"] == "gpu link"}
        self.assertEqual([round(bound / links[name], 3) for name, bound in bounds], [1, 2])


class Stores(bench.BenchTest):
    def passes_with(self, lines, command="transfer", **more):
        said = bench.together(*lines, command=command, **more)
        for status, _, errors in said:
            self.assertEqual((status, errors), (0, ""))
        reports = [text for _, text, _ in said if text]
        self.assertEqual(len(reports), 1)  # rank 0's
        self.assertEqual([row[0] for row in bench.table(reports[0])[1]], [4096, 8192])

    def test_etcd(self):
        with bench.etcd() as url:
            self.passes_with([("-etcd_endpoints", url, *CHECKED)] * 2, command="nixlbench")
            self.assertEqual(bench.keys(url), 0)

    def test_a_store_of_our_own(self):
        with tempfile.TemporaryDirectory() as folder:
            server = serving.Server("--write-token", os.path.join(folder, "token"))
            try:
                self.passes_with([("--store", server.url, *CHECKED)] * 2, WEFT_TOKEN=server.token)
            finally:
                server.process.kill()
                server.process.communicate()

    def test_the_store_of_the_first_worker(self):
        port = bench.free_port()
        first = ("--local_workers", 1, "--listen", "127.0.0.1", "--store_port", port, "--quiet", *CHECKED)
        second = ("--rank_server", f"127.0.0.1:{port}", "--quiet", *CHECKED)  # it may have to wait for the store
        self.passes_with([first, second], **bench.TOKEN)

    def test_all_exit_as_the_one_that_reports(self):
        """Three workers on two devices: a row with both ends on one of them is refused, and each worker says so."""
        port, small = bench.free_port(), ("--backend", "CUDA", *CHECKED[2:], "--scheme", "onetomany",
                                          "--num_target_dev", 2, "--initiator_seg_type", "VRAM", "--target_seg_type",
                                          "VRAM", "--quiet")
        first = ("--local_workers", 1, "--listen", "127.0.0.1", "--store_port", port, *small)
        second = ("--local_workers", 2, "--rank_server", f"127.0.0.1:{port}", *small)
        said = bench.together(first, second, WEFT_CUDA_PLUGIN=os.environ["FAKE_DEVICE"], **bench.TOKEN)
        self.assertEqual([status for status, _, _ in said], [1, 1], said)
        self.assertEqual(said[1][1], "")
        self.assertRegex(said[1][2], "^weft bench transfer: rank 0, which reports, has refused figures: .*one GPU")

    def test_asio(self):
        line = ("-runtime_type", "ASIO", "-asio_port", bench.free_port(), *CHECKED)
        self.passes_with([line] * 2, command="nixlbench")

    def test_other_settings(self):
        with bench.etcd() as url:
            said = bench.together(("--store", url, *bench.SMALL), ("--store", url, *bench.SMALL, "--op_type", "READ"))
            for status, _, errors in said:
                self.assertEqual(status, 2, errors)
                self.assertIn("op_type is", errors)
            self.assertEqual(bench.keys(url), 0)

    def test_nobody_comes(self):
        with bench.etcd() as url:
            self.wrong(124, "1 of 2 workers joined", "--store", url, *bench.SMALL, "--startup_timeout", 1)
            self.assertEqual(bench.keys(url), 0)


class Ends(bench.BenchTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.json = pathlib.Path(folder.name, "figures.json")

    def wait_for_rows(self, process):
        """Until the first row is there: then the next one is under way."""
        for line in process.stdout:
            if line[:1].isdigit():
                return
        self.fail(process.stderr.read())

    def wait_for_words(self, process):
        """Until it says how to start the workers that do not come: it has its own, and watches for signals."""
        self.assertTrue(any("start the others" in line for line in process.stderr))

    def test_ctrl_c_keeps_what_was_measured(self):
        with bench.running("--backend", "SHM", "--start_block_size", 4096, "--max_block_size", 65536, "--num_iter",
                           200000, "--json", self.json) as process:
            self.wait_for_rows(process)
            process.send_signal(signal.SIGINT)
            text, errors = process.communicate(timeout=tool.TIMEOUT_S)
        self.assertEqual(process.returncode, 130, errors)
        self.assertIn("interrupted by SIGINT", errors)
        self.assertIn("p99.9", text)
        said = json.loads(self.json.read_text())
        self.assertEqual((said["complete"], said["passed"], said["cut_short"], said["rows"][0]["keys"]["bytes"]),
                         (False, False, "SIGINT", 4096))

    def test_targets_wait_until_initiators_are_warm(self):
        """Each request of a warm-up has --timeout-ms, and there are many of them."""
        many = 8000 if "WEFT_TEST_SLOWED" in os.environ else 64000
        self.bench("--backend", "SHM", "--start_block_size", 1 << 20, "--max_block_size", 1 << 20, "--num_iter", 16,
                   "--warmup_iter", many, "--timeout-ms", 1000)

    def test_a_process_that_is_killed_before_all_have_come_is_reported(self):
        with bench.running("--backend", "SHM", "--scheme", "manytoone", "--num_initiator_dev", 2, "--local_workers", 2,
                           "--listen", "127.0.0.1", "--store_port", bench.free_port(), "--startup_timeout", 3600,
                           **bench.TOKEN) as process:
            self.wait_for_words(process)
            [child] = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            os.kill(int(child), signal.SIGSTOP)  # before it has a rank; whenever it is, the run ends
            time.sleep(0.5)
            os.kill(int(child), signal.SIGKILL)
            _, errors = process.communicate(timeout=tool.TIMEOUT_S)
        self.assertEqual(process.returncode, 5, errors)
        self.assertRegex(errors, "worker process 0 of this host (was ended by signal 9|has ended)|rank 1 on .* is lost")

    def test_it_does_not_wait_for_those_that_it_started(self):
        """A signal that only this process gets, while it and another one wait for a third."""
        with bench.running("--backend", "SHM", "--scheme", "manytoone", "--num_initiator_dev", 2, "--local_workers", 2,
                           "--listen", "127.0.0.1", "--store_port", bench.free_port(), **bench.TOKEN) as process:
            self.wait_for_words(process)
            time.sleep(0.5)  # until both wait; whenever it is, the end has to be the same
            process.terminate()
            began = time.monotonic()
            _, errors = process.communicate(timeout=tool.TIMEOUT_S)
            self.assertLess(time.monotonic() - began, 4.5, errors)
        self.assertEqual(process.returncode, 143, errors)

    def test_a_killed_worker_is_named(self):
        with bench.etcd() as url:
            with bench.running("--store", url, *LONG) as one, bench.running("--store", url, *LONG) as other:
                while bench.keys(url) < 3:  # both have come
                    self.assertEqual((one.poll(), other.poll()), (None, None))
                time.sleep(0.2)  # into the row; whenever it is, the end has to be the same
                other.kill()
                began = time.monotonic()
                _, errors = one.communicate(timeout=tool.TIMEOUT_S)
                self.assertLess(time.monotonic() - began, tool.TIMEOUT_S / 2)
                self.assertEqual(one.returncode, 5, errors)
                self.assertRegex(errors, r"rank [01] on \S+ .*process \d+")
            deadline = time.monotonic() + tool.TIMEOUT_S
            while bench.keys(url) > 0:
                self.assertLess(time.monotonic(), deadline)

    def test_a_killed_worker_is_named_when_the_store_dies_with_it(self):
        at = f"127.0.0.1:{bench.free_port()}"
        first = ("--local_workers", 1, "--listen", "127.0.0.1", "--store_port", at.split(":")[1], "--quiet", *LONG)
        with bench.running(*first, **bench.TOKEN) as one, \
             bench.running("--rank_server", at, *LONG, **bench.TOKEN) as other:
            self.assertIn("Block Size", next(line for line in one.stdout if line.startswith("Block Size")))
            one.kill()
            _, errors = other.communicate(timeout=tool.TIMEOUT_S)
        self.assertEqual(other.returncode, 5, errors)
        self.assertRegex(errors, r"rank 0 on \S+ .*process \d+")

    def test_a_killed_process_of_this_host_is_named(self):
        with bench.running(*LONG) as process:
            children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
            while not children.read_text().split():
                self.assertIsNone(process.poll())
            self.assertIn("Block Size", next(line for line in process.stdout if line.startswith("Block Size")))
            os.kill(int(children.read_text().split()[0]), signal.SIGKILL)
            _, errors = process.communicate(timeout=tool.TIMEOUT_S)
        self.assertEqual(process.returncode, 5, errors)
        self.assertRegex(errors, r"rank 1 on ")

    def test_a_disk_that_is_full(self):
        result = tool.weft("bench", "transfer", *bench.SMALL, "--csv", "/dev/full")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertTrue(re.search(r"/dev/full.*No space left", result.stderr), result.stderr)
        self.assertEqual(len(bench.table(result.stdout)[1]), 2)  # what was measured is not lost

    def test_a_folder_that_is_not_there(self):
        """Nothing is measured then, so nothing is saved elsewhere."""
        with tempfile.TemporaryDirectory() as folder:
            for option in ("--json", "--csv", "--html", "--prometheus"):
                result = tool.weft("bench", "transfer", *bench.SMALL, option, "/nonexistent/it", TMPDIR=folder)
                self.assertEqual(result.returncode, 3, result.stderr)
                self.assertRegex(result.stderr, r"/nonexistent/it(: cannot create it)?: No such file")  # as given
            self.assertEqual(os.listdir(folder), [])


if __name__ == "__main__":
    unittest.main()
