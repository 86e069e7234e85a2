// Faults in a route's arguments: each gets its error code and message, nothing is sent, and open operations go on. Also
// handles that are closed, forked or freed.
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "ep/support/alone.h"
#include "support/local_store.h"

enum { TOKENS = ALONE_TOKENS, TOPK = ALONE_TOPK };

static weft_ep_t *ep;

static const int64_t topk_idx[TOKENS * TOPK] = {0, 1, 1, -1, 0, 1, 0, -1};

static weft_ep_t *open_in(const char *prefix) {
  struct weft_ep_options options = alone_options(store);
  options.prefix = prefix;
  return alone_open(&options);
}

static int open_rank(void **state) {
  if (open_store(state) != 0)
    return -1;
  ep = open_in("/errors/");
  return 0;
}

static int close_rank(void **state) {
  weft_ep_close(ep);
  return close_store(state);
}

static struct weft_ep_dispatch_args good_dispatch(weft_ep_route_t *route) {
  struct weft_ep_dispatch_args args = alone_dispatch();
  args.topk_idx = topk_idx;
  args.route = route;
  return args;
}

static struct weft_ep_dispatch_args good_kept(weft_ep_route_t *route) {
  struct weft_ep_dispatch_args args = good_dispatch(route);
  args.topk_idx = NULL;
  args.topk_weights = NULL;
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
  struct weft_ep_recv_args recv = alone_recv();
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
  assert_says(weft_ep_route_create(ep, &options, &route), WEFT_ERR_INVALID, words)
  REFUSED(max_tokens, TOKENS + 1, "max_tokens is 5; it is 4 at most");
  REFUSED(topk, TOPK + 1, "topk is 3; it is 2 at most");
  REFUSED(alignment, 257, "alignment is 257; it is 256 at most");
  REFUSED(max_rows, UINT32_MAX, "max_rows is 4294967295; with top-2 want at most");
  REFUSED(flags, 1, "bit 0x1");
  REFUSED(reserved, 1, "reserved is 1");
  REFUSED(size, 8, "weft_ep_route_options");
#undef REFUSED
  assert_says(weft_ep_route_create(ep, NULL, &route), WEFT_ERR_INVALID, "weft_ep_route_options");
  options = (struct weft_ep_route_options)WEFT_EP_ROUTE_OPTIONS_INIT;
  assert_says(weft_ep_route_create(NULL, &options, &route), WEFT_ERR_INVALID, "ep is NULL");
  assert_says(weft_ep_route_create(ep, &options, NULL), WEFT_ERR_INVALID, "route is NULL");
  assert_null(route);
}

static void what_is_not_filled_serves_nobody(void **state) {
  (void)state;
  weft_ep_route_t *route = make((struct weft_ep_route_options)WEFT_EP_ROUTE_OPTIONS_INIT);
  struct weft_ep_dispatch_args kept = good_kept(route), fill = good_dispatch(route);
  struct weft_ep_recv_args recv = alone_recv();
  struct weft_ep_combine_args combine = alone_combine();
  struct weft_ep_route_info info = WEFT_EP_ROUTE_INFO_INIT;
  uint64_t op, other, before = weft_ep_next_op(ep);
  assert_says(weft_ep_dispatch_send(ep, &kept, &op), WEFT_ERR_INVALID, "no dispatch has filled the route");
  assert_says(weft_ep_combine_route(ep, route, &combine, NULL, &op), WEFT_ERR_INVALID,
              "no dispatch has filled the route");
  assert_says(weft_ep_route_await(route, &info, 0), WEFT_ERR_INVALID, "no dispatch has filled the route");
  assert_int_equal(weft_ep_route_plan(route, topk_idx, TOKENS, NULL), 0);
  assert_says(weft_ep_route_await(route, &info, 0), WEFT_ERR_INVALID, "no dispatch has filled the route");
  assert_int_equal(weft_ep_dispatch_send(ep, &fill, &op), 0);
  assert_says(weft_ep_route_await(route, &info, 0), WEFT_ERR_TIMEOUT, "has not been received");
  assert_says(weft_ep_dispatch_send(ep, &kept, &other), WEFT_ERR_INVALID, "has not been received");
  assert_says(weft_ep_dispatch_send(ep, &fill, &other), WEFT_ERR_BUSY, "open operations need what the route has");
  assert_says(weft_ep_route_plan(route, topk_idx, TOKENS, NULL), WEFT_ERR_BUSY,
              "open operations need what the route has");
  assert_int_equal(weft_ep_dispatch_recv(ep, op, &recv, NULL), 0);
  assert_int_equal(weft_ep_route_await(route, NULL, 0), 0);
  assert_int_equal(weft_ep_route_await(route, &info, 0), 0);
  assert_int_equal(info.num_rows, TOKENS);
  assert_int_equal(info.op, before);
  assert_int_equal(weft_ep_finish(ep, op), 0);
  assert_int_equal(weft_ep_next_op(ep), before + 1);
  weft_ep_route_free(route);
}

static void wrong_arguments_of_a_dispatch_with_a_route_are_refused(void **state) {
  (void)state;
  weft_ep_route_t *route = make_filled();
  struct weft_ep_dispatch_args args;
  uint32_t fewer = TOKENS - 1;
  uint64_t op, before = weft_ep_next_op(ep);
#define REFUSED(start, field, value, words)                                                                            \
  args = start(route);                                                                                                 \
  args.field = value;                                                                                                  \
  assert_says(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_INVALID, words)
  REFUSED(good_kept, topk_weights, alone_weights, "the route has kept those");
  REFUSED(good_kept, num_tokens, TOKENS - 1, "3 tokens, and those of the route are 4");
  REFUSED(good_kept, num_tokens_at, &fewer, "3 tokens, and those of the route are 4");
  REFUSED(good_kept, topk, 1, "topk is 1, and that of the route is 2");
  REFUSED(good_kept, x, NULL, "x is NULL");
  REFUSED(good_kept, flags, WEFT_EP_DISPATCH_CHECK_ROUTE, "topk_idx is NULL");
  REFUSED(good_dispatch, topk_idx32, alone_counts, "both given");
  args = good_dispatch(NULL);
  args.flags = WEFT_EP_DISPATCH_CHECK_ROUTE;
  assert_says(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_INVALID, "CHECK_ROUTE is set, but route is NULL");
#undef REFUSED
  assert_int_equal(weft_ep_next_op(ep), before);
  weft_ep_route_free(route);
}

// The error names the place of a changed top-k, with a filled route and with a planned one.
static void a_changed_top_k_is_named(void **state) {
  (void)state;
  int64_t changed[TOKENS * TOPK];
  int32_t narrow[TOKENS * TOPK];
  memcpy(changed, topk_idx, sizeof changed);
  changed[5] = 0;
  for (int i = 0; i < TOKENS * TOPK; i++)
    narrow[i] = (int32_t)topk_idx[i];
  struct weft_ep_recv_args recv = alone_recv();
  uint64_t op;
  weft_ep_route_t *routes[] = {make_filled(), make((struct weft_ep_route_options)WEFT_EP_ROUTE_OPTIONS_INIT)};
  struct weft_ep_dispatch_args args = good_dispatch(routes[1]);
  args.flags = WEFT_EP_DISPATCH_CHECK_ROUTE;
  assert_says(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_INVALID, "the route has no top-k");
  assert_int_equal(weft_ep_route_plan(routes[1], topk_idx, TOKENS, NULL), 0);
  for (int i = 0; i < 2; i++) {
    args = good_dispatch(routes[i]);
    args.topk_weights = i == 0 ? NULL : alone_weights;
    args.topk_idx = changed;
    args.flags = WEFT_EP_DISPATCH_CHECK_ROUTE;
    assert_says(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_INVALID,
                "topk_idx[2][1] is 0, but the route was made with 1");
    args.num_tokens = 1;
    assert_says(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_INVALID, "1 tokens, and those of the route are 4");
    args.num_tokens = TOKENS;
    args.topk_idx = NULL;
    args.topk_idx32 = narrow;
    assert_int_equal(weft_ep_dispatch(ep, &args, &recv, NULL, &op), 0);
    assert_int_equal(weft_ep_finish(ep, op), 0);
    struct weft_ep_route_info info = WEFT_EP_ROUTE_INFO_INIT;
    assert_int_equal(weft_ep_route_await(routes[i], &info, 0), 0);
    assert_int_equal(info.op, i == 0 ? op - 1 : op); // the dispatch used the first route, and filled the second
    weft_ep_route_free(routes[i]);
  }
}

// A check without topk goes by that of the route, and reads no more than that.
static void a_check_reads_as_many_selections_as_the_route_has(void **state) {
  (void)state;
  const int64_t some[TOKENS] = {0, 1, 1, 0};
  weft_ep_route_t *route = make((struct weft_ep_route_options)WEFT_EP_ROUTE_OPTIONS_INIT);
  struct weft_ep_dispatch_args args = good_dispatch(route);
  struct weft_ep_recv_args recv = alone_recv();
  uint64_t op;
  args.topk_idx = some;
  args.topk = 1;
  assert_int_equal(weft_ep_dispatch(ep, &args, &recv, NULL, &op), 0);
  assert_int_equal(weft_ep_finish(ep, op), 0);
  int64_t list[TOKENS * TOPK]; // what a reader of the group's top-k would refuse stands behind the route's
  memcpy(list, some, sizeof some);
  for (int i = TOKENS; i < TOKENS * TOPK; i++)
    list[i] = INT64_MAX;
  args.topk_idx = list;
  args.topk_weights = NULL;
  args.topk = 0;
  args.flags = WEFT_EP_DISPATCH_CHECK_ROUTE;
  assert_int_equal(weft_ep_dispatch(ep, &args, &recv, NULL, &op), 0);
  assert_int_equal(weft_ep_finish(ep, op), 0);
  list[1] = 0;
  assert_says(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_INVALID, "topk_idx[1][0] is 0");
  weft_ep_route_free(route);
}

// A plan by fewer selections than the dispatch makes, which takes those of the group, has no room for them.
static void a_plan_of_another_top_k_is_not_filled(void **state) {
  (void)state;
  struct weft_ep_route_options options = WEFT_EP_ROUTE_OPTIONS_INIT;
  options.topk = 1;
  weft_ep_route_t *route = make(options);
  uint64_t op;
  assert_int_equal(weft_ep_route_plan(route, topk_idx, TOKENS, NULL), 0);
  struct weft_ep_dispatch_args args = good_dispatch(route);
  args.flags = WEFT_EP_DISPATCH_CHECK_ROUTE;
  assert_says(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_INVALID, "topk is 2, and that of the route is 1");
  weft_ep_route_free(route);
}

static void routes_that_are_too_small(void **state) {
  (void)state;
  struct weft_ep_route_options options = WEFT_EP_ROUTE_OPTIONS_INIT;
  options.max_tokens = TOKENS - 1;
  weft_ep_route_t *route = make(options);
  struct weft_ep_dispatch_args args = good_dispatch(route);
  struct weft_ep_recv_args recv = alone_recv();
  uint64_t op, before = weft_ep_next_op(ep);
  assert_says(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_ROOM, "the route has room for 3");
  assert_says(weft_ep_route_plan(route, topk_idx, TOKENS, NULL), WEFT_ERR_ROOM, "the route has room for 3");
  weft_ep_route_free(route);
  options.max_tokens = 0;
  options.topk = 1;
  route = make(options);
  args = good_dispatch(route);
  assert_says(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_ROOM, "the route has room for top-1");
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
  assert_says(weft_ep_route_await(route, &route_info, 0), WEFT_ERR_ROOM,
              "brought 4 rows, and the route has room for 3");
  assert_int_equal(route_info.num_rows, TOKENS);
  struct weft_ep_dispatch_args kept = good_kept(route);
  struct weft_ep_combine_args combine = alone_combine();
  assert_says(weft_ep_dispatch_send(ep, &kept, &op), WEFT_ERR_ROOM, "give max_rows");
  assert_says(weft_ep_combine_route(ep, route, &combine, NULL, &op), WEFT_ERR_ROOM, "give max_rows");
  args.num_tokens = TOKENS - 1; // fewer tokens fit
  kept.num_tokens = TOKENS - 1;
  assert_int_equal(weft_ep_dispatch(ep, &args, &recv, NULL, &op), 0);
  assert_int_equal(weft_ep_finish(ep, op), 0);
  assert_int_equal(weft_ep_dispatch(ep, &kept, &recv, NULL, &op), 0);
  assert_int_equal(weft_ep_finish(ep, op), 0);
  weft_ep_route_free(route);
}

static void a_route_with_room_for_just_the_rows_has_them_all(void **state) {
  (void)state;
  struct weft_ep_route_options options = WEFT_EP_ROUTE_OPTIONS_INIT;
  options.max_rows = TOKENS;
  weft_ep_route_t *route = make(options);
  struct weft_ep_dispatch_args fill = good_dispatch(route), kept = good_kept(route);
  struct weft_ep_recv_args recv = alone_recv();
  struct weft_ep_info first = WEFT_EP_INFO_INIT, again = WEFT_EP_INFO_INIT;
  uint64_t op;
  assert_int_equal(weft_ep_dispatch(ep, &fill, &recv, &first, &op), 0);
  assert_int_equal(weft_ep_finish(ep, op), 0);
  assert_int_equal(weft_ep_dispatch(ep, &kept, &recv, &again, &op), 0);
  assert_int_equal(weft_ep_finish(ep, op), 0);
  assert_true(first.num_rows > 0);
  assert_int_equal(again.num_rows, first.num_rows);
  weft_ep_route_free(route);
}

static void wrong_arguments_of_a_combine_by_a_route_are_refused(void **state) {
  (void)state;
  weft_ep_route_t *route = make_filled();
  uint64_t op, before = weft_ep_next_op(ep);
  struct weft_ep_combine_args args;
#define REFUSED(field, value, words)                                                                                   \
  args = alone_combine();                                                                                              \
  args.field = value;                                                                                                  \
  assert_says(weft_ep_combine_route(ep, route, &args, NULL, &op), WEFT_ERR_INVALID, words)
  REFUSED(y, NULL, "y is NULL, but 4 rows were received with the route");
  REFUSED(out, NULL, "out is NULL");
  REFUSED(topk_weights, alone_weights, "the route has kept those");
  REFUSED(flags, 1u << 9, "bit 0x200");
  REFUSED(size, 8, "weft_ep_combine_args");
#undef REFUSED
  args = alone_combine();
  assert_says(weft_ep_combine_route(ep, NULL, &args, NULL, &op), WEFT_ERR_INVALID, "route is NULL");
  assert_says(weft_ep_combine_route(ep, route, &args, NULL, NULL), WEFT_ERR_INVALID, "op is NULL");
  assert_says(weft_ep_combine_route(NULL, route, &args, NULL, &op), WEFT_ERR_INVALID, "ep is NULL");
  struct weft_ep_dispatch_args none = WEFT_EP_DISPATCH_ARGS_INIT;
  uint64_t open[2];
  assert_int_equal(weft_ep_dispatch_send(ep, &none, &open[0]), 0);
  assert_says(weft_ep_combine_route(ep, route, &args, NULL, &op), WEFT_ERR_INVALID, "receive it first");
  assert_int_equal(weft_ep_next_op(ep), before + 1);
  assert_int_equal(weft_ep_dispatch_send(ep, &none, &open[1]), 0);
  assert_says(weft_ep_combine_route(ep, route, &args, NULL, &op), WEFT_ERR_BUSY, "still open");
  struct weft_ep_recv_args recv = alone_recv();
  for (int i = 0; i < 2; i++) {
    assert_int_equal(weft_ep_dispatch_recv(ep, open[i], &recv, NULL), 0);
    assert_int_equal(weft_ep_finish(ep, open[i]), 0);
  }
  assert_int_equal(weft_ep_next_op(ep), before + 2);
  weft_ep_route_free(route);
}

// Runs an operation without a combine.
static void run_dispatch(const struct weft_ep_dispatch_args *args, struct weft_ep_recv_args *recv) {
  uint64_t op;
  assert_int_equal(weft_ep_dispatch(ep, args, recv, NULL, &op), 0);
  assert_int_equal(weft_ep_finish(ep, op), 0);
}

// A route that was filled without weights: each combine brings its own.
static void late_weights(void **state) {
  (void)state;
  weft_ep_route_t *route = make((struct weft_ep_route_options)WEFT_EP_ROUTE_OPTIONS_INIT);
  struct weft_ep_dispatch_args args = good_dispatch(route);
  struct weft_ep_recv_args recv = alone_recv();
  struct weft_ep_combine_args combine = alone_combine();
  uint64_t op;
  args.topk_weights = NULL;
  run_dispatch(&args, &recv);
  assert_says(weft_ep_combine_route(ep, route, &combine, NULL, &op), WEFT_ERR_INVALID, "topk_weights is NULL");
  combine.topk_weights = alone_weights;
  combine.row_weights = alone_weights;
  assert_says(weft_ep_combine_route(ep, route, &combine, NULL, &op), WEFT_ERR_INVALID, "row_weights are given, but");
  combine.row_weights = NULL;
  assert_int_equal(weft_ep_combine_route(ep, route, &combine, NULL, &op), 0);
  args = good_kept(route);
  recv.layout = WEFT_EP_RANK_MAJOR;
  assert_int_equal(weft_ep_dispatch(ep, &args, &recv, NULL, &op), 0);
  assert_says(weft_ep_combine(ep, op, &combine, NULL), WEFT_ERR_INVALID, "RANK_MAJOR");
  combine.topk_weights = NULL;
  assert_int_equal(weft_ep_combine(ep, op, &combine, NULL), 0);
  weft_ep_route_free(route);
}

// RANK_MAJOR without weights: the caller has weighted its rows, so no combine takes weights.
static void a_rank_major_route_without_weights(void **state) {
  (void)state;
  weft_ep_route_t *route = make((struct weft_ep_route_options)WEFT_EP_ROUTE_OPTIONS_INIT);
  struct weft_ep_dispatch_args args = good_dispatch(route);
  struct weft_ep_recv_args recv = alone_recv();
  struct weft_ep_combine_args combine = alone_combine();
  uint64_t op;
  args.topk_weights = NULL;
  recv.layout = WEFT_EP_RANK_MAJOR;
  run_dispatch(&args, &recv);
  assert_int_equal(weft_ep_combine_route(ep, route, &combine, NULL, &op), 0);
  combine.topk_weights = alone_weights;
  assert_says(weft_ep_combine_route(ep, route, &combine, NULL, &op), WEFT_ERR_INVALID, "RANK_MAJOR");
  weft_ep_route_free(route);
}

// A rank that neither sends nor receives takes part in a combine with whatever the others give, and without buffers.
static void a_route_without_tokens_needs_no_buffers(void **state) {
  (void)state;
  weft_ep_route_t *route = make((struct weft_ep_route_options)WEFT_EP_ROUTE_OPTIONS_INIT);
  struct weft_ep_dispatch_args args = good_dispatch(route);
  struct weft_ep_recv_args recv = alone_recv();
  struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT;
  uint64_t op;
  args.num_tokens = 0;
  run_dispatch(&args, &recv);
  assert_int_equal(weft_ep_combine_route(ep, route, &combine, NULL, &op), 0);
  combine.topk_weights = alone_weights;
  assert_int_equal(weft_ep_combine_route(ep, route, &combine, NULL, &op), 0);
  weft_ep_route_free(route);
}

static void routes_of_others(void **state) {
  (void)state;
  weft_ep_t *other = open_in("/other/");
  weft_ep_route_t *route = NULL, *kept = NULL;
  struct weft_ep_route_options options = WEFT_EP_ROUTE_OPTIONS_INIT;
  assert_int_equal(weft_ep_route_create(other, &options, &route), 0);
  assert_int_equal(weft_ep_route_create(other, &options, &kept), 0);
  struct weft_ep_dispatch_args args = good_dispatch(route);
  struct weft_ep_combine_args combine = alone_combine();
  struct weft_ep_route_info info = WEFT_EP_ROUTE_INFO_INIT;
  struct weft_ep_route_arrays arrays = WEFT_EP_ROUTE_ARRAYS_INIT;
  uint64_t op;
  assert_says(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_INVALID, "made for another handle");
  assert_says(weft_ep_combine_route(ep, route, &combine, NULL, &op), WEFT_ERR_INVALID, "made for another handle");
  // An operation that is open by a route which is freed, when its rank is closed.
  args.route = kept;
  assert_int_equal(weft_ep_dispatch_send(other, &args, &op), 0);
  weft_ep_route_free(kept);
  weft_ep_close(other);
  args.route = route;
  assert_says(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_CLOSED, "is closed");
  assert_says(weft_ep_combine_route(ep, route, &combine, NULL, &op), WEFT_ERR_CLOSED, "is closed");
  assert_says(weft_ep_route_plan(route, topk_idx, TOKENS, NULL), WEFT_ERR_CLOSED, "is closed");
  assert_says(weft_ep_route_await(route, &info, 0), WEFT_ERR_CLOSED, "is closed");
  assert_says(weft_ep_route_get_arrays(route, &arrays), WEFT_ERR_CLOSED, "is closed");
  weft_ep_route_free(route);
  weft_ep_route_free(NULL);
}

static void plans(void **state) {
  (void)state;
  weft_ep_route_t *route = make((struct weft_ep_route_options)WEFT_EP_ROUTE_OPTIONS_INIT);
  static const int64_t wrong[TOPK] = {0, ALONE_CAPACITY * ALONE_EXPERTS}, absent[TOPK] = {1, 2};
  struct weft_ep_route_arrays arrays = WEFT_EP_ROUTE_ARRAYS_INIT;
  assert_says(weft_ep_route_plan(route, wrong, 1, NULL), WEFT_ERR_INVALID, "route_plan: topk_idx[0][1] is 8");
  assert_says(weft_ep_route_plan(route, NULL, 1, NULL), WEFT_ERR_INVALID, "topk_idx is NULL");
  assert_says(weft_ep_route_get_arrays(route, NULL), WEFT_ERR_INVALID, "arrays is NULL");
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
  struct weft_ep_combine_args combine = alone_combine();
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
      cmocka_unit_test(wrong_arguments_of_a_dispatch_with_a_route_are_refused),
      cmocka_unit_test(a_changed_top_k_is_named),
      cmocka_unit_test(a_check_reads_as_many_selections_as_the_route_has),
      cmocka_unit_test(a_plan_of_another_top_k_is_not_filled),
      cmocka_unit_test(routes_that_are_too_small),
      cmocka_unit_test(a_route_with_room_for_just_the_rows_has_them_all),
      cmocka_unit_test(wrong_arguments_of_a_combine_by_a_route_are_refused),
      cmocka_unit_test(late_weights),
      cmocka_unit_test(a_rank_major_route_without_weights),
      cmocka_unit_test(a_route_without_tokens_needs_no_buffers),
      cmocka_unit_test(routes_of_others),
      cmocka_unit_test(plans),
      cmocka_unit_test(a_forked_child_has_no_route),
  };
  return cmocka_run_group_tests_name("ep_route_errors", tests, open_rank, close_rank);
}
