// Workers with separate threads, on a store of this process.
#include "meet/meet.h"

#include "base/fail.h"
#include "base/time/clock.h"
#include "cmocka_all.h"
#include "meet/state.h"
#include "support/local_store.h"
#include "support/sanitized.h"
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <weft/err.h>

enum { WORKERS = 6, DEADLINE_MS = 60000 };

static void expect_empty(void) {
  struct weft_store_list *list;
  assert_int_equal(weft_store_range(store, "weft/bench/", true, 0, &list), 0);
  for (size_t i = 0; i < list->count; i++)
    print_error("left in the store: %s\n", list->kvs[i]->key);
  assert_int_equal(list->count, 0);
  weft_store_list_free(list);
}

// A sign of death, as by a connection that broke.
static void report_lost(struct meet *meet, uint32_t rank, const char *why) {
  pthread_mutex_lock(&meet->lock);
  meet_state_suspect(meet, rank, why);
  pthread_mutex_unlock(&meet->lock);
}

struct worker {
  pthread_t thread;
  struct meet *meet;
  uint32_t size, number, timeout_ms;
  bool follows;
  json_t *settings;
  _Atomic bool *interrupt;
  uint32_t steps;     // to take
  uint32_t leaves_at; // the step before which it closes; 0: none
  int err;
  char why[512];
};

static bool interrupted(void *arg) {
  const struct worker *worker = arg;
  return worker->interrupt && atomic_load(worker->interrupt);
}

static int take_step(struct worker *worker, uint32_t step) {
  json_t *all[WORKERS], *mine = json_pack("{s:i, s:i}", "rank", (int)meet_rank(worker->meet), "step", (int)step);
  int err = meet_all_gather(worker->meet, "a step", mine, DEADLINE_MS, all);
  for (uint32_t rank = 0; rank < worker->size && !err; rank++) {
    if (json_integer_value(json_object_get(all[rank], "rank")) != (int)rank ||
        json_integer_value(json_object_get(all[rank], "step")) != (int)step)
      err = WEFT_ERR_DATA;
    json_decref(all[rank]);
  }
  json_decref(mine);
  return err;
}

static void *work(void *arg) {
  struct worker *worker = arg;
  const struct meet_options options = {.store = store,
                                       .prefix = "weft/bench/test/",
                                       .size = worker->size,
                                       .settings = worker->settings,
                                       .host = "here",
                                       .follows = worker->follows,
                                       .timeout_ms = worker->timeout_ms ? worker->timeout_ms : DEADLINE_MS,
                                       .interrupted = interrupted,
                                       .arg = worker};
  worker->err = meet_open(&worker->meet, &options);
  for (uint32_t step = 1; step <= worker->steps && !worker->err; step++) {
    if (step == worker->leaves_at)
      return NULL;
    worker->err = take_step(worker, step);
  }
  snprintf(worker->why, sizeof worker->why, "%s", worker->err ? weft_last_error() : "");
  return NULL;
}

static void start(struct worker *worker, uint32_t size) {
  worker->size = size;
  assert_int_equal(pthread_create(&worker->thread, NULL, work, worker), 0);
}

static void end_all(struct worker *workers, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    pthread_join(workers[i].thread, NULL);
    meet_close(workers[i].err && !workers[i].meet ? NULL : workers[i].meet);
    json_decref(workers[i].settings);
  }
}

static void all_take_ranks_and_exchange(void **state) {
  struct worker workers[WORKERS] = {0};
  bool taken[WORKERS] = {false};
  (void)state;
  for (uint32_t i = 0; i < WORKERS; i++) {
    workers[i].steps = 20;
    start(&workers[i], WORKERS);
  }
  for (uint32_t i = 0; i < WORKERS; i++) {
    pthread_join(workers[i].thread, NULL);
    assert_string_equal(workers[i].why, "");
    assert_int_equal(workers[i].err, 0);
    uint32_t rank = meet_rank(workers[i].meet);
    assert_true(rank < WORKERS && !taken[rank]);
    taken[rank] = true;
    assert_string_equal(meet_host(workers[i].meet, (rank + 1) % WORKERS), "here");
    assert_false(meet_lost(workers[i].meet, NULL, NULL, 0));
  }
  for (uint32_t i = 0; i < WORKERS; i++)
    meet_close(workers[i].meet);
  expect_empty();
}

static void a_follower_is_not_the_first(void **state) {
  struct worker workers[3] = {{.follows = true}, {.follows = true}};
  (void)state;
  start(&workers[0], 3);
  start(&workers[1], 3);
  poll(NULL, 0, 50); // time enough to found a meeting
  start(&workers[2], 3);
  for (int i = 0; i < 3; i++) {
    pthread_join(workers[i].thread, NULL);
    assert_string_equal(workers[i].why, "");
    assert_int_equal(meet_rank(workers[i].meet) == 0, i == 2);
  }
  for (int i = 0; i < 3; i++)
    meet_close(workers[i].meet);
  expect_empty();
}

static void a_follower_without_a_first_gets_an_error(void **state) {
  struct worker worker = {.follows = true, .timeout_ms = 300};
  (void)state;
  start(&worker, 2);
  end_all(&worker, 1);
  assert_int_equal(worker.err, WEFT_ERR_TIMEOUT);
  assert_non_null(strstr(worker.why, "no worker began the benchmark at weft/bench/test/"));
  expect_empty();
}

static void other_settings_end_both_sides(void **state) {
  struct worker workers[3] = {0};
  (void)state;
  for (int i = 0; i < 3; i++) {
    workers[i].settings = json_pack("{s:s, s:i}", "scheme", "pairwise", "blocks", i == 1 ? 4096 : 8192);
    start(&workers[i], 3);
  }
  end_all(workers, 3);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(workers[i].err, WEFT_ERR_INVALID);
    assert_non_null(strstr(workers[i].why, "blocks is "));
    assert_non_null(strstr(workers[i].why, "4096"));
    assert_non_null(strstr(workers[i].why, "8192"));
  }
  expect_empty();
}

static void another_number_of_workers_is_a_setting(void **state) {
  struct worker workers[2] = {0};
  (void)state;
  start(&workers[0], 2);
  start(&workers[1], 3);
  end_all(workers, 2);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(workers[i].err, WEFT_ERR_INVALID);
    assert_non_null(strstr(workers[i].why, "workers is "));
  }
  expect_empty();
}

static void a_latecomer_gets_an_error_and_harms_nobody(void **state) {
  struct worker workers[2] = {0}, late = {0};
  (void)state;
  for (int i = 0; i < 2; i++)
    start(&workers[i], 2);
  for (int i = 0; i < 2; i++)
    pthread_join(workers[i].thread, NULL);
  late.settings = json_pack("{s:i}", "blocks", 1);
  start(&late, 2);
  end_all(&late, 1);
  assert_int_equal(late.err, WEFT_ERR_INVALID);
  assert_non_null(strstr(late.why, "is too late"));
  assert_non_null(strstr(late.why, "rank 0 on here"));
  for (int i = 0; i < 2; i++) {
    workers[i].steps = 1;
    assert_false(meet_lost(workers[i].meet, NULL, NULL, 0));
    meet_close(workers[i].meet);
  }
  expect_empty();
}

static void a_missing_agent_is_named(void **state) {
  struct worker workers[2] = {0};
  (void)state;
  for (int i = 0; i < 2; i++) {
    workers[i].timeout_ms = 300;
    start(&workers[i], 4);
  }
  end_all(workers, 2);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(workers[i].err, WEFT_ERR_TIMEOUT);
    assert_non_null(strstr(workers[i].why, "of 4 workers joined"));
  }
  expect_empty();
}

static void one_that_leaves_before_a_step_is_named(void **state) {
  struct worker workers[3] = {0};
  (void)state;
  for (int i = 0; i < 3; i++) {
    workers[i].steps = 3;
    workers[i].leaves_at = i == 2 ? 3 : 0;
    start(&workers[i], 3);
  }
  pthread_join(workers[2].thread, NULL);
  uint32_t left = meet_rank(workers[2].meet);
  char wanted[64];
  snprintf(wanted, sizeof wanted, "rank %u on here", left);
  meet_close(workers[2].meet);
  end_all(workers, 2);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(workers[i].err, WEFT_ERR_PEER_LOST);
    assert_non_null(strstr(workers[i].why, wanted));
    assert_non_null(strstr(workers[i].why, "left before it reached \"a step\""));
  }
  expect_empty();
}

static void a_failure_ends_all_with_its_sentence(void **state) {
  struct worker workers[3] = {0};
  (void)state;
  for (int i = 0; i < 3; i++) {
    workers[i].steps = 3;
    workers[i].leaves_at = i == 2 ? 2 : 0;
    start(&workers[i], 3);
  }
  pthread_join(workers[2].thread, NULL);
  meet_fail(workers[2].meet, WEFT_ERR_DATA, "byte 17 is 3 and should be 4");
  for (int i = 0; i < 2; i++) {
    pthread_join(workers[i].thread, NULL);
    if (workers[i].err != WEFT_ERR_DATA)
      print_error("%s\n", workers[i].why);
    assert_int_equal(workers[i].err, WEFT_ERR_DATA);
    assert_non_null(strstr(workers[i].why, "failed: byte 17 is 3 and should be 4"));
    uint32_t rank;
    char why[256];
    assert_true(meet_lost(workers[i].meet, &rank, why, sizeof why));
    assert_int_equal(rank, meet_rank(workers[2].meet));
    assert_non_null(strstr(why, "byte 17"));
  }
  for (int i = 0; i < 3; i++)
    meet_close(workers[i].meet);
  expect_empty();
}

static void a_death_that_one_saw_is_known_to_all(void **state) {
  struct worker workers[3] = {0};
  (void)state;
  for (int i = 0; i < 3; i++) {
    workers[i].steps = 2;
    workers[i].leaves_at = i == 2 ? 2 : 0;
    start(&workers[i], 3);
  }
  pthread_join(workers[2].thread, NULL);
  struct worker *by = &workers[0]; // it has opened, as the third one has been at a step with it
  report_lost(by->meet, meet_rank(workers[2].meet), "its link broke");
  for (int i = 0; i < 2; i++) {
    pthread_join(workers[i].thread, NULL);
    assert_int_equal(workers[i].err, WEFT_ERR_PEER_LOST);
    assert_non_null(strstr(workers[i].why, "its link broke"));
  }
  assert_int_equal(meet_barrier(workers[2].meet, "another", 1000), WEFT_ERR_FENCED);
  for (int i = 0; i < 3; i++)
    meet_close(workers[i].meet);
  expect_empty();
}

static void a_rank_that_leaves_because_of_a_death_names_the_dead_rank(void **state) {
  struct worker workers[3] = {0};
  (void)state;
  for (int i = 0; i < 3; i++) {
    workers[i].steps = 2;
    workers[i].leaves_at = i > 0 ? 2 : 0;
    start(&workers[i], 3);
  }
  for (int i = 1; i < 3; i++)
    pthread_join(workers[i].thread, NULL);
  char wanted[64];
  snprintf(wanted, sizeof wanted, "rank %u on here", meet_rank(workers[2].meet));
  report_lost(workers[1].meet, meet_rank(workers[2].meet), "its link broke");
  meet_close(workers[1].meet); // before its keeper can have reported it
  pthread_join(workers[0].thread, NULL);
  assert_int_equal(workers[0].err, WEFT_ERR_PEER_LOST);
  if (!strstr(workers[0].why, wanted) || !strstr(workers[0].why, "is lost: its link broke"))
    fail_msg("of %s: %s", wanted, workers[0].why);
  meet_close(workers[0].meet);
  meet_close(workers[2].meet);
  expect_empty();
}

// Two that have met, and one that is reported dead after they all have.
static void an_error_that_follows_from_a_death_is_reported_as_that(void **state) {
  struct worker workers[3] = {0};
  (void)state;
  for (int i = 0; i < 3; i++) {
    workers[i].steps = 1;
    start(&workers[i], 3);
  }
  for (int i = 0; i < 3; i++) {
    pthread_join(workers[i].thread, NULL);
    assert_int_equal(workers[i].err, 0);
  }
  report_lost(workers[0].meet, meet_rank(workers[2].meet), "its link broke");
  for (int i = 0; i < 2; i++) { // the second one has to hear of it first
    fail(WEFT_ERR_NOT_FOUND, "its owner has deregistered the region");
    assert_int_equal(meet_cause(workers[i].meet, WEFT_ERR_NOT_FOUND), WEFT_ERR_PEER_LOST);
    assert_non_null(strstr(weft_last_error(), "is lost: its link broke"));
  }
  fail(WEFT_ERR_DATA, "byte 17 is 3 and should be 4"); // which follows from no death
  assert_int_equal(meet_cause(workers[0].meet, WEFT_ERR_DATA), 0);
  assert_string_equal(weft_last_error(), "byte 17 is 3 and should be 4");
  for (int i = 0; i < 3; i++)
    meet_close(workers[i].meet);
  expect_empty();
}

static void an_interrupt_ends_a_wait_and_the_rest_goes_on_waiting(void **state) {
  struct worker first = {0}, others[2] = {0};
  _Atomic bool interrupt = false;
  (void)state;
  first.interrupt = &interrupt;
  start(&first, 2);
  start(&others[0], 2);
  pthread_join(others[0].thread, NULL); // both are there
  assert_int_equal(others[0].err, 0);
  end_all(&first, 1);
  meet_close(others[0].meet);
  memset(&first, 0, sizeof first);
  first.interrupt = &interrupt;
  memset(others, 0, sizeof others);
  start(&first, 3);
  start(&others[0], 3);
  atomic_store(&interrupt, true);
  end_all(&first, 1);
  assert_int_equal(first.err, WEFT_ERR_CANCELED);
  struct worker again = {0};
  start(&again, 3); // in the place of the first
  start(&others[1], 3);
  pthread_join(again.thread, NULL);
  assert_string_equal(again.why, "");
  assert_int_equal(again.err, 0);
  meet_close(again.meet);
  end_all(others, 2);
  assert_int_equal(others[0].err, 0);
  assert_int_equal(others[1].err, 0);
  expect_empty();
}

static void what_is_no_claim_harms_nobody(void **state) {
  static const char *const values[] = {"", "junk", "[]", "{\"id\": 3, \"meeting\": [], \"address\": \"256.0.0.1:0\"}"};
  (void)state;
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    struct worker worker = {.timeout_ms = 300, .steps = 1};
    assert_int_equal(weft_store_put(store, "weft/bench/test/worker/0", values[i], strlen(values[i]), 0, NULL), 0);
    assert_int_equal(weft_store_put(store, "weft/bench/test/worker/x", values[i], strlen(values[i]), 0, NULL), 0);
    assert_int_equal(weft_store_put(store, "weft/bench/test/end/0/0", values[i], strlen(values[i]), 0, NULL), 0);
    start(&worker, 1);
    end_all(&worker, 1);
    assert_int_equal(worker.err, WEFT_ERR_TIMEOUT);
    assert_non_null(strstr(worker.why, "still run: rank 0"));
    assert_int_equal(weft_store_put(store, "weft/bench/test/meeting", values[i], strlen(values[i]), 0, NULL), 0);
    start(&worker, 1);
    end_all(&worker, 1);
    assert_int_equal(worker.err, WEFT_ERR_TIMEOUT);
    assert_int_equal(weft_store_delete(store, "weft/bench/test/", true, NULL), 0);
  }
}

static void one_worker_needs_nobody(void **state) {
  struct worker worker = {.steps = 2};
  (void)state;
  start(&worker, 1);
  end_all(&worker, 1);
  assert_int_equal(worker.err, 0);
  expect_empty();
}

// Waits until that key is there, and returns its value. The caller frees it.
static json_t *value_at(const char *key) {
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  json_t *value = NULL;
  while (!value && !clock_passed(deadline)) {
    struct weft_store_list *list;
    assert_int_equal(weft_store_range(store, key, false, 0, &list), 0);
    if (list->count > 0)
      value = json_loadb(list->kvs[0]->value, list->kvs[0]->value_len, 0, NULL);
    else
      poll(NULL, 0, 1);
    weft_store_list_free(list);
  }
  assert_non_null(value);
  return value;
}

static void put_json(const char *key, json_t *value) {
  char *text = json_dumps(value, JSON_COMPACT);
  assert_int_equal(weft_store_put(store, key, text, strlen(text), 0, NULL), 0);
  free(text);
  json_decref(value);
}

// The other one has gone from the store when the first one reports the difference.
static void other_settings_are_named_after_their_worker_has_left(void **state) {
  static const char id[] = "0123456789abcdef", claim[] = "weft/bench/test/worker/1";
  struct worker worker = {.settings = json_pack("{s:i}", "blocks", 8192)};
  char end[64];
  (void)state;
  start(&worker, 3);
  json_t *meeting = value_at("weft/bench/test/meeting");
  const char *meeting_id = json_string_value(json_object_get(meeting, "id"));
  put_json(claim, json_pack("{s:s, s:s, s:s, s:i, s:s, s:s, s:{s:i, s:i}}", "meeting", meeting_id, "id", id, "host",
                            "there", "pid", 12, "address", "127.0.0.1:9", "place", "elsewhere", "settings", "workers",
                            3, "blocks", 4096));
  snprintf(end, sizeof end, "weft/bench/test/end/%s/1", meeting_id);
  put_json(end, json_pack("{s:s, s:s, s:i, s:s}", "id", id, "kind", "left", "err", 0, "why", ""));
  assert_int_equal(weft_store_delete(store, claim, false, NULL), 0);
  end_all(&worker, 1);
  assert_int_equal(worker.err, WEFT_ERR_INVALID);
  if (!strstr(worker.why, "blocks is 8192 here") || !strstr(worker.why, "and 4096 at rank 1 on there (process 12)"))
    fail_msg("not named: %s", worker.why);
  json_decref(meeting);
  assert_int_equal(weft_store_delete(store, end, false, NULL), 0);
  expect_empty();
}

// The port that the only worker listens at.
static uint16_t port_of_worker(void) {
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  uint16_t port = 0;
  while (port == 0 && !clock_passed(deadline)) {
    struct weft_store_list *list;
    assert_int_equal(weft_store_range(store, "weft/bench/test/worker/0", false, 0, &list), 0);
    json_t *claim = list->count ? json_loads(list->kvs[0]->value, 0, NULL) : NULL;
    const char *address = json_string_value(json_object_get(claim, "address"));
    port = address ? (uint16_t)atoi(strrchr(address, ':') + 1) : 0;
    json_decref(claim);
    weft_store_list_free(list);
  }
  return port;
}

static uint64_t processor_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// Nor is the caller forgotten.
static void a_caller_for_whom_there_is_no_descriptor_costs_no_processor(void **state) {
  enum { WATCHED_MS = 300, MANY = 200 };
  (void)state;
  _Atomic bool interrupt = false;
  struct worker worker = {.interrupt = &interrupt};
  struct rlimit before, none;
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  char id[16];
  if (support_slowed()) {
    print_message("skipped: valgrind accepts a call for which there is no descriptor, and ends it\n");
    skip();
  }
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
  none = before;
  none.rlim_cur = none.rlim_cur < MANY ? none.rlim_cur : MANY;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
  start(&worker, MANY);
  to.sin_port = htons(port_of_worker());
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &none), 0);
  assert_true(none.rlim_cur > 2 * MANY || none.rlim_cur == none.rlim_max); // of whom rank 0 has two connections each
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  none.rlim_cur = (rlim_t)fd + 1;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
  assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
  uint64_t begun = processor_ns();
  struct pollfd greeted = {.fd = fd, .events = POLLIN};
  assert_int_equal(poll(&greeted, 1, WATCHED_MS), 0);
  uint64_t spent = processor_ns() - begun;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
  if (spent > WATCHED_MS * UINT64_C(1000000) / 10)
    fail_msg("a caller that waits costs %llu ms of %d", (unsigned long long)spent / 1000000, WATCHED_MS);
  assert_int_equal(poll(&greeted, 1, DEADLINE_MS), 1);
  assert_int_equal(recv(fd, id, sizeof id, MSG_WAITALL), sizeof id);
  close(fd);
  atomic_store(&interrupt, true);
  end_all(&worker, 1);
  assert_int_equal(worker.err, WEFT_ERR_CANCELED);
  expect_empty();
}

// --- Workers that have no descriptor for the connections to each other, for a while.

static _Atomic int wrap_failing, wrap_connected; // calls that are still to fail; calls that have not

int __real_meet_connect(const char *address);
int __wrap_meet_connect(const char *address);
int __wrap_meet_connect(const char *address) {
  if (atomic_fetch_sub(&wrap_failing, 1) > 0) {
    errno = EMFILE;
    return -1;
  }
  wrap_connected++;
  return __real_meet_connect(address);
}

static void connections_for_which_there_is_no_descriptor_are_made_later(void **state) {
  enum { BOTH = 2, FAILING = 2 * BOTH };
  struct worker workers[BOTH] = {0};
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  (void)state;
  wrap_failing = FAILING;
  wrap_connected = 0;
  for (int i = 0; i < BOTH; i++)
    start(&workers[i], BOTH);
  for (int i = 0; i < BOTH; i++) {
    pthread_join(workers[i].thread, NULL);
    assert_int_equal(workers[i].err, 0);
  }
  while (wrap_connected < BOTH && !clock_passed(deadline))
    poll(NULL, 0, 1);
  assert_int_equal(wrap_connected, BOTH);
  for (int i = 0; i < BOTH; i++)
    meet_close(workers[i].meet);
  assert_int_equal(wrap_connected, BOTH); // each once
  wrap_failing = 0;
  expect_empty();
}

// --- A sign of death that comes while the keeper waits for the store's answer, and not for work.

static struct {
  struct meet *_Atomic meet; // its keeper sees such a sign of rank 1 during its next renewal; NULL: nobody's does
  atomic_bool seen;
  bool slept; // the keeper went to sleep before it looked; with the lock of `meet`
} sign;

int __real_weft_store_lease_keepalive(weft_store_t *of, int64_t lease, int64_t *ttl_s);
int __wrap_weft_store_lease_keepalive(weft_store_t *of, int64_t lease, int64_t *ttl_s);
int __wrap_weft_store_lease_keepalive(weft_store_t *of, int64_t lease, int64_t *ttl_s) {
  int err = __real_weft_store_lease_keepalive(of, lease, ttl_s);
  struct meet *meet = sign.meet;
  if (meet && !sign.seen && pthread_equal(meet->keeper, pthread_self())) {
    report_lost(meet, 1, "it is told so");
    sign.seen = true;
  }
  return err;
}

int __real_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *lock, const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *lock, const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *lock, const struct timespec *until) {
  struct meet *meet = sign.meet;
  if (meet && condition == &meet->work && meet->workers[1].suspect)
    sign.slept = true;
  return __real_pthread_cond_timedwait(condition, lock, until);
}

static void a_sign_of_death_during_a_renewal_is_looked_at_before_a_sleep(void **state) {
  struct worker workers[2] = {0};
  (void)state;
  for (int i = 0; i < 2; i++)
    start(&workers[i], 2);
  for (int i = 0; i < 2; i++) {
    pthread_join(workers[i].thread, NULL);
    assert_int_equal(workers[i].err, 0);
  }
  int first = meet_rank(workers[0].meet) == 0 ? 0 : 1;
  struct meet *meet = workers[first].meet;
  pthread_mutex_lock(&meet->lock);
  sign.meet = meet;
  while (!sign.seen || meet->workers[1].suspect)
    pthread_cond_wait(&meet->changed, &meet->lock);
  sign.meet = NULL;
  bool slept = sign.slept;
  enum meet_end end = meet->workers[1].end;
  pthread_mutex_unlock(&meet->lock);
  for (int i = 0; i < 2; i++)
    meet_close(workers[i].meet);
  assert_false(slept);
  assert_int_equal(end, MEET_LOST);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_take_ranks_and_exchange),
      cmocka_unit_test(a_follower_is_not_the_first),
      cmocka_unit_test(a_follower_without_a_first_gets_an_error),
      cmocka_unit_test(other_settings_end_both_sides),
      cmocka_unit_test(another_number_of_workers_is_a_setting),
      cmocka_unit_test(other_settings_are_named_after_their_worker_has_left),
      cmocka_unit_test(a_latecomer_gets_an_error_and_harms_nobody),
      cmocka_unit_test(a_missing_agent_is_named),
      cmocka_unit_test(one_that_leaves_before_a_step_is_named),
      cmocka_unit_test(a_failure_ends_all_with_its_sentence),
      cmocka_unit_test(a_death_that_one_saw_is_known_to_all),
      cmocka_unit_test(a_rank_that_leaves_because_of_a_death_names_the_dead_rank),
      cmocka_unit_test(an_error_that_follows_from_a_death_is_reported_as_that),
      cmocka_unit_test(an_interrupt_ends_a_wait_and_the_rest_goes_on_waiting),
      cmocka_unit_test(what_is_no_claim_harms_nobody),
      cmocka_unit_test(a_sign_of_death_during_a_renewal_is_looked_at_before_a_sleep),
      cmocka_unit_test(one_worker_needs_nobody),
      cmocka_unit_test(a_caller_for_whom_there_is_no_descriptor_costs_no_processor),
      cmocka_unit_test(connections_for_which_there_is_no_descriptor_are_made_later),
  };
  return cmocka_run_group_tests(tests, open_store, close_store);
}
