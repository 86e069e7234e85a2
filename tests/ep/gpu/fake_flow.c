// Groups for throughput on CUDA memory, on a plug-in without a GPU: what is refused and why, halves and combines of
// operations, and rows to other hosts.
#include "ep/gpu/support/flow.h"

static const struct weft_ep_route_options route_options = WEFT_EP_ROUTE_OPTIONS_INIT;

static void many_tokens_choose_the_mode(void **state) {
  (void)state;
  weft_ep_t *eps[2];
  flow_found(eps, 2);
  for (int i = 0; i < 5; i++) {
    struct weft_ep_info info = WEFT_EP_INFO_INIT;
    fake_operate(eps, 2, &info);
    assert_int_equal(info.num_ranks, 2);
    assert_int_equal(info.num_lost, 0);
  }
  for (int i = 0; i < 2; i++)
    weft_ep_close(eps[i]);
  struct weft_ep_options options = flow_options(0, 0);
  options.mode = (enum weft_ep_mode)0;
  options.max_tokens = 1025;
  options.combine_dtype = WEFT_EP_COMBINE_LOGFMT10;
  weft_ep_t *ep = fake_open(options);
  assert_ok(weft_ep_activate(ep, DEADLINE_MS));
  weft_ep_route_t *route = NULL;
  assert_ok(weft_ep_route_create(ep, &route_options, &route));
  weft_ep_route_free(route);
  weft_ep_close(ep);
}

static void assert_open_refused(struct weft_ep_options options, int rc, const char *words) {
  weft_ep_t *ep = NULL;
  assert_int_equal(weft_ep_open(&ep, &options, DEADLINE_MS), rc);
  assert_says(words);
}

static void openings_that_cannot_be_are_refused(void **state) {
  (void)state;
  struct weft_ep_options options = flow_options(0, 0);
  options.max_processors = 7;
  assert_open_refused(options, WEFT_ERR_INVALID, "max_processors is 7; for THROUGHPUT it must be from 8 to the 132");
  options = flow_options(0, 0);
  options.window_bytes = 60000; // enough for host memory
  assert_open_refused(options, WEFT_ERR_UNSUPPORTED, "window_bytes has no room");
}

static void what_a_group_for_throughput_cannot_do_is_refused(void **state) {
  (void)state;
  weft_ep_t *ep = fake_open(flow_options(0, 0));
  uint64_t op;
  assert_ok(weft_ep_activate(ep, DEADLINE_MS));
  struct weft_ep_dispatch_args args = flow_tokens();
  const struct weft_ep_recv_args *recv = fake_no_rows();
#define DISPATCH(field, value, rc, words)                                                                              \
  args = flow_tokens();                                                                                                \
  args.field = value;                                                                                                  \
  assert_int_equal(weft_ep_dispatch(ep, &args, recv, NULL, &op), rc);                                                  \
  assert_says(words)
  DISPATCH(processors, 7, WEFT_ERR_INVALID, "dispatch: processors is 7; it must be from 8 to 132, or 0 for 24");
  DISPATCH(processors, 133, WEFT_ERR_INVALID, "processors is 133");
  DISPATCH(row_stride, 264, WEFT_ERR_INVALID, "row_stride is 264");
  args = flow_tokens();
  args.dtype = WEFT_EP_OPAQUE;
  args.row_bytes = 16;
  args.scales = flow_x;
  args.scale_bytes = 516;
  assert_int_equal(weft_ep_dispatch(ep, &args, recv, NULL, &op), WEFT_ERR_UNSUPPORTED);
  assert_says("dispatch: scale_bytes is 516; on CUDA memory a row has at most 512");
  args = flow_tokens();
  assert_int_equal(weft_ep_next_op(ep), 0);
  args.processors = 8;
  args.topk_weights = NULL;
  assert_ok(weft_ep_dispatch(ep, &args, recv, NULL, &op));
  struct weft_ep_combine_args combine;
#define COMBINE(field, value, rc, words)                                                                               \
  combine = (struct weft_ep_combine_args)WEFT_EP_COMBINE_ARGS_INIT;                                                    \
  combine.out = flow_y;                                                                                                \
  combine.field = value;                                                                                               \
  assert_int_equal(weft_ep_combine(ep, op, &combine, NULL), rc);                                                       \
  assert_says(words)
  COMBINE(topk_weights, flow_weights, WEFT_ERR_INVALID, "they have to be given to the dispatch");
  COMBINE(processors, 3, WEFT_ERR_INVALID, "combine: processors is 3");
  COMBINE(flags, 0, WEFT_ERR_INVALID, "the dispatch had no topk_weights: give them to the dispatch, or set UNWEIGHTED");
  COMBINE(row_weights, flow_weights, WEFT_ERR_INVALID, "the dispatch had no topk_weights");
  combine.row_weights = NULL;
  combine.flags = WEFT_EP_COMBINE_UNWEIGHTED;
  combine.out_weights = (float *)flow_y;
  combine.bias[0] = flow_y;
  assert_ok(weft_ep_combine(ep, op, &combine, NULL));
  weft_ep_close(ep);
}

static void assert_no_more(weft_ep_t *ep, const struct weft_ep_combine_args *combine, uint64_t op) {
  assert_int_equal(weft_ep_combine_send(ep, op, combine), WEFT_ERR_INVALID);
  assert_int_equal(weft_ep_combine(ep, op, combine, NULL), WEFT_ERR_INVALID);
}

// One rank calls single halves, the other both at once.
static void single_halves_meet_whole_operations(void **state) {
  (void)state;
  weft_ep_t *eps[2];
  uint64_t ops[2];
  flow_found(eps, 2);
  for (int i = 0; i < 6; i++) {
    struct weft_ep_dispatch_args args = flow_tokens();
    struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT;
    struct weft_ep_info info = WEFT_EP_INFO_INIT;
    combine.y = flow_y;
    combine.out = flow_y;
    assert_ok(weft_ep_dispatch_send(eps[0], &args, &ops[0]));
    assert_int_equal(weft_ep_await(eps[0], ops[0], &info, NULL, 0), WEFT_ERR_INVALID);
    assert_says("has not been received");
    assert_ok(weft_ep_dispatch(eps[1], &args, fake_no_rows(), NULL, &ops[1]));
    assert_ok(weft_ep_dispatch_recv(eps[0], ops[0], fake_no_rows(), NULL));
    assert_ok(weft_ep_await(eps[0], ops[0], &info, NULL, DEADLINE_MS));
    assert_int_equal(info.num_lost, 0);
    assert_ok(weft_ep_combine_send(eps[0], ops[0], &combine));
    assert_no_more(eps[0], &combine, ops[0]);
    assert_ok(weft_ep_combine(eps[1], ops[1], &combine, NULL));
    assert_ok(weft_ep_combine_recv(eps[0], ops[0], &combine, NULL));
    assert_int_equal(ops[0], ops[1]);
    assert_no_more(eps[0], &combine, ops[0]);
  }
  for (int i = 0; i < 2; i++)
    weft_ep_close(eps[i]);
}

// A window has room for one operation's rows, and for one combine's answers.
static void a_half_is_received_before_another_is_sent(void **state) {
  (void)state;
  weft_ep_t *ep = fake_open(flow_options(0, 0));
  struct weft_ep_dispatch_args args = flow_tokens();
  struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT;
  uint64_t first, second, op;
  combine.y = flow_y;
  combine.out = flow_y;
  assert_ok(weft_ep_activate(ep, DEADLINE_MS));
  assert_ok(weft_ep_dispatch_send(ep, &args, &first));
  assert_int_equal(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_BUSY);
  assert_says("operation 0 was sent but not received");
  assert_int_equal(weft_ep_dispatch(ep, &args, fake_no_rows(), NULL, &op), WEFT_ERR_BUSY);
  assert_int_equal(weft_ep_next_op(ep), 1);
  assert_ok(weft_ep_dispatch_recv(ep, first, fake_no_rows(), NULL));
  assert_ok(weft_ep_dispatch_send(ep, &args, &second));
  assert_ok(weft_ep_combine_send(ep, first, &combine));
  assert_ok(weft_ep_dispatch_recv(ep, second, fake_no_rows(), NULL));
  assert_int_equal(weft_ep_combine_send(ep, second, &combine), WEFT_ERR_BUSY);
  assert_says("the combine of operation 0 was sent but not received: receive it first");
  assert_int_equal(weft_ep_combine(ep, second, &combine, NULL), WEFT_ERR_BUSY);
  assert_ok(weft_ep_combine_recv(ep, first, &combine, NULL));
  assert_ok(weft_ep_combine(ep, second, &combine, NULL));
  weft_ep_close(ep);
}

// What a capture that was given up has left open is not looked for when another one ends its operation.
static void a_capture_may_be_given_up(void **state) {
  (void)state;
  weft_ep_t *ep = fake_open(flow_options(0, 0));
  struct weft_ep_dispatch_args args = flow_tokens();
  struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT;
  char why[DEVICE_WHY];
  uint64_t op;
  void *graph, *stream = &graph;
  combine.y = combine.out = flow_y;
  args.stream = combine.stream = stream;
  assert_ok(weft_ep_activate(ep, DEADLINE_MS));
  const struct ep_gpu *gpu = ep->gpu;
  for (int i = 0; i < 3; i++) {
    assert_int_equal(gpu->api->graph_begin(gpu->device, stream, why), 0);
    assert_ok(weft_ep_dispatch(ep, &args, fake_no_rows(), NULL, &op));
    if (i == 2)
      assert_ok(weft_ep_combine(ep, op, &combine, NULL));
    assert_int_equal(gpu->api->graph_end(gpu->device, stream, &graph, why), 0);
    gpu->api->graph_close(gpu->device, graph);
  }
  weft_ep_close(ep);
}

static void an_operation_is_combined_again(void **state) {
  (void)state;
  weft_ep_t *ep = fake_open(flow_options(0, 0));
  struct weft_ep_dispatch_args args = flow_tokens();
  struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT;
  uint64_t op, next;
  combine.y = flow_y;
  combine.out = flow_y;
  assert_ok(weft_ep_activate(ep, DEADLINE_MS));
  assert_ok(weft_ep_dispatch(ep, &args, fake_no_rows(), NULL, &op));
  combine.flags = WEFT_EP_COMBINE_KEEP;
  assert_ok(weft_ep_combine(ep, op, &combine, NULL));
  assert_ok(weft_ep_combine_send(ep, op, &combine));
  assert_int_equal(weft_ep_finish(ep, op), WEFT_ERR_INVALID);
  assert_ok(weft_ep_combine_recv(ep, op, &combine, NULL));
  assert_ok(weft_ep_dispatch(ep, &args, fake_no_rows(), NULL, &next));
  combine.flags = 0;
  assert_int_equal(weft_ep_combine(ep, next, &combine, NULL), WEFT_ERR_INVALID);
  assert_says("operations end in order: end that one first, or set KEEP");
  combine.flags = WEFT_EP_COMBINE_KEEP;
  assert_ok(weft_ep_combine(ep, next, &combine, NULL));
  assert_int_equal(weft_ep_combine(ep, op, &combine, NULL), WEFT_ERR_INVALID); // where LATENCY needs no order
  assert_says("operation 1 has been combined already");
  assert_ok(weft_ep_finish(ep, op));
  assert_ok(weft_ep_combine(ep, next, &combine, NULL));
  args.flags = WEFT_EP_DISPATCH_RECYCLE;
  for (int i = 0; i < 4; i++)
    assert_ok(weft_ep_dispatch(ep, &args, fake_no_rows(), NULL, &op));
  weft_ep_close(ep);
}

// By the type of the combine, not of the group: a pair of bf16 values counts twice its values, and one of logfmt10 the
// codes of 10 bits and 4 bytes of scales for each 128 values.
static void a_combine_counts_the_bytes_of_its_type(void **state) {
  (void)state;
  struct weft_ep_options options = flow_options(0, 0);
  options.combine_dtype = WEFT_EP_COMBINE_BF16;
  weft_ep_t *ep = fake_open(options);
  uint64_t op, pairs = 2 * options.topk, hidden = options.hidden, sum = 0;
  assert_ok(weft_ep_activate(ep, DEADLINE_MS));
  const uint64_t bytes[] = {[0] = 2 * hidden,
                            [WEFT_EP_COMBINE_BF16] = 2 * hidden,
                            [WEFT_EP_COMBINE_LOGFMT10] = hidden * 10 / 8 + hidden / 128 * 4};
  for (int dtype = 0; dtype <= WEFT_EP_COMBINE_LOGFMT10; dtype++) {
    struct weft_ep_dispatch_args args = flow_tokens();
    struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT;
    struct weft_ep_result result = WEFT_EP_RESULT_INIT;
    combine.y = flow_y;
    combine.out = flow_y;
    combine.dtype = (enum weft_ep_combine_dtype)dtype;
    assert_ok(weft_ep_dispatch(ep, &args, fake_no_rows(), NULL, &op));
    assert_ok(weft_ep_combine(ep, op, &combine, NULL));
    assert_ok(weft_ep_await(ep, op, NULL, &result, DEADLINE_MS));
    assert_int_equal(result.logical_bytes, pairs * bytes[dtype]);
    sum += result.logical_bytes;
  }
  struct weft_ep_stats stats = WEFT_EP_STATS_INIT;
  assert_ok(weft_ep_get_stats(ep, &stats));
  assert_int_equal(stats.combine_logical_bytes, sum);
  weft_ep_close(ep);
}

// With and without flow_weights of the dispatch, by expert and by rank: the fake refuses flow_weights that nobody is to
// use.
static void what_is_missing_is_made_up_for_without_weights(void **state) {
  (void)state;
  weft_ep_t *ep = fake_open(flow_options(0, 0));
  uint64_t op;
  assert_ok(weft_ep_activate(ep, DEADLINE_MS));
  struct weft_ep_recv_args by_rank = *fake_no_rows();
  by_rank.layout = WEFT_EP_RANK_MAJOR;
  for (int i = 0; i < 4; i++) {
    struct weft_ep_dispatch_args args = flow_tokens();
    struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT;
    args.topk_weights = i % 2 ? flow_weights : NULL;
    combine.out = flow_y;
    combine.flags = WEFT_EP_COMBINE_RENORMALIZE | WEFT_EP_COMBINE_UNWEIGHTED;
    combine.dtype = i == 1 ? WEFT_EP_COMBINE_LOGFMT10 : (enum weft_ep_combine_dtype)0;
    assert_ok(weft_ep_dispatch(ep, &args, i < 2 ? fake_no_rows() : &by_rank, NULL, &op));
    assert_ok(weft_ep_combine(ep, op, &combine, NULL));
  }
  struct weft_ep_dispatch_args none = flow_tokens();
  struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT;
  none.topk_weights = NULL;
  combine.out = flow_y;
  combine.flags = WEFT_EP_COMBINE_RENORMALIZE;
  assert_ok(weft_ep_dispatch(ep, &none, &by_rank, NULL, &op));
  assert_ok(weft_ep_combine(ep, op, &combine, NULL));
  weft_ep_close(ep);
}

static void a_group_for_latency_refuses_what_it_cannot_do(void **state) {
  (void)state;
  weft_ep_t *ep = fake_open(fake_options(0, NULL, 0));
  uint64_t op;
  assert_ok(weft_ep_activate(ep, DEADLINE_MS));
  struct weft_ep_recv_args recv = *fake_no_rows();
  struct weft_ep_dispatch_args none = WEFT_EP_DISPATCH_ARGS_INIT;
  recv.layout = WEFT_EP_PACKED;
  assert_int_equal(weft_ep_dispatch(ep, &none, &recv, NULL, &op), WEFT_ERR_UNSUPPORTED);
  assert_says("the layout PACKED is not supported yet: on CUDA memory open the group for THROUGHPUT");
  none.dtype = WEFT_EP_OPAQUE;
  none.row_bytes = 16;
  assert_int_equal(weft_ep_dispatch(ep, &none, fake_no_rows(), NULL, &op), WEFT_ERR_UNSUPPORTED);
  assert_says("open the group for THROUGHPUT");
  op = fake_launch(ep);
  none = (struct weft_ep_dispatch_args)WEFT_EP_DISPATCH_ARGS_INIT;
  assert_ok(weft_ep_dispatch(ep, &none, fake_no_rows(), NULL, &op));
  struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT;
  combine.bias[1] = flow_y;
  assert_int_equal(weft_ep_combine(ep, op, &combine, NULL), WEFT_ERR_UNSUPPORTED);
  assert_says("bias is not supported yet");
  combine.bias[1] = NULL;
  combine.flags = WEFT_EP_COMBINE_UNWEIGHTED;
  assert_int_equal(weft_ep_combine(ep, op, &combine, NULL), WEFT_ERR_UNSUPPORTED);
  weft_ep_route_t *route = NULL;
  assert_int_equal(weft_ep_route_create(ep, &route_options, &route), WEFT_ERR_UNSUPPORTED);
  assert_says("open the group for THROUGHPUT");
  weft_ep_close(ep);
}

// The plug-in of the tests has a few rows for each peer and operation, and ends the process when one is wrong.
static void rows_go_to_other_hosts_by_the_relay(void **state) {
  (void)state;
  static const int32_t list[] = {0, 1, 2};
  struct fake_activation activations[3];
  weft_ep_t *eps[3];
  for (int i = 0; i < 3; i++) {
    struct weft_ep_options options = flow_options(i, 3);
    options.host_id = i ? "odd" : "even"; // 1 and 2 share a host
    options.transport = "shm";
    eps[i] = fake_open(options);
    fake_begin(&activations[i], eps[i]);
  }
  for (int i = 0; i < 3; i++)
    fake_end(&activations[i]);
  for (int n = 0; n < 40; n++) {
    struct weft_ep_info info = WEFT_EP_INFO_INIT;
    fake_operate(eps, 3, &info);
    assert_true(info.num_ranks == 3 && info.num_lost == 0);
  }
  for (uint32_t i = 1; i < 3; i++) {
    struct ep_link *link = ep_link_find(eps[0], list[i], 0);
    assert_non_null(link);
    assert_non_null(link->device.host_in);
  }
  assert_null(ep_link_find(eps[1], list[2], 0)->device.host_in);
  for (int i = 0; i < 3; i++)
    weft_ep_close(eps[i]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_open_store, fake_close_store)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(many_tokens_choose_the_mode),
      TEST(openings_that_cannot_be_are_refused),
      TEST(what_a_group_for_throughput_cannot_do_is_refused),
      TEST(single_halves_meet_whole_operations),
      TEST(a_half_is_received_before_another_is_sent),
      TEST(a_capture_may_be_given_up),
      TEST(an_operation_is_combined_again),
      TEST(a_combine_counts_the_bytes_of_its_type),
      TEST(what_is_missing_is_made_up_for_without_weights),
      TEST(a_group_for_latency_refuses_what_it_cannot_do),
      TEST(rows_go_to_other_hosts_by_the_relay),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
