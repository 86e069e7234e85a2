#!/usr/bin/env python3
"""deploy/manifests/ equals what the chart renders now, is valid, and contains nothing that only Helm understands."""
import os
import pathlib
import subprocess
import tempfile

from chart import HELM, ROOT, VERSIONS, judge, main, yaml

FOLDER = ROOT / "deploy/manifests"
SCRIPT = ROOT / "deploy/scripts/make-manifests.sh"


def files_are_those_that_the_script_makes():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([SCRIPT, folder], env={**os.environ, "HELM": str(HELM)}, check=True, timeout=120)
        made = {path.name: path.read_text() for path in pathlib.Path(folder).iterdir()}
    there = {path.name: path.read_text() for path in FOLDER.glob("*.yaml")}
    assert made.keys() == there.keys(), (made.keys(), there.keys())
    for name, text in made.items():
        assert there[name] == text, f"{name} is not what the chart renders: run deploy/scripts/make-manifests.sh"


def files_are_valid_without_helm():
    for path in FOLDER.glob("*.yaml"):
        documents = [d for d in yaml.safe_load_all(path.read_text()) if d]
        assert documents and "namespace" not in str([d["metadata"] for d in documents])
        for document in documents:
            assert "elm" not in str(document["metadata"]), document["metadata"]
            for version in VERSIONS:
                judge(document, version)


main({test.__name__: test for test in (files_are_those_that_the_script_makes, files_are_valid_without_helm)})
