// Many threads use one store at once, on every kind of store.
#include "conformance/suite.h"
#include "support/events.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { CLAIMERS = 64, WRITERS = 8, ROUNDS = 50 };

struct worker {
  pthread_t thread;
  weft_store_t *store;
  int index;
  int claimed; // -1: none
  int err;
  char why[256];
};

static int give_up(struct worker *worker, int err) {
  worker->err = err;
  snprintf(worker->why, sizeof worker->why, "%s", weft_last_error());
  return err;
}

static int claim(struct worker *worker, int slot) {
  char key[32];
  snprintf(key, sizeof key, "/claims/%02d", slot);
  struct weft_store_compare absent = {.key = key, .target = WEFT_STORE_CREATE, .relation = WEFT_STORE_EQUAL};
  struct weft_store_op put = {
      .kind = WEFT_STORE_PUT, .key = key, .value = &worker->index, .value_len = sizeof worker->index};
  struct weft_store_txn txn = WEFT_STORE_TXN_INIT;
  txn.compares = &absent;
  txn.num_compares = 1;
  txn.success = &put;
  txn.num_success = 1;
  struct weft_store_txn_result *result;
  int err = weft_store_txn_commit(worker->store, &txn, &result);
  if (err)
    return give_up(worker, err);
  if (result->succeeded)
    worker->claimed = slot;
  weft_store_txn_result_free(result);
  return 0;
}

static void *claim_the_lowest(void *arg) {
  struct worker *worker = arg;
  for (int slot = 0; slot < CLAIMERS && worker->claimed < 0; slot++)
    if (claim(worker, slot))
      break;
  return NULL;
}

static void run_workers(struct worker *workers, int count, weft_store_t *store, void *(*work)(void *)) {
  for (int i = 0; i < count; i++) {
    workers[i] = (struct worker){.store = store, .index = i, .claimed = -1};
    assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < count; i++)
    pthread_join(workers[i].thread, NULL);
  for (int i = 0; i < count; i++)
    if (workers[i].err)
      fail_msg("thread %d: %s: %s", i, weft_err_name(workers[i].err), workers[i].why);
}

static void claimers_at_once_leave_no_gap_and_no_duplicate(void **state) {
  static struct worker workers[CLAIMERS];
  struct weft_store_list *list;
  bool taken[CLAIMERS] = {false};
  run_workers(workers, CLAIMERS, *state, claim_the_lowest);
  for (int i = 0; i < CLAIMERS; i++) {
    assert_uint_in_range(workers[i].claimed, 0, CLAIMERS - 1);
    assert_false(taken[workers[i].claimed]);
    taken[workers[i].claimed] = true;
  }
  assert_ok(weft_store_range(*state, "/claims/", true, 0, &list));
  assert_int_equal(list->count, CLAIMERS);
  for (int i = 0; i < CLAIMERS; i++) {
    int owner;
    memcpy(&owner, list->kvs[i]->value, sizeof owner);
    assert_uint_in_range(owner, 0, CLAIMERS - 1);
    assert_int_equal(workers[owner].claimed, i);
    assert_int_equal(list->kvs[i]->version, 1);
  }
  weft_store_list_free(list);
}

// Puts, reads back, watches and leases, each thread under a prefix of its own.
static int use_everything(struct worker *worker, int round) {
  char key[48], prefix[32];
  struct weft_store_list *list;
  int64_t lease, revision;
  snprintf(prefix, sizeof prefix, "/hammer/%d/", worker->index);
  snprintf(key, sizeof key, "%s%d", prefix, round);
  int err = weft_store_lease_grant(worker->store, 60, &lease, NULL);
  if (!err)
    err = weft_store_put(worker->store, key, &round, sizeof round, lease, &revision);
  if (!err)
    err = weft_store_range(worker->store, prefix, true, 0, &list);
  if (err)
    return give_up(worker, err);
  if (list->count != 1 || list->kvs[0]->mod_revision != revision)
    worker->err = WEFT_ERR_DATA;
  weft_store_list_free(list);
  err = weft_store_lease_revoke(worker->store, lease);
  return err ? give_up(worker, err) : worker->err;
}

static void *hammer(void *arg) {
  struct worker *worker = arg;
  struct support_events events;
  weft_store_watch_t *watch;
  char prefix[32];
  snprintf(prefix, sizeof prefix, "/hammer/%d/", worker->index);
  support_events_init(&events);
  int err = weft_store_watch_open(worker->store, prefix, 0, support_events_take, &events, &watch);
  if (err) {
    give_up(worker, err);
    support_events_free(&events);
    return NULL;
  }
  for (int round = 0; round < ROUNDS && !worker->err; round++)
    use_everything(worker, round);
  if (!worker->err && !support_events_wait(&events, WEFT_STORE_EVENT_DELETE, ROUNDS))
    worker->err = WEFT_ERR_TIMEOUT;
  weft_store_watch_close(watch);
  if (!worker->err && support_events_count(&events, WEFT_STORE_EVENT_PUT) != ROUNDS)
    worker->err = WEFT_ERR_DATA;
  support_events_free(&events);
  return NULL;
}

static void threads_share_a_handle(void **state) {
  static struct worker workers[WRITERS];
  run_workers(workers, WRITERS, *state, hammer);
}

int suite_run_threads(void) {
  const struct CMUnitTest tests[] = {
      TEST(claimers_at_once_leave_no_gap_and_no_duplicate),
      TEST(threads_share_a_handle),
  };
  return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
