// The lead's data about one rank in one phase.
#include <stdio.h>

#include "run/lead/lead.h"

struct seat *lead_seat(const struct node *node, uint32_t phase, int32_t rank) {
  const struct plan_ranks *ranks = &node->plan->ranks;
  if (phase >= node->plan->num_phases)
    return NULL;
  for (uint32_t i = 0; i < ranks->count; i++)
    if (ranks->rank[i] == rank)
      return &node->lead->seats[(size_t)phase * ranks->count + i];
  return NULL;
}

uint32_t lead_launch_phase(const struct node *node, uint32_t phase, int32_t rank) {
  while (phase > 0 && !plan_ranks_contain(&node->plan->phases[phase].joins, rank))
    phase--;
  return phase;
}

const char *lead_rank_host(const struct node *node, uint32_t phase, int32_t rank) {
  const struct launch *launch;
  const struct seat *seat;
  if (!node->plan || phase >= node->plan->num_phases || !lead_seat(node, phase, rank))
    return "";
  const uint32_t first = lead_launch_phase(node, phase, rank);
  for (uint32_t p = phase + 1; p-- > first;)
    if ((seat = lead_seat(node, p, rank))->has_record && seat->record.rank.host[0])
      return seat->record.rank.host;
  launch = node_launch_of(node, first, rank);
  if (!launch->claimed || launch->node >= node->lead->num_nodes)
    return "";
  return launch->node == node->id ? node->host : node->lead->nodes[launch->node].host;
}

void lead_describe_rank(const struct node *node, uint32_t phase, int32_t rank, struct text *text) {
  const char *host = lead_rank_host(node, phase, rank);
  text_add(text, *host ? "rank %d on %s" : "rank %d", rank, host);
}
