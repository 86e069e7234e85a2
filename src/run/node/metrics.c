// Serves the metrics of a node.
#include "run/node/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/weft.h>

#include "base/fail.h"
#include "ep/metrics.h"
#include "metrics/server.h"
#include "metrics/text.h"
#include "run/common/counters.h"
#include "run/node/node.h"

static const char *const exits[NODE_EXITS] = {
    [NODE_EXIT_DONE] = "how=\"done\"",
    [NODE_EXIT_PLANNED_KILL] = "how=\"planned_kill\"",
    [NODE_EXIT_FAILED] = "how=\"failed\"",
};

static void put_run(const struct node *node, struct text *text) {
  metrics_put_family(text, "weft_elastic", "info", "", "This run, and this agent of it.");
  text_add(text, "weft_elastic_info{");
  metrics_put_label(text, "job", node->job);
  text_add(text, ",");
  metrics_put_label(text, "host", node->host);
  text_add(text, ",run=\"%s\",agent=\"%u\",version=\"%s\"} 1\n", node->run, node->id, weft_version());
  metrics_put_family(text, "weft_elastic_phase", "gauge", "",
                     "The current phase of the plan, from 0; the number of phases when the run is over.");
  metrics_put_gauge(text, "weft_elastic_phase", "", node->metrics.phase);
  metrics_put_family(text, "weft_elastic_phases", "gauge", "", "Phases of the plan.");
  metrics_put_gauge(text, "weft_elastic_phases", "", node->plan->num_phases);
  metrics_put_family(text, "weft_elastic_rank_processes", "gauge", "", "Running rank processes of this agent.");
  metrics_put_gauge(text, "weft_elastic_rank_processes", "", node->metrics.processes);
  metrics_put_family(text, "weft_elastic_store_away", "gauge", "", "1 if the store does not answer.");
  metrics_put_gauge(text, "weft_elastic_store_away", "", node->metrics.store_away);
  metrics_put_family(text, "weft_elastic_rank_exits", "counter", "", "Rank processes of this agent that have ended.");
  for (int i = 0; i < NODE_EXITS; i++)
    metrics_put_count(text, "weft_elastic_rank_exits", exits[i], node->metrics.exits[i]);
}

static void put_times(const struct node *node, struct text *text, const char *name, size_t offset, const char *help) {
  metrics_put_family(text, name, "histogram", "seconds", help);
  for (uint32_t i = 0; i < node->metrics.num_counters; i++) {
    char rank[32];
    snprintf(rank, sizeof rank, "rank=\"%" PRId32 "\"", node->plan->ranks.rank[i]);
    if (node->metrics.counters[i].used)
      metrics_put_histogram(text, name, rank, (const void *)((const char *)&node->metrics.counters[i] + offset));
  }
}

static void put_stalls(const struct node *node, struct text *text) {
  static const char name[] = "weft_elastic_stall_seconds";
  metrics_put_family(text, name, "gauge", "seconds",
                     "The longest dispatch or combine while views changed, of the last phase that changed them.");
  for (uint32_t i = 0; i < node->metrics.num_counters; i++) {
    char rank[32];
    snprintf(rank, sizeof rank, "rank=\"%" PRId32 "\"", node->plan->ranks.rank[i]);
    if (node->metrics.counters[i].used)
      metrics_put_gauge(text, name, rank, (double)node->metrics.counters[i].stall_ns / 1e9);
  }
}

// Runs in the server's thread. It may read only atomics, and data that the node no longer changes.
static void write_all(void *arg, struct text *text) {
  const struct node *node = arg;
  uint32_t count = 0;
  struct ep_metrics_rank *ranks = calloc(node->metrics.num_counters, sizeof *ranks);
  for (uint32_t i = 0; ranks && i < node->metrics.num_counters; i++) {
    if (!node->metrics.counters[i].used)
      continue;
    ranks[count].rank = node->plan->ranks.rank[i];
    run_counters_stats(&node->metrics.counters[i], &ranks[count++].stats);
  }
  text->failed |= !ranks;
  put_run(node, text);
  ep_metrics_put(text, ranks, count);
  put_times(node, text, "weft_elastic_dispatch_seconds", offsetof(struct run_counters, dispatch),
            "Times of dispatches, as their rank saw them.");
  put_times(node, text, "weft_elastic_combine_seconds", offsetof(struct run_counters, combine),
            "Times of combines, as their rank saw them.");
  put_stalls(node, text);
  metrics_put_end(text);
  free(ranks);
}

static int write_bearer(struct node *node) {
  const char *path = node->config.metrics_bearer_file, *token = node->config.token;
  if (!path)
    return 0;
  if (!token || !*token)
    return fail(WEFT_ERR_INVALID,
                "--metrics-bearer-file %s: the bearer token is derived from a token, and none is given: give one by "
                "--token-file",
                path);
  int err = metrics_bearer_to_file(token, "--metrics-bearer-file", path);
  if (!err && !(node->metrics.bearer_file = strdup(path)))
    err = fail(WEFT_ERR_NOMEM, "no memory for a path");
  return err;
}

// A token that was made for this run is known to nobody else, so it is used only if a bearer file is written.
static const char *token_of(const struct node *node) {
  return node->config.token == node->made_token && !node->config.metrics_bearer_file ? NULL : node->config.token;
}

int node_metrics_open(struct node *node) {
  struct node_metrics *metrics = &node->metrics;
  const struct metrics_source source = {.of = "this run", .token = token_of(node), .write = write_all, .arg = node};
  uint16_t port = 0;
  if (!node->config.metrics)
    return 0;
  int err = run_counters_make(node->plan->ranks.count, &metrics->fd, &metrics->counters);
  if (err)
    return err;
  metrics->num_counters = node->plan->ranks.count;
  err = write_bearer(node);
  if (!err)
    err = metrics_server_open(&source, node->config.metrics, &port, &metrics->server);
  if (err)
    return fail_context(err, "--metrics %s", node->config.metrics);
  char url[320];
  metrics_url(node->config.metrics, port, url, sizeof url);
  progress_show(&node->progress, true, "metrics of this agent: %s", url);
  return 0;
}

void node_metrics_close(struct node *node) {
  struct node_metrics *metrics = &node->metrics;
  metrics_server_close(metrics->server);
  if (metrics->counters)
    close(metrics->fd);
  run_counters_unmap(metrics->counters, metrics->num_counters);
  if (metrics->bearer_file)
    unlink(metrics->bearer_file);
  free(metrics->bearer_file);
  *metrics = (struct node_metrics){0};
}

void node_metrics_look(struct node *node) {
  uint32_t processes = 0;
  for (uint32_t i = 0; i < node->slots; i++)
    processes += node->children[i].pid != 0;
  node->metrics.processes = processes;
  node->metrics.phase = node->phase.current;
  node->metrics.store_away = node->store.silent_ns != 0;
}

void node_metrics_exit(struct node *node, enum node_exit how) {
  node->metrics.exits[how]++;
}

bool node_metrics_place(const struct node *node, int32_t rank, int *fd, uint32_t *place) {
  for (uint32_t i = 0; i < node->metrics.num_counters; i++) {
    if (node->plan->ranks.rank[i] != rank)
      continue;
    *fd = node->metrics.fd;
    *place = i;
    return true;
  }
  return false;
}
