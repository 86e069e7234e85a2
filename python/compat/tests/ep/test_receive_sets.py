"""The tensors that low-latency dispatches are received into: who still has one never sees it change, and those that
nobody has serve again."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Iterator
from typing import Any, Callable

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import weft  # noqa: E402

from weft_compat_ep import _receive_sets  # noqa: E402
from weft_compat_ep._arguments import Sizes  # noqa: E402
from weft_compat_ep._receive_sets import FORGET_AFTER, MOST_SETS, STORAGE_COUNT, ReceiveSets  # noqa: E402

SIZES = Sizes(4, 512, 2, 3, 2, "host")
CPU = torch.device("cpu")
KINDS = ("bf16", "fp8", "fp8_ue8m0")

pytestmark = pytest.mark.skipif(STORAGE_COUNT == 0, reason="this torch does not say who has a tensor")


@pytest.fixture(scope="module")
def rank() -> Iterator[weft.ep.Rank]:
    with weft.Store.local() as store, weft.ep.Rank(store, rank=0, founders=[0], capacity=2, max_tokens=4, hidden=512,
                                                   topk=2, experts_per_rank=3, mode="latency") as one:
        yield one


@pytest.fixture(params=[*KINDS, "fp8, hidden"])
def sets(request: pytest.FixtureRequest, rank: weft.ep.Rank, monkeypatch: pytest.MonkeyPatch) -> ReceiveSets:
    """Of each kind; and of fp8 where torch shows nobody the memory of such tensors, as older ones do."""
    kind, _, hidden = request.param.partition(", ")
    if hidden:
        monkeypatch.setattr(_receive_sets, "shows_memory", lambda dtype: False)
    return ReceiveSets(rank, SIZES, kind, CPU)


def addresses(one: _receive_sets.ReceiveSet) -> list[int]:
    return [tensor.data_ptr() for tensor in one.tensors]


def test_used_again(sets: ReceiveSets) -> None:
    first = addresses(sets.take())
    for _ in range(5):
        assert addresses(sets.take()) == first
    assert sets.made == 1


def kept_by_graph(tensor: torch.Tensor) -> Any:
    """A node of autograd's graph has the tensor itself, no object of Python has."""
    factor = torch.ones(1, dtype=tensor.dtype, requires_grad=True)
    return tensor * factor


HOLDERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "name": lambda tensor: tensor,
    "list": lambda tensor: [tensor],
    "view": lambda tensor: tensor.view(-1),
    "slice": lambda tensor: tensor[:1],
    "detached": lambda tensor: tensor.detach(),
    "bytes": lambda tensor: tensor.view(torch.uint8) if tensor.is_contiguous() else tensor[:1],
    "strided": lambda tensor: tensor.as_strided((1,), (1,), 0),
    "shallow copy": lambda tensor: copy.copy(tensor if tensor.element_size() > 1 else tensor.view(torch.uint8)),
    "data": lambda tensor: tensor.data,
    "storage": lambda tensor: tensor.untyped_storage(),
    "alias": lambda tensor: torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage()),
    "closure": lambda tensor: lambda: tensor,
    "generator": lambda tensor: (one for one in tensor),
    "weak reference": weakref.ref,
}


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("which", range(4))
def test_held(sets: ReceiveSets, holder: str, which: int) -> None:
    """Each way in which a program can have one of the tensors."""
    one = sets.take()
    assert one.is_idle()
    held = HOLDERS[holder](one.tensors[which])
    assert not one.is_idle() and sets.take() is not one
    del held
    assert one.is_idle()


@pytest.mark.parametrize("library", ["capsule", "tensor by DLPack", "weft", "numpy", "memoryview"])
def test_other_libraries(rank: weft.ep.Rank, library: str) -> None:
    """An array of another library has the memory, though nobody has the tensor."""
    ways: dict[str, Callable[[torch.Tensor], Any]] = {
        "capsule": torch.utils.dlpack.to_dlpack, "tensor by DLPack": lambda counts: torch.from_dlpack(counts),
        "weft": weft.Buffer, "numpy": lambda counts: counts.numpy(),
        "memoryview": lambda counts: memoryview(counts.numpy())}
    one = ReceiveSets(rank, SIZES, "fp8", CPU).take()
    held = ways[library](one.tensors[1])
    assert not one.is_idle()
    del held
    assert one.is_idle()


def test_autograd(rank: weft.ep.Rank) -> None:
    """bf16 rows that a derivative needs, which no object of Python has; and rows that are a leaf of a graph."""
    one = ReceiveSets(rank, SIZES, "bf16", CPU).take()
    result = kept_by_graph(one.tensors[0])
    assert not one.is_idle()
    del result
    assert one.is_idle()
    one.tensors[0].requires_grad_()
    assert not one.is_idle()


def test_changed(sets: ReceiveSets) -> None:
    """Tensors that were changed serve no other dispatch: an attribute, a shape, other memory."""
    changes: list[Callable[[torch.Tensor], Any]] = [
        lambda tensor: setattr(tensor, "mine", 1), lambda tensor: tensor.unsqueeze_(0),
        lambda tensor: tensor.set_(torch.empty(0, dtype=tensor.dtype)), lambda tensor: tensor.resize_(0),
        lambda tensor: tensor.t_() if tensor.dim() == 2 else tensor.unsqueeze_(0),
        lambda tensor: setattr(tensor, "data", torch.empty_like(tensor)),
        lambda tensor: tensor.share_memory_()]
    for change in changes:
        for which in range(4):
            one = sets.take()
            shapes = [(tensor.shape, tensor.stride()) for tensor in one.tensors]
            change(one.tensors[which])
            other = sets.take()
            assert other is not one, (change, which)
            assert [(tensor.shape, tensor.stride()) for tensor in other.tensors] == shapes
            sets.sets.clear()


def test_inference_mode(sets: ReceiveSets) -> None:
    """A tensor of inference mode is of no use to autograd."""
    with torch.inference_mode():
        one = sets.take()
        assert sets.take() is one
    assert sets.take() is not one and sets.take().tensors[0].is_inference() is False


def test_memory_that_is_taken_anew(sets: ReceiveSets, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done on a GPU, with memory of the host: it goes back to the allocator and comes from there, perhaps from
    elsewhere, and the receive knows."""
    one = sets.take()
    monkeypatch.setattr(one, "on_gpu", True)
    before, blocks = addresses(one), []
    while addresses(one) == before:
        assert len(blocks) < 100
        one.tensors[0].untyped_storage().resize_(0)
        blocks.append(torch.empty(one.sizes[0], dtype=torch.uint8))  # which takes what was given back
        assert sets.take() is one
    assert not one.into.renew() and one.is_idle()  # the receive has these addresses already
    assert one.tensors[0].untyped_storage().nbytes() == one.sizes[0] and sets.made == 1


def test_how_many(sets: ReceiveSets) -> None:
    """Few are kept; all results of a program stay as they are."""
    held = []
    for number in range(2 * MOST_SETS):
        tensors = sets.take().tensors
        tensors[1].fill_(number)
        held.append(tensors[1])
        del tensors
    assert [int(counts[0]) for counts in held] == list(range(2 * MOST_SETS))
    assert len(sets.sets) == MOST_SETS
    held.clear()
    made = sets.made
    for _ in range(10):  # two at once, as programs have them
        held = [sets.take().tensors for _ in range(2)]
        del held
    assert sets.made == made and len(sets.sets) == MOST_SETS
    for _ in range(FORGET_AFTER + 1):
        sets.take()
    assert sets.made == made and len(sets.sets) == 1
