"""Runs containers with podman. Their images and files are in a folder of the test, and are removed with it.

If the machine lacks something that containers need, the test ends at its start with status 77 and the reason.
"""
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import urllib.request

SOURCE = pathlib.Path(os.environ["WEFT_SOURCE"])
RELEASE = platform.freedesktop_os_release()  # packages are for the release that they were made on
NAME = RELEASE.get("VERSION_CODENAME", "testing")
BASE = f"localhost/debian:{RELEASE.get('VERSION_ID', 'testing')}"
KEPT = SOURCE / f"build/tools/debian-{RELEASE.get('VERSION_ID', 'testing')}.tar"
SKIPPED = 77
DEADLINE_S = 280
SETTINGS = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=10000:10000"]
[engine]
lock_type = "file"
"""


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def mirror():
    """The archive from which this machine installs packages."""
    if RELEASE["ID"] != "debian":
        skip(f"the tests' base image is Debian's, and this is {RELEASE['ID']}")
    said = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"],
                          capture_output=True, text=True, timeout=DEADLINE_S).stdout
    archives = [line for line in said.split() if line.rstrip("/").endswith("/debian")]
    if not archives:
        skip("apt names no archive of Debian here")
    try:
        with urllib.request.urlopen(f"{archives[0].rstrip('/')}/dists/{NAME}/Release", timeout=10):
            return archives[0]
    except OSError as error:
        skip(f"Debian's archive is out of reach: {error}")


def require():
    """Skips where containers cannot run, or their base image cannot be made."""
    if os.getuid() != 0:
        skip("containers of the tests take root")
    for program in ("podman", "runc", "debootstrap", "dpkg-shlibdeps"):
        if not shutil.which(program):
            skip(f"no {program} here (scripts/install-deps.sh --test)")
    archive = mirror()
    made = subprocess.run([SOURCE / "deploy/images/base.sh", NAME, KEPT, archive], capture_output=True, text=True,
                          timeout=DEADLINE_S)
    if made.returncode == 3:
        skip(made.stderr.strip().splitlines()[-1])
    if made.returncode:
        sys.exit(f"base.sh failed: {made.stderr}")


class Podman:
    """The command `podman` with a separate storage, which contains the base image."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="weft-podman."))
        settings = self.folder / "containers.conf"
        settings.write_text(SETTINGS)
        self.environment = {**os.environ, "CONTAINERS_CONF": str(settings), "TMPDIR": str(self.folder)}
        self.command = self.folder / "podman"
        program, folder = shutil.which("podman"), self.folder
        self.command.write_text(f"#!/bin/sh\nexec {program} --root {folder}/root --runroot {folder}/run "
                                f"--tmpdir {folder}/tmp --runtime runc \"$@\"\n")
        self.command.chmod(0o755)
        for step in (("import", KEPT, BASE), ("run", "--rm", "--network", "none", BASE, "true")):
            said = self.try_(*step)
            if said.returncode:
                self.close()
                skip(f"podman {step[0]} fails here: {said.stderr.strip().splitlines()[-1]}")

    def __call__(self, *arguments, status=0, **more):
        """Runs podman, or `command`; returns its output. Any status other than `status` is an error with the output."""
        said = self.try_(*arguments, **more)
        if said.returncode != status:
            raise AssertionError(f"{arguments}: status {said.returncode}, not {status}\n{said.stdout}\n{said.stderr}")
        return said.stdout + said.stderr * (status != 0)

    def try_(self, *arguments, command=None, timeout=DEADLINE_S):
        return subprocess.run([command or self.command, *map(str, arguments)], env=self.environment, text=True,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=timeout)

    def close(self):
        """Ends all containers that still run, and removes everything."""
        self.try_("rm", "--all", "--force", "--time", "0")
        subprocess.run(["umount", "--quiet", self.folder / "root/overlay"], check=False) # podman mounts it on itself
        shutil.rmtree(self.folder)


def make_packages(build, folder):
    """Makes Weft's packages from the build in the folder; returns their paths."""
    made = subprocess.run(["cpack", "--config", pathlib.Path(build) / "CPackConfig.cmake", "-B", folder],
                          capture_output=True, text=True, timeout=DEADLINE_S)
    if made.returncode:
        raise AssertionError(f"cpack failed:\n{made.stdout}{made.stderr}")
    return sorted(pathlib.Path(folder).glob("*.deb"))
