// One rank in one phase, as the lead sees it.
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
