// Stands in for what is not there yet: metadata, liveness, metrics.
#include "agent/state.h"
#include "base/fail.h"

int agent_meta_open(weft_agent_t *agent, const struct weft_agent_options *options) {
  (void)agent, (void)options;
  return 0;
}

void agent_meta_leave(weft_agent_t *agent) {
  (void)agent;
}

void agent_meta_close(weft_agent_t *agent) {
  (void)agent;
}

uint64_t agent_meta_tick(weft_agent_t *agent, uint64_t now_ns) {
  (void)agent;
  return now_ns + 1000000000u;
}

void agent_meta_message(weft_agent_t *agent, weft_peer_t peer, enum agent_message_kind kind, const void *bytes,
                        uint32_t size) {
  (void)agent, (void)peer, (void)kind, (void)bytes, (void)size;
}

void agent_meta_peer(weft_agent_t *agent, struct agent_peer *peer, enum weft_agent_event_kind kind) {
  (void)agent, (void)peer, (void)kind;
}

void agent_meta_regions(weft_agent_t *agent) {
  (void)agent;
}

void agent_metrics_transfer(struct agent_link *link, enum weft_op op, uint64_t bytes, uint64_t ns, int err) {
  (void)link, (void)op, (void)bytes, (void)ns, (void)err;
}

int agent_metrics_open(struct agent_link *link) {
  (void)link;
  return 0;
}

void agent_metrics_close(struct agent_link *link) {
  (void)link;
}

static int later(const char *what) {
  return fail(WEFT_ERR_UNSUPPORTED, "%s is not in this version", what);
}

int weft_agent_metadata(weft_agent_t *agent, const weft_region_t *regions, uint32_t num_regions, bool with_addresses,
                        void *blob, size_t *size) {
  (void)agent, (void)regions, (void)num_regions, (void)with_addresses, (void)blob, (void)size;
  return later("weft_agent_metadata");
}

int weft_agent_load(weft_agent_t *agent, const void *blob, size_t size, weft_peer_t *peer) {
  (void)agent, (void)blob, (void)size, (void)peer;
  return later("weft_agent_load");
}

int weft_agent_publish(weft_agent_t *agent, uint32_t timeout_ms) {
  (void)agent, (void)timeout_ms;
  return later("weft_agent_publish");
}

int weft_agent_fetch(weft_agent_t *agent, const char *name, uint32_t timeout_ms, weft_peer_t *peer) {
  (void)agent, (void)name, (void)timeout_ms, (void)peer;
  return later("weft_agent_fetch");
}

int weft_agent_meet(weft_agent_t *agent, const char *address, uint32_t timeout_ms, weft_peer_t *peer) {
  (void)agent, (void)address, (void)timeout_ms, (void)peer;
  return later("weft_agent_meet");
}

int weft_agent_port(weft_agent_t *agent, uint16_t *port) {
  (void)agent, (void)port;
  return later("weft_agent_port");
}

int weft_agent_metrics(weft_agent_t *agent, char *text, size_t *size) {
  (void)agent, (void)text, (void)size;
  return later("weft_agent_metrics");
}

int weft_agent_serve_metrics(weft_agent_t *agent, const char *address, uint16_t *port) {
  (void)agent, (void)address, (void)port;
  return later("weft_agent_serve_metrics");
}
