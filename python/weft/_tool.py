"""The console command ``weft``: runs the tool in this package."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    """Replaces this process by the tool, with the same arguments."""
    tool = Path(__file__).with_name("weft-tool")
    try:
        os.execv(tool, ["weft", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"weft: cannot run {tool}: {error.strerror}")
