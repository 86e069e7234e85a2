// An agent: open, close, events, notifications.
#include "core/errors.h"

#include "agent/agent.h"

#include <algorithm>

#include "agent/transfer.h"
#include "core/text.h"

int agent_wait(const std::shared_ptr<AgentState> &state, uint32_t timeout_ms, uint32_t attempt_ms,
               std::function<int(weft_agent_t *, uint32_t)> call) {
  Wait wait;
  wait.timeout_ms = timeout_ms;
  wait.attempt_ms = attempt_ms;
  wait.stays = state->driven; // the caller that drives an agent may call it again at once
  wait.attempt = [state, call](uint32_t attempt) { return call(state->agent, attempt); };
  return run_wait(state, state->kind(), std::move(wait));
}

void AgentState::free_orphans() {
  for (size_t i = orphans.size(); i-- > 0;) {
    if (weft_transfer_free(orphans[i].transfer) == 0)
      orphans.erase(orphans.begin() + (long)i);
  }
}

void AgentState::shut() {
  if (exports > 0 && !forked() && !closed.load())
    raise_code(WEFT_ERR_BUSY, std::to_string(exports) + " views of memory that the agent allocated are in use: delete "
                                                        "the arrays, or release the memoryviews, before closing it");
  if (!close())
    return;
  {
    WithoutGil release;
    weft_agent_close(agent);
  }
  agent = nullptr;
  free_orphans();
  for (weft_dlist_t *list : old_lists)
    weft_dlist_free(list);
  old_lists.clear();
  kept.clear();
}

void AgentState::shut_dropped(const std::shared_ptr<AgentState> &state) {
  try {
    if (!state->drop())
      state->shut();
  } catch (...) { // in a signal handler: the objects stay until the process ends
    PyErr_Clear();
    new std::shared_ptr<AgentState>(state);
  }
}

Agent::~Agent() {
  AgentState::shut_dropped(state);
}

namespace {

Agent *open_agent(const std::string &name, nb::object transports, bool driven, uint32_t spin_us, uint32_t heartbeat_ms,
                  uint32_t peer_timeout_ms, uint32_t transfer_timeout_ms, uint32_t lease_ttl_s, nb::object store,
                  nb::object prefix, nb::object listen, nb::object token) {
  WhileOpening guard;
  weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  std::string called = c_text(name, "name");
  MaybeText ways(transports, "transports"), keys(prefix, "prefix"), where(listen, "listen"), secret(token, "token");
  auto state = std::make_shared<AgentState>();
  options.name = called.c_str();
  options.transports = ways.get(), options.prefix = keys.get();
  options.listen = where.get(), options.token = secret.get();
  options.progress = driven ? WEFT_AGENT_PROGRESS_NONE : WEFT_AGENT_PROGRESS_THREAD;
  options.spin_us = spin_us, options.heartbeat_ms = heartbeat_ms, options.peer_timeout_ms = peer_timeout_ms;
  options.transfer_timeout_ms = transfer_timeout_ms, options.lease_ttl_s = lease_ttl_s;
  if (!store.is_none()) {
    state->store = nb::cast<Store &>(store).state;
    state->store->check_open();
    options.store = state->store->store;
  }
  state->driven = driven;
  int rc;
  Failure failure;
  {
    WithoutGil release;
    rc = weft_agent_open(&state->agent, &options);
    if (rc < 0)
      failure.sentence = weft_last_error();
  }
  failure.code = rc;
  if (rc < 0)
    raise_failure(failure);
  return new Agent(state);
}

// Takes at most `cap` entries out of a queue of the agent; `take` is the library's function.
template <class T>
std::vector<T> take_queued(const Agent &self, uint32_t cap, int (*take)(weft_agent_t *, T *, uint32_t, uint32_t *)) {
  self.state->check_free();
  std::vector<T> taken(std::clamp(cap, 1u, 1024u));
  uint32_t count = 0;
  check(take(self.state->agent, taken.data(), (uint32_t)taken.size(), &count));
  taken.resize(count);
  return taken;
}

// [(peer, bytes)]
nb::object notifications(const Agent &self, uint32_t cap) {
  auto taken = take_queued(self, cap, weft_agent_notifications);
  // Copies all of them first, without objects that may start garbage collection: it may run Python code or another
  // thread, which may take notifications, too, and that frees the memory of these.
  std::vector<nb::bytes> copies;
  copies.reserve(taken.size());
  for (const weft_notification &one : taken)
    copies.emplace_back((const char *)one.bytes, one.size);
  nb::list list;
  for (size_t i = 0; i < taken.size(); i++)
    list.append(nb::make_tuple(taken[i].peer, copies[i]));
  return list;
}

// [(tag, error code)]
nb::object completions(const Agent &self, uint32_t cap) {
  nb::list list;
  for (const weft_completion &one : take_queued(self, cap, weft_agent_completions))
    list.append(nb::make_tuple(one.tag, one.err));
  return list;
}

// (kind, dropped, peer, time_ns, name, detail), or None.
nb::object next_event(const Agent &self) {
  self.state->check_free();
  weft_agent_event event = WEFT_AGENT_EVENT_INIT;
  int rc = weft_agent_next_event(self.state->agent, &event);
  check(rc);
  if (rc == 0)
    return nb::none();
  return nb::make_tuple((int)event.kind, event.dropped, event.peer, event.time_ns, loose_text(event.name),
                        loose_text(event.detail));
}

void notify(const Agent &self, weft_peer_t peer, nb::object bytes) {
  std::string text = loose_bytes(bytes, "message");
  agent_call(self.state,
             [&](weft_agent_t *agent) { return weft_agent_notify(agent, peer, text.data(), (uint32_t)text.size()); });
}

nb::object arm(const Agent &self) {
  self.state->check_free();
  uint32_t timeout_ms = 0;
  int rc = weft_agent_arm(self.state->agent, &timeout_ms);
  check(rc);
  return nb::make_tuple(rc == 0, rc == 0 ? timeout_ms : 0);
}

nb::object transport_list() {
  uint32_t count = 0;
  std::vector<weft_transport_info> info(32);
  int rc;
  {
    WithoutGil release;
    rc = weft_transport_list(info.data(), sizeof info[0], (uint32_t)info.size(), &count);
  }
  check(rc);
  nb::list list;
  for (uint32_t i = 0; i < count && i < info.size(); i++)
    list.append(nb::make_tuple(info[i].name, info[i].flags, info[i].local_kinds, info[i].remote_kinds, info[i].what,
                               info[i].why, info[i].version));
  return list;
}

} // namespace

void bind_agent(nb::module_ &m) {
  nb::class_<Agent> agent(m, "Agent", nb::is_weak_referenceable());
  agent
      .def(
          "add_transport",
          [](const Agent &self, const std::string &name) {
            std::string text = c_text(name, "transport");
            agent_call(self.state, [&](weft_agent_t *a) { return weft_agent_add_transport(a, text.c_str()); });
          },
          nb::arg("transport"))
      .def("notifications", &notifications, nb::arg("cap"),
           nb::sig("def notifications(self, cap: int) -> list[tuple[int, bytes]]"))
      .def("completions", &completions, nb::arg("cap"),
           nb::sig("def completions(self, cap: int) -> list[tuple[int, int]]"))
      .def("next_event", &next_event, nb::sig("def next_event(self) -> tuple[int, int, int, int, str, str] | None"))
      .def("notify", &notify, nb::arg("peer"), nb::arg("message").none(),
           nb::sig("def notify(self, peer: int, message: str | bytes) -> None"))
      .def("progress",
           [](const Agent &self) {
             uint32_t events = 0;
             agent_call(self.state, [&](weft_agent_t *a) { return weft_agent_progress(a, &events); });
             return events;
           })
      .def("fileno",
           [](const Agent &self) {
             int fd = -1;
             self.state->check_free();
             check(weft_agent_fd(self.state->agent, &fd));
             return fd;
           })
      .def("arm", &arm, nb::sig("def arm(self) -> tuple[bool, int]"))
      .def_prop_ro("closed", [](const Agent &self) { return self.state->closed.load() || self.state->forked(); })
      .def("close", [](Agent &self) { self.state->shut(); })
      .def("close_after_views", [](Agent &self) { return self.state->drop(); });
  bind_memory(agent, m);
  bind_metadata(agent);
  bind_telemetry(agent);
  bind_transfer(agent, m);
  m.def("agent_open", &open_agent, nb::arg("name"), nb::arg("transports").none(), nb::arg("driven"), nb::arg("spin_us"),
        nb::arg("heartbeat_ms"), nb::arg("peer_timeout_ms"), nb::arg("transfer_timeout_ms"), nb::arg("lease_ttl_s"),
        nb::arg("store").none(), nb::arg("prefix").none(), nb::arg("listen").none(), nb::arg("token").none(),
        nb::rv_policy::take_ownership,
        nb::sig("def agent_open(name: str, transports: str | None, driven: bool, spin_us: int, heartbeat_ms: int, "
                "peer_timeout_ms: int, transfer_timeout_ms: int, lease_ttl_s: int, store: Store | None, prefix: str | "
                "None, listen: str | None, token: str | None) -> Agent"));
  m.def("transport_list", &transport_list,
        nb::sig("def transport_list() -> list[tuple[str, int, int, int, str, str, str]]"));
}
