#!/usr/bin/env python3
"""An S3 server with faults at random: s3_stormy.py COMMAND... runs a command with the server's URL in AWS_ENDPOINT_URL.

It is for tests/transport/object/impatient.c, whose objects it knows: a key is PREFIX/NUMBER-BYTES, and the content is
`expected(serial, BYTES)`. The server checks each upload against this, and does not let a write replace a later one,
since a request that its client has given up may arrive late. WEFT_SEED repeats the order of the faults.

HEAD of bucket/control/calm/PREFIX ends the faults for the keys of that prefix. Its Content-Length is the number of
uploads of the prefix whose id the client has certainly got, and that it has neither completed nor asked to abort.
The exit status is 1 if an upload was wrong.
"""
import http.server
import os
import random
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.parse

BLOCK = 4096
KINDS = ["early-reset", "early-status", "half", "reset", "vanish", "status", "html", "lost", "late", "hang", "close",
         "odd"]
WEIGHTS = [3, 4, 3, 3, 3, 6, 2, 5, 12, 1, 6, 12]
STATUS = {500: "InternalError", 503: "SlowDown", 429: "TooManyRequests", 408: "RequestTimeout", 502: "", 504: ""}

chance = random.Random(int(os.environ.get("WEFT_SEED", random.randrange(1 << 32))))
lock = threading.Lock()
objects, uploads, calm, wrong = {}, {}, set(), []
counted = {"requests": 0, "faults": 0, "objects": 0, "uploads": 0, "completed": 0, "aborts": 0}
refused = {"until": 0.0, "connections": 0}


class Upload:
    def __init__(self, key):
        self.key, self.parts, self.known, self.left = key, {}, False, False
        self.refused = refused["connections"]  # its abort may have been on one that was refused since


class Version:
    def __init__(self, serial, body):
        self.serial, self.body, self.etag = serial, body, f'"{chance.getrandbits(64):x}"'


def expected(serial, size):
    filler = struct.pack("<Q", serial) * (BLOCK // 8 - 2)
    blocks = (struct.pack("<QQ", serial, k) + filler for k in range((size + BLOCK - 1) // BLOCK))
    return b"".join(blocks)[:size]


def store(key, body):
    """The lock is held."""
    size = int(key.rsplit("-", 1)[1])
    serial = int.from_bytes(body[:8], "little")
    if body != expected(serial, size):
        wrong.append(f"{key}: {len(body)} bytes of {serial:x}, which are not what one write has")
    elif key not in objects or objects[key].serial <= serial:
        objects[key] = Version(serial, body)
        counted["objects"] += 1


class Gone(Exception):
    """The connection has ended, or has to."""


class Stormy(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    # --- ends of a connection ---

    def reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        raise Gone

    def client_is_gone(self):
        try:
            return self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False

    # --- answers ---

    def head(self, status, headers, length):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def answer(self, status, body=b"", headers=(), length=-1):
        self.head(status, headers, len(body) if length == -1 else length)
        if self.command != "HEAD":
            self.wfile.write(body)
        if self.fault == "close":  # without having said so
            raise Gone

    def refuse(self, status, ends=False):
        headers = [("Retry-After", "1")] if chance.random() < 0.5 else []
        if ends and chance.random() < 0.5:
            headers.append(("Connection", "close"))
        self.answer(status, f"<Error><Code>{STATUS[status]}</Code><Message>Wait.</Message></Error>".encode(), headers)
        if ends:
            raise Gone

    # --- requests ---

    def handle_any(self):
        self.began = time.monotonic()
        path, _, self.query = self.path.partition("?")
        self.key = urllib.parse.unquote(path).split("/", 2)[2]
        prefix = self.key.split("/")[0]
        with lock:
            counted["requests"] += 1
            stormy = prefix not in calm and prefix != "control" and chance.random() < 0.35
            self.fault = chance.choices(KINDS, WEIGHTS)[0] if stormy else None
            counted["faults"] += stormy
        try:
            self.handle_with_fault()
        except (Gone, BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def handle_with_fault(self):
        fault, size = self.fault, int(self.headers.get("Content-Length", 0))
        if self.command == "DELETE":
            with lock:  # whatever becomes of this request
                counted["aborts"] += 1
                if self.upload_id() in uploads:
                    uploads[self.upload_id()].left = True
        if fault == "early-reset":
            self.reset()
        if fault == "early-status":
            self.refuse(chance.choice(list(STATUS)), True)
        body = self.rfile.read(size // 2 if fault == "half" else size)
        if fault in ("half", "reset"):
            self.reset()
        if fault == "vanish":
            raise Gone
        if fault == "status":
            return self.refuse(chance.choice(list(STATUS)))
        if fault == "html":
            return self.answer(502, b"<html>Bad gateway & co.\x00\xff</html>")
        if fault == "late":
            time.sleep(chance.choice([0.001, 0.005, 0.03, 0.2]))
        if fault == "hang":
            time.sleep(chance.choice([1, 3]))
        if self.key.startswith("control/"):
            return self.control()
        if len(body) < size:
            raise Gone
        return getattr(self, "on_" + self.command.lower())(body)

    def control(self):
        prefix = self.key.rsplit("/", 1)[1]
        with lock:
            calm.add(prefix)
            count = sum(u.known and not u.left and u.refused == refused["connections"] and
                        u.key.startswith(prefix + "/") for u in uploads.values())
        self.answer(200, length=count)

    def upload_id(self):
        return dict(pair.split("=", 1) for pair in self.query.split("&")).get("uploadId")

    def on_head(self, _):
        with lock:
            version = objects.get(self.key)
        if not version:
            return self.answer(404)
        return self.answer(200, length=None if self.fault == "odd" else len(version.body))

    def on_get(self, _):
        with lock:
            version = objects.get(self.key)
        if not version:
            return self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        if self.headers.get("If-Match", version.etag) != version.etag:
            return self.answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
        first, last = (int(n) for n in self.headers["Range"].removeprefix("bytes=").split("-"))
        part, total = version.body[first:last + 1], len(version.body)
        about = [("ETag", version.etag), ("Content-Range", f"bytes {first}-{first + len(part) - 1}/{total}")]
        if self.fault == "odd":
            return self.odd_get(version, first, part, about)
        self.answer(206, part, about)
        if self.fault == "lost":
            self.reset()
        return None

    def odd_get(self, version, first, part, about):
        kind = chance.choice(["cut", "short", "less", "more", "excess", "drip", "chunked", "other-range", "whole",
                              "no-etag", "empty", "no-content"])
        half = part[:len(part) // 2]
        if kind in ("cut", "short"):
            self.answer(206, half, about, len(part))
            if kind == "cut":
                self.reset()
            raise Gone
        if kind == "less":
            return self.answer(206, half, about)
        if kind == "more":
            return self.answer(206, part + b"more", about)
        if kind == "excess":  # behind what was announced, where the next answer would be
            return self.answer(206, part + b"excess", about, len(part))
        if kind == "other-range":
            return self.answer(206, part, [about[0], ("Content-Range", f"bytes {first + 1}-{first + len(part)}/*")])
        if kind == "whole":
            return self.answer(200, version.body, about[:1])
        if kind == "no-etag":
            return self.answer(206, part, about[1:])
        if kind == "empty":
            return self.answer(206, b"", about)
        if kind == "no-content":
            return self.answer(204, b"", about)
        self.head(206, about + ([("Transfer-Encoding", "chunked")] if kind == "chunked" else []),
                  None if kind == "chunked" else len(part))
        step = max(1, len(part) // 7)
        for at in range(0, len(part), step):
            some = part[at:at + step]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(some), some) if kind == "chunked" else some)
            time.sleep(0.01)
        if kind == "chunked":
            self.wfile.write(b"0\r\n\r\n")
        return None

    def on_put(self, body):
        fields = dict(pair.split("=", 1) for pair in self.query.split("&")) if self.query else {}
        with lock:
            if not fields:
                store(self.key, body)
            elif fields["uploadId"] in uploads:
                uploads[fields["uploadId"]].parts[int(fields["partNumber"])] = body
            else:
                fields = None
        if fields is None:
            return self.answer(404, b"<Error><Code>NoSuchUpload</Code></Error>")
        if self.fault == "lost":
            self.reset()
        return self.answer(200, b"", [] if self.fault == "odd" else [("ETag", f'"{len(body)}"')])

    def on_post(self, body):
        return self.create() if self.query == "uploads=" else self.complete(body)

    def create(self):
        with lock:
            counted["uploads"] += 1
            name = f"id-{counted['uploads']}"
            upload = uploads[name] = Upload(self.key)
        if self.fault == "lost":
            self.reset()
        if self.fault == "odd":
            return self.answer(200, b"<R><UploadId></UploadId></R>")
        known = not self.client_is_gone()
        self.answer(200, f"<R><UploadId>{name}</UploadId></R>".encode())
        with lock:  # a client may have stopped waiting for a late answer
            upload.known = known and time.monotonic() - self.began < 0.3
        return None

    def complete(self, body):
        name = self.upload_id()
        if self.fault == "odd":
            return self.answer(200, b"<Error><Code>InternalError</Code><Message>We tried.</Message></Error>")
        with lock:
            upload = uploads.pop(name, None)
            if upload:
                counted["completed"] += 1
                parts = [upload.parts.get(number, b"") for number in range(1, body.count(b"<PartNumber>") + 1)]
                store(upload.key, b"".join(parts))
        if self.fault == "lost":
            self.reset()
        if not upload:
            return self.answer(404, b"<Error><Code>NoSuchUpload</Code></Error>")
        return self.answer(200, b"<CompleteMultipartUploadResult/>")

    def on_delete(self, _):
        with lock:
            known = uploads.pop(self.upload_id(), None)
        if self.fault == "lost":
            self.reset()
        return self.answer(204 if known else 404)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def verify_request(self, request, _):
        """At times accepts nothing, or resets all new connections, for a moment."""
        drawn = chance.random()
        if drawn < 0.01:
            time.sleep(0.2)
        if drawn > 0.99:
            refused["until"] = time.monotonic() + 0.1
        if time.monotonic() >= refused["until"] and drawn > 0.03:
            return True
        refused["connections"] += 1
        request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False

    def handle_error(self, *_):
        error = sys.exc_info()[1]
        if not isinstance(error, (ConnectionError, ValueError)):  # ValueError: of a socket that was reset
            wrong.append(f"the server failed: {error!r}")

    def shutdown_request(self, request):  # not a shutdown() first, which would be an orderly end
        self.close_request(request)


def main():
    server = Server(("127.0.0.1", 0), Stormy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    status = subprocess.run(sys.argv[1:], env=os.environ | {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_address[1]}", "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "NO_PROXY": "127.0.0.1",
        "WEFT_LOG": os.environ.get("WEFT_LOG", "error")}).returncode
    print("server:", ", ".join(f"{count} {name}" for name, count in counted.items()))
    for what in wrong[:20]:
        print("server:", what)
    return status or bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
