// Fills the rest of a route after the plan and the rows: the selections, for operations that use the route, and the
// arrays that its owner reads, weft_ep_route_arrays. It is one kernel, which also sends the notification of the
// dispatch.
#include "base/ep_limits.h"
#include "cuda/control/notify.cuh"
#include "cuda/kernels/launch.h"
#include "cuda/throughput/channel.cuh"
#include "cuda/throughput/launch.h"

namespace {

enum { LIST_THREADS = 512, LIST_EACH = 4 }; // LIST_EACH: selections that a thread loads at once
enum { LIST_BINS = 8192 };                  // selections of up to this many experts are counted in shared memory
enum { LIST_NONE = DEVICE_SEATS };          // the rank has no seat

// Blocks that do the same work. The blocks for what is sent and for what was received run at the same time, since each
// has to wait for loads.
struct list_share {
  uint32_t block, blocks;
  __device__ __forceinline__ uint32_t first() const { return block * LIST_THREADS + threadIdx.x; }
  __device__ __forceinline__ uint32_t threads() const { return blocks * LIST_THREADS; }
};

// --- what is sent ---

__device__ __forceinline__ void keep_selection(const cuda_lists_args &args, uint64_t at, int64_t expert, float weight) {
  if (args.narrow)
    ((int32_t *)args.kept_idx)[at] = (int32_t)expert;
  else
    ((int64_t *)args.kept_idx)[at] = expert;
  if (args.topk_weights)
    args.kept_weights[at] = weight;
}

// Keeps the selections and their weights, and counts the selections of each expert. The counts have been set to 0
// before. [block]
__device__ __forceinline__ void list_selections(const cuda_lists_args &args, const list_share &share, uint32_t tokens) {
  __shared__ uint32_t bins[LIST_BINS];
  uint32_t experts = args.capacity * args.experts, shared = experts <= LIST_BINS ? experts : 0;
  for (uint32_t i = threadIdx.x; i < shared; i += LIST_THREADS)
    bins[i] = 0;
  __syncthreads();
  uint32_t *counts = shared ? bins : (uint32_t *)args.lists.tokens_per_expert;
  uint64_t all = (uint64_t)tokens * args.topk;
#pragma unroll 1
  for (uint64_t first = share.first(); first < all; first += (uint64_t)LIST_EACH * share.threads()) {
    int64_t expert[LIST_EACH];
    float weight[LIST_EACH];
#pragma unroll
    for (uint32_t i = 0; i < LIST_EACH; i++) {
      uint64_t at = first + (uint64_t)i * share.threads();
      bool there = at < all;
      expert[i] = !there        ? -1
                  : args.narrow ? ((const int32_t *)args.topk_idx)[at]
                                : ((const int64_t *)args.topk_idx)[at];
      weight[i] = there && args.topk_weights ? args.topk_weights[at] : 0.0f;
    }
#pragma unroll
    for (uint32_t i = 0; i < LIST_EACH; i++) {
      uint64_t at = first + (uint64_t)i * share.threads();
      if (at < all)
        keep_selection(args, at, expert[i], weight[i]);
      if (expert[i] >= 0 && expert[i] < experts)
        atomicAdd(&counts[expert[i]], 1);
    }
  }
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < shared; i += LIST_THREADS)
    if (bins[i])
      atomicAdd((uint32_t *)&args.lists.tokens_per_expert[i], bins[i]);
}

// Lists which token goes to which rank: writes four bytes of the list together, which may belong to several tokens. The
// memory of the list is a multiple of four bytes.
__device__ __forceinline__ void list_tokens(const cuda_lists_args &args, const list_share &share,
                                            const uint8_t *seat_of, uint32_t tokens) {
  uint64_t bytes = (uint64_t)tokens * args.capacity;
  for (uint64_t at = 4ull * share.first(); at < bytes; at += 4ull * share.threads()) {
    uint32_t token = (uint32_t)(at / args.capacity), rank = (uint32_t)(at - (uint64_t)token * args.capacity), word = 0;
    uint64_t seats = args.route->seats[token];
    for (uint32_t b = 0; b < 4 && at + b < bytes; b++) {
      if (rank == args.capacity) {
        rank = 0;
        seats = args.route->seats[++token];
      }
      uint32_t seat = seat_of[rank++];
      word |= (seat < DEVICE_SEATS ? (uint32_t)(seats >> seat) & 1 : 0) << 8 * b;
    }
    *(uint32_t *)(args.lists.in_rank + at) = word;
  }
}

// [block]
__device__ __forceinline__ void list_sent(const cuda_lists_args &args, const list_share &share) {
  __shared__ uint8_t seat_of[EP_MAX_CAPACITY]; // of each rank
  const cuda_state *state = args.state;
  const cuda_view &view = view_of(state, args.notify.op ? args.notify.op->op : state->counters.sent);
  for (uint32_t rank = threadIdx.x; rank < args.capacity; rank += LIST_THREADS)
    seat_of[rank] = LIST_NONE;
  __syncthreads();
  for (uint32_t m = threadIdx.x; m < view.count; m += LIST_THREADS)
    if (view.members[m].seat < DEVICE_SEATS)
      seat_of[view.members[m].rank] = (uint8_t)view.members[m].seat;
  __syncthreads();
  uint32_t tokens = args.route->sums[0];
  for (uint32_t rank = share.first(); rank < args.capacity; rank += share.threads())
    if (seat_of[rank] != LIST_NONE)
      args.lists.tokens_per_rank[rank] = (int32_t)args.route->tokens[seat_of[rank]];
  list_tokens(args, share, seat_of, tokens);
  list_selections(args, share, tokens);
}

// --- what is received ---

// The tables that the threads of a block read for each row.
struct received_lists {
  uint32_t rank_end[DEVICE_SEATS];
  int32_t rank[DEVICE_SEATS];
  // The packed row at which each expert's part begins: with the alignment of the route, and with the alignment of the
  // receive.
  uint32_t begin[EP_MAX_EXPERTS], received[EP_MAX_EXPERTS];

  // The counts in the headers determine where each part begins, even if rows did not arrive. [block]
  __device__ __forceinline__ void make(const cuda_lists_args &args) {
    const cuda_filled &filled = *args.notify.filled;
    if (threadIdx.x < DEVICE_SEATS) {
      rank_end[threadIdx.x] = filled.rank_end[threadIdx.x];
      rank[threadIdx.x] = filled.rank[threadIdx.x];
    }
    uint32_t warp = threadIdx.x / WARP; // one for each alignment
    if (warp < 2)
      list_begins(filled.totals, args.experts, warp == 0 ? args.alignment : args.received_alignment,
                  warp == 0 ? begin : received);
    __syncthreads();
  }

  // The packed row of a selection, from the place that the rows kernel has stored; -1: another rank's selection, or no
  // room.
  __device__ __forceinline__ int32_t slot(const cuda_lists_args &args, int32_t expert, int32_t place) const {
    if (expert < 0 || place < 0)
      return -1;
    uint32_t first = args.layout == WEFT_EP_PACKED       ? received[expert]
                     : args.layout == WEFT_EP_PER_EXPERT ? (uint32_t)expert * args.rows
                                                         : 0;
    return (int32_t)(begin[expert] + (uint32_t)place - first);
  }
};

// The index of a pair's source among the ranks of the filling.
__device__ __forceinline__ uint32_t source_of(const received_lists &received, uint32_t ranks, uint32_t pair) {
  uint32_t low = 0, high = ranks;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (received.rank_end[middle] <= pair)
      low = middle + 1;
    else
      high = middle;
  }
  return min(low, (uint32_t)DEVICE_SEATS - 1);
}

// [block]
__device__ __forceinline__ void list_received(const cuda_lists_args &args, const list_share &share) {
  __shared__ received_lists received;
  const cuda_filled &filled = *args.notify.filled;
  const cuda_route &route = *args.route;
  uint32_t pairs = min(filled.num_rows, args.max_rows), ranks = filled.num_ranks;
  received.make(args);
  for (uint32_t rank = share.first(); rank < args.capacity; rank += share.threads()) {
    uint32_t end = 0;
    for (uint32_t m = 0; m < ranks; m++)
      end = received.rank[m] <= (int32_t)rank ? received.rank_end[m] : end;
    args.lists.rank_end[rank] = (int32_t)end;
  }
  for (uint32_t e = share.first(); e < args.experts; e += share.threads())
    args.lists.expert_end[e] = (int32_t)(received.begin[e] + filled.totals[e]);
  for (uint32_t pair = share.first(); pair < pairs; pair += share.threads()) {
    args.lists.src_rank[pair] = received.rank[source_of(received, ranks, pair)];
    args.lists.src_token[pair] = route.token[pair];
  }
  // Four entries together: the arrays consist of whole lines, and entries after the last pair are unused.
  for (uint64_t i = share.first(); i < ((uint64_t)pairs * args.topk + 3) / 4; i += share.threads()) {
    int4 expert = ((const int4 *)route.expert)[i], place = ((const int4 *)route.place)[i];
    ((int4 *)args.lists.slot)[i] =
        make_int4(received.slot(args, expert.x, place.x), received.slot(args, expert.y, place.y),
                  received.slot(args, expert.z, place.z), received.slot(args, expert.w, place.w));
  }
}

__global__ void __launch_bounds__(LIST_THREADS, 1) lists(const __grid_constant__ cuda_lists_args args) {
  ptx::kernel_wait();
  if (args.halves & DEVICE_RECV && blockIdx.x == 0 && threadIdx.x == 0)
    notify_of_rows(args.notify);
  bool sends = args.halves & DEVICE_SEND, receives = args.halves & DEVICE_RECV, second = blockIdx.x % 2;
  list_share share = {blockIdx.x, gridDim.x};
  if (sends && receives && gridDim.x > 1) { // half of the blocks do each
    share = {blockIdx.x / 2, (gridDim.x + !second) / 2};
    sends = !second;
    receives = second;
  }
  if (sends)
    list_sent(args, share);
  if (receives)
    list_received(args, share);
}

} // namespace

int cuda_launch_lists(const struct cuda_lists_args *args, uint32_t blocks, bool early, cudaStream_t stream) {
  void *params[] = {(void *)args};
  return (int)launch((const void *)lists, params, blocks, LIST_THREADS, 0, early, stream);
}

int cuda_load_lists(bool *early) {
  return (int)load((const void *)lists, early);
}
