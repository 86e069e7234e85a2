// The counters of an agent as OpenMetrics.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/metrics/metrics.h"
#include "agent/services.h"
#include "base/fail.h"
#include "metrics/text.h"
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

// The labels of one series: to be freed. NULL: no memory, which `text` has then, too.
static char *labels_of(struct text *text, const struct series *series, unsigned op) {
  struct text labels = {0};
  metrics_put_label(&labels, "peer", series->peer);
  text_add(&labels, ",");
  metrics_put_label(&labels, "transport", series->transport);
  text_add(&labels, ",op=\"%s\"", op == WEFT_TRANSFER_READ ? "read" : "write");
  text->failed |= labels.failed;
  return text_take(&labels);
}

static bool is_used(const struct metrics_op *op) {
  return op->times.ended > 0 || op->errors > 0 || op->cancels > 0;
}

// One family; `put` writes the series of one operation of one peer.
static void put_each(const struct writing *writing, const char *name,
                     void (*put)(struct text *text, const char *name, const char *labels, const struct metrics_op *op,
                                 size_t offset),
                     size_t offset) {
  for (uint32_t i = 0; i < writing->num_series; i++) {
    for (unsigned op = 0; op < METRICS_OPS; op++) {
      const struct metrics_op *from = &writing->series[i].meter->ops[op];
      char *labels = is_used(from) ? labels_of(writing->text, &writing->series[i], op) : NULL;
      if (labels)
        put(writing->text, name, labels, from, offset);
      free(labels);
    }
  }
}

static void put_op_count(struct text *text, const char *name, const char *labels, const struct metrics_op *op,
                         size_t offset) {
  metrics_put_count(text, name, labels, *(const _Atomic uint64_t *)((const char *)op + offset));
}

// A counter that every operation of every series has, at `offset` in struct metrics_op.
static void put_counter(const struct writing *writing, const char *name, const char *unit, size_t offset,
                        const char *help) {
  metrics_put_family(writing->text, name, "counter", unit, help);
  put_each(writing, name, put_op_count, offset);
}

static void put_op_times(struct text *text, const char *name, const char *labels, const struct metrics_op *op,
                         size_t offset) {
  (void)offset;
  metrics_put_histogram(text, name, labels, &op->times);
}

static void put_histograms(const struct writing *writing) {
  static const char name[] = "weft_transfer_seconds";
  metrics_put_family(writing->text, name, "histogram", "seconds",
                     "Time from the post of a transfer to its end, for transfers that succeeded.");
  put_each(writing, name, put_op_times, 0);
}

static void put_notifications(const struct writing *writing, bool sent) {
  const char *name = sent ? "weft_notifications_sent" : "weft_notifications_taken";
  const struct agent_peers *peers = &writing->agent->peers;
  metrics_put_family(writing->text, name, "counter", "",
                     sent ? "Notifications to a peer." : "Notifications of a peer that the application has taken.");
  for (uint32_t i = 0; i < peers->count; i++) {
    const struct agent_peer *peer = peers->slots[i];
    bool lives = peer && peer->state == AGENT_PEER_ALIVE;
    uint64_t value = !lives ? 0 : sent ? peer->sent - peer->numbered_from : peer->num_taken;
    if (value == 0)
      continue;
    text_add(writing->text, "%s_total{", name);
    metrics_put_label(writing->text, "peer", peer->name);
    text_add(writing->text, "} %" PRIu64 "\n", value);
  }
}

static void put_agent(const struct writing *writing) {
  const weft_agent_t *agent = writing->agent;
  metrics_put_family(writing->text, "weft_agent", "info", "", "This agent.");
  text_add(writing->text, "weft_agent_info{");
  metrics_put_label(writing->text, "name", agent->name);
  text_add(writing->text, ",incarnation=\"%016" PRIx64 "\",version=\"%s\"} 1\n", agent->incarnation, weft_version());
  metrics_put_family(writing->text, "weft_peers", "gauge", "", "Living peers.");
  text_add(writing->text, "weft_peers %u\n", agent->peers.living);
  metrics_put_family(writing->text, "weft_regions", "gauge", "", "Registered regions.");
  text_add(writing->text, "weft_regions %u\n", agent->self.regions.count);
  metrics_put_family(writing->text, "weft_messages_dropped", "counter", "",
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

void agent_metrics_write(weft_agent_t *agent, struct text *text) {
  struct writing writing = {.agent = agent, .text = text};
  pthread_mutex_lock(&agent->lock);
  collect(&writing);
  put_agent(&writing);
  put_counter(&writing, "weft_transfers", "", offsetof(struct metrics_op, times.ended),
              "Transfers that succeeded; peer \"\" stands for all peers that are gone.");
  put_counter(&writing, "weft_transfer_bytes", "bytes", offsetof(struct metrics_op, bytes), "Bytes of these.");
  put_counter(&writing, "weft_transfer_errors", "", offsetof(struct metrics_op, errors), "Transfers that failed.");
  put_counter(&writing, "weft_transfer_cancels", "", offsetof(struct metrics_op, cancels),
              "Transfers that were cancelled.");
  put_histograms(&writing);
  put_notifications(&writing, true);
  put_notifications(&writing, false);
  pthread_mutex_unlock(&agent->lock);
  metrics_put_end(text);
  free(writing.series);
}

int weft_agent_metrics(weft_agent_t *agent, char *out, size_t cap, size_t *size) {
  int unusable = agent_handle_check(agent);
  if (unusable != 0)
    return unusable;
  if (!size || (cap > 0 && !out))
    return fail(WEFT_ERR_INVALID, "%s is NULL", !size ? "size" : "text");
  struct text text = {0};
  agent_metrics_write(agent, &text);
  return metrics_hand_out(&text, agent->name, out, cap, size);
}
