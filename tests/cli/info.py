#!/usr/bin/env python3
"""weft info shows settings and their sources, shows no secrets, and describes the host."""
import json
import os
import resource
import socket
import tempfile
import unittest

import tool


class Info(tool.ToolTest):
    def info(self, **more):
        return json.loads(self.passes("info", "--json", **more))

    def info_that_warns(self, **more):
        return json.loads(self.warns("weft: WEFT_", "info", "--json", **more))

    def option(self, name, command="elastic", wrong=False, **more):
        info = self.info_that_warns(**more) if wrong else self.info(**more)
        rows = [row for row in info["options"] if (row["command"], row["option"]) == (command, name)]
        self.assertEqual(len(rows), 1)
        return rows[0]

    def test_version_and_build_are_reported(self):
        info = self.info()
        self.assertEqual(self.passes("--version"), f"weft {info['version']}\n")
        self.assertRegex(info["build"]["compiler"], r"\w+ \d+\.\d+")
        versions = {row["name"]: row["version"] for row in info["build"]["libraries"]}
        self.assertRegex(versions["jansson"], r"^\d+\.\d+")
        self.assertRegex(versions["libcurl"], r"^\d+\.\d+")

    def test_whether_profilers_see_ranges_is_reported(self):
        version = [row["version"] for row in self.info()["build"]["libraries"] if row["name"] == "NVTX"]
        self.assertEqual([bool(word) for word in version], [os.environ["WEFT_TEST_NVTX"] == "ON"])
        line = f"with NVTX {version[0]}" if version[0] else "without NVTX"
        self.assertIn(f"\n{line} (ranges for profilers)\n", self.passes("info"))

    def test_versions_of_what_is_loaded_are_reported(self):
        info = self.info()
        loaded = {row["name"]: row for row in info["libraries"]}
        for name in ("jansson", "libcurl", "OpenSSL"):
            self.assertRegex(loaded[name]["version"], r"^\d+\.\d+", name)
        available = {row["name"]: row["available"] for row in info["transports"]}
        for name, transport in (("UCX", "ucx"), ("libfabric", "ofi")):
            if available[transport]:
                self.assertRegex(loaded[name]["version"], r"^\d+\.\d+", name)
        text = self.passes("info")
        for row in info["libraries"]:
            self.assertIn(f"\n{row['name']} {row['version'] or 'cannot be loaded'} ({row['for']})\n", text)

    def test_what_is_avoided_in_a_version_is_reported(self):
        fake = os.path.dirname(os.environ["FAKE_UCP"])
        others = os.environ.get("LD_LIBRARY_PATH")
        path = f"{fake}:{others}" if others else fake
        ucx = [row for row in self.info(LD_LIBRARY_PATH=path)["libraries"] if row["name"] == "UCX"][0]
        self.assertEqual(ucx["version"], "1.18.1")
        self.assertEqual([row["what"] for row in ucx["avoided"]], ["its POSIX shared memory"])
        self.assertIn("\n  without its POSIX shared memory: it ends the process",
                      self.passes("info", LD_LIBRARY_PATH=path))

    def test_transports_are_tried_and_kernels_named(self):
        transport = self.info()["transports"][0]
        self.assertTrue(transport["available"], transport)
        self.assertIn(transport["kernels"], transport["variants"])
        self.assertIn("portable", transport["variants"])
        self.assertEqual(self.info(WEFT_EP_KERNELS="portable")["transports"][0]["kernels"], "portable")

    def test_an_option_s_value_and_its_source_are_reported(self):
        row = self.option("--timeout-ms")
        self.assertEqual((row["default"], row["value"], row["source"]), ("5000", "5000", "default"))
        row = self.option("--timeout-ms", WEFT_TIMEOUT_MS="250")
        self.assertEqual((row["value"], row["source"], row["error"]), ("250", "environment", None))
        row = self.option("--store")
        self.assertEqual((row["value"], row["source"], row["alias"]), (None, "unset", "--etcd-server"))
        self.assertEqual(self.option("--listen", "serve", WEFT_LISTEN="::1")["value"], "::1")

    def test_a_wrong_variable_is_reported_with_what_is_wrong(self):
        self.assertIn("want 10 to 600000 ms", self.option("--timeout-ms", wrong=True, WEFT_TIMEOUT_MS="9")["error"])
        self.assertIn("wrong: 9 is out of range; want 10 to 600000 ms",
                      self.warns("WEFT_TIMEOUT_MS: 9 is out of range", "info", WEFT_TIMEOUT_MS="9"))
        variables = {row["variable"]: row for row in self.info_that_warns(WEFT_EP_KERNELS="sse")["variables"]}
        self.assertEqual(variables["WEFT_EP_KERNELS"]["error"],
                         '"sse" is none of portable, avx2, avx512, avx512-bf16, neon')
        self.assertIsNone(variables["WEFT_LOG"]["error"])
        self.assertIn('wrong: "sse" is none of portable', self.warns("WEFT_EP_KERNELS", "info", WEFT_EP_KERNELS="sse"))

    def test_bytes_that_are_no_characters_are_no_obstacle(self):
        odd = b"a\xff\nb".decode(errors="surrogateescape")
        self.assertEqual(self.option("--job", WEFT_JOB=odd)["value"], "a??b")
        found = self.info_that_warns(**{"WEFT_" + odd: "x"})["unknown_variables"]
        self.assertEqual([row["variable"] for row in found], ["WEFT_a??b"])

    def test_secrets_are_never_printed(self):
        secret = "do-not-print-me"
        for arguments in (["info"], ["info", "--json"]):
            self.assertNotIn(secret, self.passes(*arguments, WEFT_TOKEN=secret, WEFT_PASSWORD=secret))
        self.assertEqual(self.option("--token", WEFT_TOKEN=secret)["value"], "set")
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(secret)
            file.flush()
            for arguments in (("info",), ("info", "--json")):
                self.assertNotIn(secret, self.passes(*arguments, WEFT_TOKEN_FILE=file.name))
            self.assertEqual(self.option("--token", WEFT_TOKEN_FILE=file.name)["value"], "set")
            os.chmod(file.name, 0o644)
            self.assertIn("chmod 600", self.option("--token", wrong=True, WEFT_TOKEN_FILE=file.name)["error"])

    def test_variables_that_mean_nothing_are_pointed_out(self):
        found = self.info_that_warns(WEFT_TOKNE="x")["unknown_variables"]
        self.assertEqual(found, [{"variable": "WEFT_TOKNE", "meant": "WEFT_TOKEN"}])
        self.assertIn("WEFT_TOKNE is set but has no meaning; did you mean WEFT_TOKEN?",
                      self.warns("WEFT_TOKNE", "info", WEFT_TOKNE="x"))
        self.assertEqual(self.info(WEFT_TOKEN="x", WEFT_LOG="warn")["unknown_variables"], [])

    def test_text_has_every_part(self):
        text = self.passes("info", "--topology")
        for heading in ("Build", "Libraries", "Transports", "Host", "Network interfaces", "Limits", "Options",
                        "Other variables"):
            self.assertIn(f"\n{heading}\n", text)
        for row in self.info()["options"]:
            self.assertIn(row["option"], text)
        self.assertNotIn("\033[", text)
        self.assertIn("\033[", self.passes("info", "--color=always"))

    def test_the_host_is_described(self):
        host = self.info()["host"]
        self.assertEqual(host["host"], os.uname().nodename)
        self.assertGreaterEqual(host["threads"], 1)
        self.assertEqual(host["memory_bytes"], os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        self.assertEqual({row["name"] for row in host["interfaces"]}, {name for _, name in socket.if_nameindex()})

    def test_a_host_without_sysfs_is_described_without_complaint(self):
        """passes() wants nothing on standard error, where hwloc would complain."""
        with tempfile.TemporaryDirectory() as nothing:
            info = self.info(HWLOC_FSROOT=nothing)
        self.assertTrue(info["host"]["host"])

    def test_the_choice_of_nics_is_explained(self):
        if not any(row["name"] == "hwloc" and row["version"] for row in self.info()["build"]["libraries"]):
            self.skipTest("built without hwloc")
        host = str(tool.SOURCE / "tests/topology/host_4_nics.xml")
        choice = self.info(HWLOC_XMLFILE=host)["choice"]
        self.assertEqual([gpu["nics"] for gpu in choice["gpus"]], [[f"mlx5_{i // 2}"] for i in range(8)])
        self.assertEqual(choice["distances"][0], ["PXB", "NODE", "SYS", "SYS"])
        text = self.passes("info", "--topology", HWLOC_XMLFILE=host)
        self.assertIn("\nNICs for GPUs\n", text)
        for gpu in choice["gpus"]:
            self.assertIn(gpu["why"], text)
        choice = self.info(HWLOC_XMLFILE=host, WEFT_NICS="mlx5_9")["choice"]
        self.assertIn("want some of mlx5_0, mlx5_1, mlx5_2, mlx5_3", choice["error"])

    def test_where_threads_run_is_reported(self):
        self.assertEqual(self.info(WEFT_CPUS="any")["threads"], "where they are: WEFT_CPUS=any")
        self.assertIn("threads that drive transports run where they are: WEFT_CPUS=any\n",
                      self.passes("info", "--topology", WEFT_CPUS="any"))

    def test_who_serves_a_gpu_is_shown_where_not_all_nics_fit(self):
        if not any(row["name"] == "hwloc" and row["version"] for row in self.info()["build"]["libraries"]):
            self.skipTest("built without hwloc")
        host = str(tool.SOURCE / "tests/topology/host_p5en.xml")
        text = self.passes("info", "--topology", HWLOC_XMLFILE=host, COLUMNS="400")
        rows = text.split("\nNICs for GPUs\n")[1].splitlines()
        self.assertEqual(rows[0].split()[1:5], ["rdmap85s0", "rdmap86s0", "rdmap87s0", "rdmap88s0"])
        for row in rows[1:9]:
            self.assertEqual(row.count("PIX*"), 2, row)
        self.assertEqual(rows[9], "and 16 more NICs (--json has all)")
        layers = {nic["name"]: nic["link_layer"] for nic in self.info(HWLOC_XMLFILE=host)["choice"]["nics"]}
        self.assertEqual((layers["rdmap85s0"], layers["enp71s0"]), ("EFA", "Ethernet"))

    def test_limits_are_those_of_the_process(self):
        limits = {row["name"]: row["value"] for row in self.info()["limits"]}
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.assertEqual(limits["RLIMIT_NOFILE"], soft)


if __name__ == "__main__":
    unittest.main(verbosity=2)
