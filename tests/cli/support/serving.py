"""A running `weft serve`, and requests to it."""
import json
import os
import re
import ssl
import subprocess
import urllib.error
import urllib.request

import tool


def anyone():
    """A TLS context that accepts every certificate: these tests do not check who the server is."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def certificate(directory):
    """Makes the files of a self-signed certificate for 127.0.0.1 and of its key; returns their paths."""
    files = [os.path.join(directory, name) for name in ("certificate.pem", "key.pem")]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", "/CN=weft-test", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-out", files[0], "-keyout", files[1]], check=True, capture_output=True)
    return files


def request(url, path, body=None, token=""):
    """Sends a request; returns the status and the body of the answer."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    asked = urllib.request.Request(url + path, json.dumps(body).encode() if body is not None else None, headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=anyone()))
    try:
        with opener.open(asked, timeout=tool.TIMEOUT_S) as answer:
            return answer.status, json.loads(answer.readline())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, None


class Server:
    """A running `weft serve`, the URL that it prints, and its token: the given one, or the one that it writes."""

    def __init__(self, *arguments, **more):
        self.process = subprocess.Popen([tool.WEFT, "serve", "--port", "0", *arguments], env=tool.environment(**more),
                                        text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        self.url = self.process.stdout.readline().strip()
        self.said = ""
        self.token = more.get("WEFT_TOKEN", "")
        if "--write-token" in arguments and self.url:
            with open(arguments[arguments.index("--write-token") + 1]) as file:
                self.token = file.read().strip()
        elif self.url.startswith("https:") and not any(name.startswith("WEFT_TOKEN") for name in more) \
                and "--token" not in arguments:
            self.said = self.process.stderr.readline()
            self.token = re.fullmatch(r"export WEFT_TOKEN=([0-9a-f]{32})\n", self.said).group(1)

    def kill(self):
        self.process.kill()
        self.process.communicate(timeout=tool.TIMEOUT_S)

    def status(self, path, body=None, token=None):
        return request(self.url, path, body, self.token if token is None else token)[0]

    def ask(self, path, body=None, token=None):
        status, answer = request(self.url, path, body, self.token if token is None else token)
        assert status == 200, status
        return answer
