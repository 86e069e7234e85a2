#!/usr/bin/env python3
"""An S3 server with faults on request: s3_wrong.py COMMAND... runs a command with the server's URL in AWS_ENDPOINT_URL.

A second server, at WRONG_TLS_URL, uses TLS with the certificate in WRONG_CA. Both support the requests of S3 that write
and read objects, keep the objects in memory, and check every signature. The name of an object chooses its fault. With
bucket/FAULT,COUNT/anything the first COUNT requests get the fault, and later requests succeed. A read of bucket/report
returns what the server has seen, one line each.
"""
import http.server
import os
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

import sigv4

KEY, SECRET, TOKEN = "wrong-key", "wrong-secret/+", "session-token==" * 400  # Amazon's tokens have no maximum length
BODY = bytes((i * 7 + i // 251) % 256 for i in range(1 << 20))

lock = threading.Lock()
objects, uploads, counts = {}, {}, {}
seen = {"signed": 0, "unsigned": 0, "aborts": 0, "open": 0, "completed": 0, "matched": 0, "gets": 0}


class Wrong(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def handle_expect_100(self):
        return "/early" in self.path or super().handle_expect_100()

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        names = [name for name, _ in headers]
        for name, value in headers:
            self.send_header(name, value)
        if "Content-Length" not in names:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":  # whose answers have the headers only
            self.wfile.write(body)

    def error(self, status, code, message="It is told to."):
        text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
        self.answer(status, text.encode(), [("Content-Type", "application/xml")])

    def cut(self):
        """Resets the connection, before an answer or in the middle of it."""
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def fault(self):
        """The fault that this request gets, or None."""
        words = urllib.parse.unquote(self.path.split("?")[0]).split("/")[2].split(",")
        if len(words) < 2:
            return None
        with lock:
            place = self.path.split("?")[0]
            counts[place] = counts.get(place, 0) + 1
            return words[0] if counts[place] <= int(words[1]) else None

    def handle_one(self, body):
        headers = {name.lower(): value for name, value in self.headers.items()}
        wrong = sigv4.check(self.command, self.path, headers, {KEY: SECRET})
        if headers.get("x-amz-security-token") != TOKEN:
            wrong = "no token"
        with lock:
            seen["unsigned" if wrong else "signed"] += 1
        if wrong:
            return self.error(403, "SignatureDoesNotMatch", wrong)
        if headers["host"].startswith("bucket."):  # the other way to name a bucket
            self.path = "/bucket" + self.path
        if self.path == "/bucket/report":
            seen["open"] = len(uploads)
            text = "".join(f"{name}={value}\n" for name, value in seen.items()).ljust(200).encode()[:200]
            return self.answer(200, text)
        fault = self.fault()
        if fault == "late-fail":
            time.sleep(0.5)
            fault = "fail"
        plain = {"forbid": (403, "AccessDenied"), "missing": (404, "NoSuchKey"), "fail": (500, "InternalError"),
                 "slowdown": (503, "SlowDown"), "expired": (400, "ExpiredToken"), "moved": (301, "PermanentRedirect"),
                 "full": (507, "InsufficientStorage")}
        if fault in plain:
            return self.error(*plain[fault])
        if fault == "html":
            return self.answer(502, b"<html>Bad gateway & co.\x00\xff</html>")
        if fault == "cut":
            return self.cut()
        if fault == "hang" or ("then-hang" in self.path and not fault):
            time.sleep(3600)
        getattr(self, "on_" + self.command.lower())(body, fault, headers)

    def on_get(self, _, fault, headers):
        with lock:
            seen["gets"] += 1
        data = objects.get(self.path, BODY)
        first, last = (int(n) for n in headers["range"].removeprefix("bytes=").split("-"))
        etag = '"v1"'
        if fault == "changed":
            etag = f'"v{counts[self.path]}"'
            if headers.get("if-match", etag) != etag:
                return self.error(412, "PreconditionFailed")
        if fault == "ignores-match":
            etag = f'"v{counts[self.path]}"'
        if fault == "long-names":
            etag = f'"{"v" * 900}{counts[self.path]}"'
        if fault == "endless-names":
            etag = f'"{"v" * 9000}{counts[self.path]}"'
        if fault == "weak":
            etag = 'W/"v1"'
            if "if-match" in headers:  # a strong comparison, which never succeeds
                return self.error(412, "PreconditionFailed")
        if "if-match" in headers:
            with lock:
                seen["matched"] += 1
        part = data[first:last + 1]
        about = [("ETag", etag), ("Content-Range", f"bytes {first}-{first + len(part) - 1}/{len(data)}")]
        if fault == "unnamed":
            about.pop(0)
        if fault == "other-range":
            about[1] = ("Content-Range", f"bytes {first + 1}-{last + 1}/{len(data)}")
        if fault == "no-range":
            return self.answer(200, data, about[:1])
        if fault == "no-header":
            about.pop()
        if fault == "long":
            part += b"more"
        if fault == "short":
            part = part[:len(part) // 2]
        if fault == "empty":
            part = b""
        if fault in ("broken", "stall"):
            self.send_response(206)
            for name, value in about + [("Content-Length", str(len(part)))]:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(part[:len(part) // 2])
            self.wfile.flush()
            if fault == "stall":
                time.sleep(3600)
            return self.cut()
        self.answer(206, part, about)

    def on_head(self, _, fault, __):
        if fault != "no-length":
            return self.answer(200, objects.get(self.path, BODY))
        self.send_response(200)
        self.end_headers()

    def on_put(self, body, fault, _):
        place, _, query = self.path.partition("?")
        with lock:
            if query:
                number, upload = (pair.split("=", 1)[1] for pair in query.split("&"))
                if upload not in uploads:  # the upload was aborted meanwhile
                    return self.error(404, "NoSuchUpload")
                uploads[upload][int(number)] = body
            else:
                objects[place] = body
        self.answer(200, b"", [] if fault == "no-etag" else [("ETag", f'"{len(body)}"')])

    def on_post(self, body, fault, _):
        place, _, query = self.path.partition("?")
        with lock:
            if query == "uploads=":
                upload = f"id-{len(counts)}-{place.count('/')}%2F%2B"  # in the form of a URL: "/+"
                uploads[upload] = {}
                text = f"<R><UploadId>{upload.replace('%2F%2B', '/+')}</UploadId></R>"
            else:
                upload = query.split("=", 1)[1]
                if "complete-fails" in place:
                    text = "<Error><Code>InternalError</Code><Message>We tried.</Message></Error>"
                elif upload not in uploads:
                    return self.error(404, "NoSuchUpload")
                else:
                    parts = uploads.pop(upload)
                    assert body.count(b"<PartNumber>") == len(parts)
                    objects[place] = b"".join(parts[number] for number in sorted(parts))
                    seen["completed"] += 1
                    text = "<CompleteMultipartUploadResult/>"
                    if "complete-lost" in place:
                        return self.cut()
        self.answer(200, text.encode())

    def on_delete(self, *_):
        with lock:
            uploads.pop(self.path.split("uploadId=")[1], None)
            seen["aborts"] += 1
        if "drips" not in self.path:
            return self.answer(204)
        self.send_response(200)
        self.send_header("Content-Length", "1000000")
        self.end_headers()
        while True:
            self.wfile.write(b"x")
            time.sleep(0.1)

    def handle_any(self):
        try:
            if self.command == "PUT" and "/early" in self.path and self.fault():  # the client still waits to send
                return self.answer(200, b"", [("ETag", '"1"'), ("Connection", "close")])
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.handle_one(body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any


def make_certificate(folder):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=wrong", "-days", "2",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", f"{folder}/key", "-out", f"{folder}/cert"],
                   check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{folder}/cert", f"{folder}/key")
    return context


def start(context=None):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Wrong)
    server.daemon_threads = True
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def main():
    folder = tempfile.mkdtemp(prefix="weft-wrong-")
    try:
        return subprocess.run(sys.argv[1:], env=os.environ | {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{start()}", "AWS_REGION": "us-east-1",
            "WRONG_TLS_URL": f"https://127.0.0.1:{start(make_certificate(folder))}", "WRONG_CA": f"{folder}/cert",
            "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_SESSION_TOKEN": TOKEN,
            "NO_PROXY": "127.0.0.1,localhost"}).returncode
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
