"""A cluster of one host for the chart's pods: podman runs them on a network with names.

The pods run the tool of the tested build in the image. podman accepts only Pods and ConfigMaps. So this file takes pod
templates out of their Jobs and tokens out of their Secrets, and gives pods the names of headless Services that select
them as aliases.
"""
import base64
import copy
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from chart import of_kind, render, templates, yaml

BUILT = pathlib.Path(os.environ["WEFT"]).parent  # the folder of the tool and of its plug-ins
SAVED = BUILT / "weft-image.tar"
PLACE = "/opt/weft"
PATH = f"{PLACE}:/usr/bin:/bin"
IMAGE = os.environ.get("WEFT_TEST_IMAGE", "localhost/weft:test")
loaded = False
LIMITS = '[containers]\ndefault_ulimits = ["nofile=4096:4096", "nproc=10000:10000"]\n'


def podman(*arguments, check=True, timeout=120, **more):
    done = subprocess.run(["podman", "--runtime", "runc", *map(str, arguments)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=timeout, check=False, **more)
    assert done.returncode == 0 or not check, f"podman {arguments}: {done.stderr}"
    return done


def need():
    if os.geteuid() or not shutil.which("podman") or not shutil.which("runc"):
        print("skipped: needs root, podman and runc (scripts/install-deps.sh --test)")
        sys.exit(77)
    with tempfile.NamedTemporaryFile("w", suffix=".conf", prefix="weft-test-", delete=False) as conf:
        conf.write(LIMITS)
    os.environ["CONTAINERS_CONF"] = conf.name
    if podman("image", "exists", IMAGE, check=False).returncode and not load():
        os.unlink(conf.name)
        print(f"skipped: there is no image {IMAGE} here (deploy/images/build.sh --tag {IMAGE} runtime makes it)")
        sys.exit(77)
    trial = podman("run", "--rm", "--no-healthcheck", "-v", f"{BUILT}:{PLACE}:ro", "--entrypoint",
                   f"{PLACE}/weft", IMAGE, "--version", check=False)
    if trial.returncode:
        os.unlink(conf.name)
        print(f"skipped: podman does not run the tool in {IMAGE} here: {trial.stderr.strip().splitlines()[-1]}")
        sys.exit(77)


def load():
    """Loads the image that the test of images has saved. False: there is none, or it does not load."""
    global loaded
    loaded = SAVED.exists() and podman("load", "--input", SAVED, check=False).returncode == 0
    return loaded


def done():
    if loaded:
        podman("image", "rm", "--force", IMAGE, check=False)
    pathlib.Path(os.environ["CONTAINERS_CONF"]).unlink()


class Cluster:
    """A podman network with the pods of releases, which have names."""
    numbers = itertools.count()

    def __init__(self):
        self.name = f"weft-test-{os.getpid()}-{next(Cluster.numbers)}"
        self.files, self.volumes, self.aliases = {}, set(), {}
        self.folder = tempfile.TemporaryDirectory(prefix="weft-test-pods-")

    def __enter__(self):
        podman("network", "create", self.name)
        return self

    def __exit__(self, *unused):
        for name in self.files:
            podman("pod", "rm", "-f", "-t", "0", name, check=False)
        podman("network", "rm", "-f", self.name, check=False)
        for volume in self.volumes:
            podman("volume", "rm", "-f", volume, check=False)
        self.folder.cleanup()

    def make(self, release, values, role=None):
        """Makes the pods of a release, with role "test" the pods of `helm test`, and starts none. Returns their names,
        masters last."""
        values = {"image": IMAGE, "imagePullPolicy": "Never", **values}
        documents = render(values=values, name=release)
        maps = of_kind(documents, "ConfigMap")
        self.volumes |= {m["metadata"]["name"] for m in maps}
        made = []
        for document in documents:
            hook = "helm.sh/hook" in document["metadata"].get("annotations", {})
            for template, job in templates(document):
                if hook == (role == "test"):
                    count = job["completions"] if job else 1
                    made += [self.make_pod(document, template, number, documents) for number in range(count)]
        return sorted(made, key=lambda name: "master" in name)

    def make_pod(self, document, template, number, documents):
        template = copy.deepcopy(template)
        role = template["metadata"]["labels"]["role"]
        name = f"{document['metadata']['name']}-{role}-{number}"
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {**template["metadata"], "name": name},
               "spec": template["spec"]}
        pod["spec"].setdefault("volumes", []).append({"name": "built", "hostPath": {"path": str(BUILT)}})
        inside = pod["spec"]["containers"][0]
        inside["volumeMounts"].append({"name": "built", "mountPath": PLACE, "readOnly": True})
        more = [{"name": "JOB_COMPLETION_INDEX", "value": str(number)}, {"name": "PATH", "value": PATH}]
        inside["env"] = [*(self.plain(e, documents) for e in inside["env"]), *more]
        inside.pop("ports", None)  # podman would open them on this host
        self.keep_apart(pod["spec"], name)
        path = pathlib.Path(self.folder.name, f"{name}.yaml")
        path.write_text(yaml.safe_dump_all([*of_kind(documents, "ConfigMap"), pod]))
        self.files[name] = path
        self.aliases[name] = [s["metadata"]["name"] for s in of_kind(documents, "Service")
                              if s["spec"]["selector"].items() <= pod["metadata"]["labels"].items()]
        if "subdomain" in pod["spec"]:
            self.aliases[name] = [f"{document['metadata']['name']}-{number}.{pod['spec']['subdomain']}"]
        self.play(name)
        return name

    def play(self, name):
        """Makes the pod from its file, and connects it to this network with all its names."""
        podman("kube", "play", "--start=false", "--network", self.name, self.files[name])
        infra = podman("pod", "inspect", name, "--format", "{{.InfraContainerID}}").stdout.strip()
        podman("network", "disconnect", self.name, infra)
        podman("network", "connect", *[f"--alias={a}" for a in self.aliases[name]], self.name, infra)

    def start_successor(self, name):
        """Replaces a killed pod by another pod of the same template, as a Job does."""
        podman("pod", "rm", "-f", "-t", "0", name)
        self.play(name)
        self.start(name)

    def keep_apart(self, spec, name):
        """Gives each pod its own volumes for emptyDir, as in Kubernetes; podman would share those of the same name."""
        own = {v["name"]: f"{self.name}-{name}-{v['name']}" for v in spec["volumes"] if "emptyDir" in v}
        for one in [*spec["volumes"], *(m for c in spec["containers"] for m in c["volumeMounts"])]:
            one["name"] = own.get(one["name"], one["name"])
        self.volumes |= set(own.values())

    @staticmethod
    def plain(variable, documents):
        if "valueFrom" not in variable:
            return variable
        wanted = variable["valueFrom"]["secretKeyRef"]
        secret = [s for s in of_kind(documents, "Secret") if s["metadata"]["name"] == wanted["name"]][0]
        return {"name": variable["name"], "value": base64.b64decode(secret["data"][wanted["key"]]).decode()}

    def environment(self, name):
        pod = list(yaml.safe_load_all(self.files[name].read_text()))[-1]
        return pod["spec"]["containers"][0]["env"]

    @staticmethod
    def start(*names):
        for name in names:
            podman("pod", "start", name)

    @staticmethod
    def status(name, seconds=120):
        """Waits for the end of a pod's container; returns its exit status."""
        try:
            return int(podman("wait", f"{name}-weft", timeout=seconds).stdout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{name} has not ended: {Cluster.log(name)}") from None

    @staticmethod
    def log(name):
        said = podman("logs", f"{name}-weft")
        return said.stdout + said.stderr

    @staticmethod
    def results(name):
        return json.loads(podman("logs", f"{name}-weft").stdout)

    @staticmethod
    def wait_for(name, text, seconds=120):
        end = time.monotonic() + seconds
        while text not in Cluster.log(name):
            assert time.monotonic() < end, f"{name} has not said '{text}': {Cluster.log(name)}"
            time.sleep(0.1)

    @staticmethod
    def pid(name):
        return podman("inspect", f"{name}-weft", "--format", "{{.State.Pid}}").stdout.strip()
