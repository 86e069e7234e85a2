"""Where the tests of nixl_ep and deep_ep look for modules, and the devices on which their ranks run."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).parent
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
if importlib.util.find_spec("weft_compat_ep") is None:  # not installed: the modules beside the tests
    sys.path.insert(0, str(HERE.parents[1]))
sys.path.insert(0, str(HERE))


@pytest.fixture(params=["cpu", "cuda"])
def device(request: pytest.FixtureRequest) -> str:
    """Where the tensors of a test are: on the host, then on a GPU of each rank."""
    from ep_world import ranks_on_gpus

    if request.param == "cuda" and ranks_on_gpus() < 2:
        pytest.skip("ranks on GPUs take two of them, or WEFT_TEST_RANKS_OF_GPU=2")
    return str(request.param)
