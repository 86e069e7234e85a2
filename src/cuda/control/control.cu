// Control of throughput operations: its dispatch (control.cuh), the notification after the rows, and the end.
#include "cuda/control/control.cuh"
#include "cuda/control/notify.cuh"
#include "cuda/kernels/launch.h"
#include "cuda/throughput/launch.h"

namespace {

enum { END_THREADS = 512 };

__global__ void notify_kernel(const __grid_constant__ cuda_notify_args args) {
  ptx::kernel_wait();
  notify_of_rows(args);
}

// The seats to which the route sends tokens of this rank, and which do not take part. [warp]
__device__ __forceinline__ uint64_t absent_seats(const cuda_end_args &args) {
  uint32_t lane = threadIdx.x % WARP;
  const uint32_t *tokens = args.route->tokens;
  uint32_t low = tokens[lane], high = tokens[lane + WARP];
  uint64_t went = __ballot_sync(~0u, low > 0) | (uint64_t)__ballot_sync(~0u, high > 0) << WARP;
  return went & ~args.op->seats;
}

// Counts the selections without a contribution, although some rank should have had them. [block]
__device__ __forceinline__ uint32_t count_missing(const cuda_end_args &args, uint64_t absent) {
  const cuda_route &route = *args.route;
  uint32_t topk = args.topk, count = 0;
#pragma unroll 1
  for (uint32_t token = threadIdx.x; token < route.sums[0]; token += END_THREADS) {
    uint64_t gone = absent | args.missing[token];
#pragma unroll 1
    for (uint32_t k = 0; gone && k < topk; k++) {
      uint32_t way = route.ways[(size_t)token * topk + k].row;
      count += way != CUDA_WAY_NONE && gone >> (way >> CUDA_WAY_SEAT) & 1;
    }
  }
  return count;
}

// Records what this rank has answered, and what the next answers to the same seats have to wait for. [block]
__device__ __forceinline__ void record_answers(const cuda_end_args &args, device_record &record) {
  const cuda_flow_op &op = *args.op;
  uint32_t seat = threadIdx.x;
  if (seat == 0)
    record.answered_rows = 0; // of a combine before
  __syncthreads();
  uint32_t rows = seat < DEVICE_SEATS && op.seats >> seat & 1 ? op.rows[seat] : 0;
  bool own = seat == op.self;
  if (rows && !own)
    ptx::add(&record.answered_rows, rows);
  if (rows && !(own && args.rank_major)) // these rows are read in place
    ((cuda_flow_head *)op.in[seat])->sent.answers = op.answer + 1;
}

// Ends the operation, or a combine of it: its record, and the counters. [block]
template <bool ANSWERS, bool ADDS>
__global__ void __launch_bounds__(END_THREADS, 1) end(const __grid_constant__ cuda_end_args args) {
  __shared__ snapshot snapshot;
  const steps STEPS = {false, false, ANSWERS, ADDS, args.keeps, false, false, 0};
  ptx::kernel_wait();
  const snapshot_part<END_THREADS> part(args.state);
  part.put(snapshot);
  __syncthreads();
  if (threadIdx.x / WARP == 0) {
    publish(snapshot, args.state, STEPS);
    arrive(snapshot, args.state, STEPS);
  }
  if (!args.op)
    return;
  cuda_flow_op &op = *args.op;
  device_record &record = args.state->record[op.op % CUDA_RECORDS];
  if (ANSWERS)
    record_answers(args, record);
  if (!ADDS)
    return;
  __syncthreads();
  if (threadIdx.x == 0) {
    record.missing = 0; // of a combine before
    record.combine_lost = 0;
    op.answer += args.keeps;
  }
  __syncthreads();
  uint64_t absent = absent_seats(args);
  if (!(absent | op.answers_lost))
    return;
  uint32_t missing = count_missing(args, absent);
  if (missing)
    ptx::add(&record.missing, missing);
  if (threadIdx.x == 0)
    ptx::set_bits(&record.combine_lost, members_of(op, (absent | op.answers_lost) & view_of(snapshot, op.op).seats));
}

const void *control_of(uint32_t halves) {
  return halves == DEVICE_SEND   ? (const void *)control<true, false>
         : halves == DEVICE_RECV ? (const void *)control<false, true>
                                 : (const void *)control<true, true>;
}

const void *end_of(uint32_t halves) {
  return halves == DEVICE_SEND   ? (const void *)end<true, false>
         : halves == DEVICE_RECV ? (const void *)end<false, true>
                                 : (const void *)end<true, true>;
}

} // namespace

size_t cuda_control_memory(const struct cuda_layout *layout, uint32_t members) {
  return (size_t)members * layout->experts * 4;
}

int cuda_load_control(bool *early) {
  cudaError_t rc = load((const void *)notify_kernel, early);
  for (uint32_t halves = DEVICE_SEND; halves <= (DEVICE_SEND | DEVICE_RECV); halves++) {
    if (rc == cudaSuccess)
      rc = load(control_of(halves), early);
    if (rc == cudaSuccess)
      rc = load(end_of(halves), early);
  }
  return (int)rc;
}

int cuda_launch_control(const struct cuda_control_args *args, bool early, cudaStream_t stream) {
  void *params[] = {(void *)args};
  size_t memory = args->base.d.halves & DEVICE_RECV ? cuda_control_memory(&args->base.layout, args->base.members) : 0;
  return (int)launch(control_of(args->base.d.halves), params, 1, BLOCK, memory, early, stream);
}

int cuda_launch_notify(const struct cuda_notify_args *args, bool early, cudaStream_t stream) {
  void *params[] = {(void *)args};
  return (int)launch((const void *)notify_kernel, params, 1, 1, 0, early, stream);
}

int cuda_launch_end(const struct cuda_end_args *args, bool early, cudaStream_t stream) {
  void *params[] = {(void *)args};
  return (int)launch(end_of(args->halves), params, 1, END_THREADS, 0, early, stream);
}
