// Random operations in groups of both modes, while ranks join and leave: random sizes, windows, shapes of routing,
// types, opaque rows, layouts with their alignments, biases, sums without weights, returned weights, routes that are
// filled and kept, combines by routes, masks, and room that is too small at first. The oracle checks every number of
// every rank. Operations that the engine refuses as UNSUPPORTED are left out, and named.
//
//   WEFT_TEST_OPERATIONS=N operations, 10,000 for the proof; WEFT_SEED=N repeats the random choices.
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"

#include "base/random.h"
#include "ep/host/support/member.h"
#include "support/emulated.h"

enum { OPERATIONS = 1500, OPERATIONS_WHEN_SLOW = 300, OPERATIONS_OF_A_GROUP = 60, PATIENCE_MS = 120000, SEED = 252525 };

static unsigned long operations;
static uint64_t seed;

// Of all ranks of all groups.
struct sums {
  uint64_t operations, judged, unjudged, conflicts, crowded, of_kind[DRAWN_UNANSWERED + 1];
};

struct life {
  struct drawn_group *group;
  struct member *member;
  int32_t rank;
  bool founds;
};

// Until the operation in which all ranks want to end.
static void run_founder(struct life *life) {
  struct drawn_group *group = life->group;
  struct member *m = life->member;
  for (uint32_t done = 0; m->info.mark < 1; done++) {
    if (done + 1 >= group->operations && atomic_load(&group->gone) == group->num_joiners)
      weft_ep_set_mark(m->ep, 1);
    if (!member_operate(m))
      return;
  }
}

static void run_joiner(struct life *life) {
  struct member *m = life->member;
  for (uint32_t i = 0; i < life->group->stay; i++)
    if (!member_operate(m))
      return;
  if (weft_ep_disconnect(m->ep, &m->rank, 1, PATIENCE_MS) != 0)
    member_fail(m, "leave: %s", weft_last_error());
  while (weft_ep_is_active(m->ep) && member_operate(m))
    continue;
}

static void *run_life(void *arg) {
  struct life *life = arg;
  if (member_open(life->member, life->group, life->rank, life->founds)) {
    if (life->founds) {
      run_founder(life);
    } else {
      weft_ep_set_mark(life->member->ep, 1);
      run_joiner(life);
    }
  }
  member_close(life->member);
  if (!life->founds)
    atomic_fetch_add(&life->group->gone, 1);
  return NULL;
}

static void show_group(const struct drawn_group *group, uint64_t state) {
  print_message("in a group of mode %d, window %" PRIu64
                ", %u founders, %u joiners, %u tokens of %u, %u experts, top-k "
                "%u, drawn from %" PRIu64 ":\n",
                group->mode, group->window_bytes, group->num_founders, group->num_joiners, group->tokens, group->hidden,
                group->experts, group->topk, state);
}

static void add(struct sums *sums, const struct member *m) {
  sums->judged += m->judged;
  sums->unjudged += m->unjudged;
  sums->conflicts += m->conflicts;
  sums->crowded += m->crowded;
  for (int kind = 0; kind <= DRAWN_UNANSWERED; kind++)
    sums->of_kind[kind] += m->of_kind[kind];
}

static void run_group(struct drawn_group *group, uint64_t drawn_from, struct sums *sums) {
  uint32_t count = group->num_founders + group->num_joiners;
  struct life lives[DRAWN_FOUNDERS + DRAWN_JOINERS];
  pthread_t threads[DRAWN_FOUNDERS + DRAWN_JOINERS];
  assert_int_equal(weft_store_open_local(&group->store), 0);
  for (uint32_t i = 0; i < count; i++) {
    bool founds = i < group->num_founders;
    lives[i] = (struct life){.group = group,
                             .member = calloc(1, sizeof *lives[i].member),
                             .rank = founds ? group->founders[i] : group->joiners[i - group->num_founders],
                             .founds = founds};
    assert_int_equal(pthread_create(&threads[i], NULL, run_life, &lives[i]), 0);
  }
  bool failed = false;
  for (uint32_t i = 0; i < count; i++)
    pthread_join(threads[i], NULL);
  for (uint32_t i = 0; i < count; i++) {
    if (lives[i].member->error[0]) {
      if (!failed)
        show_group(group, drawn_from);
      print_message("%s\n", lives[i].member->error);
      failed = true;
    }
    add(sums, lives[i].member);
    sums->operations += i == 0 ? lives[i].member->judged + lives[i].member->unjudged : 0;
    free(lives[i].member);
  }
  weft_store_close(group->store);
  if (failed)
    fail_msg("a group of random operations failed; WEFT_SEED=%" PRIu64 " draws it again", seed);
}

// Names what is left out. Returns the features of both modes; fails when there are none at all.
static void look(uint32_t features[WEFT_EP_THROUGHPUT + 1], bool has_mode[WEFT_EP_THROUGHPUT + 1]) {
  bool any = false;
  for (int mode = WEFT_EP_LATENCY; mode <= WEFT_EP_THROUGHPUT; mode++) {
    has_mode[mode] = drawn_probe((enum weft_ep_mode)mode, &features[mode]);
    any |= has_mode[mode] && (mode == WEFT_EP_THROUGHPUT || features[mode]);
    const char *name = mode == WEFT_EP_LATENCY ? "LATENCY" : "THROUGHPUT";
    if (!has_mode[mode])
      print_message("left out: %s\n", name);
    for (uint32_t i = 0; has_mode[mode] && i < DRAWN_FEATURES; i++)
      if (!(features[mode] >> i & 1))
        print_message("left out: %s with %s\n", drawn_feature_name(i), name);
  }
  assert_true(has_mode[WEFT_EP_LATENCY]);
  if (!any)
    fail_msg("all that this test is for is UNSUPPORTED");
}

static void operations_as_drawn_give_every_number(void **state) {
  (void)state;
  uint32_t features[WEFT_EP_THROUGHPUT + 1];
  bool has_mode[WEFT_EP_THROUGHPUT + 1];
  struct sums sums = {0};
  uint64_t random = seed;
  look(features, has_mode);
  while (sums.operations < operations) {
    static struct drawn_group group;
    uint64_t drawn_from = random;
    enum weft_ep_mode mode =
        has_mode[WEFT_EP_THROUGHPUT] && random_next(&random) % 4 != 0 ? WEFT_EP_THROUGHPUT : WEFT_EP_LATENCY;
    drawn_group_draw(&group, &random, features[mode], mode);
    group.operations = OPERATIONS_OF_A_GROUP;
    run_group(&group, drawn_from, &sums);
  }
  print_message("%" PRIu64 " operations; of single ranks: %" PRIu64 " judged, %" PRIu64
                " not, since a view came late; %" PRIu64 " plain, %" PRIu64 " filled a route, %" PRIu64
                " went by one, %" PRIu64 " back by one, %" PRIu64 " unanswered; %" PRIu64
                " stale routes refused, %" PRIu64 " received again with room\n",
                sums.operations, sums.judged, sums.unjudged, sums.of_kind[DRAWN_PLAIN], sums.of_kind[DRAWN_FILLS],
                sums.of_kind[DRAWN_KEEPS], sums.of_kind[DRAWN_GOES_BACK], sums.of_kind[DRAWN_UNANSWERED],
                sums.conflicts, sums.crowded);
  assert_true(sums.judged > 20 * sums.unjudged);
}

static uint64_t setting(const char *name, uint64_t preset) {
  const char *text = getenv(name);
  return text && *text ? strtoull(text, NULL, 0) : preset;
}

int main(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  bool slow = true;
#else
  bool slow = support_emulated();
#endif
  operations = (unsigned long)setting("WEFT_TEST_OPERATIONS", slow ? OPERATIONS_WHEN_SLOW : OPERATIONS);
  seed = setting("WEFT_SEED", SEED);
  print_message("%lu operations, WEFT_SEED=%" PRIu64 "\n", operations, seed);
  const struct CMUnitTest tests[] = {cmocka_unit_test(operations_as_drawn_give_every_number)};
  return cmocka_run_group_tests_name("ep_random_throughput", tests, NULL, NULL);
}
