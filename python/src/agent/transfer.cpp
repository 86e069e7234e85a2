// Lists and transfers of an agent.
#include "core/errors.h"

#include "agent/transfer.h"

#include <sys/eventfd.h>

#include "core/text.h"

namespace {

enum { BRIEF_BYTES = 4096, SLICE_MS = 30 };

struct List {
  std::shared_ptr<ListState> state;
};
struct Transfer {
  std::shared_ptr<TransferState> state;
};

uint64_t number(nb::handle source) {
  uint64_t value;
  if (!nb::try_cast<uint64_t>(source, value))
    throw nb::type_error("descriptors: numbers from 0 to 2**64 - 1 are wanted");
  return value;
}

// An array [count][2 or 3] of 64-bit integers: address, length, region.
bool take_array(nb::handle source, std::vector<weft_descriptor> &taken) {
  if (!PyObject_CheckBuffer(source.ptr()) || PyBytes_Check(source.ptr()))
    return false;
  Buffer array = Buffer::of(source, "descriptors");
  if (array.dims() != 2 || (array.shape(1) != 2 && array.shape(1) != 3) || array.item() != 8 || !array.on_host() ||
      (array.kind() != Kind::INT && array.kind() != Kind::UINT))
    throw nb::type_error("descriptors: an array of 64-bit integers of shape [count][2] or [count][3] is wanted: "
                         "address, length, region");
  for (int64_t i = 0; i < array.shape(0); i++) {
    uint64_t row[3] = {0, 0, 0};
    for (int64_t k = 0; k < array.shape(1); k++)
      memcpy(&row[k], (char *)array.data() + i * array.stride(0) + k * array.stride(1), 8);
    taken.push_back({row[0], row[1], row[2]});
  }
  return true;
}

List *make_list(const Agent &self, weft_peer_t peer, nb::object descriptors) {
  std::vector<weft_descriptor> taken;
  if (!take_array(descriptors, taken)) {
    for (nb::handle entry : entries_of(descriptors, "descriptors", "(address, length) or (address, length, region)")) {
      if (!PySequence_Check(entry.ptr()) || (nb::len(entry) != 2 && nb::len(entry) != 3))
        throw nb::type_error("descriptors: each is (address, length) or (address, length, region)");
      weft_region_t region = nb::len(entry) == 3 ? number(nb::object(entry[2])) : 0;
      taken.push_back({number(nb::object(entry[0])), number(nb::object(entry[1])), region});
      if (taken.size() > WEFT_AGENT_MAX_DESCRIPTORS)
        break; // the library refuses them
    }
  }
  if (taken.empty())
    raise_code(WEFT_ERR_INVALID, "descriptors: there is none");
  auto state = std::make_shared<ListState>();
  state->count = (uint32_t)taken.size();
  agent_call(self.state, [&](weft_agent_t *agent) {
    return weft_dlist_create(agent, peer, taken.data(), (uint32_t)taken.size(), &state->list);
  });
  state->agent = self.state;
  return new List{state};
}

std::vector<uint32_t> indices_of(nb::handle source, const char *name) {
  std::vector<uint32_t> indices;
  for (nb::handle entry : entries_of(source, name, "numbers from 0 to 2**32 - 1")) {
    uint32_t value;
    if (!nb::try_cast<uint32_t>(entry, value))
      throw nb::type_error((std::string(name) + ": numbers from 0 to 2**32 - 1 are wanted").c_str());
    indices.push_back(value);
  }
  return indices;
}

std::vector<weft_transfer_run> runs_of(nb::handle source) {
  std::vector<weft_transfer_run> runs;
  for (nb::handle entry : entries_of(source, "runs", "five numbers each")) {
    auto five = indices_of(entry, "runs");
    if (five.size() != 5)
      throw nb::type_error("runs: each is (local_first, local_stride, remote_first, remote_stride, count)");
    runs.push_back({five[0], five[1], five[2], five[3], five[4]});
  }
  return runs;
}

Transfer *make_transfer(const Agent &self, bool write, const List &local, const List &remote, nb::object local_index,
                        nb::object remote_index, nb::object runs, nb::object notification, uint32_t timeout_ms,
                        uint32_t max_notification, nb::object transport) {
  weft_transfer_options options = WEFT_TRANSFER_OPTIONS_INIT;
  std::vector<uint32_t> near, far;
  std::vector<weft_transfer_run> chosen;
  if (local_index.is_none() != remote_index.is_none())
    raise_code(WEFT_ERR_INVALID, "local_index and remote_index go together");
  if (!local_index.is_none()) {
    near = indices_of(local_index, "local_index"), far = indices_of(remote_index, "remote_index");
    if (near.size() != far.size())
      raise_code(WEFT_ERR_INVALID, "local_index has " + std::to_string(near.size()) + " entries, remote_index " +
                                       std::to_string(far.size()) + ": they are pairs");
    if (near.empty())
      raise_code(WEFT_ERR_INVALID, "local_index: there is no pair in it");
    options.local_index = near.data(), options.remote_index = far.data(), options.num_index = (uint32_t)near.size();
  }
  if (!runs.is_none()) {
    chosen = runs_of(runs);
    if (chosen.empty())
      raise_code(WEFT_ERR_INVALID, "runs: there is no run in it");
    options.runs = chosen.data(), options.num_runs = (uint32_t)chosen.size();
  }
  std::string note;
  if (!notification.is_none()) {
    note = loose_bytes(notification, "notification");
    options.notification = note.data(), options.notification_size = (uint32_t)note.size();
  }
  MaybeText way(transport, "transport");
  options.transport = way.get();
  options.timeout_ms = timeout_ms, options.max_notification = max_notification;
  if (local.state->agent != self.state || remote.state->agent != self.state)
    raise_code(WEFT_ERR_INVALID, "a list of another agent");
  self.state->check_open();
  self.state->free_orphans();
  auto state = std::make_shared<TransferState>();
  state->local = local.state, state->remote = remote.state;
  weft_transfer_info info = WEFT_TRANSFER_INFO_INIT;
  agent_call(self.state, [&](weft_agent_t *agent) {
    int rc = weft_transfer_create(agent, write ? WEFT_TRANSFER_WRITE : WEFT_TRANSFER_READ, local.state->list,
                                  remote.state->list, &options, &state->transfer);
    return rc == 0 ? weft_transfer_get_info(state->transfer, &info) : rc;
  });
  state->agent = self.state;
  state->brief = info.bytes <= BRIEF_BYTES;
  return new Transfer{state};
}

// A call that returns at once, with the GIL held.
inline TransferState &at_once(const Transfer &self) {
  TransferState &state = *self.state;
  state.check_alone();
  state.agent->check_free();
  return state;
}

// A call without the GIL. It keeps the transfer and the agent from being closed.
template <class F> int at_length(const Transfer &self, Entered::Kind kind, F call) {
  auto state = self.state;
  Entered transfer(*state, kind), agent(*state->agent, state->agent->kind());
  WithoutGil release;
  return call(state->transfer);
}

void post(const Transfer &self) {
  TransferState &state = at_once(self);
  check(state.brief ? weft_transfer_post(state.transfer) : at_length(self, Entered::ALONE, weft_transfer_post));
}

void post_with(const Transfer &self, nb::object notification, bool completion, uint64_t tag, uint32_t timeout_ms) {
  TransferState &state = at_once(self);
  weft_post options = WEFT_POST_INIT;
  std::string note;
  if (!notification.is_none()) {
    note = loose_bytes(notification, "notification");
    options.notification = note.data(), options.notification_size = (uint32_t)note.size();
  }
  options.flags = completion ? WEFT_POST_COMPLETION : 0;
  options.tag = tag, options.timeout_ms = timeout_ms;
  check(state.brief ? weft_transfer_post_with(state.transfer, &options)
                    : at_length(self, Entered::ALONE, [&](weft_transfer_t *transfer) {
                        return weft_transfer_post_with(transfer, &options);
                      }));
}

bool poll(const Transfer &self) {
  TransferState &state = at_once(self);
  int rc = weft_transfer_poll(state.transfer);
  check(rc);
  return rc == 0;
}

bool wait(const Transfer &self, uint32_t timeout_ms) {
  auto state = self.state;
  for (uint32_t left = timeout_ms;;) {
    uint32_t slice = left < SLICE_MS ? left : (uint32_t)SLICE_MS;
    int rc =
        at_length(self, Entered::ALONE, [&](weft_transfer_t *transfer) { return weft_transfer_wait(transfer, slice); });
    check(rc);
    if (rc == 0)
      return true;
    if (left != UINT32_MAX)
      left -= slice;
    if (left == 0)
      return false;
    run_signal_handlers();
  }
}

void cancel(const Transfer &self, uint32_t timeout_ms) {
  check(at_length(self, Entered::SHARED,
                  [&](weft_transfer_t *transfer) { return weft_transfer_cancel(transfer, timeout_ms); }));
}

// [0 or an error code] for each pair.
nb::object status(const Transfer &self) {
  TransferState &state = at_once(self);
  uint32_t count = 0;
  check(weft_transfer_status(state.transfer, nullptr, 0, &count));
  std::vector<int32_t> each(count);
  check(weft_transfer_status(state.transfer, each.data(), count, &count));
  nb::list list;
  for (int32_t code : each)
    list.append(code);
  return list;
}

// (bytes, posts, start_ns, end_ns, estimate_ns, pairs, pieces, transport)
nb::object info(const Transfer &self) {
  TransferState &state = at_once(self);
  weft_transfer_info i = WEFT_TRANSFER_INFO_INIT;
  check(weft_transfer_get_info(state.transfer, &i));
  return nb::make_tuple(i.bytes, i.posts, i.start_ns, i.end_ns, i.estimate_ns, i.pairs, i.pieces, i.transport);
}

int descriptor(const Transfer &self) {
  TransferState &state = at_once(self);
  int fd = -1;
  check(weft_transfer_fd(state.transfer, &fd));
  return fd;
}

// Resets the descriptor, and returns whether it was readable. The GIL is held: closing the transfer or its agent also
// closes the descriptor, whose number may then belong to another file.
bool rearm(const Transfer &self) {
  eventfd_t count;
  return eventfd_read(descriptor(self), &count) == 0; // it may have been readable only for a moment
}

void close_transfer(const Transfer &self, uint32_t timeout_ms) {
  auto state = self.state;
  if (state->closed.load())
    return;
  if (!state->forked() && state->calls.load() > 0)
    raise_code(WEFT_ERR_BUSY, "another call is using the transfer");
  if (state->agent->closing())
    raise_code(WEFT_ERR_BUSY, "the agent is being closed");
  int rc = weft_transfer_free(state->transfer);
  if (rc == WEFT_ERR_BUSY) {
    cancel(self, timeout_ms);
    if (state->calls.load() > 0) // another thread cancels it as well
      raise_code(WEFT_ERR_BUSY, "another call is using the transfer");
    rc = weft_transfer_free(state->transfer);
  }
  check(rc);
  state->closed.store(true);
  state->transfer = nullptr;
  state->local.reset(), state->remote.reset();
}

} // namespace

// The agent frees a transfer in flight once it has ended.
TransferState::~TransferState() {
  if (!transfer)
    return;
  bool later = agent && !agent->forked() && agent->closing();
  if (later || weft_transfer_free(transfer) == WEFT_ERR_BUSY) {
    if (!later)
      weft_transfer_cancel(transfer, 0);
    agent->orphans.push_back({transfer, local, remote});
  }
}

void bind_transfer(nb::class_<Agent> &agent, nb::module_ &m) {
  nb::class_<List>(m, "List").def("__len__", [](const List &self) { return self.state->count; });
  nb::class_<Transfer>(m, "Transfer")
      .def("post", &post)
      .def("post_with", &post_with, nb::arg("notification").none(), nb::arg("completion"), nb::arg("tag"),
           nb::arg("timeout_ms"),
           nb::sig("def post_with(self, notification: str | bytes | None, completion: bool, tag: int, timeout_ms: int) "
                   "-> None"))
      .def("poll", &poll)
      .def("wait", &wait, nb::arg("timeout_ms"))
      .def("cancel", &cancel, nb::arg("timeout_ms"))
      .def("status", &status, nb::sig("def status(self) -> list[int]"))
      .def("info", &info, nb::sig("def info(self) -> tuple[int, int, int, int, int, int, int, str]"))
      .def(
          "explain", [](const Transfer &self) { return loose_text(weft_transfer_explain(at_once(self).transfer)); },
          nb::sig("def explain(self) -> str"))
      .def(
          "error", [](const Transfer &self) { return loose_text(weft_transfer_error(at_once(self).transfer)); },
          nb::sig("def error(self) -> str"))
      .def("fileno", &descriptor)
      .def("rearm", &rearm)
      .def_prop_ro("closed", [](const Transfer &self) { return self.state->closed.load() || self.state->forked(); })
      .def("close", &close_transfer, nb::arg("timeout_ms"));
  agent
      .def("list", &make_list, nb::arg("peer"), nb::arg("descriptors").none(), nb::rv_policy::take_ownership,
           nb::sig("def list(self, peer: int, descriptors: object) -> List"))
      .def("transfer", &make_transfer, nb::arg("write"), nb::arg("local"), nb::arg("remote"),
           nb::arg("local_index").none(), nb::arg("remote_index").none(), nb::arg("runs").none(),
           nb::arg("notification").none(), nb::arg("timeout_ms"), nb::arg("max_notification"),
           nb::arg("transport").none(), nb::rv_policy::take_ownership,
           nb::sig("def transfer(self, write: bool, local: List, remote: List, local_index: object, remote_index: "
                   "object, runs: object, notification: str | bytes | None, timeout_ms: int, max_notification: int, "
                   "transport: str | None) -> Transfer"));
}
