"""`nixl_agent`: registered memory, transfers, notifications and exchange of metadata.

The names, arguments and results are those of NIXL's Python interface; the README of weft-compat has a table of the
differences. Failures are exceptions of `nixl._bindings`.
"""

from __future__ import annotations

import operator
import pickle
import threading
from collections.abc import Iterable
from typing import Any, Optional, Union

from . import _bindings as bindings
from ._impl import arrays
from ._impl.lists import read_list
from ._impl.status import NoDescriptors, NoSuchBackend, NoSuchName
from .logging import get_logger

DEFAULT_COMM_PORT = bindings.DEFAULT_COMM_PORT
NIXL_NULL_AGENT = bindings.NIXL_NULL_AGENT

nixlBind = bindings
"""the name by which programs import the layer below from this module"""

nixl_backend_handle = int
nixl_thread_sync_t = bindings.nixl_thread_sync_t

logger = get_logger("api")

_Name = Union[str, bytes]
"""the name of another agent; `add_remote_agent` returns bytes"""

_OPERATIONS = {"READ": bindings.NIXL_READ, "WRITE": bindings.NIXL_WRITE}


class _handle:
    """A number that belongs to an agent. It is released by `release`, or when no reference to the handle is left."""

    __slots__ = ("_agent", "_handle", "_released")

    def __init__(self, agent: bindings.nixlAgent, value: int) -> None:
        self._agent = agent
        self._handle = int(value)
        self._released = False

    def _release(self) -> None:
        raise NotImplementedError

    def release(self) -> None:
        """Releases the number. A second call is no error."""
        if not self._released:
            self._release()
            self._released = True

    def __index__(self) -> int:
        return self._handle

    def __del__(self) -> None:
        try:
            self.release()
        except Exception as error:
            logger.error("%r was not released: %s", self, error)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._handle}{', released' if self._released else ''}>"


class nixl_prepped_dlist_handle(_handle):
    """A prepared list of descriptors."""

    __slots__ = ()

    def _release(self) -> None:
        self._agent.releasedDlistH(self._handle)


class nixl_xfer_handle(_handle):
    """A transfer. Releasing it while it is in flight cancels it."""

    __slots__ = ()

    def _release(self) -> None:
        self._agent.releaseXferReq(self._handle)


def _number(handle: Any, kind: type[_handle]) -> int:
    """The number of a handle of this kind; prepared lists and transfers have separate numbers."""
    if handle.__class__ is kind:
        number: int = handle._handle
        return number
    if (isinstance(handle, _handle) and not isinstance(handle, kind)) or not hasattr(handle, "__index__"):
        raise TypeError(f"a {kind.__name__} is wanted, not {handle!r:.60}")
    return operator.index(handle)


def _release(handle: Any, kind: type[_handle]) -> None:
    if not isinstance(handle, kind):
        raise TypeError(f"a {kind.__name__} is wanted, not {handle!r:.60}")
    handle.release()


class nixl_agent_config:
    """How to open an agent.

    enable_listen_thread: other agents may fetch its metadata at `listen_port`. capture_telemetry: `get_xfer_telemetry`
    works. backends: back ends to create at once. enable_prog_thread, num_threads and sync_mode have no effect: an agent
    has its own thread, which sleeps while there is nothing to do, and any thread may use the agent.
    """

    def __init__(self, enable_prog_thread: bool = True, enable_listen_thread: bool = False,
                 listen_port: int = DEFAULT_COMM_PORT, capture_telemetry: bool = False, num_threads: int = 0,
                 backends: list[str] = ["UCX"], sync_mode: Optional[nixl_thread_sync_t] = None) -> None:
        if sync_mode is not None and not isinstance(sync_mode, nixl_thread_sync_t):
            raise TypeError(f"sync_mode must be a nixl_thread_sync_t, not {sync_mode!r}")
        self.backends = backends
        self.enable_pthread = enable_prog_thread
        self.enable_listen = enable_listen_thread
        self.port = listen_port
        self.capture_telemetry = capture_telemetry
        self.num_threads = num_threads
        self.sync_mode = sync_mode


class nixl_agent:
    """An agent. With instantiate_all it has every back end that works here; otherwise the configuration names its back
    ends."""

    def __init__(self, agent_name: str, nixl_conf: Optional[nixl_agent_config] = None,
                 instantiate_all: bool = False) -> None:
        if nixl_conf is not None and instantiate_all:
            logger.warning("instantiate_all is passed over: the configuration names the back ends")
            instantiate_all = False
        conf = nixl_conf or nixl_agent_config()
        usual = bindings.NIXL_THREAD_SYNC_STRICT if conf.enable_listen else bindings.NIXL_THREAD_SYNC_NONE
        low = bindings.nixlAgentConfig(useProgThread=conf.enable_pthread, useListenThread=conf.enable_listen,
                                       listenPort=conf.port, captureTelemetry=conf.capture_telemetry,
                                       syncMode=usual if conf.sync_mode is None else conf.sync_mode)
        self.name = agent_name
        self.agent = bindings.nixlAgent(agent_name, low)
        self.notifs: dict[str, list[bytes]] = {}
        self._notifs_lock = threading.RLock()  # notifications that one thread has taken are not lost for another thread
        self.backends: dict[str, nixl_backend_handle] = {}
        self.backend_mems: dict[str, list[str]] = {}
        self.backend_options: dict[str, dict[str, str]] = {}
        self.nixl_mems = arrays.MEMS
        self.nixl_ops = _OPERATIONS
        self.plugin_list = self.agent.getAvailPlugins()
        self.plugin_b_options: dict[str, dict[str, str]] = {}
        self.plugin_mem_types: dict[str, list[str]] = {}
        for plugin in self.plugin_list:
            self.plugin_b_options[plugin], self.plugin_mem_types[plugin] = self.agent.getPluginParams(plugin)
        for backend in self.plugin_list if instantiate_all else conf.backends:
            if backend in self.plugin_list:
                self.create_backend(backend)
            else:
                logger.warning("the back end %s is left out: its plug-in is not among %s", backend,
                               ", ".join(self.plugin_list))

    # --- back ends ---

    def get_plugin_list(self) -> list[str]:
        """The plug-ins that work on this host."""
        return list(self.plugin_list)

    def _known(self, table: dict[str, Any], backend: str, what: str) -> Any:
        if backend not in table:
            logger.warning("%s is no %s of this agent: there are %s", backend, what, ", ".join(table) or "none")
            return None
        return table[backend].copy()

    def get_plugin_mem_types(self, backend: str) -> list[str]:
        """The kinds of memory that a plug-in moves; none, with a warning, if there is no such plug-in."""
        return self._known(self.plugin_mem_types, backend, "plug-in") or []

    def get_plugin_params(self, backend: str) -> dict[str, str]:
        """The parameters of a plug-in that Weft uses, with their defaults."""
        return self._known(self.plugin_b_options, backend, "plug-in") or {}

    def get_backend_mem_types(self, backend: str) -> list[str]:
        """The kinds of memory that a back end moves."""
        return self._known(self.backend_mems, backend, "back end") or []

    def get_backend_params(self, backend: str) -> dict[str, str]:
        """The parameters that a back end was created with."""
        return self._known(self.backend_options, backend, "back end") or {}

    def create_backend(self, backend: str, initParams: dict[str, str] = {}) -> None:
        """Creates a back end. `nixlNotFoundError`: it does not work here; the text says why."""
        handle = self.agent.createBackend(backend, initParams)
        self.backends[backend] = handle
        self.backend_options[backend], self.backend_mems[backend] = self.agent.getBackendParams(handle)

    def _handles(self, backends: list[str]) -> list[int]:
        if isinstance(backends, str) or not isinstance(backends, Iterable):
            raise TypeError(f"backends: a list of names is wanted, not {backends!r:.60}")
        missing = [name for name in backends if not isinstance(name, str) or name not in self.backends]
        if missing:
            raise NoSuchBackend(f"this agent has no back end {', '.join(map(str, missing))}: it has "
                                f"{', '.join(self.backends) or 'none'}")
        return [self.backends[name] for name in backends]

    # --- memory ---

    def register_memory(self, reg_list: Any, mem_type: Optional[str] = None,
                        backends: list[str] = []) -> bindings.nixlRegDList:
        """Registers memory, files or objects, in any form that `get_reg_descs` takes, and returns the list for
        `deregister_memory`."""
        descs: bindings.nixlRegDList = self._wanted(self.get_reg_descs(reg_list, mem_type), "register_memory")
        self.agent.registerMem(descs, self._handles(backends))
        return descs

    def deregister_memory(self, dereg_list: bindings.nixlRegDList, backends: list[str] = []) -> None:
        """Deregisters what `register_memory` registered. Idle transfers and prepared lists that use it are released."""
        self.agent.deregisterMem(dereg_list, self._handles(backends))

    def query_memory(self, reg_list: Any, backend: str,
                     mem_type: Optional[str] = None) -> list[Optional[dict[str, str]]]:
        """Whether the memory of each descriptor exists: its size in bytes and other properties, or None if it does not
        exist."""
        descs = self._wanted(self.get_reg_descs(reg_list, mem_type), "query_memory")
        return self.agent.queryMem(descs, self._handles([backend])[0])

    @staticmethod
    def _wanted(descs: Any, call: str) -> Any:
        if descs is None:
            raise NoDescriptors(f"{call}: these are no descriptors; the log says why")
        return descs

    # --- transfers ---

    def make_connection(self, remote_agent: _Name, backends: list[str] = []) -> None:
        """Connects to an agent before the first transfer needs the connection."""
        self.agent.makeConnection(remote_agent, self._handles(backends))

    def prep_xfer_dlist(self, agent_name: _Name, xfer_list: Any, mem_type: Optional[str] = None,
                        backends: list[str] = []) -> nixl_prepped_dlist_handle:
        """Looks descriptors up once, for many transfers: of this agent ("NIXL_INIT_AGENT" or ""), of another one, or
        with this agent's own name as the remote side of transfers within it. In addition to the forms of
        get_xfer_descs, an N x 5 array with mem_type is allowed. Each of its rows (address, length, device, stride,
        count) describes `count` descriptors with consecutive indices."""
        if arrays.is_strided(xfer_list):
            descs = arrays.expanded(xfer_list, mem_type)
        else:
            descs = self._wanted(self.get_xfer_descs(xfer_list, mem_type), "prep_xfer_dlist")
        name = bindings.NIXL_INIT_AGENT if agent_name in ("NIXL_INIT_AGENT", "") else agent_name
        return nixl_prepped_dlist_handle(self.agent, self.agent.prepXferDlist(name, descs, self._handles(backends)))

    @staticmethod
    def _operation(operation: str) -> Any:
        if operation not in _OPERATIONS:
            raise NoSuchName(f"operation {operation!r}: want 'READ' or 'WRITE'")
        return _OPERATIONS[operation]

    def make_prepped_xfer(self, operation: str, local_xfer_side: nixl_prepped_dlist_handle, local_indices: Any,
                          remote_xfer_side: nixl_prepped_dlist_handle, remote_indices: Any, notif_msg: bytes = b"",
                          backends: list[str] = [], skip_desc_merge: bool = False) -> nixl_xfer_handle:
        """Makes a transfer between descriptors of two prepared lists, chosen by indices in their order."""
        made = self.agent.makeXferReq(self._operation(operation), _number(local_xfer_side, nixl_prepped_dlist_handle),
                                      local_indices, _number(remote_xfer_side, nixl_prepped_dlist_handle),
                                      remote_indices, notif_msg,
                                      self._handles(backends), skip_desc_merge)
        return nixl_xfer_handle(self.agent, made)

    def initialize_xfer(self, operation: str, local_descs: bindings.nixlXferDList,
                        remote_descs: bindings.nixlXferDList, remote_agent: _Name, notif_msg: bytes = b"",
                        backends: list[str] = []) -> nixl_xfer_handle:
        """Makes a transfer between two lists of descriptors of equal lengths. remote_agent may be this agent itself."""
        made = self.agent.createXferReq(self._operation(operation), local_descs, remote_descs, remote_agent, notif_msg,
                                        self._handles(backends))
        return nixl_xfer_handle(self.agent, made)

    @staticmethod
    def _word(status: bindings.nixl_status_t) -> str:
        return {bindings.NIXL_SUCCESS: "DONE", bindings.NIXL_IN_PROG: "PROC"}.get(status, "ERR")

    def transfer(self, handle: nixl_xfer_handle, notif_msg: bytes = b"") -> str:
        """Starts a transfer, for the first time or again: returns "DONE", or "PROC" while it is in flight. A failure is
        raised. The remote agent gets the notification when the data has arrived."""
        return self._word(self.agent.postXferReq(_number(handle, nixl_xfer_handle), notif_msg))

    def check_xfer_state(self, handle: nixl_xfer_handle) -> str:
        """The state of a transfer: "DONE" or "PROC". A failure is raised."""
        return self._word(self.agent.getXferStatus(_number(handle, nixl_xfer_handle)))

    def estimate_xfer_cost(self, req_handle: nixl_xfer_handle) -> tuple[int, int, str]:
        """(expected time in microseconds, its margin, "ANALYTICAL_BACKEND"). The margin is 0, because Weft does not
        compute one."""
        duration, margin, _ = self.agent.estimateXferCost(_number(req_handle, nixl_xfer_handle))
        return duration, margin, "ANALYTICAL_BACKEND"

    def get_xfer_telemetry(self, handle: nixl_xfer_handle) -> bindings.nixlXferTelemetry:
        """Times and sizes of the last post. `nixlNoTelemetryError`: the agent was opened without telemetry."""
        return self.agent.getXferTelemetry(_number(handle, nixl_xfer_handle))

    def query_xfer_backend(self, handle: nixl_xfer_handle) -> str:
        """The back end that carries a transfer."""
        number = self.agent.queryXferBackend(_number(handle, nixl_xfer_handle))
        return next(name for name, handle_of in self.backends.items() if handle_of == number)

    def release_xfer_handle(self, handle: nixl_xfer_handle) -> None:
        """Frees a transfer. A transfer in flight is cancelled first."""
        _release(handle, nixl_xfer_handle)

    def release_dlist_handle(self, handle: nixl_prepped_dlist_handle) -> None:
        """Frees a prepared list."""
        _release(handle, nixl_prepped_dlist_handle)

    def prep_mem_view(self, dlist: Union[bindings.nixlXferDList, bindings.nixlRemoteDList], *,
                      backends: Optional[list[str]] = None) -> int:
        """Refused: `nixlNotSupportedError`."""
        return self.agent.prepMemView(dlist, self._handles(backends or []))

    def release_mem_view(self, mvh: int) -> None:
        """Refused: `nixlNotSupportedError`."""
        self.agent.releaseMemView(mvh)

    # --- notifications ---

    def get_new_notifs(self, backends: list[str] = []) -> dict[str, list[bytes]]:
        """Notifications that have not been taken: lists by the sender's name."""
        return self.agent.getNotifs({}, self._handles(backends))

    def update_notifs(self, backends: list[str] = []) -> dict[str, list[bytes]]:
        """Adds the received notifications to `notifs`, which keeps all that `check_remote_xfer_done` has not found, and
        returns all of them."""
        with self._notifs_lock:
            self.notifs = self.agent.getNotifs(self.notifs, self._handles(backends))
            return self.notifs

    def check_remote_xfer_done(self, remote_agent_name: _Name, lookup_tag: bytes, backends: list[str] = [],
                               tag_is_prefix: bool = True) -> bool:
        """Whether an agent has sent a notification that begins with a tag, or contains it. If so, the call takes the
        notification."""
        wanted = lookup_tag.encode() if isinstance(lookup_tag, str) else lookup_tag
        name = remote_agent_name.decode() if isinstance(remote_agent_name, bytes) else remote_agent_name
        with self._notifs_lock:
            messages = self.update_notifs(backends).get(name, [])
            for at, message in enumerate(messages):
                if message.startswith(wanted) if tag_is_prefix else wanted in message:
                    del messages[at]
                    return True
        return False

    def send_notif(self, remote_agent_name: _Name, notif_msg: bytes, backend: Optional[str] = None) -> None:
        """Sends a notification without a transfer."""
        self.agent.genNotif(remote_agent_name, notif_msg, self._handles([backend] if backend else []))

    # --- metadata ---

    def get_agent_metadata(self) -> bytes:
        """All of this agent's metadata, for `add_remote_agent` of another one."""
        return self.agent.getLocalMD()

    def get_partial_agent_metadata(self, descs: bindings.nixlRegDList, inc_conn_info: bool = False,
                                   backends: list[str] = []) -> bytes:
        """The metadata of some registered descriptors. With inc_conn_info an agent that does not know this one yet can
        load it."""
        return self.agent.getLocalPartialMD(descs, bool(inc_conn_info), self._handles(backends))

    def add_remote_agent(self, metadata: bytes) -> bytes:
        """Loads the metadata of another agent, and returns its name as bytes, which programs decode. All calls take a
        name in this form, too."""
        return self.agent.loadRemoteMD(metadata)

    def remove_remote_agent(self, agent: _Name) -> None:
        """Forgets another agent; transfers with it that are in flight fail."""
        self.agent.invalidateRemoteMD(agent)

    def send_local_metadata(self, ip_addr: str = "", port: int = DEFAULT_COMM_PORT) -> None:
        """Sends all metadata to the agent that listens at the address, or to the store of NIXL_ETCD_ENDPOINTS. The call
        returns at once."""
        self.agent.sendLocalMD(ip_addr, port)

    def send_partial_agent_metadata(self, descs: bindings.nixlRegDList, inc_conn_info: bool = False,
                                    backends: list[str] = [], ip_addr: str = "", port: int = DEFAULT_COMM_PORT,
                                    label: str = "") -> None:
        """Sends the metadata of some registered descriptors in the same way; in the store it is under a label."""
        self.agent.sendLocalPartialMD(descs, bool(inc_conn_info), self._handles(backends), ip_addr, port, label)

    def fetch_remote_metadata(self, remote_agent: _Name, ip_addr: str = "", port: int = DEFAULT_COMM_PORT,
                              label: str = "") -> None:
        """Requests an agent's metadata, at the address where it listens or from the store. The call returns at once;
        `check_remote_metadata` says whether the metadata has arrived."""
        self.agent.fetchRemoteMD(remote_agent, ip_addr, port, label)

    def invalidate_local_metadata(self, ip_addr: str = "", port: int = DEFAULT_COMM_PORT) -> None:
        """Withdraws the metadata that was sent to the agent at the address, or to the store. The call returns at
        once."""
        self.agent.invalidateLocalMD(ip_addr, port)

    def check_remote_metadata(self, agent: _Name, descs: Optional[bindings.nixlXferDList] = None) -> bool:
        """Whether an agent's metadata has arrived, with these descriptors if some are given, and the agent has not
        left."""
        wanted = bindings.nixlXferDList(bindings.DRAM_SEG) if descs is None else descs
        return self.agent.checkRemoteMD(agent, wanted) == bindings.NIXL_SUCCESS

    # --- descriptors ---

    def _descs(self, descs: Any, mem_type: Optional[str], kind: Any, width: int) -> Any:
        if isinstance(descs, list) and descs and isinstance(descs[0], tuple):
            if mem_type is None:
                logger.error("tuples say no kind of memory: name it by mem_type")
                return None
            if len(descs[0]) != width:
                logger.error("tuples of %d entries are wanted here, not of %d", width, len(descs[0]))
                return None
            return kind(arrays.mem_of(mem_type), descs)
        if arrays.is_rows(descs):
            if mem_type is None:
                logger.error("an array of numbers says no kind of memory: name it by mem_type")
                return None
            if arrays.is_strided(descs):
                logger.error("an array of shape [N][5] goes to prep_xfer_dlist; here [N][3] is wanted, with a row "
                             "(address, length, device) for each piece")
                return None
            return kind(arrays.mem_of(mem_type), descs)
        if isinstance(descs, list) and not descs:
            return kind(arrays.mem_of(mem_type or "DRAM"))
        found = arrays.pieces_of(descs if isinstance(descs, list) else [descs])
        if found is None:
            return None
        return kind(found[0], [piece if width == 3 else (*piece, b"") for piece in found[1]])

    def get_xfer_descs(self, descs: Any, mem_type: Optional[str] = None) -> Any:
        """A nixlXferDList of tuples (address, length, device) or an N x 3 array, both with mem_type, of a tensor or any
        array, of a list of these, or of such a list, which is returned. None: the argument is none of these; the log
        says why."""
        if isinstance(descs, bindings.nixlRegDList):
            logger.error("a nixlRegDList is to be registered; its trim() gives the list for transfers")
            return None
        if isinstance(descs, bindings.nixlXferDList):
            return descs
        return self._descs(descs, mem_type, bindings.nixlXferDList, 3)

    def get_reg_descs(self, descs: Any, mem_type: Optional[str] = None) -> Any:
        """A nixlRegDList, of the same forms; the tuples are (address, length, device, text)."""
        if isinstance(descs, bindings.nixlRegDList):
            return descs
        if isinstance(descs, bindings.nixlXferDList):
            logger.error("a nixlXferDList is for transfers: pass a nixlRegDList, or what it is made of")
            return None
        return self._descs(descs, mem_type, bindings.nixlRegDList, 4)

    def get_remote_descs(self, descs: Any, mem_type: Optional[str] = None) -> Any:
        """A nixlRemoteDList of tuples (address, length, device, name of the agent), with mem_type."""
        if isinstance(descs, bindings.nixlRemoteDList):
            return descs
        if mem_type is None or not isinstance(descs, list):
            logger.error("a list of tuples (address, length, device, name of the agent) and its mem_type are wanted")
            return None
        return bindings.nixlRemoteDList(arrays.mem_of(mem_type), descs)

    def get_serialized_descs(self, descs: Any) -> bytes:
        """A list of descriptors as bytes."""
        return pickle.dumps(descs)

    def deserialize_descs(self, serialized_descs: bytes) -> Any:
        """The list of `get_serialized_descs`. `pickle.UnpicklingError`: the bytes are something else. The call never
        executes code from them."""
        return read_list(serialized_descs)
