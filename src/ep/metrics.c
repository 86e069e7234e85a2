// Counters of ranks as OpenMetrics.
#include "ep/metrics.h"

#include <inttypes.h>
#include <stdio.h>

#include <weft/weft.h>

#include "base/fail.h"
#include "ep/core/engine.h"
#include "metrics/text.h"

enum put { COUNT, SECONDS, GAUGE };

static const struct family {
  enum put as;
  size_t offset; // in struct weft_ep_stats
  const char *name, *unit, *help;
} families[] = {
#define STATS(member) offsetof(struct weft_ep_stats, member)
    {COUNT, STATS(operations), "weft_ep_operations", "", "Operations that ended."},
    {COUNT, STATS(dispatch_wire_bytes), "weft_ep_dispatch_wire_bytes", "bytes", "Bytes that dispatches sent."},
    {COUNT, STATS(dispatch_logical_bytes), "weft_ep_dispatch_logical_bytes", "bytes",
     "Bytes of the selections of these dispatches."},
    {COUNT, STATS(combine_wire_bytes), "weft_ep_combine_wire_bytes", "bytes", "Bytes that combines sent."},
    {COUNT, STATS(combine_logical_bytes), "weft_ep_combine_logical_bytes", "bytes",
     "Bytes of the selections of these combines."},
    {GAUGE, STATS(connected), "weft_ep_connected_peers", "", "Peers that are connected."},
    {GAUGE, STATS(window_bytes), "weft_ep_window_bytes", "bytes", "Memory of the windows that peers write to."},
    {COUNT, STATS(activations), "weft_ep_views", "", "Views that took effect."},
    {COUNT, STATS(lost), "weft_ep_lost_peers", "", "Peers found dead or silent."},
    {COUNT, STATS(missing), "weft_ep_missing_selections", "",
     "Selections to which no expert contributed: its rank was lost or masked."},
    {SECONDS, STATS(wait_ns), "weft_ep_wait_seconds", "seconds", "Time spent waiting for peers."},
#undef STATS
};

static void put_one(struct text *text, const struct family *family, const struct ep_metrics_rank *rank) {
  uint64_t value = *(const uint64_t *)((const char *)&rank->stats + family->offset);
  char labels[32];
  snprintf(labels, sizeof labels, "rank=\"%" PRId32 "\"", rank->rank);
  if (family->as == COUNT)
    metrics_put_count(text, family->name, labels, value);
  else if (family->as == SECONDS)
    metrics_put_seconds(text, family->name, labels, value);
  else
    metrics_put_gauge(text, family->name, labels, (double)value);
}

void ep_metrics_put(struct text *text, const struct ep_metrics_rank *ranks, uint32_t count) {
  for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
    const struct family *family = &families[i];
    metrics_put_family(text, family->name, family->as == GAUGE ? "gauge" : "counter", family->unit, family->help);
    for (uint32_t r = 0; r < count; r++)
      put_one(text, family, &ranks[r]);
  }
}

static void put_self(const weft_ep_t *ep, struct text *text) {
  metrics_put_family(text, "weft_ep_rank", "info", "", "This rank.");
  text_add(text, "weft_ep_rank_info{rank=\"%" PRId32 "\",incarnation=\"%016" PRIx64 "\",version=\"%s\"} 1\n", ep->rank,
           ep->incarnation, weft_version());
}

// Counters of the peers that are connected.
static void put_peers(const weft_ep_t *ep, struct text *text) {
  static const struct family peers[] = {
#define STATS(member) offsetof(struct weft_ep_peer_stats, member)
      {COUNT, STATS(sent_bytes), "weft_ep_peer_sent_bytes", "bytes", "Bytes sent to a peer."},
      {COUNT, STATS(received_bytes), "weft_ep_peer_received_bytes", "bytes", "Bytes received from a peer."},
      {SECONDS, STATS(wait_ns), "weft_ep_peer_wait_seconds", "seconds",
       "Time spent waiting for a peer that was the last to arrive."},
#undef STATS
  };
  for (size_t i = 0; i < sizeof peers / sizeof *peers; i++) {
    metrics_put_family(text, peers[i].name, "counter", peers[i].unit, peers[i].help);
    for (int32_t peer = 0; peer < (int32_t)ep->capacity; peer++) {
      struct weft_ep_peer_stats stats = WEFT_EP_PEER_STATS_INIT;
      char labels[64];
      if (peer == ep->rank || weft_ep_get_peer_stats(ep, peer, &stats) != 0)
        continue;
      uint64_t value = *(const uint64_t *)((const char *)&stats + peers[i].offset);
      snprintf(labels, sizeof labels, "rank=\"%" PRId32 "\",peer=\"%" PRId32 "\"", ep->rank, peer);
      if (peers[i].as == COUNT)
        metrics_put_count(text, peers[i].name, labels, value);
      else
        metrics_put_seconds(text, peers[i].name, labels, value);
    }
  }
}

int weft_ep_metrics(const weft_ep_t *ep, char *out, size_t cap, size_t *size) {
  if (!ep_is_ours(ep))
    return ep_refuse_handle(ep, "weft_ep_metrics");
  if (!size || (cap > 0 && !out))
    return fail(WEFT_ERR_INVALID, "weft_ep_metrics: %s is NULL", !size ? "size" : "text");
  struct ep_metrics_rank self = {.rank = ep->rank, .stats = WEFT_EP_STATS_INIT};
  int rc = weft_ep_get_stats(ep, &self.stats);
  if (rc != 0)
    return rc;
  struct text text = {0};
  put_self(ep, &text);
  ep_metrics_put(&text, &self, 1);
  put_peers(ep, &text);
  metrics_put_end(&text);
  return metrics_hand_out(&text, "this rank", out, cap, size);
}
