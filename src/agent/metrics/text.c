// OpenMetrics 1.0 (https://prometheus.io/docs/specs/om/open_metrics_spec/): families, each with all of its series
// together, and "# EOF" at the end.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/metrics/metrics.h"
#include "agent/services.h"
#include "base/fail.h"
#include <weft/weft.h>

// The values of one peer and transport.
struct series {
  const char *peer, *transport;
  const struct agent_meter *meter;
};

struct writing {
  weft_agent_t *agent;
  struct text *text;
  struct series *series;
  uint32_t num_series, capacity;
};

static void put_label(struct text *text, const char *name, const char *value) {
  text_add(text, "%s=\"", name);
  for (; *value; value++) {
    if (*value == '\\' || *value == '"')
      text_add(text, "\\%c", *value);
    else if (*value == '\n')
      text_add(text, "\\n");
    else
      text_add_bytes(text, value, 1);
  }
  text_add(text, "\"");
}

static void put_family(struct text *text, const char *name, const char *type, const char *unit, const char *help) {
  text_add(text, "# TYPE %s %s\n", name, type);
  if (*unit)
    text_add(text, "# UNIT %s %s\n", name, unit);
  text_add(text, "# HELP %s %s\n", name, help);
}

static void put_labels(struct text *text, const struct series *series, unsigned op) {
  put_label(text, "peer", series->peer);
  text_add(text, ",");
  put_label(text, "transport", series->transport);
  text_add(text, ",op=\"%s\"", op == WEFT_TRANSFER_READ ? "read" : "write");
}

static bool is_used(const struct metrics_op *op) {
  return op->ended > 0 || op->errors > 0 || op->cancels > 0;
}

// A counter that every operation of every series has, at `offset` in struct metrics_op.
static void put_counter(const struct writing *writing, const char *name, const char *unit, size_t offset,
                        const char *help) {
  put_family(writing->text, name, "counter", unit, help);
  for (uint32_t i = 0; i < writing->num_series; i++) {
    for (unsigned op = 0; op < METRICS_OPS; op++) {
      const struct metrics_op *from = &writing->series[i].meter->ops[op];
      if (!is_used(from))
        continue;
      text_add(writing->text, "%s_total{", name);
      put_labels(writing->text, &writing->series[i], op);
      text_add(writing->text, "} %" PRIu64 "\n", *(const _Atomic uint64_t *)((const char *)from + offset));
    }
  }
}

// Others count meanwhile: `count` is the sum of the buckets as they were read, and of what is in none.
static void put_histogram(const struct writing *writing, const struct series *series, unsigned op) {
  static const char name[] = "weft_transfer_seconds";
  const struct metrics_op *from = &series->meter->ops[op];
  uint64_t ended = from->ended, count = 0;
  for (unsigned i = 0; i < METRICS_BUCKETS; i++) {
    count += from->buckets[i];
    text_add(writing->text, "%s_bucket{", name);
    put_labels(writing->text, series, op);
    text_add(writing->text, ",le=\"%.9g\"} %" PRIu64 "\n", (double)(UINT64_C(1) << (METRICS_FIRST + i)) / 1e9, count);
  }
  count = ended > count ? ended : count;
  text_add(writing->text, "%s_bucket{", name);
  put_labels(writing->text, series, op);
  text_add(writing->text, ",le=\"+Inf\"} %" PRIu64 "\n%s_count{", count, name);
  put_labels(writing->text, series, op);
  text_add(writing->text, "} %" PRIu64 "\n%s_sum{", count, name);
  put_labels(writing->text, series, op);
  text_add(writing->text, "} %.9f\n", (double)from->nanoseconds / 1e9);
}

static void put_histograms(const struct writing *writing) {
  put_family(writing->text, "weft_transfer_seconds", "histogram", "seconds",
             "Time from the post of a transfer to its end, of those that ended well.");
  for (uint32_t i = 0; i < writing->num_series; i++)
    for (unsigned op = 0; op < METRICS_OPS; op++)
      if (is_used(&writing->series[i].meter->ops[op]))
        put_histogram(writing, &writing->series[i], op);
}

static void put_notifications(const struct writing *writing, bool sent) {
  const char *name = sent ? "weft_notifications_sent" : "weft_notifications_taken";
  const struct agent_peers *peers = &writing->agent->peers;
  put_family(writing->text, name, "counter", "",
             sent ? "Notifications to a peer." : "Notifications of a peer that the application has taken.");
  for (uint32_t i = 0; i < peers->count; i++) {
    const struct agent_peer *peer = peers->slots[i];
    uint64_t value = !peer || peer->state != AGENT_PEER_ALIVE ? 0 : sent ? peer->sent : peer->taken;
    if (value == 0)
      continue;
    text_add(writing->text, "%s_total{", name);
    put_label(writing->text, "peer", peer->name);
    text_add(writing->text, "} %" PRIu64 "\n", value);
  }
}

static void put_agent(const struct writing *writing) {
  const weft_agent_t *agent = writing->agent;
  put_family(writing->text, "weft_agent", "info", "", "This agent.");
  text_add(writing->text, "weft_agent_info{");
  put_label(writing->text, "name", agent->name);
  text_add(writing->text, ",incarnation=\"%016" PRIx64 "\",version=\"%s\"} 1\n", agent->incarnation, weft_version());
  put_family(writing->text, "weft_peers", "gauge", "", "Living peers.");
  text_add(writing->text, "weft_peers %u\n", agent->peers.living);
  put_family(writing->text, "weft_regions", "gauge", "", "Registered regions.");
  text_add(writing->text, "weft_regions %u\n", agent->self.regions.count);
  put_family(writing->text, "weft_messages_dropped", "counter", "",
             "Messages of unknown senders, and notifications beyond what a peer may leave unread.");
  text_add(writing->text, "weft_messages_dropped_total %" PRIu64 "\n", agent->dropped);
}

static void add_series(struct writing *writing, const char *peer, const char *transport,
                       const struct agent_meter *meter) {
  if (!meter || writing->text->failed)
    return;
  if (writing->num_series == writing->capacity) {
    uint32_t capacity = writing->capacity ? 2 * writing->capacity : 64;
    struct series *series = realloc(writing->series, capacity * sizeof *series);
    if (!series) {
      writing->text->failed = true;
      return;
    }
    writing->series = series;
    writing->capacity = capacity;
  }
  writing->series[writing->num_series++] = (struct series){peer, transport, meter};
}

static void collect(struct writing *writing) {
  weft_agent_t *agent = writing->agent;
  for (uint32_t w = 0; w < agent->num_workers; w++) {
    const char *transport = agent->workers[w].transport->name;
    add_series(writing, agent->name, transport, agent->self.links[w].meter);
    for (uint32_t i = 0; i < agent->peers.count; i++) {
      const struct agent_peer *peer = agent->peers.slots[i];
      if (peer && peer->state == AGENT_PEER_ALIVE)
        add_series(writing, peer->name, transport, peer->links[w].meter);
    }
    add_series(writing, "", transport, &agent->services->past[w]);
  }
}

void metrics_write(weft_agent_t *agent, struct text *text) {
  struct writing writing = {.agent = agent, .text = text};
  pthread_mutex_lock(&agent->lock);
  collect(&writing);
  put_agent(&writing);
  put_counter(&writing, "weft_transfers", "", offsetof(struct metrics_op, ended),
              "Transfers that ended well; peer \"\" is all that have gone.");
  put_counter(&writing, "weft_transfer_bytes", "bytes", offsetof(struct metrics_op, bytes), "Bytes of these.");
  put_counter(&writing, "weft_transfer_errors", "", offsetof(struct metrics_op, errors), "Transfers that failed.");
  put_counter(&writing, "weft_transfer_cancels", "", offsetof(struct metrics_op, cancels),
              "Transfers that were cancelled.");
  put_histograms(&writing);
  put_notifications(&writing, true);
  put_notifications(&writing, false);
  pthread_mutex_unlock(&agent->lock);
  text_add(text, "# EOF\n");
  free(writing.series);
}

int weft_agent_metrics(weft_agent_t *agent, char *out, size_t cap, size_t *size) {
  int unusable = agent_handle_check(agent);
  if (unusable != 0)
    return unusable;
  if (!size || (cap > 0 && !out))
    return fail(WEFT_ERR_INVALID, "%s is NULL", !size ? "size" : "text");
  struct text text = {0};
  metrics_write(agent, &text);
  if (text.failed) {
    text_free(&text);
    return fail(WEFT_ERR_NOMEM, "no memory for the metrics of agent %s", agent->name);
  }
  *size = text.size + 1;
  bool fits = *size <= cap;
  if (fits)
    memcpy(out, text.data, *size);
  text_free(&text);
  if (fits || cap == 0)
    return 0;
  return fail(WEFT_ERR_ROOM, "the metrics take %zu bytes, and there is room for %zu", *size, cap);
}
