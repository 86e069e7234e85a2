// The store inside a process: order and completeness of watches, threads, leases, and closing during operations.
#include "base/time/clock.h"
#include "cmocka_all.h"
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/store.h>

enum { DEADLINE_MS = 60000, MAX_SEEN = 20000 };

// What a watch saw; `seen` wakes who waits.
struct log {
  pthread_mutex_t lock;
  pthread_cond_t seen;
  size_t count;
  struct seen {
    enum weft_store_event_kind kind;
    int64_t revision;
    char key[32];
    char value[32];
  } events[MAX_SEEN];
};

static struct log *log_create(void) {
  struct log *log = calloc(1, sizeof *log);
  assert_non_null(log);
  pthread_mutex_init(&log->lock, NULL);
  pthread_cond_init(&log->seen, NULL);
  return log;
}

static void log_free(struct log *log) {
  pthread_cond_destroy(&log->seen);
  pthread_mutex_destroy(&log->lock);
  free(log);
}

static void record(void *arg, const struct weft_store_event *event) {
  struct log *log = arg;
  pthread_mutex_lock(&log->lock);
  struct seen *seen = &log->events[log->count++];
  seen->kind = event->kind;
  seen->revision = event->revision;
  snprintf(seen->key, sizeof seen->key, "%s", event->kv ? event->kv->key : "");
  snprintf(seen->value, sizeof seen->value, "%s", event->kv ? (const char *)event->kv->value : "");
  pthread_cond_broadcast(&log->seen);
  pthread_mutex_unlock(&log->lock);
}

static void wait_for(struct log *log, size_t count) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += DEADLINE_MS / 1000;
  pthread_mutex_lock(&log->lock);
  int error = 0;
  while (log->count < count && !error)
    error = pthread_cond_timedwait(&log->seen, &log->lock, &until);
  size_t seen = log->count;
  pthread_mutex_unlock(&log->lock);
  if (seen < count)
    fail_msg("%zu events came, %zu were to come", seen, count);
}

static int setup(void **state) {
  weft_store_t *store;
  assert_int_equal(weft_store_open_local(&store), 0);
  *state = store;
  return 0;
}

static int teardown(void **state) {
  weft_store_close(*state);
  return 0;
}

static void put(weft_store_t *store, const char *key, const char *value) {
  assert_int_equal(weft_store_put(store, key, value, strlen(value), 0, NULL), 0);
}

static void reads_what_was_put(void **state) {
  weft_store_t *store = *state;
  put(store, "a/1", "one");
  put(store, "a/2", "two");
  put(store, "b", "three");
  struct weft_store_list *list;
  assert_int_equal(weft_store_range(store, "a/", true, 0, &list), 0);
  assert_int_equal(list->count, 2);
  assert_string_equal(list->kvs[0]->key, "a/1");
  assert_string_equal(list->kvs[1]->value, "two");
  assert_int_equal(list->kvs[1]->mod_revision, 3);
  assert_int_equal(list->revision, 4);
  weft_store_list_free(list);

  assert_int_equal(weft_store_range(store, "", true, 1, &list), 0);
  assert_int_equal(list->count, 1);
  assert_int_equal(list->total, 3);
  assert_true(list->more);
  weft_store_list_free(list);

  assert_int_equal(weft_store_range(store, "absent", false, 0, &list), 0);
  assert_int_equal(list->count, 0);
  weft_store_list_free(list);

  size_t deleted = 0;
  assert_int_equal(weft_store_delete(store, "a/", true, &deleted), 0);
  assert_int_equal(deleted, 2);
}

static void a_prefix_of_ff_bytes_is_bounded_by_nothing(void **state) {
  weft_store_t *store = *state;
  put(store, "a\xff", "1");
  put(store, "a\xff\xff", "2");
  put(store, "b", "3");
  put(store, "\xff\xff", "4");
  put(store, "\xff\xff\x01", "5");
  struct weft_store_list *list;
  assert_int_equal(weft_store_range(store, "a\xff", true, 0, &list), 0);
  assert_int_equal(list->count, 2);
  weft_store_list_free(list);
  assert_int_equal(weft_store_range(store, "\xff\xff", true, 0, &list), 0);
  assert_int_equal(list->count, 2);
  weft_store_list_free(list);
}

static void a_transaction_claims_once(void **state) {
  weft_store_t *store = *state;
  struct weft_store_compare absent = {.key = "claim", .target = WEFT_STORE_CREATE, .relation = WEFT_STORE_EQUAL};
  struct weft_store_op claim = {.kind = WEFT_STORE_PUT, .key = "claim", .value = "me", .value_len = 2};
  struct weft_store_op look = {.kind = WEFT_STORE_RANGE, .key = "claim"};
  struct weft_store_txn txn = WEFT_STORE_TXN_INIT;
  txn.compares = &absent;
  txn.num_compares = 1;
  txn.success = &claim;
  txn.num_success = 1;
  txn.failure = &look;
  txn.num_failure = 1;
  struct weft_store_txn_result *result;
  assert_int_equal(weft_store_txn_commit(store, &txn, &result), 0);
  assert_true(result->succeeded);
  weft_store_txn_result_free(result);
  assert_int_equal(weft_store_txn_commit(store, &txn, &result), 0);
  assert_false(result->succeeded);
  assert_int_equal(result->num_responses, 1);
  assert_string_equal(result->ranges[0]->kvs[0]->value, "me");
  weft_store_txn_result_free(result);
}

static void bad_arguments_are_named(void **state) {
  weft_store_t *store = *state;
  struct weft_store_list *list;
  assert_int_equal(weft_store_range(store, "", false, 0, &list), WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), "key is empty"));
  assert_int_equal(weft_store_put(store, "k", "v", 1, 77, NULL), WEFT_ERR_NOT_FOUND);
  assert_non_null(strstr(weft_last_error(), "'k'"));
  assert_int_equal(weft_store_put(NULL, "k", "v", 1, 0, NULL), WEFT_ERR_INVALID);
  assert_int_equal(weft_store_put(store, "k", NULL, 1, 0, NULL), WEFT_ERR_INVALID);
  struct weft_store_op twice[] = {{.kind = WEFT_STORE_PUT, .key = "k"}, {.kind = WEFT_STORE_PUT, .key = "k"}};
  struct weft_store_txn_result *result;
  struct weft_store_txn txn = WEFT_STORE_TXN_INIT;
  txn.success = twice;
  txn.num_success = 2;
  assert_int_equal(weft_store_txn_commit(store, &txn, &result), WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), "duplicate key"));
  char tiny[4];
  assert_int_equal(weft_store_version(store, tiny, sizeof tiny, NULL), WEFT_ERR_ROOM);
  int64_t lease;
  assert_int_equal(weft_store_lease_grant(store, 0, &lease, NULL), WEFT_ERR_INVALID);
  assert_int_equal(weft_store_lease_keepalive(store, 4711, NULL), WEFT_ERR_NOT_FOUND);
}

static void a_watch_sees_all_events_in_order_from_its_revision(void **state) {
  weft_store_t *store = *state;
  put(store, "w/a", "1"); // revision 2
  put(store, "w/b", "2");
  put(store, "other", "x");
  struct log *log = log_create();
  weft_store_watch_t *watch;
  assert_int_equal(weft_store_watch_open(store, "w/", 3, record, log, &watch), 0);
  assert_int_equal(weft_store_delete(store, "w/a", false, NULL), 0);
  put(store, "w/c", "3");
  wait_for(log, 4);
  weft_store_watch_close(watch);
  assert_int_equal(log->count, 4);
  assert_int_equal(log->events[0].kind, WEFT_STORE_EVENT_RESUMED);
  assert_string_equal(log->events[1].key, "w/b");
  assert_int_equal(log->events[1].revision, 3);
  assert_int_equal(log->events[2].kind, WEFT_STORE_EVENT_DELETE);
  assert_string_equal(log->events[2].key, "w/a");
  assert_int_equal(log->events[2].revision, 5);
  assert_string_equal(log->events[3].value, "3");
  log_free(log);
}

static void an_expired_lease_takes_its_keys(void **state) {
  weft_store_t *store = *state;
  int64_t lease, granted, left;
  assert_int_equal(weft_store_lease_grant(store, 1, &lease, &granted), 0);
  assert_true(granted >= 1);
  struct log *log = log_create();
  weft_store_watch_t *watch;
  assert_int_equal(weft_store_watch_open(store, "l/", 0, record, log, &watch), 0);
  assert_int_equal(weft_store_put(store, "l/1", "", 0, lease, NULL), 0);
  assert_int_equal(weft_store_put(store, "l/2", "", 0, lease, NULL), 0);
  wait_for(log, 5); // RESUMED, two puts, and without anybody's doing two deletions
  assert_int_equal(log->events[3].kind, WEFT_STORE_EVENT_DELETE);
  assert_int_equal(log->events[3].revision, log->events[4].revision);
  assert_int_equal(weft_store_lease_ttl(store, lease, &left), WEFT_ERR_NOT_FOUND);
  weft_store_watch_close(watch);
  log_free(log);
}

enum { WRITERS = 4, PUTS = 1000 };

struct writer {
  pthread_t thread;
  weft_store_t *store;
  unsigned number;
};

static void *write_keys(void *arg) {
  struct writer *writer = arg;
  for (unsigned i = 0; i < PUTS; i++) {
    char key[32];
    snprintf(key, sizeof key, "t/%u/%u", writer->number, i);
    if (weft_store_put(writer->store, key, "v", 1, 0, NULL) != 0)
      return writer;
  }
  return NULL;
}

static void start_writers(struct writer *writers, weft_store_t *store) {
  for (unsigned i = 0; i < WRITERS; i++) {
    writers[i] = (struct writer){.store = store, .number = i};
    assert_int_equal(pthread_create(&writers[i].thread, NULL, write_keys, &writers[i]), 0);
  }
}

static void join_writers(struct writer *writers) {
  for (unsigned i = 0; i < WRITERS; i++) {
    void *failed;
    pthread_join(writers[i].thread, &failed);
    assert_null(failed);
  }
}

static void threads_write_and_each_watch_sees_each_revision_once(void **state) {
  weft_store_t *store = *state;
  enum { WATCHES = 3 };
  struct log *logs[WATCHES];
  weft_store_watch_t *watches[WATCHES];
  for (size_t i = 0; i < WATCHES; i++) {
    logs[i] = log_create();
    assert_int_equal(weft_store_watch_open(store, "t/", 0, record, logs[i], &watches[i]), 0);
  }
  struct writer writers[WRITERS];
  start_writers(writers, store);
  join_writers(writers);
  for (size_t i = 0; i < WATCHES; i++) {
    wait_for(logs[i], 1 + WRITERS * PUTS);
    weft_store_watch_close(watches[i]);
    assert_int_equal(logs[i]->count, 1 + WRITERS * PUTS);
    for (size_t k = 1; k < logs[i]->count; k++)
      assert_int_equal(logs[i]->events[k].revision, (int64_t)k + 1);
    log_free(logs[i]);
  }
}

struct mark {
  weft_store_t *store;
  atomic_bool closed;
  atomic_bool late;
};

static void mark_late(void *arg, const struct weft_store_event *event) {
  struct mark *mark = arg;
  if (atomic_load(&mark->closed))
    atomic_store(&mark->late, true);
  struct weft_store_list *list; // the store can be used from a callback: its lock is not held
  if (event->kind == WEFT_STORE_EVENT_PUT && weft_store_range(mark->store, "t/0/0", false, 0, &list) == 0)
    weft_store_list_free(list);
}

static void no_callback_runs_after_close_in_the_middle_of_events(void **state) {
  weft_store_t *store = *state;
  struct writer writers[WRITERS];
  start_writers(writers, store);
  for (int i = 0; i < 200; i++) {
    struct mark mark = {.store = store};
    weft_store_watch_t *watch;
    assert_int_equal(weft_store_watch_open(store, "t/", 1, mark_late, &mark, &watch), 0);
    weft_store_watch_close(watch);
    atomic_store(&mark.closed, true);
    sched_yield();
    assert_false(atomic_load(&mark.late));
  }
  join_writers(writers);
}

static void close_of_the_store_ends_its_watches(void **state) {
  (void)state;
  weft_store_t *store;
  assert_int_equal(weft_store_open_local(&store), 0);
  struct mark mark = {.store = store};
  weft_store_watch_t *all, *some;
  assert_int_equal(weft_store_watch_open(store, "", 0, mark_late, &mark, &all), 0);
  assert_int_equal(weft_store_watch_open(store, "x", 0, mark_late, &mark, &some), 0);
  put(store, "x", "1");
  weft_store_close(store);
  atomic_store(&mark.closed, true);
  assert_false(atomic_load(&mark.late));
  weft_store_watch_close(all);
  weft_store_watch_close(some);
}

enum { STOPPED_MS = 3500 }; // longer than the lease

static void sleep_ms(int ms) {
  poll(NULL, 0, ms);
}

// Renews a lease until this process has been stopped for a while, and some times more. Returns what to exit with.
static int renew_across_a_stop(int began) {
  weft_store_t *store;
  int64_t lease;
  struct weft_store_list *list;
  uint64_t before_ns = clock_ns(), deadline_ns = clock_deadline_ms(DEADLINE_MS);
  if (weft_store_open_local(&store) != 0 || weft_store_lease_grant(store, 2, &lease, NULL) != 0 ||
      weft_store_put(store, "key", "", 0, lease, NULL) != 0 || write(began, "x", 1) != 1)
    return 2;
  for (int left = -1; left != 0; left -= left > 0) {
    if (clock_passed(deadline_ns))
      return 5;
    sleep_ms(100);
    uint64_t now_ns = clock_ns();
    if (left < 0 && now_ns - before_ns > (STOPPED_MS - 500) * UINT64_C(1000000))
      left = 5;
    before_ns = now_ns;
    if (weft_store_lease_keepalive(store, lease, NULL) != 0)
      return 3;
  }
  if (weft_store_range(store, "key", false, 0, &list) != 0 || list->count != 1)
    return 4;
  weft_store_list_free(list);
  weft_store_close(store);
  return 0;
}

static void a_lease_survives_a_stop_of_its_process(void **state) {
  (void)state;
  int began[2], status = -1;
  char byte;
  assert_int_equal(pipe(began), 0);
  pid_t child = fork();
  if (child == 0)
    _exit(renew_across_a_stop(began[1]));
  close(began[1]);
  assert_int_equal(read(began[0], &byte, 1), 1);
  assert_int_equal(kill(child, SIGSTOP), 0);
  sleep_ms(STOPPED_MS); // what is tested is that this time does not count
  assert_int_equal(kill(child, SIGCONT), 0);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  close(began[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(reads_what_was_put, setup, teardown),
      cmocka_unit_test_setup_teardown(a_prefix_of_ff_bytes_is_bounded_by_nothing, setup, teardown),
      cmocka_unit_test_setup_teardown(a_transaction_claims_once, setup, teardown),
      cmocka_unit_test_setup_teardown(bad_arguments_are_named, setup, teardown),
      cmocka_unit_test_setup_teardown(a_watch_sees_all_events_in_order_from_its_revision, setup, teardown),
      cmocka_unit_test_setup_teardown(an_expired_lease_takes_its_keys, setup, teardown),
      cmocka_unit_test_setup_teardown(threads_write_and_each_watch_sees_each_revision_once, setup, teardown),
      cmocka_unit_test_setup_teardown(no_callback_runs_after_close_in_the_middle_of_events, setup, teardown),
      cmocka_unit_test(close_of_the_store_ends_its_watches),
      cmocka_unit_test(a_lease_survives_a_stop_of_its_process),
  };
  return cmocka_run_group_tests_name("local store", tests, NULL, NULL);
}
