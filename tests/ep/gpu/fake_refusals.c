// Extra rules for arguments on CUDA memory: each fault is refused before anything is launched. Also operations that are
// combined again, that end another operation, and that may not end before another one.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "ep/gpu/support/fake_ranks.h"

static const int64_t experts[] = {0, 1};
static uint16_t x[256];

static weft_ep_t *open_one(void) {
  struct weft_ep_options options = fake_options(0, NULL, 0);
  options.topk = 2;
  weft_ep_t *ep = fake_open(options);
  assert_ok(weft_ep_activate(ep, DEADLINE_MS));
  return ep;
}

static struct weft_ep_dispatch_args one_token(void) {
  struct weft_ep_dispatch_args args = WEFT_EP_DISPATCH_ARGS_INIT;
  args.x = x;
  args.num_tokens = 1;
  args.topk_idx = experts;
  return args;
}

static void what_kernels_cannot_work_with_is_refused(void **state) {
  (void)state;
  weft_ep_t *ep = open_one();
  struct weft_ep_dispatch_args args;
  struct weft_ep_recv_args recv;
  uint64_t op, before = weft_ep_next_op(ep);
#define SEND(field, value, words)                                                                                      \
  args = one_token();                                                                                                  \
  args.field = value;                                                                                                  \
  assert_int_equal(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_INVALID);                                           \
  assert_says(words)
  SEND(row_stride, 264, "row_stride is 264; on CUDA memory it must be a multiple of 16 bytes");
  SEND(row_stride, UINT64_C(1) << 32, "a stride is larger than 4294967295, the largest that kernels support");
  SEND(topk, 3, "topk is 3, but the group was opened for 2 at most");
  SEND(scales, (const void *)x, "scales are given, but the rows are bf16");
  recv = *fake_no_rows();
  recv.scales = x;
  recv.scale_row_stride = UINT64_C(1) << 40;
  args = one_token();
  assert_int_equal(weft_ep_dispatch(ep, &args, &recv, NULL, &op), WEFT_ERR_INVALID);
  assert_says("dispatch_recv: a stride is larger");
  assert_int_equal(weft_ep_next_op(ep), before);
  weft_ep_close(ep);
}

// Each by its name, and before anything is launched.
static void what_only_host_memory_can_do_yet_is_refused(void **state) {
  (void)state;
  weft_ep_t *ep = open_one();
  struct weft_ep_dispatch_args args = one_token(), none = WEFT_EP_DISPATCH_ARGS_INIT;
  struct weft_ep_recv_args recv = *fake_no_rows();
  struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT;
  uint64_t op, before = weft_ep_next_op(ep);
  float weights[2] = {0};
  args.dtype = WEFT_EP_OPAQUE;
  args.row_bytes = 32;
  assert_int_equal(weft_ep_dispatch_send(ep, &args, &op), WEFT_ERR_UNSUPPORTED);
  assert_says("an opaque payload (dtype OPAQUE, row_bytes, scale_bytes)");
  recv.layout = WEFT_EP_PACKED;
  args = one_token();
  assert_int_equal(weft_ep_dispatch(ep, &args, &recv, NULL, &op), WEFT_ERR_UNSUPPORTED);
  assert_says("the layout PACKED");
  assert_int_equal(weft_ep_next_op(ep), before);
  assert_ok(weft_ep_dispatch(ep, &none, fake_no_rows(), NULL, &op));
#define COMBINE(field, value, words)                                                                                   \
  combine = (struct weft_ep_combine_args)WEFT_EP_COMBINE_ARGS_INIT;                                                    \
  combine.field = value;                                                                                               \
  assert_int_equal(weft_ep_combine(ep, op, &combine, NULL), WEFT_ERR_UNSUPPORTED);                                     \
  assert_says(words)
  COMBINE(bias[0], x, "bias");
  COMBINE(bias[1], x, "bias");
  COMBINE(row_weights, weights, "row_weights");
  COMBINE(out_weights, weights, "out_weights");
  COMBINE(flags, WEFT_EP_COMBINE_UNWEIGHTED, "UNWEIGHTED");
  combine.flags = 0;
  assert_ok(weft_ep_combine(ep, op, &combine, NULL));
  weft_ep_close(ep);
}

static void operations_end_in_their_order(void **state) {
  (void)state;
  weft_ep_t *ep = open_one();
  struct weft_ep_dispatch_args none = WEFT_EP_DISPATCH_ARGS_INIT;
  struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT;
  uint64_t ops[3];
  for (int i = 0; i < 2; i++)
    assert_ok(weft_ep_dispatch(ep, &none, fake_no_rows(), NULL, &ops[i]));
  assert_int_equal(weft_ep_combine(ep, ops[1], &combine, NULL), WEFT_ERR_INVALID);
  assert_says("operation 0 is open, and on CUDA memory operations end in order: end that one first, or set KEEP");
  assert_int_equal(weft_ep_finish(ep, ops[1]), WEFT_ERR_INVALID);
  assert_says("operation 0 is open");
  assert_int_equal(weft_ep_barrier(ep), WEFT_ERR_BUSY);
  assert_says("barrier: operation 0 is open");
  assert_ok(weft_ep_finish(ep, ops[0]));
  assert_ok(weft_ep_finish(ep, ops[1]));
  assert_ok(weft_ep_barrier(ep));
  weft_ep_close(ep);
}

// All ranks have passed it, so it has come about; what comes next ends it.
static void a_barrier_that_cannot_be_ended_is_ended_by_the_next_call(void **state) {
  (void)state;
  weft_ep_t *ep = open_one();
  struct weft_ep_dispatch_args none = WEFT_EP_DISPATCH_ARGS_INIT;
  uint64_t op;
  for (int next = 0; next < 3; next++) {
    setenv("FAKE_NO_END", "1", 1);
    assert_ok(weft_ep_barrier(ep));
    uint64_t barrier = weft_ep_next_op(ep) - 1;
    assert_int_equal(weft_ep_barrier(ep), WEFT_ERR_SYSTEM);
    assert_says("barrier: the fake ends nothing");
    assert_int_equal(weft_ep_dispatch(ep, &none, fake_no_rows(), NULL, &op), WEFT_ERR_SYSTEM);
    none.stream = (void *)1; // which is captured
    assert_int_equal(weft_ep_dispatch(ep, &none, fake_no_rows(), NULL, &op), WEFT_ERR_BUSY);
    assert_says("call weft_ep_finish");
    none.stream = NULL;
    unsetenv("FAKE_NO_END");
    if (next == 0)
      assert_ok(weft_ep_finish(ep, barrier));
    if (next == 1)
      assert_ok(weft_ep_barrier(ep));
    assert_int_equal(weft_ep_next_op(ep), barrier + 1 + (next == 1));
    op = fake_launch(ep);
    assert_ok(weft_ep_await(ep, op, NULL, NULL, DEADLINE_MS));
  }
  struct device_progress progress;
  char why[DEVICE_WHY];
  assert_ok(weft_ep_barrier(ep));
  assert_int_equal(ep->gpu->api->ep_progress(ep->gpu->engine, &progress, why), 0);
  assert_int_equal(progress.begun, weft_ep_next_op(ep));
  assert_true(progress.ended + 1 >= progress.begun);
  weft_ep_close(ep);
}

static void a_dispatch_ends_the_one_before_the_last_if_it_is_asked_to(void **state) {
  (void)state;
  weft_ep_t *ep = open_one();
  struct weft_ep_dispatch_args none = WEFT_EP_DISPATCH_ARGS_INIT;
  uint64_t ops[3];
  for (int i = 0; i < 2; i++)
    assert_ok(weft_ep_dispatch(ep, &none, fake_no_rows(), NULL, &ops[i]));
  assert_int_equal(weft_ep_dispatch(ep, &none, fake_no_rows(), NULL, &ops[2]), WEFT_ERR_BUSY);
  none.flags = WEFT_EP_DISPATCH_RECYCLE;
  assert_ok(weft_ep_dispatch(ep, &none, fake_no_rows(), NULL, &ops[2]));
  assert_int_equal(ops[2], 2);
  assert_int_equal(weft_ep_finish(ep, ops[0]), WEFT_ERR_INVALID);
  assert_ok(weft_ep_finish(ep, ops[1]));
  assert_ok(weft_ep_finish(ep, ops[2]));
  weft_ep_close(ep);
}

static void masks_are_read_from_the_device(void **state) {
  (void)state;
  weft_ep_t *ep = open_one();
  int32_t masked[4] = {7, 7, 7, 7};
  assert_ok(weft_ep_mask_read(ep, masked, 2, NULL));
  assert_int_equal(masked[0], 0);
  assert_int_equal(masked[1], 0);
  assert_int_equal(masked[2], 7);
  assert_ok(weft_ep_mask_update(ep, 0, true));
  assert_ok(weft_ep_mask_read(ep, masked, 2, NULL));
  assert_int_equal(masked[0], 1);
  weft_ep_close(ep);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(what_kernels_cannot_work_with_is_refused, fake_open_store, fake_close_store),
      cmocka_unit_test_setup_teardown(what_only_host_memory_can_do_yet_is_refused, fake_open_store, fake_close_store),
      cmocka_unit_test_setup_teardown(operations_end_in_their_order, fake_open_store, fake_close_store),
      cmocka_unit_test_setup_teardown(a_barrier_that_cannot_be_ended_is_ended_by_the_next_call, fake_open_store,
                                      fake_close_store),
      cmocka_unit_test_setup_teardown(a_dispatch_ends_the_one_before_the_last_if_it_is_asked_to, fake_open_store,
                                      fake_close_store),
      cmocka_unit_test_setup_teardown(masks_are_read_from_the_device, fake_open_store, fake_close_store),
  };
  return cmocka_run_group_tests_name("ep_fake_refusals", tests, NULL, NULL);
}
