"""Where the tests of nixl_ep and deep_ep look for modules."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
if importlib.util.find_spec("weft_compat_ep") is None:  # not installed: the modules beside the tests
    sys.path.insert(0, str(HERE.parents[1]))
sys.path.insert(0, str(HERE))
