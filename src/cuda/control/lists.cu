// What a route's owner reads of it: weft_ep_route_arrays, from what the plan and the rows' kernel have left.
#include "cuda/control/control.h"
#include "cuda/kernels/launch.h"
#include "cuda/kernels/snapshot.cuh"
#include "cuda/throughput/launch.h"

namespace {

enum { LIST_THREADS = 512 };

__device__ __forceinline__ uint32_t first_index() {
  return blockIdx.x * LIST_THREADS + threadIdx.x;
}
__device__ __forceinline__ uint32_t all_threads() {
  return gridDim.x * LIST_THREADS;
}

// Selections of each expert, counted; tokens of each rank; and which token goes where.
__global__ void __launch_bounds__(LIST_THREADS, 1) sent_lists(const __grid_constant__ cuda_lists_args args) {
  __shared__ int32_t rank[DEVICE_SEATS]; // of each seat of the view, -1: none has it
  const cuda_state *state = args.state;
  ptx::kernel_wait();
  const cuda_view &view = state->live[state->counters.live[state->counters.sent % CUDA_LIVE]];
  if (threadIdx.x < DEVICE_SEATS)
    rank[threadIdx.x] = -1;
  __syncthreads();
  for (uint32_t m = threadIdx.x; m < view.count; m += LIST_THREADS)
    if (view.members[m].seat < DEVICE_SEATS)
      rank[view.members[m].seat] = view.members[m].rank;
  __syncthreads();
  uint32_t tokens = args.route->sums[0];
  for (uint32_t seat = first_index(); seat < DEVICE_SEATS; seat += all_threads())
    if (rank[seat] >= 0)
      args.lists.tokens_per_rank[rank[seat]] = (int32_t)args.route->tokens[seat];
  for (uint64_t i = first_index(); i < (uint64_t)tokens * args.topk; i += all_threads()) {
    int64_t expert = args.narrow ? ((const int32_t *)args.topk_idx)[i] : ((const int64_t *)args.topk_idx)[i];
    if (expert >= 0 && expert < (int64_t)args.capacity * args.experts)
      atomicAdd(&args.lists.tokens_per_expert[expert], 1);
  }
  for (uint32_t token = first_index() / WARP; token < tokens; token += all_threads() / WARP) {
    uint8_t *to = args.lists.in_rank + (size_t)token * args.capacity;
    uint64_t seats = args.route->seats[token];
    for (uint32_t i = threadIdx.x % WARP; i < args.capacity; i += WARP)
      to[i] = 0;
    __syncwarp();
    for (uint32_t seat = threadIdx.x % WARP; seat < DEVICE_SEATS; seat += WARP)
      if (seats >> seat & 1 && rank[seat] >= 0)
        to[rank[seat]] = 1;
  }
}

// The index, among the ranks of the filling, of the one that a pair came from.
__device__ __forceinline__ uint32_t source_of(const cuda_filled &filled, uint32_t pair) {
  uint32_t low = 0, high = filled.num_ranks;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (filled.rank_end[middle] <= pair)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// Numbers the selections of one expert, from `first` on, in the order of pairs and places. Returns where they end.
// [block]
__device__ uint32_t number_expert(const cuda_lists_args &args, uint32_t pairs, uint32_t expert, uint32_t first) {
  __shared__ uint32_t warps[LIST_THREADS / WARP];
  uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, end = first;
  uint64_t all = (uint64_t)pairs * args.topk;
  for (uint64_t base = 0; base < all; base += LIST_THREADS) {
    uint64_t i = base + threadIdx.x;
    bool its = i < all && args.route->expert[i] == (int32_t)expert;
    uint32_t lanes = __ballot_sync(~0u, its);
    if (lane == 0)
      warps[warp] = __popc(lanes);
    __syncthreads();
    uint32_t before = 0, here = 0;
    for (uint32_t w = 0; w < LIST_THREADS / WARP; w++) {
      before += w < warp ? warps[w] : 0;
      here += warps[w];
    }
    if (its)
      args.lists.slot[i] = (int32_t)(end + before + __popc(lanes & ((1u << lane) - 1)));
    end += here;
    __syncthreads();
  }
  return end;
}

__device__ __forceinline__ uint32_t aligned_up(uint32_t value, uint32_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// By the expert, a block each. What the headers counted says where each part begins, whatever has come of it.
__global__ void __launch_bounds__(LIST_THREADS, 1) received_lists(const __grid_constant__ cuda_lists_args args) {
  ptx::kernel_wait();
  const cuda_filled &filled = *args.filled;
  uint32_t pairs = min(filled.num_rows, args.max_rows);
  for (uint32_t rank = first_index(); rank < args.capacity; rank += all_threads()) {
    uint32_t end = 0;
    for (uint32_t m = 0; m < filled.num_ranks; m++)
      end = filled.rank[m] <= (int32_t)rank ? filled.rank_end[m] : end;
    args.lists.rank_end[rank] = (int32_t)end;
  }
  for (uint32_t pair = first_index(); pair < pairs; pair += all_threads()) {
    args.lists.src_rank[pair] = filled.rank[min(source_of(filled, pair), (uint32_t)DEVICE_SEATS - 1)];
    args.lists.src_token[pair] = args.route->token[pair];
    for (uint32_t k = 0; k < args.topk; k++)
      if (args.route->expert[(size_t)pair * args.topk + k] < 0)
        args.lists.slot[(size_t)pair * args.topk + k] = -1;
  }
  for (uint32_t expert = blockIdx.x; expert < args.experts; expert += gridDim.x) {
    uint32_t begin = 0;
    for (uint32_t e = 0; e < expert; e++)
      begin = aligned_up(begin + filled.totals[e], args.alignment);
    number_expert(args, pairs, expert, begin);
    if (threadIdx.x == 0)
      args.lists.expert_end[expert] = (int32_t)(begin + filled.totals[expert]);
  }
}

} // namespace

int cuda_launch_sent_lists(const struct cuda_lists_args *args, uint32_t blocks, bool early, cudaStream_t stream) {
  void *params[] = {(void *)args};
  return (int)launch((const void *)sent_lists, params, blocks, LIST_THREADS, 0, early, stream);
}

int cuda_launch_received_lists(const struct cuda_lists_args *args, uint32_t blocks, bool early, cudaStream_t stream) {
  void *params[] = {(void *)args};
  return (int)launch((const void *)received_lists, params, blocks, LIST_THREADS, 0, early, stream);
}

int cuda_load_lists(bool *early) {
  cudaError_t rc = load((const void *)sent_lists, early);
  return (int)(rc == cudaSuccess ? load((const void *)received_lists, early) : rc);
}
