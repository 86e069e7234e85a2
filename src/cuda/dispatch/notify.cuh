// Notifies kernels and threads that do not call the library of the result of a dispatch (struct weft_ep_recv_status).
// The last block that has placed its rows does it, so that all rows are visible before `written` is.
#ifndef CUDA_DISPATCH_NOTIFY_CUH
#define CUDA_DISPATCH_NOTIFY_CUH

#include <weft/ep.h>

#include "cuda/dispatch/receive_headers.cuh"

// Writes the caller's list: bit r is set if the data of rank r of the view did not arrive. [one thread]
__device__ __forceinline__ void write_lost(const cuda_dispatch_args &args, const cuda_view &view, uint64_t members) {
#pragma unroll 1
  for (uint32_t i = 0; i < (args.capacity + 63) / 64; i++)
    args.d.lost[i] = 0;
#pragma unroll 1
  for (; members; members &= members - 1) {
    uint32_t rank = (uint32_t)view.members[__ffsll((long long)members) - 1].rank;
    args.d.lost[rank / 64] |= 1ull << rank % 64;
  }
}

// [one thread]
static __device__ __noinline__ void write_status(const cuda_dispatch_args &args, const cuda_view &view, uint64_t op) {
  const device_record &record = args.state->record[op % CUDA_RECORDS];
  uint64_t members = ptx::load_volatile(&record.lost);
  if (args.d.lost)
    write_lost(args, view, members);
  weft_ep_recv_status *status = args.d.status;
  if (!status)
    return;
  status->op = op;
  status->epoch = ptx::load_volatile(&record.epoch);
  status->mark = ptx::load_volatile(&record.mark);
  status->num_ranks = ptx::load_volatile(&record.num_ranks);
  status->num_rows = ptx::load_volatile(&record.num_rows);
  status->rows_needed = ptx::load_volatile(&record.needed_rows);
  status->num_lost = (uint32_t)__popcll(members);
  ptx::fence_system();
  ptx::store_relaxed(&status->written, op + 1);
}

static __device__ __noinline__ void tell_last(const cuda_dispatch_args &args, const cuda_view &view, uint64_t op,
                                              struct role role) {
  role.sync();
  if (role.thread() != 0)
    return;
  ptx::fence_system();
  if (atomicAdd(&args.state->votes[op % CUDA_LIVE].placed, 1) != role.blocks - 1)
    return;
  ptx::fence_system();
  write_status(args, view, op);
}

// To be called after all other writes of a receiving block. [role]
__device__ __forceinline__ void notify(const cuda_dispatch_args &args, const cuda_view &view, uint64_t op,
                                       const role &role) {
  if (CUDA_OPTION(args.d.status || args.d.lost))
    tell_last(args, view, op, role);
}

#endif
