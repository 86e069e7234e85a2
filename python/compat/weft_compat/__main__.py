"""python -m weft_compat: a line for each module name that weft-compat takes. Status 1: an original is installed."""

from __future__ import annotations

import pathlib
import sys

from . import ORIGINALS, installed_original


def main() -> int:
    """Prints the names, and who has them."""
    clash = False
    for module in ORIGINALS:
        original = installed_original(module)
        ours = _ours(module)
        clash = clash or (ours and original is not None)
        print(f"{module}: {'of weft-compat' if ours else 'not in this version of weft-compat'}"
              f"{f'; the original is installed too: {original}' if original else ''}")
    return 1 if clash else 0


def _ours(module: str) -> bool:
    """Whether the module beside this package is of this distribution: it asks for its name."""
    file = pathlib.Path(__file__).parents[1] / module / "__init__.py"
    return file.exists() and f'take_name("{module}")' in file.read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
