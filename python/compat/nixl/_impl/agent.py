"""`nixlAgent`: an agent, with the calls of NIXL's bindings. `nixl._api.nixl_agent` is the class above it."""

from __future__ import annotations

import array
import atexit
import logging
import operator
import os
import select
import threading
import weakref
from collections.abc import Sequence
from typing import Any, Union

import weft
from weft import errors

from ..logging import get_logger
from . import backends as plugins
from . import secret
from .document import Document, read_document
from .exchange import Exchange
from .inbox import ANSWER, ASK, Inbox
from .lists import is_array, nixlRegDList, nixlRemoteDList, nixlXferDList
from .memory import Memory, Registered
from .peers import Peers
from .requests import Prepared, Request, Table, nixlXferTelemetry
from .status import (
    NoAgentName,
    failure_of,
    nixl_cost_t,
    nixl_mem_t,
    nixl_status_t,
    nixl_thread_sync_t,
    nixl_xfer_op_t,
    nixlBackendError,
    nixlInvalidParamError,
    nixlMismatchError,
    nixlNotAllowedError,
    nixlNoTelemetryError,
    nixlNotFoundError,
    nixlNotSupportedError,
    nixlRemoteDisconnectError,
    nixlRepostActiveError,
    translated,
)

NIXL_INIT_AGENT = ""
NIXL_NULL_AGENT = "NULL_AGENT"
DEFAULT_COMM_PORT = 8888
MOST_DESCRIPTORS = 1 << 20
"""the largest number of descriptors of a list of Weft: WEFT_AGENT_MAX_DESCRIPTORS"""
_TRANSFER_S = 600.0
_SETTLE_S = 2.0
_S3_LOCK = threading.Lock()
logger = get_logger("agent")
SUCCESS = nixl_status_t.NIXL_SUCCESS

Text = Union[str, bytes]


class nixlAgentConfig:
    """How to open an agent. Options that Weft does not use are kept and ignored: see the README of weft-compat."""

    def __init__(self, useProgThread: bool = False, useListenThread: bool = False, listenPort: int = 0,
                 syncMode: nixl_thread_sync_t = nixl_thread_sync_t.NIXL_THREAD_SYNC_DEFAULT, numWorkers: int = 1,
                 pthrDelay: int = 0, lthrDelay: int = 100000, captureTelemetry: bool = False) -> None:
        self.useProgThread = useProgThread
        """ignored: Weft's agents have a thread, which sleeps while there is nothing to do"""
        self.useListenThread = useListenThread
        """answer agents that ask for metadata, at `listenPort`"""
        self.listenPort = listenPort
        """0: any port"""
        self.syncMode = syncMode
        """ignored: any thread may use an agent at any time"""
        self.numWorkers = numWorkers
        self.pthrDelay = pthrDelay
        self.lthrDelay = lthrDelay
        self.captureTelemetry = captureTelemetry
        """whether `getXferTelemetry` works"""


nixlAgentConfig.__module__ = "nixl._bindings"

_open: weakref.WeakSet[nixlAgent] = weakref.WeakSet()


def _close_all() -> None:
    for agent in list(_open):
        agent.close()


atexit.register(_close_all)


def _as_bytes(text: Text) -> bytes:
    return text.encode() if isinstance(text, str) else bytes(memoryview(text))  # bytes(3) would be three zeros


def _as_name(text: Text) -> str:
    return text.decode() if isinstance(text, bytes) else str(text)


def _listen(fd: int, stop: int, inbox: weakref.ref[Inbox]) -> None:
    """A thread that answers other agents while the program does something else."""
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    poller.register(stop, select.POLLIN)
    while True:
        ready = poller.poll()
        if any(one == stop for one, _ in ready):
            os.close(stop)
            return
        here = inbox()
        if here is not None:
            here.pump()
        del here


class nixlAgent:
    """An agent of NIXL's bindings: back ends, prepared lists and transfers are numbers."""

    def __init__(self, name: str, config: nixlAgentConfig | None = None) -> None:
        if not name:
            raise NoAgentName("an agent needs a name, by which the others know it")
        config = config or nixlAgentConfig()
        self._name = name
        self._telemetry = config.captureTelemetry or os.environ.get("NIXL_TELEMETRY_ENABLE", "").lower() in (
            "1", "y", "yes", "true", "on")
        self._store = self._open_store()
        prefix = os.environ.get("NIXL_ETCD_NAMESPACE", "/nixl/agents").rstrip("/").removesuffix("agents") or "/"
        port = config.listenPort if config.useListenThread else 0
        with translated():
            self._weft = weft.Agent(name, transports="shm", listen=secret.listen_at(port), token=secret.token(),
                                    store=self._store, prefix=prefix if prefix.endswith("/") else prefix + "/",
                                    transfer_timeout=_TRANSFER_S)
        self._transports = ["shm"]
        self._inbox = Inbox(self._weft, self._told)
        self._peers = Peers(self._weft, self._inbox)
        self._memory = Memory(self._weft)
        self._exchange = Exchange(self._weft, self._peers, self._inbox)
        self._backends: Table[plugins.Backend] = Table("back end")
        self._lists: Table[Prepared] = Table("prepared list")
        self._requests: Table[Request] = Table("transfer")
        self._stop = self._start_listening() if config.useListenThread else -1
        _open.add(self)

    @staticmethod
    def _open_store() -> weft.Store | None:
        endpoints = os.environ.get("NIXL_ETCD_ENDPOINTS")
        if not endpoints:
            return None
        with translated():
            return weft.Store(endpoints, token=os.environ.get("WEFT_STORE_TOKEN") or None)

    def _start_listening(self) -> int:
        stop = os.eventfd(0, os.EFD_CLOEXEC) if hasattr(os, "eventfd") else -1
        write = stop
        if stop < 0:
            stop, write = os.pipe()  # CPython before 3.10
        else:
            stop = os.dup(write)
        threading.Thread(target=_listen, args=(self._weft.fileno(), stop, weakref.ref(self._inbox)),
                         name="nixl-listen", daemon=True).start()
        return write

    def close(self) -> None:
        """Closes the agent. The call waits up to two seconds until the notifications that the agent has sent are taken;
        those that are not taken by then are lost. A second call is no error."""
        if self._weft.closed:
            return
        if self._peers.notified:
            self._inbox.settle(self._peers.notified, _SETTLE_S)
        if self._stop >= 0:
            os.write(self._stop, (1).to_bytes(8, "little"))
            os.close(self._stop)
            self._stop = -1
        for _, request in self._requests.items():
            try:
                request.close()
            except (errors.Error, nixlBackendError, nixlRepostActiveError):
                continue  # closing the agent ends the transfer
        self._weft.close()
        self._memory.close()
        if self._store is not None:
            self._store.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:
            return  # the agent was never open, or the process ends

    def _told(self, peer: int, kind: bytes, rest: bytes) -> None:
        try:
            if kind == ASK:
                self._inbox.send(peer, ANSWER)
            else:
                self._exchange.hear(peer, kind, rest)
        except (errors.Error, nixlBackendError) as error:
            level = logging.DEBUG if kind == ASK else logging.WARNING  # the sender of ASK is about to leave
            logger.log(level, "a message of another agent had no effect: %s", error)

    # --- back ends ---

    def getAvailPlugins(self) -> list[str]:
        """The plug-ins that work on this host."""
        return plugins.available()

    def getPluginParams(self, type: str) -> tuple[dict[str, str], list[str]]:
        """The parameters of a plug-in that Weft uses, with their defaults, and the kinds of memory that the plug-in
        moves."""
        return plugins.plugin_params(type)

    def getBackendParams(self, backend: int) -> tuple[dict[str, str], list[str]]:
        """The same for a back end, with the values with which it was created."""
        one = self._backends.get(backend)
        return dict(one.params), [mem.name for mem in one.mems]

    def createBackend(self, type: str, initParams: dict[str, str] | None = None) -> int:
        """Creates a back end, and returns its number."""
        params = plugins.parameters(type, {} if initParams is None else initParams)
        if any(one.name == type for _, one in self._backends.items()):
            raise nixlInvalidParamError(f"this agent has a back end {type} already")
        backend, unknown = plugins.make_backend(type, params)
        if unknown:
            logger.info("%s: parameters that Weft has no use for: %s", type, ", ".join(unknown))
        with _S3_LOCK:
            variables = plugins.s3_environment(backend, params)
            before = {name: os.environ.get(name) for name in variables}
            os.environ.update(variables)
            try:
                self._open_transports(backend.transports)
            finally:
                for name, value in before.items():
                    if value is None:
                        del os.environ[name]
                    else:
                        os.environ[name] = value
        if type == "OBJ":
            self._memory.bucket = backend.params.get("bucket", "")
            backend.params = {key: value for key, value in backend.params.items()
                              if key not in ("access_key", "secret_key", "session_token")}
        return self._backends.add(backend)

    def _open_transports(self, names: Sequence[str]) -> None:
        for name in names:
            if name not in self._transports:
                with translated():
                    self._weft.add_transport(name)
                self._transports.append(name)

    def _ways(self, mem: nixl_mem_t, backends: Sequence[int]) -> tuple[str, ...]:
        """The transports with which memory of this kind shall be registered; none: all that can use it.
        `nixlNotFoundError`: no back end moves it."""
        chosen = [self._backends.get(one) for one in backends] or [one for _, one in self._backends.items()]
        fitting = [one for one in chosen if mem in one.mems]
        if not fitting:
            have = ", ".join(one.name for one in chosen) or "none"
            raise nixlNotFoundError(f"no back end moves {mem.name}: this agent has {have}")
        return tuple(dict.fromkeys(way for one in fitting for way in one.transports)) if backends else ()

    # --- memory ---

    def registerMem(self, descs: nixlRegDList, backends: Sequence[int] = ()) -> nixl_status_t:
        """Registers all descriptors, or none."""
        self._memory.register(_checked(descs, nixlRegDList), self._ways(descs.getType(), backends))
        return SUCCESS

    def deregisterMem(self, descs: nixlRegDList, backends: Sequence[int] = ()) -> nixl_status_t:
        """Deregisters all descriptors, or none if a transfer in flight uses one. Prepared lists and other transfers
        that use them are released. A closed agent has deregistered all of them already."""
        if self._weft.closed:
            return SUCCESS
        found = self._memory.find(_checked(descs, nixlRegDList))
        self._check_idle(found)
        for one in found:
            try:
                self._memory.forget(one)
            except nixlNotAllowedError:
                self._release_users(one)
                self._memory.forget(one)
        return SUCCESS

    def _check_idle(self, found: list[Registered]) -> None:
        for _, request in self._requests.items():
            used = next((one for one in found if request.active and request.uses(one.mem, one.desc)), None)
            if used is not None:
                raise nixlNotAllowedError(f"{used.mem.name} {used.desc[:3]} is used by a transfer in flight")

    def _release_users(self, gone: Registered) -> None:
        for number, request in self._requests.items():
            if request.uses(gone.mem, gone.desc):
                if request.active:
                    raise nixlNotAllowedError(f"{gone.mem.name} {gone.desc[:3]} is used by a transfer in flight")
                request.close()
                self._requests.remove(number)
                del request
        for number, prepared in self._lists.items():
            if prepared.overlaps(gone.mem, gone.desc):
                self._lists.remove(number)
                del prepared

    def queryMem(self, descs: nixlRegDList, backend: int) -> list[dict[str, str] | None]:
        """Whether the memory of each descriptor, which need not be registered, exists: its properties, or None."""
        mem = _checked(descs, nixlRegDList).getType()
        self._ways(mem, [backend])
        return [self._memory.query(mem, desc) for desc in descs]

    # --- transfers ---

    def makeConnection(self, remote_agent: Text, backends: Sequence[int] = ()) -> nixl_status_t:
        """Connects to an agent whose metadata is loaded, before the first transfer needs the connection."""
        name = _as_name(remote_agent)
        if name != self._name:
            peer = self._peers.find(name)
            self._peers.introduce(peer)
            with translated():
                self._weft.connect(peer.id)
        return SUCCESS

    def _prepare(self, name: str, descs: nixlXferDList, remote: bool) -> Prepared:
        _checked(descs, nixlXferDList)
        if descs.isEmpty():
            raise nixlInvalidParamError("the list has no descriptor")
        peer = None if not remote or name == self._name else self._peers.find(name)
        if peer is not None:
            self._peers.come_back(peer)
        if descs.descCount() > MOST_DESCRIPTORS:
            return Prepared(None, peer, remote, nixlXferDList(descs.getType(), descs.rows()))
        rows = self._memory.rows(descs) if peer is None else self._peers.rows(peer, descs)
        with translated():
            made = self._weft.descriptors(rows, weft.SELF if peer is None else peer.id)
        return Prepared(made, peer, remote, nixlXferDList(descs.getType(), descs.rows()))

    def prepXferDlist(self, agent_name: Text, descs: nixlXferDList, backends: Sequence[int] = ()) -> int:
        """Looks up a list once for many transfers: memory of this agent ("" or its name), or of another agent."""
        name = _as_name(agent_name)
        self._ways(_checked(descs, nixlXferDList).getType(), backends)
        return self._lists.add(self._prepare(name, descs, name != NIXL_INIT_AGENT))

    def makeXferReq(self, operation: nixl_xfer_op_t, local_side: int, local_indices: Any, remote_side: int,
                    remote_indices: Any, notif_msg: Text = "", backends: Sequence[int] = (),
                    skip_desc_merge: bool = False, track_flags: int = 0) -> int:
        """Makes a transfer between chosen descriptors of two prepared lists, in their order."""
        _untracked(track_flags)
        local, remote = self._lists.get(local_side), self._lists.get(remote_side)
        if local.remote or not remote.remote:
            raise nixlInvalidParamError("the local side is to be prepared for NIXL_INIT_AGENT, the remote side for the "
                                        "name of an agent")
        chosen = [self._chosen(one, numbers) for one, numbers in (
            (local, _indices(local_indices, "local_indices")), (remote, _indices(remote_indices, "remote_indices")))]
        return self._request(operation, chosen[0][0], chosen[1][0], (chosen[0][1], chosen[1][1]), notif_msg,
                             not skip_desc_merge)

    def _chosen(self, side: Prepared, indices: list[int]) -> tuple[Prepared, Sequence[int]]:
        """One side of a transfer: a list that Weft has looked up, and indices in it. If the list is too long for Weft,
        the chosen descriptors are looked up here."""
        if side.list is not None:
            return side, indices
        try:
            descs = nixlXferDList(side.descs.getType(), [side.descs[index] for index in indices])
        except IndexError as error:
            raise nixlInvalidParamError(str(error)) from error
        name = NIXL_INIT_AGENT if not side.remote else self._name if side.peer is None else side.peer.name
        return self._prepare(name, descs, side.remote), range(len(indices))

    def createXferReq(self, operation: nixl_xfer_op_t, local_descs: nixlXferDList, remote_descs: nixlXferDList,
                      remote_agent: Text, notif_msg: Text = "", backends: Sequence[int] = (),
                      track_flags: int = 0) -> int:
        """Makes a transfer between two lists: the first local descriptor with the first remote one, and so on."""
        _untracked(track_flags)
        self._ways(_checked(local_descs, nixlXferDList).getType(), backends)
        remote = self._prepare(_as_name(remote_agent), remote_descs, True)
        return self._request(operation, self._prepare("", local_descs, False), remote, None, notif_msg, False)

    def _request(self, op: nixl_xfer_op_t, local: Prepared, remote: Prepared, indices: tuple[Any, Any] | None,
                 notification: Text, merged: bool) -> int:
        for side in (local, remote):
            if side.list is None:
                raise nixlInvalidParamError(f"a transfer has at most {MOST_DESCRIPTORS:,} descriptors, and these are "
                                            f"{side.descs.descCount():,}")
        with translated():
            return self._requests.add(Request(self._weft, self._peers, self._inbox, nixl_xfer_op_t(op), local, remote,
                                              indices, _as_bytes(notification), merged))

    def estimateXferCost(self, req_handle: int) -> tuple[int, int, int]:
        """(expected time of a post in microseconds; its margin: 0, since Weft does not compute one; how the estimate
        was made)"""
        request = self._requests.get(req_handle)
        with translated():
            return request.estimate_us(), 0, int(nixl_cost_t.NIXL_COST_ANALYTICAL_BACKEND)

    def postXferReq(self, reqh: int, notif_msg: Text = "") -> nixl_status_t:
        """Starts a transfer, for the first time or again. The notification is also used for later posts."""
        return self._requests.get(reqh).post(_as_bytes(notif_msg))

    def getXferStatus(self, reqh: int, events: object = None) -> nixl_status_t:
        """The state of a transfer. A failure is raised."""
        if events is not None:
            _untracked(1)
        return self._requests.get(reqh).state()

    def getXferTelemetry(self, reqh: int) -> nixlXferTelemetry:
        """Times and sizes of the last post."""
        if not self._telemetry:
            raise nixlNoTelemetryError("open the agent with capture_telemetry=True, or set NIXL_TELEMETRY_ENABLE=y")
        request = self._requests.get(reqh)
        with translated():
            return request.telemetry()

    def queryXferBackend(self, reqh: int) -> int:
        """The back end that carries a transfer."""
        numbers = {one.name: number for number, one in self._backends.items()}
        request = self._requests.get(reqh)
        with translated():
            return numbers[plugins.owner_of(request.transport, list(numbers))]

    def releaseXferReq(self, reqh: int) -> nixl_status_t:
        """Frees a transfer. A transfer in flight is cancelled first."""
        if not self._weft.closed:
            try:
                request = self._requests.get(reqh)
            except nixlInvalidParamError:
                return SUCCESS  # it was released together with memory that it used
            request.close()
            self._requests.remove(reqh)
        return SUCCESS

    def releasedDlistH(self, handle: int) -> nixl_status_t:
        """Frees a prepared list. Transfers that were made with it stay."""
        self._lists.remove(handle)
        return SUCCESS

    def prepMemView(self, dlist: nixlXferDList | nixlRemoteDList, backends: Sequence[int] = ()) -> int:
        """Refused: kernels cannot post transfers of Weft's agents."""
        raise nixlNotSupportedError("memory views for kernels: Weft's agents are driven by the host")

    def releaseMemView(self, mvh: int) -> None:
        """Refused, like `prepMemView`."""
        self.prepMemView(nixlXferDList(nixl_mem_t.DRAM_SEG))

    # --- notifications ---

    def getNotifs(self, notif_map: dict[str, list[bytes]], backends: Sequence[int] = ()) -> dict[str, list[bytes]]:
        """The map with the notifications that have arrived since: lists of messages by the sender's name."""
        merged = {name: list(messages) for name, messages in notif_map.items()}
        for name, message in self._inbox.taken():
            merged.setdefault(name, []).append(message)
        return merged

    def genNotif(self, remote_agent: Text, msg: Text, backends: Any = ()) -> nixl_status_t:
        """Sends a notification without a transfer."""
        name = _as_name(remote_agent)
        if name == self._name:
            self._inbox.notify(weft.SELF, _as_bytes(msg))
            return SUCCESS
        peer = self._peers.find(name)
        self._peers.introduce(peer)
        self._inbox.notify(peer.id, _as_bytes(msg))
        self._peers.notified.add(peer.id)
        return SUCCESS

    # --- metadata ---

    def _document(self, regions: list[int] | None, connects: bool) -> bytes:
        with translated():
            blob = self._weft.metadata(regions, addresses=connects)
            addresses = secret.reachable_at(self._weft.port)
        return Document(self._name, regions is None, connects, regions or [], addresses, blob).written()

    def _ids(self, descs: nixlRegDList) -> list[int]:
        return [one.region.id for one in self._memory.find(_checked(descs, nixlRegDList))]

    def getLocalMD(self) -> bytes:
        """All of this agent's metadata, for `loadRemoteMD` of another one."""
        return self._document(None, True)

    def getLocalPartialMD(self, descs: nixlRegDList, inc_conn_info: bool = False,
                          backends: Sequence[int] = ()) -> bytes:
        """The metadata of some registered descriptors. Without conn_info it adds to what its reader knows already."""
        return self._document(self._ids(descs), inc_conn_info)

    def loadRemoteMD(self, remote_metadata: bytes) -> bytes:
        """Loads the metadata of another agent, and returns its name."""
        document = read_document(remote_metadata)
        self._peers.meet_again(document.name, document.addresses)
        try:
            peer = self._weft.load(document.blob)
        except errors.AuthError as error:
            raise nixlNotAllowedError(f"metadata of {document.name}: its agent has another token than this one: set "
                                      "WEFT_TOKEN to the same secret for both") from error
        except errors.ExistsError as error:
            raise nixlMismatchError(f"metadata of another agent of the name {document.name!r} than the one that is "
                                    "known: call remove_remote_agent() before loading it") from error
        except errors.Error as error:
            raise failure_of(error) from error
        if peer != weft.SELF:
            with translated():  # another thread may close this agent now
                self._peers.learn(peer, document.everything, document.regions, document.addresses)
        return document.name.encode()

    def invalidateRemoteMD(self, remote_agent: Text) -> nixl_status_t:
        """Ends a peer on this side; its transfers in flight fail. A closed agent has ended all of them already."""
        if self._weft.closed:
            return SUCCESS
        name = _as_name(remote_agent)
        if name == self._name:
            return nixl_status_t.NIXL_ERR_INVALID_PARAM
        return SUCCESS if self._peers.forget(name) else nixl_status_t.NIXL_ERR_NOT_FOUND

    def checkRemoteMD(self, remote_agent: Text, descs: nixlXferDList) -> nixl_status_t:
        """Whether the metadata of an agent is here, and has these descriptors."""
        name = _as_name(remote_agent)
        if name == self._name:
            return SUCCESS
        try:
            found = self._peers.has(self._peers.find(name), _checked(descs, nixlXferDList))
        except (nixlNotFoundError, nixlRemoteDisconnectError):
            found = False
        return SUCCESS if found else nixl_status_t.NIXL_ERR_NOT_FOUND

    def _address(self, ip_addr: str, port: int) -> tuple[str, int] | None:
        """The address at which a peer listens; None: use the store."""
        if ip_addr:
            return ip_addr, port
        if self._store is None:
            raise nixlInvalidParamError("neither an address is given, nor is NIXL_ETCD_ENDPOINTS set when the agent "
                                        "was opened")
        return None

    def sendLocalMD(self, ip_addr: str = "", port: int = 0) -> nixl_status_t:
        """Sends all of this agent's metadata to a peer that listens, or to the store, in the background."""
        address = self._address(ip_addr, port)
        if address is not None:
            self._exchange.send_to(address, True, [])
        else:
            self._exchange.publish("", True, [], True)
        return SUCCESS

    def sendLocalPartialMD(self, descs: nixlRegDList, inc_conn_info: bool = False, backends: Sequence[int] = (),
                           ip_addr: str = "", port: int = 0, label: str = "") -> nixl_status_t:
        """Sends the metadata of some registered descriptors in the same way; in the store it is under a label."""
        address, ids = self._address(ip_addr, port), self._ids(descs)
        if address is not None:
            self._exchange.send_to(address, False, ids)
        elif not label:
            raise nixlInvalidParamError("partial metadata in a store needs a label")
        else:
            self._exchange.publish(label, False, ids, inc_conn_info)
        return SUCCESS

    def fetchRemoteMD(self, remote_agent: Text, ip_addr: str = "", port: int = 0, label: str = "") -> nixl_status_t:
        """Requests an agent's metadata from a peer that listens, or from the store, in the background."""
        address = self._address(ip_addr, port)
        if address is not None:
            self._exchange.fetch_from(address, _as_name(remote_agent))
        else:
            self._exchange.fetch_by_name(_as_name(remote_agent), label)
        return SUCCESS

    def invalidateLocalMD(self, ip_addr: str = "", port: int = 0) -> nixl_status_t:
        """Withdraws the metadata that was sent to a peer, or to the store, in the background."""
        address = self._address(ip_addr, port)
        if address is not None:
            self._exchange.withdraw_from(address)
        else:
            self._exchange.unpublish()
        return SUCCESS


nixlAgent.__module__ = "nixl._bindings"


def _checked(descs: Any, kind: type[Any]) -> Any:
    if type(descs) is not kind:
        raise TypeError(f"a {kind.__name__} is wanted, not {type(descs).__name__}")
    return descs


def _untracked(flags: int) -> None:
    if flags:
        raise nixlNotSupportedError("events of single descriptors: Weft ends a transfer as a whole")


def _indices(source: Any, name: str) -> list[int]:
    """The indices of a list, or of an array of any type, as in the original: floats that are whole numbers, too."""
    numbers = source
    if is_array(source) and not isinstance(source, array.array):
        view = memoryview(source)
        if view.ndim != 1:
            raise ValueError(f"{name}: a list of numbers, or an array of one dimension, is wanted")
        numbers = source.tolist() if hasattr(source, "tolist") else view.tolist()
        if view.format[-1] in "efd":  # floats
            numbers = [int(one) if isinstance(one, float) and one.is_integer() else one for one in numbers]
    try:
        indices = [operator.index(one) for one in numbers]
    except TypeError:
        raise TypeError(f"{name}: a list of whole numbers is wanted, not {source!r:.60}") from None
    if any(one < 0 for one in indices):
        raise nixlInvalidParamError(f"{name}: {min(indices)} is no index")
    return indices
