"""What only GPUs have: graphs, streams, a steady state without allocations, kernels that helpers look for by name."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from ep_world import run  # noqa: E402


@pytest.mark.parametrize("what", ["graph", "streams", "memory", "kernels", "usual_sizes", "many_tokens"])
def test_ranks(what: str) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("ranks on GPUs take two of them")
    for out in run("ep_cuda_ranks", what, 2, device="cuda"):
        print(out)
