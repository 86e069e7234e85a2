// Edge cases of the random layouts of layouts.c: rounding with biases, too little room, ranks that disagree on opaque
// rows, peers that die in the middle of a combine, and peers that lie.
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"

#include "ep/host/host.h"
#include "ep/support/alone.h"
#include "ep/support/rank.h"
#include "support/local_store.h"

enum { HIDDEN = 128, TOKENS = 4, TOPK = 2, EXPERTS = 2, MOST_ROWS = 64, ONE = 0x3F80 };

// Buffers of a rank, with room for all that comes here.
struct buffers {
  uint16_t x[TOKENS * HIDDEN], received[MOST_ROWS * HIDDEN], y[MOST_ROWS * HIDDEN], out[TOKENS * HIDDEN],
      bias[TOKENS * HIDDEN];
  uint32_t scales[MOST_ROWS * HIDDEN / 4];
  int32_t counts[EXPERTS], src_rank[MOST_ROWS], src_token[MOST_ROWS], slot[MOST_ROWS * TOPK], expert_end[EXPERTS];
  float row_weights[MOST_ROWS * TOPK], out_weights[TOKENS * TOPK];
  struct weft_ep_missing missing[TOKENS * TOPK];
};

// Every token goes to both experts of rank 0, or to the first experts of ranks 0 and 1.
static const int64_t of_one[TOKENS * TOPK] = {0, 1, 0, 1, 0, 1, 0, 1};
static const int64_t of_two[TOKENS * TOPK] = {0, 2, 0, 2, 0, 2, 0, 2};
static const float weights[TOKENS * TOPK] = {1, 3, 1, 3, 1, 3, 1, 3};

static struct buffers *new_buffers(void) {
  struct buffers *b = calloc(1, sizeof *b);
  for (size_t i = 0; i < TOKENS * HIDDEN; i++)
    b->x[i] = ONE;
  for (size_t i = 0; i < MOST_ROWS * HIDDEN; i++)
    b->y[i] = ONE;
  return b;
}

static struct weft_ep_dispatch_args dispatch_of(struct buffers *b, const int64_t *experts) {
  struct weft_ep_dispatch_args args = WEFT_EP_DISPATCH_ARGS_INIT;
  args.x = b->x;
  args.num_tokens = TOKENS;
  args.topk_idx = experts;
  args.topk_weights = weights;
  return args;
}

static struct weft_ep_recv_args receive_in(struct buffers *b, enum weft_ep_layout layout) {
  struct weft_ep_recv_args recv = WEFT_EP_RECV_ARGS_INIT;
  recv.layout = layout;
  recv.x = b->received;
  recv.counts = b->counts;
  recv.src_rank = b->src_rank;
  recv.src_token = b->src_token;
  recv.rows = layout == WEFT_EP_PER_EXPERT ? MOST_ROWS / EXPERTS : MOST_ROWS;
  return recv;
}

static struct weft_ep_combine_args combine_of(struct buffers *b) {
  struct weft_ep_combine_args args = WEFT_EP_COMBINE_ARGS_INIT;
  args.y = b->y;
  args.out = b->out;
  return args;
}

static weft_ep_t *open_alone(void) {
  struct weft_ep_options options = alone_options(store);
  options.hidden = HIDDEN;
  options.max_tokens = TOKENS;
  options.topk = TOPK;
  options.experts_per_rank = EXPERTS;
  return alone_open(&options);
}

// 256 + 1 is 256 in bf16, and 256 + 1 + 1 is 258.
static void biases_are_added_before_the_sum_is_rounded(void **state) {
  (void)state;
  weft_ep_t *ep = open_alone();
  struct buffers *b = new_buffers();
  uint64_t op;
  struct weft_ep_dispatch_args dispatch = dispatch_of(b, of_one);
  struct weft_ep_recv_args recv = receive_in(b, WEFT_EP_PER_EXPERT);
  for (size_t i = 0; i < MOST_ROWS * HIDDEN; i++)
    b->y[i] = 0x4300; // 128, twice, unweighted
  for (size_t i = 0; i < TOKENS * HIDDEN; i++)
    b->bias[i] = ONE;
  const uint16_t right[] = {0x4380, 0x4380, 0x4381}; // 256, 256, 258
  for (int biases = 0; biases < 3; biases++) {
    struct weft_ep_combine_args combine = combine_of(b);
    combine.flags = WEFT_EP_COMBINE_UNWEIGHTED;
    for (int i = 0; i < biases; i++)
      combine.bias[i] = b->bias;
    assert_int_equal(weft_ep_dispatch(ep, &dispatch, &recv, NULL, &op), 0);
    assert_int_equal(weft_ep_combine(ep, op, &combine, NULL), 0);
    for (size_t i = 0; i < TOKENS * HIDDEN; i++)
      assert_int_equal(b->out[i], right[biases]);
  }
  free(b);
  weft_ep_close(ep);
}

static void too_few_rows_for_the_parts_are_reported_and_nothing_is_written(void **state) {
  (void)state;
  weft_ep_t *ep = open_alone();
  struct buffers *b = new_buffers();
  uint64_t op;
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  struct weft_ep_dispatch_args dispatch = dispatch_of(b, of_one);
  struct weft_ep_recv_args recv = receive_in(b, WEFT_EP_PACKED);
  recv.alignment = 5;
  recv.flags = WEFT_EP_RECV_ZERO_PADDING;
  recv.expert_end = b->expert_end;
  recv.rows = 9; // as many as there are, but the parts are 0 to 4 and 5 to 9, and end at 10
  memset(b->received, 0xA5, sizeof b->received);
  memset(b->src_rank, 0xA5, sizeof b->src_rank);
  assert_says(weft_ep_dispatch(ep, &dispatch, &recv, &info, &op), WEFT_ERR_ROOM, "has room for 9 rows, but 10 arrived");
  assert_int_equal(info.rows_needed, 10);
  assert_says(weft_ep_dispatch_recv(ep, op, &recv, &info), WEFT_ERR_ROOM, "has room for 9 rows, but 10 arrived");
  for (size_t i = 0; i < MOST_ROWS * HIDDEN; i++)
    assert_int_equal(b->received[i], 0xA5A5);
  for (size_t i = 0; i < MOST_ROWS; i++)
    assert_int_equal((uint32_t)b->src_rank[i], 0xA5A5A5A5);
  recv.rows = 10;
  assert_int_equal(weft_ep_dispatch_recv(ep, op, &recv, &info), 0);
  assert_int_equal(info.num_rows, 8);
  assert_int_equal(b->expert_end[0], 4);
  assert_int_equal(b->expert_end[1], 9);
  for (int row = 0; row < 11; row++) {
    bool gap = row == 4 || row == 9;
    assert_int_equal(b->received[row * HIDDEN], row == 10 ? 0xA5A5 : gap ? 0 : ONE);
    assert_int_equal((uint32_t)b->src_rank[row], row == 10 ? 0xA5A5A5A5 : gap ? UINT32_MAX : 0);
  }
  assert_int_equal(weft_ep_finish(ep, op), 0);
  free(b);
  weft_ep_close(ep);
}

static void what_does_not_go_together_is_refused(void **state) {
  (void)state;
  weft_ep_t *ep = open_alone();
  struct buffers *b = new_buffers();
  uint64_t op, before = weft_ep_next_op(ep);
  struct weft_ep_dispatch_args args;
#define OPAQUE(size, scale_size, given, words)                                                                         \
  args = dispatch_of(b, of_one);                                                                                       \
  args.dtype = WEFT_EP_OPAQUE;                                                                                         \
  args.row_bytes = size;                                                                                               \
  args.scale_bytes = scale_size;                                                                                       \
  args.scales = given;                                                                                                 \
  assert_says(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_INVALID, words)
  OPAQUE(0, 0, NULL, "row_bytes is 0");
  OPAQUE(24, 0, NULL, "row_bytes is 24; with dtype OPAQUE it must be a multiple of 16, and not 0");
  OPAQUE(32, 6, b->scales, "scale_bytes is 6; it must be a multiple of 4");
  OPAQUE(32, 8, NULL, "scale_bytes is 8, but scales is NULL");
  OPAQUE(32, 0, b->scales, "scale_bytes is 0, but scales is given");
  OPAQUE(272, 0, NULL, "rows of dtype 5 take 272 bytes, but the group was opened for dtype 1, whose rows take 256");
  OPAQUE(256, 4, b->scales, "rows of dtype 5 take 260 bytes");
  OPAQUE(0xFFFFFFF0, 0x20, b->scales, "rows of dtype 5 take 4294967312 bytes");
  args = dispatch_of(b, of_one);
  args.dtype = WEFT_EP_OPAQUE;
  args.row_bytes = 64;
  args.row_stride = 32;
  assert_says(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_INVALID, "row_stride is 32; it must be even, and a row");
  args.row_stride = 0;
  args.x_dtype = WEFT_EP_BF16;
  assert_says(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_UNSUPPORTED, "x_dtype");
  struct weft_ep_recv_args recv = receive_in(b, WEFT_EP_PACKED);
  args = dispatch_of(b, of_one);
  recv.alignment = 257;
  assert_says(weft_ep_dispatch(ep, &args, &recv, NULL, &op), WEFT_ERR_INVALID, "alignment is 257; it must be from 1");
  recv.alignment = 1;
  recv.scales = b->scales;
  recv.scale_expert_stride = 8;
  assert_says(weft_ep_dispatch(ep, &args, &recv, NULL, &op), WEFT_ERR_INVALID, "PACKED have no parts");
  recv = receive_in(b, WEFT_EP_PACKED);
  args.dtype = WEFT_EP_OPAQUE;
  args.row_bytes = 32;
  args.scale_bytes = 4;
  args.scales = b->scales;
  assert_says(weft_ep_dispatch(ep, &args, &recv, NULL, &op), WEFT_ERR_INVALID, "scales is NULL, and a payload");
  assert_int_equal(weft_ep_next_op(ep), before);

  args = dispatch_of(b, of_one);
  assert_int_equal(weft_ep_dispatch(ep, &args, &recv, NULL, &op), 0);
  struct weft_ep_combine_args combine = combine_of(b);
  combine.topk_weights = weights;
  combine.flags = WEFT_EP_COMBINE_UNWEIGHTED;
  assert_says(weft_ep_combine(ep, op, &combine, NULL), WEFT_ERR_INVALID, "UNWEIGHTED is set");
  void *rows_at[MOST_ROWS];
  assert_says(weft_ep_combine_rows(ep, op, rows_at), WEFT_ERR_INVALID, "per expert");
  combine = combine_of(b);
  combine.out_weights = b->out_weights;
  memset(b->out_weights, 0xFF, sizeof b->out_weights);
  assert_int_equal(weft_ep_combine(ep, op, &combine, NULL), 0);
  for (size_t i = 0; i < TOKENS * TOPK; i++)
    assert_true(b->out_weights[i] == 0); // nobody gave any
  free(b);
  weft_ep_close(ep);
}

// --- two ranks ---

static struct setup two_ranks(const char *prefix, uint32_t timeout_ms) {
  return (struct setup){.store = store,
                        .prefix = prefix,
                        .capacity = 4,
                        .tokens = TOKENS,
                        .hidden = HIDDEN,
                        .topk = TOPK,
                        .experts = EXPERTS,
                        .timeout_ms = timeout_ms};
}

static void disagree(struct rank *rank, void *arg) {
  (void)arg;
  struct buffers *b = new_buffers();
  struct weft_ep_dispatch_args args = dispatch_of(b, of_two);
  struct weft_ep_recv_args recv = receive_in(b, WEFT_EP_PACKED);
  uint64_t op;
  args.dtype = WEFT_EP_OPAQUE;
  args.row_bytes = 64;
  args.scale_bytes = rank->index == 0 ? 8 : 12;
  args.scales = b->scales;
  recv.scales = b->scales;
  int rc = weft_ep_dispatch(rank->ep, &args, &recv, NULL, &op);
  const char *words = rank->index == 0 ? "rank 1 dispatches dtype 5, rows of 64 and 12 bytes"
                                       : "rank 0 dispatches dtype 5, rows of 64 and 8 bytes";
  if (!alone_says(rc, WEFT_ERR_PROTOCOL, words))
    rank_fail(rank, "%s: %s", weft_err_name(rc), weft_last_error());
  rank_operate_n(rank, 3);
  free(b);
}

static void opaque_rows_of_two_sizes_end_the_operation(void **state) {
  (void)state;
  static const int32_t ranks[] = {0, 1};
  struct setup setup = two_ranks("/sizes/", 0);
  ranks_run(&setup, ranks, 2, disagree, NULL);
}

// Rank 1 receives the operation, and does not answer: it leaves, or it announces weights and sends none.
struct silence {
  bool lies;
};

static bool lie(struct rank *rank, uint64_t op) {
  struct ep_link *link = ep_link_find(rank->ep, 0, 0);
  struct ep_slot_head *slot = ep_slot(&rank->ep->layout, link->out.memory, op);
  atomic_store(&slot->combine.flag,
               ep_answer_flag(&rank->ep->layout, op, 0, 0, WEFT_EP_COMBINE_BF16 | EP_ANSWER_WEIGHTS));
  link->path->publish(link, op, EP_PART_COMBINE, TOKENS);
  for (int i = 0; i < 600 && ep_link_up(link); i++) // until rank 0 has given this one up
    poll(NULL, 0, 100);
  return !ep_link_up(link) || rank_fail(rank, "rank 0 waits for ever");
}

static bool check_silenced(struct rank *rank, const struct buffers *b, const struct weft_ep_result *result) {
  if (result->num_missing != TOKENS || result->num_lost != 1)
    return rank_fail(rank, "%u selections are missing, %u ranks lost", result->num_missing, result->num_lost);
  for (uint32_t t = 0; t < TOKENS; t++) {
    const struct weft_ep_missing *missing = &b->missing[t];
    if (missing->token != (int32_t)t || missing->k != 1 || missing->expert != 2)
      return rank_fail(rank, "missing %u is token %d, place %d, expert %" PRId64, t, missing->token, missing->k,
                       missing->expert);
    if (b->out_weights[t * TOPK] != 5 + (float)t || b->out_weights[t * TOPK + 1] != 0)
      return rank_fail(rank, "token %u has the weights %g and %g", t, (double)b->out_weights[t * TOPK],
                       (double)b->out_weights[t * TOPK + 1]);
    // Its own row, 1, times 2, since UNWEIGHTED both selections count alike; and the bias, 1.
    if (b->out[t * HIDDEN] != 0x4040)
      return rank_fail(rank, "token %u is 0x%04x", t, b->out[t * HIDDEN]);
  }
  return true;
}

static void fall_silent(struct rank *rank, void *arg) {
  const struct silence *silence = arg;
  struct buffers *b = new_buffers();
  struct weft_ep_dispatch_args args = dispatch_of(b, of_two);
  struct weft_ep_recv_args recv = receive_in(b, WEFT_EP_RANK_MAJOR);
  struct weft_ep_result result = WEFT_EP_RESULT_INIT;
  uint64_t op;
  args.num_tokens = rank->index == 0 ? TOKENS : 0;
  if (weft_ep_dispatch(rank->ep, &args, &recv, NULL, &op) != 0)
    rank_fail(rank, "dispatch: %s", weft_last_error());
  else if (rank->index == 1) {
    if (silence->lies)
      lie(rank, op);
  } else {
    struct weft_ep_combine_args combine = combine_of(b);
    for (uint32_t t = 0; t < TOKENS; t++)
      b->row_weights[t * TOPK] = 5 + (float)t;
    memcpy(b->bias, b->x, sizeof b->bias);
    memset(b->out_weights, 0xFF, sizeof b->out_weights);
    combine.row_weights = b->row_weights;
    combine.out_weights = b->out_weights;
    combine.bias[1] = b->bias;
    combine.flags = WEFT_EP_COMBINE_RENORMALIZE | WEFT_EP_COMBINE_UNWEIGHTED;
    result.missing = b->missing;
    result.missing_cap = TOKENS * TOPK;
    if (weft_ep_combine(rank->ep, op, &combine, &result) != 0)
      rank_fail(rank, "combine: %s", weft_last_error());
    else
      check_silenced(rank, b, &result);
  }
  free(b);
}

static void a_rank_that_does_not_answer_gives_no_weights_back(void **state) {
  (void)state;
  static const int32_t ranks[] = {0, 1};
  for (int lies = 0; lies < 2; lies++) {
    struct silence silence = {.lies = lies};
    struct setup setup = two_ranks(lies ? "/lies/" : "/leaves/", 2000);
    ranks_run(&setup, ranks, 2, fall_silent, &silence);
  }
}

// Rank 0's next receive finds, once it has counted the rows, that rank 1 has changed one of its headers.
static _Thread_local struct {
  weft_ep_t *ep; // NULL: not armed
  uint64_t op;
  bool malformed;
} change;

void __real_ep_places_pack(weft_ep_t *ep, const struct weft_ep_recv_args *recv);
void __wrap_ep_places_pack(weft_ep_t *ep, const struct weft_ep_recv_args *recv);
void __wrap_ep_places_pack(weft_ep_t *ep, const struct weft_ep_recv_args *recv) {
  if (ep == change.ep) {
    const struct ep_link *link = ep->host->ops[change.op % EP_DEPTH].members[1].link; // rank 1 may have left
    char *slot = (char *)ep_slot(&ep->layout, link->in.memory, change.op);
    struct ep_row *row = ep_row_at(&ep->layout, slot + ep->layout.heads, 1);
    if (change.malformed)
      row->token = -7;
    else
      ep_row_experts(&ep->layout, row)[0] = 1; // another expert than was counted
    change.ep = NULL;
  }
  __real_ep_places_pack(ep, recv);
}

static void receive_changed_rows(struct rank *rank, void *arg) {
  struct buffers *b = new_buffers();
  struct weft_ep_dispatch_args args = dispatch_of(b, of_two);
  struct weft_ep_recv_args recv = receive_in(b, WEFT_EP_PACKED);
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  uint64_t op;
  recv.slot = b->slot;
  recv.expert_end = b->expert_end;
  if (rank->index == 0) {
    change.malformed = *(const bool *)arg;
    change.op = weft_ep_next_op(rank->ep);
    change.ep = rank->ep;
  }
  if (weft_ep_dispatch(rank->ep, &args, &recv, &info, &op) != 0)
    rank_fail(rank, "dispatch: %s", weft_last_error());
  else if (rank->index == 0 && (info.num_lost != 1 || info.num_rows != TOKENS || b->counts[0] != TOKENS ||
                                b->counts[1] != 0 || b->expert_end[0] != TOKENS || b->src_rank[TOKENS - 1] != 0))
    rank_fail(rank, "%u lost, %u rows, counts %d and %d", info.num_lost, info.num_rows, b->counts[0], b->counts[1]);
  free(b);
}

static void a_rank_that_changes_headers_after_they_were_counted_is_lost(void **state) {
  (void)state;
  static const int32_t ranks[] = {0, 1};
  for (int i = 0; i < 2; i++) {
    bool malformed = i == 1;
    struct setup setup = two_ranks(malformed ? "/malformed/" : "/changed/", 0);
    ranks_run(&setup, ranks, 2, receive_changed_rows, &malformed);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(biases_are_added_before_the_sum_is_rounded),
      cmocka_unit_test(too_few_rows_for_the_parts_are_reported_and_nothing_is_written),
      cmocka_unit_test(what_does_not_go_together_is_refused),
      cmocka_unit_test(opaque_rows_of_two_sizes_end_the_operation),
      cmocka_unit_test(a_rank_that_does_not_answer_gives_no_weights_back),
      cmocka_unit_test(a_rank_that_changes_headers_after_they_were_counted_is_lost),
  };
  return cmocka_run_group_tests_name("ep_layouts_edges", tests, open_store, close_store);
}
