// Finds out how many ranks shared how many processors. Agents of one host that may run on the same processors count as
// one.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "run/common/roster.h"
#include "run/lead/lead.h"

static bool share(const struct seen_node *a, const struct seen_node *b) {
  return strcmp(a->host, b->host) == 0 && strcmp(a->boot, b->boot) == 0 && strcmp(a->cpus, b->cpus) == 0;
}

// The first node that shares the processors of node `i`: itself, if there is no other before it.
static uint32_t first_of(const struct lead *lead, uint32_t i) {
  uint32_t first = 0;
  while (!share(&lead->nodes[first], &lead->nodes[i]))
    first++;
  return first;
}

// Counts the ranks of a phase into counts[]. The ranks of nodes that share processors count for the first of these
// nodes.
static void count_ranks(const struct node *node, uint32_t phase, int32_t *ranks, uint32_t *counts) {
  uint32_t count = run_roster_start(node->plan, node->config.negative, phase, ranks);
  memset(counts, 0, node->lead->num_nodes * sizeof *counts);
  for (uint32_t i = 0; i < count; i++) {
    const struct launch *launch = node_launch_of(node, lead_launch_phase(node, phase, ranks[i]), ranks[i]);
    if (launch && launch->claimed && launch->node < node->lead->num_nodes)
      counts[first_of(node->lead, launch->node)]++;
  }
}

static void add_row(struct results *results, const struct seen_node *seen, uint32_t most) {
  struct results_processors *row = &results->processors[results->num_processors++];
  memcpy(row->host, seen->host, sizeof row->host);
  row->usable = seen->processors;
  row->ranks = most;
}

int lead_fill_processors(const struct node *node, struct results *results) {
  const struct lead *lead = node->lead;
  uint32_t *most = calloc(2 * (size_t)lead->num_nodes, sizeof *most);
  int32_t *ranks = calloc(node->plan->ranks.count + 1, sizeof *ranks);
  results->processors = calloc(lead->num_nodes, sizeof *results->processors);
  bool made = most && ranks && results->processors;
  for (uint32_t p = 0; made && node->phase.begun && p <= node->phase.current && p < node->plan->num_phases; p++) {
    uint32_t *counts = most + lead->num_nodes;
    count_ranks(node, p, ranks, counts);
    for (uint32_t i = 0; i < lead->num_nodes; i++)
      most[i] = counts[i] > most[i] ? counts[i] : most[i];
  }
  for (uint32_t i = 0; made && i < lead->num_nodes; i++)
    if (most[i] > 0)
      add_row(results, &lead->nodes[i], most[i]);
  free(ranks);
  free(most);
  return made ? 0 : fail(WEFT_ERR_NOMEM, "no memory for the results");
}
