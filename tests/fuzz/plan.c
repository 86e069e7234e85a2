// Users write plans: a plan is refused with a reason, or keeps its meaning when it is written as JSON and read again.
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/ep.h>

#include "base/ep_limits.h"
#include "fuzz/support/fuzz.h"

static void check_list(const struct plan_ranks *ranks) {
  for (uint32_t i = 0; i < ranks->count; i++) {
    FUZZ_CHECK(ranks->rank[i] >= 0 && ranks->rank[i] < EP_MAX_CAPACITY);
    FUZZ_CHECK(i == 0 || ranks->rank[i] > ranks->rank[i - 1]);
  }
}

// Whoever is live in a phase was so before it, or joins; whoever was is live, leaves or is killed.
static void check_phase(const struct plan *plan, uint32_t index) {
  const struct plan_phase *phase = &plan->phases[index];
  const struct plan_ranks none = {0};
  const struct plan_ranks *before = index > 0 ? &plan->phases[index - 1].live : &none;
  check_list(&phase->live);
  check_list(&phase->joins);
  check_list(&phase->rejoins);
  check_list(&phase->leaves);
  check_list(&phase->kills);
  FUZZ_CHECK(phase->live.count > 0);
  FUZZ_CHECK(phase->live.count - phase->joins.count == before->count - phase->leaves.count - phase->kills.count);
  FUZZ_CHECK(phase->num_processes <= plan->num_processes);
  for (uint32_t i = 0; i < phase->live.count; i++) {
    FUZZ_CHECK(plan_ranks_contain(&plan->ranks, phase->live.rank[i]));
    FUZZ_CHECK(plan_ranks_contain(before, phase->live.rank[i]) !=
               plan_ranks_contain(&phase->joins, phase->live.rank[i]));
  }
  for (uint32_t i = 0; i < phase->kills.count; i++)
    FUZZ_CHECK(plan_rank_role(plan, index, phase->kills.rank[i]) == PLAN_KILLED);
}

static void check_plan(const struct plan *plan) {
  check_list(&plan->ranks);
  FUZZ_CHECK(plan->num_phases > 0 && plan->capacity == (uint32_t)plan->ranks.rank[plan->ranks.count - 1] + 1);
  for (uint32_t i = 0; i < plan->num_phases; i++)
    check_phase(plan, i);
  FUZZ_CHECK(plan_check_slots(plan, plan->num_processes) == 0);
  FUZZ_CHECK(plan_check_slots(plan, plan->num_processes - 1) != 0);
}

static void check_description(const struct plan *plan) {
  for (int json = 0; json < 2; json++) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    FUZZ_CHECK(out && plan_describe(out, plan, json, 0) == 0 && fclose(out) == 0);
    json_t *read = json ? json_loads(text, 0, NULL) : NULL;
    FUZZ_CHECK(size > 0 && (!json || read));
    json_decref(read);
    free(text);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct plan *plan = NULL, *again = NULL;
  if (plan_from_text(&plan, (const char *)data, size) != 0) {
    FUZZ_CHECK(!plan);
    return 0;
  }
  check_plan(plan);
  check_description(plan);
  char *text = fuzz_dump(plan_to_json(plan));
  FUZZ_CHECK(plan_from_text(&again, text, strlen(text)) == 0);
  char *text_again = fuzz_dump(plan_to_json(again));
  FUZZ_CHECK(strcmp(text, text_again) == 0);
  free(text);
  free(text_again);
  plan_free(plan);
  plan_free(again);
  return 0;
}
