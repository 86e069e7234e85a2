#!/usr/bin/env python3
"""PyPI out of reach costs scripts/install-deps.sh a sentence for each thing that it brings, and one try for all.

The index that pip is given is a port here which ends each connection, or whose certificate nobody knows.
"""
import contextlib
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading

SCRIPT = pathlib.Path(os.environ["WEFT_SOURCE"], "scripts", "install-deps.sh")
DEADLINE_S = 240
TRIES = 2  # one, and one more
BROUGHT = ("Swift", "newer UCX", "UCX 1.18", "Helm", "kubernetes-validate")


class Index:
    """Counts who connects. With a certificate it speaks TLS."""

    def __init__(self, certificate=None):
        self.count, self.listener = 0, socket.create_server(("127.0.0.1", 0))
        scheme, self.context = "http", None
        if certificate:
            scheme, self.context = "https", ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(certificate, certificate)
        self.url = f"{scheme}://127.0.0.1:{self.listener.getsockname()[1]}/simple"
        self.thread = threading.Thread(target=self.serve)

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection = self.listener.accept()[0]
                self.count += 1
                with connection, contextlib.suppress(OSError):
                    if self.context:
                        self.context.wrap_socket(connection, server_side=True).close()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *unused):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()


def install(place, index):
    """What the script says, in a tree of its own."""
    env = {name: value for name, value in os.environ.items()
           if not name.startswith("PIP_") and not name.lower().endswith("_proxy")}
    env.update(PIP_CONFIG_FILE=os.devnull, PIP_INDEX_URL=index.url, HOME=str(place))
    done = subprocess.run([str(place / "scripts" / SCRIPT.name), "--pypi"], env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, done
    return done.stdout.splitlines()


def check(place, index, word):
    said = install(place, index)
    skipped = [line for line in said if line.startswith("install-deps: no ")]
    assert len(said) == len(skipped) + 1 and len(skipped) == len(BROUGHT), said  # one more says what is installed
    for line, thing in zip(skipped, BROUGHT):
        assert thing in line and "skipped (PyPI is out of reach: " in line and word in line, line
    assert index.count in range(1, TRIES + 1), f"{index.count} connections: {said}"


def need():
    """A virtual environment takes ensurepip, of Debian's python3-venv, and a newer cmake comes from PyPI too."""
    for command in ([sys.executable, "-c", "import ensurepip"], ["openssl", "version"]):
        if not shutil.which(command[0]) or subprocess.run(command, capture_output=True, check=False).returncode != 0:
            print(f"skipped: '{' '.join(command)}' does not work here")
            sys.exit(77)


def main():
    need()
    with tempfile.TemporaryDirectory(prefix="weft-test-pypi-") as name:
        place, certificate = pathlib.Path(name), pathlib.Path(name, "certificate")
        (place / "scripts").mkdir()
        shutil.copy(SCRIPT, place / "scripts")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=IP:127.0.0.1", "-days", "2", "-keyout", certificate, "-out", name + "/signed"],
                       check=True, capture_output=True)
        with open(certificate, "a", encoding="ascii") as file:
            file.write(pathlib.Path(name, "signed").read_text(encoding="ascii"))
        with Index() as index:
            check(place, index, "")
        with Index(certificate) as index:
            check(place, index, "certificate verify failed")
    print("PyPI out of reach costs a sentence")


main()
