"""Two network namespaces, one for agents and one for the store, with links between them that can be cut."""

import os
import pathlib
import shutil
import subprocess
import sys
import uuid

from stores import Serve
from tool import WEFT

PORT = 2379
LINKS = 2


def need_namespaces():
    """Skips the test if this process cannot make network namespaces."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        print("skipped: network namespaces want root and iproute2")
        sys.exit(77)
    probe = "weft-probe-" + uuid.uuid4().hex[:6]
    if subprocess.run(["ip", "netns", "add", probe], capture_output=True, check=False).returncode != 0:
        print("skipped: this host makes no network namespaces")
        sys.exit(77)
    made = subprocess.run(["ip", "-n", probe, "link", "add", "w0", "type", "veth", "peer", "name", "w1"],
                          capture_output=True, check=False)
    subprocess.run(["ip", "netns", "del", probe], check=True)
    if made.returncode != 0:
        print("skipped: this host makes no veth links")
        sys.exit(77)


class Namespaces:
    """One namespace has the agents and ranks, the other the store; link i leads to the store at 10.77.<i>.1."""

    def __enter__(self):
        need_namespaces()
        name = "weft-" + uuid.uuid4().hex[:6]
        self.agents, self.store = name + "-a", name + "-s"
        try:
            for one in (self.agents, self.store):
                self.ip("netns", "add", one)
                self.ip("-n", one, "link", "set", "lo", "up")
            for i in range(LINKS):
                self.ip("link", "add", f"w{i}", "netns", self.agents, "type", "veth", "peer", "name", f"w{i}", "netns",
                        self.store)
                for one, host in ((self.agents, 2), (self.store, 1)):
                    self.ip("-n", one, "address", "add", f"10.77.{i}.{host}/24", "dev", f"w{i}")
                    self.ip("-n", one, "link", "set", f"w{i}", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *unused):
        for one in (self.agents, self.store):
            subprocess.run(["ip", "netns", "del", one], capture_output=True, check=False)
        left = [n for n in (self.agents, self.store) if pathlib.Path("/run/netns", n).exists()]
        assert not left, left

    @staticmethod
    def ip(*arguments):
        subprocess.run(["ip", *arguments], check=True)

    def cut(self, link):
        self.ip("-n", self.store, "link", "set", f"w{link}", "down")

    def join(self, link):
        self.ip("-n", self.store, "link", "set", f"w{link}", "up")

    def inside(self):
        """The words before a command that run it in the namespace of the agents."""
        return ["ip", "netns", "exec", self.agents]

    @staticmethod
    def url(link):
        return f"https://10.77.{link}.1:{PORT}"


class FarServe(Serve):
    """`weft serve` in the store's namespace, reached over every link."""

    def __init__(self, namespaces, token):
        self.namespaces, self.token = namespaces, token

    def command(self):
        return ["ip", "netns", "exec", self.namespaces.store, WEFT, "serve", "--port", str(PORT), "--listen", "0.0.0.0"]

    def environment(self):
        return dict(os.environ, WEFT_TOKEN=self.token)

    def keys(self, prefix="/weft/"):
        raise NotImplementedError("the test is in neither namespace")
