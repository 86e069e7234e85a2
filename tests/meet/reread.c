// A worker reads the whole store again after a gap in its watch, while the store changes.
#include "base/time/clock.h"
#include "cmocka_all.h"
#include "meet/meet.h"
#include "meet/state.h"
#include "support/local_store.h"
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { DEADLINE_MS = 60000 };

// The watch of the worker that opens first.
static struct {
  struct meet *_Atomic meet;
  weft_store_watch_fn fn;
  atomic_bool muted;           // its events are lost
  void (*_Atomic after)(void); // runs once, between a reading of the store and the use of what was read
  atomic_uint reads;
} watched;

static void pass_event(void *meet, const struct weft_store_event *event) {
  if (meet != watched.meet || !watched.muted)
    watched.fn(meet, event);
}

int __real_weft_store_watch_open(weft_store_t *of, const char *prefix, int64_t from, weft_store_watch_fn fn, void *arg,
                                 weft_store_watch_t **watch);
int __wrap_weft_store_watch_open(weft_store_t *of, const char *prefix, int64_t from, weft_store_watch_fn fn, void *arg,
                                 weft_store_watch_t **watch);
int __wrap_weft_store_watch_open(weft_store_t *of, const char *prefix, int64_t from, weft_store_watch_fn fn, void *arg,
                                 weft_store_watch_t **watch) {
  if (!watched.meet) {
    watched.fn = fn;
    watched.meet = arg;
  }
  return __real_weft_store_watch_open(of, prefix, from, pass_event, arg, watch);
}

int __real_weft_store_range(weft_store_t *of, const char *key, bool prefix, uint32_t limit,
                            struct weft_store_list **list);
int __wrap_weft_store_range(weft_store_t *of, const char *key, bool prefix, uint32_t limit,
                            struct weft_store_list **list);
int __wrap_weft_store_range(weft_store_t *of, const char *key, bool prefix, uint32_t limit,
                            struct weft_store_list **list) {
  int err = __real_weft_store_range(of, key, prefix, limit, list);
  struct meet *meet = watched.meet;
  if (meet && prefix && pthread_equal(meet->keeper, pthread_self())) {
    void (*after)(void) = atomic_exchange(&watched.after, NULL);
    if (after)
      after();
    watched.reads++;
  }
  return err;
}

static void report_gap(void) {
  struct weft_store_list *list;
  assert_int_equal(__real_weft_store_range(store, "", true, 1, &list), 0);
  watched.fn(watched.meet, &(struct weft_store_event){.kind = WEFT_STORE_EVENT_RESET, .revision = list->revision});
  weft_store_list_free(list);
}

struct worker {
  pthread_t thread;
  struct meet *meet;
  int err;
};

static struct worker first, second;

static void *join(void *arg) {
  struct worker *worker = arg;
  const struct meet_options options = {
      .store = store, .prefix = "weft/bench/reread/", .size = 2, .host = "here", .timeout_ms = DEADLINE_MS};
  worker->err = meet_open(&worker->meet, &options);
  return NULL;
}

// Waits until the first worker is as wanted, for a limited time.
static bool await(bool (*wanted)(const struct meet *meet)) {
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  for (;; poll(NULL, 0, 1)) {
    struct meet *meet = watched.meet;
    bool good = false;
    if (meet) {
      pthread_mutex_lock(&meet->lock);
      good = wanted(meet);
      pthread_mutex_unlock(&meet->lock);
    }
    if (good || clock_passed(deadline_ns))
      return good;
  }
}

static bool has_joined(const struct meet *meet) {
  return meet->joined;
}

static bool has_second(const struct meet *meet) {
  return meet->workers[1].there;
}

static bool has_step_of_second(const struct meet *meet) {
  return meet->workers[1].step_number[1] == 1;
}

static bool has_settled(const struct meet *meet) {
  return watched.reads >= 2 || meet->workers[1].end != MEET_GOING;
}

static void start(struct worker *worker) {
  *worker = (struct worker){0};
  assert_int_equal(pthread_create(&worker->thread, NULL, join, worker), 0);
}

static void start_first(void) {
  watched.meet = NULL;
  watched.muted = false;
  watched.reads = 0;
  start(&first);
  assert_true(await(has_joined));
}

static void start_second(void) {
  start(&second);
}

static void end_both(void) {
  meet_close(first.meet);
  meet_close(second.meet);
}

static void put_step_and_report_another_gap(void) {
  char key[MEET_KEY_SIZE];
  snprintf(key, sizeof key, "weft/bench/reread/step/%s/1/1", watched.meet->meeting);
  assert_int_equal(weft_store_put(store, key, "1", 1, second.meet->lease, NULL), 0);
  report_gap();
}

static void a_gap_while_it_reads_is_read_too(void **state) {
  (void)state;
  start_first();
  start_second();
  pthread_join(first.thread, NULL);
  pthread_join(second.thread, NULL);
  assert_int_equal(first.err, 0);
  assert_int_equal(second.err, 0);
  watched.muted = true;
  watched.after = put_step_and_report_another_gap;
  report_gap();
  assert_true(await(has_step_of_second));
  watched.muted = false;
  end_both();
}

static void start_second_and_see_it(void) {
  start_second();
  assert_true(await(has_second));
}

static void a_worker_that_comes_while_it_reads_is_not_lost(void **state) {
  (void)state;
  start_first();
  watched.after = start_second_and_see_it;
  report_gap();
  assert_true(await(has_settled));
  pthread_join(first.thread, NULL);
  pthread_join(second.thread, NULL);
  assert_int_equal(first.err, 0);
  assert_int_equal(second.err, 0);
  assert_false(meet_lost(first.meet, NULL, NULL, 0));
  end_both();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_gap_while_it_reads_is_read_too, open_store, close_store),
      cmocka_unit_test_setup_teardown(a_worker_that_comes_while_it_reads_is_not_lost, open_store, close_store),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
