"""``python -m weft`` is the tool."""

from ._tool import main

main()
