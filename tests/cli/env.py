#!/usr/bin/env python3
"""weft env prints exports that a shell takes, for the host and for a rank, and leaves out what is not known."""
import json
import os
import subprocess
import tempfile
import unittest
from xml.sax import saxutils

import tool

HOSTS = tool.SOURCE / "tests/topology"


class Env(tool.ToolTest):
    def setUp(self):
        libraries = json.loads(self.passes("info", "--json"))["build"]["libraries"]
        if not any(row["name"] == "hwloc" and row["version"] for row in libraries):
            self.skipTest("built without hwloc")

    def env(self, host, *arguments, **more):
        file = str(HOSTS / f"host_{host}.xml")
        return json.loads(self.passes("env", "--json", *arguments, HWLOC_XMLFILE=file, **more))

    def value(self, name, host, *arguments, **more):
        return {row["name"]: row["value"] for row in self.env(host, *arguments, **more)["exports"]}[name]

    def test_each_rank_has_the_nic_of_its_gpu(self):
        for rank in range(8):
            self.assertEqual(self.value("UCX_NET_DEVICES", "4_nics", "--rank", rank), f"mlx5_{rank // 2}:1")
        self.assertEqual(self.env("4_nics", "--rank", 5)["gpu"]["index"], 5)
        self.assertEqual(self.env("4_nics", "--rank", 13)["gpu"]["index"], 5)  # more ranks than GPUs
        self.assertIsNone(self.env("4_nics")["gpu"])

    def test_visible_devices_are_heeded_and_left_alone(self):
        self.assertEqual(self.env("4_nics", "--rank", 1, CUDA_VISIBLE_DEVICES="6,7")["gpu"]["index"], 7)
        self.assertIsNone(self.env("4_nics", "--rank", 0, CUDA_VISIBLE_DEVICES="GPU-1234")["gpu"])
        self.assertIsNone(self.value("CUDA_VISIBLE_DEVICES", "4_nics", "--rank", 1, CUDA_VISIBLE_DEVICES="6,7"))

    def test_cuda_s_own_word_counts_where_there_is_a_plug_in(self):
        """The fake GPU 22 says that it is at 0000:16:00.0."""
        fake = {"WEFT_CUDA_PLUGIN": os.environ["WEFT_FAKE_GPUS"], "FAKE_GPUS": "23"}
        gpu = self.env("10_nics", "--rank", 22, **fake)["gpu"]
        self.assertEqual((gpu["index"], gpu["address"], gpu["how"]),
                         (1, "0000:16:00.0", "device 22 of 23 that CUDA shows"))

    def test_wishes_are_heeded(self):
        self.assertEqual(self.value("UCX_NET_DEVICES", "4_nics", "--rank", 0, WEFT_NICS="mlx5_3"), "mlx5_3:1")
        self.refused(2, "want some of mlx5_0", "env", HWLOC_XMLFILE=str(HOSTS / "host_far_nic.xml"), WEFT_NICS="eth7")

    def test_every_variable_is_set_or_left_out_with_a_reason(self):
        for host in ("10_nics", "no_nic", "far_nic", "p4d", "p6_b200"):
            for row in self.env(host)["exports"]:
                self.assertTrue(row["why"], row)

    def test_a_shell_takes_it(self):
        for arguments in ([], ["--shell"], ["--rank", "3"]):
            text = self.passes("env", *arguments, HWLOC_XMLFILE=str(HOSTS / "host_10_nics.xml"))
            for line in text.splitlines():
                self.assertRegex(line, r"^(# .*|export [A-Z_]+=\S+)$")
            script = f'{text}\nprintf "%s\\n" "$NCCL_IB_HCA" "$UCX_NET_DEVICES"'
            for shell in ("sh", "bash"):
                result = subprocess.run([shell, "-eu", "-c", script], env={"PATH": os.environ["PATH"]}, check=True,
                                        capture_output=True, text=True, timeout=tool.TIMEOUT_S)
                rank = arguments if "--rank" in arguments else []
                expected = [self.value(name, "10_nics", *rank) for name in ("NCCL_IB_HCA", "UCX_NET_DEVICES")]
                self.assertEqual(result.stdout.splitlines(), expected)

    def test_elastic_fabric_adapters_take_libfabric(self):
        for rank, nics in ((0, ["rdmap85s0:1", "rdmap87s0:1"]), (7, ["rdmap161s0:1", "rdmap163s0:1"])):
            self.assertEqual(self.value("FI_PROVIDER", "p5en", "--rank", rank), "efa")
            self.assertIsNone(self.value("NCCL_IB_HCA", "p5en", "--rank", rank))
            devices = self.value("UCX_NET_DEVICES", "p5en", "--rank", rank)
            if devices is not None:  # else this host has no default route
                self.assertEqual(devices.split(",")[:-1], nics)

    def test_wrong_arguments_are_refused(self):
        self.refused(2, "--shell and --json are both given", "env", "--shell", "--json")
        self.refused(2, '--rank: "one" is not a whole number', "env", "--rank", "one")

    def test_a_script_ends_where_it_fails(self):
        for shell in ("sh", "bash"):
            for arguments, more in (("--rank one", {}), ("", {"WEFT_NICS": "a,,b"})):
                script = f'set -e; eval "$({tool.WEFT} env {arguments})"; echo goes on'
                result = subprocess.run([shell, "-c", script], env=tool.environment(**more), capture_output=True,
                                        text=True, timeout=tool.TIMEOUT_S, check=False)
                self.assertEqual((result.returncode, result.stdout), (1, ""), shell)

    def test_odd_names_come_through_a_shell_as_they_are(self):
        """A name of a device is the host's, and may be anything."""
        names = ["~ two words, it's", 'a"b$(exit 7)`exit 7`', "#a\\b\nc;exit 7 & * é"]
        entities = {"\n": "&#10;", '"': "&quot;"}
        text = (HOSTS / "host_4_nics.xml").read_text()
        for name in names:
            with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
                file.write(text.replace("mlx5_0", saxutils.escape(name, entities)))
                file.flush()
                host = {"HWLOC_XMLFILE": file.name}
                rows = json.loads(self.passes("env", "--json", **host))["exports"]
                value = {row["name"]: row["value"] for row in rows}["UCX_NET_DEVICES"]
                self.assertIn(name, value)
                for shell in ("sh", "bash"):
                    script = f'eval "$({tool.WEFT} env)"; printf %s "$UCX_NET_DEVICES"'
                    result = subprocess.run([shell, "-eu", "-c", script], env=tool.environment(**host), check=True,
                                            capture_output=True, text=True, timeout=tool.TIMEOUT_S)
                    self.assertEqual(result.stdout, value, shell)


if __name__ == "__main__":
    unittest.main(verbosity=2)
