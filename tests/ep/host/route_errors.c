// What is wrong with a route's arguments, and when: each gets its code and its sentence, nothing is sent, and what was
// open goes on. Handles that are closed, forked, freed.
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "ep/support/rank.h"

enum { HIDDEN = 128, TOKENS = 4, TOPK = 2, CAPACITY = 4, EXPERTS = 2, ROWS = 8, SOON_MS = 10000 };

static weft_store_t *store;
static weft_ep_t *ep;

static uint16_t x[TOKENS * HIDDEN], received[EXPERTS * ROWS * HIDDEN], out[TOKENS * HIDDEN];
static const int64_t topk_idx[TOKENS * TOPK] = {0, 1, 1, -1, 0, 1, 0, -1};
static const float weights[TOKENS * TOPK] = {1, 1, 1, 1, 1, 1, 1, 1};
static int32_t counts[EXPERTS];

static weft_ep_t *open_alone(const char *prefix) {
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  weft_ep_t *opened = NULL;
  options.store = store;
  options.prefix = prefix;
  options.rank = 0;
  options.capacity = CAPACITY;
  options.hidden = HIDDEN;
  options.max_tokens = TOKENS;
  options.topk = TOPK;
  assert_int_equal(weft_ep_open(&opened, &options, SOON_MS), 0);
  assert_int_equal(weft_ep_activate(opened, SOON_MS), 0);
  return opened;
}

static int open_rank(void **state) {
  (void)state;
  if (weft_store_open_local(&store) != 0)
    return -1;
  ep = open_alone("/errors/");
  return 0;
}

static int close_rank(void **state) {
  (void)state;
  weft_ep_close(ep);
  weft_store_close(store);
  return 0;
}

#define expect(call, code, words)                                                                                      \
  do {                                                                                                                 \
    int rc_ = (call);                                                                                                  \
    if (rc_ != (code) || !strstr(weft_last_error(), words))                                                            \
      fail_msg("%s, \"%s\" is not %s, \"%s\"", weft_err_name(rc_), weft_last_error(), weft_err_name(code), words);     \
  } while (0)

static struct weft_ep_dispatch_args good_dispatch(weft_ep_route_t *route) {
  struct weft_ep_dispatch_args args = WEFT_EP_DISPATCH_ARGS_INIT;
  args.x = x;
  args.num_tokens = TOKENS;
  args.topk_idx = topk_idx;
  args.topk_weights = weights;
  args.route = route;
  return args;
}

static struct weft_ep_dispatch_args good_kept(weft_ep_route_t *route) {
  struct weft_ep_dispatch_args args = good_dispatch(route);
  args.topk_idx = NULL;
  args.topk_weights = NULL;
  return args;
}

static struct weft_ep_recv_args good_recv(void) {
  struct weft_ep_recv_args recv = WEFT_EP_RECV_ARGS_INIT;
  recv.x = received;
  recv.rows = ROWS;
  recv.counts = counts;
  return recv;
}

static struct weft_ep_combine_args good_combine(void) {
  struct weft_ep_combine_args args = WEFT_EP_COMBINE_ARGS_INIT;
  args.y = received;
  args.out = out;
  return args;
}

static weft_ep_route_t *make(struct weft_ep_route_options options) {
  weft_ep_route_t *route = NULL;
  assert_int_equal(weft_ep_route_create(ep, &options, &route), 0);
  return route;
}

static weft_ep_route_t *make_filled(void) {
  weft_ep_route_t *route = make((struct weft_ep_route_options)WEFT_EP_ROUTE_OPTIONS_INIT);
  struct weft_ep_dispatch_args args = good_dispatch(route);
  struct weft_ep_recv_args recv = good_recv();
  uint64_t op;
  assert_int_equal(weft_ep_dispatch(ep, &args, &recv, NULL, &op), 0);
  assert_int_equal(weft_ep_finish(ep, op), 0);
  return route;
}

static void options_that_no_route_can_have(void **state) {
  (void)state;
  weft_ep_route_t *route = NULL;
  struct weft_ep_route_options options;
#define REFUSED(field, value, words)                                                                                   \
  options = (struct weft_ep_route_options)WEFT_EP_ROUTE_OPTIONS_INIT;                                                  \
  options.field = value;                                                                                               \
  expect(weft_ep_route_create(ep, &options, &route), WEFT_ERR_INVALID, words)
  REFUSED(max_tokens, TOKENS + 1, "max_tokens is 5; it is 4 at most");
  REFUSED(topk, TOPK + 1, "topk is 3; it is 2 at most");
  REFUSED(alignment, 257, "alignment is 257; it is 256 at most");
  REFUSED(max_rows, UINT32_MAX, "max_rows is 4294967295; with top-2 at most");
  REFUSED(flags, 1, "bit 0x1");
  REFUSED(reserved, 1, "reserved is 1");
  REFUSED(size, 8, "weft_ep_route_options");
#undef REFUSED
  expect(weft_ep_route_create(ep, NULL, &route), WEFT_ERR_INVALID, "weft_ep_route_options");
  options = (struct weft_ep_route_options)WEFT_EP_ROUTE_OPTIONS_INIT;
  expect(weft_ep_route_create(NULL, &options, &route), WEFT_ERR_INVALID, "ep is NULL");
  expect(weft_ep_route_create(ep, &options, NULL), WEFT_ERR_INVALID, "route is NULL");
  assert_null(route);
}

static void what_is_not_filled_serves_nobody(void **state) {
  (void)state;
  weft_ep_route_t *route = make((struct weft_ep_route_options)WEFT_EP_ROUTE_OPTIONS_INIT);
  struct weft_ep_dispatch_args kept = good_kept(route), fill = good_dispatch(route);
  struct weft_ep_recv_args recv = good_recv();
  struct weft_ep_combine_args combine = good_combine();
  struct weft_ep_route_info info = WEFT_EP_ROUTE_INFO_INIT;
  uint64_t op, other, before = weft_ep_next_op(ep);
  expect(weft_ep_dispatch_send(ep, &kept, &op), WEFT_ERR_INVALID, "no dispatch has filled the route");
  expect(weft_ep_combine_route(ep, route, &combine, NULL, &op), WEFT_ERR_INVALID, "no dispatch has filled the route");
  expect(weft_ep_route_await(route, &info, 0), WEFT_ERR_INVALID, "no dispatch has filled the route");
  assert_int_equal(weft_ep_route_plan(route, topk_idx, TOKENS, NULL), 0);
  expect(weft_ep_route_await(route, &info, 0), WEFT_ERR_INVALID, "no dispatch has filled the route");
  assert_int_equal(weft_ep_dispatch_send(ep, &fill, &op), 0);
  expect(weft_ep_route_await(route, &info, 0), WEFT_ERR_TIMEOUT, "has not been received");
  expect(weft_ep_dispatch_send(ep, &kept, &other), WEFT_ERR_INVALID, "has not been received");
  expect(weft_ep_dispatch_send(ep, &fill, &other), WEFT_ERR_BUSY, "open operations need what the route has");
  expect(weft_ep_route_plan(route, topk_idx, TOKENS, NULL), WEFT_ERR_BUSY, "open operations need what the route has");
  assert_int_equal(weft_ep_dispatch_recv(ep, op, &recv, NULL), 0);
  assert_int_equal(weft_ep_route_await(route, NULL, 0), 0);
  assert_int_equal(weft_ep_route_await(route, &info, 0), 0);
  assert_int_equal(info.num_rows, TOKENS);
  assert_int_equal(info.op, before);
  assert_int_equal(weft_ep_finish(ep, op), 0);
  assert_int_equal(weft_ep_next_op(ep), before + 1);
  weft_ep_route_free(route);
}

static void what_a_dispatch_must_not_say(void **state) {
  (void)state;
  weft_ep_route_t *route = make_filled();
  struct weft_ep_dispatch_args args;
  uint32_t fewer = TOKENS - 1;
  uint64_t op, before = weft_ep_next_op(ep);
#define REFUSED(start, field, value, words)                                                                            \
  args = start(route);                                                                                                 \
  args.field = value;                                                                                                  \
  expect(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_INVALID, words)
  REFUSED(good_kept, topk_weights, weights, "the route has kept those");
  REFUSED(good_kept, num_tokens, TOKENS - 1, "3 tokens, and those of the route are 4");
  REFUSED(good_kept, num_tokens_at, &fewer, "3 tokens, and those of the route are 4");
  REFUSED(good_kept, topk, 1, "topk is 1, and that of the route is 2");
  REFUSED(good_kept, x, NULL, "x is NULL");
  REFUSED(good_kept, flags, WEFT_EP_DISPATCH_CHECK_ROUTE, "topk_idx is NULL");
  REFUSED(good_dispatch, topk_idx32, counts, "both given");
  args = good_dispatch(NULL);
  args.flags = WEFT_EP_DISPATCH_CHECK_ROUTE;
  expect(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_INVALID, "CHECK_ROUTE is set, but route is NULL");
#undef REFUSED
  assert_int_equal(weft_ep_next_op(ep), before);
  weft_ep_route_free(route);
}

// A changed top-k behind a route is told with its place; of a plan, too.
static void a_changed_top_k_is_named(void **state) {
  (void)state;
  int64_t changed[TOKENS * TOPK];
  int32_t narrow[TOKENS * TOPK];
  memcpy(changed, topk_idx, sizeof changed);
  changed[5] = 0;
  for (int i = 0; i < TOKENS * TOPK; i++)
    narrow[i] = (int32_t)topk_idx[i];
  struct weft_ep_recv_args recv = good_recv();
  uint64_t op;
  weft_ep_route_t *routes[] = {make_filled(), make((struct weft_ep_route_options)WEFT_EP_ROUTE_OPTIONS_INIT)};
  struct weft_ep_dispatch_args args = good_dispatch(routes[1]);
  args.flags = WEFT_EP_DISPATCH_CHECK_ROUTE;
  expect(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_INVALID, "the route knows no top-k");
  assert_int_equal(weft_ep_route_plan(routes[1], topk_idx, TOKENS, NULL), 0);
  for (int i = 0; i < 2; i++) {
    args = good_dispatch(routes[i]);
    args.topk_weights = i == 0 ? NULL : weights;
    args.topk_idx = changed;
    args.flags = WEFT_EP_DISPATCH_CHECK_ROUTE;
    expect(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_INVALID,
           "topk_idx[2][1] is 0, but the route was made with 1");
    args.num_tokens = 1;
    expect(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_INVALID, "1 tokens, and those of the route are 4");
    args.num_tokens = TOKENS;
    args.topk_idx = NULL;
    args.topk_idx32 = narrow;
    assert_int_equal(weft_ep_dispatch(ep, &args, &recv, NULL, &op), 0);
    assert_int_equal(weft_ep_finish(ep, op), 0);
    struct weft_ep_route_info info = WEFT_EP_ROUTE_INFO_INIT;
    assert_int_equal(weft_ep_route_await(routes[i], &info, 0), 0);
    assert_int_equal(info.op, i == 0 ? op - 1 : op); // the one was gone by, the other filled
    weft_ep_route_free(routes[i]);
  }
}

static void an_alignment_is_that_of_the_route(void **state) {
  (void)state;
  struct weft_ep_route_options options = WEFT_EP_ROUTE_OPTIONS_INIT;
  options.alignment = 2;
  weft_ep_route_t *route = make(options);
  struct weft_ep_dispatch_args args = good_dispatch(route);
  struct weft_ep_recv_args recv = good_recv();
  uint64_t op, before = weft_ep_next_op(ep);
  recv.layout = WEFT_EP_PACKED;
  expect(weft_ep_dispatch(ep, &args, &recv, NULL, &op), WEFT_ERR_INVALID,
         "alignment is 1, and that of the route that the dispatch fills is 2");
  assert_int_equal(weft_ep_next_op(ep), before);
  assert_int_equal(weft_ep_dispatch_send(ep, &args, &op), 0);
  expect(weft_ep_dispatch_recv(ep, op, &recv, NULL), WEFT_ERR_INVALID, "alignment is 1");
  recv.alignment = 2;
  assert_int_equal(weft_ep_dispatch_recv(ep, op, &recv, NULL), 0);
  assert_int_equal(weft_ep_finish(ep, op), 0);
  args = good_kept(route); // once it is filled, any will do
  recv.alignment = 4;
  assert_int_equal(weft_ep_dispatch(ep, &args, &recv, NULL, &op), 0);
  assert_int_equal(weft_ep_finish(ep, op), 0);
  weft_ep_route_free(route);
}

static void routes_that_are_too_small(void **state) {
  (void)state;
  struct weft_ep_route_options options = WEFT_EP_ROUTE_OPTIONS_INIT;
  options.max_tokens = TOKENS - 1;
  weft_ep_route_t *route = make(options);
  struct weft_ep_dispatch_args args = good_dispatch(route);
  struct weft_ep_recv_args recv = good_recv();
  uint64_t op, before = weft_ep_next_op(ep);
  expect(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_ROOM, "the route has room for 3");
  expect(weft_ep_route_plan(route, topk_idx, TOKENS, NULL), WEFT_ERR_ROOM, "the route has room for 3");
  weft_ep_route_free(route);
  options.max_tokens = 0;
  options.topk = 1;
  route = make(options);
  args = good_dispatch(route);
  expect(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_ROOM, "the route has room for top-1");
  weft_ep_route_free(route);
  assert_int_equal(weft_ep_next_op(ep), before);

  options.topk = 0;
  options.max_rows = TOKENS - 1;
  route = make(options);
  args = good_dispatch(route);
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  struct weft_ep_route_info route_info = WEFT_EP_ROUTE_INFO_INIT;
  assert_int_equal(weft_ep_dispatch(ep, &args, &recv, &info, &op), 0); // nothing of it is lost
  assert_int_equal(info.num_rows, TOKENS + 2);
  assert_int_equal(weft_ep_finish(ep, op), 0);
  expect(weft_ep_route_await(route, &route_info, 0), WEFT_ERR_ROOM, "brought 4 rows, and the route has room for 3");
  assert_int_equal(route_info.num_rows, TOKENS);
  struct weft_ep_dispatch_args kept = good_kept(route);
  struct weft_ep_combine_args combine = good_combine();
  expect(weft_ep_dispatch_send(ep, &kept, &op), WEFT_ERR_ROOM, "give max_rows");
  expect(weft_ep_combine_route(ep, route, &combine, NULL, &op), WEFT_ERR_ROOM, "give max_rows");
  args.num_tokens = TOKENS - 1; // fewer tokens fit
  kept.num_tokens = TOKENS - 1;
  assert_int_equal(weft_ep_dispatch(ep, &args, &recv, NULL, &op), 0);
  assert_int_equal(weft_ep_finish(ep, op), 0);
  assert_int_equal(weft_ep_dispatch(ep, &kept, &recv, NULL, &op), 0);
  assert_int_equal(weft_ep_finish(ep, op), 0);
  weft_ep_route_free(route);
}

static void what_a_combine_by_a_route_must_not_say(void **state) {
  (void)state;
  weft_ep_route_t *route = make_filled();
  uint64_t op, before = weft_ep_next_op(ep);
  struct weft_ep_combine_args args;
#define REFUSED(field, value, words)                                                                                   \
  args = good_combine();                                                                                               \
  args.field = value;                                                                                                  \
  expect(weft_ep_combine_route(ep, route, &args, NULL, &op), WEFT_ERR_INVALID, words)
  REFUSED(y, NULL, "y is NULL, and the route brought 4 rows");
  REFUSED(out, NULL, "out is NULL");
  REFUSED(topk_weights, weights, "the route has kept those");
  REFUSED(flags, 1u << 9, "bit 0x200");
  REFUSED(row_weights, weights, "not received RANK_MAJOR");
  REFUSED(size, 8, "weft_ep_combine_args");
#undef REFUSED
  args = good_combine();
  expect(weft_ep_combine_route(ep, NULL, &args, NULL, &op), WEFT_ERR_INVALID, "route is NULL");
  expect(weft_ep_combine_route(ep, route, &args, NULL, NULL), WEFT_ERR_INVALID, "op is NULL");
  expect(weft_ep_combine_route(NULL, route, &args, NULL, &op), WEFT_ERR_INVALID, "ep is NULL");
  struct weft_ep_dispatch_args none = WEFT_EP_DISPATCH_ARGS_INIT;
  uint64_t open[2];
  assert_int_equal(weft_ep_dispatch_send(ep, &none, &open[0]), 0);
  assert_int_equal(weft_ep_dispatch_send(ep, &none, &open[1]), 0);
  expect(weft_ep_combine_route(ep, route, &args, NULL, &op), WEFT_ERR_BUSY, "still open");
  struct weft_ep_recv_args recv = good_recv();
  for (int i = 0; i < 2; i++) {
    assert_int_equal(weft_ep_dispatch_recv(ep, open[i], &recv, NULL), 0);
    assert_int_equal(weft_ep_finish(ep, open[i]), 0);
  }
  assert_int_equal(weft_ep_next_op(ep), before + 2);
  weft_ep_route_free(route);
}

// A route that was filled without weights: each combine brings its own.
static void late_weights(void **state) {
  (void)state;
  weft_ep_route_t *route = make((struct weft_ep_route_options)WEFT_EP_ROUTE_OPTIONS_INIT);
  struct weft_ep_dispatch_args args = good_dispatch(route);
  struct weft_ep_recv_args recv = good_recv();
  struct weft_ep_combine_args combine = good_combine();
  uint64_t op;
  args.topk_weights = NULL;
  assert_int_equal(weft_ep_dispatch(ep, &args, &recv, NULL, &op), 0);
  assert_int_equal(weft_ep_finish(ep, op), 0);
  expect(weft_ep_combine_route(ep, route, &combine, NULL, &op), WEFT_ERR_INVALID, "topk_weights is NULL");
  combine.topk_weights = weights;
  assert_int_equal(weft_ep_combine_route(ep, route, &combine, NULL, &op), 0);
  args = good_kept(route);
  recv.layout = WEFT_EP_RANK_MAJOR;
  assert_int_equal(weft_ep_dispatch(ep, &args, &recv, NULL, &op), 0);
  expect(weft_ep_combine(ep, op, &combine, NULL), WEFT_ERR_INVALID, "RANK_MAJOR");
  combine.topk_weights = NULL;
  assert_int_equal(weft_ep_combine(ep, op, &combine, NULL), 0);
  weft_ep_route_free(route);
}

static void routes_of_others(void **state) {
  (void)state;
  weft_ep_t *other = open_alone("/other/");
  weft_ep_route_t *route = NULL, *kept = NULL;
  struct weft_ep_route_options options = WEFT_EP_ROUTE_OPTIONS_INIT;
  assert_int_equal(weft_ep_route_create(other, &options, &route), 0);
  assert_int_equal(weft_ep_route_create(other, &options, &kept), 0);
  struct weft_ep_dispatch_args args = good_dispatch(route);
  struct weft_ep_combine_args combine = good_combine();
  struct weft_ep_route_info info = WEFT_EP_ROUTE_INFO_INIT;
  struct weft_ep_route_arrays arrays = WEFT_EP_ROUTE_ARRAYS_INIT;
  uint64_t op;
  expect(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_INVALID, "made for another handle");
  expect(weft_ep_combine_route(ep, route, &combine, NULL, &op), WEFT_ERR_INVALID, "made for another handle");
  // An operation that is open by a route which is freed, when its rank is closed.
  args.route = kept;
  assert_int_equal(weft_ep_dispatch_send(other, &args, &op), 0);
  weft_ep_route_free(kept);
  weft_ep_close(other);
  args.route = route;
  expect(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_CLOSED, "is closed");
  expect(weft_ep_combine_route(ep, route, &combine, NULL, &op), WEFT_ERR_CLOSED, "is closed");
  expect(weft_ep_route_plan(route, topk_idx, TOKENS, NULL), WEFT_ERR_CLOSED, "is closed");
  expect(weft_ep_route_await(route, &info, 0), WEFT_ERR_CLOSED, "is closed");
  expect(weft_ep_route_get_arrays(route, &arrays), WEFT_ERR_CLOSED, "is closed");
  weft_ep_route_free(route);
  weft_ep_route_free(NULL);
}

static void plans(void **state) {
  (void)state;
  weft_ep_route_t *route = make((struct weft_ep_route_options)WEFT_EP_ROUTE_OPTIONS_INIT);
  static const int64_t wrong[TOPK] = {0, CAPACITY * EXPERTS}, absent[TOPK] = {1, 2};
  struct weft_ep_route_arrays arrays = WEFT_EP_ROUTE_ARRAYS_INIT;
  expect(weft_ep_route_plan(route, wrong, 1, NULL), WEFT_ERR_INVALID, "route_plan: topk_idx[0][1] is 8");
  expect(weft_ep_route_plan(route, NULL, 1, NULL), WEFT_ERR_INVALID, "topk_idx is NULL");
  expect(weft_ep_route_get_arrays(route, NULL), WEFT_ERR_INVALID, "arrays is NULL");
  assert_int_equal(weft_ep_route_get_arrays(route, &arrays), 0);
  assert_int_equal(weft_ep_route_plan(route, absent, 1, NULL), 0); // rank 1 is not there
  assert_int_equal(arrays.tokens_per_rank[0], 1);
  assert_int_equal(arrays.tokens_per_rank[1], 0);
  assert_int_equal(arrays.tokens_per_expert[2], 1);
  assert_int_equal(weft_ep_mask_update(ep, 0, true), 0);
  assert_int_equal(weft_ep_route_plan(route, absent, 1, NULL), 0);
  assert_int_equal(arrays.tokens_per_rank[0], 0);
  assert_int_equal(weft_ep_mask_update(ep, 0, false), 0);
  assert_int_equal(weft_ep_route_plan(route, NULL, 0, NULL), 0);
  assert_int_equal(arrays.tokens_per_expert[1], 0);
  weft_ep_route_free(route);
}

// The number of the first call that does not answer as it should; 0: none.
static int use_in_child(weft_ep_route_t *route) {
  struct weft_ep_dispatch_args args = good_kept(route);
  struct weft_ep_combine_args combine = good_combine();
  struct weft_ep_route_info info = WEFT_EP_ROUTE_INFO_INIT;
  struct weft_ep_route_arrays arrays = WEFT_EP_ROUTE_ARRAYS_INIT;
  uint64_t op;
  const int answers[] = {
      weft_ep_route_await(route, &info, 0),     weft_ep_route_plan(route, topk_idx, TOKENS, NULL),
      weft_ep_route_get_arrays(route, &arrays), weft_ep_combine_route(ep, route, &combine, NULL, &op),
      weft_ep_dispatch_send(ep, &args, &op),
  };
  for (int i = 0; i < (int)(sizeof answers / sizeof *answers); i++)
    if (answers[i] != WEFT_ERR_CLOSED)
      return i + 1;
  weft_ep_close(ep);
  if (weft_ep_route_await(route, &info, 0) != WEFT_ERR_CLOSED)
    return 10;
  weft_ep_route_free(route);
  return 0;
}

static void a_forked_child_has_no_route(void **state) {
  (void)state;
  weft_ep_route_t *route = make_filled();
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0)
    _exit(use_in_child(route));
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  assert_int_equal(weft_ep_route_await(route, NULL, 0), 0);
  weft_ep_route_free(route);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(options_that_no_route_can_have),
      cmocka_unit_test(what_is_not_filled_serves_nobody),
      cmocka_unit_test(what_a_dispatch_must_not_say),
      cmocka_unit_test(a_changed_top_k_is_named),
      cmocka_unit_test(an_alignment_is_that_of_the_route),
      cmocka_unit_test(routes_that_are_too_small),
      cmocka_unit_test(what_a_combine_by_a_route_must_not_say),
      cmocka_unit_test(late_weights),
      cmocka_unit_test(routes_of_others),
      cmocka_unit_test(plans),
      cmocka_unit_test(a_forked_child_has_no_route),
  };
  return cmocka_run_group_tests_name("ep_route_errors", tests, open_rank, close_rank);
}
