// Keys that a job leaves in the store when all of its ranks are killed, and a new job that starts on them. Also joiners
// without a first operation when all older ranks have left.
#include <poll.h>
#include <pthread.h>
#include <string.h>

#include "cmocka_all.h"

#include <weft/weft.h>

enum { RANKS = 2, LEASE_S = 2, DEADLINE_MS = 20000, TRY_MS = 200 };

struct job {
  weft_store_t *store;
  weft_ep_t *ep[RANKS];
};

// The view of two ranks that are dead; their claims have ended.
static void leave_view(struct job *job, int64_t ttl_s) {
  static const char view[] = "{\"epoch\":1,\"members\":[[0,\"00000000000000aa\"],[1,\"00000000000000bb\"]]}";
  int64_t lease;
  assert_int_equal(weft_store_open_local(&job->store), 0);
  assert_int_equal(weft_store_lease_grant(job->store, ttl_s, &lease, NULL), 0);
  assert_int_equal(weft_store_put(job->store, "/job/view", view, strlen(view), lease, NULL), 0);
}

static bool is_left(struct job *job) {
  struct weft_store_list *list;
  assert_int_equal(weft_store_range(job->store, "/job/view", false, 1, &list), 0);
  bool left = list->count > 0;
  weft_store_list_free(list);
  return left;
}

static void await_its_end(struct job *job) {
  while (is_left(job))
    poll(NULL, 0, 1);
}

static void open_rank(struct job *job, int32_t rank) {
  static const int32_t founders[RANKS] = {0, 1};
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  options.store = job->store;
  options.prefix = "/job/";
  options.rank = rank;
  options.capacity = RANKS;
  options.founders = founders;
  options.num_founders = RANKS;
  options.hidden = 128;
  options.max_tokens = 4;
  options.topk = 2;
  options.lease_ttl_s = LEASE_S;
  assert_int_equal(weft_ep_open(&job->ep[rank], &options, DEADLINE_MS), 0);
}

static void *operate(void *arg) {
  int rc = weft_ep_activate(arg, DEADLINE_MS);
  for (int i = 0; i < 6 && rc == 0; i++)
    rc = weft_ep_barrier(arg);
  return rc == 0 ? NULL : strdup(weft_last_error());
}

static void run(struct job *job) {
  pthread_t threads[RANKS];
  for (int i = 0; i < RANKS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, operate, job->ep[i]), 0);
  for (int i = 0; i < RANKS; i++) {
    void *why;
    pthread_join(threads[i], &why);
    if (why)
      fail_msg("rank %d: %s", i, (char *)why);
  }
  for (int i = 0; i < RANKS; i++)
    weft_ep_close(job->ep[i]);
  weft_store_close(job->store);
}

// Its lease is longer than the time that members have to come back in.
static void a_job_begins_where_a_view_was_left(void **state) {
  struct job job;
  (void)state;
  leave_view(&job, 3 * LEASE_S);
  open_rank(&job, 1);
  open_rank(&job, 0);
  run(&job);
}

static void a_job_begins_where_a_left_view_ends(void **state) {
  struct job job;
  (void)state;
  leave_view(&job, LEASE_S + 1);
  open_rank(&job, 1); // as soon as members could have come back
  open_rank(&job, 0);
  run(&job);
}

// One rank has seen it, and the other has not.
static void a_job_begins_on_both_sides_of_the_end_of_a_left_view(void **state) {
  (void)state;
  struct job job[RANKS]; // by the rank that has seen it
  for (int32_t first = 0; first < RANKS; first++)
    leave_view(&job[first], LEASE_S + 1);
  for (int32_t first = 0; first < RANKS; first++)
    open_rank(&job[first], first);
  for (int32_t first = 0; first < RANKS; first++) {
    await_its_end(&job[first]);
    open_rank(&job[first], 1 - first);
  }
  for (int32_t first = 0; first < RANKS; first++)
    run(&job[first]);
}

static void *go_on(void *arg) {
  uint32_t count = 0;
  while (weft_ep_barrier(arg) == 0 && (weft_ep_view(arg, NULL, NULL, 0, &count) != 0 || count < RANKS))
    ;
  return operate(arg);
}

// It is taken in after its first call has given up, and asks again before the other goes on.
static void a_founder_that_came_again_founds_nothing(void **state) {
  struct job job;
  pthread_t thread;
  void *why;
  (void)state;
  assert_int_equal(weft_store_open_local(&job.store), 0);
  open_rank(&job, 0);
  open_rank(&job, 1);
  assert_int_equal(pthread_create(&thread, NULL, operate, job.ep[0]), 0);
  assert_null(operate(job.ep[1]));
  pthread_join(thread, &why);
  assert_null(why);
  weft_ep_close(job.ep[1]);
  uint32_t count = RANKS;
  while (count == RANKS) {
    weft_ep_barrier(job.ep[0]); // the first one may report that rank 1 has gone
    assert_int_equal(weft_ep_view(job.ep[0], NULL, NULL, 0, &count), 0);
  }
  uint64_t ended = weft_ep_next_op(job.ep[0]);
  open_rank(&job, 1);
  while (count < RANKS) {
    assert_int_equal(weft_ep_activate(job.ep[1], TRY_MS), WEFT_ERR_TIMEOUT);
    assert_int_equal(weft_ep_committed_view(job.ep[1], NULL, NULL, 0, &count), 0);
  }
  assert_int_equal(weft_ep_activate(job.ep[1], TRY_MS), WEFT_ERR_TIMEOUT);
  assert_int_equal(pthread_create(&thread, NULL, go_on, job.ep[0]), 0);
  assert_int_equal(weft_ep_activate(job.ep[1], DEADLINE_MS), 0);
  assert_true(weft_ep_next_op(job.ep[1]) >= ended);
  assert_null(operate(job.ep[1]));
  pthread_join(thread, &why);
  if (why)
    fail_msg("rank 0: %s", (char *)why);
  for (int i = 0; i < RANKS; i++)
    weft_ep_close(job.ep[i]);
  weft_store_close(job.store);
}

// --- A view that has only joiners: whoever ran operations is gone before it had fixed their first.

enum { JOINERS = 3, RUN_BEFORE = 10, SLOW_MS = 50 };

static void open_joiner(struct job *job, weft_ep_t **ep, const char *host) {
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  options.store = job->store;
  options.prefix = "/job/";
  options.capacity = 1 + JOINERS;
  options.hidden = 128;
  options.max_tokens = 4;
  options.topk = 2;
  options.lease_ttl_s = LEASE_S;
  options.host_id = host;
  options.transport = host ? "shm" : NULL;
  options.listen = host ? "127.0.0.1" : NULL;
  assert_int_equal(weft_ep_open(ep, &options, DEADLINE_MS), 0);
}

static uint32_t agreed(const weft_ep_t *ep) {
  uint32_t count = 0;
  assert_int_equal(weft_ep_committed_view(ep, NULL, NULL, 0, &count), 0);
  return count;
}

// A rank that has run operations, and joiners that are in the view, and have no first operation yet.
struct handover {
  struct job job;
  weft_ep_t *ran, *joiners[JOINERS];
  pthread_t threads[JOINERS];
};

static void begin_handover(struct handover *handover, const char *host, const char *other) {
  assert_int_equal(weft_store_open_local(&handover->job.store), 0);
  open_joiner(&handover->job, &handover->ran, host);
  assert_int_equal(weft_ep_activate(handover->ran, DEADLINE_MS), 0);
  for (int i = 0; i < RUN_BEFORE; i++)
    assert_int_equal(weft_ep_barrier(handover->ran), 0);
  for (int i = 0; i < JOINERS; i++) {
    open_joiner(&handover->job, &handover->joiners[i], i % 2 == 0 ? other : host);
    assert_int_equal(pthread_create(&handover->threads[i], NULL, operate, handover->joiners[i]), 0);
  }
  while (agreed(handover->ran) < 1 + JOINERS)
    poll(NULL, 0, 1);
}

// All joiners have operated, and come to an operation from `least` on.
static void end_handover(struct handover *handover, uint64_t least) {
  for (int i = 0; i < JOINERS; i++) {
    void *why;
    pthread_join(handover->threads[i], &why);
    if (why)
      fail_msg("joiner %d: %s", i, (char *)why);
    assert_true(weft_ep_next_op(handover->joiners[i]) >= least);
  }
  for (int i = 0; i < JOINERS; i++)
    weft_ep_close(handover->joiners[i]);
  weft_store_close(handover->job.store);
}

static void joiners_begin(const char *host, const char *other) {
  struct handover handover;
  begin_handover(&handover, host, other);
  weft_ep_close(handover.ran);
  end_handover(&handover, 0);
}

static void joiners_begin_where_all_who_ran_have_gone(void **state) {
  (void)state;
  joiners_begin(NULL, NULL);
}

static void joiners_of_two_hosts_begin_where_all_who_ran_have_gone(void **state) {
  (void)state;
  joiners_begin("one", "two");
}

// Whoever leaves runs operations until the view without it takes effect, and fixes one for the joiners, however slowly
// it goes on: they continue its operations, and begin none of their own.
static void joiners_go_on_from_one_that_leaves(const char *host, const char *other) {
  struct handover handover;
  begin_handover(&handover, host, other);
  weft_ep_t *ran = handover.ran;
  int32_t self = weft_ep_rank(ran);
  assert_int_equal(weft_ep_disconnect(ran, &self, 1, DEADLINE_MS), 0);
  while (weft_ep_is_active(ran)) {
    poll(NULL, 0, SLOW_MS);
    assert_int_equal(weft_ep_barrier(ran), 0);
  }
  end_handover(&handover, weft_ep_next_op(ran));
  weft_ep_close(ran);
}

static void joiners_go_on_from_one_that_leaves_slowly(void **state) {
  (void)state;
  joiners_go_on_from_one_that_leaves(NULL, NULL);
}

static void joiners_of_two_hosts_go_on_from_one_that_leaves_slowly(void **state) {
  (void)state;
  joiners_go_on_from_one_that_leaves("one", "two");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_job_begins_where_a_view_was_left),
      cmocka_unit_test(a_job_begins_where_a_left_view_ends),
      cmocka_unit_test(a_job_begins_on_both_sides_of_the_end_of_a_left_view),
      cmocka_unit_test(a_founder_that_came_again_founds_nothing),
      cmocka_unit_test(joiners_begin_where_all_who_ran_have_gone),
      cmocka_unit_test(joiners_of_two_hosts_begin_where_all_who_ran_have_gone),
      cmocka_unit_test(joiners_go_on_from_one_that_leaves_slowly),
      cmocka_unit_test(joiners_of_two_hosts_go_on_from_one_that_leaves_slowly),
  };
  return cmocka_run_group_tests_name("ep_left_behind", tests, NULL, NULL);
}
