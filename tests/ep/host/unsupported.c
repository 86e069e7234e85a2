// Features that weft/ep.h declares and that no engine, or not this one, supports yet: each is refused with the name of
// its field, and nothing is sent. Bits and values without a meaning are INVALID.
#include <string.h>

#include "cmocka_all.h"

#include "ep/support/alone.h"
#include "support/local_store.h"

static weft_ep_t *ep;

static int open_rank(void **state) {
  if (open_store(state) != 0)
    return -1;
  struct weft_ep_options options = alone_options(store);
  ep = alone_open(&options);
  return 0;
}

static int close_rank(void **state) {
  weft_ep_close(ep);
  return close_store(state);
}

// One field of a struct, by its place: what makes the call fail, how, and a word of the sentence.
struct refusal {
  size_t offset;
  uint64_t value;
  size_t width;
  int code;
  const char *words;
};
#define FIELD(type, member, value, code, words)                                                                        \
  {                                                                                                                    \
    offsetof(struct weft_ep_##type, member), (uint64_t)(value), sizeof((struct weft_ep_##type *)0)->member, code,      \
        words                                                                                                          \
  }
#define UNSUPPORTED(type, member, value, words) FIELD(type, member, value, WEFT_ERR_UNSUPPORTED, words)
#define INVALID(type, member, value, words)     FIELD(type, member, value, WEFT_ERR_INVALID, words)
#define COUNT(list)                             (sizeof(list) / sizeof *(list))

static void set(void *args, const struct refusal *refusal) {
  uint32_t narrow = (uint32_t)refusal->value;
  memcpy((char *)args + refusal->offset, refusal->width == sizeof narrow ? (void *)&narrow : (void *)&refusal->value,
         refusal->width);
}

// Nothing has begun: the next operation's number is the same.
static void each_field_of_a_dispatch(void **state) {
  (void)state;
  const struct refusal refusals[] = {
      INVALID(dispatch_args, dtype, WEFT_EP_OPAQUE, "row_bytes is 0; with dtype OPAQUE it must be a multiple of 16"),
      INVALID(dispatch_args, x_dtype, WEFT_EP_OPAQUE, "x_dtype is OPAQUE, and dtype is not"),
      INVALID(dispatch_args, row_bytes, 256, "row_bytes is 256, but dtype is not OPAQUE"),
      INVALID(dispatch_args, scale_bytes, 4, "scale_bytes is 4, but dtype is not OPAQUE"),
      INVALID(dispatch_args, dtype, 6, "dtype is 6, which does not exist"),
      INVALID(dispatch_args, x_dtype, 7, "dtype is 7, which does not exist"),
      INVALID(dispatch_args, flags, 1u << 9, "bit 0x200"),
  };
  uint64_t before = weft_ep_next_op(ep), op;
  struct weft_ep_recv_args recv = alone_recv();
  for (size_t i = 0; i < COUNT(refusals); i++) {
    struct weft_ep_dispatch_args args = alone_dispatch();
    set(&args, &refusals[i]);
    assert_says(weft_ep_dispatch_send(ep, &args, &op), refusals[i].code, refusals[i].words);
    assert_says(weft_ep_dispatch(ep, &args, &recv, NULL, &op), refusals[i].code, refusals[i].words);
  }
  assert_int_equal(weft_ep_next_op(ep), before);
}

static void each_field_of_a_receive(void **state) {
  (void)state;
  const struct refusal refusals[] = {
      INVALID(recv_args, alignment, 128, "alignment is given, but the layout is not PACKED"),
      INVALID(recv_args, flags, WEFT_EP_RECV_ZERO_PADDING, "ZERO_PADDING is given, but the layout is not PACKED"),
      INVALID(recv_args, slot, (uintptr_t)alone_counts, "slot is given, but the layout is not PACKED"),
      INVALID(recv_args, expert_end, (uintptr_t)alone_counts, "expert_end is given, but the layout is not PACKED"),
      INVALID(recv_args, flags, WEFT_EP_RECV_KEEP_PLACES, "RANK_MAJOR"),
      INVALID(recv_args, flags, 1u << 5, "bit 0x20"),
      INVALID(recv_args, layout, 4, "layout is 4, which does not exist"),
      INVALID(recv_args, reserved, 1, "reserved is 1"),
      INVALID(recv_args, status, (uintptr_t)alone_x, "status_size is 0"),
  };
  uint64_t before = weft_ep_next_op(ep), op;
  struct weft_ep_dispatch_args args = alone_dispatch();
  for (size_t i = 0; i < COUNT(refusals); i++) {
    struct weft_ep_recv_args recv = alone_recv();
    set(&recv, &refusals[i]);
    assert_says(weft_ep_dispatch(ep, &args, &recv, NULL, &op), refusals[i].code, refusals[i].words);
  }
  assert_int_equal(weft_ep_next_op(ep), before);
  assert_int_equal(weft_ep_dispatch_send(ep, &args, &op), 0);
  for (size_t i = 0; i < COUNT(refusals); i++) {
    struct weft_ep_recv_args recv = alone_recv();
    set(&recv, &refusals[i]);
    assert_says(weft_ep_dispatch_recv(ep, op, &recv, NULL), refusals[i].code, refusals[i].words);
  }
  struct weft_ep_recv_args recv = alone_recv();
  assert_int_equal(weft_ep_dispatch_recv(ep, op, &recv, NULL), 0);
  assert_int_equal(weft_ep_finish(ep, op), 0);
}

static void each_field_of_a_combine(void **state) {
  (void)state;
  const struct refusal refusals[] = {
      INVALID(combine_args, dtype, 3, "dtype is 3, which is not a dtype of a combine"),
      INVALID(combine_args, flags, 1u << 3, "bit 0x8"),
      INVALID(combine_args, reserved, 1, "reserved is 1"),
  };
  uint64_t op;
  struct weft_ep_dispatch_args dispatch = alone_dispatch();
  struct weft_ep_recv_args recv = alone_recv();
  assert_int_equal(weft_ep_dispatch(ep, &dispatch, &recv, NULL, &op), 0);
  const struct weft_ep_combine_args good = alone_combine();
  for (size_t i = 0; i < COUNT(refusals); i++) {
    struct weft_ep_combine_args args = good;
    set(&args, &refusals[i]);
    assert_says(weft_ep_combine(ep, op, &args, NULL), refusals[i].code, refusals[i].words);
    assert_says(weft_ep_combine_send(ep, op, &args), refusals[i].code, refusals[i].words);
    assert_says(weft_ep_combine_recv(ep, op, &args, NULL), refusals[i].code, refusals[i].words);
  }
  assert_int_equal(weft_ep_combine(ep, op, &good, NULL), 0);
}

static void each_option(void **state) {
  (void)state;
  weft_ep_t *other = NULL;
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  options.store = store;
  options.prefix = "/other/";
  options.dtype = WEFT_EP_OPAQUE;
  assert_says(weft_ep_open(&other, &options, 1000), WEFT_ERR_INVALID, "OPAQUE, which has no size of its own");
  options.dtype = 0;
  options.flags = 1u << 4;
  assert_says(weft_ep_open(&other, &options, 1000), WEFT_ERR_INVALID, "bit 0x10");
}

// Programs of other versions: a longer struct goes while its tail is 0, a shorter one than the first never.
static void structs_of_other_versions(void **state) {
  (void)state;
  struct {
    struct weft_ep_dispatch_args args;
    uint64_t newer;
  } dispatch = {alone_dispatch(), 0};
  struct {
    struct weft_ep_recv_args args;
    uint64_t newer;
  } recv = {alone_recv(), 0};
  struct {
    struct weft_ep_combine_args args;
    uint64_t newer;
  } combine = {alone_combine(), 0};
  struct {
    struct weft_ep_info info;
    uint64_t newer;
  } info = {WEFT_EP_INFO_INIT, 77};
  struct {
    struct weft_ep_result result;
    uint64_t newer;
  } result = {WEFT_EP_RESULT_INIT, 78};
  dispatch.args.size = sizeof dispatch;
  recv.args.size = sizeof recv;
  combine.args.size = sizeof combine;
  info.info.size = sizeof info;
  result.result.size = sizeof result;
  uint64_t op;
  assert_int_equal(weft_ep_dispatch(ep, &dispatch.args, &recv.args, &info.info, &op), 0);
  assert_int_equal(info.info.op, op);
  assert_int_equal(info.info.num_rows, ALONE_TOKENS * ALONE_TOPK);
  assert_int_equal(info.newer, 77);
  assert_int_equal(weft_ep_combine(ep, op, &combine.args, &result.result), 0);
  assert_int_equal(result.result.logical_bytes, (uint64_t)ALONE_TOKENS * ALONE_TOPK * ALONE_HIDDEN * 2);
  assert_int_equal(result.newer, 78);
  dispatch.newer = 1;
  assert_says(weft_ep_dispatch(ep, &dispatch.args, &recv.args, NULL, &op), WEFT_ERR_VERSION,
              "weft_ep_dispatch_args: byte");
  dispatch.newer = 0;
  info.info.size = 16;
  assert_says(weft_ep_dispatch(ep, &dispatch.args, &recv.args, &info.info, &op), WEFT_ERR_INVALID, "weft_ep_info");
  recv.args.size = 8;
  assert_says(weft_ep_dispatch(ep, &dispatch.args, &recv.args, NULL, &op), WEFT_ERR_INVALID, "weft_ep_recv_args");
  assert_says(weft_ep_dispatch_send(ep, NULL, &op), WEFT_ERR_INVALID, "weft_ep_dispatch_args");
}

static void the_limits_are_those_of_the_options(void **state) {
  (void)state;
  struct weft_ep_limits limits = WEFT_EP_LIMITS_INIT;
  assert_int_equal(weft_ep_get_limits(&limits), 0);
  assert_int_equal(limits.max_tokens, 32768);
  assert_int_equal(limits.depth, 2);
  weft_ep_t *other = NULL;
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  options.store = store;
  options.capacity = limits.max_capacity + 1;
  assert_says(weft_ep_open(&other, &options, 1000), WEFT_ERR_INVALID, "capacity");
  limits.size = 8;
  assert_says(weft_ep_get_limits(&limits), WEFT_ERR_INVALID, "weft_ep_limits");
}

static void masks_and_states_are_counted(void **state) {
  (void)state;
  int32_t masked[6] = {9, 9, 9, 9, 9, 9};
  assert_int_equal(weft_ep_mask_update(ep, 0, true), 0);
  assert_int_equal(weft_ep_mask_read(ep, masked, 6, NULL), 0);
  assert_memory_equal(masked, ((int32_t[]){1, 0, 0, 0, 9, 9}), sizeof masked);
  enum weft_ep_rank_state states[2];
  uint32_t count = 0;
  assert_int_equal(weft_ep_states(ep, states, 2, &count), 0);
  assert_int_equal(count, 4);
  assert_int_equal(states[0], WEFT_EP_MASKED);
  assert_int_equal(states[1], WEFT_EP_ABSENT);
  assert_int_equal(weft_ep_mask_update(ep, 0, false), 0);
  assert_int_equal(weft_ep_mask_read(ep, masked, 1, NULL), 0);
  assert_int_equal(masked[0], 0);
  assert_says(weft_ep_mask_read(ep, NULL, 1, NULL), WEFT_ERR_INVALID, "masked is NULL");
  assert_says(weft_ep_states(ep, NULL, 1, &count), WEFT_ERR_INVALID, "states is NULL");
  int32_t ranks[1] = {-1};
  uint32_t members = 0;
  assert_int_equal(weft_ep_view(ep, NULL, NULL, 0, &members), 0);
  assert_int_equal(members, 1);
  assert_int_equal(weft_ep_committed_view(ep, NULL, ranks, 1, &members), 0);
  assert_int_equal(ranks[0], 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_field_of_a_dispatch),     cmocka_unit_test(each_field_of_a_receive),
      cmocka_unit_test(each_field_of_a_combine),      cmocka_unit_test(each_option),
      cmocka_unit_test(structs_of_other_versions),    cmocka_unit_test(the_limits_are_those_of_the_options),
      cmocka_unit_test(masks_and_states_are_counted),
  };
  return cmocka_run_group_tests_name("ep_unsupported", tests, open_rank, close_rank);
}
