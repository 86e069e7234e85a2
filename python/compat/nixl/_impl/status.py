"""Statuses and exceptions of NIXL, and the exception for each failure of Weft."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import Any, ClassVar

from weft import errors


class nixl_status_t(enum.IntEnum):
    """Result of a call: 0 or more, or the number of a failure."""

    NIXL_IN_PROG = 1
    NIXL_SUCCESS = 0
    NIXL_ERR_NOT_POSTED = -1
    NIXL_ERR_INVALID_PARAM = -2
    NIXL_ERR_BACKEND = -3
    NIXL_ERR_NOT_FOUND = -4
    NIXL_ERR_MISMATCH = -5
    NIXL_ERR_NOT_ALLOWED = -6
    NIXL_ERR_REPOST_ACTIVE = -7
    NIXL_ERR_UNKNOWN = -8
    NIXL_ERR_NOT_SUPPORTED = -9
    NIXL_ERR_REMOTE_DISCONNECT = -10
    NIXL_ERR_CANCELED = -11
    NIXL_ERR_NO_TELEMETRY = -12


class nixl_thread_sync_t(enum.IntEnum):
    """Locking mode of an agent. Any thread may use an agent of Weft at any time, whichever mode is requested."""

    NIXL_THREAD_SYNC_NONE = 0
    NIXL_THREAD_SYNC_STRICT = 1
    NIXL_THREAD_SYNC_RW = 2
    NIXL_THREAD_SYNC_DEFAULT = 0


class nixl_mem_t(enum.IntEnum):
    """Kinds of memory. Weft has no blocks (BLK_SEG): a block device is a file."""

    DRAM_SEG = 0
    VRAM_SEG = 1
    BLK_SEG = 2
    OBJ_SEG = 3
    FILE_SEG = 4


class nixl_xfer_op_t(enum.IntEnum):
    """Direction of a transfer, as its initiator sees it."""

    NIXL_READ = 0
    NIXL_WRITE = 1


class nixl_cost_t(enum.IntEnum):
    """How an estimate was made."""

    NIXL_COST_ANALYTICAL_BACKEND = 0


def _again(kind: type[_Failure], args: tuple[Any, ...]) -> _Failure:
    """One that comes from another process, whose text has the name already."""
    return kind.__new__(kind, *args)


class _Failure(Exception):
    """A failure: its text begins with the name of the status, followed by what was wrong."""

    status: ClassVar[nixl_status_t]

    def __init__(self, sentence: str = "") -> None:
        super().__init__(f"{self.status.name}: {sentence}" if sentence else self.status.name)

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.args), self.__dict__


class nixlNotPostedError(_Failure):
    """The transfer was never posted."""

    status = nixl_status_t.NIXL_ERR_NOT_POSTED


class nixlInvalidParamError(_Failure):
    """An argument is wrong."""

    status = nixl_status_t.NIXL_ERR_INVALID_PARAM


class nixlBackendError(_Failure):
    """A transport, a service or the system has reported an error."""

    status = nixl_status_t.NIXL_ERR_BACKEND


class nixlNotFoundError(_Failure):
    """There is no such agent, memory or back end."""

    status = nixl_status_t.NIXL_ERR_NOT_FOUND


class nixlMismatchError(_Failure):
    """Metadata is damaged, of another version, or of another agent of the same name."""

    status = nixl_status_t.NIXL_ERR_MISMATCH


class nixlNotAllowedError(_Failure):
    """Not allowed now: another object uses it, or another token is required."""

    status = nixl_status_t.NIXL_ERR_NOT_ALLOWED


class nixlRepostActiveError(_Failure):
    """The transfer is in flight."""

    status = nixl_status_t.NIXL_ERR_REPOST_ACTIVE


class nixlUnknownError(_Failure):
    """A failure of another kind."""

    status = nixl_status_t.NIXL_ERR_UNKNOWN


class nixlNotSupportedError(_Failure):
    """Weft does not support this, or not here."""

    status = nixl_status_t.NIXL_ERR_NOT_SUPPORTED


class nixlRemoteDisconnectError(_Failure):
    """The other agent has left, or was found dead or silent."""

    status = nixl_status_t.NIXL_ERR_REMOTE_DISCONNECT


class nixlCancelledError(_Failure):
    """The transfer was cancelled."""

    status = nixl_status_t.NIXL_ERR_CANCELED


class nixlNoTelemetryError(_Failure):
    """The agent was opened without telemetry."""

    status = nixl_status_t.NIXL_ERR_NO_TELEMETRY


class NoSuchName(nixlInvalidParamError, KeyError):
    """A kind of memory or an operation of a name that does not exist. It is a `KeyError` too, as in the original."""

    __str__ = Exception.__str__


class NoSuchBackend(nixlNotFoundError, KeyError, ValueError):
    """A back end that the agent has not created. It is a `KeyError` too, or a `ValueError`, as in the original."""

    __str__ = Exception.__str__


class NoAgentName(nixlInvalidParamError, ValueError):
    """An agent without a name. It is a `ValueError` too, as in the original."""


class NoMemoryType(nixlInvalidParamError, ValueError):
    """Descriptors without the kind of their memory. It is a `ValueError` too, as in the original."""


class NoDescriptors(nixlInvalidParamError, TypeError):
    """What is no list of descriptors, and cannot be made one. It is a `TypeError` too, as in the original."""


_MEANING: tuple[tuple[type[errors.Error], type[_Failure]], ...] = (
    (errors.InvalidError, nixlInvalidParamError),
    (errors.LimitError, nixlInvalidParamError),
    (errors.NotFoundError, nixlNotFoundError),
    (errors.PeerLostError, nixlRemoteDisconnectError),
    (errors.CanceledError, nixlCancelledError),
    (errors.ExistsError, nixlMismatchError),
    (errors.ProtocolError, nixlMismatchError),
    (errors.VersionError, nixlMismatchError),
    (errors.BusyError, nixlNotAllowedError),
    (errors.AuthError, nixlNotAllowedError),
    (errors.UnsupportedError, nixlNotSupportedError),
)


def failure_of(error: errors.Error) -> _Failure:
    """The exception of NIXL for an exception of Weft, with the same sentence."""
    for kind, meaning in _MEANING:
        if isinstance(error, kind):
            return meaning(str(error))
    return nixlBackendError(str(error))


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Raises failures of Weft in its block as NIXL's exceptions."""
    try:
        yield
    except errors.Error as error:
        raise failure_of(error) from error
