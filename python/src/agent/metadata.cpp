// Metadata and peers of an agent.
#include "core/errors.h"

#include "agent/agent.h"

#include "core/text.h"

namespace {

// The requested contents of metadata; owns the list of regions.
struct Choice {
  std::vector<weft_region_t> regions;
  weft_metadata_options options = WEFT_METADATA_OPTIONS_INIT;
};

std::shared_ptr<Choice> choice_of(nb::object regions, bool addresses) {
  auto choice = std::make_shared<Choice>();
  choice->options.flags = addresses ? WEFT_METADATA_ADDRESSES : 0;
  if (regions.is_none()) {
    choice->options.flags |= WEFT_METADATA_ALL_REGIONS;
    return choice;
  }
  for (nb::handle entry : regions) {
    weft_region_t region;
    if (!nb::try_cast<weft_region_t>(entry, region))
      throw nb::type_error("regions: regions, or their ids, are wanted");
    choice->regions.push_back(region);
  }
  choice->options.regions = choice->regions.data();
  choice->options.num_regions = (uint32_t)choice->regions.size();
  return choice;
}

nb::bytes metadata(const Agent &self, nb::object regions, bool addresses) {
  auto choice = choice_of(regions, addresses);
  std::string blob;
  size_t size = 0;
  for (;;) {
    int rc;
    {
      Entered entered(*self.state, self.state->kind());
      WithoutGil release;
      rc = weft_agent_metadata(self.state->agent, &choice->options, blob.empty() ? nullptr : &blob[0], blob.size(),
                               &size);
    }
    if (rc != WEFT_ERR_ROOM)
      check(rc);
    if (rc == 0 && size <= blob.size())
      return nb::bytes(blob.data(), size);
    blob.resize(size + 4096);
  }
}

weft_peer_t load(const Agent &self, nb::object blob) {
  std::string bytes = loose_bytes(blob, "metadata");
  weft_peer_t peer = 0;
  agent_call(self.state,
             [&](weft_agent_t *agent) { return weft_agent_load(agent, bytes.data(), bytes.size(), &peer); });
  return peer;
}

void publish(const Agent &self, nb::object label, nb::object regions, bool addresses, uint32_t timeout_ms) {
  auto choice = choice_of(regions, addresses);
  auto text = std::make_shared<MaybeText>(label, "label");
  agent_wait(self.state, timeout_ms, 5000, [=](weft_agent_t *agent, uint32_t attempt_ms) {
    return weft_agent_publish(agent, text->get(), &choice->options, attempt_ms);
  });
}

void unpublish(const Agent &self, nb::object label, uint32_t timeout_ms) {
  auto text = std::make_shared<MaybeText>(label, "label");
  agent_wait(self.state, timeout_ms, 5000, [=](weft_agent_t *agent, uint32_t attempt_ms) {
    return weft_agent_unpublish(agent, text->get(), attempt_ms);
  });
}

weft_peer_t fetch(const Agent &self, const std::string &name, nb::object label, uint32_t timeout_ms) {
  auto text = std::make_shared<MaybeText>(label, "label");
  auto peer = std::make_shared<weft_peer_t>(0);
  std::string called = c_text(name, "name");
  agent_wait(self.state, timeout_ms, 1000, [=](weft_agent_t *agent, uint32_t attempt_ms) {
    return weft_agent_fetch(agent, called.c_str(), text->get(), attempt_ms, peer.get());
  });
  return *peer;
}

weft_peer_t meet(const Agent &self, const std::string &address, uint32_t timeout_ms) {
  auto peer = std::make_shared<weft_peer_t>(0);
  std::string where = c_text(address, "address");
  agent_wait(self.state, timeout_ms, 3000, [=](weft_agent_t *agent, uint32_t attempt_ms) {
    return weft_agent_meet(agent, where.c_str(), attempt_ms, peer.get());
  });
  return *peer;
}

void connect(const Agent &self, weft_peer_t peer, uint32_t timeout_ms) {
  agent_wait(self.state, timeout_ms, 1000,
             [=](weft_agent_t *agent, uint32_t attempt_ms) { return weft_agent_connect(agent, peer, attempt_ms); });
}

// (incarnation, received_ns, state, num_regions, name, reason, transports, uses)
nb::object peer_info(const Agent &self, weft_peer_t peer) {
  weft_peer_info info = WEFT_PEER_INFO_INIT;
  agent_call(self.state, [&](weft_agent_t *agent) { return weft_agent_peer(agent, peer, &info); });
  return nb::make_tuple(info.incarnation, info.received_ns, (int)info.state, info.num_regions, loose_text(info.name),
                        loose_text(info.reason), loose_text(info.transports), loose_text(info.uses));
}

nb::object peers(const Agent &self) {
  std::vector<weft_peer_t> ids(64);
  uint32_t count = 0;
  for (;;) {
    agent_call(self.state,
               [&](weft_agent_t *agent) { return weft_agent_peers(agent, ids.data(), (uint32_t)ids.size(), &count); });
    if (count <= ids.size())
      break;
    ids.resize(count + 16);
  }
  nb::list list;
  for (uint32_t i = 0; i < count; i++)
    list.append(ids[i]);
  return list;
}

} // namespace

void bind_metadata(nb::class_<Agent> &agent) {
  agent
      .def("metadata", &metadata, nb::arg("regions").none(), nb::arg("addresses"),
           nb::sig("def metadata(self, regions: list[int] | None, addresses: bool) -> bytes"))
      .def("load", &load, nb::arg("metadata").none(), nb::sig("def load(self, metadata: bytes) -> int"))
      .def("publish", &publish, nb::arg("label").none(), nb::arg("regions").none(), nb::arg("addresses"),
           nb::arg("timeout_ms"),
           nb::sig("def publish(self, label: str | None, regions: list[int] | None, addresses: bool, timeout_ms: int) "
                   "-> None"))
      .def("unpublish", &unpublish, nb::arg("label").none(), nb::arg("timeout_ms"),
           nb::sig("def unpublish(self, label: str | None, timeout_ms: int) -> None"))
      .def("fetch", &fetch, nb::arg("name"), nb::arg("label").none(), nb::arg("timeout_ms"),
           nb::sig("def fetch(self, name: str, label: str | None, timeout_ms: int) -> int"))
      .def("meet", &meet, nb::arg("address"), nb::arg("timeout_ms"))
      .def("connect", &connect, nb::arg("peer"), nb::arg("timeout_ms"))
      .def(
          "invalidate",
          [](const Agent &self, weft_peer_t peer) {
            agent_call(self.state, [&](weft_agent_t *a) { return weft_agent_invalidate(a, peer); });
          },
          nb::arg("peer"))
      .def(
          "check",
          [](const Agent &self, weft_peer_t peer) {
            agent_call(self.state, [&](weft_agent_t *a) { return weft_agent_check(a, peer); });
          },
          nb::arg("peer"))
      .def(
          "find",
          [](const Agent &self, const std::string &name) {
            weft_peer_t peer = 0;
            std::string text = c_text(name, "name");
            agent_call(self.state, [&](weft_agent_t *a) { return weft_agent_find(a, text.c_str(), &peer); });
            return peer;
          },
          nb::arg("name"))
      .def("port",
           [](const Agent &self) {
             uint16_t port = 0;
             agent_call(self.state, [&](weft_agent_t *a) { return weft_agent_port(a, &port); });
             return port;
           })
      .def("peer_info", &peer_info, nb::arg("peer"),
           nb::sig("def peer_info(self, peer: int) -> tuple[int, int, int, int, str, str, str, str]"))
      .def("peers", &peers, nb::sig("def peers(self) -> list[int]"));
}
