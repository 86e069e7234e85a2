#!/usr/bin/env python3
"""weft serve tells where it is, serves, refuses what it must, and ends cleanly."""
import base64
import contextlib
import json
import signal
import socket
import subprocess
import unittest
import urllib.error
import urllib.request

import tool


@contextlib.contextmanager
def server(*arguments, **more):
    """A running server and its URL."""
    process = subprocess.Popen([tool.WEFT, "serve", *arguments], env=tool.environment(**more), text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate(timeout=tool.TIMEOUT_S)


def ask(url, path, body=None, token=None):
    headers = {"Authorization": token} if token else {}
    request = urllib.request.Request(url + path, json.dumps(body).encode() if body is not None else None, headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=tool.TIMEOUT_S) as answer:
        return json.load(answer)


class Serve(tool.ToolTest):
    def test_it_serves_at_the_url_that_it_prints_until_a_signal_comes(self):
        key, value = (base64.b64encode(text).decode() for text in (b"key", b"value"))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with server("--port", "0") as (process, url):
                self.assertRegex(url, r"^http://127\.0\.0\.1:\d+$")
                ask(url, "/v3/kv/put", {"key": key, "value": value})
                self.assertEqual(ask(url, "/v3/kv/range", {"key": key})["kvs"][0]["value"], value)
                process.send_signal(number)
                self.assertEqual(process.communicate(timeout=tool.TIMEOUT_S), ("", ""))
                self.assertEqual(process.returncode, 0)

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

    def test_an_open_address_wants_a_token(self):
        self.assertIn("token", self.refused(2, "0.0.0.0", "serve", "--listen", "0.0.0.0", "--port", "0"))
        with server("--listen", "0.0.0.0", "--port", "0", WEFT_TOKEN="secret") as (_, url):
            self.assertRegex(url, r"^http://.+:\d+$")

    def test_a_wrong_address_is_refused(self):
        for address in ("example", "300.1.1.1", "127.0.0.1:80"):
            self.refused(2, address, "serve", "--listen", address, "--port", "0")

    def test_a_client_must_show_the_token(self):
        with server("--port", "0", "--token", "secret") as (_, url):
            self.assertIn("header", ask(url, "/v3/kv/range", {"key": "AA=="}, "Bearer secret"))
            for token in (None, "Bearer wrong"):
                with self.assertRaises(urllib.error.HTTPError) as raised:
                    ask(url, "/v3/kv/range", {"key": "AA=="}, token)
                self.assertEqual(raised.exception.code, 401)
                raised.exception.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
