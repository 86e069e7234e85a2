// The role of each rank in each phase of a plan, and the plan as JSON.
#include "plan/plan.h"

#include <stdlib.h>

#include "base/fail.h"

void plan_free(struct plan *plan) {
  if (!plan)
    return;
  for (uint32_t i = 0; i < plan->num_phases; i++)
    free(plan->phases[i].live.rank); // one block holds all of a phase's lists, `live` first
  free(plan->phases);
  free(plan->ranks.rank);
  free(plan);
}

bool plan_ranks_contain(const struct plan_ranks *ranks, int32_t rank) {
  uint32_t low = 0, high = ranks->count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (ranks->rank[middle] < rank)
      low = middle + 1;
    else
      high = middle;
  }
  return low < ranks->count && ranks->rank[low] == rank;
}

enum plan_role plan_rank_role(const struct plan *plan, uint32_t phase, int32_t rank) {
  const struct plan_phase *p = &plan->phases[phase];
  if (plan_ranks_contain(&p->rejoins, rank))
    return PLAN_REJOINS;
  if (plan_ranks_contain(&p->joins, rank))
    return PLAN_JOINS;
  if (plan_ranks_contain(&p->live, rank))
    return PLAN_MEMBER;
  if (plan_ranks_contain(&p->kills, rank))
    return PLAN_KILLED;
  return plan_ranks_contain(&p->leaves, rank) ? PLAN_LEAVES : PLAN_NOT_MEMBER;
}

static void remove_rank(struct plan_ranks *ranks, int32_t rank) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < ranks->count; i++)
    if (ranks->rank[i] != rank)
      ranks->rank[kept++] = ranks->rank[i];
  ranks->count = kept;
}

// There is room: a rank that joins is live, and the lists have room for all live ranks.
static void insert_rank(struct plan_ranks *ranks, int32_t rank) {
  uint32_t at = ranks->count;
  if (plan_ranks_contain(ranks, rank))
    return;
  for (; at > 0 && ranks->rank[at - 1] > rank; at--)
    ranks->rank[at] = ranks->rank[at - 1];
  ranks->rank[at] = rank;
  ranks->count++;
}

uint32_t plan_phase_processes(const struct plan_phase *phase) {
  bool one_waits = phase->leaves.count > 0 && phase->joins.count == phase->live.count;
  return phase->live.count + (phase->kills.count ? phase->kills.count : one_waits);
}

void plan_lose(struct plan *plan, uint32_t phase, int32_t rank) {
  if (phase >= plan->num_phases || !plan_ranks_contain(&plan->phases[phase].live, rank))
    return;
  remove_rank(&plan->phases[phase].live, rank);
  if (phase + 1 == plan->num_phases)
    return;
  struct plan_phase *next = &plan->phases[phase + 1];
  if (plan_ranks_contain(&next->live, rank)) {
    insert_rank(&next->joins, rank);
    insert_rank(&next->rejoins, rank);
  }
  remove_rank(&next->leaves, rank);
  remove_rank(&next->kills, rank);
  next->num_processes = plan_phase_processes(next);
}

int plan_check_slots_of(const struct plan *plan, uint32_t slots, const char *option) {
  for (uint32_t i = 0; i < plan->num_phases; i++) {
    const struct plan_phase *phase = &plan->phases[i];
    uint32_t need = phase->num_processes, named = phase->live.count + phase->kills.count;
    if (need > slots)
      return fail(WEFT_ERR_INVALID,
                  "phase %u has %u live rank%s%s, but there %s %u process slot%s: the plan needs %u "
                  "(%s)",
                  i, named, named == 1 ? "" : "s",
                  need > named ? ", all of them new, and a rank of the previous phase has to wait for them" : "",
                  slots == 1 ? "is" : "are", slots, slots == 1 ? "" : "s", plan->num_processes, option);
  }
  return 0;
}

int plan_check_slots(const struct plan *plan, uint32_t slots) {
  return plan_check_slots_of(plan, slots, "--num-processes, on all agents together");
}

static json_t *phase_to_json(const struct plan_phase *phase) {
  json_t *list = json_array();
  uint32_t live = 0, kill = 0;
  while (live < phase->live.count || kill < phase->kills.count) {
    bool take_live =
        kill == phase->kills.count || (live < phase->live.count && phase->live.rank[live] < phase->kills.rank[kill]);
    json_int_t number = take_live ? phase->live.rank[live++] : -phase->kills.rank[kill++];
    if (json_array_append_new(list, json_integer(number))) {
      json_decref(list);
      return NULL;
    }
  }
  return list;
}

json_t *plan_to_json(const struct plan *plan) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < plan->num_phases; i++) {
    if (json_array_append_new(list, phase_to_json(&plan->phases[i]))) {
      json_decref(list);
      return NULL;
    }
  }
  return list;
}
