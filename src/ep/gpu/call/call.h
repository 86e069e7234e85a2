// The calls of weft/ep.h on CUDA memory: what they check, launch and report. By the thread that owns the rank.
#ifndef EP_GPU_CALL_CALL_H
#define EP_GPU_CALL_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "ep/gpu/gpu.h"

// --- flow.c: groups for throughput ---

// Whether another operation can begin, and whether this one can be combined now, or this half of a combine be launched.
// BUSY: what was sent of another has not been received. INVALID: it is not its turn to be combined.
int ep_gpu_flow_check_begin(const weft_ep_t *ep, bool captures, const char *call);
int ep_gpu_flow_check_combine(const weft_ep_t *ep, const struct gpu_op *op, uint32_t halves, bool keeps,
                              const char *call);
// What a half of an operation says beside struct device_dispatch.
void ep_gpu_describe_flow_send(weft_ep_t *ep, struct gpu_op *op, const struct weft_ep_dispatch_args *args);
void ep_gpu_describe_flow_recv(struct gpu_op *op, const struct weft_ep_recv_args *recv);
// Launches it: by the kernels for throughput where the group is opened for them. `recv` may be NULL.
int ep_gpu_launch_dispatch(weft_ep_t *ep, const struct gpu_op *op, const struct device_dispatch *args,
                           const struct weft_ep_recv_args *recv, void *stream, char *why);
int ep_gpu_launch_combine(weft_ep_t *ep, const struct gpu_op *op, const struct device_combine *args,
                          const struct weft_ep_combine_args *given, char *why);
// Likewise, as an operation of its own.
int ep_gpu_launch_combine_route(weft_ep_t *ep, const struct gpu_op *op, const struct device_combine *args,
                                const struct weft_ep_combine_args *given, char *why);

// --- route.c ---

int ep_gpu_route_create(weft_ep_t *ep, const struct weft_ep_route_options *options, weft_ep_route_t *route);
void ep_gpu_route_free(weft_ep_route_t *route);
int ep_gpu_route_plan(weft_ep_route_t *route, const int64_t *topk_idx, uint32_t num_tokens, void *stream);
int ep_gpu_route_get_arrays(weft_ep_route_t *route, struct weft_ep_route_arrays *arrays);
int ep_gpu_route_await(weft_ep_route_t *route, struct weft_ep_route_info *info, uint32_t timeout_ms);
// Whether a dispatch can fill args->route, or go its ways: INVALID, ROOM; and be received so, where it goes its ways:
// UNSUPPORTED. `kept` NULL: it goes by none.
int ep_gpu_route_check(weft_ep_t *ep, const struct weft_ep_dispatch_args *args);
int ep_gpu_route_check_recv(const weft_ep_route_t *kept, const struct weft_ep_recv_args *recv);
// route_check.c: whether a dispatch with a route fills it, or goes by it;
bool ep_gpu_route_fills(const struct weft_ep_dispatch_args *args);
// CHECK_ROUTE, of the arguments alone: whether the route knows as many tokens with as many selections. INVALID.
int ep_gpu_route_check_known(const weft_ep_t *ep, const struct weft_ep_dispatch_args *args);
// Likewise, of the selections: waits for the stream. INVALID names the first that differs; TIMEOUT, CANCELED.
int ep_gpu_route_compare(weft_ep_t *ep, const struct weft_ep_dispatch_args *args, bool captures);
// The operation goes the ways of its route.
void ep_gpu_route_follow(struct gpu_op *op);
// A dispatch has been launched that fills the route.
void ep_gpu_route_filled(weft_ep_route_t *route, const struct gpu_op *op);

// --- check.c: what kernels can work with ---

int ep_gpu_check_send(weft_ep_t *ep, const struct weft_ep_dispatch_args *args);
int ep_gpu_check_recv(weft_ep_t *ep, const struct weft_ep_recv_args *recv);
int ep_gpu_check_combine(weft_ep_t *ep, const struct weft_ep_combine_args *args, const char *call);

// --- dispatch.c, combine.c, op.c, masks.c, barrier.c ---

int ep_gpu_dispatch_send(weft_ep_t *ep, const struct weft_ep_dispatch_args *args, uint64_t *number);
int ep_gpu_dispatch_recv(weft_ep_t *ep, uint64_t number, const struct weft_ep_recv_args *recv,
                         struct weft_ep_info *info);
int ep_gpu_dispatch(weft_ep_t *ep, const struct weft_ep_dispatch_args *args, const struct weft_ep_recv_args *recv,
                    struct weft_ep_info *info, uint64_t *number);
int ep_gpu_combine_rows(weft_ep_t *ep, uint64_t number, void **rows_at);
// `halves`: of device.h.
int ep_gpu_combine(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine_args *args, uint32_t halves,
                   struct weft_ep_result *result, const char *call);
int ep_gpu_combine_route(weft_ep_t *ep, weft_ep_route_t *route, const struct weft_ep_combine_args *args,
                         struct weft_ep_result *result, uint64_t *number);
int ep_gpu_finish(weft_ep_t *ep, uint64_t number);
int ep_gpu_mask_read(weft_ep_t *ep, int32_t *masked, uint32_t cap, void *stream);
int ep_gpu_barrier(weft_ep_t *ep);

// --- results.c ---

int ep_gpu_await(weft_ep_t *ep, uint64_t number, struct weft_ep_info *info, struct weft_ep_result *result,
                 uint32_t timeout_ms);
// Waits for the operation's launches and fills what is not NULL.
int ep_gpu_fill(weft_ep_t *ep, struct gpu_op *op, struct weft_ep_info *info, struct weft_ep_result *result,
                uint32_t timeout_ms);
// For a barrier: who did not come, or came with something else.
int ep_gpu_check_barrier(weft_ep_t *ep, struct gpu_op *op);
void ep_gpu_add_stats(const weft_ep_t *ep, struct weft_ep_stats *stats);
// How long a call waits for its own launches.
uint32_t ep_gpu_wait_limit_ms(const weft_ep_t *ep);
// Waits for what is in the stream; TIMEOUT, CANCELED. `why` says it.
int ep_gpu_await_stream(weft_ep_t *ep, void *stream, uint32_t timeout_ms, char *why);

#endif
