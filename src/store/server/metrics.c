// The counters of an embedded server, as OpenMetrics.
#include "store/server/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <weft/weft.h>

#include "metrics/text.h"
#include "store/server/meter.h"
#include "store/server/server.h"

// The gateway's paths behind "/v3/", of which leases have two; "": all others.
static const struct {
  const char *path, *name;
} calls[SERVER_CALLS] = {
    {"kv/range", "range"},
    {"kv/put", "put"},
    {"kv/deleterange", "delete_range"},
    {"kv/txn", "txn"},
    {"lease/grant", "grant"},
    {"lease/keepalive", "keep_alive"},
    {"lease/revoke", "revoke"},
    {"lease/leases", "leases"},
    {"lease/timetolive", "time_to_live"},
    {"watch", "watch"},
    {"", "other"},
};

// The name of a call in metrics.
static const char *meter_name(uint32_t call) {
  return calls[call].name;
}

uint32_t server_meter_call(const char *path) {
  if (strncmp(path, "/v3/", 4) != 0)
    return SERVER_CALLS - 1;
  path += strncmp(path, "/v3/kv/lease/", 13) == 0 ? 7 : 4;
  uint32_t call = 0;
  while (call < SERVER_CALLS - 1 && strcmp(path, calls[call].path) != 0)
    call++;
  return call;
}

// How things stand.
struct counts {
  uint64_t keys, leases, watches, streams, known, waiting, held;
  int64_t revision;
};

static struct counts look(weft_store_server_t *server) {
  struct counts counts = {.held = server->held};
  struct server_stream *stream;
  pthread_mutex_lock(&server->lock);
  counts.keys = core_count(server->gateway.core);
  counts.leases = core_lease_count(server->gateway.core);
  counts.revision = core_revision(server->gateway.core);
  counts.known = server->gate.num_known;
  counts.waiting = server->gate.num_waiting;
  LIST_FOREACH(stream, &server->streams, link) {
    counts.streams++;
    counts.watches += stream->gateway.num_watches;
  }
  pthread_mutex_unlock(&server->lock);
  return counts;
}

static void put_gauge(struct text *text, const char *name, const char *unit, const char *help, uint64_t value) {
  metrics_put_family(text, name, "gauge", unit, help);
  text_add(text, "%s %" PRIu64 "\n", name, value);
}

void server_metrics_write(weft_store_server_t *server, struct text *text) {
  const struct counts counts = look(server);
  const struct server_meter *meter = &server->meter;
  metrics_put_family(text, "weft_store", "info", "", "This store.");
  text_add(text, "weft_store_info{version=\"%s\"} 1\n", weft_version());
  put_gauge(text, "weft_store_keys", "", "Keys in the store.", counts.keys);
  put_gauge(text, "weft_store_leases", "", "Live leases.", counts.leases);
  put_gauge(text, "weft_store_revision", "", "The newest revision.", (uint64_t)counts.revision);
  put_gauge(text, "weft_store_watch_streams", "", "Connections with watches.", counts.streams);
  put_gauge(text, "weft_store_watches", "", "Watches on them.", counts.watches);
  put_gauge(text, "weft_store_clients", "", "Connections that may read and write.", counts.known);
  put_gauge(text, "weft_store_strangers", "", "Connections that have not shown a token.", counts.waiting);
  put_gauge(text, "weft_store_held_bytes", "bytes", "Incomplete requests, and answers that are not sent yet.",
            counts.held);
  metrics_put_family(text, "weft_store_requests", "counter", "", "Requests that were answered, by call.");
  for (uint32_t i = 0; i < SERVER_CALLS; i++) {
    char labels[48];
    snprintf(labels, sizeof labels, "call=\"%s\"", meter_name(i));
    metrics_put_count(text, "weft_store_requests", labels, meter->calls[i]);
  }
  metrics_put_family(text, "weft_store_refused_requests", "counter", "", "Requests without the token.");
  metrics_put_count(text, "weft_store_refused_requests", "", meter->strangers);
  metrics_put_family(text, "weft_store_request_seconds", "histogram", "seconds",
                     "Time from a complete request to its answer, without the time to send it.");
  metrics_put_histogram(text, "weft_store_request_seconds", "", &meter->times);
  metrics_put_end(text);
}
