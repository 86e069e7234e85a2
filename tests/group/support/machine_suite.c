// Members of a group on a store in virtual time, and the steps that tests of the state machine share.
#include "group/support/machine_suite.h"

#include "group/view.h"

static uint32_t expected; // number of members that suite_agreed() requires

bool suite_agreed(struct world *w) {
  const struct group_view *first = NULL;
  for (uint32_t i = 0; i < world_count(w); i++) {
    struct world_member *m = world_member(w, i);
    if (!m->machine || m->stopped || group_machine_standing(m->machine) > GROUP_CLAIMED)
      continue;
    const struct group_view *view = group_machine_view(m->machine);
    if (!view || view->count != expected || !group_view_has(view, group_machine_rank(m->machine), m->incarnation))
      return false;
    if (first && !group_view_equal(first, view))
      return false;
    first = view;
  }
  return first != NULL;
}

void suite_expect(uint32_t members) {
  expected = members;
}

void suite_until_agreed(struct world *w, uint32_t members, uint64_t ms) {
  expected = members;
  world_until(w, suite_agreed, ms, "all members in one view");
}

bool suite_all_claimed(struct world *w) {
  for (uint32_t i = 0; i < world_count(w); i++)
    if (world_member(w, i)->machine && group_machine_standing(world_member(w, i)->machine) == GROUP_OPENING)
      return false;
  return true;
}

struct world *suite_found(uint64_t seed, uint32_t count) {
  struct world *w = world_new(seed, 64, TTL_S);
  for (uint32_t i = 0; i < count; i++)
    group_machine_found(world_add(w, (int32_t)i, count)->machine, true);
  suite_until_agreed(w, count, SOON_MS);
  for (uint32_t i = 0; i < count; i++)
    group_machine_found(world_member(w, i)->machine, false);
  return w;
}

uint32_t suite_fenced(struct world *w) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < world_count(w); i++)
    count += world_member(w, i)->num_fenced;
  return count;
}

void suite_end(struct world *w, bool whole) {
  world_check_views(w, whole);
  world_free(w);
}

bool suite_first_is_fenced(struct world *w) {
  return world_member(w, 0)->num_fenced == 1;
}

int main(void) {
  return (suite_run_views() + suite_run_closing() + suite_run_store() + suite_run_barriers() + suite_run_offers() +
          suite_run_lives()) != 0;
}
