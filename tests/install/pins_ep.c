// Pins the structs of ep.h: made by scripts/pin-structs.py ep.h
#include <stddef.h>

#include <weft/weft.h>

#define PIN_SIZE(type, bytes)          _Static_assert(sizeof(type) == (bytes), "the size of " #type " has changed")
#define PIN_FIELD(type, member, bytes) _Static_assert(offsetof(type, member) == (bytes), #type "." #member " has moved")

PIN_SIZE(struct weft_ep_event, 256);
PIN_FIELD(struct weft_ep_event, size, 0);
PIN_FIELD(struct weft_ep_event, kind, 8);
PIN_FIELD(struct weft_ep_event, rank, 12);
PIN_FIELD(struct weft_ep_event, incarnation, 16);
PIN_FIELD(struct weft_ep_event, epoch, 24);
PIN_FIELD(struct weft_ep_event, op, 32);
PIN_FIELD(struct weft_ep_event, time_ns, 40);
PIN_FIELD(struct weft_ep_event, dropped, 48);
PIN_FIELD(struct weft_ep_event, detail, 56);

PIN_SIZE(struct weft_ep_options, 144);
PIN_FIELD(struct weft_ep_options, size, 0);
PIN_FIELD(struct weft_ep_options, store, 8);
PIN_FIELD(struct weft_ep_options, prefix, 16);
PIN_FIELD(struct weft_ep_options, founders, 24);
PIN_FIELD(struct weft_ep_options, transport, 32);
PIN_FIELD(struct weft_ep_options, listen, 40);
PIN_FIELD(struct weft_ep_options, host_id, 48);
PIN_FIELD(struct weft_ep_options, num_founders, 56);
PIN_FIELD(struct weft_ep_options, rank, 60);
PIN_FIELD(struct weft_ep_options, capacity, 64);
PIN_FIELD(struct weft_ep_options, max_tokens, 68);
PIN_FIELD(struct weft_ep_options, hidden, 72);
PIN_FIELD(struct weft_ep_options, topk, 76);
PIN_FIELD(struct weft_ep_options, experts_per_rank, 80);
PIN_FIELD(struct weft_ep_options, dtype, 84);
PIN_FIELD(struct weft_ep_options, combine_dtype, 88);
PIN_FIELD(struct weft_ep_options, op_timeout_ms, 92);
PIN_FIELD(struct weft_ep_options, lease_ttl_s, 96);
PIN_FIELD(struct weft_ep_options, memory, 100);
PIN_FIELD(struct weft_ep_options, device, 104);
PIN_FIELD(struct weft_ep_options, max_processors, 108);
PIN_FIELD(struct weft_ep_options, flags, 112);
PIN_FIELD(struct weft_ep_options, operations_per_step, 116);
PIN_FIELD(struct weft_ep_options, window_bytes, 120);
PIN_FIELD(struct weft_ep_options, mode, 128);
PIN_FIELD(struct weft_ep_options, max_rows, 132);
PIN_FIELD(struct weft_ep_options, zero_copy_bytes, 136);

PIN_SIZE(struct weft_ep_limits, 48);
PIN_FIELD(struct weft_ep_limits, size, 0);
PIN_FIELD(struct weft_ep_limits, max_tokens, 8);
PIN_FIELD(struct weft_ep_limits, max_hidden, 12);
PIN_FIELD(struct weft_ep_limits, max_topk, 16);
PIN_FIELD(struct weft_ep_limits, max_experts_per_rank, 20);
PIN_FIELD(struct weft_ep_limits, max_capacity, 24);
PIN_FIELD(struct weft_ep_limits, max_cuda_ranks, 28);
PIN_FIELD(struct weft_ep_limits, depth, 32);
PIN_FIELD(struct weft_ep_limits, max_combines, 36);
PIN_FIELD(struct weft_ep_limits, max_latency_tokens, 40);
PIN_FIELD(struct weft_ep_limits, min_processors, 44);

PIN_SIZE(struct weft_ep_change_args, 40);
PIN_FIELD(struct weft_ep_change_args, size, 0);
PIN_FIELD(struct weft_ep_change_args, add, 8);
PIN_FIELD(struct weft_ep_change_args, remove, 16);
PIN_FIELD(struct weft_ep_change_args, num_add, 24);
PIN_FIELD(struct weft_ep_change_args, num_remove, 28);
PIN_FIELD(struct weft_ep_change_args, flags, 32);
PIN_FIELD(struct weft_ep_change_args, reserved, 36);

PIN_SIZE(struct weft_ep_dispatch_args, 128);
PIN_FIELD(struct weft_ep_dispatch_args, size, 0);
PIN_FIELD(struct weft_ep_dispatch_args, x, 8);
PIN_FIELD(struct weft_ep_dispatch_args, scales, 16);
PIN_FIELD(struct weft_ep_dispatch_args, topk_idx, 24);
PIN_FIELD(struct weft_ep_dispatch_args, topk_idx32, 32);
PIN_FIELD(struct weft_ep_dispatch_args, topk_weights, 40);
PIN_FIELD(struct weft_ep_dispatch_args, num_tokens_at, 48);
PIN_FIELD(struct weft_ep_dispatch_args, route, 56);
PIN_FIELD(struct weft_ep_dispatch_args, stream, 64);
PIN_FIELD(struct weft_ep_dispatch_args, row_stride, 72);
PIN_FIELD(struct weft_ep_dispatch_args, scale_row_stride, 80);
PIN_FIELD(struct weft_ep_dispatch_args, scale_block_stride, 88);
PIN_FIELD(struct weft_ep_dispatch_args, num_tokens, 96);
PIN_FIELD(struct weft_ep_dispatch_args, topk, 100);
PIN_FIELD(struct weft_ep_dispatch_args, dtype, 104);
PIN_FIELD(struct weft_ep_dispatch_args, x_dtype, 108);
PIN_FIELD(struct weft_ep_dispatch_args, row_bytes, 112);
PIN_FIELD(struct weft_ep_dispatch_args, scale_bytes, 116);
PIN_FIELD(struct weft_ep_dispatch_args, processors, 120);
PIN_FIELD(struct weft_ep_dispatch_args, flags, 124);

PIN_SIZE(struct weft_ep_recv_status, 48);
PIN_FIELD(struct weft_ep_recv_status, op, 0);
PIN_FIELD(struct weft_ep_recv_status, epoch, 8);
PIN_FIELD(struct weft_ep_recv_status, mark, 16);
PIN_FIELD(struct weft_ep_recv_status, num_ranks, 24);
PIN_FIELD(struct weft_ep_recv_status, num_rows, 28);
PIN_FIELD(struct weft_ep_recv_status, rows_needed, 32);
PIN_FIELD(struct weft_ep_recv_status, num_lost, 36);
PIN_FIELD(struct weft_ep_recv_status, written, 40);

PIN_SIZE(struct weft_ep_recv_args, 184);
PIN_FIELD(struct weft_ep_recv_args, size, 0);
PIN_FIELD(struct weft_ep_recv_args, x, 8);
PIN_FIELD(struct weft_ep_recv_args, scales, 16);
PIN_FIELD(struct weft_ep_recv_args, counts, 24);
PIN_FIELD(struct weft_ep_recv_args, src_rank, 32);
PIN_FIELD(struct weft_ep_recv_args, src_token, 40);
PIN_FIELD(struct weft_ep_recv_args, range, 48);
PIN_FIELD(struct weft_ep_recv_args, local_expert, 56);
PIN_FIELD(struct weft_ep_recv_args, weights, 64);
PIN_FIELD(struct weft_ep_recv_args, rows_at, 72);
PIN_FIELD(struct weft_ep_recv_args, expert_total, 80);
PIN_FIELD(struct weft_ep_recv_args, wait_ns, 88);
PIN_FIELD(struct weft_ep_recv_args, slot, 96);
PIN_FIELD(struct weft_ep_recv_args, expert_end, 104);
PIN_FIELD(struct weft_ep_recv_args, status, 112);
PIN_FIELD(struct weft_ep_recv_args, lost, 120);
PIN_FIELD(struct weft_ep_recv_args, stream, 128);
PIN_FIELD(struct weft_ep_recv_args, scale_row_stride, 136);
PIN_FIELD(struct weft_ep_recv_args, scale_block_stride, 144);
PIN_FIELD(struct weft_ep_recv_args, scale_expert_stride, 152);
PIN_FIELD(struct weft_ep_recv_args, layout, 160);
PIN_FIELD(struct weft_ep_recv_args, rows, 164);
PIN_FIELD(struct weft_ep_recv_args, alignment, 168);
PIN_FIELD(struct weft_ep_recv_args, status_size, 172);
PIN_FIELD(struct weft_ep_recv_args, flags, 176);
PIN_FIELD(struct weft_ep_recv_args, reserved, 180);

PIN_SIZE(struct weft_ep_info, 80);
PIN_FIELD(struct weft_ep_info, size, 0);
PIN_FIELD(struct weft_ep_info, op, 8);
PIN_FIELD(struct weft_ep_info, epoch, 16);
PIN_FIELD(struct weft_ep_info, mark, 24);
PIN_FIELD(struct weft_ep_info, wire_bytes, 32);
PIN_FIELD(struct weft_ep_info, logical_bytes, 40);
PIN_FIELD(struct weft_ep_info, lost, 48);
PIN_FIELD(struct weft_ep_info, lost_cap, 56);
PIN_FIELD(struct weft_ep_info, num_lost, 60);
PIN_FIELD(struct weft_ep_info, num_ranks, 64);
PIN_FIELD(struct weft_ep_info, num_rows, 68);
PIN_FIELD(struct weft_ep_info, rows_needed, 72);
PIN_FIELD(struct weft_ep_info, reserved, 76);

PIN_SIZE(struct weft_ep_combine_args, 88);
PIN_FIELD(struct weft_ep_combine_args, size, 0);
PIN_FIELD(struct weft_ep_combine_args, y, 8);
PIN_FIELD(struct weft_ep_combine_args, topk_weights, 16);
PIN_FIELD(struct weft_ep_combine_args, row_weights, 24);
PIN_FIELD(struct weft_ep_combine_args, bias, 32);
PIN_FIELD(struct weft_ep_combine_args, out, 48);
PIN_FIELD(struct weft_ep_combine_args, out_weights, 56);
PIN_FIELD(struct weft_ep_combine_args, stream, 64);
PIN_FIELD(struct weft_ep_combine_args, dtype, 72);
PIN_FIELD(struct weft_ep_combine_args, processors, 76);
PIN_FIELD(struct weft_ep_combine_args, flags, 80);
PIN_FIELD(struct weft_ep_combine_args, reserved, 84);

PIN_SIZE(struct weft_ep_missing, 16);
PIN_FIELD(struct weft_ep_missing, token, 0);
PIN_FIELD(struct weft_ep_missing, k, 4);
PIN_FIELD(struct weft_ep_missing, expert, 8);

PIN_SIZE(struct weft_ep_result, 48);
PIN_FIELD(struct weft_ep_result, size, 0);
PIN_FIELD(struct weft_ep_result, wire_bytes, 8);
PIN_FIELD(struct weft_ep_result, logical_bytes, 16);
PIN_FIELD(struct weft_ep_result, missing, 24);
PIN_FIELD(struct weft_ep_result, missing_cap, 32);
PIN_FIELD(struct weft_ep_result, num_missing, 36);
PIN_FIELD(struct weft_ep_result, num_lost, 40);
PIN_FIELD(struct weft_ep_result, reserved, 44);

PIN_SIZE(struct weft_ep_route_options, 32);
PIN_FIELD(struct weft_ep_route_options, size, 0);
PIN_FIELD(struct weft_ep_route_options, max_tokens, 8);
PIN_FIELD(struct weft_ep_route_options, max_rows, 12);
PIN_FIELD(struct weft_ep_route_options, topk, 16);
PIN_FIELD(struct weft_ep_route_options, alignment, 20);
PIN_FIELD(struct weft_ep_route_options, flags, 24);
PIN_FIELD(struct weft_ep_route_options, reserved, 28);

PIN_SIZE(struct weft_ep_route_arrays, 72);
PIN_FIELD(struct weft_ep_route_arrays, size, 0);
PIN_FIELD(struct weft_ep_route_arrays, tokens_per_rank, 8);
PIN_FIELD(struct weft_ep_route_arrays, tokens_per_expert, 16);
PIN_FIELD(struct weft_ep_route_arrays, in_rank, 24);
PIN_FIELD(struct weft_ep_route_arrays, rank_end, 32);
PIN_FIELD(struct weft_ep_route_arrays, expert_end, 40);
PIN_FIELD(struct weft_ep_route_arrays, src_rank, 48);
PIN_FIELD(struct weft_ep_route_arrays, src_token, 56);
PIN_FIELD(struct weft_ep_route_arrays, slot, 64);

PIN_SIZE(struct weft_ep_route_info, 56);
PIN_FIELD(struct weft_ep_route_info, size, 0);
PIN_FIELD(struct weft_ep_route_info, op, 8);
PIN_FIELD(struct weft_ep_route_info, epoch, 16);
PIN_FIELD(struct weft_ep_route_info, expert_rows, 24);
PIN_FIELD(struct weft_ep_route_info, expert_cap, 32);
PIN_FIELD(struct weft_ep_route_info, num_experts, 36);
PIN_FIELD(struct weft_ep_route_info, num_rows, 40);
PIN_FIELD(struct weft_ep_route_info, packed_rows, 44);
PIN_FIELD(struct weft_ep_route_info, num_ranks, 48);
PIN_FIELD(struct weft_ep_route_info, num_lost, 52);

PIN_SIZE(struct weft_ep_stats, 96);
PIN_FIELD(struct weft_ep_stats, size, 0);
PIN_FIELD(struct weft_ep_stats, operations, 8);
PIN_FIELD(struct weft_ep_stats, dispatch_wire_bytes, 16);
PIN_FIELD(struct weft_ep_stats, dispatch_logical_bytes, 24);
PIN_FIELD(struct weft_ep_stats, combine_wire_bytes, 32);
PIN_FIELD(struct weft_ep_stats, combine_logical_bytes, 40);
PIN_FIELD(struct weft_ep_stats, connected, 48);
PIN_FIELD(struct weft_ep_stats, window_bytes, 56);
PIN_FIELD(struct weft_ep_stats, activations, 64);
PIN_FIELD(struct weft_ep_stats, lost, 72);
PIN_FIELD(struct weft_ep_stats, missing, 80);
PIN_FIELD(struct weft_ep_stats, wait_ns, 88);

PIN_SIZE(struct weft_ep_peer_stats, 48);
PIN_FIELD(struct weft_ep_peer_stats, size, 0);
PIN_FIELD(struct weft_ep_peer_stats, incarnation, 8);
PIN_FIELD(struct weft_ep_peer_stats, sent_bytes, 16);
PIN_FIELD(struct weft_ep_peer_stats, received_bytes, 24);
PIN_FIELD(struct weft_ep_peer_stats, window_bytes, 32);
PIN_FIELD(struct weft_ep_peer_stats, wait_ns, 40);
