"""``python -m weft`` is the tool."""

from ._tool import main

if __name__ == "__main__":  # what documents or checks packages imports all of their modules
    main()
