"""Code that all modules of the distribution `weft-compat` share: they refuse to replace an installed original.

`python -m weft_compat` prints which module names are taken, and whether an original is installed beside them.
"""

from __future__ import annotations

import importlib.metadata
import os

ORIGINALS: dict[str, tuple[str, ...]] = {
    "nixl": ("nixl", "nixl-cu12", "nixl-cu13"),
    "nixl_ep": ("nixl-ep", "nixl-ep-cu12", "nixl-ep-cu13"),
    "deep_ep": ("deep-ep",),
}
"""Names of modules, and the distributions that contain the original."""

VARIABLE = "WEFT_COMPAT"
"""The environment variable that lets Weft take a name although the original is installed: ``WEFT_COMPAT=shadow``."""


def installed_original(module: str) -> str | None:
    """The installed distribution, with its version, that has the original of a module; None: there is none."""
    for name in ORIGINALS[module]:
        try:
            return f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def take_name(module: str) -> None:
    """Each module calls this at its import. Raises `ImportError` if the original is installed and the environment does
    not allow to shadow it."""
    setting = os.environ.get(VARIABLE, "")
    if setting not in ("", "shadow"):
        raise ImportError(f"{VARIABLE}={setting}: want {VARIABLE}=shadow, or no such variable")
    if setting == "shadow":
        return
    original = installed_original(module)
    if original is not None:
        raise ImportError(
            f"weft-compat does not shadow {original}, which is installed here: set {VARIABLE}=shadow to import "
            f"{module} of Weft, or run 'pip uninstall weft-compat' and reinstall {original.split()[0]}, whose files of "
            "the same names pip has overwritten"
        )
