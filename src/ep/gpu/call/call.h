// The calls of weft/ep.h on CUDA memory: what they check, launch and report. Only the owner's thread uses them.
#ifndef EP_GPU_CALL_CALL_H
#define EP_GPU_CALL_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "ep/gpu/gpu.h"

// --- flow.c: groups for throughput ---

// Check that another operation can begin, and that this operation can be combined now, or this half of a combine be
// launched. BUSY: another operation was sent and not received yet. INVALID: other operations have to be combined first.
int ep_gpu_flow_check_begin(const weft_ep_t *ep, bool captures, const char *call);
int ep_gpu_flow_check_combine(const weft_ep_t *ep, const struct gpu_op *op, uint32_t halves, bool keeps,
                              const char *call);
// Fill in what each half of an operation needs besides struct device_dispatch.
void ep_gpu_describe_flow_send(weft_ep_t *ep, struct gpu_op *op, const struct weft_ep_dispatch_args *args);
void ep_gpu_describe_flow_recv(struct gpu_op *op, const struct weft_ep_recv_args *recv);
// Launch the operation, with the kernels for throughput if the group was opened for them. `recv` may be NULL.
int ep_gpu_launch_dispatch(weft_ep_t *ep, const struct gpu_op *op, const struct device_dispatch *args,
                           const struct weft_ep_recv_args *recv, void *stream, char *why);
int ep_gpu_launch_combine(weft_ep_t *ep, const struct gpu_op *op, const struct device_combine *args,
                          const struct weft_ep_combine_args *given, char *why);
// The same for a combine that is an operation of its own.
int ep_gpu_launch_combine_route(weft_ep_t *ep, const struct gpu_op *op, const struct device_combine *args,
                                const struct weft_ep_combine_args *given, char *why);

// --- route.c ---

int ep_gpu_route_create(weft_ep_t *ep, const struct weft_ep_route_options *options, weft_ep_route_t *route);
void ep_gpu_route_free(weft_ep_route_t *route);
int ep_gpu_route_plan(weft_ep_route_t *route, const int64_t *topk_idx, uint32_t num_tokens, void *stream);
int ep_gpu_route_get_arrays(weft_ep_route_t *route, struct weft_ep_route_arrays *arrays);
int ep_gpu_route_await(weft_ep_route_t *route, struct weft_ep_route_info *info, uint32_t timeout_ms);
// Checks that a dispatch can fill args->route, or use it: INVALID, ROOM; and that a dispatch that uses route `kept` can
// be received as `recv` asks: UNSUPPORTED. `kept` NULL: it uses none.
int ep_gpu_route_check(weft_ep_t *ep, const struct weft_ep_dispatch_args *args);
int ep_gpu_route_check_recv(const weft_ep_route_t *kept, const struct weft_ep_recv_args *recv);
// route_check.c: whether a dispatch with a route fills it; else the dispatch uses it.
bool ep_gpu_route_fills(const struct weft_ep_dispatch_args *args);
// CHECK_ROUTE, from the arguments alone: checks that the route has the same numbers of tokens and selections. INVALID.
int ep_gpu_route_check_known(const weft_ep_t *ep, const struct weft_ep_dispatch_args *args);
// CHECK_ROUTE: compares the selections; waits for the stream. INVALID names the first that differs; TIMEOUT, CANCELED.
int ep_gpu_route_compare(weft_ep_t *ep, const struct weft_ep_dispatch_args *args, bool captures);
// Makes the operation use its route.
void ep_gpu_route_follow(struct gpu_op *op);
// A dispatch that fills the route has been launched.
void ep_gpu_route_filled(weft_ep_route_t *route, const struct gpu_op *op);

// --- check.c: which arguments the kernels support ---

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
// For a barrier: fails if a rank did not arrive, or sent another kind of operation.
int ep_gpu_check_barrier(weft_ep_t *ep, struct gpu_op *op);
void ep_gpu_add_stats(const weft_ep_t *ep, struct weft_ep_stats *stats);
// How long a call waits for its own launches, in ms.
uint32_t ep_gpu_wait_limit_ms(const weft_ep_t *ep);
// Waits until the work in the stream is done; TIMEOUT, CANCELED. `why` gets the reason.
int ep_gpu_await_stream(weft_ep_t *ep, void *stream, uint32_t timeout_ms, char *why);

#endif
