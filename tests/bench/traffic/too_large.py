#!/usr/bin/env python3
"""If the times of a worker are more than a value of the store holds, the benchmark says so and says what to do. With a
thousand workers that happens; here a relay before the store refuses them, as etcd and 'weft serve' do."""
import base64
import json
import pathlib
import socket
import tempfile
import threading
import unittest

import serving
import tool

TIMES = base64.b64encode(b'{"name":"batch"').decode()  # how the value of a worker's times begins
REFUSAL = json.dumps({"code": 3, "error": "etcdserver: request is too large",
                      "message": "etcdserver: request is too large"}).encode()


class Refusing:
    """Forwards requests to a store, and refuses those with the times of a worker."""

    def __init__(self, port):
        self.port_there, self.refused = port, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with client, socket.create_connection(("127.0.0.1", self.port_there)) as store:
            threading.Thread(target=self.answer, args=(store, client), daemon=True).start()
            source = client.makefile("rb")
            while line := source.readline():
                head, length = line, 0
                while (line := source.readline()) not in (b"\r\n", b""):
                    head += line
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                body = source.read(length)
                if TIMES.encode() in body:
                    self.refused += 1
                    client.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: %d"
                                   b"\r\n\r\n%s" % (len(REFUSAL), REFUSAL))
                else:
                    store.sendall(head + b"\r\n" + body)

    def answer(self, store, client):
        try:
            while data := store.recv(65536):
                client.sendall(data)
        except OSError:
            pass  # one of them has closed

    def close(self):
        self.listener.close()


class TooLarge(tool.ToolTest):
    def test_times_that_have_no_room_are_explained(self):
        with tempfile.TemporaryDirectory(prefix="weft-test-") as folder:
            matrix = pathlib.Path(folder, "matrix.txt")
            matrix.write_text("0 4K\n8K 0\n")
            server = serving.Server("--insecure")
            try:
                relay = Refusing(int(server.url.rsplit(":", 1)[1]))
                result = tool.weft("bench", "traffic", "--matrix", matrix, "--store", relay.url, "--local", 2, "-n", 2,
                                   "--alone", 2, "--warmup", 1)
                relay.close()
            finally:
                server.kill()
        self.assertGreater(relay.refused, 0)
        self.assertEqual(result.returncode, 3, result.stderr)
        for says in ("request is too large", "the times of one run of 1 pattern", "want fewer patterns in the file"):
            self.assertIn(says, result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
