"""python -m weft_compat: prints a line for each module name that weft-compat takes. Status 1: an original is
installed."""

from __future__ import annotations

import pathlib
import sys

from . import ORIGINALS, installed_original


def main() -> int:
    """Prints each name, and the distribution that provides it."""
    clash = False
    for module in ORIGINALS:
        original = installed_original(module)
        ours = _ours(module)
        clash = clash or (ours and original is not None)
        print(f"{module}: {'of weft-compat' if ours else 'not in this version of weft-compat'}"
              f"{f'; the original is installed too: {original}' if original else ''}")
    return 1 if clash else 0


def _ours(module: str) -> bool:
    """Whether the module beside this package belongs to this distribution: such a module calls take_name()."""
    file = pathlib.Path(__file__).parents[1] / module / "__init__.py"
    return file.exists() and f'take_name("{module}")' in file.read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
