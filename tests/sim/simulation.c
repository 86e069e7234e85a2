// A group through everything that can happen to it, many members, in virtual time, from seeds.
// test_sim                        every scenario, small
// test_sim --large                every scenario, with more members and more seeds
// test_sim --1024                 the last scenario, with 1,024 members
// test_sim SCENARIO MEMBERS SEED  one run again
#include "cmocka_all.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/support/weather.h"

enum { TTL_S = 10, DEADLINE_S = 5, LAST_LEAVERS = 8, MANY = 300 };

struct scenario {
  const char *name;
  struct sim_weather weather; // `members` comes with the run
  uint32_t lose_requests, lose_answers, late_requests;
  size_t history;
  uint32_t deadline_s;
};

static const struct scenario scenarios[] = {
    {.name = "joins_and_leaves",
     .weather = {.gap_ns = 50 * SIM_MS, .weights = {[SIM_JOIN] = 3, [SIM_RETURN] = 1, [SIM_LEAVE] = 4}}},
    {.name = "grows_in_one_step",
     .weather = {.gap_ns = 500 * SIM_MS,
                 .weights = {[SIM_GROW] = 4, [SIM_JOIN] = 1, [SIM_LEAVE] = 3, [SIM_CRASH] = 3, [SIM_PAUSE] = 1}}},
    {.name = "crashes",
     .weather = {.gap_ns = 200 * SIM_MS,
                 .weights = {[SIM_JOIN] = 4, [SIM_RETURN] = 2, [SIM_CRASH] = 4, [SIM_SILENCE] = 2}}},
    {.name = "pauses_and_false_alarms",
     .weather = {.gap_ns = SIM_S, .weights = {[SIM_JOIN] = 3, [SIM_LEAVE] = 1, [SIM_ACCUSE] = 3, [SIM_PAUSE] = 4}}},
    {.name = "lost_and_late_answers",
     .weather = {.gap_ns = 500 * SIM_MS,
                 .weights = {[SIM_JOIN] = 4, [SIM_RETURN] = 1, [SIM_LEAVE] = 2, [SIM_CRASH] = 2, [SIM_PAUSE] = 1}},
     .lose_requests = 200,
     .lose_answers = 300,
     .late_requests = 300},
    {.name = "watch_cuts",
     .weather = {.gap_ns = 500 * SIM_MS,
                 .weights = {[SIM_JOIN] = 3, [SIM_LEAVE] = 2, [SIM_CRASH] = 1, [SIM_ACCUSE] = 1, [SIM_CUT] = 5}},
     .history = 40},
    {.name = "store_outages",
     .weather = {.gap_ns = 3 * SIM_S, .weights = {[SIM_JOIN] = 4, [SIM_LEAVE] = 2, [SIM_CRASH] = 2, [SIM_OUTAGE] = 2}}},
    {.name = "store_restarted_empty",
     .weather = {.gap_ns = 3 * SIM_S,
                 .weights = {[SIM_JOIN] = 4, [SIM_LEAVE] = 2, [SIM_CRASH] = 2, [SIM_RESTART] = 2}}},
    {.name = "everything",
     .weather =
         {.gap_ns = 2 * SIM_S,
          .weights = {[SIM_JOIN] = 6,
                      [SIM_RETURN] = 2,
                      [SIM_GROW] = 2,
                      [SIM_LEAVE] = 3,
                      [SIM_CRASH] = 3,
                      [SIM_SILENCE] = 2,
                      [SIM_ACCUSE] = 1,
                      [SIM_PAUSE] = 3,
                      [SIM_CUT] = 3,
                      [SIM_OUTAGE] = 1,
                      [SIM_RESTART] = 1}},
     .lose_requests = 50,
     .lose_answers = 100,
     .late_requests = 100,
     .history = 2000},
    {.name = "everything_ends_or_is_refused_by_its_deadline",
     .weather =
         {.gap_ns = 2 * SIM_S,
          .each_first = true,
          .weights = {[SIM_JOIN] = 6,
                      [SIM_RETURN] = 2,
                      [SIM_GROW] = 2,
                      [SIM_LEAVE] = 4,
                      [SIM_CRASH] = 3,
                      [SIM_SILENCE] = 2,
                      [SIM_ACCUSE] = 1,
                      [SIM_PAUSE] = 3,
                      [SIM_CUT] = 2,
                      [SIM_OUTAGE] = 2,
                      [SIM_RESTART] = 1}},
     .lose_requests = 50,
     .lose_answers = 100,
     .late_requests = 100,
     .history = 2000,
     .deadline_s = DEADLINE_S},
};
enum { SCENARIOS = sizeof scenarios / sizeof *scenarios };

static struct sim *begin(const struct scenario *scenario, uint32_t members, uint64_t seed) {
  const struct sim_options options = {.seed = seed,
                                      .capacity = members + members / 4 + 8,
                                      .ttl_s = TTL_S,
                                      .history = scenario->history,
                                      .deadline_ns = scenario->deadline_s * SIM_S,
                                      .lose_requests = scenario->lose_requests,
                                      .lose_answers = scenario->lose_answers,
                                      .late_requests = scenario->late_requests};
  return sim_new(&options);
}

static void expect(struct sim *sim, bool (*condition)(struct sim *sim), uint64_t ns, const char *what) {
  if (!sim_until(sim, condition, ns))
    sim_break(sim, "not within %.0f s: %s; %u members run", (double)ns / 1e9, what, sim_live(sim));
}

static bool store_is_empty(struct sim *sim) {
  return sim_store_is_empty(sim);
}

// Many die rather than leave: a view for each member, sent to all of them, is not what this test is about.
static void end(struct sim *sim) {
  while (sim_live(sim) > MANY || (sim_live(sim) > LAST_LEAVERS && sim_dice(sim, 4) == 0))
    sim_crash(sim, sim_live_at(sim, (uint32_t)sim_dice(sim, sim_live(sim))), sim_dice(sim, 2) == 0);
  expect(sim, sim_agreed, (6 * TTL_S + 30) * SIM_S, "the survivors in one view");
  for (uint32_t i = sim_live(sim); !sim_broken(sim) && i-- > 0;)
    if (i < sim_live(sim))
      sim_leave(sim, sim_live_at(sim, i), sim_dice(sim, 2) == 0);
  expect(sim, sim_all_gone, 60 * SIM_S, "all have left");
  expect(sim, store_is_empty, (2 * TTL_S + 5) * SIM_S, "nothing left in the store");
}

// The store is away for longer than a call waits: whoever asks for something then is refused, and goes or tries again.
static void be_refused(struct sim *sim, const struct scenario *scenario, uint32_t times) {
  uint64_t before = sim_counts(sim).refused;
  sim_outage(sim, (scenario->deadline_s + 2) * SIM_S, false); // shorter than a lease
  for (uint32_t i = 0; i < times; i++) {
    sim_join(sim, -1);
    sim_leave(sim, sim_live_at(sim, (uint32_t)sim_dice(sim, sim_live(sim) - i - 1)), false); // one that was there
  }
  sim_run(sim, (scenario->deadline_s + 1) * SIM_S);
  if (sim_counts(sim).refused < before + times)
    sim_break(sim, "%" PRIu64 " calls were refused in an outage, not %u", sim_counts(sim).refused - before, times);
}

static void expect_each(struct sim *sim, const struct sim_weather *weather, const uint32_t happened[SIM_MISHAPS]) {
  for (int i = 0; i < SIM_MISHAPS; i++)
    if (weather->each_first && weather->weights[i] && !happened[i])
      sim_break(sim, "mishap %d did not happen", i);
}

static void run(const struct scenario *scenario, uint32_t members, uint64_t seed, uint32_t mishaps, bool print) {
  struct sim_weather weather = scenario->weather;
  struct sim *sim = begin(scenario, members, seed);
  weather.members = members;
  sim_found(sim, members);
  expect(sim, sim_agreed, 60 * SIM_S, "founders in one view");
  uint32_t happened[SIM_MISHAPS] = {0};
  sim_endure(sim, &weather, mishaps, happened);
  expect_each(sim, &weather, happened);
  sim_clear(sim);
  if (scenario->deadline_s) {
    expect(sim, sim_agreed, (10 * TTL_S + 60) * SIM_S, "all members that run in one view, and nobody else");
    if (!sim_broken(sim))
      be_refused(sim, scenario, members < 12 ? 1 : 4);
  }
  expect(sim, sim_agreed, (10 * TTL_S + 60) * SIM_S, "all members that run in one view, and nobody else");
  end(sim);
  struct sim_counts counts = sim_counts(sim);
  if (print || sim_broken(sim))
    print_message("%s %u %" PRIu64 ": %.0f s of virtual time, %" PRIu64 " views, %" PRIu64 " requests, %" PRIu64
                  " events; %" PRIu64 " changes came true, %" PRIu64 " were refused; %" PRIu64 " in one step\n",
                  scenario->name, members, seed, (double)sim_now(sim) / 1e9, counts.views, counts.requests,
                  counts.events, counts.ended, counts.refused, counts.grown);
  char broken[600];
  snprintf(broken, sizeof broken, "%s", sim_broken(sim) ? sim_broken(sim) : "");
  sim_free(sim);
  if (broken[0])
    fail_msg("%s\nagain: test_sim %s %u %" PRIu64, broken, scenario->name, members, seed);
}

// How many mishaps a run of so many members has: more members, more of what each of them costs.
static uint32_t mishaps_for(uint32_t members) {
  return members > 512 ? 25 : members > 100 ? 60 : 120;
}

static bool large;

static void holds(void **state) {
  const struct scenario *scenario = *state;
  static const struct {
    uint32_t members, seeds;
  } small[] = {{5, 12}, {12, 4}, {48, 2}}, big[] = {{5, 40}, {24, 20}, {100, 4}, {256, 1}};
  for (size_t i = 0; i < (large ? sizeof big / sizeof *big : sizeof small / sizeof *small); i++)
    for (uint64_t seed = 1; seed <= (large ? big[i].seeds : small[i].seeds); seed++) {
      uint32_t members = large ? big[i].members : small[i].members;
      run(scenario, members, seed, mishaps_for(members), false);
    }
}

static void holds_with_1024(void **state) {
  run(*state, 1024, 1, mishaps_for(1024), true);
}

static int run_again(const char *name, const char *members, const char *seed) {
  uint32_t count = (uint32_t)strtoul(members, NULL, 10);
  for (size_t i = 0; i < SCENARIOS; i++)
    if (strcmp(scenarios[i].name, name) == 0 && count > 0) {
      run(&scenarios[i], count, strtoull(seed, NULL, 10), mishaps_for(count), true);
      return 0;
    }
  fprintf(stderr, "test_sim: no scenario '%s' with %u members\n", name, count);
  return 2;
}

int main(int argc, char **argv) {
  if (argc == 4)
    return run_again(argv[1], argv[2], argv[3]);
  static const struct CMUnitTest most[] = {
      {.name = "1024_members_have_one_order_of_views_no_rank_twice_nobody_outside_and_every_change_ends_or_is_refused",
       .test_func = holds_with_1024,
       .initial_state = (void *)&scenarios[SCENARIOS - 1]}};
  if (argc == 2 && strcmp(argv[1], "--1024") == 0)
    return cmocka_run_group_tests_name("sim", most, NULL, NULL);
  large = argc == 2 && strcmp(argv[1], "--large") == 0;
  struct CMUnitTest tests[SCENARIOS];
  for (size_t i = 0; i < SCENARIOS; i++)
    tests[i] =
        (struct CMUnitTest){.name = scenarios[i].name, .test_func = holds, .initial_state = (void *)&scenarios[i]};
  return _cmocka_run_group_tests("sim", tests, SCENARIOS, NULL, NULL);
}
