// What arguments have to be on CUDA memory, beside what core/check.c says: kernels read pieces of 16 bytes.
#include "base/fail.h"
#include "ep/core/args.h"
#include "ep/gpu/gpu.h"

enum { PIECE = 16 };

int ep_gpu_check_send(weft_ep_t *ep, const struct weft_ep_dispatch_args *args) {
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
  return ep_check_recv(ep, recv);
}
