// The longest time that a survivor spent in an operation while the phase's changes were made: in total, and without the
// joiners' own work.
#include <string.h>

#include "run/lead/lead.h"

bool lead_is_survivor(const struct node *node, uint32_t phase, int32_t rank) {
  return plan_rank_role(node->plan, phase, rank) == PLAN_MEMBER;
}

static const struct run_record *joiner_of(const struct node *node, uint32_t phase, uint32_t i) {
  const struct seat *seat = lead_seat(node, phase, node->plan->phases[phase].joins.rank[i]);
  return seat->has_record ? &seat->record : NULL;
}

// The time at which the first joiner offers itself, by the survivor's clock. Before that time the membership does not
// change. 0: the time is not known, or other ranks leave or are lost in this phase.
static uint64_t first_offer(const struct node *node, uint32_t phase, const struct run_record *survivor) {
  const struct plan_phase *it = &node->plan->phases[phase];
  uint64_t first = UINT64_MAX;
  for (uint32_t i = 0; i < it->joins.count; i++) {
    const struct run_record *joiner = joiner_of(node, phase, i);
    if (!joiner || strcmp(joiner->boot, survivor->boot) != 0)
      return 0;
    first = joiner->joining.offer_ns < first ? joiner->joining.offer_ns : first;
  }
  return it->joins.count == 0 || it->leaves.count > 0 || it->kills.count > 0 ? 0 : first;
}

static uint64_t overlap(uint64_t a, uint64_t a_end, uint64_t b, uint64_t b_end) {
  uint64_t from = a > b ? a : b, to = a_end < b_end ? a_end : b_end;
  return to > from ? to - from : 0;
}

// How long a joiner did its own work during the stall. Joiners work in parallel, so the longest of these times counts.
static uint64_t joiners_part(const struct node *node, uint32_t phase, const struct run_record *survivor,
                             const struct run_stall *stall) {
  uint64_t most = 0, begin = stall->begin_ns, end = begin + stall->ns;
  for (uint32_t i = 0; i < node->plan->phases[phase].joins.count; i++) {
    const struct run_record *joiner = joiner_of(node, phase, i);
    if (!joiner || strcmp(joiner->boot, survivor->boot) != 0 || joiner->joining.op != stall->op)
      continue;
    const struct run_joining *way = &joiner->joining;
    uint64_t part =
        overlap(begin, end, way->fixed_ns, way->dispatch_ns) + overlap(begin, end, way->dispatched_ns, way->combine_ns);
    most = part > most ? part : most;
  }
  return most;
}

static uint64_t longest(const struct node *node, uint32_t phase, const struct run_record *survivor,
                        const struct run_stall *stalls, uint32_t count) {
  uint64_t offer = first_offer(node, phase, survivor), most = 0;
  for (uint32_t i = 0; i < count; i++) {
    uint64_t left = overlap(stalls[i].begin_ns, stalls[i].begin_ns + stalls[i].ns, offer, UINT64_MAX);
    uint64_t part = joiners_part(node, phase, survivor, &stalls[i]);
    left = left > part ? left - part : 0;
    most = left > most ? left : most;
  }
  return most;
}

static double membership_us(const struct node *node, uint32_t phase, const struct run_record *survivor) {
  uint64_t one = longest(node, phase, survivor, survivor->stalls, survivor->num_stalls);
  uint64_t other = longest(node, phase, survivor, survivor->turns, survivor->num_turns);
  return survivor->stall_us < 0 ? -1 : (double)(one > other ? one : other) / 1000;
}

void lead_fill_stall(const struct node *node, struct results_transition *change) {
  const struct plan_ranks *live = &node->plan->phases[change->phase].live;
  for (uint32_t i = 0; i < live->count; i++) {
    const struct seat *seat = lead_seat(node, change->phase, live->rank[i]);
    if (!seat->has_record || !lead_is_survivor(node, change->phase, live->rank[i]))
      continue;
    const struct run_record *record = &seat->record;
    double median_us = node->config.num_tokens ? record->median_us : -1; // operations without tokens have no usual time
    double membership = membership_us(node, change->phase, record);
    if (record->stall_us > change->longest_stall_us) {
      change->longest_stall_us = record->stall_us;
      change->stalled_rank = live->rank[i];
      change->median_us = median_us;
    }
    if (membership > change->membership_stall_us) {
      change->membership_stall_us = membership;
      change->membership_rank = live->rank[i];
      change->membership_median_us = median_us;
    }
  }
}
