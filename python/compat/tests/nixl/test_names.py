"""The name nixl is not taken from an installed original, unless somebody says so."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

import weft_compat


def python(arguments: list[str], path: pathlib.Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs Python with a folder in front of the others; it ends by itself."""
    where = os.pathsep.join([str(path), str(pathlib.Path(weft_compat.__file__).parents[1]),
                             os.environ.get("PYTHONPATH", "")])
    return subprocess.run([sys.executable, *arguments], env={**os.environ, "PYTHONPATH": where, **variables},
                          capture_output=True, text=True, timeout=60, check=False, cwd=path)


@pytest.mark.parametrize("name", ["nixl", "nixl_cu12", "nixl_cu13"])
def test_an_original_is_not_shadowed(tmp_path: pathlib.Path, name: str) -> None:
    assert python(["-c", "import nixl"], tmp_path).returncode == 0
    installed = tmp_path / f"{name}-1.4.1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.4.1\n")
    refused = python(["-c", "import nixl"], tmp_path)
    assert refused.returncode == 1 and "does not shadow nixl" in refused.stderr and "1.4.1" in refused.stderr
    assert python(["-c", "import nixl"], tmp_path, WEFT_COMPAT="shadow").returncode == 0
    wrong = python(["-c", "import nixl"], tmp_path, WEFT_COMPAT="yes")
    assert wrong.returncode == 1 and "want WEFT_COMPAT=shadow" in wrong.stderr
    listed = python(["-m", "weft_compat"], tmp_path)
    assert listed.returncode == 1 and "nixl: of weft-compat; the original is installed too" in listed.stdout


def test_names_are_listed(tmp_path: pathlib.Path) -> None:
    listed = python(["-m", "weft_compat"], tmp_path)
    assert listed.returncode == 0 and listed.stdout.startswith("nixl: of weft-compat\n")


def test_a_level_of_the_log(tmp_path: pathlib.Path) -> None:
    shown = "import logging, nixl; print(logging.getLogger('nixl').level)"
    assert python(["-c", shown], tmp_path, NIXL_LOG_LEVEL="debug").stdout == "10\n"
    wrong = python(["-c", shown], tmp_path, NIXL_LOG_LEVEL="loud")
    assert wrong.stdout == "0\n" and "LOUD is no level" in wrong.stderr


def test_the_layer_below_under_its_other_name() -> None:
    """LMCache and SGLang import the bindings from `nixl._api`."""
    import nixl._bindings
    from nixl._api import nixlBind

    assert nixlBind is nixl._bindings
