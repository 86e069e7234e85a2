// The host's side of ranks on CUDA memory, on a plug-in that has no GPU: operations without tokens, driven by one
// thread, since launches return at once.
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"

#include "base/clock.h"
#include "ep/gpu.h"

enum { DEADLINE_MS = 30000, CHURN = 70 };

static weft_store_t *store;

static int open_store(void **state) {
  (void)state;
  return weft_store_open_local(&store);
}

static int close_store(void **state) {
  (void)state;
  weft_store_close(store);
  return 0;
}

static void assert_ok(int rc) {
  if (rc != 0)
    fail_msg("%s: %s", weft_err_name(rc), weft_last_error());
}

static void assert_says(const char *words) {
  if (!strstr(weft_last_error(), words))
    fail_msg("\"%s\" does not say \"%s\"", weft_last_error(), words);
}

// What a rank's events told.
struct heard {
  _Atomic uint64_t activated, released, lost, epoch;
};

static void hear(void *arg, const struct weft_ep_event *event) {
  struct heard *heard = arg;
  if (event->kind == WEFT_EP_EVENT_ACTIVATED) {
    atomic_fetch_add(&heard->activated, 1);
    atomic_store(&heard->epoch, event->epoch);
  }
  if (event->kind == WEFT_EP_EVENT_RELEASED)
    atomic_fetch_add(&heard->released, 1);
  if (event->kind == WEFT_EP_EVENT_PEER_LOST)
    atomic_fetch_add(&heard->lost, 1);
}

static struct weft_ep_options options_of(int32_t rank, const int32_t *founders, uint32_t count, struct heard *heard) {
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  options.store = store;
  options.rank = rank;
  options.capacity = 8;
  options.founders = founders;
  options.num_founders = count;
  options.hidden = 128;
  options.max_tokens = 4;
  options.op_timeout_ms = 20000;
  options.memory = WEFT_EP_MEMORY_CUDA;
  options.on_event = heard ? hear : NULL;
  options.event_arg = heard;
  if (getenv("WEFT_TEST_HOSTS")) // odd ranks are on another host than even ones
    options.host_id = rank % 2 ? "odd" : "even";
  return options;
}

static weft_ep_t *open_rank(struct weft_ep_options options) {
  weft_ep_t *ep = NULL;
  assert_ok(weft_ep_open(&ep, &options, DEADLINE_MS));
  return ep;
}

// weft_ep_activate waits for others: in a thread.
struct activation {
  weft_ep_t *ep;
  pthread_t thread;
  int rc;
  char error[256];
  _Atomic bool done;
};

static void *activate(void *arg) {
  struct activation *activation = arg;
  activation->rc = weft_ep_activate(activation->ep, DEADLINE_MS);
  snprintf(activation->error, sizeof activation->error, "%s", weft_last_error());
  atomic_store(&activation->done, true);
  return NULL;
}

static void begin(struct activation *activation, weft_ep_t *ep) {
  *activation = (struct activation){.ep = ep};
  assert_int_equal(pthread_create(&activation->thread, NULL, activate, activation), 0);
}

static void end(struct activation *activation) {
  pthread_join(activation->thread, NULL);
  if (activation->rc != 0)
    fail_msg("activate: %s", activation->error);
}

// Opens `count` founders, 0 to count - 1, and activates them. `op_timeout_ms` 0: that of options_of().
static void found_with(weft_ep_t **eps, uint32_t count, struct heard *heard, uint32_t op_timeout_ms) {
  static const int32_t founders[] = {0, 1, 2, 3};
  struct activation activations[4];
  for (uint32_t i = 0; i < count; i++) {
    struct weft_ep_options options = options_of((int32_t)i, founders, count, heard ? &heard[i] : NULL);
    options.op_timeout_ms = op_timeout_ms ? op_timeout_ms : options.op_timeout_ms;
    eps[i] = open_rank(options);
  }
  for (uint32_t i = 0; i < count; i++)
    begin(&activations[i], eps[i]);
  for (uint32_t i = 0; i < count; i++)
    end(&activations[i]);
}

static void found(weft_ep_t **eps, uint32_t count, struct heard *heard) {
  found_with(eps, count, heard, 0);
}

static const struct weft_ep_recv *no_rows(void) {
  static int32_t counts[2];
  static struct weft_ep_recv recv = {.size = sizeof recv, .layout = WEFT_EP_PER_EXPERT, .counts = counts};
  return &recv;
}

// Launches an operation and its combine.
static uint64_t launch(weft_ep_t *ep) {
  struct weft_ep_dispatch none = WEFT_EP_DISPATCH_INIT;
  struct weft_ep_combine combine = WEFT_EP_COMBINE_INIT;
  uint64_t op;
  assert_ok(weft_ep_dispatch(ep, &none, no_rows(), NULL, &op));
  assert_ok(weft_ep_combine(ep, op, &combine, NULL));
  return op;
}

// The next operation of all ranks that take part in it; `info` is that of the first. A joiner may begin later.
static void operate(weft_ep_t **eps, uint32_t count, struct weft_ep_info *info) {
  uint64_t ops[4], next = weft_ep_next_op(eps[0]);
  bool active[4];
  for (uint32_t i = 0; i < count; i++) {
    active[i] = weft_ep_is_active(eps[i]) && weft_ep_next_op(eps[i]) <= next;
    if (active[i])
      ops[i] = launch(eps[i]);
  }
  for (uint32_t i = 0; i < count; i++)
    if (active[i])
      assert_ok(weft_ep_await(eps[i], ops[i], i == 0 ? info : NULL, NULL, DEADLINE_MS));
}

// The two operate while the third joins; from the operation on that is its first, it has to operate too.
static void operate_while_joining(weft_ep_t **eps, struct activation *activation) {
  while (!atomic_load(&activation->done)) {
    uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS), ops[2] = {launch(eps[0]), launch(eps[1])};
    for (int i = 0; i < 2; i++)
      while (weft_ep_await(eps[i], ops[i], NULL, NULL, 5) == WEFT_ERR_TIMEOUT && !clock_passed(deadline_ns))
        if (atomic_load(&activation->done) && activation->rc == 0 && weft_ep_next_op(eps[2]) <= ops[i])
          launch(eps[2]);
  }
  while (activation->rc == 0 && weft_ep_next_op(eps[2]) < weft_ep_next_op(eps[0]))
    launch(eps[2]);
}

static uint64_t epoch_of(weft_ep_t *ep, size_t *count) {
  uint64_t epoch;
  assert_ok(weft_ep_view(ep, &epoch, NULL, 0, count));
  return epoch;
}

static void founders_operate(void **state) {
  (void)state;
  weft_ep_t *eps[3];
  struct heard heard[3] = {0};
  found(eps, 3, heard);
  int32_t device = -1;
  assert_int_equal(weft_ep_memory(eps[0], &device), WEFT_EP_MEMORY_CUDA);
  assert_int_equal(device, 0);
  for (uint64_t op = 0; op < 20; op++) {
    struct weft_ep_info info = WEFT_EP_INFO_INIT;
    weft_ep_set_mark(eps[1], op); // the others' are higher
    weft_ep_set_mark(eps[0], 100);
    weft_ep_set_mark(eps[2], 100);
    operate(eps, 3, &info);
    assert_int_equal(info.op, op);
    assert_int_equal(info.epoch, 1);
    assert_int_equal(info.num_ranks, 3);
    assert_int_equal(info.num_lost, 0);
    assert_int_equal(info.mark, op);
    assert_int_equal(weft_ep_next_op(eps[2]), op + 1);
  }
  struct weft_ep_stats stats = WEFT_EP_STATS_INIT;
  assert_ok(weft_ep_stats(eps[0], &stats));
  assert_int_equal(stats.operations, 20);
  assert_int_equal(stats.activations, 1);
  assert_int_equal(stats.connected, 2);
  assert_int_equal(heard[0].activated, 1);
  for (int i = 0; i < 3; i++)
    weft_ep_close(eps[i]);
}

static void *join_barrier(void *ep) {
  return (void *)(intptr_t)weft_ep_barrier(ep);
}

struct telling {
  weft_ep_t *ep;
  uint64_t op;
  int rc;
  _Atomic bool done;
};

static void *tell(void *arg) {
  struct telling *telling = arg;
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  telling->rc = weft_ep_await(telling->ep, telling->op, &info, NULL, DEADLINE_MS);
  atomic_store(&telling->done, true);
  return NULL;
}

static uint64_t waited_for(weft_ep_t *ep, int32_t rank) {
  struct weft_ep_peer_stats stats = WEFT_EP_PEER_STATS_INIT;
  assert_ok(weft_ep_peer_stats(ep, rank, &stats));
  return stats.wait_ns;
}

// While another thread has the lock that it installs links under.
static void telling_waits_for_nobody_who_connects(void **state) {
  (void)state;
  weft_ep_t *eps[2];
  pthread_t thread;
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  setenv("FAKE_WAIT_NS", "5", 1);
  found(eps, 2, NULL);
  struct telling telling = {.ep = eps[0]};
  operate(eps, 2, NULL);
  telling.op = weft_ep_next_op(eps[0]) - 1;
  pthread_mutex_lock(&eps[0]->links.lock);
  assert_int_equal(pthread_create(&thread, NULL, tell, &telling), 0);
  while (!atomic_load(&telling.done) && !clock_passed(deadline_ns))
    poll(NULL, 0, 1);
  bool done = atomic_load(&telling.done);
  pthread_mutex_unlock(&eps[0]->links.lock);
  pthread_join(thread, NULL);
  if (!done)
    fail_msg("what an operation did was not told by the deadline, beside a thread that installs a link");
  assert_ok(telling.rc);
  assert_int_equal(waited_for(eps[0], 1), 0);
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  operate(eps, 2, &info);
  assert_int_equal(waited_for(eps[0], 1), 10); // nothing is lost by it
  unsetenv("FAKE_WAIT_NS");
  for (int i = 0; i < 2; i++)
    weft_ep_close(eps[i]);
}

static void a_barrier_names_who_does_not_come(void **state) {
  (void)state;
  weft_ep_t *eps[3];
  found(eps, 3, NULL);
  pthread_t threads[2];
  void *rc[2];
  for (int i = 0; i < 2; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, join_barrier, eps[i + 1]), 0);
  assert_ok(weft_ep_barrier(eps[0]));
  for (int i = 0; i < 2; i++) {
    pthread_join(threads[i], &rc[i]);
    assert_null(rc[i]);
  }
  weft_ep_close(eps[2]); // without a word: out at once, by the notice in its window
  assert_int_equal(pthread_create(&threads[0], NULL, join_barrier, eps[1]), 0);
  assert_int_equal(weft_ep_barrier(eps[0]), WEFT_ERR_PEER_LOST);
  assert_says("without rank 2");
  pthread_join(threads[0], &rc[0]);
  assert_int_equal((int)(intptr_t)rc[0], WEFT_ERR_PEER_LOST);
  weft_ep_close(eps[0]);
  weft_ep_close(eps[1]);
}

// Operates until the view has `count` ranks, and this many links are left.
static void operate_until(weft_ep_t **eps, uint32_t num, size_t count, uint64_t connected) {
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  for (;;) {
    operate(eps, num, &info);
    struct weft_ep_stats stats = WEFT_EP_STATS_INIT;
    assert_ok(weft_ep_stats(eps[0], &stats));
    size_t now;
    epoch_of(eps[0], &now);
    if (now == count && stats.connected == connected)
      return;
    if (clock_passed(deadline_ns))
      fail_msg("%zu ranks and %llu links, not %zu and %llu, within %d ms", now, (unsigned long long)stats.connected,
               count, (unsigned long long)connected, DEADLINE_MS);
  }
}

static void operate_until_told(weft_ep_t **eps, _Atomic uint64_t *told, uint64_t count) {
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  while (atomic_load(told) < count) {
    operate(eps, 2, NULL);
    if (clock_passed(deadline_ns))
      fail_msg("%llu events were told, not %llu, within %d ms", (unsigned long long)atomic_load(told),
               (unsigned long long)count, DEADLINE_MS);
  }
}

// More joins than there are seats: each is given back when no view needs it any more.
static void ranks_join_and_leave_while_others_operate(void **state) {
  (void)state;
  weft_ep_t *eps[3];
  struct heard heard[2] = {0};
  found(eps, 2, heard);
  for (int round = 0; round < CHURN; round++) {
    struct activation activation;
    eps[2] = open_rank(options_of(5, NULL, 0, NULL));
    begin(&activation, eps[2]);
    operate_while_joining(eps, &activation);
    end(&activation);
    operate_until(eps, 3, 3, 2);
    const int32_t self = 5;
    assert_ok(weft_ep_disconnect(eps[2], &self, 1, DEADLINE_MS));
    while (weft_ep_is_active(eps[2]))
      operate(eps, 3, NULL);
    uint64_t op;
    struct weft_ep_dispatch none = WEFT_EP_DISPATCH_INIT;
    assert_int_equal(weft_ep_dispatch(eps[2], &none, no_rows(), NULL, &op), WEFT_ERR_FENCED);
    weft_ep_close(eps[2]);
    operate_until(eps, 2, 2, 1);
    // The watcher keeps no more than DEVICE_ACTIVATIONS that it has not told, and may get no processor for long.
    operate_until_told(eps, &heard[0].activated, 3 + 2 * (uint64_t)round);
  }
  operate_until_told(eps, &heard[0].released, CHURN);
  assert_int_equal(heard[0].released, CHURN);
  assert_int_equal(heard[0].lost, 0);
  assert_int_equal(heard[0].activated, 1 + 2 * CHURN);
  struct weft_ep_stats stats = WEFT_EP_STATS_INIT;
  assert_ok(weft_ep_stats(eps[1], &stats));
  assert_int_equal(stats.activations, 1 + 2 * CHURN);
  weft_ep_close(eps[0]);
  weft_ep_close(eps[1]);
}

// Rank 2 falls silent: kernels give it up, the watcher reports it, and a view without it takes effect.
static void a_silent_rank_is_put_out(void **state) {
  (void)state;
  weft_ep_t *eps[3];
  struct heard heard[3] = {0};
  found_with(eps, 3, heard, 200);
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  int32_t lost = -1;
  info.lost = &lost;
  info.lost_cap = 1;
  operate(eps, 2, &info);
  assert_int_equal(info.num_lost, 1);
  assert_int_equal(lost, 2);
  operate_until(eps, 2, 2, 1);
  assert_int_equal(heard[0].lost + heard[1].lost >= 1, 1);
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  struct weft_ep_dispatch none = WEFT_EP_DISPATCH_INIT;
  uint64_t op;
  int rc = 0;
  while ((rc = weft_ep_is_active(eps[2]) ? ep_check_active(eps[2]) : WEFT_ERR_FENCED) == 0 &&
         !clock_passed(deadline_ns))
    operate(eps, 2, NULL);
  assert_int_equal(rc, WEFT_ERR_FENCED);
  assert_int_equal(weft_ep_dispatch(eps[2], &none, no_rows(), NULL, &op), WEFT_ERR_FENCED);
  for (int i = 0; i < 3; i++)
    weft_ep_close(eps[i]);
}

// Two of three fall silent while areas of the view before, of four, are still in use: most of the view that they were
// missed in, so rank 0 is the one astray. They would be half of the view before, and put out.
static void the_lost_count_in_the_view_that_lost_them(void **state) {
  (void)state;
  static const int32_t leaver = 3;
  weft_ep_t *eps[4];
  setenv("FAKE_LAGS", "1", 1);
  found_with(eps, 4, NULL, 1000);
  assert_ok(weft_ep_disconnect(eps[3], &leaver, 1, DEADLINE_MS));
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  do
    operate(eps, 4, &info);
  while (info.num_ranks == 4);
  assert_int_equal(info.num_ranks, 3);
  assert_int_equal(eps[0]->gpu->num_steps, 2); // both views are in use
  assert_ok(weft_ep_await(eps[0], launch(eps[0]), &info, NULL, DEADLINE_MS));
  assert_int_equal(info.num_lost, 2);
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  for (int32_t rank = 1; rank <= 2; rank++) {
    struct ep_link *link = atomic_load(&eps[0]->links.by_rank[rank]); // which stays, as its view does
    while (ep_link_up(link) && !clock_passed(deadline_ns))
      poll(NULL, 0, 1);
    assert_int_equal(atomic_load(&link->state), EP_LINK_DOUBTED);
  }
  for (int i = 0; i < 4; i++)
    weft_ep_close(eps[i]);
  unsetenv("FAKE_LAGS");
}

static void ranks_on_other_memory_or_out_of_reach_do_not_connect(void **state) {
  (void)state;
  struct weft_ep_options options = options_of(0, NULL, 0, NULL);
  weft_ep_t *first = open_rank(options);
  options.rank = 1;
  options.memory = WEFT_EP_MEMORY_HOST;
  weft_ep_t *second = open_rank(options);
  const int32_t one = 1, zero = 0;
  assert_int_equal(weft_ep_connect(first, &one, 1, 5000), WEFT_ERR_VERSION);
  assert_says("rank 1 runs on host memory, this rank on CUDA memory");
  assert_int_equal(weft_ep_connect(second, &zero, 1, 5000), WEFT_ERR_VERSION);
  assert_says("rank 0 runs on CUDA memory, this rank on host memory");
  weft_ep_close(second);
  options.memory = WEFT_EP_MEMORY_CUDA;
  options.device = 1;
  second = open_rank(options);
  setenv("FAKE_APART", "1", 1);
  assert_int_equal(weft_ep_connect(first, &one, 1, 5000), WEFT_ERR_UNSUPPORTED);
  assert_says("the fakes are apart");
  unsetenv("FAKE_APART");
  assert_ok(weft_ep_connect(first, &one, 1, 5000));
  weft_ep_close(second);
  options.device = 2;
  assert_int_equal(weft_ep_open(&second, &options, 1000), WEFT_ERR_INVALID);
  assert_says("device is 2, but this process has 2");
  weft_ep_close(first);
}

static void auto_without_an_engine_is_host_memory(void **state) {
  (void)state;
  struct weft_ep_options options = options_of(0, NULL, 0, NULL);
  setenv("FAKE_NO_ENGINE", "1", 1);
  weft_ep_t *ep = NULL;
  assert_int_equal(weft_ep_open(&ep, &options, 1000), WEFT_ERR_LIMIT);
  assert_says("the fake has no engine");
  options.memory = WEFT_EP_MEMORY_AUTO;
  ep = open_rank(options);
  unsetenv("FAKE_NO_ENGINE");
  assert_int_equal(weft_ep_memory(ep, NULL), WEFT_EP_MEMORY_HOST);
  assert_ok(weft_ep_activate(ep, 1000));
  assert_ok(weft_ep_barrier(ep));
  weft_ep_close(ep);
}

static void captured_launches_have_no_number_and_tell_nothing(void **state) {
  (void)state;
  weft_ep_t *eps[1];
  found(eps, 1, NULL);
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  struct weft_ep_dispatch none = WEFT_EP_DISPATCH_INIT;
  struct weft_ep_combine combine = WEFT_EP_COMBINE_INIT;
  none.stream = combine.stream = (void *)1;
  uint64_t op;
  assert_int_equal(weft_ep_dispatch(eps[0], &none, no_rows(), &info, &op), WEFT_ERR_INVALID);
  assert_says("captured");
  for (int i = 0; i < 5; i++) {
    assert_ok(weft_ep_dispatch(eps[0], &none, no_rows(), NULL, &op));
    assert_ok(weft_ep_combine(eps[0], op, &combine, NULL));
    assert_int_equal(weft_ep_combine(eps[0], op, &combine, NULL), WEFT_ERR_INVALID);
  }
  assert_int_equal(weft_ep_next_op(eps[0]), 0);
  assert_int_equal(weft_ep_await(eps[0], UINT64_MAX, &info, NULL, 0), WEFT_ERR_INVALID);
  operate(eps, 1, &info);
  assert_int_equal(info.op, 0);
  // A replay: the device counts, and the host follows.
  char why[DEVICE_WHY];
  const struct device_dispatch replay = {.halves = DEVICE_SEND | DEVICE_RECV, .kind = 1, .replays = true};
  const struct device_combine answer = {.halves = DEVICE_SEND | DEVICE_RECV};
  for (int i = 0; i < 3; i++) {
    assert_int_equal(eps[0]->gpu->api->ep_dispatch(eps[0]->gpu->engine, &replay, NULL, why), 0);
    assert_int_equal(eps[0]->gpu->api->ep_combine(eps[0]->gpu->engine, &answer, NULL, why), 0);
  }
  assert_int_equal(eps[0]->gpu->api->stream_wait(eps[0]->gpu->device, NULL, DEADLINE_MS, why), 0);
  assert_ok(weft_ep_await(eps[0], UINT64_MAX, &info, NULL, DEADLINE_MS));
  assert_int_equal(info.op, 3);
  struct weft_ep_stats stats = WEFT_EP_STATS_INIT;
  assert_ok(weft_ep_stats(eps[0], &stats));
  assert_int_equal(stats.operations, 3); // that the last one has ended the next kernel tells
  operate(eps, 1, &info);
  assert_int_equal(info.op, 4);
  assert_ok(weft_ep_stats(eps[0], &stats));
  assert_int_equal(stats.operations, 5);
  weft_ep_close(eps[0]);
}

// Two tokens of one rank in a group of eight places; experts 0 and 1 are its own.
static void rows_too_many_and_selections_missing_are_told(void **state) {
  (void)state;
  struct weft_ep_options options = options_of(0, NULL, 0, NULL);
  options.topk = 2;
  weft_ep_t *ep = open_rank(options);
  assert_ok(weft_ep_activate(ep, DEADLINE_MS));
  static uint16_t x[2 * 128], out[2 * 128];
  const int64_t experts[] = {1, 15, 9, -1};
  const float weights[4] = {1, 1, 1, 1};
  struct weft_ep_dispatch dispatch = WEFT_EP_DISPATCH_INIT;
  dispatch.x = x;
  dispatch.num_tokens = 2;
  dispatch.topk_idx = experts;
  dispatch.topk_weights = weights;
  struct weft_ep_recv recv = *no_rows();
  recv.rows = 2;
  recv.x = x;
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  uint64_t op;
  setenv("FAKE_ROWS", "3", 1);
  setenv("FAKE_MISSING", "2", 1);
  assert_int_equal(weft_ep_dispatch(ep, &dispatch, &recv, &info, &op), WEFT_ERR_LIMIT);
  assert_says("the buffer has 2 rows for each expert, and 3 came");
  unsetenv("FAKE_ROWS");
  assert_int_equal(info.num_rows, 3);
  struct weft_ep_combine combine = WEFT_EP_COMBINE_INIT;
  struct weft_ep_missing missing[3];
  struct weft_ep_result result = WEFT_EP_RESULT_INIT;
  combine.out = out;
  assert_int_equal(weft_ep_combine(ep, op, &combine, NULL), WEFT_ERR_INVALID);
  assert_says("y is NULL");
  combine.y = x;
  combine.topk_weights = weights;
  assert_int_equal(weft_ep_combine(ep, op, &combine, NULL), WEFT_ERR_INVALID);
  assert_says("given with the dispatch already");
  combine.topk_weights = NULL;
  result.missing = missing;
  result.missing_cap = 3;
  assert_ok(weft_ep_combine(ep, op, &combine, &result));
  unsetenv("FAKE_MISSING");
  assert_int_equal(result.num_missing, 2);
  assert_true(missing[0].token == 0 && missing[0].k == 1 && missing[0].expert == 15);
  assert_true(missing[1].token == 1 && missing[1].k == 0 && missing[1].expert == 9);
  struct weft_ep_stats stats = WEFT_EP_STATS_INIT;
  assert_ok(weft_ep_await(ep, op, NULL, &result, 1000)); // counted once
  assert_ok(weft_ep_stats(ep, &stats));
  assert_int_equal(stats.missing, 2);
  weft_ep_close(ep);
}

// Rows by rank come with their weights or without any.
static void weights_of_rows_by_rank_do_not_come_late(void **state) {
  (void)state;
  weft_ep_t *ep = open_rank(options_of(0, NULL, 0, NULL));
  assert_ok(weft_ep_activate(ep, DEADLINE_MS));
  static uint16_t x[128], out[128];
  const int64_t expert = 0;
  const float weight = 1;
  const struct weft_ep_dispatch dispatch = {.size = sizeof dispatch, .x = x, .num_tokens = 1, .topk_idx = &expert};
  struct weft_ep_recv recv = *no_rows();
  recv.layout = WEFT_EP_RANK_MAJOR;
  struct weft_ep_combine combine = {.size = sizeof combine, .y = x, .out = out, .topk_weights = &weight};
  uint64_t op;
  assert_ok(weft_ep_dispatch(ep, &dispatch, &recv, NULL, &op));
  assert_int_equal(weft_ep_combine(ep, op, &combine, NULL), WEFT_ERR_INVALID);
  assert_says("RANK_MAJOR: they go with the dispatch");
  combine.topk_weights = NULL;
  assert_ok(weft_ep_combine(ep, op, &combine, NULL));
  weft_ep_close(ep);
}

static void operations_out_of_turn_are_refused(void **state) {
  (void)state;
  weft_ep_t *eps[1];
  struct weft_ep_dispatch none = WEFT_EP_DISPATCH_INIT;
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  struct weft_ep_result result = WEFT_EP_RESULT_INIT;
  uint64_t op, ops[2];
  eps[0] = open_rank(options_of(0, NULL, 0, NULL));
  assert_int_equal(weft_ep_dispatch(eps[0], &none, no_rows(), NULL, &op), WEFT_ERR_NOT_CONNECTED);
  assert_ok(weft_ep_activate(eps[0], DEADLINE_MS));
  for (int i = 0; i < 2; i++)
    assert_ok(weft_ep_dispatch(eps[0], &none, no_rows(), &info, &ops[i]));
  assert_int_equal(weft_ep_dispatch(eps[0], &none, no_rows(), NULL, &op), WEFT_ERR_BUSY);
  assert_int_equal(weft_ep_barrier(eps[0]), WEFT_ERR_BUSY);
  assert_int_equal(weft_ep_await(eps[0], ops[0], NULL, &result, 1000), WEFT_ERR_INVALID);
  assert_ok(weft_ep_finish(eps[0], ops[0]));
  assert_int_equal(weft_ep_finish(eps[0], ops[0]), WEFT_ERR_INVALID);
  assert_int_equal(weft_ep_mask_update(eps[0], 3, true), WEFT_ERR_NOT_FOUND);
  assert_ok(weft_ep_mask_update(eps[0], 0, true));
  enum weft_ep_rank_state states[8];
  assert_ok(weft_ep_mask_query(eps[0], states));
  assert_int_equal(states[0], WEFT_EP_MASKED);
  assert_int_equal(eps[0]->gpu->control.masked, 1);
  assert_ok(weft_ep_finish(eps[0], ops[1]));
  struct weft_ep_recv in_place = *no_rows();
  const void *rows[1];
  in_place.rows_at = rows;
  assert_int_equal(weft_ep_dispatch(eps[0], &none, &in_place, NULL, &op), WEFT_ERR_INVALID);
  weft_ep_close(eps[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(founders_operate, open_store, close_store),
      cmocka_unit_test_setup_teardown(telling_waits_for_nobody_who_connects, open_store, close_store),
      cmocka_unit_test_setup_teardown(a_barrier_names_who_does_not_come, open_store, close_store),
      cmocka_unit_test_setup_teardown(ranks_join_and_leave_while_others_operate, open_store, close_store),
      cmocka_unit_test_setup_teardown(a_silent_rank_is_put_out, open_store, close_store),
      cmocka_unit_test_setup_teardown(the_lost_count_in_the_view_that_lost_them, open_store, close_store),
      cmocka_unit_test_setup_teardown(ranks_on_other_memory_or_out_of_reach_do_not_connect, open_store, close_store),
      cmocka_unit_test_setup_teardown(auto_without_an_engine_is_host_memory, open_store, close_store),
      cmocka_unit_test_setup_teardown(captured_launches_have_no_number_and_tell_nothing, open_store, close_store),
      cmocka_unit_test_setup_teardown(rows_too_many_and_selections_missing_are_told, open_store, close_store),
      cmocka_unit_test_setup_teardown(weights_of_rows_by_rank_do_not_come_late, open_store, close_store),
      cmocka_unit_test_setup_teardown(operations_out_of_turn_are_refused, open_store, close_store),
  };
  return cmocka_run_group_tests_name("ep_fake_gpu", tests, NULL, NULL);
}
