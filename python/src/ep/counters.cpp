// Counters of a rank, and the limits of groups.
#include "core/errors.h"

#include "ep/rank.h"

#include "core/text.h"

namespace {

nb::object stats(const Rank &self) {
  self.state->check_alone();
  weft_ep_stats s = WEFT_EP_STATS_INIT;
  check(weft_ep_get_stats(self.state->ep, &s));
  return nb::make_tuple(s.operations, s.dispatch_wire_bytes, s.dispatch_logical_bytes, s.combine_wire_bytes,
                        s.combine_logical_bytes, s.connected, s.window_bytes, s.activations, s.lost, s.missing,
                        s.wait_ns);
}

nb::object peer_stats(const Rank &self, int32_t rank) {
  self.state->check_alone();
  weft_ep_peer_stats s = WEFT_EP_PEER_STATS_INIT;
  check(weft_ep_get_peer_stats(self.state->ep, rank, &s));
  return nb::make_tuple(s.incarnation, s.sent_bytes, s.received_bytes, s.window_bytes, s.wait_ns);
}

nb::object limits() {
  weft_ep_limits l = WEFT_EP_LIMITS_INIT;
  check(weft_ep_get_limits(&l));
  return nb::make_tuple(l.max_tokens, l.max_hidden, l.max_topk, l.max_experts_per_rank, l.max_capacity,
                        l.max_cuda_ranks, l.depth, l.max_combines, l.max_latency_tokens, l.min_processors);
}

} // namespace

void bind_counters(nb::class_<Rank> &rank, nb::module_ &m) {
  rank.def("stats", &stats, nb::sig("def stats(self) -> tuple[int, ...]"))
      .def("peer_stats", &peer_stats, nb::arg("rank"), nb::sig("def peer_stats(self, rank: int) -> tuple[int, ...]"))
      .def("metrics", [](const Rank &self) {
        self.state->check_alone();
        return sized_text(
            [&](char *text, size_t cap, size_t *size) { return weft_ep_metrics(self.state->ep, text, cap, size); });
      });
  m.def("limits", &limits, nb::sig("def limits() -> tuple[int, ...]"));
}
