// Checks of arguments on CUDA memory, besides those of core/check.c: kernels read units of 16 bytes, and the kernels
// for latency and for throughput do not support the same arguments.
#include "base/fail.h"
#include "ep/core/args.h"
#include "ep/gpu/call/call.h"

enum { PIECE = 16 };

static const char *const open_for_it = "on CUDA memory open the group for THROUGHPUT";

// --- dispatch ---

// Checks how many processors a call may use, in a group for throughput.
static int check_processors(const weft_ep_t *ep, uint32_t processors, const char *call) {
  const struct ep_gpu *gpu = ep->gpu;
  uint32_t most = gpu->options.processors ? gpu->options.processors : gpu->processors;
  if (processors == 0 || (processors >= EP_MIN_PROCESSORS && processors <= most))
    return 0;
  return fail(WEFT_ERR_INVALID, "%s: processors is %u; it must be from %d to %u%s, or 0 for %d", call, processors,
              EP_MIN_PROCESSORS, most, gpu->options.processors ? ", the group's max_processors" : "",
              EP_PROCESSORS < most ? EP_PROCESSORS : most);
}

static int check_latency_send(const struct weft_ep_dispatch_args *args) {
  if (args->route)
    return ep_unsupported("dispatch", "route", open_for_it);
  if (args->dtype == WEFT_EP_OPAQUE || args->x_dtype == WEFT_EP_OPAQUE || args->row_bytes || args->scale_bytes)
    return ep_unsupported("dispatch", "an opaque payload (dtype OPAQUE, row_bytes, scale_bytes)", open_for_it);
  return 0;
}

static int check_flow_send(const weft_ep_t *ep, const struct weft_ep_dispatch_args *args) {
  if (args->dtype == WEFT_EP_OPAQUE && args->scale_bytes > EP_MAX_SCALES)
    return fail(WEFT_ERR_UNSUPPORTED,
                "dispatch: scale_bytes is %u; on CUDA memory a row has at most %d: put more bytes into row_bytes",
                args->scale_bytes, EP_MAX_SCALES);
  return check_processors(ep, args->processors, "dispatch");
}

int ep_gpu_check_send(weft_ep_t *ep, const struct weft_ep_dispatch_args *args) {
  int rc = ep_gpu_flows(ep) ? check_flow_send(ep, args) : check_latency_send(args);
  if (rc == 0)
    rc = ep_gpu_route_check(ep, args);
  if (rc != 0)
    return rc;
  if (args->row_stride % PIECE != 0)
    return fail(WEFT_ERR_INVALID, "dispatch: row_stride is %llu; on CUDA memory it must be a multiple of %d bytes",
                (unsigned long long)args->row_stride, PIECE);
  if (args->row_stride > UINT32_MAX || args->scale_row_stride > UINT32_MAX || args->scale_block_stride > UINT32_MAX)
    return fail(WEFT_ERR_INVALID, "dispatch: a stride is larger than %u, the largest that kernels support", UINT32_MAX);
  return ep_check_send(ep, args);
}

static int check_latency_recv(const struct weft_ep_recv_args *recv) {
  if (recv->layout == WEFT_EP_PACKED)
    return ep_unsupported("dispatch_recv", "the layout PACKED", open_for_it);
  if (recv->alignment > 1 || recv->flags & WEFT_EP_RECV_ZERO_PADDING)
    return ep_unsupported("dispatch_recv", recv->alignment > 1 ? "alignment" : "ZERO_PADDING", open_for_it);
  if (recv->slot || recv->expert_end)
    return ep_unsupported("dispatch_recv", recv->slot ? "slot" : "expert_end", open_for_it);
  return 0;
}

int ep_gpu_check_recv(weft_ep_t *ep, const struct weft_ep_recv_args *recv) {
  int rc = ep_gpu_flows(ep) ? 0 : check_latency_recv(recv);
  if (rc != 0)
    return rc;
  if (recv->scale_row_stride > UINT32_MAX || recv->scale_block_stride > UINT32_MAX)
    return fail(WEFT_ERR_INVALID, "dispatch_recv: a stride is larger than %u, the largest that kernels support",
                UINT32_MAX);
  return ep_check_recv(ep, recv);
}

// --- combine ---

static int check_latency_combine(const struct weft_ep_combine_args *args, const char *call) {
  if (args->bias[0] || args->bias[1])
    return ep_unsupported(call, "bias", open_for_it);
  if (args->row_weights || args->out_weights)
    return ep_unsupported(call, args->row_weights ? "row_weights" : "out_weights", open_for_it);
  if (args->flags & WEFT_EP_COMBINE_UNWEIGHTED)
    return ep_unsupported(call, "UNWEIGHTED", open_for_it);
  return 0;
}

static int check_flow_combine(const weft_ep_t *ep, const struct weft_ep_combine_args *args, const char *call) {
  if (args->topk_weights)
    return fail(WEFT_ERR_INVALID,
                "%s: topk_weights are given, but in a group for THROUGHPUT they have to be given to the dispatch",
                call);
  return check_processors(ep, args->processors, call);
}

int ep_gpu_check_combine(weft_ep_t *ep, const struct weft_ep_combine_args *args, const char *call) {
  int rc = ep_gpu_flows(ep) ? check_flow_combine(ep, args, call) : check_latency_combine(args, call);
  return rc != 0 ? rc : ep_check_combine(ep, args, call);
}
