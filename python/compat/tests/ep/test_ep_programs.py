"""The habits of programs that use deep_ep and nixl_ep: ranks that call as each program does, with its keyword
arguments, on CPU tensors, and on GPUs where there are two, against a plain reference."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from ep_world import run  # noqa: E402


@pytest.mark.parametrize("program", ["vllm_low_latency", "vllm_high_throughput", "vllm_second_version", "vllm_nixl",
                                     "sglang_both_modes", "sglang_second_version", "sglang_nixl", "megatron",
                                     "lightllm"])
def test_program(program: str, device: str) -> None:
    run("ep_program_ranks", program, 2, device=device)
