"""The file that a descriptor of FILE memory names: an open descriptor, a path, or a path with a way to open it."""

from __future__ import annotations

import fcntl
import os
import stat
from dataclasses import dataclass

from .lists import RegDesc
from .status import nixlBackendError, nixlInvalidParamError

_ACCESS = {"ro": os.O_RDONLY, "rw": os.O_RDWR}
_FLAGS = {"direct": 0, "sync": os.O_SYNC, "noatime": os.O_NOATIME, "create": os.O_CREAT}
"""direct: Weft moves whole pages past the page cache anyway, wherever the file system allows it"""


@dataclass
class NamedFile:
    """The file of a descriptor."""

    file: int | str
    """an open descriptor, or a path"""
    read_only: bool
    owned: bool = False
    """whether `close` closes the descriptor"""

    def close(self) -> None:
        """Closes a descriptor that `open_by_text` opened. A second call is no error."""
        if self.owned and isinstance(self.file, int):
            os.close(self.file)
            self.owned = False


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


def way_to_open(text: str) -> tuple[str, int] | None:
    """The path and the flags of a text ``ACCESS[,FLAG...]:PATH``, such as ``rw,create:/path``; None: it is another
    text. ACCESS is ro or rw, a FLAG is direct, sync, noatime or create."""
    words, colon, path = text.partition(":")
    access, *flags = words.split(",")
    if not colon or not path or access not in _ACCESS or any(flag not in _FLAGS for flag in flags):
        return None
    bits = _ACCESS[access]
    for flag in flags:
        bits |= _FLAGS[flag]
    return path, bits


def open_by_text(desc: RegDesc) -> NamedFile | None:
    """Opens the file of a descriptor whose text says how; None: it does not. `nixlBackendError`: it cannot be
    opened."""
    way = way_to_open(os.fsdecode(desc[3]))
    if way is None:
        return None
    path, flags = way
    try:
        fd = os.open(path, flags | os.O_CLOEXEC | os.O_NOCTTY, 0o644)
    except OSError as error:
        raise nixlBackendError(f"FILE: {path}: {error.strerror}") from error
    return NamedFile(fd, flags & os.O_ACCMODE == os.O_RDONLY, True)


def named_file(desc: RegDesc) -> NamedFile:
    """The file of a descriptor whose text does not say how to open it."""
    file = file_of(desc)
    return NamedFile(file, isinstance(file, int) and fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY)


def query_file(file: int | str) -> dict[str, str] | None:
    """Size, mode and time of the last change of a file; None: there is none."""
    try:
        state = os.stat(file)
    except OSError:
        return None
    return {"size": str(state.st_size), "mode": str(state.st_mode), "mtime": str(int(state.st_mtime))}
