// The notification after the rows of a dispatch.
#ifndef CUDA_CONTROL_NOTIFY_CUH
#define CUDA_CONTROL_NOTIFY_CUH

#include "cuda/control/control.h"
#include "cuda/dispatch/notify.cuh"

// The members that have these seats.
__device__ __forceinline__ uint64_t members_of(const cuda_flow_op &op, uint64_t seats) {
  uint64_t members = 0;
#pragma unroll 1
  for (; seats; seats &= seats - 1)
    members |= 1ull << op.member[__ffsll((long long)seats) - 1];
  return members;
}

__device__ __forceinline__ const cuda_view &view_of(const cuda_state *state, uint64_t op) {
  return state->live[state->counters.live[op % CUDA_LIVE]];
}

// A member whose rows did not all arrive is also lost for the operation. [one thread]
__device__ __forceinline__ void notify_of_rows(const cuda_notify_args &args) {
  const cuda_flow_op &op = *args.op;
  cuda_state *state = args.base.state;
  uint64_t lost = members_of(op, op.lost);
  device_record &record = state->record[op.op % CUDA_RECORDS];
  if (lost)
    record.lost |= lost;
  if (args.filled)
    args.filled->lost |= lost;
  if (args.base.d.status || args.base.d.lost)
    write_status(args.base, view_of(state, op.op), op.op);
}

#endif
