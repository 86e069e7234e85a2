// What the engine on CUDA memory does not do yet of weft/ep.h: each field is refused with its name, before anything is
// launched.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "ep/gpu/support/fake_ranks.h"

static void each_field_is_refused_by_name(void **state) {
  (void)state;
  struct weft_ep_options options = fake_options(0, NULL, 0);
  options.topk = 2;
  weft_ep_t *ep = fake_open(options);
  assert_ok(weft_ep_activate(ep, DEADLINE_MS));
  static uint16_t x[128];
  static uint32_t number = 1;
  static const int64_t experts[] = {0, 1};
  struct weft_ep_dispatch_args good = WEFT_EP_DISPATCH_ARGS_INIT, args;
  good.x = x;
  good.num_tokens = 1;
  good.topk_idx = experts;
  struct weft_ep_recv_args recv;
  struct weft_ep_combine_args combine;
  uint64_t op, before = weft_ep_next_op(ep);
#define SEND(field, value, words)                                                                                      \
  args = good;                                                                                                         \
  args.field = value;                                                                                                  \
  assert_int_equal(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_UNSUPPORTED);                                       \
  assert_says(words)
  SEND(dtype, WEFT_EP_FP8_POW2, "a dtype other than that of the group");
  SEND(x_dtype, WEFT_EP_FP8, "x_dtype");
  SEND(topk, 1, "a topk other than that of the group");
  SEND(num_tokens_at, &number, "num_tokens_at");
  SEND(row_stride, 512, "row_stride");
  SEND(scale_row_stride, 9, "scale_row_stride");
  SEND(scale_block_stride, 9, "scale_block_stride");
  SEND(processors, 4, "processors");
  SEND(flags, WEFT_EP_DISPATCH_RECYCLE, "RECYCLE");
  args = good;
  args.topk_idx = NULL;
  args.topk_idx32 = (const int32_t *)&number;
  assert_int_equal(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_UNSUPPORTED);
  assert_says("topk_idx32");
#define RECEIVE(field, value, words)                                                                                   \
  recv = *fake_no_rows();                                                                                              \
  recv.layout = WEFT_EP_RANK_MAJOR;                                                                                    \
  recv.told_size = sizeof(struct weft_ep_told);                                                                        \
  recv.field = value;                                                                                                  \
  assert_int_equal(weft_ep_dispatch(ep, &good, &recv, NULL, &op), WEFT_ERR_UNSUPPORTED);                               \
  assert_says(words)
  struct weft_ep_told told;
  uint64_t lost[1];
  RECEIVE(told, &told, "told");
  RECEIVE(lost, lost, "lost");
  RECEIVE(flags, WEFT_EP_RECV_KEEP_PLACES, "KEEP_PLACES");
  RECEIVE(scale_row_stride, 1, "scale_row_stride");
  RECEIVE(scale_block_stride, 1, "scale_block_stride");
  RECEIVE(scale_expert_stride, 1, "scale_expert_stride");
  assert_int_equal(weft_ep_next_op(ep), before);
  args = good;
  args.num_tokens = 0;
  assert_ok(weft_ep_dispatch(ep, &args, fake_no_rows(), NULL, &op));
#define COMBINE(field, value, words)                                                                                   \
  combine = WEFT_EP_COMBINE_ARGS_INIT;                                                                                 \
  combine.field = value;                                                                                               \
  assert_int_equal(weft_ep_combine(ep, op, &combine, NULL), WEFT_ERR_UNSUPPORTED);                                     \
  assert_says(words)
  COMBINE(dtype, WEFT_EP_COMBINE_LOGFMT10, "a dtype other than that of the group");
  COMBINE(processors, 4, "processors");
  COMBINE(flags, WEFT_EP_COMBINE_KEEP, "KEEP");
  int32_t masked[8];
  assert_int_equal(weft_ep_mask_read(ep, masked, 8, NULL), WEFT_ERR_UNSUPPORTED);
  assert_says("weft_ep_states");
  assert_ok(weft_ep_finish(ep, op));
  weft_ep_close(ep);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(each_field_is_refused_by_name, fake_open_store, fake_close_store),
  };
  return cmocka_run_group_tests_name("ep_fake_refusals", tests, NULL, NULL);
}
