"""Where the tests of nixl_ep and deep_ep look for modules."""

from __future__ import annotations

import os
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
for folder in (HERE, HERE.parents[1]):  # the modules beside the tests go before installed ones
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
