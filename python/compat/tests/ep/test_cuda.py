"""What only GPUs have: graphs, streams, a steady state without allocations, kernels that helpers look for by name."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from ep_world import ranks_on_gpus, run


@pytest.mark.parametrize("what", ["graph", "streams", "memory", "permutes", "kernels", "usual_sizes",
                                  "many_tokens"])
def test_ranks(what: str) -> None:
    if ranks_on_gpus() < 2:
        pytest.skip("ranks on GPUs take two of them, or WEFT_TEST_RANKS_OF_GPU=2")
    for out in run("ep_cuda_ranks", what, 2, device="cuda"):
        print(out)
