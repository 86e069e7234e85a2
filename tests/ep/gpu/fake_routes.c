// Routes of groups for throughput on CUDA memory, on a plug-in without a GPU: how they are filled and used, and ranks
// that join and leave between the filling of a route and its use.
#include "ep/gpu/support/flow.h"

static weft_ep_route_t *make_route(weft_ep_t *ep) {
  struct weft_ep_route_options options = WEFT_EP_ROUTE_OPTIONS_INIT;
  weft_ep_route_t *route = NULL;
  options.max_tokens = 3;
  assert_ok(weft_ep_route_create(ep, &options, &route));
  return route;
}

static void a_route_is_filled_and_used(void **state) {
  (void)state;
  weft_ep_t *eps[2];
  weft_ep_route_t *routes[2];
  uint64_t op, filled;
  flow_found(eps, 2);
  for (int i = 0; i < 2; i++)
    routes[i] = make_route(eps[i]);
  struct weft_ep_route_info info = WEFT_EP_ROUTE_INFO_INIT;
  int32_t rows[2];
  assert_int_equal(weft_ep_route_await(routes[0], &info, DEADLINE_MS), WEFT_ERR_INVALID);
  assert_says("no dispatch is filling the route");
  struct weft_ep_dispatch_args args = flow_tokens();
  args.route = routes[0];
  args.topk_idx = NULL;
  args.topk_weights = NULL;
  assert_int_equal(weft_ep_dispatch(eps[0], &args, fake_no_rows(), NULL, &op), WEFT_ERR_INVALID);
  assert_says("no dispatch has filled the route");
  args = flow_tokens();
  args.route = routes[0];
  args.num_tokens = 4;
  assert_int_equal(weft_ep_dispatch(eps[0], &args, fake_no_rows(), NULL, &op), WEFT_ERR_ROOM);
  assert_says("4 tokens, but the route has room for 3");
  args.num_tokens = 2;
  args.route = routes[1];
  assert_int_equal(weft_ep_dispatch(eps[0], &args, fake_no_rows(), NULL, &op), WEFT_ERR_INVALID);
  assert_says("made for another handle");
  assert_int_equal(weft_ep_next_op(eps[0]), 0);
  assert_ok(flow_operate_by(eps, routes, 2, false, &filled));
  info.expert_rows = rows;
  info.expert_cap = 2;
  assert_ok(weft_ep_route_await(routes[0], &info, DEADLINE_MS));
  assert_int_equal(info.op, filled);
  assert_int_equal(info.num_ranks, 2);
  assert_int_equal(info.num_experts, 2);
  struct weft_ep_route_arrays arrays = WEFT_EP_ROUTE_ARRAYS_INIT;
  assert_ok(weft_ep_route_get_arrays(routes[0], &arrays));
  assert_non_null(arrays.tokens_per_rank);
  for (int i = 0; i < 3; i++)
    assert_ok(flow_operate_by(eps, routes, 2, true, &op));
  args = flow_tokens();
  args.route = routes[0];
  args.topk_idx = NULL;
  assert_int_equal(weft_ep_dispatch(eps[0], &args, fake_no_rows(), NULL, &op), WEFT_ERR_INVALID);
  assert_says("the route has kept those that it was filled with");
  args.topk_weights = NULL;
  args.num_tokens = 1;
  assert_int_equal(weft_ep_dispatch(eps[0], &args, fake_no_rows(), NULL, &op), WEFT_ERR_INVALID);
  assert_says("1 tokens, but the route was filled by a dispatch of 2");
  args.num_tokens = 2;
  struct weft_ep_recv_args other = *fake_no_rows();
  other.layout = WEFT_EP_PACKED;
  assert_int_equal(weft_ep_dispatch(eps[0], &args, &other, NULL, &op), WEFT_ERR_UNSUPPORTED);
  assert_says("receive as when the route was filled, or RANK_MAJOR");
  struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT;
  struct weft_ep_result result = WEFT_EP_RESULT_INIT;
  uint64_t ops[2];
  combine.y = flow_y;
  combine.out = flow_y;
  assert_ok(weft_ep_combine_route(eps[1], routes[1], &combine, NULL, &ops[1]));
  assert_ok(weft_ep_combine_route(eps[0], routes[0], &combine, &result, &ops[0]));
  assert_int_equal(ops[0], op = weft_ep_next_op(eps[0]) - 1);
  assert_int_equal(ops[0], ops[1]);
  assert_ok(weft_ep_route_plan(routes[0], flow_experts, 2, NULL));
  assert_int_equal(weft_ep_combine_route(eps[0], routes[0], &combine, NULL, &op), WEFT_ERR_INVALID);
  weft_ep_route_free(routes[1]); // two operations may still be asked about
  weft_ep_close(eps[1]);
  weft_ep_close(eps[0]);
  assert_int_equal(weft_ep_route_await(routes[0], &info, 0), WEFT_ERR_CLOSED);
  weft_ep_route_free(routes[0]);
}

static void a_route_is_filled_and_used_by_halves(void **state) {
  (void)state;
  weft_ep_t *ep = fake_open(flow_options(0, 0));
  struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT;
  struct weft_ep_route_info info = WEFT_EP_ROUTE_INFO_INIT;
  struct weft_ep_dispatch_args args = flow_tokens();
  struct weft_ep_recv_args other = *fake_no_rows();
  uint64_t op, none;
  combine.y = flow_y;
  combine.out = flow_y;
  other.layout = WEFT_EP_PACKED;
  assert_ok(weft_ep_activate(ep, DEADLINE_MS));
  weft_ep_route_t *route = make_route(ep);
  args.route = route;
  assert_ok(weft_ep_dispatch_send(ep, &args, &op));
  assert_int_equal(weft_ep_route_await(route, &info, DEADLINE_MS), WEFT_ERR_INVALID); // not before it is received
  assert_ok(weft_ep_dispatch_recv(ep, op, fake_no_rows(), NULL));
  assert_ok(weft_ep_route_await(route, &info, DEADLINE_MS));
  assert_int_equal(info.op, op);
  assert_ok(weft_ep_finish(ep, op));
  args.topk_idx = NULL;
  args.topk_weights = NULL;
  assert_ok(weft_ep_dispatch_send(ep, &args, &op));
  assert_int_equal(weft_ep_combine_route(ep, route, &combine, NULL, &none), WEFT_ERR_BUSY);
  assert_int_equal(weft_ep_dispatch_recv(ep, op, &other, NULL), WEFT_ERR_UNSUPPORTED);
  assert_says("receive as when the route was filled, or RANK_MAJOR");
  assert_ok(weft_ep_dispatch_recv(ep, op, fake_no_rows(), NULL));
  assert_ok(weft_ep_combine_send(ep, op, &combine));
  assert_ok(weft_ep_combine_recv(ep, op, &combine, NULL));
  combine.flags = WEFT_EP_COMBINE_KEEP;
  assert_ok(weft_ep_combine_route(ep, route, &combine, NULL, &op));
  weft_ep_route_free(route); // the operation needs it until it ends
  assert_ok(weft_ep_combine(ep, op, &combine, NULL));
  assert_ok(weft_ep_finish(ep, op));
  assert_int_equal(weft_ep_finish(ep, op), WEFT_ERR_INVALID);
  weft_ep_close(ep);
}

// CHECK_ROUTE: the error names the place of a changed top-k, with a planned route and with a filled one.
static void a_changed_top_k_is_named(void **state) {
  (void)state;
  weft_ep_t *ep = fake_open(flow_options(0, 0));
  const int64_t changed[] = {0, 1, 3, 2};
  const int32_t narrow[] = {0, 1, 1, 2};
  uint64_t op, filled = UINT64_MAX;
  assert_ok(weft_ep_activate(ep, DEADLINE_MS));
  weft_ep_route_t *route = make_route(ep);
  struct weft_ep_dispatch_args args;
#define CHECKED(field, value, words)                                                                                   \
  args = flow_tokens();                                                                                                \
  args.route = route;                                                                                                  \
  args.topk_weights = filled == UINT64_MAX ? flow_weights : NULL;                                                      \
  args.flags = WEFT_EP_DISPATCH_CHECK_ROUTE;                                                                           \
  args.field = value;                                                                                                  \
  assert_int_equal(weft_ep_dispatch(ep, &args, fake_no_rows(), NULL, &op), WEFT_ERR_INVALID);                          \
  assert_says(words)
  CHECKED(x, flow_x, "the route has no top-k: plan or fill it first");
  assert_ok(weft_ep_route_plan(route, flow_experts, 2, NULL));
  for (int i = 0; i < 2; i++) { // the first dispatch fills the route, the second uses it
    uint64_t before = weft_ep_next_op(ep);
    CHECKED(topk_idx, changed, "dispatch: topk_idx[1][0] is 3, but the route was made with 1");
    CHECKED(num_tokens, 1, "1 tokens, and those of the route are 2");
    CHECKED(topk, 1, "topk is 1, and that of the route is 2");
    CHECKED(num_tokens_at, (const uint32_t *)flow_y, "the route has the number of tokens");
    CHECKED(stream, (void *)1, "check before the capture");
    assert_int_equal(weft_ep_next_op(ep), before);
    args.stream = NULL;
    args.topk_idx = NULL;
    args.topk_idx32 = narrow;
    assert_ok(weft_ep_dispatch(ep, &args, fake_no_rows(), NULL, &op));
    assert_ok(weft_ep_finish(ep, op));
    filled = i == 0 ? op : filled;
    struct weft_ep_route_info info = WEFT_EP_ROUTE_INFO_INIT;
    assert_ok(weft_ep_route_await(route, &info, DEADLINE_MS));
    assert_int_equal(info.op, filled);
  }
  CHECKED(topk_weights, flow_weights, "the route has kept those that it was filled with");
  weft_ep_route_free(route);
  weft_ep_close(ep);
}

static void a_rank_that_uses_another_route_is_lost(void **state) {
  (void)state;
  weft_ep_t *eps[2];
  weft_ep_route_t *routes[2];
  uint64_t ops[2];
  flow_found(eps, 2);
  for (int i = 0; i < 2; i++)
    routes[i] = make_route(eps[i]);
  assert_ok(flow_operate_by(eps, routes, 2, false, &ops[0]));
  struct weft_ep_dispatch_args args = flow_tokens();
  assert_ok(weft_ep_dispatch(eps[1], &args, fake_no_rows(), NULL, &ops[1])); // by none
  args.route = routes[0];
  args.topk_idx = NULL;
  args.topk_weights = NULL;
  assert_ok(weft_ep_dispatch(eps[0], &args, fake_no_rows(), NULL, &ops[0]));
  for (int i = 0; i < 2; i++) {
    struct weft_ep_info info = WEFT_EP_INFO_INIT;
    int32_t lost[2] = {-1, -1};
    info.lost = lost;
    info.lost_cap = 2;
    assert_ok(weft_ep_await(eps[i], ops[i], &info, NULL, DEADLINE_MS));
    assert_int_equal(info.num_lost, 1);
    assert_int_equal(lost[0], 1 - i);
  }
  for (int i = 0; i < 2; i++) {
    weft_ep_route_free(routes[i]);
    weft_ep_close(eps[i]);
  }
}

static void a_rank_that_joins_ends_a_route(void **state) {
  (void)state;
  weft_ep_t *eps[3];
  weft_ep_route_t *routes[3];
  uint64_t op;
  flow_found(eps, 2);
  for (int i = 0; i < 2; i++)
    routes[i] = make_route(eps[i]);
  assert_ok(flow_operate_by(eps, routes, 2, false, &op));
  assert_ok(flow_operate_by(eps, routes, 2, true, &op));
  fake_join(eps, 3, flow_options(2, 0));
  routes[2] = make_route(eps[2]);
  // The two that were there go by their routes; the third has none to go by, and they are lost to each other only where
  // they differ: all three see that it joined.
  struct weft_ep_route_info info = WEFT_EP_ROUTE_INFO_INIT;
  assert_int_equal(weft_ep_route_await(routes[0], &info, DEADLINE_MS), WEFT_ERR_CONFLICT);
  assert_says("rank 2 joined after the route was filled");
  struct weft_ep_dispatch_args args = flow_tokens();
  uint64_t ops[2];
  for (int i = 0; i < 2; i++) {
    args.route = routes[i];
    args.topk_idx = NULL;
    args.topk_weights = NULL;
    assert_ok(weft_ep_dispatch(eps[i], &args, fake_no_rows(), NULL, &ops[i]));
  }
  fake_launch(eps[2]);
  for (int i = 0; i < 2; i++) {
    struct weft_ep_info its = WEFT_EP_INFO_INIT;
    assert_int_equal(weft_ep_await(eps[i], ops[i], &its, NULL, DEADLINE_MS), WEFT_ERR_CONFLICT);
    assert_says("a rank has joined since the route was filled");
  }
  for (int i = 0; i < 3; i++) {
    weft_ep_route_free(routes[i]);
    weft_ep_close(eps[i]);
  }
}

// A dispatch with the route is captured; the replay runs when a third rank is there.
static void a_replay_by_a_route_reports_that_a_rank_joined(void **state) {
  (void)state;
  weft_ep_t *eps[3];
  weft_ep_route_t *routes[2];
  void *graphs[2], *stream = &graphs;
  char why[DEVICE_WHY];
  uint64_t op;
  flow_found(eps, 2);
  for (int i = 0; i < 2; i++)
    routes[i] = make_route(eps[i]);
  assert_ok(flow_operate_by(eps, routes, 2, false, &op));
  for (int i = 0; i < 2; i++) {
    struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT;
    struct weft_ep_dispatch_args args = flow_tokens();
    const struct ep_gpu *gpu = eps[i]->gpu;
    args.route = routes[i];
    args.topk_idx = NULL, args.topk_weights = NULL;
    combine.y = combine.out = flow_y;
    args.stream = combine.stream = stream;
    assert_int_equal(gpu->api->graph_begin(gpu->device, stream, why), 0);
    assert_ok(weft_ep_dispatch(eps[i], &args, fake_no_rows(), NULL, &op));
    assert_ok(weft_ep_combine(eps[i], op, &combine, NULL));
    assert_int_equal(gpu->api->graph_end(gpu->device, stream, &graphs[i], why), 0);
  }
  fake_join(eps, 3, flow_options(2, 0));
  for (int i = 0; i < 2; i++)
    assert_int_equal(eps[i]->gpu->api->graph_launch(eps[i]->gpu->device, graphs[i], NULL, why), 0);
  fake_launch(eps[2]);
  for (int i = 0; i < 2; i++) {
    struct weft_ep_info info = WEFT_EP_INFO_INIT;
    assert_int_equal(eps[i]->gpu->api->stream_wait(eps[i]->gpu->device, NULL, DEADLINE_MS, why), 0);
    assert_int_equal(weft_ep_await(eps[i], UINT64_MAX, &info, NULL, DEADLINE_MS), WEFT_ERR_CONFLICT);
    assert_says("a rank has joined since the route was filled");
  }
  for (int i = 0; i < 2; i++) {
    eps[i]->gpu->api->graph_close(eps[i]->gpu->device, graphs[i]);
    weft_ep_route_free(routes[i]);
  }
  for (int i = 0; i < 3; i++)
    weft_ep_close(eps[i]);
}

static void a_route_outlives_a_rank_that_leaves(void **state) {
  (void)state;
  weft_ep_t *eps[3];
  weft_ep_route_t *routes[3];
  uint64_t op;
  const int32_t leaver = 2;
  flow_found(eps, 3);
  for (int i = 0; i < 3; i++)
    routes[i] = make_route(eps[i]);
  assert_ok(flow_operate_by(eps, routes, 3, false, &op));
  assert_ok(weft_ep_disconnect(eps[0], &leaver, 1, DEADLINE_MS));
  while (weft_ep_is_active(eps[2]))
    fake_operate(eps, 3, NULL);
  while (weft_ep_next_op(eps[0]) < weft_ep_next_op(eps[2]))
    fake_operate(eps, 2, NULL);
  assert_ok(flow_operate_by(eps, routes, 2, true, &op));
  for (int i = 0; i < 3; i++) {
    weft_ep_route_free(routes[i]);
    weft_ep_close(eps[i]);
  }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_open_store, fake_close_store)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_route_is_filled_and_used),
      TEST(a_route_is_filled_and_used_by_halves),
      TEST(a_changed_top_k_is_named),
      TEST(a_rank_that_uses_another_route_is_lost),
      TEST(a_rank_that_joins_ends_a_route),
      TEST(a_replay_by_a_route_reports_that_a_rank_joined),
      TEST(a_route_outlives_a_rank_that_leaves),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
