// Finds the ranks that start, leave and die in a phase, from the plan and --negative.
#include "run/common/roster.h"

#include <string.h>

uint32_t run_roster_start(const struct plan *plan, enum run_negative negative, uint32_t phase, int32_t *ranks) {
  const struct plan_phase *it = &plan->phases[phase];
  const struct plan_ranks none = {0};
  const struct plan_ranks *live = &it->live, *kills = negative == RUN_NEGATIVE_LEAVE ? &none : &it->kills;
  uint32_t count = 0, l = 0, k = 0;
  while (l < live->count || k < kills->count) {
    bool take_live = k == kills->count || (l < live->count && live->rank[l] < kills->rank[k]);
    ranks[count++] = take_live ? live->rank[l++] : kills->rank[k++];
  }
  return count;
}

bool run_roster_dies(const struct plan *plan, enum run_negative negative, uint32_t phase, int32_t rank) {
  return negative != RUN_NEGATIVE_LEAVE && plan_rank_role(plan, phase, rank) == PLAN_KILLED;
}

bool run_roster_leaves(const struct plan *plan, enum run_negative negative, uint32_t phase, int32_t rank) {
  enum plan_role role = plan_rank_role(plan, phase, rank);
  return role == PLAN_LEAVES || (role == PLAN_KILLED && negative == RUN_NEGATIVE_LEAVE);
}

bool run_roster_waits(const struct plan *plan, enum run_negative negative, uint32_t phase, int32_t rank) {
  if (phase == 0 || !run_roster_leaves(plan, negative, phase, rank))
    return false;
  const struct plan_phase *it = &plan->phases[phase];
  bool stays = it->joins.count < it->live.count || (negative != RUN_NEGATIVE_LEAVE && it->kills.count > 0);
  return !stays && rank == plan->phases[phase - 1].live.rank[0];
}

bool run_roster_equal(const struct plan_ranks *ranks, const int32_t *other, uint32_t count) {
  return ranks->count == count && (count == 0 || memcmp(ranks->rank, other, count * sizeof *other) == 0);
}
