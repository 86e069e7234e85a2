"""The token that agents have to share to exchange metadata, and the addresses at which agents listen.

If WEFT_TOKEN is set, or WEFT_TOKEN_FILE names a file with the token in its first line, agents of all hosts with the
same token can reach each other. Otherwise a secret of this user is kept in a file that only the user can read, and
agents listen only at the loopback address.
"""

from __future__ import annotations

import os
import pathlib
import secrets
import socket
import stat

from weft_compat import addresses

from ..logging import get_logger
from .status import nixlBackendError

logger = get_logger("agent")

VARIABLE = "WEFT_TOKEN"
FILE = "WEFT_TOKEN_FILE"
LISTEN = "WEFT_LISTEN"


def _file() -> pathlib.Path:
    try:
        cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    except (RuntimeError, KeyError) as error:  # a user whom the system does not know; KeyError: Python 3.9
        raise nixlBackendError(f"there is no place for a token of this user ({error}): set {VARIABLE} to a secret that "
                               "all agents share, or HOME") from error
    return pathlib.Path(cache) / "weft" / "nixl-token"


def _read(path: pathlib.Path, named: bool) -> str | None:
    """The token in a file. A file that the environment names (`named`) may belong to root or be a symbolic link, as for
    the tool."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if named else os.O_NOFOLLOW))
    except FileNotFoundError:
        return None
    with os.fdopen(fd, encoding="ascii") as file:
        state = os.fstat(fd)
        owners = (os.geteuid(), 0) if named else (os.geteuid(),)
        if state.st_uid not in owners or stat.S_IMODE(state.st_mode) & 0o077:
            raise nixlBackendError(f"{path} belongs to another user, or others can read it: want the mode 0600, or "
                                   f"set {VARIABLE}")
        token = file.readline().strip()
    if not token:
        raise nixlBackendError(f"{path} has no token in its first line: remove the file, or set {VARIABLE}")
    return token


def is_given() -> bool:
    """Whether the environment gives a token. Otherwise agents use the secret of this user, which is made
    automatically."""
    return bool(os.environ.get(VARIABLE) or os.environ.get(FILE))


def _make(path: pathlib.Path) -> None:
    """Writes a new secret to the file, unless another process was faster. No process ever reads an incomplete file."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(32) + "\n")
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
    finally:
        draft.unlink()


def token() -> str:
    """The token of the agents of this process. `nixlBackendError`: there is none, and none can be made."""
    given = os.environ.get(VARIABLE)
    if given:
        return given
    named = os.environ.get(FILE)
    path = pathlib.Path(named) if named else _file()
    try:
        kept = _read(path, bool(named))
        if kept is None and not named:
            _make(path)
            kept = _read(path, False)
    except (OSError, UnicodeError) as error:
        raise nixlBackendError(f"no token can be read from {path} ({error}): set {VARIABLE} to a secret that all "
                               "agents share") from error
    if kept is None:
        raise nixlBackendError(f"there is no {path}{f', which {FILE} names' if named else ''}: set {VARIABLE} to a "
                               "secret that all agents share")
    return kept


def listen_at(port: int) -> str:
    """The address at which an agent listens: WEFT_LISTEN, else all addresses if the environment gives a token, else
    loopback. All addresses are those of IPv4, or those of IPv6 on a host without IPv4."""
    host = os.environ.get(LISTEN)
    if not host and is_given():
        own = addresses.of_host()
        host = "::" if own and all(":" in one for one in own) else "0.0.0.0"
    host = host or "127.0.0.1"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_here(host: str) -> bool:
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except OSError:
        return False
    for family, kind, _, _, address in found:
        with socket.socket(family, kind) as probe:
            try:
                probe.bind(address)
                return True
            except OSError:
                continue
    return False


def call_at(host: str) -> str:
    """The host to call if a program names `host`. Without a token in the environment, agents listen only at the
    loopback address, so every address of this host becomes that one; for another host a warning is logged."""
    if is_given() or os.environ.get(LISTEN):
        return host
    if _is_here(host):
        return "127.0.0.1"
    logger.warning("%s is another host: its agents cannot be called unless %s is set, to the same secret on both hosts",
                   host, VARIABLE)
    return host


def reachable_at(port: int) -> list[str]:
    """The addresses at which others may call an agent that listens at this port, the best one first."""
    host = listen_at(port).rpartition(":")[0]
    if host not in ("0.0.0.0", "[::]"):
        return [f"{host}:{port}"]
    hosts = [*(one for one in addresses.of_host() if host == "[::]" or ":" not in one), "127.0.0.1"]
    return [f"[{one}]:{port}" if ":" in one else f"{one}:{port}" for one in hosts]
