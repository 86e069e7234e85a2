#!/usr/bin/env python3
"""Weft's packages and images, made from a build and used: images.py BUILD

The base is this machine's Debian release, by debootstrap, kept in build/tools. The image for development is the root in
which the packages are installed, used and removed.
"""
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import containers

BUILD = pathlib.Path(sys.argv.pop(1))
RUNTIME, DEVELOPMENT = "localhost/weft:test", "localhost/weft:dev"
LARGEST = 120_000_000  # bytes of the runtime image
SOURCES = containers.SOURCE / "CMakeLists.txt"
BUILDER = containers.SOURCE / "deploy/images/build.sh"
ALONE = ["--network", "none"]
ROOM = ["--shm-size", "1g"]  # without it `weft doctor` finds a problem
RESTRICTED = ["--cap-drop", "all", "--security-opt", "no-new-privileges", "--read-only", "--tmpfs", "/work:mode=1777"]

# In the image for development: what the packages give to somebody who builds, and what stays when they are removed.
USE = r"""
set -eu
[ -z "$(dpkg --audit)" ]
cd "$(mktemp -d)"
cc -Wall -Werror $(pkg-config --cflags weft) /consumer/consumer.c -o shared $(pkg-config --libs weft)
cc -Wall -Werror $(pkg-config --cflags weft) /consumer/consumer.c -o static -l:libweft.a \
  $(pkg-config --libs --static weft | sed 's/-lweft//')
ldd shared | grep -q '/libweft.so.0 '
! ldd static | grep libweft
./shared && ./static
cmake -G Ninja -S /consumer -B cmake >/dev/null && cmake --build cmake >/dev/null
./cmake/c_weft && ./cmake/cxx_static
cmake -G Ninja -S /source -B weft -DWEFT_TESTS=OFF -DWEFT_CUDA=OFF >/dev/null
weft plan /usr/share/weft/plans/single_expansion.json >/dev/null
for file in man/man1/weft.1 man/man1/weft-bench-ep.1 bash-completion/completions/weft zsh/site-functions/_weft \
  fish/vendor_completions.d/weft.fish doc/libweft0/copyright doc/weft/copyright; do
  [ -s /usr/share/$file ]
done
dpkg --purge $(dpkg-query -W -f '${Package}\n' '*weft*') >/dev/null
ldconfig -p | grep libweft && exit 1
find / -xdev -path /source -prune -o -path /usr/share/weft/sbom.spdx -prune -o -name '*weft*' ! -path '/tmp/*' \
  ! -path /usr/share/weft -print
"""


def setUpModule():
    global podman, packages, spare, images
    containers.require()
    podman = containers.Podman()
    unittest.addModuleCleanup(podman.close)
    spare = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(spare.cleanup)
    packages = containers.make_packages(BUILD, spare.name)
    makers = concurrent.futures.ThreadPoolExecutor(2)  # most of the time goes into dpkg, which has one thread
    unittest.addModuleCleanup(makers.shutdown)
    images = {tag: makers.submit(build, kind, tag) for kind, tag in (("dev", DEVELOPMENT), ("runtime", RUNTIME))}


def build(kind, tag, status=0):
    """Runs build.sh; returns what it said."""
    return podman("--engine", podman.command, "--base", containers.BASE, "--packages", spare.name, "--tag", tag,
                  "--with", "--network host", kind, command=BUILDER, status=status)


class Arguments(unittest.TestCase):
    def refused(self, status, says, *arguments):
        said = podman.try_(*arguments, command=BUILDER)
        self.assertEqual((said.returncode, said.stdout), (status, ""))
        self.assertIn(says, said.stderr)

    def test_wrong_arguments_are_refused(self):
        self.refused(2, "no image named: want runtime, cuda or dev")
        self.refused(2, "unknown argument 'small': want runtime, cuda or dev", "small")
        self.refused(2, "both dev and cuda are given", "dev", "cuda")
        self.refused(2, "--base needs a value", "dev", "--base")
        self.refused(3, "no nothing here", "--engine", "nothing", "dev")
        self.refused(3, "no packages in /var/empty", "--packages", "/var/empty", "dev")


class Runtime(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        images[RUNTIME].result()
        cls.facts = json.loads(podman("image", "inspect", RUNTIME))[0]
        saved = BUILD / "weft-image.tar"  # for the test of pods
        saved.unlink(missing_ok=True)
        podman("save", "--output", saved, RUNTIME)

    def run_(self, *arguments, options=(), status=0):
        return podman("run", "--rm", "--no-healthcheck", *ALONE, *options, RUNTIME, *arguments, status=status)

    def shell(self, script):
        return self.run_("-c", script, options=["--entrypoint", "sh"])

    def test_it_is_small(self):
        print(f"the runtime image has {self.facts['Size'] / 1e6:.0f} MB")
        self.assertLessEqual(self.facts["Size"], LARGEST)

    def test_its_labels_say_what_it_is(self):
        labels = self.facts["Config"]["Labels"]
        version = re.search(r"^project\(weft VERSION ([\d.]+)", SOURCES.read_text(), re.M)
        for name, value in (("title", "weft"), ("licenses", "Apache-2.0"), ("version", version[1])):
            self.assertEqual(labels[f"org.opencontainers.image.{name}"], value)
        for name in ("description", "revision", "vendor"):
            self.assertTrue(labels[f"org.opencontainers.image.{name}"])

    def test_nobody_in_it_is_root(self):
        self.assertEqual(self.facts["Config"]["User"], "65532:65532")
        self.assertRegex(self.shell("id"), r"^uid=65532\(weft\)")
        self.assertEqual(self.shell("find / -xdev -type f -perm /6000 2>/dev/null; true"), "")

    def test_its_sbom_has_every_package(self):
        parts = self.shell("cat /usr/share/weft/sbom.spdx").split("\n\n")
        self.assertTrue(parts[0].startswith("SPDXVersion: SPDX-2.3\nDataLicense: CC0-1.0\n"))
        rows = [dict(line.split(": ", 1) for line in part.splitlines()) for part in parts[1:]]
        found = {row["PackageName"]: row["PackageVersion"] for row in rows}
        there = dict(line.split() for line in self.shell("dpkg-query -W -f '${Package} ${Version}\\n'").splitlines())
        self.assertEqual(found, there)
        self.assertIn("libweft0-plugin-ucx", found)
        self.assertEqual(len({row["SPDXID"] for row in rows}), len(rows))
        for row in rows:
            self.assertRegex(row["SPDXID"], r"^SPDXRef-[A-Za-z0-9.-]+$")
            self.assertEqual(row["Relationship"], f"SPDXRef-DOCUMENT DESCRIBES {row['SPDXID']}")
            self.assertIn(f"pkg:deb/debian/{row['PackageName']}@", row["ExternalRef"])

    def test_doctor_finds_the_plug_ins_and_what_is_wrong(self):
        said = self.run_("doctor", options=ROOM)
        self.assertRegex(said, r"(?m)^ok +ucx ")
        self.assertRegex(said, r"(?m)^ok +libfabric ")
        self.assertRegex(self.run_("doctor", status=3), r"(?m)^problem +shm ")
        transports = json.loads(self.run_("info", "--json"))["transports"]
        self.assertLessEqual({"ucx", "ofi", "shm"}, {row["name"] for row in transports})

    def test_a_plan_runs_for_any_user_without_rights(self):
        """As the restricted profile of Kubernetes has it: no capability, nothing writable but what is mounted."""
        said = self.run_("elastic", "--num-tokens", "16", options=[*ROOM, *RESTRICTED, "--user", "12345:0"])
        self.assertRegex(said, r"passed \d+ phases")

    def test_a_store_is_healthy_and_ends_on_request(self):
        """Without room in /dev/shm the check says so."""
        for name, options, health in (("roomy", ROOM, 0), ("narrow", (), 1)):
            podman("run", "--detach", "--name", name, *ALONE, *options, RUNTIME, "serve", "--insecure")
            podman("healthcheck", "run", name, status=health)
            podman("stop", "--time", "20", name)
            self.assertEqual(podman("inspect", "--format", "{{.State.ExitCode}}", name).strip(), "0")

    def test_the_guide_is_right(self):
        """Its block of commands that run containers, with the image under the name that it has there."""
        podman("tag", RUNTIME, "localhost/weft:runtime")
        guide = (containers.SOURCE / "docs/guide/install.md").read_text()
        blocks = [block for block in re.findall(r"(?s)```sh\n(.*?)```", guide) if "podman run" in block]
        self.assertEqual(len(blocks), 1)
        said = subprocess.run(["sh", "-ec", blocks[0]], cwd=containers.SOURCE, capture_output=True, text=True,
                              env={**podman.environment, "PATH": f"{podman.folder}:{podman.environment['PATH']}"},
                              timeout=containers.DEADLINE_S)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertEqual(len(re.findall(r"passed \d+ phases", said.stdout)), 2)
        self.assertIn("PackageName: libweft0\n", said.stdout)

    def test_an_image_for_gpus_wants_their_plug_in(self):
        if any("plugin-cuda" in package.name for package in packages):
            self.skipTest("the plug-in is there")
        self.assertIn("no package libweft0-plugin-cuda", build("cuda", "localhost/weft:cuda", status=3))


class Development(unittest.TestCase):
    def test_packages_serve_a_compiler_and_go_away(self):
        images[DEVELOPMENT].result()
        said = podman("run", "--rm", *ALONE, "--volume", f"{containers.SOURCE}:/source:ro", "--volume",
                      f"{containers.SOURCE}/tests/install/consumer:/consumer:ro", DEVELOPMENT, "sh", "-c", USE)
        self.assertRegex(said, r"^(weft \d+\.\d+\.\d+\n){4}$", "what is left after the packages are removed")

    def test_a_plug_in_is_a_package_of_its_own(self):
        names = {package.name.split("_")[0] for package in packages}
        self.assertLessEqual({"weft", "libweft0", "libweft-dev"}, names)
        for package in packages:
            fields = subprocess.run(["dpkg-deb", "-f", package], capture_output=True, text=True, check=True).stdout
            if "plugin-" not in package.name:
                self.assertNotRegex(fields, r"(?m)^Depends:.*(libucx0|libfabric1)")
            if "plugin-ucx" in package.name:
                self.assertRegex(fields, r"(?m)^Depends:.*libucx0")


if __name__ == "__main__":
    unittest.main(verbosity=2)
