"""Random calls of the buffers of `deep_ep` and `nixl_ep` with right and wrong arguments: an exception that says what is
wrong, never a crash."""

from __future__ import annotations

import os
import random

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from ep_world import run  # noqa: E402


@pytest.mark.parametrize("kind", ["low latency", "high throughput", "elastic", "nixl_ep", "nixl_ep, high throughput"])
def test_random_calls(kind: str) -> None:
    seed = int(os.environ.get("WEFT_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
    run("ep_random_ranks", "calls", 1, kind, seed)
