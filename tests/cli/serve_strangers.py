#!/usr/bin/env python3
"""Clients without the token can do no lasting harm to `weft serve` or to its clients."""
import contextlib
import os
import pathlib
import resource
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse

import serving
import tool

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from another_user import as_nobody  # noqa: E402

KEY = {"key": "YQ=="}
TIME_TO_SPEAK_S = 5


def can_read(path):
    try:
        with open(path, "rb") as file:
            file.read()
        return True
    except OSError:
        return False


class Listener:
    """Listens where a store is expected, and keeps what is sent to it, behind TLS with a certificate of its own."""

    def __init__(self, certificate=None):
        self.heard, self.context = b"", None
        if certificate:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(*certificate)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.thread = threading.Thread(target=self.listen)
        self.thread.start()

    def listen(self):
        while True:
            try:
                caller, _ = self.socket.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), caller:
                caller.settimeout(tool.TIMEOUT_S)
                if self.context:
                    caller = self.context.wrap_socket(caller, server_side=True)
                with caller:
                    self.heard += caller.recv(1 << 16)

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.socket.close()
        return self.heard


class Strangers(tool.ToolTest):
    def serve(self, *arguments, **more):
        server = serving.Server(*arguments, **more)
        self.addCleanup(server.kill)
        return server

    def call(self, server, sending=b""):
        """A bare connection to the server, through TLS where it speaks that."""
        place = urllib.parse.urlparse(server.url)
        caller = socket.create_connection((place.hostname, place.port), tool.TIMEOUT_S)
        self.addCleanup(caller.close)
        if place.scheme == "https":
            caller = serving.anyone().wrap_socket(caller)
            self.addCleanup(caller.close)
        caller.sendall(sending)
        return caller

    @unittest.skipUnless(os.geteuid() == 0, "wants root, to become another user")
    def test_another_user_of_the_host_neither_reads_nor_changes_a_key(self):
        server = self.serve()
        server.ask("/v3/kv/put", {**KEY, "value": "Yg=="})
        deeds = [("/v3/kv/range", KEY), ("/v3/kv/put", {**KEY, "value": "Yw=="}), ("/v3/kv/deleterange", KEY),
                 ("/v3/lease/grant", {"TTL": 5}), ("/v3/lease/leases", {}), ("/v3/watch", {"create_request": KEY})]
        self.assertEqual(as_nobody(lambda: [server.status(path, body, "") for path, body in deeds]), [401] * len(deeds))
        self.assertEqual(server.ask("/v3/kv/range", KEY)["kvs"][0]["value"], "Yg==")

    @unittest.skipUnless(os.geteuid() == 0, "wants root, to become another user")
    def test_another_user_of_the_host_does_not_find_the_token(self):
        with tempfile.TemporaryDirectory() as directory:
            os.chmod(directory, 0o755)
            file = os.path.join(directory, "token")
            server = self.serve("--write-token", file)
            process = f"/proc/{server.process.pid}"
            self.assertEqual(len(server.token), 32)
            places = [file, process + "/environ", process + "/mem", process + "/fd/0", process + "/map_files"]
            self.assertEqual(as_nobody(lambda: [can_read(place) for place in places]), [False] * len(places))
            with open(process + "/cmdline", "rb") as arguments:
                self.assertNotIn(server.token.encode(), arguments.read())
            server.process.terminate()
            self.assertEqual(server.process.wait(tool.TIMEOUT_S), 0)

    def test_who_listens_in_the_stores_place_gets_no_token(self):
        listener = Listener()
        tool.weft("doctor", "--store", f"http://127.0.0.1:{listener.port}", WEFT_TOKEN="the-token")
        heard = listener.close()
        self.assertIn(b"HTTP/1.1", heard)
        self.assertNotIn(b"the-token", heard)

    def test_who_shows_another_certificate_hears_nothing(self):
        with tempfile.TemporaryDirectory() as directory:
            listener = Listener(serving.certificate(directory))
            url = f"https://127.0.0.1:{listener.port}"
            result = tool.weft("doctor", "--store", url, "--json", WEFT_TOKEN="the-token")
            self.assertEqual(listener.close(), b"")
        self.assertIn("not derived from the token", result.stdout)

    def test_a_token_does_not_go_to_another_host_in_clear(self):
        result = tool.weft("doctor", "--store", "http://192.0.2.1:2379", "--json", WEFT_TOKEN="the-token")
        self.assertIn("give the https:// URL", result.stdout + result.stderr)

    def test_a_client_that_calls_by_plain_http_is_pointed_to_https(self):
        server = self.serve()
        result = tool.weft("doctor", "--store", server.url.replace("https:", "http:"), "--json")
        self.assertIn("reached by https://", result.stdout)

    def test_a_strangers_body_is_not_taken(self):
        server = self.serve()
        size = 50 << 20
        caller = self.call(server, b"POST /v3/kv/put HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size)
        taken = 0
        with contextlib.suppress(OSError):
            while taken < size:
                caller.sendall(bytes(1 << 16))
                taken += 1 << 16
        self.assertLess(taken, size / 2)  # what buffers of sockets hold, which depends on the host

    def test_a_stranger_is_answered_before_his_body(self):
        server = self.serve()
        for header in (b"Content-Length: 50000000", b"Transfer-Encoding: chunked"):
            caller = self.call(server, b"POST /v3/kv/put HTTP/1.1\r\nHost: x\r\n" + header + b"\r\n\r\n")
            self.assertTrue(caller.recv(4096).startswith(b"HTTP/1.1 401"))

    def test_who_speaks_slowly_is_cut_off(self):
        server = self.serve()
        caller = self.call(server, b"POST /v3/kv/put HTTP/1.1\r\nX: ")
        caller.settimeout(0.5)
        with self.assertRaises((ConnectionError, ssl.SSLError, EOFError)):
            for _ in range(2 * tool.TIMEOUT_S):
                caller.sendall(b"x")
                with contextlib.suppress(TimeoutError):
                    if not caller.recv(1):
                        raise EOFError

    def test_silent_strangers_leave_a_place_for_who_has_the_token(self):
        strangers, most = 9000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if most < 2 * strangers:
            self.skipTest(f"{most} descriptors are allowed, {2 * strangers} wanted")
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        server = self.serve()
        place = urllib.parse.urlparse(server.url)
        with contextlib.ExitStack() as callers:
            for _ in range(strangers):
                callers.enter_context(socket.create_connection((place.hostname, place.port), tool.TIMEOUT_S))
            server.ask("/v3/kv/put", {**KEY, "value": "Yg=="})
            self.assertEqual(server.ask("/v3/kv/range", KEY)["kvs"][0]["value"], "Yg==")

    def test_who_speaks_late_has_kept_its_place(self):
        strangers, most = 1100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]  # more than there are for handshakes
        if most < 5 * strangers:
            self.skipTest(f"{most} descriptors are allowed, {5 * strangers} wanted")
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        server = self.serve()
        url = urllib.parse.urlparse(server.url)
        place = url.hostname, url.port
        for _ in range(20):  # a busy machine may take longer
            began = time.monotonic()
            with contextlib.ExitStack() as callers:
                late, *_ = [callers.enter_context(socket.create_connection(place, tool.TIMEOUT_S))
                            for _ in range(strangers)]
                server.ask("/v3/kv/put", {**KEY, "value": "Yg=="})  # behind all of them
                heard = b""
                with contextlib.suppress(OSError), serving.anyone().wrap_socket(late) as late:
                    late.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
                    heard = late.recv(4096)
            if heard or time.monotonic() - began < TIME_TO_SPEAK_S:
                break
        self.assertTrue(heard.startswith(b"HTTP/1.1 200"), heard)

    def test_garbage_harms_nobody(self):
        for arguments in ((), ("--insecure",)):
            server = self.serve(*arguments)
            place = urllib.parse.urlparse(server.url)
            for size in (1, 5, 300, 70000):
                with socket.create_connection((place.hostname, place.port), tool.TIMEOUT_S) as caller, \
                        contextlib.suppress(OSError):
                    caller.sendall(bytes(range(1, 256)) * (size // 255 + 1))
                    caller.recv(4096)
            server.ask("/v3/kv/range", KEY)
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(tool.TIMEOUT_S), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
