// What programs that were built with these headers count on: sizes and offsets of the structs of weft/ep.h on machines
// of 64 bits, without padding. A field is added at the end, and this page grows; nothing that stands here changes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <weft/ep.h>

#include "cmocka_all.h"

#define PIN(type, field, offset)                                                                                       \
  _Static_assert(offsetof(struct weft_ep_##type, field) == (offset), #type "." #field " is at another offset")
#define SIZE(type, bytes) _Static_assert(sizeof(struct weft_ep_##type) == (bytes), #type " has another size")

PIN(options, size, 0);
PIN(options, store, 8);
PIN(options, prefix, 16);
PIN(options, founders, 24);
PIN(options, transport, 32);
PIN(options, listen, 40);
PIN(options, host_id, 48);
PIN(options, num_founders, 56);
PIN(options, rank, 60);
PIN(options, capacity, 64);
PIN(options, max_tokens, 68);
PIN(options, hidden, 72);
PIN(options, topk, 76);
PIN(options, experts_per_rank, 80);
PIN(options, dtype, 84);
PIN(options, combine_dtype, 88);
PIN(options, op_timeout_ms, 92);
PIN(options, lease_ttl_s, 96);
PIN(options, memory, 100);
PIN(options, device, 104);
PIN(options, max_processors, 108);
PIN(options, flags, 112);
PIN(options, reserved, 116);
SIZE(options, 120);

PIN(limits, size, 0);
PIN(limits, max_tokens, 8);
PIN(limits, max_hidden, 12);
PIN(limits, max_topk, 16);
PIN(limits, max_experts_per_rank, 20);
PIN(limits, max_capacity, 24);
PIN(limits, max_cuda_ranks, 28);
PIN(limits, depth, 32);
PIN(limits, max_combines, 36);
SIZE(limits, 40);

PIN(dispatch_args, size, 0);
PIN(dispatch_args, x, 8);
PIN(dispatch_args, scales, 16);
PIN(dispatch_args, topk_idx, 24);
PIN(dispatch_args, topk_idx32, 32);
PIN(dispatch_args, topk_weights, 40);
PIN(dispatch_args, num_tokens_at, 48);
PIN(dispatch_args, route, 56);
PIN(dispatch_args, stream, 64);
PIN(dispatch_args, row_stride, 72);
PIN(dispatch_args, scale_row_stride, 80);
PIN(dispatch_args, scale_block_stride, 88);
PIN(dispatch_args, num_tokens, 96);
PIN(dispatch_args, topk, 100);
PIN(dispatch_args, dtype, 104);
PIN(dispatch_args, x_dtype, 108);
PIN(dispatch_args, row_bytes, 112);
PIN(dispatch_args, scale_bytes, 116);
PIN(dispatch_args, processors, 120);
PIN(dispatch_args, flags, 124);
SIZE(dispatch_args, 128);

PIN(told, op, 0);
PIN(told, epoch, 8);
PIN(told, mark, 16);
PIN(told, num_ranks, 24);
PIN(told, num_rows, 28);
PIN(told, rows_needed, 32);
PIN(told, num_lost, 36);
PIN(told, written, 40);
SIZE(told, 48);

PIN(recv_args, size, 0);
PIN(recv_args, x, 8);
PIN(recv_args, scales, 16);
PIN(recv_args, counts, 24);
PIN(recv_args, src_rank, 32);
PIN(recv_args, src_token, 40);
PIN(recv_args, range, 48);
PIN(recv_args, local_expert, 56);
PIN(recv_args, weights, 64);
PIN(recv_args, rows_at, 72);
PIN(recv_args, expert_total, 80);
PIN(recv_args, wait_ns, 88);
PIN(recv_args, slot, 96);
PIN(recv_args, expert_end, 104);
PIN(recv_args, told, 112);
PIN(recv_args, lost, 120);
PIN(recv_args, stream, 128);
PIN(recv_args, scale_row_stride, 136);
PIN(recv_args, scale_block_stride, 144);
PIN(recv_args, scale_expert_stride, 152);
PIN(recv_args, layout, 160);
PIN(recv_args, rows, 164);
PIN(recv_args, alignment, 168);
PIN(recv_args, told_size, 172);
PIN(recv_args, flags, 176);
PIN(recv_args, reserved, 180);
SIZE(recv_args, 184);

PIN(info, size, 0);
PIN(info, op, 8);
PIN(info, epoch, 16);
PIN(info, mark, 24);
PIN(info, wire_bytes, 32);
PIN(info, logical_bytes, 40);
PIN(info, lost, 48);
PIN(info, lost_cap, 56);
PIN(info, num_lost, 60);
PIN(info, num_ranks, 64);
PIN(info, num_rows, 68);
PIN(info, rows_needed, 72);
PIN(info, reserved, 76);
SIZE(info, 80);

PIN(combine_args, size, 0);
PIN(combine_args, y, 8);
PIN(combine_args, topk_weights, 16);
PIN(combine_args, row_weights, 24);
PIN(combine_args, bias, 32);
PIN(combine_args, out, 48);
PIN(combine_args, out_weights, 56);
PIN(combine_args, stream, 64);
PIN(combine_args, dtype, 72);
PIN(combine_args, processors, 76);
PIN(combine_args, flags, 80);
PIN(combine_args, reserved, 84);
SIZE(combine_args, 88);

PIN(missing, token, 0);
PIN(missing, k, 4);
PIN(missing, expert, 8);
SIZE(missing, 16);

PIN(result, size, 0);
PIN(result, wire_bytes, 8);
PIN(result, logical_bytes, 16);
PIN(result, missing, 24);
PIN(result, missing_cap, 32);
PIN(result, num_missing, 36);
PIN(result, num_lost, 40);
PIN(result, reserved, 44);
SIZE(result, 48);

PIN(route_options, size, 0);
PIN(route_options, max_tokens, 8);
PIN(route_options, max_rows, 12);
PIN(route_options, topk, 16);
PIN(route_options, alignment, 20);
PIN(route_options, flags, 24);
PIN(route_options, reserved, 28);
SIZE(route_options, 32);

PIN(route_arrays, size, 0);
PIN(route_arrays, tokens_per_rank, 8);
PIN(route_arrays, tokens_per_expert, 16);
PIN(route_arrays, in_rank, 24);
PIN(route_arrays, rank_end, 32);
PIN(route_arrays, expert_end, 40);
PIN(route_arrays, src_rank, 48);
PIN(route_arrays, src_token, 56);
PIN(route_arrays, slot, 64);
SIZE(route_arrays, 72);

PIN(route_info, size, 0);
PIN(route_info, op, 8);
PIN(route_info, epoch, 16);
PIN(route_info, expert_rows, 24);
PIN(route_info, expert_cap, 32);
PIN(route_info, num_experts, 36);
PIN(route_info, num_rows, 40);
PIN(route_info, packed_rows, 44);
PIN(route_info, num_ranks, 48);
PIN(route_info, num_lost, 52);
SIZE(route_info, 56);

PIN(stats, size, 0);
PIN(stats, operations, 8);
PIN(stats, dispatch_wire_bytes, 16);
PIN(stats, dispatch_logical_bytes, 24);
PIN(stats, combine_wire_bytes, 32);
PIN(stats, combine_logical_bytes, 40);
PIN(stats, connected, 48);
PIN(stats, window_bytes, 56);
PIN(stats, activations, 64);
PIN(stats, lost, 72);
PIN(stats, missing, 80);
PIN(stats, wait_ns, 88);
SIZE(stats, 96);

PIN(peer_stats, size, 0);
PIN(peer_stats, incarnation, 8);
PIN(peer_stats, sent_bytes, 16);
PIN(peer_stats, received_bytes, 24);
PIN(peer_stats, window_bytes, 32);
PIN(peer_stats, wait_ns, 40);
SIZE(peer_stats, 48);

// The exported initialisers write what the macros are, into the caller's size.
#define EXPECT_INITIAL(type, INIT)                                                                                     \
  do {                                                                                                                 \
    struct {                                                                                                           \
      struct weft_ep_##type value;                                                                                     \
      uint64_t newer;                                                                                                  \
    } written;                                                                                                         \
    memset(&written, 0xff, sizeof written);                                                                            \
    weft_ep_##type##_init(&written.value, sizeof written);                                                             \
    struct weft_ep_##type right = INIT;                                                                                \
    assert_int_equal(written.value.size, sizeof written);                                                              \
    right.size = sizeof written;                                                                                       \
    assert_memory_equal(&written.value, &right, sizeof right);                                                         \
    assert_int_equal(written.newer, 0);                                                                                \
  } while (0)

static void initialisers_write_the_initial_values(void **state) {
  (void)state;
  EXPECT_INITIAL(options, WEFT_EP_OPTIONS_INIT);
  EXPECT_INITIAL(limits, WEFT_EP_LIMITS_INIT);
  EXPECT_INITIAL(dispatch_args, WEFT_EP_DISPATCH_ARGS_INIT);
  EXPECT_INITIAL(recv_args, WEFT_EP_RECV_ARGS_INIT);
  EXPECT_INITIAL(combine_args, WEFT_EP_COMBINE_ARGS_INIT);
  EXPECT_INITIAL(info, WEFT_EP_INFO_INIT);
  EXPECT_INITIAL(result, WEFT_EP_RESULT_INIT);
  EXPECT_INITIAL(route_options, WEFT_EP_ROUTE_OPTIONS_INIT);
  EXPECT_INITIAL(route_arrays, WEFT_EP_ROUTE_ARRAYS_INIT);
  EXPECT_INITIAL(route_info, WEFT_EP_ROUTE_INFO_INIT);
  EXPECT_INITIAL(stats, WEFT_EP_STATS_INIT);
  EXPECT_INITIAL(peer_stats, WEFT_EP_PEER_STATS_INIT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(initialisers_write_the_initial_values),
  };
  return cmocka_run_group_tests_name("install_pins_ep", tests, NULL, NULL);
}
