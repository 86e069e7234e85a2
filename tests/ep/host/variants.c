// What may change from call to call: types, top-k, the number of combines. Also which operations end when ranks
// disagree. random_operations.c draws random combinations; this file has the edge cases.
#include <string.h>

#include "cmocka_all.h"

#include "ep/support/alone.h"
#include "ep/support/rank.h"
#include "support/local_store.h"

// --- ranks that disagree ---

struct odd {
  enum weft_ep_dtype dtype;
  uint32_t topk;
  const char *words;
};

// Rank 1 dispatches otherwise: the operation ends for both, and the next one is whole.
static void dispatch_oddly(struct rank *rank, void *arg) {
  const struct odd *odd = arg;
  if (!rank_operate_n(rank, 3))
    return;
  uint64_t before = weft_ep_next_op(rank->ep), op;
  struct weft_ep_dispatch_args args = WEFT_EP_DISPATCH_ARGS_INIT;
  args.x = rank->x;
  args.num_tokens = rank->index == 0 ? 1 : 0; // a rank without tokens sends its type too
  args.topk_idx = rank->topk_idx;
  args.topk_weights = rank->weights;
  args.dtype = rank->index == 1 ? odd->dtype : 0;
  args.topk = rank->index == 1 ? odd->topk : 0;
  int rc = weft_ep_dispatch(rank->ep, &args, &rank->recv, NULL, &op);
  if (!alone_says(rc, WEFT_ERR_PROTOCOL, rank->index == 0 ? odd->words : "rank 0 dispatches dtype 1 with top-4"))
    rank_fail(rank, "%s: %s", weft_err_name(rc), weft_last_error());
  else if (weft_ep_finish(rank->ep, before) != WEFT_ERR_INVALID)
    rank_fail(rank, "the operation is still open");
  else
    rank_operate_n(rank, 5);
}

static void ranks_that_dispatch_otherwise_end_the_operation(void **state) {
  (void)state;
  static const int32_t ranks[] = {0, 1};
  const struct odd odds[] = {{WEFT_EP_FP8, 0, "rank 1 dispatches dtype 2 with top-4"},
                             {0, 3, "rank 1 dispatches dtype 1 with top-3"}};
  for (size_t i = 0; i < sizeof odds / sizeof *odds; i++) {
    struct setup setup = {.store = store, .prefix = i == 0 ? "/odd/" : "/odd2/"};
    ranks_run(&setup, ranks, 2, dispatch_oddly, (void *)&odds[i]);
  }
}

static void answer_otherwise(struct rank *rank, void *arg) {
  (void)arg;
  rank->answers_with = rank->index % 2 ? WEFT_EP_COMBINE_BF16 : WEFT_EP_COMBINE_LOGFMT10;
  rank->setup.combine_dtype = WEFT_EP_COMBINE_LOGFMT10; // how exact the judge wants it
  rank_operate_n(rank, 20);
  const uint64_t hidden = rank->setup.hidden, pairs = rank->info.logical_bytes / (2 * hidden + 16);
  const uint64_t each = rank->index % 2 ? 2 * hidden : hidden * 10 / 8 + hidden / 128 * 4;
  if (rank->result.logical_bytes != pairs * each)
    rank_fail(rank, "its combine counts %llu bytes for %llu pairs", (unsigned long long)rank->result.logical_bytes,
              (unsigned long long)pairs);
}

static void each_rank_chooses_how_it_answers(void **state) {
  (void)state;
  static const int32_t ranks[] = {0, 1, 2};
  struct setup setup = {.store = store, .prefix = "/answers/"};
  ranks_run(&setup, ranks, 3, answer_otherwise, NULL);
}

// --- one rank ---

static weft_ep_t *open_with(enum weft_ep_dtype dtype, enum weft_ep_combine_dtype combine_dtype) {
  struct weft_ep_options options = alone_options(store);
  options.capacity = 70; // two words of weft_ep_recv_args.lost
  options.dtype = dtype;
  options.combine_dtype = combine_dtype;
  return alone_open(&options);
}

static void what_the_group_has_no_room_for(void **state) {
  (void)state;
  weft_ep_t *ep = open_with(WEFT_EP_FP8_UE8M0, WEFT_EP_COMBINE_LOGFMT10);
  uint64_t op, before = weft_ep_next_op(ep);
  static const float scales[ALONE_TOKENS * ALONE_HIDDEN / 128];
  uint32_t many = ALONE_TOKENS + 1;
  struct weft_ep_dispatch_args args;
#define REFUSED(field, value, words)                                                                                   \
  args = alone_dispatch();                                                                                             \
  args.field = value;                                                                                                  \
  assert_says(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_INVALID, words)
  REFUSED(dtype, WEFT_EP_BF16,
          "rows of dtype 1 take 512 bytes, but the group was opened for dtype 4, whose rows take 260");
  REFUSED(dtype, WEFT_EP_FP8, "rows of dtype 2 take 264 bytes");
  REFUSED(topk, ALONE_TOPK + 1, "topk is 3, but the group was opened for 2");
  REFUSED(num_tokens_at, &many, "*num_tokens_at is 5, more than num_tokens, 4");
  REFUSED(row_stride, 2 * ALONE_HIDDEN - 2, "row_stride is 510");
  REFUSED(row_stride, 2 * ALONE_HIDDEN + 1, "row_stride is 513");
  REFUSED(scale_row_stride, 4, "scales is NULL");
  REFUSED(topk_idx32, alone_counts, "both given");
  args = alone_dispatch();
  args.x_dtype = WEFT_EP_FP8;
  assert_says(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_UNSUPPORTED, "x_dtype");
  struct weft_ep_recv_args recv = alone_recv();
  args = alone_dispatch();
  assert_says(weft_ep_dispatch(ep, &args, &recv, NULL, &op), WEFT_ERR_INVALID, "scales is NULL, and fp8");
  recv.scale_block_stride = 3;
  assert_says(weft_ep_dispatch(ep, &args, &recv, NULL, &op), WEFT_ERR_INVALID, "strides of scales");
  recv = alone_recv();
  recv.layout = WEFT_EP_RANK_MAJOR;
  recv.scales = (void *)scales;
  recv.scale_expert_stride = 9;
  assert_says(weft_ep_dispatch(ep, &args, &recv, NULL, &op), WEFT_ERR_INVALID, "no parts");
  assert_int_equal(weft_ep_next_op(ep), before);
  float came[ALONE_EXPERTS * ALONE_ROWS * ALONE_HIDDEN / 128];
  recv = alone_recv();
  recv.scales = came;
  assert_int_equal(weft_ep_dispatch(ep, &args, &recv, NULL, &op), 0);
  struct weft_ep_combine_args combine = alone_combine();
  combine.dtype = WEFT_EP_COMBINE_BF16;
  assert_says(weft_ep_combine(ep, op, &combine, NULL), WEFT_ERR_INVALID, "rows of dtype 1 take 512 bytes");
  assert_int_equal(weft_ep_finish(ep, op), 0);
  weft_ep_close(ep);
}

static void too_little_room_is_reported(void **state) {
  (void)state;
  weft_ep_t *ep = open_with(0, 0);
  uint64_t op, lost[3] = {~0ull, ~0ull, 5};
  struct weft_ep_recv_status status = {.op = 99};
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  struct weft_ep_dispatch_args args = alone_dispatch();
  struct weft_ep_recv_args recv = alone_recv();
  recv.rows = 1;
  recv.status = &status;
  recv.status_size = sizeof status;
  recv.lost = lost;
  weft_ep_set_mark(ep, 7);
  assert_says(weft_ep_dispatch(ep, &args, &recv, &info, &op), WEFT_ERR_ROOM, "4 arrived");
  assert_int_equal(info.rows_needed, 4);
  assert_int_equal(status.rows_needed, 4);
  assert_int_equal(status.num_rows, 0);
  assert_int_equal(status.written, op + 1);
  recv.rows = ALONE_ROWS;
  assert_int_equal(weft_ep_dispatch_recv(ep, op, &recv, &info), 0);
  assert_int_equal(status.op, op);
  assert_int_equal(status.mark, 7);
  assert_int_equal(status.epoch, info.epoch);
  assert_int_equal(status.num_rows, 8);
  assert_int_equal(status.num_ranks, 1);
  assert_int_equal(status.num_lost, 0);
  assert_int_equal(lost[0], 0);
  assert_int_equal(lost[1], 0);
  assert_int_equal(lost[2], 5); // behind the capacity
  assert_int_equal(weft_ep_finish(ep, op), 0);
  weft_ep_close(ep);
}

static void an_operation_is_kept_finished_and_recycled(void **state) {
  (void)state;
  weft_ep_t *ep = open_with(0, 0);
  struct weft_ep_dispatch_args args = alone_dispatch(), recycling = alone_dispatch();
  struct weft_ep_recv_args recv = alone_recv();
  struct weft_ep_combine_args keeping = alone_combine();
  keeping.flags = WEFT_EP_COMBINE_KEEP;
  recycling.flags = WEFT_EP_DISPATCH_RECYCLE;
  uint64_t first, second, third;
  assert_int_equal(weft_ep_dispatch(ep, &args, &recv, NULL, &first), 0);
  assert_int_equal(weft_ep_combine(ep, first, &keeping, NULL), 0);
  assert_int_equal(weft_ep_combine(ep, first, &keeping, NULL), 0);
  assert_int_equal(weft_ep_finish(ep, first), 0);
  assert_says(weft_ep_combine(ep, first, &keeping, NULL), WEFT_ERR_INVALID, "not open");
  // Two dispatches, and both are combined, the older one last.
  assert_int_equal(weft_ep_dispatch(ep, &recycling, &recv, NULL, &first), 0);
  assert_int_equal(weft_ep_dispatch(ep, &recycling, &recv, NULL, &second), 0);
  assert_says(weft_ep_dispatch(ep, &args, &recv, NULL, &third), WEFT_ERR_BUSY, "still open");
  assert_int_equal(weft_ep_combine(ep, second, &keeping, NULL), 0);
  assert_int_equal(weft_ep_combine(ep, first, &keeping, NULL), 0);
  assert_int_equal(weft_ep_combine_send(ep, first, &keeping), 0);
  assert_says(weft_ep_dispatch(ep, &recycling, &recv, NULL, &third), WEFT_ERR_BUSY,
              "its combine has not been received");
  assert_int_equal(weft_ep_combine_recv(ep, first, &keeping, NULL), 0);
  assert_int_equal(weft_ep_dispatch_send(ep, &recycling, &third), 0);
  assert_says(weft_ep_combine(ep, first, &keeping, NULL), WEFT_ERR_INVALID, "not open");
  assert_int_equal(weft_ep_combine(ep, second, &keeping, NULL), 0);
  assert_int_equal(weft_ep_finish(ep, second), 0);
  assert_int_equal(weft_ep_dispatch_send(ep, &recycling, &second), 0);
  assert_says(weft_ep_dispatch_send(ep, &recycling, &first), WEFT_ERR_BUSY, "it has not been received");
  weft_ep_close(ep);
}

static void an_operation_has_so_many_combines(void **state) {
  (void)state;
  weft_ep_t *ep = open_with(0, 0);
  struct weft_ep_limits limits = WEFT_EP_LIMITS_INIT;
  assert_int_equal(weft_ep_get_limits(&limits), 0);
  struct weft_ep_dispatch_args args = alone_dispatch();
  struct weft_ep_recv_args recv = alone_recv();
  struct weft_ep_combine_args keeping = alone_combine();
  keeping.flags = WEFT_EP_COMBINE_KEEP;
  uint64_t op;
  assert_int_equal(weft_ep_dispatch(ep, &args, &recv, NULL, &op), 0);
  for (uint32_t i = 0; i < limits.max_combines; i++)
    assert_int_equal(weft_ep_combine(ep, op, &keeping, NULL), 0);
  assert_says(weft_ep_combine(ep, op, &keeping, NULL), WEFT_ERR_LIMIT, "the most that an operation can have");
  assert_int_equal(weft_ep_finish(ep, op), 0);
  weft_ep_close(ep);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_that_dispatch_otherwise_end_the_operation),
      cmocka_unit_test(each_rank_chooses_how_it_answers),
      cmocka_unit_test(what_the_group_has_no_room_for),
      cmocka_unit_test(too_little_room_is_reported),
      cmocka_unit_test(an_operation_is_kept_finished_and_recycled),
      cmocka_unit_test(an_operation_has_so_many_combines),
  };
  return cmocka_run_group_tests_name("ep_variants", tests, open_store, close_store);
}
