"""Failures of libweft: one exception for each error code, with the library's sentence.

If there is a fitting builtin exception, the class is derived from it, so ``except TimeoutError`` and ``except
ValueError`` work. No class has the name of a builtin.
"""

from __future__ import annotations

import enum
from typing import ClassVar


class Scope(enum.IntEnum):
    """The scope of a failure, which tells a caller what it can do."""

    NONE = 0
    REQUEST = 1
    """this call: correct it, or try again"""
    PEER = 2
    """one peer: mask it and go on"""
    TRANSPORT = 3
    """a path or a service: select another, or wait"""
    SELF = 4
    """this rank: leave, then join again as a new incarnation"""


class Error(Exception):
    """A failure of libweft; its ``str()`` says what was wrong, where, and what would be right."""

    code: ClassVar[int] = 0
    """number of the code in weft/err.h, negative"""
    name: ClassVar[str] = "UNKNOWN"
    """its name, such as ``TIMEOUT``"""
    scope: ClassVar[Scope] = Scope.NONE
    """scope of the code"""
    op: int | None = None
    """the operation of expert parallelism that is open in spite of the error, if there is one"""
    rows_needed: int = 0
    """for a `RoomError` of a dispatch: the number of rows that the fullest part needs"""


class InvalidError(Error, ValueError):
    """An argument is wrong."""

    code, name, scope = -1, "INVALID", Scope.REQUEST


class NoMemoryError(Error, MemoryError):
    """Out of memory."""

    code, name, scope = -2, "NOMEM", Scope.SELF


class SystemFailureError(Error, OSError):
    """The operating system or CUDA has reported an error."""

    code, name, scope = -3, "SYSTEM", Scope.SELF


class UnsupportedError(Error):
    """Not supported here."""

    code, name, scope = -4, "UNSUPPORTED", Scope.REQUEST


class DeadlineError(Error, TimeoutError):
    """A deadline passed; the sentence names what the call waited for."""

    code, name, scope = -5, "TIMEOUT", Scope.REQUEST


class PeerLostError(Error, ConnectionError):
    """A peer has left, or was found dead or silent."""

    code, name, scope = -6, "PEER_LOST", Scope.PEER


class FencedError(Error):
    """This rank is outside the view: close it, and open it again."""

    code, name, scope = -7, "FENCED", Scope.SELF


class NotConnectedError(Error):
    """Not connected."""

    code, name, scope = -8, "NOT_CONNECTED", Scope.REQUEST


class BusyError(Error):
    """In use by another call or by another object."""

    code, name, scope = -9, "BUSY", Scope.REQUEST


class ExistsError(Error):
    """It exists already."""

    code, name, scope = -10, "EXISTS", Scope.REQUEST


class NotFoundError(Error, LookupError):
    """There is no such thing."""

    code, name, scope = -11, "NOT_FOUND", Scope.REQUEST


class ConflictError(Error):
    """Another process or rank has changed it."""

    code, name, scope = -12, "CONFLICT", Scope.REQUEST


class UnreachableError(Error, ConnectionError):
    """A peer, a host or a service cannot be reached."""

    code, name, scope = -13, "UNREACHABLE", Scope.TRANSPORT


class AuthError(Error):
    """Not authorised."""

    code, name, scope = -14, "AUTH", Scope.TRANSPORT


class ProtocolError(Error):
    """A malformed message, or ranks whose calls do not match."""

    code, name, scope = -15, "PROTOCOL", Scope.TRANSPORT


class VersionError(Error):
    """An incompatible version or configuration."""

    code, name, scope = -16, "VERSION", Scope.TRANSPORT


class CanceledError(Error):
    """Cancelled, by ``cancel()``, ``interrupt()`` or a close."""

    code, name, scope = -17, "CANCELED", Scope.REQUEST


class ClosedError(Error):
    """The object is closed, or was opened before this process was forked."""

    code, name, scope = -18, "CLOSED", Scope.REQUEST


class DataError(Error):
    """Wrong data."""

    code, name, scope = -19, "DATA", Scope.REQUEST


class LimitError(Error):
    """A limit of the library or of the system is reached."""

    code, name, scope = -20, "LIMIT", Scope.REQUEST


class CompactedError(Error):
    """The requested revision of the store is gone."""

    code, name, scope = -21, "COMPACTED", Scope.TRANSPORT


class RoomError(Error):
    """A buffer of the caller is too small."""

    code, name, scope = -22, "ROOM", Scope.REQUEST


by_code: dict[int, type[Error]] = {kind.code: kind for kind in Error.__subclasses__()}
"""The class of each code."""


def make_error(code: int, sentence: str, op: int | None = None, rows_needed: int = 0) -> Error:
    """Makes the exception for a code; a code that this version does not know gives an `Error`."""
    error = by_code.get(code, Error)(sentence)
    error.op = op
    error.rows_needed = rows_needed
    return error
