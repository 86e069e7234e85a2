// Every sequence of events of 3 and 4 members up to the bounds below, and for each rule a search that finds the fault
// that occurs without the rule.
//
// With arguments it makes one search of that size and prints what it covered:
//   test_model_activation founders joiners leavers last crashes gives_up gaps marks [states]
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmocka_all.h"

#include "model/support/active.h"
#include "model/support/slow.h"

enum { STATES = MODEL_SLOW ? 40000 : 3000000 };

static struct active_result search(const char *what, struct active_options options) {
  options.states = options.states ? options.states : STATES;
  struct active_result result = active_run(&options);
  const struct explore_result *e = &result.explore;
  printf("%s: %u states, %llu steps, depth %u, %u ends%s; %u operations in different views at most, mark %u apart\n",
         what, e->states, (unsigned long long)e->steps, e->depth, e->ends, e->complete ? ", complete" : "",
         result.differ, result.apart);
  return result;
}

static void holds(const char *what, struct active_options options) {
  struct active_result result = search(what, options);
  if (result.explore.broken)
    fail_msg("%s: %s", what, result.explore.broken_why);
  if (!MODEL_SLOW && !result.explore.complete)
    fail_msg("%s: more than %d states: the bounds are too wide", what, STATES);
}

static void nothing_fails_nobody_differs(void **state) {
  (void)state;
  holds("3 members", (struct active_options){.founders = 3, .last = 1, .whole = true});
  holds("2 members and a joiner", (struct active_options){.founders = 2, .joiners = 1, .last = 2, .whole = true});
  holds("2 members and 2 joiners", (struct active_options){.founders = 2, .joiners = 2, .last = 2});
  holds("3 members, one leaves", (struct active_options){.founders = 3, .leavers = 1, .last = 2});
  holds("2 members and a joiner, views are skipped",
        (struct active_options){.founders = 2, .joiners = 1, .leavers = 1, .last = 2, .gaps = 1});
}

static void any_member_may_die_between_any_two_writes(void **state) {
  (void)state;
  holds("3 members, a death", (struct active_options){.founders = 3, .last = 1, .crashes = 1});
  holds("2 members and a joiner, a death",
        (struct active_options){.founders = 2, .joiners = 1, .last = 2, .crashes = 1});
  holds(
      "2 members and 2 joiners, a death, one operation at a time",
      (struct active_options){.founders = 2, .joiners = 2, .last = 2, .crashes = 1, .early = true, .one_by_one = true});
}

static const struct active_options two_starts = {
    .founders = 3, .joiners = 1, .last = 1, .crashes = 1, .early = true, .down = true, .mortal = 1 << 2};

static void a_joiner_is_sent_two_starts(void **state) {
  (void)state;
  holds("3 members and a joiner, a death, the store is down", two_starts);
}

// A death is in the model of steps, too: survivors of one death run every operation of a step in one view.
static void views_change_between_steps(void **state) {
  (void)state;
  holds("2 members and a joiner, steps of 2",
        (struct active_options){.founders = 2, .joiners = 1, .last = 2, .step = 2, .whole = true});
  holds("2 members and a joiner, steps of 3",
        (struct active_options){.founders = 2, .joiners = 1, .last = 2, .step = 3});
  holds("3 members, one leaves, steps of 2",
        (struct active_options){.founders = 3, .leavers = 1, .last = 2, .step = 2});
  holds("2 members and a joiner, a death, steps of 2",
        (struct active_options){.founders = 2, .joiners = 1, .last = 2, .crashes = 1, .step = 2, .one_by_one = true});
}

static void deadlines_pass_at_any_time(void **state) {
  (void)state;
  holds("3 members, a deadline",
        (struct active_options){.founders = 3, .gives_up = 1, .one_by_one = true, .last = 1, .differ = 1});
}

// All learn the mark with one operation; if a member dies in it, some may learn it with the next one, and never later,
// however many die: a member that sends the next one has sent its mark to all in this one.
static void a_mark_is_learnt_at_most_one_operation_apart(void **state) {
  (void)state;
  holds("3 members, a mark", (struct active_options){.founders = 3, .last = 1, .marks = true});
  holds("3 members, a mark, a death",
        (struct active_options){.founders = 3, .last = 1, .crashes = 1, .marks = true, .one_by_one = true});
  holds("4 members, a mark, two deaths",
        (struct active_options){
            .founders = 4, .last = 1, .crashes = 2, .marks = true, .down = true, .mortal = 3, .one_by_one = true});
}

// A rule that is left out is missed: the search finds a scenario that goes wrong.
static void every_rule_is_needed(void **state) {
  (void)state;
  static const struct {
    enum active_mutation mutation;
    const char *what;
  } rules[] = {
      {ACTIVE_NO_NOTIFY, "only the rank that decides notifies a joiner"},
      {ACTIVE_NO_PASS, "a peer that counts this rank from later on is waited for"},
      {ACTIVE_NO_MISS, "a peer that has been sent a later operation as its first is counted in this one"},
      {ACTIVE_NO_ADOPTION, "a newer view is not adopted"},
      {ACTIVE_NOTIFY_ANY, "a rank notifies joiners of a view that has not taken effect"},
      {ACTIVE_KEEP_LINKS, "a joiner keeps links to ranks that are not in its first view"},
      {ACTIVE_EARLY_CLOSE, "a peer whose header has not come is not waited for"},
  };
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    struct active_options options = two_starts;
    if (rules[i].mutation == ACTIVE_NOTIFY_ANY || rules[i].mutation == ACTIVE_KEEP_LINKS)
      options = (struct active_options){.founders = 2, .joiners = 1, .leavers = 1, .last = 2, .gaps = 1};
    if (rules[i].mutation == ACTIVE_EARLY_CLOSE)
      options = (struct active_options){.founders = 2, .joiners = 1, .last = 1};
    options.mutation = rules[i].mutation;
    options.quiet = true;
    options.states = 3000000;
    struct active_result result = search(rules[i].what, options);
    if (!result.explore.broken)
      fail_msg("nothing goes wrong when %s", rules[i].what);
    printf("  found after %u steps: %s\n", result.explore.depth, result.explore.broken_why);
  }
}

static int search_once(int argc, char **argv) {
  uint32_t n[9] = {3, 0, 0, 1, 0, 0, 0, 0, 0};
  for (int i = 1; i < argc && i < 10; i++)
    n[i - 1] = (uint32_t)strtoul(argv[i], NULL, 10);
  struct active_options options = {.founders = n[0],
                                   .joiners = n[1],
                                   .leavers = n[2],
                                   .last = n[3],
                                   .crashes = n[4],
                                   .gives_up = n[5],
                                   .gaps = n[6],
                                   .marks = n[7] != 0,
                                   .differ = 2 * (n[4] + n[5]),
                                   .states = n[8] ? n[8] : 100000000};
  if (n[0] < 1 || n[0] + n[1] > 4 || n[3] > 4) {
    fprintf(stderr, "founders and joiners are 4 at most, and faults end with operation 4 at most\n");
    return 2;
  }
  return search("activation", options).explore.broken ? 1 : 0;
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_fails_nobody_differs), cmocka_unit_test(any_member_may_die_between_any_two_writes),
      cmocka_unit_test(a_joiner_is_sent_two_starts),  cmocka_unit_test(views_change_between_steps),
      cmocka_unit_test(deadlines_pass_at_any_time),   cmocka_unit_test(a_mark_is_learnt_at_most_one_operation_apart),
      cmocka_unit_test(every_rule_is_needed),
  };
  if (argc > 1)
    return search_once(argc, argv);
  return cmocka_run_group_tests_name("model_activation", tests, NULL, NULL);
}
