// Measures claims and views of a group until all members know them.
#include "store.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/time/clock.h"
#include "group/group.h"

enum { CLAIMERS = 64, ONE_AT_A_TIME = 20, MEMBERS = 8, CAPACITY = 128 };

struct member {
  struct store_kind *kind;
  weft_store_t *store;
  struct group *group;
  const char *prefix;
  uint64_t opened_ns;
  uint64_t epoch, told_ns; // the newest view that it got, and when; guarded by the lock
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told = PTHREAD_COND_INITIALIZER;

static uint64_t deadline(void) {
  return clock_deadline_ms(BENCH_DEADLINE_MS);
}

static void on_event(void *arg, const struct group_event *event) {
  struct member *member = arg;
  if (event->kind != GROUP_EVENT_VIEW)
    return;
  pthread_mutex_lock(&lock);
  member->epoch = event->view->epoch;
  member->told_ns = clock_ns();
  pthread_cond_broadcast(&told);
  pthread_mutex_unlock(&lock);
}

static void open_member(struct member *member, int32_t rank, const int32_t *founders, uint32_t count) {
  const struct group_options options = {.store = member->store,
                                        .prefix = member->prefix,
                                        .rank = rank,
                                        .capacity = CAPACITY,
                                        .founders = founders,
                                        .num_founders = count,
                                        .lease_ttl_s = 60,
                                        .address = "here",
                                        .on_event = on_event,
                                        .event_arg = member};
  store_check(group_open(&member->group, &options, deadline()), "claim");
  member->opened_ns = clock_ns();
}

// --- Claims.

static void *claim(void *arg) {
  open_member(arg, -1, NULL, 0);
  return NULL;
}

static void claim_together(struct store_kind *kind, const char *prefix) {
  static struct member members[CLAIMERS];
  pthread_t threads[CLAIMERS];
  for (int i = 0; i < CLAIMERS; i++)
    members[i] = (struct member){.kind = kind, .prefix = prefix, .store = store_client(kind)};
  uint64_t began = clock_ns(), last = began;
  for (int i = 0; i < CLAIMERS; i++)
    if (pthread_create(&threads[i], NULL, claim, &members[i]) != 0)
      bench_fail("no thread");
  for (int i = 0; i < CLAIMERS; i++) {
    pthread_join(threads[i], NULL);
    store_record(kind, STORE_CLAIMS, members[i].opened_ns - began);
    last = members[i].opened_ns > last ? members[i].opened_ns : last;
  }
  store_record(kind, STORE_CLAIMS_ALL, last - began);
  for (int i = 0; i < CLAIMERS; i++) {
    group_close(members[i].group);
    weft_store_close(members[i].store);
  }
}

void store_measure_claims(struct store_kind *kind, int round) {
  char prefix[48];
  snprintf(prefix, sizeof prefix, "/weft/bench/claims%d/", round);
  struct member one = {.kind = kind, .prefix = prefix, .store = kind->client};
  for (int i = 0; i < ONE_AT_A_TIME; i++) {
    uint64_t began = clock_ns();
    open_member(&one, -1, NULL, 0);
    store_record(kind, STORE_CLAIM, one.opened_ns - began);
    group_close(one.group);
  }
  claim_together(kind, prefix);
}

// --- Views.

static void *found(void *arg) {
  struct member *member = arg;
  store_check(group_found(member->group, deadline()), "found");
  return NULL;
}

// Waits until all members know this view or a later one. Returns when the last of them got it.
static uint64_t await_all(struct member *members, int count, uint64_t epoch) {
  uint64_t last = 0;
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += BENCH_DEADLINE_MS / 1000;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < count; i++) {
    while (members[i].epoch < epoch)
      if (pthread_cond_timedwait(&told, &lock, &until) != 0)
        bench_fail("%s: not everybody knows view %llu", members[i].kind->name, (unsigned long long)epoch);
    last = members[i].told_ns > last ? members[i].told_ns : last;
  }
  pthread_mutex_unlock(&lock);
  return last;
}

static void found_together(struct store_kind *kind, struct member *members, const char *prefix) {
  pthread_t threads[MEMBERS];
  int32_t founders[MEMBERS];
  for (int i = 0; i < MEMBERS; i++)
    founders[i] = i;
  for (int i = 0; i < MEMBERS; i++) {
    members[i] = (struct member){.kind = kind, .prefix = prefix, .store = store_client(kind)};
    open_member(&members[i], i, founders, MEMBERS);
  }
  for (int i = 0; i < MEMBERS; i++)
    if (pthread_create(&threads[i], NULL, found, &members[i]) != 0)
      bench_fail("no thread");
  for (int i = 0; i < MEMBERS; i++)
    pthread_join(threads[i], NULL);
  await_all(members, MEMBERS, 1);
}

// One more member joins. Then all others declare it dead at once, as they do when its socket closes.
static void join_and_die(struct store_kind *kind, struct member *members, struct member *joiner, uint64_t *epoch) {
  joiner->epoch = 0;
  open_member(joiner, MEMBERS, NULL, 0);
  store_check(group_wait_view(joiner->group, *epoch, deadline()), "view");
  const struct group_view *base = group_view(joiner->group);
  uint64_t began = clock_ns();
  store_check(group_join(joiner->group, base, deadline()), "join");
  group_view_unref(base);
  uint64_t last = await_all(members, MEMBERS, ++*epoch);
  uint64_t own = await_all(joiner, 1, *epoch);
  store_record(kind, STORE_JOIN, (own > last ? own : last) - began);
  began = clock_ns();
  for (int i = 0; i < MEMBERS; i++)
    group_suspect(members[i].group, MEMBERS, group_incarnation(joiner->group), "the benchmark says so");
  store_record(kind, STORE_DEATH, await_all(members, MEMBERS, ++*epoch) - began);
  group_close(joiner->group);
}

void store_measure_views(struct store_kind *kind, int rounds, int run) {
  static struct member members[MEMBERS];
  char prefix[48];
  uint64_t epoch = 1;
  snprintf(prefix, sizeof prefix, "/weft/bench/views%d/", run);
  struct member joiner = {.kind = kind, .prefix = prefix, .store = store_client(kind)};
  found_together(kind, members, prefix);
  for (int i = 0; i < rounds; i++)
    join_and_die(kind, members, &joiner, &epoch);
  for (int i = 0; i < MEMBERS; i++) {
    group_close(members[i].group);
    weft_store_close(members[i].store);
  }
  weft_store_close(joiner.store);
}
