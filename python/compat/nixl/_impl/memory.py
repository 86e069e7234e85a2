"""The memory that an agent has registered, by NIXL's descriptors, and the region of Weft for each descriptor."""

from __future__ import annotations

import fcntl
import itertools
import os
import stat
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import weft
from weft import errors

from .lists import RegDesc, nixlRegDList, nixlXferDList
from .status import (
    failure_of,
    nixl_mem_t,
    nixlBackendError,
    nixlInvalidParamError,
    nixlNotFoundError,
    nixlNotSupportedError,
    translated,
)

Key = TypeVar("Key")

DRAM, VRAM, BLK, OBJ, FILE = (nixl_mem_t(number) for number in range(5))


@dataclass
class Registered:
    """A descriptor that was registered."""

    mem: nixl_mem_t
    desc: RegDesc
    region: weft.Region

    def holds(self, offset: int, length: int) -> bool:
        """Whether a range of a file or an object is within the registered range, which has no end if its length is
        0."""
        first, size = self.desc[0], self.desc[1]
        return offset >= first and (size == 0 or offset + length <= first + size)


def _take_out(table: dict[Key, list[Registered]], key: Key, one: Registered) -> None:
    kept = [other for other in table.get(key, ()) if other is not one]
    if kept:
        table[key] = kept
    else:
        table.pop(key, None)


def is_file(descriptor: int) -> bool:
    """Whether this process has a file or a block device open under this descriptor."""
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISBLK(mode)


def file_of(desc: RegDesc) -> int | str:
    """The open file descriptor or the path that a descriptor names. If the device is an open file, a text without a
    slash is no path, since programs pass any text there."""
    device, text = desc[2], os.fsdecode(desc[3])
    opened = device < 1 << 31 and is_file(device)
    if "/" in text and not (opened and os.path.exists(text) and os.path.samestat(os.stat(text), os.fstat(device))):
        return text
    if opened:
        return device
    if text:
        return text
    raise nixlInvalidParamError(f"FILE: {device} is no open file of this process, and no path is given beside it")


class Memory:
    """All registrations of one agent. Any thread may call it."""

    def __init__(self, agent: weft.Agent) -> None:
        self._agent = agent
        self._lock = threading.RLock()
        self._by_desc: dict[tuple[nixl_mem_t, int, int, int], list[Registered]] = {}
        self._by_device: dict[tuple[nixl_mem_t, int], list[Registered]] = {}
        self.bucket = ""
        """the bucket of the back end OBJ"""

    def _register(self, mem: nixl_mem_t, desc: RegDesc, transports: tuple[str, ...]) -> weft.Region:
        address, length, device, _ = desc
        ways = ",".join(transports) or None
        if mem in (DRAM, VRAM):
            kind = weft.Kind.HOST if mem == DRAM else weft.Kind.CUDA
            return self._agent.register_address(address, length, kind=kind, transports=ways,
                                                device=device if mem == VRAM else -1)
        end = address + length if length else 0
        if mem == OBJ:
            return self._agent.register_object(self.object_name(desc), end, transports=ways)
        if mem != FILE:
            raise nixlNotSupportedError(f"{mem.name}: Weft has no blocks: register a block device as a file")
        file = file_of(desc)
        read_only = isinstance(file, int) and fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
        return self._agent.register_file(file, end, read_only=read_only, transports=ways)

    def object_name(self, desc: RegDesc) -> str:
        """``bucket/key``: the key is the text of a descriptor, or the number of its device if it has no text."""
        if not self.bucket:
            raise nixlInvalidParamError("OBJ: no bucket is named: create_backend('OBJ', {'bucket': NAME}), or set "
                                        "AWS_DEFAULT_BUCKET")
        return f"{self.bucket}/{desc[3].decode() if desc[3] else desc[2]}"

    def register(self, descs: nixlRegDList, transports: tuple[str, ...]) -> None:
        """Registers all descriptors, or none."""
        done: list[Registered] = []
        mem = descs.getType()
        try:
            for desc in descs:
                done.append(Registered(mem, desc, self._register(mem, desc, transports)))
        except errors.Error as error:
            for one in done:
                one.region.close()
            raise nixlBackendError(f"{mem.name} {desc[:3]}: {error}") from error
        except BaseException:
            for one in done:
                one.region.close()
            raise
        with self._lock:
            for one in done:
                self._by_desc.setdefault((mem, *one.desc[:3]), []).append(one)
                self._by_device.setdefault((mem, one.desc[2]), []).append(one)

    def find(self, descs: nixlRegDList) -> list[Registered]:
        """The registrations of these descriptors, each once. If a descriptor was registered several times, the latest
        is taken first. `nixlNotFoundError`: a descriptor was not registered, or not so often."""
        mem = descs.getType()
        found: dict[int, Registered] = {}
        with self._lock:
            for desc in descs:
                same = [one for one in reversed(self._by_desc.get((mem, *desc[:3]), [])) if id(one) not in found]
                if not same:
                    raise nixlNotFoundError(f"{mem.name} {desc[:3]} is not registered")
                one = next((one for one in same if one.desc[3] == desc[3]), same[0])
                found[id(one)] = one
        return list(found.values())

    def forget(self, one: Registered) -> None:
        """Removes a registration. `nixlNotAllowedError`: a prepared list or a transfer uses it."""
        try:
            one.region.close()
        except errors.Error as error:
            raise failure_of(error) from error
        with self._lock:
            _take_out(self._by_desc, (one.mem, *one.desc[:3]), one)
            _take_out(self._by_device, (one.mem, one.desc[2]), one)

    def rows(self, descs: nixlXferDList) -> memoryview:
        """Descriptors of this agent in Weft's form: with the region instead of the device."""
        mem = descs.getType()
        if mem in (DRAM, VRAM):  # region 0: Weft finds the region that contains the range
            return descs.rows(itertools.repeat(0, descs.descCount()))
        return descs.rows(self._regions_of(mem, descs))

    def _regions_of(self, mem: nixl_mem_t, descs: nixlXferDList) -> Iterable[int]:
        with self._lock:
            for offset, length, device in descs:
                known = self._by_device.get((mem, device), ())
                fitting = next((one for one in known if one.holds(offset, length)), None)
                if fitting is None:
                    raise nixlNotFoundError(f"{mem.name}: {length} bytes from {offset} on, device {device}, are within "
                                            f"none of the {len(known)} registrations of that device")
                yield fitting.region.id

    def query(self, mem: nixl_mem_t, desc: RegDesc) -> dict[str, str] | None:
        """The properties of the memory of a descriptor, such as its size in bytes; None: it does not exist."""
        with translated():
            if mem == OBJ:
                status = self._agent.query(kind=weft.Kind.OBJECT, path=self.object_name(desc))
                return {"size": str(status.length)} if status.there else None
            if mem == FILE:
                return _query_file(file_of(desc)) if desc[3] or is_file(desc[2]) else None
            if mem not in (DRAM, VRAM):
                raise nixlNotSupportedError(f"{mem.name}: Weft has no blocks")
            kind = weft.Kind.HOST if mem == DRAM else weft.Kind.CUDA
            status = self._agent.query(address=desc[0], length=desc[1], kind=kind)
            return {"size": str(status.length)} if status.there else None


def _query_file(file: int | str) -> dict[str, str] | None:
    try:
        state = os.stat(file)
    except OSError:
        return None
    return {"size": str(state.st_size), "mode": str(state.st_mode), "mtime": str(int(state.st_mtime))}
