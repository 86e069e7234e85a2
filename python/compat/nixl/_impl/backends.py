"""Back ends by their names in NIXL, and the transports of Weft that each of them uses.

A plug-in is in the list if at least one of its transports works on this host. A back end can move the kinds of memory
that its transports can move.
"""

from __future__ import annotations

import functools
import os
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import weft
from weft.agent import TransportInfo

from .status import nixl_mem_t, nixlInvalidParamError, nixlNotFoundError, nixlNotSupportedError

_MEMORY = ("shm", "cuda", "ucx", "ofi")
_TRANSPORTS: dict[str, tuple[str, ...]] = {
    "UCX": _MEMORY,
    "LIBFABRIC": ("shm", "cuda", "ofi"),
    "POSIX": ("file",),
    "GDS": ("file",),
    "GDS_MT": ("file",),
    "OBJ": ("object",),
}
# What Weft has in the place of other plug-ins, and of those that do not work on every host.
_FILES = "POSIX moves files, without the page cache where it can"
_INSTEAD: dict[str, str] = {
    "GDS": _FILES,
    "GDS_MT": _FILES,
    "HF3FS": _FILES,
    "GUSLI": "POSIX moves block devices, which are registered as files",
    "BLK": "POSIX moves block devices, which are registered as files",
    "MOONCAKE": "UCX or LIBFABRIC moves memory between hosts",
    "UCX_MO": "UCX moves the memory of several GPUs",
    "UCCL": "UCX or LIBFABRIC moves memory between hosts",
    "GPUNETIO": "UCX or LIBFABRIC moves the memory of GPUs between hosts; kernels post no transfers",
    "AZURE_BLOB": "OBJ moves objects of S3",
}
# The parameters of OBJ, and the environment variables of S3 clients from which the transport reads them.
_S3: dict[str, str] = {
    "access_key": "AWS_ACCESS_KEY_ID",
    "secret_key": "AWS_SECRET_ACCESS_KEY",
    "session_token": "AWS_SESSION_TOKEN",
    "region": "AWS_REGION",
    "endpoint_override": "AWS_ENDPOINT_URL_S3",
    "ca_bundle": "AWS_CA_BUNDLE",
    "bucket": "AWS_DEFAULT_BUCKET",
}
_KINDS = {weft.Kind.HOST: nixl_mem_t.DRAM_SEG, weft.Kind.CUDA: nixl_mem_t.VRAM_SEG,
          weft.Kind.FILE: nixl_mem_t.FILE_SEG, weft.Kind.OBJECT: nixl_mem_t.OBJ_SEG}


@dataclass
class Backend:
    """A back end that an agent has created."""

    name: str
    transports: tuple[str, ...]
    mems: tuple[nixl_mem_t, ...]
    params: dict[str, str] = field(default_factory=dict)


@functools.lru_cache(maxsize=1)
def _transports() -> dict[str, TransportInfo]:
    return {one.name: one for one in weft.transports()}


def _asks_for_ucx() -> bool:
    """Whether to open UCX: there are RDMA devices, or the environment names transports or devices of UCX. Over TCP
    everybody who reaches the port of UCX can write to this process, so it is not opened by default."""
    if os.environ.get("UCX_TLS") or os.environ.get("UCX_NET_DEVICES"):
        return True
    devices = pathlib.Path("/sys/class/infiniband")
    return devices.is_dir() and any(devices.iterdir())


def _working(names: tuple[str, ...]) -> tuple[str, ...]:
    known = _transports()
    return tuple(one for one in names
                 if one in known and known[one].works and (one != "ucx" or _asks_for_ucx()))


def _kinds(transports: tuple[str, ...]) -> tuple[nixl_mem_t, ...]:
    known = _transports()
    bits = 0
    for one in transports:
        bits |= known[one].local_kinds | known[one].remote_kinds
    if bits & 1 << weft.Kind.CUDA and not known["cuda"].works:
        bits &= ~(1 << weft.Kind.CUDA)  # the transport supports GPUs, but there is none
    return tuple(mem for kind, mem in _KINDS.items() if bits & 1 << kind)


def available() -> list[str]:
    """The plug-ins that work on this host."""
    names = []
    for name, transports in _TRANSPORTS.items():
        working = _working(transports)
        gpu = not name.startswith("GDS") or nixl_mem_t.VRAM_SEG in _kinds(working)
        if working and gpu:
            names.append(name)
    return names


def _defaults(name: str) -> dict[str, str]:
    """The parameters that Weft uses, with their defaults. Secrets are not shown."""
    if name == "OBJ":
        hidden = ("access_key", "secret_key", "session_token")
        return {key: "" if key in hidden else os.environ.get(variable, "") for key, variable in _S3.items()}
    return {"transports": ",".join(_working(_TRANSPORTS[name]))} if len(_TRANSPORTS[name]) > 1 else {}


def plugin_params(name: str) -> tuple[dict[str, str], list[str]]:
    """The parameters of a plug-in, and the kinds of memory that it moves. `nixlNotFoundError`: there is no such plug-in
    here."""
    if name not in available():
        raise nixlNotFoundError(_missing(name))
    return _defaults(name), [mem.name for mem in _kinds(_working(_TRANSPORTS[name]))]


def _missing(name: str) -> str:
    have = ", ".join(available())
    instead = f". Instead: {_INSTEAD[name]}" if name in _INSTEAD else ""
    if name not in _TRANSPORTS:
        return f"Weft has no plug-in {name}; here it has {have}{instead}"
    known = _transports()
    lacks = "this host has no GPU" if name.startswith("GDS") else "nothing here asks for it"
    why = "; ".join(f"{one}: {known[one].why or lacks}" for one in _TRANSPORTS[name] if one in known)
    return f"the plug-in {name} does not work here ({why}); here Weft has {have}{instead}"


def parameters(name: object, given: object) -> dict[str, str]:
    """The parameters of a back end as strings; numbers are accepted, too. `TypeError` names an argument of another
    type."""
    if not isinstance(name, str):
        raise TypeError(f"backend: the name of a back end, a str, is wanted, not {name!r:.60}")
    if not isinstance(given, Mapping):
        raise TypeError(f"initParams: a dict of str is wanted, not {given!r:.60}")
    for key, value in given.items():
        if not isinstance(key, str) or not isinstance(value, (str, int, float)):
            raise TypeError(f"initParams: {key!r:.60}: {value!r:.60}: each is a str with a str")
    return {key: str(value) for key, value in given.items()}


def make_backend(name: str, params: dict[str, str]) -> tuple[Backend, list[str]]:
    """A back end with its parameters, and the names of unknown parameters, which Weft ignores."""
    if name not in available():
        raise nixlNotFoundError(_missing(name))
    heeded = _defaults(name)
    unknown = [key for key in params if key not in heeded]
    heeded.update({key: value for key, value in params.items() if key in heeded})
    transports = _working(_TRANSPORTS[name])
    if "transports" in heeded:
        wanted = tuple(one.strip() for one in heeded["transports"].split(",") if one.strip())
        wrong = [one for one in wanted if one not in _TRANSPORTS[name]]
        if wrong or not wanted:
            raise nixlInvalidParamError(f"{name}: transports={heeded['transports']}: want some of "
                                        f"{', '.join(_TRANSPORTS[name])}")
        transports = wanted
    if name == "OBJ" and params.get("use_virtual_addressing", "false").lower() == "true":
        raise nixlNotSupportedError("OBJ: use_virtual_addressing=true: with an endpoint of its own Weft names the "
                                    "bucket in the path, without one in the host's name")
    return Backend(name, transports, _kinds(transports), heeded), unknown


def s3_environment(backend: Backend, given: dict[str, str]) -> dict[str, str]:
    """The environment variables for the parameters of OBJ, which are set while its transport opens."""
    if backend.name != "OBJ":
        return {}
    found = {variable: given[key] for key, variable in _S3.items() if given.get(key)}
    endpoint, scheme = found.get("AWS_ENDPOINT_URL_S3"), given.get("scheme", "http")
    if endpoint and "://" not in endpoint:
        found["AWS_ENDPOINT_URL_S3"] = f"{scheme}://{endpoint}"
    if "AWS_ACCESS_KEY_ID" in found:  # a session token belongs to one key: the environment's does not fit this one
        found.setdefault("AWS_SESSION_TOKEN", "")
    return found


def owner_of(transport: str, backends: list[str]) -> str:
    """The back end of an agent to which a transfer by this transport belongs."""
    if transport == "self":  # between two arrays of the agent's own process: each back end that moves such memory can
        transport = "shm"
    fitting = [name for name in backends if transport in _TRANSPORTS[name]]
    if not fitting:
        raise nixlNotFoundError(f"no back end of this agent has the transport {transport}")
    if transport == "ofi" and "LIBFABRIC" in fitting:
        return "LIBFABRIC"
    return fitting[0]
