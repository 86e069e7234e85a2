"""`deep_ep.utils`, and what `deep_ep` has beside its operations."""

from __future__ import annotations

import importlib
import subprocess
import sys
import time

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import deep_ep  # noqa: E402
from deep_ep.utils import gate, testing  # noqa: E402
from deep_ep.utils import math as arithmetic  # noqa: E402
from weft_compat_ep._events import NO_EVENT  # noqa: E402


def test_casts_to_fp8_and_back() -> None:
    x = torch.randn((5, 640), generator=torch.Generator().manual_seed(1)).to(torch.bfloat16)
    x[2] = 0
    for rounded, ue8m0 in ((False, False), (True, False), (True, True)):
        values, scales = arithmetic.per_token_cast_to_fp8(x, rounded, ue8m0)
        assert scales.shape == ((5, 2) if ue8m0 else (5, 5))
        back = arithmetic.per_token_cast_back(values, scales)
        assert torch.allclose(back.float(), x.float(), rtol=0.07, atol=0.01) and not back[2].any()
        assert arithmetic.calc_diff(back, x) < (9e-4 if rounded else 5e-4)
        if ue8m0:
            plain = arithmetic.per_token_cast_to_fp8(x, True)[1]
            exponents = scales.view(torch.uint8)[:, :5].float() - 127
            assert torch.equal(torch.exp2(exponents), plain) and not scales.view(torch.uint8)[:, 5:].any()
        values, scales = arithmetic.per_token_cast_to_fp8(x[:0], rounded, ue8m0)  # a rank without tokens
        assert values.shape == (0, 640) and scales.shape == ((0, 2) if ue8m0 else (0, 5))
    values, scales = arithmetic.per_token_cast_to_fp8(x[:, :600])  # the last block is of 88 values
    assert values.shape == (5, 600) and scales.shape == (5, 5) and values.is_contiguous()
    assert torch.allclose(arithmetic.per_token_cast_back(values, scales).float(), x[:, :600].float(), rtol=0.07,
                          atol=0.01)
    assert arithmetic.per_token_cast_back(x[:0].to(torch.float8_e4m3fn), torch.zeros((0, 5))).shape == (0, 640)


def test_numbers() -> None:
    assert arithmetic.ceil_div(9, 4) == 3 and arithmetic.align(9, 4) == 12 and arithmetic.align(8, 4) == 8
    one = torch.arange(7, dtype=torch.int16)
    assert arithmetic.hash_tensor(one) == arithmetic.hash_tensor(one.clone()) != arithmetic.hash_tensor(one + 1)
    assert arithmetic.calc_diff(one, one) == 0
    assert arithmetic.hash_tensors(one, (one, None), [one + 1]) == arithmetic.hash_tensor(one + 1)
    assert arithmetic.count_bytes(one, None, (one, [one.to(torch.int64)])) == 14 + 14 + 56
    assert arithmetic.safe_div(0, 0) == 0 and arithmetic.safe_div(3, 2) == 1.5
    with pytest.raises(ZeroDivisionError):
        arithmetic.safe_div(1, 0)
    scores = arithmetic.create_grouped_scores(torch.ones((2, 6)), torch.tensor([[0, 2], [1, 1]]), 3)
    assert scores.tolist() == [[1, 1, 0, 0, 1, 1], [0, 0, 1, 1, 0, 0]]
    assert arithmetic.create_grouped_scores(scores[:0], torch.zeros((0, 2), dtype=torch.int64), 3).shape == (0, 6)
    ranks = torch.tensor([[3, 1, 3, -1], [0, 0, 2, 2], [-1, -1, -1, -1]])
    arithmetic.inplace_unique(ranks, 4)
    assert ranks.tolist() == [[3, 1, -1, -1], [0, 2, -1, -1], [-1, -1, -1, -1]]


@pytest.mark.parametrize("precise", [True, False])
@pytest.mark.parametrize("ratio", [1.0, 2.0])
def test_unbalanced_scores(ratio: float, precise: bool) -> None:
    tokens, ranks, of_rank, topk = 4096, 8, 4, 4
    scores = gate.get_unbalanced_scores(tokens, ranks * of_rank, ranks, topk, ratio, precise)
    assert scores.shape == (tokens, ranks * of_rank) and scores.dtype == torch.float32
    owners = scores.topk(topk, 1).indices // of_rank
    sent = torch.zeros((tokens, ranks), device=scores.device).scatter_(1, owners, 1.0).sum(0)
    assert abs(float(sent[0] / sent[1:].mean()) / ratio - 1) < (0.01 if precise else 0.1)
    assert float(sent[1:].max() / sent[1:].min()) < (1.01 if precise else 1.2)
    assert gate.get_unbalanced_scores(0, 16, 4, 2, ratio, precise).shape == (0, 16)
    assert gate.get_unbalanced_scores(3, 16, 1, 2, ratio, precise).shape == (3, 16)
    if precise:
        with pytest.raises(ValueError, match="at least"):
            gate.get_unbalanced_scores(8, 8, 8, 8, 2.0, True)
    with pytest.raises(ValueError, match="num_experts 9"):
        gate.get_unbalanced_scores(8, 9, 8, 1, ratio, precise)


def test_timing() -> None:
    calls = []
    mean, least, most = testing.bench(lambda: (calls.append(1), time.sleep(0.001)), 2, 3,
                                      post_fn=lambda: calls.append(2))
    assert 0.001 <= least <= mean <= most and calls.count(1) == 6 and calls.count(2) == 4
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="there is none"):
            testing.bench_kineto(lambda: None, "dispatch")


def test_events() -> None:
    """An event calls its hook once, at the next wait, which answers what the hook does; the end of `with` waits."""
    event = deep_ep.EventOverlap(deep_ep.EventHandle(), (torch.ones(1),))
    event.register_hook_after_wait(lambda: 5)
    with pytest.raises(RuntimeError, match="has a hook"):
        event.register_hook_after_wait(lambda: 6)
    assert event.current_stream_wait() == 5 and event.wait() is None
    done: list[int] = []
    event.register_hook_after_wait(lambda: done.append(1))
    with event(release_handle=True):
        assert not done
    assert done == [1] and event.event is None and event.extra_tensors is None
    with pytest.raises(RuntimeError, match="async_finish=True"):
        NO_EVENT.register_hook_after_wait(lambda: None)


def test_modules() -> None:
    """The names of the original's modules lead to the same classes."""
    for name, classes in (("buffers.legacy", ["Buffer", "Config"]), ("buffers.elastic", ["ElasticBuffer", "EPHandle"]),
                          ("buffers.ep", ["EPBuffer", "EPHandle"]),
                          ("buffer", ["Buffer"]), ("utils.event", ["EventHandle", "EventOverlap"])):
        module = importlib.import_module(f"deep_ep.{name}")
        assert all(getattr(module, one) is getattr(deep_ep, one) for one in classes)
    assert int(deep_ep.__version__.split(".")[0]) == 2
    subprocess.run([sys.executable, "-c", "import deep_ep; assert deep_ep.utils.math.align(9, 4) == 12; "
                    "deep_ep.utils.envs.init_seed, deep_ep.utils.event.EventOverlap"], check=True)


def test_static_calls() -> None:
    sms = deep_ep.Buffer.num_sms
    try:
        deep_ep.Buffer.set_num_sms(16)
        assert deep_ep.Buffer.get_dispatch_config(8).num_sms == 16 == deep_ep.Buffer.get_combine_config(8).num_sms
        with pytest.raises(ValueError, match="even"):
            deep_ep.Buffer.set_num_sms(3)
    finally:
        deep_ep.Buffer.set_num_sms(sms)
    config = deep_ep.Config(24, 6, 256, 6, 128)
    assert config.get_nvl_buffer_size_hint(14336, 8) == 7 * (64 << 20)
    assert config.get_rdma_buffer_size_hint(14336, 8) == 0
    assert deep_ep.Buffer.is_sm90_compiled() and deep_ep.topk_idx_t == torch.int64
    with deep_ep.Buffer.capture() as event:
        event.current_stream_wait()
    with pytest.raises(ValueError, match="group"):
        deep_ep.Buffer(None)
