"""The memory that an agent has registered, by NIXL's descriptors, and the region of Weft for each descriptor."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import weft
from weft import errors

from .files import NamedFile, file_of, is_file, named_file, open_by_text, query_file
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
    file: NamedFile | None = None
    """the file of FILE memory"""

    @property
    def alone(self) -> bool:
        """Whether the agent has opened the file itself, so that the device is not a descriptor but a number that the
        program has chosen for this file."""
        return self.file is not None and self.file.owned

    def close(self) -> None:
        """Closes the region, and then the file if the agent has opened it."""
        self.region.close()
        if self.file is not None:
            self.file.close()

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


class Memory:
    """All registrations of one agent. Any thread may call it."""

    def __init__(self, agent: weft.Agent) -> None:
        self._agent = agent
        self._lock = threading.RLock()
        self._by_desc: dict[tuple[nixl_mem_t, int, int, int], list[Registered]] = {}
        self._by_device: dict[tuple[nixl_mem_t, int], list[Registered]] = {}
        self.bucket = ""
        """the bucket of the back end OBJ"""

    def _register(self, mem: nixl_mem_t, desc: RegDesc, transports: tuple[str, ...]) -> Registered:
        address, length, device, _ = desc
        ways = ",".join(transports) or None
        if mem in (DRAM, VRAM):
            kind = weft.Kind.HOST if mem == DRAM else weft.Kind.CUDA
            return Registered(mem, desc, self._agent.register_address(
                address, length, kind=kind, transports=ways, device=device if mem == VRAM else -1))
        end = address + length if length else 0
        if mem == OBJ:
            return Registered(mem, desc, self._agent.register_object(self.object_name(desc), end, transports=ways))
        if mem != FILE:
            raise nixlNotSupportedError(f"{mem.name}: Weft has no blocks: register a block device as a file")
        return self._register_file(desc, end, ways)

    def _register_file(self, desc: RegDesc, end: int, ways: str | None) -> Registered:
        file = open_by_text(desc) or named_file(desc)
        try:
            region = self._agent.register_file(file.file, end, read_only=file.read_only, transports=ways)
        except BaseException:
            file.close()
            raise
        return Registered(FILE, desc, region, file)

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
                done.append(self._register(mem, desc, transports))
            self._add(done)
        except BaseException as error:
            for one in done:
                one.close()
            if isinstance(error, errors.Error):
                raise nixlBackendError(f"{mem.name} {desc[:3]}: {error}") from error
            raise

    def _add(self, done: list[Registered]) -> None:
        """Adds registrations, all or none."""
        with self._lock:
            self._check_devices([one for one in done if one.mem == FILE])
            for one in done:
                self._by_desc.setdefault((one.mem, *one.desc[:3]), []).append(one)
                self._by_device.setdefault((one.mem, one.desc[2]), []).append(one)

    def _check_devices(self, files: list[Registered]) -> None:
        """`nixlInvalidParamError`: the device of a file that the agent has opened names another file, too."""
        taken: dict[int, list[Registered]] = {}
        for one in files:
            device = one.desc[2]
            same = taken.setdefault(device, list(self._by_device.get((FILE, device), ())))
            same.append(one)
            if len(same) > 1 and any(other.alone for other in same):
                raise nixlInvalidParamError(f"FILE: the device {device} names a registered file already; a file "
                                            "registered by ACCESS:PATH needs a device of its own")

    def close(self) -> None:
        """Closes the files that the agent has opened, after the agent was closed."""
        with self._lock:
            for same in self._by_device.values():
                for one in same:
                    if one.file is not None:
                        one.file.close()

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
            one.close()
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
                fitting = next((one for one in reversed(known) if one.holds(offset, length)), None)
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
                return query_file(file_of(desc)) if desc[3] or is_file(desc[2]) else None
            if mem not in (DRAM, VRAM):
                raise nixlNotSupportedError(f"{mem.name}: Weft has no blocks")
            kind = weft.Kind.HOST if mem == DRAM else weft.Kind.CUDA
            status = self._agent.query(address=desc[0], length=desc[1], kind=kind)
            return {"size": str(status.length)} if status.there else None
