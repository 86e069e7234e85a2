// Every scenario of a few members that agree on views, up to the bounds below, and for each rule a search that finds
// the fault without it.
//
// With arguments it makes one search of that size and prints what it covered; ranks: 0 the next one, 1 any, 2 rank 0:
//   test_model_views founders joiners founding ranks leavers crashes losses cuts expiries empties [states [offers
//     withdrawals]]; offers: 1 joiners offer themselves, 2 and the highest founder is put out
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmocka_all.h"

#include "model/support/slow.h"
#include "model/support/views.h"
#include "model/support/views_mirror.h"

enum { STATES = MODEL_SLOW ? 8000 : 200000, SOME = MODEL_SLOW ? 8000 : 60000, MIRRORS = MODEL_SLOW ? 30 : 300 };

static struct explore_result search(const char *what, struct views_options options) {
  options.states = options.states ? options.states : STATES;
  struct explore_result e = views_run(&options);
  printf("%s: %u states, %llu steps, depth %u, %u ends%s\n", what, e.states, (unsigned long long)e.steps, e.depth,
         e.ends, e.complete ? ", complete" : "");
  return e;
}

static void holds_as_far(const char *what, struct views_options options) {
  options.states = SOME;
  struct explore_result e = search(what, options);
  if (e.broken)
    fail_msg("%s: %s", what, e.broken_why);
}

static void holds(const char *what, struct views_options options) {
  struct explore_result e = search(what, options);
  if (e.broken)
    fail_msg("%s: %s", what, e.broken_why);
  if (!MODEL_SLOW && !e.complete)
    fail_msg("%s: more than %d states: the bounds are too wide", what, STATES);
}

static void the_models_store_answers_as_the_core_does(void **state) {
  (void)state;
  char why[128];
  for (uint64_t seed = 1; seed <= MIRRORS; seed++)
    if (views_mirror(seed, 200, why, sizeof why) != 0)
      fail_msg("seed %llu: %s", (unsigned long long)seed, why);
}

static void members_come_and_go(void **state) {
  (void)state;
  holds("2 members found", (struct views_options){.founders = 2, .founding = true});
  holds("2 members found, a death", (struct views_options){.founders = 2, .founding = true, .crashes = 1});
  holds("3 members, two leave at once", (struct views_options){.founders = 3, .leavers = 2});
  holds("2 members, one leaves, one joins", (struct views_options){.founders = 2, .joiners = 1, .leavers = 1});
  holds("2 members, 2 join at once", (struct views_options){.founders = 2, .joiners = 2});
}

static void members_die(void **state) {
  (void)state;
  holds("4 members, two deaths", (struct views_options){.founders = 4, .crashes = 2});
  holds("2 members and a joiner, a death", (struct views_options){.founders = 2, .joiners = 1, .crashes = 1});
  holds("3 members, one leaves, a death", (struct views_options){.founders = 3, .leavers = 1, .crashes = 1});
  holds("2 members, two want the rank of one that may die",
        (struct views_options){.founders = 2, .joiners = 2, .heir = true, .crashes = 1});
}

static void messages_and_watches_fail(void **state) {
  (void)state;
  holds("3 members, one leaves, a message is lost or late",
        (struct views_options){.founders = 3, .leavers = 1, .losses = 1});
  holds("3 members, one leaves, a watch is cut", (struct views_options){.founders = 3, .leavers = 1, .cuts = 1});
  holds("2 members, a death, a message is lost or late, a watch is cut",
        (struct views_options){.founders = 2, .crashes = 1, .losses = 1, .cuts = 1});
  holds("2 members and an heir, a death, a message is lost or late",
        (struct views_options){.founders = 2, .joiners = 1, .heir = true, .crashes = 1, .losses = 1});
  holds("3 members, a lease runs out though its owner lives", (struct views_options){.founders = 3, .expiries = 1});
}

static void the_store_comes_back_empty(void **state) {
  (void)state;
  holds("2 members", (struct views_options){.founders = 2, .empties = 1});
  holds("2 members, a death", (struct views_options){.founders = 2, .crashes = 1, .empties = 1});
  holds_as_far("3 members", (struct views_options){.founders = 3, .empties = 1});
  holds_as_far("2 members and a joiner", (struct views_options){.founders = 2, .joiners = 1, .empties = 1});
}

static void joiners_are_taken_in_together(void **state) {
  (void)state;
  holds("2 members, one is put out as one comes, or it is given up",
        (struct views_options){.founders = 2, .joiners = 1, .offers = true, .puts_out = true, .gives_up = 1});
  holds("2 members and one that they take in, a death",
        (struct views_options){.founders = 2, .joiners = 1, .offers = true, .crashes = 1});
  holds("a member, one that it takes in and that may take its offer back, a lost or late message",
        (struct views_options){
            .founders = 1, .joiners = 1, .offers = true, .withdrawals = 1, .gives_up = 1, .losses = 1});
  holds_as_far("a member, 2 that it takes in, of whom one dies or takes its offer back",
               (struct views_options){
                   .founders = 1, .joiners = 2, .offers = true, .withdrawals = 1, .crashes = 1, .gives_up = 1});
  holds_as_far("2 members, 2 offer themselves, a death",
               (struct views_options){.founders = 2, .joiners = 2, .offers = true, .crashes = 1});
}

// A rule that is left out is missed: the search finds a scenario that goes wrong.
static void every_rule_is_needed(void **state) {
  (void)state;
  static const struct {
    const char *what;
    struct views_options options;
  } rules[] = {
      {"a change does not compare the view", {.founders = 3, .leavers = 2, .mutation = VIEWS_NO_VIEW_COMPARE}},
      {"a change does not compare its proposer's claim",
       {.founders = 2, .joiners = 1, .expiries = 1, .mutation = VIEWS_NO_CLAIM_COMPARE}},
      {"a claim does not compare that the rank is free",
       {.founders = 2, .joiners = 2, .heir = true, .crashes = 1, .mutation = VIEWS_NO_FREE_COMPARE}},
      {"a claim that has gone in an outage is taken for a death at once",
       {.founders = 2, .empties = 1, .mutation = VIEWS_NO_GRACE}},
      {"a change does not compare the offers of those whom it takes in",
       {.founders = 1, .joiners = 1, .offers = true, .withdrawals = 1, .mutation = VIEWS_NO_OFFER_COMPARE}},
  };
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    struct views_options options = rules[i].options;
    options.quiet = true;
    struct explore_result e = search(rules[i].what, options);
    if (!e.broken)
      fail_msg("nothing goes wrong when %s", rules[i].what);
    printf("  found after %u steps: %s\n", e.depth, e.broken_why);
  }
}

static int search_once(int argc, char **argv) {
  uint32_t n[13] = {2};
  for (int i = 1; i < argc && i < 14; i++)
    n[i - 1] = (uint32_t)strtoul(argv[i], NULL, 10);
  if (n[0] < 1 || n[0] + n[1] > 4) {
    fprintf(stderr, "founders and joiners are 4 at most\n");
    return 2;
  }
  return search("views", (struct views_options){.founders = n[0],
                                                .joiners = n[1],
                                                .founding = n[2] != 0,
                                                .any_rank = n[3] == 1,
                                                .heir = n[3] == 2,
                                                .leavers = n[4],
                                                .crashes = n[5],
                                                .losses = n[6],
                                                .cuts = n[7],
                                                .expiries = n[8],
                                                .empties = n[9],
                                                .offers = n[11] > 0,
                                                .puts_out = n[11] > 1,
                                                .gives_up = n[11] > 0,
                                                .withdrawals = n[12],
                                                .states = n[10] ? n[10] : 100000000})
                 .broken
             ? 1
             : 0;
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_models_store_answers_as_the_core_does),
      cmocka_unit_test(members_come_and_go),
      cmocka_unit_test(members_die),
      cmocka_unit_test(messages_and_watches_fail),
      cmocka_unit_test(the_store_comes_back_empty),
      cmocka_unit_test(joiners_are_taken_in_together),
      cmocka_unit_test(every_rule_is_needed),
  };
  if (argc > 1)
    return search_once(argc, argv);
  return cmocka_run_group_tests_name("model_views", tests, NULL, NULL);
}
