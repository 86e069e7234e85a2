// Counters of an agent.
#include "core/errors.h"

#include "agent/agent.h"

#include "core/text.h"

namespace {

nb::object stats(const Agent &self, weft_peer_t peer) {
  weft_agent_stats s = WEFT_AGENT_STATS_INIT;
  agent_call(self.state, [&](weft_agent_t *agent) { return weft_agent_get_stats(agent, peer, &s); });
  return nb::make_tuple(s.reads, s.read_bytes, s.read_errors, s.read_cancels, s.read_ns, s.writes, s.write_bytes,
                        s.write_errors, s.write_cancels, s.write_ns, s.notifications_sent, s.notifications_taken,
                        s.messages_dropped);
}

uint16_t serve(const Agent &self, const std::string &address) {
  uint16_t port = 0;
  std::string text = c_text(address, "address");
  agent_call(self.state, [&](weft_agent_t *agent) { return weft_agent_serve_metrics(agent, text.c_str(), &port); });
  return port;
}

std::string metrics(const Agent &self, int (*call)(weft_agent_t *, char *, size_t, size_t *)) {
  Entered entered(*self.state, self.state->kind());
  return sized_text([&](char *text, size_t cap, size_t *size) {
    WithoutGil release;
    return call(self.state->agent, text, cap, size);
  });
}

} // namespace

void bind_telemetry(nb::class_<Agent> &agent) {
  agent.def("stats", &stats, nb::arg("peer"), nb::sig("def stats(self, peer: int) -> tuple[int, ...]"))
      .def("serve_metrics", &serve, nb::arg("address"))
      .def("metrics", [](const Agent &self) { return metrics(self, weft_agent_metrics); })
      .def("metrics_bearer", [](const Agent &self) { return metrics(self, weft_agent_metrics_bearer); });
}
