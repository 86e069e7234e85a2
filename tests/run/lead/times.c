// Start times of phases and changes, by the lead's clock: when a process of its host saw the event, else when the lead
// was informed of it.
#include "cmocka_all.h"
#include <string.h>

#include "run/lead/lead.h"

enum { RANKS = 3, PHASES = 2 };

#define S UINT64_C(1000000000)

// Ranks 0 and 1; then 2 joins, and 1 leaves or is killed.
struct rig {
  struct lead lead;
  struct node node;
  struct phase_times phases[PHASES];
  struct seat seats[PHASES * RANKS];
};

static void open_rig(struct rig *rig, const char *plan) {
  *rig = (struct rig){.lead = {.seats = rig->seats, .phases = rig->phases, .started_ns = 10 * S}, .node.boot = "here"};
  rig->node.lead = &rig->lead;
  assert_int_equal(plan_from_text(&rig->node.plan, plan, strlen(plan)), 0);
}

static double time_of(struct rig *rig, enum results_change what, int32_t rank, uint64_t seen_ns, const char *boot) {
  struct results_transition change = {.phase = 1, .change = what, .rank = rank};
  struct run_view view = {.time_ns = seen_ns};
  return lead_change_time(&rig->node, &change, seen_ns ? &view : NULL, boot);
}

static void phases_are_reported_from_the_start_of_the_run(void **state) {
  (void)state;
  struct rig rig;
  struct results_phase phase = {.index = 0};
  open_rig(&rig, "[[0,1],[0,1,2]]");
  rig.phases[0] = (struct phase_times){10 * S + S / 4, 12 * S};
  rig.phases[1].begin_ns = 12 * S;
  lead_fill_phase_times(&rig.node, &phase);
  assert_true(phase.begin_s == 0.25 && phase.end_s == 2);
  phase.index = 1;
  lead_fill_phase_times(&rig.node, &phase);
  assert_true(phase.begin_s == 2 && phase.end_s < 0); // it did not end
  plan_free(rig.node.plan);
}

static void joins_and_leaves_take_effect_with_their_view(void **state) {
  (void)state;
  struct rig rig;
  open_rig(&rig, "[[0,1],[0,2]]");
  lead_seat(&rig.node, 1, 2)->started_ns = 14 * S;
  lead_seat(&rig.node, 1, 1)->record_ns = 15 * S;
  assert_true(time_of(&rig, RESULTS_JOIN, 2, 13 * S, "here") == 3);
  assert_true(time_of(&rig, RESULTS_JOIN, 2, 999 * S, "elsewhere") == 4); // another clock: when it was heard
  assert_true(time_of(&rig, RESULTS_LEAVE, 1, 13 * S, "here") == 3);
  assert_true(time_of(&rig, RESULTS_LEAVE, 1, 0, "here") == 5);
  lead_seat(&rig.node, 1, 2)->started_ns = 0;
  assert_true(time_of(&rig, RESULTS_JOIN, 2, 0, "here") < 0);
  plan_free(rig.node.plan);
}

static void a_death_is_that_of_the_process(void **state) {
  (void)state;
  struct rig rig;
  open_rig(&rig, "[[0,1],[0,-1]]");
  struct seat *victim = lead_seat(&rig.node, 0, 1); // it was launched for phase 0
  victim->ended_ns = 16 * S;
  victim->kill_ns = 15 * S;
  strcpy(victim->boot, "here");
  assert_true(time_of(&rig, RESULTS_KILL, 1, 20 * S, "here") == 5);
  strcpy(victim->boot, "elsewhere");
  assert_true(time_of(&rig, RESULTS_KILL, 1, 20 * S, "here") == 6);
  plan_free(rig.node.plan);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(phases_are_reported_from_the_start_of_the_run),
      cmocka_unit_test(joins_and_leaves_take_effect_with_their_view),
      cmocka_unit_test(a_death_is_that_of_the_process),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
