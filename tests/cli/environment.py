#!/usr/bin/env python3
"""Every command names variables that are unknown or wrong, and refuses a wrong one that it uses."""
import tempfile
import unittest

import tool

PLAN = str(tool.SOURCE / "plans/single_expansion.json")
DESCRIBE = [["--help"], ["-h"], ["help"], ["help", "elastic"], ["elastic", "--help"], ["--version"], ["version"],
            ["info"], ["plan", PLAN], ["env"]]

# Each wrong value, what is said of it, and a command that it ends (None: none).
WRONG = [
    ("WEFT_LOG", "loud", '"loud" is none of error, warn, info, debug', ["serve"]),
    ("WEFT_EP_KERNELS", "sse", '"sse" is none of portable, avx2', ["elastic"]),
    ("WEFT_EP_TRANSPORT", "nvlnik", '"nvlnik" is none of nvlink, ofi, ucx, shm, none; did you mean nvlink?',
     ["elastic"]),
    ("WEFT_CPUS", "3-1", '"3-1" is not a list of processors; want one like 0-3,8, or any', ["p2p"]),
    ("WEFT_NICS", "a,,b", '"" is not the name of a NIC', ["p2p"]),
    ("WEFT_OFI_NICS", "a b", '"a b" is not the name of a NIC', ["p2p"]),
    ("WEFT_EP_ONCE", "maybe", '"maybe" is none of yes, no', ["elastic"]),
    ("WEFT_ADDRESS", "10.0.0", '"10.0.0" is not a numeric address', ["elastic"]),
    ("WEFT_INTERFACE", "nic/0", '"nic/0" is not an interface of this host', ["elastic"]),
    ("WEFT_HOST_ID", "my host", '"my host" is not a host id; want at most 63 characters', ["elastic"]),
    ("WEFT_UCX_PLUGIN", "libweft_ucx.so.0", '"libweft_ucx.so.0" is not a full path', None),
    ("WEFT_OFI_PLUGIN", "/nowhere/x.so", "there is no file /nowhere/x.so: No such file or directory", None),
    ("WEFT_CUDA_PLUGIN", "x", '"x" is not a full path', None),
    ("WEFT_TOPOLOGY_PLUGIN", "x", '"x" is not a full path', None),
    ("WEFT_TIMEOUT_MS", "5s", '"5s" is not a whole number; want 10 to 600000 ms', ["elastic"]),
    ("WEFT_STORE", "etcd:2379", '"etcd:2379" is not the URL of a server', ["elastic"]),
    ("WEFT_MEMORY", "disk", '"disk" is none of host, cuda, auto', ["elastic"]),
]


class Environment(tool.ToolTest):
    def test_every_command_names_what_means_nothing(self):
        for arguments in DESCRIBE:
            self.warns("weft: WEFT_TOKNE is set but has no meaning; did you mean WEFT_TOKEN?\n", *arguments,
                       WEFT_TOKNE="x")
        self.refused(2, "weft: WEFT_TOKNE is set but has no meaning", "elastc", WEFT_TOKNE="x")
        self.refused(2, "weft: WEFT_TOKNE is set but has no meaning", WEFT_TOKNE="x")
        with tempfile.TemporaryDirectory() as directory:
            self.refused(3, "weft: WEFT_TOKNE is set but has no meaning", "report", directory, WEFT_TOKNE="x")
        self.warns("weft: WEFT_XYZZY_PLUGH is set but has no meaning\n", "version", WEFT_XYZZY_PLUGH="x")
        long = "WEFT_" + 100 * "X"
        self.warns(f"weft: {long} is set but has no meaning\n", "version", **{long: "x"})

    def test_every_command_names_what_is_wrong(self):
        for variable, value, says, _ in WRONG:
            self.warns(f"weft: {variable}: {says}", "version", **{variable: value})
        for arguments in DESCRIBE:
            self.warns('weft: WEFT_TIMEOUT_MS: "5s" is not a whole number', *arguments, WEFT_TIMEOUT_MS="5s")
        self.warns("('weft plan' does not need it)\n", "plan", PLAN, WEFT_TIMEOUT_MS="5s")

    def test_a_command_refuses_what_it_uses(self):
        for variable, value, says, command in WRONG:
            if command:
                text = self.refused(2, f"weft: {variable}: {says}", *command, **{variable: value})
                self.assertTrue(text.endswith(f"Try 'weft {command[0]} --help'.\n"), text)
                self.warns(f"weft: {variable}: {says}", *command, "--help", **{variable: value})

    def test_an_error_names_the_variable_that_gives_the_option(self):
        for variable, option, command in (("WEFT_LISTEN", "--listen", "elastic"), ("WEFT_JOB", "--job", "elastic"),
                                          ("WEFT_TRANSPORTS", "--transport", "p2p")):
            note = f"weft {command}: the environment variable {variable} gives {option}\n"
            self.assertIn(note, self.refused(2, f"weft {command}: {option}: ", command, **{variable: "a/b"}))
            for typed in ([option, "b/c"], [f"{option}=b/c"]):
                text = self.refused(2, f"weft {command}: {option}: ", command, *typed, **{variable: "a/b"})
                self.assertNotIn(variable, text)
        self.assertNotIn("WEFT_LISTEN", self.refused(2, "--job: ", "elastic", WEFT_JOB="a/b", WEFT_LISTEN="::1"))

    def test_all_wrong_ones_are_named_at_once(self):
        text = self.refused(2, "WEFT_TOKNE", "elastic", WEFT_TOKNE="x", WEFT_TIMEOUT_MS="5s", WEFT_LOG="loud")
        self.assertEqual([line.split()[1].rstrip(":") for line in text.splitlines()[:-1]],
                         ["WEFT_TOKNE", "WEFT_TIMEOUT_MS", "WEFT_LOG"])

    def test_a_secret_that_cannot_be_read_is_named_everywhere(self):
        self.warns("WEFT_TOKEN: WEFT_TOKEN_FILE: ", "version", WEFT_TOKEN_FILE="/nowhere/token")
        self.refused(2, "WEFT_TOKEN: more than one of WEFT_TOKEN, WEFT_TOKEN_FD and WEFT_TOKEN_FILE is set", "serve",
                     WEFT_TOKEN="do-not-print-me", WEFT_TOKEN_FILE="/nowhere/token")

    def test_right_and_empty_values_are_no_matter(self):
        right = {"WEFT_LOG": "debug", "WEFT_CPUS": "0-3,8", "WEFT_NICS": "^mlx5_0,mlx5_1",
                 "WEFT_ADDRESS": "127.0.0.1,::1", "WEFT_INTERFACE": "lo", "WEFT_HOST_ID": "host-1",
                 "WEFT_EP_TRANSPORT": "none", "WEFT_EP_ONCE": "no", "WEFT_JOB": "j",
                 "WEFT_CUDA_PLUGIN": str(tool.SOURCE / "README.md")}
        self.passes("version", **right)
        self.passes("version", **dict.fromkeys([row[0] for row in WRONG], ""))


if __name__ == "__main__":
    unittest.main(verbosity=2)
