// Bad arguments: each gets its error code and a message that names the fault, and nothing is left behind.
#include <string.h>

#include "cmocka_all.h"

#include "ep/oracle/oracle.h"
#include "ep/support/alone.h"
#include "support/local_store.h"
#include "support/sanitized.h"

static struct weft_ep_options small(void) {
  struct weft_ep_options options = alone_options(store);
  options.hidden = 128;
  return options;
}

static void options_out_of_range_are_named(void **state) {
  (void)state;
  static const int32_t founder = 0;
  weft_ep_t *ep = NULL;
  struct weft_ep_options o;
#define REFUSED(field, value, words)                                                                                   \
  o = small();                                                                                                         \
  o.field = value;                                                                                                     \
  assert_says(weft_ep_open(&ep, &o, 1000), WEFT_ERR_INVALID, words);                                                   \
  assert_null(ep)
  REFUSED(size, 8, "weft_ep_options: its size is 8");
  REFUSED(store, NULL, "store");
  REFUSED(prefix, "/weft/x", "does not end in '/'");
  REFUSED(hidden, 100, "hidden is 100");
  REFUSED(hidden, 200, "multiple of 128");
  REFUSED(hidden, 16512, "128 to 16384");
  REFUSED(topk, 17, "topk is 17");
  REFUSED(max_tokens, 32769, "max_tokens is 32769");
  REFUSED(mode, (enum weft_ep_mode)3, "mode is 3");
  REFUSED(window_bytes, 1 << 20, "window_bytes is given, but the group is opened for LATENCY");
  REFUSED(max_rows, 4, "max_rows is given, but the group is opened for LATENCY");
  REFUSED(experts_per_rank, 257, "experts_per_rank is 257");
  REFUSED(capacity, 4097, "capacity is 4097");
  REFUSED(rank, 4, "rank 4 is beyond the capacity");
  REFUSED(rank, -2, "rank -2");
  REFUSED(dtype, (enum weft_ep_dtype)6, "dtype is 6");
  REFUSED(combine_dtype, (enum weft_ep_combine_dtype)3, "combine_dtype is 3");
  REFUSED(num_founders, 1, "founders is NULL");
  REFUSED(founders, &founder, "num_founders is 0");
  REFUSED(transport, "ofii", "ofii is not a transport");
  REFUSED(transport, "ofi,ucx", "ofi,ucx is not a transport");
  o = small();
  o.mode = WEFT_EP_LATENCY;
  o.max_tokens = 1025;
  assert_says(weft_ep_open(&ep, &o, 1000), WEFT_ERR_INVALID, "max_tokens is 1025; with LATENCY");
  o.mode = WEFT_EP_THROUGHPUT;
  o.window_bytes = 2048;
  assert_says(weft_ep_open(&ep, &o, 1000), WEFT_ERR_INVALID, "window_bytes is 2048; rows of");
  o.window_bytes = (uint64_t)1 << 32;
  assert_says(weft_ep_open(&ep, &o, 1000), WEFT_ERR_INVALID, "window_bytes is 4294967296");
  static const int32_t twice[] = {0, 0}, others[] = {1, 2}, beyond[] = {0, 9};
  o = small();
  o.num_founders = 2;
  o.founders = twice;
  assert_says(weft_ep_open(&ep, &o, 1000), WEFT_ERR_INVALID, "named twice");
  o.founders = others;
  assert_says(weft_ep_open(&ep, &o, 1000), WEFT_ERR_INVALID, "not among the founders");
  o.flags = WEFT_EP_OPTION_JOIN_ONLY;
  assert_says(weft_ep_open(&ep, &o, 1000), WEFT_ERR_INVALID, "JOIN_ONLY");
  o.flags = 0;
  o.founders = beyond;
  assert_says(weft_ep_open(&ep, &o, 1000), WEFT_ERR_INVALID, "founder 9");
  struct weft_store_list *left = NULL;
  assert_int_equal(weft_store_range(store, "", true, 0, &left), 0);
  assert_int_equal(left->count, 0);
  weft_store_list_free(left);
}

static void a_held_rank_is_refused_by_its_deadline(void **state) {
  (void)state;
  struct weft_ep_options o = small();
  weft_ep_t *ep, *second = NULL;
  assert_int_equal(weft_ep_open(&ep, &o, 10000), 0);
  assert_says(weft_ep_open(&second, &o, support_slowed() ? 3000 : 100), WEFT_ERR_EXISTS, "rank 0");
  assert_null(second);
  weft_ep_close(ep);
  assert_int_equal(weft_ep_open(&second, &o, 10000), 0);
  weft_ep_close(second);
}

static void connect_names_what_is_wrong(void **state) {
  (void)state;
  struct weft_ep_options o = small();
  weft_ep_t *ep, *peer;
  assert_int_equal(weft_ep_open(&ep, &o, 10000), 0);
  static const int32_t self[] = {0}, beyond[] = {4}, negative[] = {-1}, absent[] = {1, 3}, there[] = {2},
                       twice[] = {2, 2}, half[] = {2, 1};
  assert_says(weft_ep_connect(ep, self, 1, 100), WEFT_ERR_INVALID, "this rank itself");
  assert_says(weft_ep_connect(ep, beyond, 1, 100), WEFT_ERR_INVALID, "rank 4 is out of range");
  assert_says(weft_ep_connect(ep, negative, 1, 100), WEFT_ERR_INVALID, "rank -1 is out of range");
  assert_says(weft_ep_connect(ep, absent, 2, 100), WEFT_ERR_TIMEOUT, "1");
  assert_true(strstr(weft_last_error(), "3") != NULL);
  assert_says(weft_ep_disconnect(ep, absent, 1, 100), WEFT_ERR_NOT_FOUND, "rank 1 is not connected");
  o.rank = 2;
  assert_int_equal(weft_ep_open(&peer, &o, 10000), 0);
  assert_int_equal(weft_ep_connect(ep, there, 1, 10000), 0);
  assert_int_equal(weft_ep_connect(ep, there, 1, 10000), 0); // twice is no error
  struct weft_ep_stats stats = WEFT_EP_STATS_INIT;
  assert_int_equal(weft_ep_get_stats(ep, &stats), 0);
  assert_int_equal(stats.connected, 1);
  enum weft_ep_rank_state states[4];
  assert_int_equal(weft_ep_states(ep, states, 4, NULL), 0);
  assert_int_equal(states[2], WEFT_EP_CONNECTED);
  assert_int_equal(states[1], WEFT_EP_ABSENT);
  assert_says(weft_ep_disconnect(ep, half, 2, 100), WEFT_ERR_NOT_FOUND, "rank 1 is not connected");
  assert_int_equal(weft_ep_get_stats(ep, &stats), 0);
  assert_int_equal(stats.connected, 1); // nothing was done
  assert_int_equal(weft_ep_disconnect(ep, twice, 2, 10000), 0);
  assert_int_equal(weft_ep_get_stats(ep, &stats), 0);
  assert_int_equal(stats.connected, 0);
  weft_ep_close(peer);
  weft_ep_close(ep);
}

static void other_sizes_and_formats_do_not_connect(void **state) {
  (void)state;
  static const int32_t one[] = {1};
  static const char *const words[] = {"hidden 256", "with dtype 4", "combine_dtype 2"};
  for (int i = 0; i < 3; i++) {
    struct weft_ep_options o = small();
    weft_ep_t *ep, *peer;
    assert_int_equal(weft_ep_open(&ep, &o, 10000), 0);
    o.rank = 1;
    o.hidden = i == 0 ? 256 : o.hidden;
    o.dtype = i == 1 ? WEFT_EP_FP8_UE8M0 : o.dtype;
    o.combine_dtype = i == 2 ? WEFT_EP_COMBINE_LOGFMT10 : o.combine_dtype;
    assert_int_equal(weft_ep_open(&peer, &o, 10000), 0);
    assert_says(weft_ep_connect(ep, one, 1, 10000), WEFT_ERR_VERSION, words[i]);
    weft_ep_close(peer);
    weft_ep_close(ep);
  }
}

static void operations_before_activation_are_refused(void **state) {
  (void)state;
  struct weft_ep_options o = small();
  weft_ep_t *ep;
  assert_int_equal(weft_ep_open(&ep, &o, 10000), 0);
  struct weft_ep_dispatch_args none = WEFT_EP_DISPATCH_ARGS_INIT;
  uint64_t op;
  assert_says(weft_ep_dispatch_send(ep, &none, &op), WEFT_ERR_NOT_CONNECTED, "weft_ep_activate");
  assert_int_equal(weft_ep_barrier(ep), WEFT_ERR_NOT_CONNECTED);
  assert_false(weft_ep_is_active(ep));
  assert_says(weft_ep_mask_update(ep, 1, true), WEFT_ERR_NOT_FOUND, "rank 1");
  weft_ep_close(ep);
}

static void a_rank_that_may_only_join_founds_no_group(void **state) {
  (void)state;
  weft_ep_t *ep;
  struct weft_ep_options o = small();
  o.flags = WEFT_EP_OPTION_JOIN_ONLY;
  o.lease_ttl_s = 1; // it waits so long for a view to come back
  assert_int_equal(weft_ep_open(&ep, &o, 10000), 0);
  assert_says(weft_ep_activate(ep, 50), WEFT_ERR_TIMEOUT, "no view of the group");
  weft_ep_close(ep);
}

static void founders_that_do_not_come_are_named(void **state) {
  (void)state;
  struct weft_ep_options o = small();
  static const int32_t founders[] = {0, 2, 3};
  o.founders = founders;
  o.num_founders = 3;
  weft_ep_t *ep;
  assert_int_equal(weft_ep_open(&ep, &o, 10000), 0);
  assert_says(weft_ep_activate(ep, 100), WEFT_ERR_TIMEOUT, "2");
  assert_true(strstr(weft_last_error(), "3") != NULL);
  weft_ep_close(ep);
}

static void dispatch_arguments_are_checked(void **state) {
  (void)state;
  struct weft_ep_options o = small();
  weft_ep_t *ep = alone_open(&o);
  uint16_t x[4 * 128] = {0}, out[4 * 128];
  int64_t topk_idx[8] = {0, 1, 0, 1, 0, 1, 0, 1};
  float weights[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  int32_t counts[2];
  uint64_t op;
  struct weft_ep_dispatch_args args = WEFT_EP_DISPATCH_ARGS_INIT;
  args.num_tokens = 5;
  assert_says(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_INVALID, "5 tokens");
  args.num_tokens = 4;
  assert_says(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_INVALID, "x is NULL");
  args.x = x;
  assert_says(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_INVALID, "topk_idx is NULL");
  args.topk_idx = topk_idx;
  args.topk_weights = weights;
  args.scales = weights;
  assert_says(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_INVALID, "scales are given, but the rows are bf16");
  args.scales = NULL;
  topk_idx[5] = 8;
  assert_says(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_INVALID, "topk_idx[2][1] is 8");
  topk_idx[5] = -2;
  assert_says(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_INVALID, "topk_idx[2][1] is -2");
  topk_idx[5] = 1;
  assert_int_equal(weft_ep_dispatch_send(ep, &args, &op), 0);
  struct weft_ep_recv_args recv = WEFT_EP_RECV_ARGS_INIT;
  assert_says(weft_ep_dispatch_recv(ep, op, &recv, NULL), WEFT_ERR_INVALID, "counts is NULL");
  uint16_t received[2 * 4 * 128];
  recv.counts = counts;
  recv.x = received;
  recv.rows = 3;
  assert_says(weft_ep_dispatch_recv(ep, op, &recv, NULL), WEFT_ERR_ROOM, "4 arrived");
  recv.rows = 4;
  assert_says(weft_ep_dispatch_recv(ep, op + 2, &recv, NULL), WEFT_ERR_INVALID, "not open");
  assert_int_equal(weft_ep_dispatch_recv(ep, op, &recv, NULL), 0); // the same operation, with room enough
  assert_int_equal(counts[0], 4);
  assert_says(weft_ep_dispatch_recv(ep, op, &recv, NULL), WEFT_ERR_INVALID, "dispatch_recv");
  struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT;
  combine.out = out;
  assert_says(weft_ep_combine_send(ep, op, &combine), WEFT_ERR_INVALID, "y is NULL");
  combine.y = received;
  combine.topk_weights = weights;
  assert_says(weft_ep_combine_send(ep, op, &combine), WEFT_ERR_INVALID, "already");
  combine.topk_weights = NULL;
  assert_says(weft_ep_combine_recv(ep, op, &combine, NULL), WEFT_ERR_INVALID, "combine_send");
  assert_int_equal(weft_ep_combine(ep, op, &combine, NULL), 0);
  assert_int_equal(weft_ep_next_op(ep), op + 1);
  weft_ep_close(ep);
}

// A call that sends and receives, behind an operation that has only been sent, begins none: the caller would not know
// of it, and the others would wait for its end.
static void what_is_received_at_once_has_to_be_next(void **state) {
  (void)state;
  struct weft_ep_options o = small();
  weft_ep_t *ep = alone_open(&o);
  uint16_t received[2 * 4 * 128], out[128];
  int32_t counts[2];
  uint64_t op, other = 77;
  struct weft_ep_dispatch_args args = WEFT_EP_DISPATCH_ARGS_INIT;
  struct weft_ep_recv_args recv = {.size = sizeof recv, .rows = 4, .x = received, .counts = counts};
  const struct weft_ep_combine_args combine = {.size = sizeof combine, .y = received, .out = out};
  assert_int_equal(weft_ep_dispatch(ep, &args, &recv, NULL, &op), 0);
  assert_int_equal(weft_ep_dispatch_send(ep, &args, &other), 0);
  const uint64_t sent = other;
  args.flags = WEFT_EP_DISPATCH_RECYCLE; // and ends none
  assert_says(weft_ep_dispatch(ep, &args, &recv, NULL, &other), WEFT_ERR_INVALID, "operation 1 was sent earlier");
  assert_int_equal(other, sent);
  assert_int_equal(weft_ep_combine(ep, op, &combine, NULL), 0);
  assert_says(weft_ep_dispatch(ep, &args, &recv, NULL, &other), WEFT_ERR_INVALID, "operation 1 was sent earlier");
  assert_says(weft_ep_barrier(ep), WEFT_ERR_INVALID, "barrier: operation 1 was sent earlier");
  assert_int_equal(other, sent);
  assert_int_equal(weft_ep_next_op(ep), sent + 1);
  assert_int_equal(weft_ep_dispatch_recv(ep, sent, &recv, NULL), 0);
  assert_int_equal(weft_ep_barrier(ep), 0);
  assert_int_equal(weft_ep_finish(ep, sent), 0);
  weft_ep_close(ep);
}

// Rows by rank come with their weights or without any.
static void weights_of_rows_by_rank_do_not_come_late(void **state) {
  (void)state;
  struct weft_ep_options o = small();
  weft_ep_t *ep = alone_open(&o);
  uint16_t x[128] = {0}, received[128], out[128];
  const int64_t topk_idx[2] = {0, -1};
  const float weights[2] = {1, 0};
  int32_t counts[2];
  uint64_t op;
  const struct weft_ep_dispatch_args args = {.size = sizeof args, .x = x, .num_tokens = 1, .topk_idx = topk_idx};
  const struct weft_ep_recv_args recv = {
      .size = sizeof recv, .layout = WEFT_EP_RANK_MAJOR, .rows = 1, .x = received, .counts = counts};
  struct weft_ep_combine_args combine = {.size = sizeof combine, .y = received, .out = out, .topk_weights = weights};
  assert_int_equal(weft_ep_dispatch(ep, &args, &recv, NULL, &op), 0);
  assert_says(weft_ep_combine(ep, op, &combine, NULL), WEFT_ERR_INVALID,
              "RANK_MAJOR: give the weights to the "
              "dispatch");
  combine.topk_weights = NULL;
  assert_int_equal(weft_ep_combine(ep, op, &combine, NULL), 0);
  weft_ep_close(ep);
}

// The rows that were too many lie apart from their scales; then they are asked for in place, together.
// Late weights and weights that go back use the same memory.
static void weights_go_back_only_if_none_come_late(void **state) {
  (void)state;
  struct weft_ep_options o = small();
  weft_ep_t *ep = alone_open(&o);
  uint16_t x[128] = {0}, received[2 * 128], out[128];
  const int64_t topk_idx[2] = {0, -1};
  const float weights[2] = {1, 0}, row_weights[2] = {1, 1};
  int32_t counts[2];
  uint64_t op;
  const struct weft_ep_dispatch_args args = {.size = sizeof args, .x = x, .num_tokens = 1, .topk_idx = topk_idx};
  const struct weft_ep_recv_args recv = {.size = sizeof recv, .rows = 1, .x = received, .counts = counts};
  struct weft_ep_combine_args combine = {
      .size = sizeof combine, .y = received, .out = out, .topk_weights = weights, .row_weights = row_weights};
  assert_int_equal(weft_ep_dispatch(ep, &args, &recv, NULL, &op), 0);
  assert_says(weft_ep_combine(ep, op, &combine, NULL), WEFT_ERR_INVALID, "row_weights");
  combine.row_weights = NULL;
  assert_int_equal(weft_ep_combine(ep, op, &combine, NULL), 0);
  weft_ep_close(ep);
}

static void rows_cast_before_come_in_place_when_they_are_too_many(void **state) {
  (void)state;
  struct weft_ep_options o = small();
  o.dtype = WEFT_EP_FP8;
  weft_ep_t *ep = alone_open(&o);
  uint8_t x[3 * 128], received[2 * 128];
  for (size_t i = 0; i < sizeof x; i++)
    x[i] = (uint8_t)i;
  const int64_t topk_idx[6] = {1, -1, 1, -1, 1, -1};
  const float scales[3] = {0.25f, 0.5f, 4.0f};
  const void *rows_at[6];
  int32_t counts[2];
  uint64_t op;
  const struct weft_ep_dispatch_args args = {
      .size = sizeof args, .x = x, .num_tokens = 3, .topk_idx = topk_idx, .scales = scales};
  struct weft_ep_recv_args recv = {
      .size = sizeof recv, .rows = 1, .x = received, .scales = (float[2]){0}, .counts = counts};
  assert_says(weft_ep_dispatch(ep, &args, &recv, NULL, &op), WEFT_ERR_ROOM, "3 arrived");
  recv.rows = 3;
  recv.x = NULL;
  recv.rows_at = rows_at;
  assert_int_equal(weft_ep_dispatch_recv(ep, op, &recv, NULL), 0);
  assert_int_equal(counts[1], 3);
  for (int t = 0; t < 3; t++) {
    assert_memory_equal(rows_at[3 + t], x + t * 128, 128);
    assert_memory_equal((const uint8_t *)rows_at[3 + t] + 128, &scales[t], sizeof *scales);
  }
  assert_int_equal(weft_ep_finish(ep, op), 0);
  weft_ep_close(ep);
}

static void a_masked_or_absent_rank_costs_its_selections_only(void **state) {
  (void)state;
  struct weft_ep_options o = small();
  weft_ep_t *ep = alone_open(&o);
  uint16_t x[128], out[128], received[2 * 4 * 128];
  for (int i = 0; i < 128; i++)
    x[i] = oracle_to_bf16(3.0);
  int64_t topk_idx[2] = {0, 7}; // expert 7 is rank 3's, and there is no rank 3
  float weights[2] = {0.25f, 0.75f};
  int32_t counts[2];
  uint64_t op;
  struct weft_ep_dispatch_args args = {
      .size = sizeof args, .x = x, .num_tokens = 1, .topk_idx = topk_idx, .topk_weights = weights};
  struct weft_ep_recv_args recv = {.size = sizeof recv, .rows = 4, .x = received, .counts = counts};
  struct weft_ep_missing missing[2];
  struct weft_ep_result result = {.size = sizeof result, .missing = missing, .missing_cap = 2};
  struct weft_ep_combine_args combine = {.size = sizeof combine, .y = received, .out = out};
  for (int renormalize = 0; renormalize < 2; renormalize++) {
    combine.flags = renormalize ? WEFT_EP_COMBINE_RENORMALIZE : 0;
    assert_int_equal(weft_ep_dispatch(ep, &args, &recv, NULL, &op), 0);
    assert_int_equal(weft_ep_combine(ep, op, &combine, &result), 0);
    assert_int_equal(result.num_missing, 1);
    assert_int_equal(missing[0].token, 0);
    assert_int_equal(missing[0].k, 1);
    assert_int_equal(missing[0].expert, 7);
    assert_true(oracle_bf16(out[0]) == (renormalize ? 3.0 : 0.75));
  }
  assert_int_equal(weft_ep_mask_update(ep, 0, true), 0); // even its own experts
  assert_int_equal(weft_ep_dispatch(ep, &args, &recv, NULL, &op), 0);
  assert_int_equal(counts[0], 0);
  assert_int_equal(weft_ep_combine(ep, op, &combine, &result), 0);
  assert_int_equal(result.num_missing, 2);
  assert_true(oracle_bf16(out[5]) == 0.0);
  weft_ep_close(ep);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(options_out_of_range_are_named),
      cmocka_unit_test(a_held_rank_is_refused_by_its_deadline),
      cmocka_unit_test(connect_names_what_is_wrong),
      cmocka_unit_test(other_sizes_and_formats_do_not_connect),
      cmocka_unit_test(operations_before_activation_are_refused),
      cmocka_unit_test(a_rank_that_may_only_join_founds_no_group),
      cmocka_unit_test(founders_that_do_not_come_are_named),
      cmocka_unit_test(dispatch_arguments_are_checked),
      cmocka_unit_test(what_is_received_at_once_has_to_be_next),
      cmocka_unit_test(weights_of_rows_by_rank_do_not_come_late),
      cmocka_unit_test(weights_go_back_only_if_none_come_late),
      cmocka_unit_test(rows_cast_before_come_in_place_when_they_are_too_many),
      cmocka_unit_test(a_masked_or_absent_rank_costs_its_selections_only),
  };
  return cmocka_run_group_tests_name("ep_bad_arguments", tests, open_store, close_store);
}
