"""Everything that include/weft/ep.h declares is reached from Python: fields, calls, values, flags.

A field has its place in Python in the table below: `Rank.dispatch:x` is a parameter, `Info.op` an attribute. One that
is new in the header fails here until it has a place, which exists, and until the extension reads or writes it: a second
table says in which file, and by which name of the struct.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from weft import ep

ROOT = Path(__file__).resolve().parents[2]
HEADER = ROOT / "include" / "weft" / "ep.h"
SOURCES = ROOT / "python" / "src" / "ep"

pytestmark = pytest.mark.skipif(not HEADER.exists(), reason="the sources of Weft are not around these tests")

# Fields that are 0, and rooms that the extension gives for lists of Python.
OWN = {"size", "reserved", "lost_cap", "missing_cap", "expert_cap", "status_size"}


def alike(place: str, *fields: str) -> dict[str, str]:
    """Fields that have their names in Python too."""
    return {field: place + field for field in fields}


PLACES: dict[str, dict[str, str]] = {
    "weft_ep_event": alike("Event.", "kind", "rank", "incarnation", "epoch", "op", "time_ns", "dropped", "detail"),
    "weft_ep_options": {
        **alike("Rank:", "store", "prefix", "founders", "transport", "listen", "host_id", "rank", "capacity",
                "max_tokens", "hidden", "topk", "experts_per_rank", "dtype", "combine_dtype", "memory", "device",
                "max_processors", "operations_per_step", "window_bytes", "mode", "max_rows", "zero_copy_bytes"),
        "num_founders": "Rank:founders", "op_timeout_ms": "Rank:op_timeout", "lease_ttl_s": "Rank:lease_ttl",
        "flags": "Rank:join_only"},
    "weft_ep_limits": alike("Limits.", "max_tokens", "max_hidden", "max_topk", "max_experts_per_rank", "max_capacity",
                            "max_cuda_ranks", "depth", "max_combines", "max_latency_tokens", "min_processors"),
    "weft_ep_change_args": {**alike("Rank.change:", "add", "remove"), "num_add": "Rank.change:add",
                            "num_remove": "Rank.change:remove", "flags": ""},
    "weft_ep_dispatch_args": {
        **alike("Rank.dispatch:", "x", "scales", "topk_idx", "topk_weights", "num_tokens_at", "route", "stream",
                "dtype", "processors"),
        "topk_idx32": "Rank.dispatch:topk_idx", "flags": "Rank.dispatch:recycle",
        "num_tokens": "Rank.dispatch:topk_idx", "topk": "Rank.dispatch:topk_idx",
        "x_dtype": "Rank.dispatch:x", "row_bytes": "Rank.dispatch:x",
        "row_stride": "Rank.dispatch:x", "scale_bytes": "Rank.dispatch:scales",
        "scale_row_stride": "Rank.dispatch:scales", "scale_block_stride": "Rank.dispatch:scales"},
    "weft_ep_recv_status": alike("ReceiveStatus.", "op", "epoch", "mark", "num_ranks", "num_rows", "rows_needed",
                                 "num_lost", "written"),
    "weft_ep_recv_args": {
        **alike("Receive.FIELDS:", "x", "scales", "counts", "src_rank", "src_token", "range", "local_expert", "weights",
                "rows_at", "expert_total", "wait_ns", "slot", "expert_end", "status", "lost"),
        **alike("Rank.receive:", "layout", "rows", "alignment"), "stream": "Rank.dispatch_recv:stream",
        "scale_row_stride": "Receive.FIELDS:scales", "scale_block_stride": "Receive.FIELDS:scales",
        "scale_expert_stride": "Receive.FIELDS:scales", "flags": "Rank.receive:keep_places"},
    "weft_ep_info": alike("Info.", "op", "epoch", "mark", "wire_bytes", "logical_bytes", "lost", "num_lost",
                          "num_ranks", "num_rows", "rows_needed"),
    "weft_ep_combine_args": {
        **alike("Rank.combine:", "y", "topk_weights", "row_weights", "bias", "out", "out_weights", "stream", "dtype",
                "processors"), "flags": "Rank.combine:keep"},
    "weft_ep_missing": {"token": "Result.missing", "k": "Result.missing", "expert": "Result.missing"},
    "weft_ep_result": alike("Result.", "wire_bytes", "logical_bytes", "missing", "num_missing", "num_lost"),
    "weft_ep_route_options": {**alike("Rank.route:", "max_tokens", "max_rows", "topk", "alignment"), "flags": ""},
    "weft_ep_route_arrays": alike("RouteArrays.", "tokens_per_rank", "tokens_per_expert", "in_rank", "rank_end",
                                  "expert_end", "src_rank", "src_token", "slot"),
    "weft_ep_route_info": {**alike("RouteInfo.", "op", "epoch", "expert_rows", "num_rows", "packed_rows", "num_ranks",
                                   "num_lost"), "num_experts": "RouteInfo.expert_rows"},
    "weft_ep_stats": alike("Stats.", "operations", "dispatch_wire_bytes", "dispatch_logical_bytes",
                           "combine_wire_bytes", "combine_logical_bytes", "connected", "window_bytes", "activations",
                           "lost", "missing", "wait_ns"),
    "weft_ep_peer_stats": alike("PeerStats.", "incarnation", "sent_bytes", "received_bytes", "window_bytes", "wait_ns"),
}
WHERE: dict[str, tuple[str, ...]] = {
    "weft_ep_event": ("event", "rank.cpp"), "weft_ep_options": ("options", "rank.cpp"),
    "weft_ep_limits": ("l", "counters.cpp"), "weft_ep_change_args": ("args", "rank.cpp"),
    "weft_ep_dispatch_args": ("args", "dispatch.cpp"), "weft_ep_recv_status": ("status", "receive.cpp"),
    "weft_ep_recv_args": ("args", "receive.cpp", "dispatch.cpp"), "weft_ep_info": ("c", "operation.cpp", "operation.h"),
    "weft_ep_combine_args": ("args", "combine.cpp"), "weft_ep_missing": ("one", "operation.cpp"),
    "weft_ep_result": ("c", "operation.cpp", "operation.h"), "weft_ep_route_options": ("options", "route.cpp"),
    "weft_ep_route_arrays": ("a", "route.cpp"), "weft_ep_route_info": ("info", "route.cpp"),
    "weft_ep_stats": ("s", "counters.cpp"), "weft_ep_peer_stats": ("s", "counters.cpp")}
FLAGS = {"OPTION_JOIN_ONLY": "Rank:join_only", "OPTION_ORDERED": "Rank:ordered",
         "DISPATCH_RECYCLE": "Rank.dispatch:recycle",
         "DISPATCH_CHECK_ROUTE": "Rank.dispatch:check_route", "RECV_KEEP_PLACES": "Rank.receive:keep_places",
         "RECV_ZERO_PADDING": "Rank.receive:zero_padding", "COMBINE_RENORMALIZE": "Rank.combine:renormalize",
         "COMBINE_KEEP": "Rank.combine:keep", "COMBINE_UNWEIGHTED": "Rank.combine:unweighted"}
ENUMS: dict[str, tuple[str, Any]] = {
    "weft_ep_dtype": ("", ep.DType), "weft_ep_combine_dtype": ("COMBINE_", ep.CombineDType),
    "weft_ep_mode": ("", ep.Mode), "weft_ep_memory": ("MEMORY_", ep.Memory), "weft_ep_layout": ("", ep.Layout),
    "weft_ep_rank_state": ("", ep.RankState), "weft_ep_event_kind": ("EVENT_", ep.EventKind)}
FLAG_ENUMS = ["weft_ep_option_flags", "weft_ep_dispatch_flags", "weft_ep_recv_flags", "weft_ep_combine_flags"]


def is_there(place: str) -> bool:
    """Whether Python has that parameter or attribute."""
    owner, colon, name = place.partition(":")
    if not colon:
        owner, name = place.rsplit(".", 1)
    found: Any = ep
    for part in owner.split("."):
        found = getattr(found, part)
    if not colon:
        return hasattr(found, name)
    return name in (found if isinstance(found, tuple) else inspect.signature(found).parameters)


@pytest.fixture(scope="module")
def header() -> Any:
    spec = importlib.util.spec_from_file_location("public_headers", ROOT / "scripts" / "public_headers.py")
    assert spec is not None and spec.loader is not None
    reader: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reader)
    return reader.Header(HEADER)


@pytest.fixture(scope="module")
def extension() -> str:
    return "\n".join(path.read_text() for path in sorted(SOURCES.iterdir()))


def values_of(header: Any, name: str) -> dict[str, int]:
    """The values of an enum, by their names without WEFT_EP_."""
    body = re.search(rf"^enum {name} \{{(.*?)^\}};", header.text, re.M | re.S)
    assert body is not None, f"there is no enum {name}"
    text = re.sub(r"/\*.*?\*/", "", body.group(1), flags=re.S)
    found = {one: eval(value) for one, value in re.findall(r"WEFT_EP_(\w+)\s*=\s*([\d< ]+)", text)}
    assert found
    return found


def test_fields(header: Any) -> None:
    structs = {struct.name: struct for struct in header.structs}
    assert structs.keys() == PLACES.keys()
    for name, struct in structs.items():
        fields = {field for field, _ in struct.fields} - OWN
        assert fields == PLACES[name].keys(), f"struct {name}"
        called, *files = WHERE[name]
        text = "\n".join((SOURCES / file).read_text() for file in files)
        for field, place in PLACES[name].items():
            assert not place or is_there(place), f"{name}.{field}: Python has no {place}"
            used = re.search(rf"\b{called}(\.|->){field}\b", text)
            assert not place or used, f"{name}.{field}: {called}.{field} is not in python/src/ep/{files[0]}"


def test_calls(header: Any, extension: str) -> None:
    names = {function.name for function in header.functions}
    assert len(names) > 50
    missing = sorted(one for one in names if not one.endswith("_init") and not re.search(rf"\b{one}\b", extension))
    assert missing == []


def test_values(header: Any) -> None:
    enums = set(re.findall(r"^enum (weft_ep_\w+) \{", header.text, re.M))
    assert enums == {*ENUMS, *FLAG_ENUMS}
    for name, (prefix, members) in ENUMS.items():
        given = {one.removeprefix(prefix) if prefix else one: value for one, value in values_of(header, name).items()}
        own = {member.name: int(member) for member in members if member.name not in ("GROUP", "DEFAULT")}
        assert own == given, name
    assert {flag for name in FLAG_ENUMS for flag in values_of(header, name)} == FLAGS.keys()
    for flag, place in FLAGS.items():
        assert is_there(place), f"WEFT_EP_{flag}: Python has no {place}"
    assert re.search(rf"WEFT_EP_BLOCK = {ep.BLOCK},", header.text)


def test_halves_take_what_the_whole_takes() -> None:
    def parameters(call: Any) -> set[str]:
        return set(inspect.signature(call).parameters)

    whole = parameters(ep.Rank.combine)
    assert parameters(ep.Rank.combine_send) == whole - {"result"} and parameters(ep.Rank.combine_recv) == whole
    assert parameters(ep.Rank.combine_route) == whole - {"op"} | {"route"}
    assert parameters(ep.Rank.dispatch_send) == parameters(ep.Rank.dispatch) - {"into", "info"}
