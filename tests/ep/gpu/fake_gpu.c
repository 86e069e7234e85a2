// The host side of operations on CUDA memory, on a plug-in without a GPU: what it passes to the device, what it reads
// back, and what it refuses.
#include <poll.h>

#include "ep/gpu/support/fake_ranks.h"

static void founders_operate(void **state) {
  (void)state;
  weft_ep_t *eps[3];
  struct fake_events events = {0};
  fake_found(eps, 3);
  int32_t device = -1;
  assert_int_equal(weft_ep_get_memory(eps[0], &device), WEFT_EP_MEMORY_CUDA);
  assert_int_equal(device, 0);
  for (uint64_t op = 0; op < 20; op++) {
    struct weft_ep_info info = WEFT_EP_INFO_INIT;
    weft_ep_set_mark(eps[1], op); // the others' are higher
    weft_ep_set_mark(eps[0], 100);
    weft_ep_set_mark(eps[2], 100);
    fake_operate(eps, 3, &info);
    assert_int_equal(info.op, op);
    assert_int_equal(info.epoch, 1);
    assert_int_equal(info.num_ranks, 3);
    assert_int_equal(info.num_lost, 0);
    assert_int_equal(info.mark, op);
    assert_int_equal(weft_ep_next_op(eps[2]), op + 1);
  }
  struct weft_ep_stats stats = WEFT_EP_STATS_INIT;
  assert_ok(weft_ep_get_stats(eps[0], &stats));
  assert_int_equal(stats.operations, 20);
  assert_int_equal(stats.activations, 1);
  assert_int_equal(stats.connected, 2);
  fake_take_events(eps[0], &events);
  assert_int_equal(events.activated, 1);
  for (int i = 0; i < 3; i++)
    weft_ep_close(eps[i]);
}

static void *join_barrier(void *ep) {
  return (void *)(intptr_t)weft_ep_barrier(ep);
}

struct await_call {
  weft_ep_t *ep;
  uint64_t op;
  int rc;
  _Atomic bool done;
};

static void *await_op(void *arg) {
  struct await_call *await_call = arg;
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  await_call->rc = weft_ep_await(await_call->ep, await_call->op, &info, NULL, DEADLINE_MS);
  atomic_store(&await_call->done, true);
  return NULL;
}

static uint64_t waited_for(weft_ep_t *ep, int32_t rank) {
  struct weft_ep_peer_stats stats = WEFT_EP_PEER_STATS_INIT;
  assert_ok(weft_ep_get_peer_stats(ep, rank, &stats));
  return stats.wait_ns;
}

// While another thread has the lock that it installs links under.
static void results_do_not_wait_for_a_thread_that_connects(void **state) {
  (void)state;
  weft_ep_t *eps[2];
  pthread_t thread;
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  setenv("FAKE_WAIT_NS", "5", 1);
  fake_found(eps, 2);
  struct await_call await_call = {.ep = eps[0]};
  fake_operate(eps, 2, NULL);
  await_call.op = weft_ep_next_op(eps[0]) - 1;
  pthread_mutex_lock(&eps[0]->links.lock);
  assert_int_equal(pthread_create(&thread, NULL, await_op, &await_call), 0);
  while (!atomic_load(&await_call.done) && !clock_passed(deadline_ns))
    poll(NULL, 0, 1);
  bool done = atomic_load(&await_call.done);
  pthread_mutex_unlock(&eps[0]->links.lock);
  pthread_join(thread, NULL);
  if (!done)
    fail_msg("the results of an operation were not there by the deadline, while another thread installs a link");
  assert_ok(await_call.rc);
  assert_int_equal(waited_for(eps[0], 1), 0);
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  fake_operate(eps, 2, &info);
  assert_int_equal(waited_for(eps[0], 1), 10); // nothing is lost by it
  unsetenv("FAKE_WAIT_NS");
  for (int i = 0; i < 2; i++)
    weft_ep_close(eps[i]);
}

static void an_interrupted_wait_leaves_what_was_launched(void **state) {
  (void)state;
  weft_ep_t *eps[2];
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  fake_found(eps, 2);
  uint64_t op = fake_launch(eps[0]);
  weft_ep_interrupt(eps[0]);
  assert_int_equal(weft_ep_await(eps[0], op, &info, NULL, WEFT_WAIT_FOREVER), WEFT_ERR_CANCELED);
  assert_says("weft_ep_interrupt");
  assert_int_equal(weft_ep_await(eps[0], op, &info, NULL, 0), WEFT_ERR_TIMEOUT); // the mark is gone
  fake_launch(eps[1]);
  assert_ok(weft_ep_await(eps[0], op, &info, NULL, DEADLINE_MS));
  assert_int_equal(info.op, op);
  assert_int_equal(info.num_lost, 0);
  for (int i = 0; i < 2; i++)
    weft_ep_close(eps[i]);
}

static void a_barrier_names_who_does_not_come(void **state) {
  (void)state;
  weft_ep_t *eps[3];
  fake_found(eps, 3);
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

// The device gets the flag. Its effect is tested on a GPU (python/compat/tests/ep/test_cuda.py).
static void ordered_ranks_are_opened_as_such(void **state) {
  (void)state;
  const int32_t founders[] = {0};
  struct weft_ep_options options = fake_options(0, founders, 1);
  setenv("FAKE_SHARED", "1", 1);
  weft_ep_t *ep = NULL;
  assert_int_equal(weft_ep_open(&ep, &options, DEADLINE_MS), WEFT_ERR_LIMIT);
  assert_says("ordered engines alone");
  options.flags = WEFT_EP_OPTION_ORDERED;
  ep = fake_open(options);
  unsetenv("FAKE_SHARED");
  weft_ep_close(ep);
}

static void auto_without_an_engine_is_host_memory(void **state) {
  (void)state;
  struct weft_ep_options options = fake_options(0, NULL, 0);
  setenv("FAKE_NO_ENGINE", "1", 1);
  weft_ep_t *ep = NULL;
  assert_int_equal(weft_ep_open(&ep, &options, 1000), WEFT_ERR_LIMIT);
  assert_says("the fake has no engine");
  options.memory = WEFT_EP_MEMORY_AUTO;
  ep = fake_open(options);
  unsetenv("FAKE_NO_ENGINE");
  assert_int_equal(weft_ep_get_memory(ep, NULL), WEFT_EP_MEMORY_HOST);
  assert_ok(weft_ep_activate(ep, 1000));
  assert_ok(weft_ep_barrier(ep));
  weft_ep_close(ep);
}

static void captured_launches_have_no_number_and_no_results(void **state) {
  (void)state;
  weft_ep_t *eps[1];
  fake_found(eps, 1);
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  struct weft_ep_dispatch_args none = WEFT_EP_DISPATCH_ARGS_INIT;
  struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT;
  none.stream = combine.stream = (void *)1;
  uint64_t op;
  assert_int_equal(weft_ep_dispatch(eps[0], &none, fake_no_rows(), &info, &op), WEFT_ERR_INVALID);
  assert_says("captured");
  for (int i = 0; i < 5; i++) {
    assert_ok(weft_ep_dispatch(eps[0], &none, fake_no_rows(), NULL, &op));
    assert_ok(weft_ep_combine(eps[0], op, &combine, NULL));
    assert_int_equal(weft_ep_combine(eps[0], op, &combine, NULL), WEFT_ERR_INVALID);
  }
  assert_int_equal(weft_ep_next_op(eps[0]), 0);
  assert_int_equal(weft_ep_await(eps[0], UINT64_MAX, &info, NULL, 0), WEFT_ERR_INVALID);
  fake_operate(eps, 1, &info);
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
  assert_ok(weft_ep_get_stats(eps[0], &stats));
  assert_int_equal(stats.operations, 3); // the next kernel reports that the last one has ended
  fake_operate(eps, 1, &info);
  assert_int_equal(info.op, 4);
  assert_ok(weft_ep_get_stats(eps[0], &stats));
  assert_int_equal(stats.operations, 5);
  weft_ep_close(eps[0]);
}

// Of two operations in one capture the older one ends first; what an earlier capture has left open is not looked for.
static void a_capture_may_be_given_up(void **state) {
  (void)state;
  weft_ep_t *eps[1];
  struct weft_ep_dispatch_args none = WEFT_EP_DISPATCH_ARGS_INIT;
  struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT;
  char why[DEVICE_WHY];
  uint64_t ops[2];
  void *graph, *stream = &graph;
  fake_found(eps, 1);
  const struct ep_gpu *gpu = eps[0]->gpu;
  none.stream = combine.stream = stream;
  for (int i = 0; i < 4; i++) {
    assert_int_equal(gpu->api->graph_begin(gpu->device, stream, why), 0);
    for (int j = 0; j <= i % 2; j++)
      assert_ok(weft_ep_dispatch(eps[0], &none, fake_no_rows(), NULL, &ops[j]));
    if (i % 2) {
      assert_int_equal(weft_ep_combine(eps[0], ops[1], &combine, NULL), WEFT_ERR_INVALID);
      assert_says("operations end in order");
    }
    for (int j = 0; j <= i % 2 && i > 1; j++)
      assert_ok(weft_ep_combine(eps[0], ops[j], &combine, NULL));
    assert_int_equal(gpu->api->graph_end(gpu->device, stream, &graph, why), 0);
    gpu->api->graph_close(gpu->device, graph);
  }
  weft_ep_close(eps[0]);
}

// Its end would be that of the operation that runs next.
static void what_a_capture_has_begun_does_not_end_outside(void **state) {
  (void)state;
  weft_ep_t *eps[1];
  struct weft_ep_dispatch_args none = WEFT_EP_DISPATCH_ARGS_INIT;
  struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT;
  struct device_progress progress;
  char why[DEVICE_WHY];
  uint64_t op;
  void *graph, *stream = &graph;
  fake_found(eps, 1);
  const struct ep_gpu *gpu = eps[0]->gpu;
  none.stream = combine.stream = stream;
  assert_int_equal(gpu->api->graph_begin(gpu->device, stream, why), 0);
  assert_ok(weft_ep_dispatch(eps[0], &none, fake_no_rows(), NULL, &op));
  assert_int_equal(gpu->api->graph_end(gpu->device, stream, &graph, why), 0);
  gpu->api->graph_close(gpu->device, graph);
  assert_int_equal(weft_ep_combine(eps[0], op, &combine, NULL), WEFT_ERR_INVALID);
  assert_says("a graph has to end the operations that it begins");
  assert_ok(weft_ep_finish(eps[0], op));
  assert_int_equal(weft_ep_finish(eps[0], op), WEFT_ERR_INVALID);
  fake_operate(eps, 1, NULL);
  assert_ok(weft_ep_await(eps[0], 0, NULL, NULL, DEADLINE_MS));
  assert_int_equal(gpu->api->ep_progress(gpu->engine, &progress, why), 0);
  assert_int_equal(progress.ended, 0); // the next dispatch reports that the first one ended
  weft_ep_close(eps[0]);
}

// The host would count it as ended, and the device would not.
static void what_was_begun_outside_does_not_end_in_a_capture(void **state) {
  (void)state;
  struct weft_ep_dispatch_args none = WEFT_EP_DISPATCH_ARGS_INIT;
  struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT;
  struct weft_ep_options options = fake_options(0, NULL, 0);
  char why[DEVICE_WHY];
  uint64_t op;
  void *graph, *stream = &graph;
  options.mode = WEFT_EP_THROUGHPUT; // the fake has halves there
  weft_ep_t *ep = fake_open(options);
  assert_ok(weft_ep_activate(ep, DEADLINE_MS));
  const struct ep_gpu *gpu = ep->gpu;
  struct weft_ep_recv_args recv = *fake_no_rows();
  none.stream = combine.stream = recv.stream = stream;
  for (int finishes = 0; finishes < 2; finishes++) {
    assert_ok(weft_ep_dispatch_send(ep, &none, &op));
    assert_int_equal(gpu->api->graph_begin(gpu->device, stream, why), 0);
    assert_int_equal(weft_ep_dispatch_recv(ep, op, &recv, NULL), WEFT_ERR_INVALID);
    assert_says("dispatch_recv: operation");
    assert_says("began outside of a capture");
    assert_int_equal(gpu->api->graph_end(gpu->device, stream, &graph, why), 0);
    gpu->api->graph_close(gpu->device, graph);
    assert_ok(weft_ep_dispatch_recv(ep, op, &recv, NULL));
    assert_int_equal(gpu->api->graph_begin(gpu->device, stream, why), 0);
    assert_int_equal(weft_ep_combine(ep, op, &combine, NULL), WEFT_ERR_INVALID);
    assert_says("combine: operation");
    assert_int_equal(weft_ep_combine_send(ep, op, &combine), WEFT_ERR_INVALID);
    assert_int_equal(weft_ep_finish(ep, op), WEFT_ERR_INVALID);
    assert_says("end the operation before the capture");
    assert_int_equal(gpu->api->graph_end(gpu->device, stream, &graph, why), 0);
    gpu->api->graph_close(gpu->device, graph);
    assert_ok(finishes ? weft_ep_finish(ep, op) : weft_ep_combine(ep, op, &combine, NULL));
  }
  weft_ep_close(ep);
}

// Two tokens of one rank in a group of eight places; experts 0 and 1 are its own.
static void too_many_rows_and_missing_selections_are_reported(void **state) {
  (void)state;
  struct weft_ep_options options = fake_options(0, NULL, 0);
  options.topk = 2;
  weft_ep_t *ep = fake_open(options);
  assert_ok(weft_ep_activate(ep, DEADLINE_MS));
  static uint16_t x[2 * 128], out[2 * 128];
  const int64_t experts[] = {1, 15, 9, -1};
  const float weights[4] = {1, 1, 1, 1};
  struct weft_ep_dispatch_args dispatch = WEFT_EP_DISPATCH_ARGS_INIT;
  dispatch.x = x;
  dispatch.num_tokens = 2;
  dispatch.topk_idx = experts;
  dispatch.topk_weights = weights;
  struct weft_ep_recv_args recv = *fake_no_rows();
  recv.rows = 2;
  recv.x = x;
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  uint64_t op;
  setenv("FAKE_ROWS", "3", 1);
  setenv("FAKE_MISSING", "2", 1);
  assert_int_equal(weft_ep_dispatch(ep, &dispatch, &recv, &info, &op), WEFT_ERR_ROOM);
  assert_says("the buffer has room for 2 rows for each expert, but 3 arrived");
  unsetenv("FAKE_ROWS");
  assert_int_equal(info.num_rows, 3);
  struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT;
  struct weft_ep_missing missing[3];
  struct weft_ep_result result = WEFT_EP_RESULT_INIT;
  combine.out = out;
  assert_int_equal(weft_ep_combine(ep, op, &combine, NULL), WEFT_ERR_INVALID);
  assert_says("y is NULL");
  combine.y = x;
  combine.topk_weights = weights;
  assert_int_equal(weft_ep_combine(ep, op, &combine, NULL), WEFT_ERR_INVALID);
  assert_says("given to the dispatch already");
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
  assert_ok(weft_ep_get_stats(ep, &stats));
  assert_int_equal(stats.missing, 2);
  weft_ep_close(ep);
}

// Rows by rank come with their weights or without any.
static void weights_of_rows_by_rank_do_not_come_late(void **state) {
  (void)state;
  weft_ep_t *ep = fake_open(fake_options(0, NULL, 0));
  assert_ok(weft_ep_activate(ep, DEADLINE_MS));
  static uint16_t x[128], out[128];
  const int64_t expert = 0;
  const float weight = 1;
  const struct weft_ep_dispatch_args dispatch = {.size = sizeof dispatch, .x = x, .num_tokens = 1, .topk_idx = &expert};
  struct weft_ep_recv_args recv = *fake_no_rows();
  recv.layout = WEFT_EP_RANK_MAJOR;
  struct weft_ep_combine_args combine = {.size = sizeof combine, .y = x, .out = out, .topk_weights = &weight};
  uint64_t op;
  assert_ok(weft_ep_dispatch(ep, &dispatch, &recv, NULL, &op));
  assert_int_equal(weft_ep_combine(ep, op, &combine, NULL), WEFT_ERR_INVALID);
  assert_says("RANK_MAJOR: give the weights to the dispatch");
  combine.topk_weights = NULL;
  assert_ok(weft_ep_combine(ep, op, &combine, NULL));
  weft_ep_close(ep);
}

static void operations_out_of_turn_are_refused(void **state) {
  (void)state;
  weft_ep_t *eps[1];
  struct weft_ep_dispatch_args none = WEFT_EP_DISPATCH_ARGS_INIT;
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  struct weft_ep_result result = WEFT_EP_RESULT_INIT;
  uint64_t op, ops[2];
  eps[0] = fake_open(fake_options(0, NULL, 0));
  assert_int_equal(weft_ep_dispatch(eps[0], &none, fake_no_rows(), NULL, &op), WEFT_ERR_NOT_CONNECTED);
  assert_ok(weft_ep_activate(eps[0], DEADLINE_MS));
  for (int i = 0; i < 2; i++)
    assert_ok(weft_ep_dispatch(eps[0], &none, fake_no_rows(), &info, &ops[i]));
  assert_int_equal(weft_ep_dispatch(eps[0], &none, fake_no_rows(), NULL, &op), WEFT_ERR_BUSY);
  assert_int_equal(weft_ep_barrier(eps[0]), WEFT_ERR_BUSY);
  assert_int_equal(weft_ep_await(eps[0], ops[0], NULL, &result, 1000), WEFT_ERR_INVALID);
  assert_ok(weft_ep_finish(eps[0], ops[0]));
  assert_int_equal(weft_ep_finish(eps[0], ops[0]), WEFT_ERR_INVALID);
  assert_int_equal(weft_ep_mask_update(eps[0], 3, true), WEFT_ERR_NOT_FOUND);
  assert_ok(weft_ep_mask_update(eps[0], 0, true));
  enum weft_ep_rank_state states[8];
  assert_ok(weft_ep_states(eps[0], states, sizeof states / sizeof *states, NULL));
  assert_int_equal(states[0], WEFT_EP_MASKED);
  assert_int_equal(eps[0]->gpu->control.masked, 1);
  assert_ok(weft_ep_finish(eps[0], ops[1]));
  struct weft_ep_recv_args in_place = *fake_no_rows();
  const void *rows[1];
  in_place.rows_at = rows;
  assert_int_equal(weft_ep_dispatch(eps[0], &none, &in_place, NULL, &op), WEFT_ERR_INVALID);
  weft_ep_close(eps[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(founders_operate, fake_open_store, fake_close_store),
      cmocka_unit_test_setup_teardown(results_do_not_wait_for_a_thread_that_connects, fake_open_store,
                                      fake_close_store),
      cmocka_unit_test_setup_teardown(an_interrupted_wait_leaves_what_was_launched, fake_open_store, fake_close_store),
      cmocka_unit_test_setup_teardown(a_barrier_names_who_does_not_come, fake_open_store, fake_close_store),
      cmocka_unit_test_setup_teardown(ordered_ranks_are_opened_as_such, fake_open_store, fake_close_store),
      cmocka_unit_test_setup_teardown(auto_without_an_engine_is_host_memory, fake_open_store, fake_close_store),
      cmocka_unit_test_setup_teardown(a_capture_may_be_given_up, fake_open_store, fake_close_store),
      cmocka_unit_test_setup_teardown(what_a_capture_has_begun_does_not_end_outside, fake_open_store, fake_close_store),
      cmocka_unit_test_setup_teardown(what_was_begun_outside_does_not_end_in_a_capture, fake_open_store,
                                      fake_close_store),
      cmocka_unit_test_setup_teardown(captured_launches_have_no_number_and_no_results, fake_open_store,
                                      fake_close_store),
      cmocka_unit_test_setup_teardown(too_many_rows_and_missing_selections_are_reported, fake_open_store,
                                      fake_close_store),
      cmocka_unit_test_setup_teardown(weights_of_rows_by_rank_do_not_come_late, fake_open_store, fake_close_store),
      cmocka_unit_test_setup_teardown(operations_out_of_turn_are_refused, fake_open_store, fake_close_store),
  };
  return cmocka_run_group_tests_name("ep_fake_gpu", tests, NULL, NULL);
}
