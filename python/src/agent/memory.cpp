// Regions of an agent: registration, allocation, queries.
#include "core/errors.h"

#include "agent/agent.h"

#include "core/text.h"

namespace {

// Memory that an agent allocated. Views of it (buffer protocol) keep the agent from closing.
struct Memory {
  std::shared_ptr<AgentState> agent;
  weft_region_t region = 0;
  void *address = nullptr;
  uint64_t length = 0;
  int device = -1; // -1: host memory
  int exports = 0;
  bool freed = false;
  Py_ssize_t shape[1] = {0}, stride[1] = {1};

  void check_there() const {
    agent->check_open();
    if (freed)
      raise_code(WEFT_ERR_CLOSED, "the region was deregistered");
  }
};

int get_buffer(PyObject *object, Py_buffer *view, int flags) {
  Memory *self = nb::inst_ptr<Memory>(object);
  view->obj = nullptr;
  if (self->freed || self->agent->closed.load() || self->agent->forked() || self->device >= 0) {
    PyErr_SetString(PyExc_BufferError, self->device >= 0 ? "memory of a GPU has no buffer of the host"
                                                         : "the region was deregistered, or its agent is closed");
    return -1;
  }
  if (PyBuffer_FillInfo(view, object, self->address, (Py_ssize_t)self->length, 0, flags) != 0)
    return -1;
  self->exports++;
  self->agent->exports++;
  return 0;
}

void release_buffer(PyObject *object, Py_buffer *) {
  Memory *self = nb::inst_ptr<Memory>(object);
  auto agent = self->agent;
  self->exports--;
  if (--agent->exports == 0 && agent->dropped) {
    nb::error_scope scope;
    AgentState::shut_dropped(agent);
  }
}

PyType_Slot memory_slots[] = {
    {Py_bf_getbuffer, (void *)get_buffer}, {Py_bf_releasebuffer, (void *)release_buffer}, {0, nullptr}};

// The region of a buffer, an address, a file or an object.
weft_region_t enroll(const Agent &self, int kind, uint32_t flags, nb::object source, uint64_t address, uint64_t length,
                     int32_t device, int32_t fd, nb::object path, nb::object transports) {
  weft_agent_memory memory = WEFT_AGENT_MEMORY_INIT;
  MaybeText ways(transports, "transports");
  std::string file = path.is_none() ? "" : c_text(loose_bytes(path, "path"), "path");
  Buffer held;
  self.state->check_open();
  if (!source.is_none()) {
    held = Buffer::of(source, "buffer");
    if (!held.contiguous())
      raise_code(WEFT_ERR_INVALID, "buffer: its elements are not one after the other: register a contiguous copy");
    if (held.readonly())
      flags |= WEFT_MEMORY_READ_ONLY;
    kind = held.on_host() ? WEFT_MEMORY_HOST : WEFT_MEMORY_CUDA;
    address = (uintptr_t)held.data(), length = held.bytes();
  }
  memory.kind = (weft_memory_kind)kind;
  memory.address = (void *)(uintptr_t)address;
  memory.length = length;
  if (kind == WEFT_MEMORY_CUDA && device >= 0)
    flags |= WEFT_MEMORY_DEVICE, memory.device = device;
  if (fd >= 0)
    flags |= WEFT_MEMORY_FD, memory.fd = fd;
  memory.flags = flags;
  memory.path = path.is_none() ? nullptr : file.c_str(), memory.transports = ways.get();
  weft_region_t region = 0;
  agent_call(self.state, [&](weft_agent_t *agent) { return weft_agent_register(agent, &memory, &region); });
  self.state->kept.emplace(region, std::move(held));
  return region;
}

Memory *allocate(const Agent &self, int kind, uint64_t length, int32_t device) {
  auto made = std::make_unique<Memory>();
  made->agent = self.state;
  made->length = length;
  made->device = kind == WEFT_MEMORY_CUDA ? (device < 0 ? 0 : device) : -1;
  agent_call(self.state, [&](weft_agent_t *agent) {
    return weft_agent_allocate(agent, (weft_memory_kind)kind, length, device, &made->region, &made->address);
  });
  return made.release();
}

void free_memory(Memory &self) {
  if (self.freed || self.agent->closed.load())
    return;
  if (self.exports > 0)
    raise_code(WEFT_ERR_BUSY, std::to_string(self.exports) + " views of the region's memory are in use");
  self.freed = true;
  try {
    self.agent->check_free();
    self.agent->free_orphans(); // whose lists may use it
    agent_call(self.agent, [&](weft_agent_t *agent) { return weft_agent_deregister(agent, self.region); });
  } catch (...) {
    self.freed = false;
    throw;
  }
}

void deregister(const Agent &self, weft_region_t region) {
  self.state->check_free();
  self.state->free_orphans(); // whose lists may use it
  agent_call(self.state, [&](weft_agent_t *agent) { return weft_agent_deregister(agent, region); });
  self.state->kept.erase(region);
}

// (there, device, length, region)
nb::object query(const Agent &self, int kind, uint64_t address, uint64_t length, int32_t fd, nb::object path,
                 uint32_t timeout_ms) {
  struct Asked {
    std::string path;
    weft_agent_memory memory = WEFT_AGENT_MEMORY_INIT;
    weft_memory_status status = WEFT_MEMORY_STATUS_INIT;
  };
  auto asked = std::make_shared<Asked>();
  asked->memory.kind = (weft_memory_kind)kind;
  asked->memory.address = (void *)(uintptr_t)address;
  asked->memory.length = length;
  if (fd >= 0)
    asked->memory.flags = WEFT_MEMORY_FD, asked->memory.fd = fd;
  if (!path.is_none()) {
    asked->path = c_text(loose_bytes(path, "path"), "path");
    asked->memory.path = asked->path.c_str();
  }
  // If a store of objects does not answer, the request is repeated, so that a close has to wait for at most one
  // request.
  agent_wait(self.state, timeout_ms, 5000, [asked](weft_agent_t *agent, uint32_t attempt_ms) {
    return weft_agent_query_memory(agent, &asked->memory, attempt_ms, &asked->status);
  });
  return nb::make_tuple((asked->status.flags & WEFT_MEMORY_THERE) != 0, asked->status.device, asked->status.length,
                        asked->status.region);
}

// [(region, address, length, kind, device, flags)]
nb::object regions(const Agent &self, weft_peer_t peer) {
  std::vector<weft_region_info> info(16);
  uint32_t count = 0;
  for (;;) {
    agent_call(self.state, [&](weft_agent_t *agent) {
      return weft_agent_regions(agent, peer, info.data(), sizeof info[0], (uint32_t)info.size(), &count);
    });
    if (count <= info.size())
      break;
    info.resize(count + 16);
  }
  nb::list list;
  for (uint32_t i = 0; i < count; i++)
    list.append(nb::make_tuple(info[i].region, info[i].address, info[i].length, (int)info[i].kind, info[i].device,
                               info[i].flags));
  return list;
}

nb::dict cuda_interface(const Memory &self) {
  self.check_there();
  if (self.device < 0)
    throw nb::attribute_error("__cuda_array_interface__");
  nb::dict entries;
  entries["shape"] = nb::make_tuple(self.length);
  entries["typestr"] = "|u1";
  entries["data"] = nb::make_tuple((uintptr_t)self.address, false);
  entries["strides"] = nb::none();
  entries["version"] = 3;
  return entries;
}

} // namespace

void bind_memory(nb::class_<Agent> &agent, nb::module_ &m) {
  nb::class_<Memory>(m, "Memory", nb::type_slots(memory_slots))
      .def_ro("region", &Memory::region)
      .def_ro("length", &Memory::length)
      .def_ro("device", &Memory::device)
      .def_prop_ro("address", [](const Memory &self) { return (uintptr_t)self.address; })
      .def_prop_ro("__cuda_array_interface__", &cuda_interface,
                   nb::sig("def __cuda_array_interface__(self) -> dict[str, typing.Any]"))
      .def("free", &free_memory);
  agent
      .def("register", &enroll, nb::arg("kind"), nb::arg("flags"), nb::arg("source").none(), nb::arg("address"),
           nb::arg("length"), nb::arg("device"), nb::arg("fd"), nb::arg("path").none(), nb::arg("transports").none(),
           nb::sig("def register(self, kind: int, flags: int, source: object, address: int, length: int, device: int, "
                   "fd: int, path: str | None, transports: str | None) -> int"))
      .def("allocate", &allocate, nb::arg("kind"), nb::arg("length"), nb::arg("device"), nb::rv_policy::take_ownership)
      .def("deregister", &deregister, nb::arg("region"))
      .def("query", &query, nb::arg("kind"), nb::arg("address"), nb::arg("length"), nb::arg("fd"),
           nb::arg("path").none(), nb::arg("timeout_ms"),
           nb::sig("def query(self, kind: int, address: int, length: int, fd: int, path: str | None, timeout_ms: int) "
                   "-> tuple[bool, int, int, int]"))
      .def("regions", &regions, nb::arg("peer"),
           nb::sig("def regions(self, peer: int) -> list[tuple[int, int, int, int, int, int]]"));
}
