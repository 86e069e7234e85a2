#!/usr/bin/env python3
"""weft serve prints its address and its token, serves, refuses bad requests, and ends cleanly."""
import base64
import json
import os
import signal
import socket
import stat
import subprocess
import tempfile
import time
import unittest

import serving
import tool

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # though these tests run by nohup


class Serve(tool.ToolTest):
    def server(self, *arguments, **more):
        server = serving.Server(*arguments, **more)
        self.addCleanup(server.kill)
        return server

    def end(self, server, number=signal.SIGTERM):
        server.process.send_signal(number)
        self.assertEqual(server.process.communicate(timeout=tool.TIMEOUT_S), ("", ""))
        self.assertEqual(server.process.returncode, 0)

    def test_it_serves_at_the_url_that_it_prints_until_a_signal_comes(self):
        key, value = (base64.b64encode(text).decode() for text in (b"key", b"value"))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            server = self.server()
            self.assertRegex(server.url, r"^https://127\.0\.0\.1:\d+$")
            server.ask("/v3/kv/put", {"key": key, "value": value})
            self.assertEqual(server.ask("/v3/kv/range", {"key": key})["kvs"][0]["value"], value)
            self.end(server, number)

    def test_nohup_keeps_a_hangup_from_it(self):
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # which a server inherits
        try:
            server = self.server()
        finally:
            signal.signal(signal.SIGHUP, before)
        server.process.send_signal(signal.SIGHUP)
        self.assertEqual(server.status("/v3/kv/range", {"key": "AA=="}), 200)
        self.end(server)

    def test_one_that_stood_still_ends_no_lease_that_nobody_could_renew(self):
        server = self.server()
        granted = server.ask("/v3/lease/grant", {"TTL": "4"})
        server.ask("/v3/kv/put", {"key": "AAAA", "value": "AAAA", "lease": granted["ID"]})
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(5)  # what is tested is that this time does not count
        server.process.send_signal(signal.SIGCONT)
        self.assertIn("TTL", server.ask("/v3/lease/keepalive", {"ID": granted["ID"]})["result"])
        self.assertIn("kvs", server.ask("/v3/kv/range", {"key": "AAAA"}))
        self.end(server)

    def test_each_run_has_a_token_of_its_own_and_tells_it(self):
        servers = [self.server(), self.server()]
        self.assertNotEqual(servers[0].token, servers[1].token)
        for mine, other in (servers, servers[::-1]):
            self.assertEqual(mine.status("/v3/kv/range", {"key": "AA=="}), 200)
            self.assertEqual(mine.status("/v3/kv/range", {"key": "AA=="}, other.token), 401)

    def store_as_doctor_finds_it(self, *arguments, **more):
        """Grade and finding."""
        rows = json.loads(tool.weft("doctor", "--json", *arguments, **more).stdout)["findings"]
        return next((row["grade"], row["found"]) for row in rows if row["check"] == "store")

    def test_what_it_tells_is_what_a_client_needs(self):
        server = self.server()
        self.assertEqual(self.store_as_doctor_finds_it("--store", server.url, WEFT_TOKEN=server.token)[0], "ok")

    def test_a_token_file_is_its_owners_and_goes_with_the_server(self):
        with tempfile.TemporaryDirectory() as directory:
            file = os.path.join(directory, "token")
            server = self.server("--write-token", file)
            state = os.stat(file)
            self.assertEqual((stat.S_IMODE(state.st_mode), state.st_uid), (0o600, os.geteuid()))
            server.ask("/v3/kv/range", {"key": "AA=="})
            self.refused(2, "exists already", "serve", "--port", "0", "--write-token", file)
            same = self.server(WEFT_TOKEN_FILE=file)
            self.assertEqual(same.status("/v3/kv/range", {"key": "AA=="}, server.token), 200)
            self.end(server)
            self.assertFalse(os.path.exists(file))

    def test_a_link_in_a_token_files_place_is_not_followed(self):
        with tempfile.TemporaryDirectory() as directory:
            link, target = (os.path.join(directory, name) for name in ("link", "target"))
            os.symlink(target, link)
            self.refused(2, "exists already", "serve", "--port", "0", "--write-token", link)
            self.assertFalse(os.path.exists(target))

    def test_a_token_is_not_written_to_a_file_that_others_read(self):
        with tempfile.TemporaryFile() as log:
            for mode, status in ((0o644, 2), (0o600, None)):
                os.fchmod(log.fileno(), mode)
                process = subprocess.Popen([tool.WEFT, "serve", "--port", "0"], env=tool.environment(), stderr=log,
                                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
                self.assertEqual(bool(process.stdout.readline()), status is None)
                process.terminate()
                process.wait(tool.TIMEOUT_S)
                process.stdout.close()
                log.seek(0)
                self.assertEqual(b"export WEFT_TOKEN=" in log.read(), status is None)

    def test_a_port_in_use_is_refused(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            self.refused(3, str(port), "serve", "--port", port)

    def test_the_port_can_come_from_the_environment(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            self.refused(3, str(port), "serve", WEFT_STORE_PORT=str(port))

    def test_an_open_address_wants_a_token_and_has_one(self):
        arguments = ("serve", "--listen", "0.0.0.0", "--port", "0", "--insecure")
        self.assertIn("insecure", self.refused(2, "0.0.0.0", *arguments))
        self.assertRegex(self.server("--listen", "0.0.0.0", WEFT_TOKEN="secret").url, r"^https://.+:\d+$")
        self.assertRegex(self.server("--listen", "0.0.0.0").token, r"^[0-9a-f]{32}$")

    def test_the_address_may_have_its_port(self):
        self.assertIn("port", self.refused(2, "65536", "serve", "--listen", "127.0.0.1:65536"))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.assertTrue(self.server("--listen", f"127.0.0.1:{port}").url.endswith(f":{port}"))

    def test_a_wrong_address_is_refused(self):
        for address in ("example", "300.1.1.1", "127.0.0.1:http"):
            self.refused(2, address, "serve", "--listen", address, "--port", "0")

    def test_a_client_must_show_the_token(self):
        server = self.server("--token", "secret")
        self.assertIn("header", server.ask("/v3/kv/range", {"key": "AA=="}, "secret"))
        for token in ("", "wrong"):
            self.assertEqual(server.status("/v3/kv/range", {"key": "AA=="}, token), 401)

    def test_insecure_is_said_in_so_many_words(self):
        server = self.server("--insecure")
        self.assertRegex(server.url, r"^http://127\.0\.0\.1:\d+$")
        server.ask("/v3/kv/range", {"key": "AA=="})
        self.end(server)
        says = "weft serve: --insecure and a token (--token, --token-file, WEFT_TOKEN) contradict each other"
        self.refused(2, says, "serve", "--port", "0", "--insecure", "--token", "secret")
        self.refused(2, says, "serve", "--port", "0", "--insecure", WEFT_TOKEN="secret")
        self.refused(2, "--insecure and --tls-cert contradict", "serve", "--insecure", "--tls-cert", "c")
        self.refused(2, "--write-token", "serve", "--port", "0", "--insecure", "--write-token", "x")

    def test_a_certificate_of_ones_own_is_for_clients_with_its_ca(self):
        with tempfile.TemporaryDirectory() as directory:
            certificate, key = serving.certificate(directory)
            server = self.server("--tls-cert", certificate, "--tls-key", key)
            asked = ("--store", server.url)
            grade = self.store_as_doctor_finds_it(*asked, "--ca", certificate, WEFT_TOKEN=server.token)[0]
            self.assertEqual(grade, "ok")
            for arguments, says in ((asked, "not derived from the token"), ((*asked, "--ca", key), "CA")):
                grade, found = self.store_as_doctor_finds_it(*arguments, WEFT_TOKEN=server.token)
                self.assertEqual(grade, "problem")
                self.assertIn(says, found)
            self.end(server)
            self.refused(2, "--tls-cert is given without --tls-key", "serve", "--port", "0", "--tls-cert", certificate)
            self.refused(2, "--tls-key is given without --tls-cert", "serve", "--port", "0", "--tls-key", key)
            self.refused(2, "weft serve: no HTTPS server", "serve", "--port", "0", "--tls-cert", key, "--tls-key", key)


if __name__ == "__main__":
    unittest.main(verbosity=2)
