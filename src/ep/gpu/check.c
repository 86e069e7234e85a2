// What arguments have to be on CUDA memory, beside what core/check.c says: kernels read pieces of 16 bytes.
#include "base/fail.h"
#include "ep/core/args.h"
#include "ep/gpu/gpu.h"

enum { PIECE = 16 };

int ep_gpu_check_send(weft_ep_t *ep, const struct weft_ep_dispatch_args *args) {
  if (args->dtype == WEFT_EP_OPAQUE || args->x_dtype == WEFT_EP_OPAQUE || args->row_bytes || args->scale_bytes)
    return ep_unsupported("dispatch", "an opaque payload (dtype OPAQUE, row_bytes, scale_bytes) on CUDA memory",
                          "send bf16 or fp8");
  if (args->row_stride % PIECE != 0)
    return fail(WEFT_ERR_INVALID, "dispatch: row_stride is %llu; on CUDA memory it must be a multiple of %d bytes",
                (unsigned long long)args->row_stride, PIECE);
  if (args->row_stride > UINT32_MAX || args->scale_row_stride > UINT32_MAX || args->scale_block_stride > UINT32_MAX)
    return fail(WEFT_ERR_INVALID, "dispatch: a stride is larger than the %u that kernels can step by", UINT32_MAX);
  return ep_check_send(ep, args);
}

int ep_gpu_check_recv(weft_ep_t *ep, const struct weft_ep_recv_args *recv) {
  if (recv->scale_row_stride > UINT32_MAX || recv->scale_block_stride > UINT32_MAX)
    return fail(WEFT_ERR_INVALID, "dispatch_recv: a stride is larger than the %u that kernels can step by", UINT32_MAX);
  if (recv->layout == WEFT_EP_PACKED)
    return ep_unsupported("dispatch_recv", "the layout PACKED on CUDA memory", "receive PER_EXPERT or RANK_MAJOR");
  return ep_check_recv(ep, recv);
}

int ep_gpu_check_combine(weft_ep_t *ep, const struct weft_ep_combine_args *args, const char *call) {
  if (args->bias[0] || args->bias[1])
    return ep_unsupported(call, "bias on CUDA memory", "leave it NULL, and add it to out");
  if (args->row_weights || args->out_weights)
    return ep_unsupported(call, args->row_weights ? "row_weights on CUDA memory" : "out_weights on CUDA memory",
                          "leave it NULL");
  if (args->flags & WEFT_EP_COMBINE_UNWEIGHTED)
    return ep_unsupported(call, "UNWEIGHTED on CUDA memory", "give weights of 1 with the dispatch");
  return ep_check_combine(ep, args, call);
}
