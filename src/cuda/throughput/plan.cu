// The plan of a dispatch: which token goes where, and its number there.
//
// Tokens are cut into as many pieces as there are warps, in order. Each warp counts its piece's selections of each
// expert, and its rows to each seat, in shared memory. What the pieces before it have is then where its own numbers
// begin. So all numbers follow from the order of tokens alone, however many warps there are.
#include "cuda/kernels/snapshot.cuh"
#include "cuda/throughput/launch.h"
#include "cuda/throughput/sizes.h"

namespace {

enum { PLAN_WARPS = 32, PLAN_SUMS = 3, PLAN_ROOM = 200 * 1024 };

struct plan_launch {
  cuda_plan_args args;
  uint32_t warps, bins; // of a block; experts of all members that there may be, members, and PLAN_SUMS
};

struct plan_view {
  uint32_t count, bins;
  uint64_t usual;                 // seats that get rows
  int32_t rank[CUDA_MAX_MEMBERS]; // ascending
  uint8_t seat[CUDA_MAX_MEMBERS];
};

// A warp's selections, some tokens at a time, whose lanes lie side by side. [warp]
struct plan_step {
  bool valid; // there is a rank for it
  uint32_t member, expert, seat;
  uint32_t same, rows; // lanes with the same expert; leading lanes of the same seat: those that make a row
  bool leads;
  bool selected;
};

__device__ __forceinline__ plan_step look(const cuda_plan_args &args, const plan_view &view, uint32_t token,
                                          uint32_t tokens, uint32_t slot, uint32_t k, uint32_t lane) {
  plan_step s;
  s.selected = s.valid = s.leads = false;
  s.member = s.expert = s.seat = 0;
  uint32_t E = args.flow.experts;
  if (token < tokens && k < args.topk) {
    size_t at = (size_t)token * args.topk + k;
    int64_t global = args.narrow ? ((const int32_t *)args.topk_idx)[at] : ((const int64_t *)args.topk_idx)[at];
    s.selected = global >= 0;
    if (global >= 0 && global < (int64_t)1 << 31) {
      int32_t rank = (int32_t)((uint32_t)global / E);
      s.expert = (uint32_t)global % E;
      uint32_t low = 0, high = view.count;
      while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (view.rank[middle] < rank)
          low = middle + 1;
        else
          high = middle;
      }
      if (low < view.count && view.rank[low] == rank) {
        s.member = low;
        s.seat = view.seat[low];
        s.valid = s.seat < DEVICE_SEATS && view.usual >> s.seat & 1;
      }
    }
  }
  s.same = __match_any_sync(~0u, s.valid ? s.member * E + s.expert : ~lane);
  uint32_t token_same = __match_any_sync(~0u, s.valid ? s.member << 8 | slot : ~lane);
  s.leads = s.valid && (token_same & ((1u << lane) - 1)) == 0;
  s.rows = __match_any_sync(~0u, s.leads ? s.member : ~lane);
  return s;
}

// All blocks have come here. The counter ends a round as it began it, but for its upper half. [block]
__device__ __forceinline__ void plan_barrier(uint32_t *counter) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    uint32_t round = *(volatile uint32_t *)counter >> 16;
    if ((atomicAdd(counter, 1) & 0xFFFF) == gridDim.x - 1) {
      atomicAdd(counter, 0x10000u - gridDim.x);
    } else {
      while (*(volatile uint32_t *)counter >> 16 == round)
        __nanosleep(20);
    }
    __threadfence();
  }
  __syncthreads();
}

__global__ __launch_bounds__(PLAN_WARPS *WARP, 1) void plan_kernel(const __grid_constant__ plan_launch launch) {
  extern __shared__ uint32_t counts[]; // [warps][bins]
  __shared__ plan_view view;
  __shared__ cuda_route route;
  __shared__ uint32_t tokens;
  const cuda_plan_args &args = launch.args;
  uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, E = args.flow.experts, K = args.topk;
  ptx::kernel_wait();
  const cuda_state *state = args.state;
  uint64_t op = ptx::load_volatile(&state->counters.sent);
  const cuda_view &live = state->live[*(const volatile uint8_t *)&state->counters.live[op % CUDA_LIVE]];
  for (uint32_t i = threadIdx.x; i < sizeof(cuda_route) / 4; i += blockDim.x)
    ((uint32_t *)&route)[i] = ((const uint32_t *)args.route)[i];
  for (uint32_t i = threadIdx.x; i < min(live.count, (uint32_t)CUDA_MAX_MEMBERS); i += blockDim.x) {
    view.rank[i] = live.members[i].rank;
    view.seat[i] = (uint8_t)live.members[i].seat;
  }
  if (threadIdx.x == 0) {
    view.count = live.count;
    view.bins = live.count * (E + 1) + PLAN_SUMS;
    uint64_t lost = ptx::load_volatile(&state->counters.lost) | ptx::load_volatile(&state->control.gone);
    view.usual = ~(lost | (args.replays ? ptx::load_volatile(&state->control.masked) : args.masked));
    tokens = args.num_tokens_at ? min(*args.num_tokens_at, args.num_tokens) : args.num_tokens;
  }
  for (uint32_t i = threadIdx.x; i < launch.warps * launch.bins; i += blockDim.x)
    counts[i] = 0;
  __syncthreads();
  uint32_t *mine = counts + warp * launch.bins, experts = view.count * E;
  bool counted = view.bins <= launch.bins; // always: a launch has room for the most members
  uint32_t pieces = gridDim.x * launch.warps, piece = blockIdx.x * launch.warps + warp, each = WARP / K;
  uint32_t per = (tokens + pieces - 1) / pieces;
  per = (per + each - 1) / each * each;
  uint32_t first = min(piece * per, tokens), end = min(first + per, tokens);
  uint32_t slot = lane / K, k = lane - slot * K;
  bool used = slot < each;
  uint32_t selections = 0, unsent = 0, going = 0, leaders = 0;
#pragma unroll 1
  for (uint32_t t = first; t < end && counted; t += each) {
    uint32_t token = used && t + slot < end ? t + slot : tokens;
    plan_step s = look(args, view, token, tokens, slot, k, lane);
    if (s.valid && (s.same & ((1u << lane) - 1)) == 0)
      mine[s.member * E + s.expert] += __popc(s.same);
    if (s.leads && (s.rows & ((1u << lane) - 1)) == 0)
      mine[experts + s.member] += __popc(s.rows);
    selections += __popc(__ballot_sync(~0u, s.selected));
    unsent += __popc(__ballot_sync(~0u, s.selected && !s.valid));
    leaders = __ballot_sync(~0u, s.valid);
    for (uint32_t i = 0; i < each; i++)
      going += (leaders >> i * K & (0xFFFFFFFFu >> (WARP - K))) != 0;
    __syncwarp();
  }
  if (lane == 0 && counted) {
    uint32_t *sums = mine + view.bins - PLAN_SUMS;
    sums[0] = selections;
    sums[1] = unsent;
    sums[2] = going;
  }
  __syncthreads();
  // Within the block each warp's counts become what the warps before it have; the block's own go to all.
  for (uint32_t bin = threadIdx.x; bin < view.bins && counted; bin += blockDim.x) {
    uint32_t sum = 0;
    for (uint32_t w = 0; w < launch.warps; w++) {
      uint32_t count = counts[w * launch.bins + bin];
      counts[w * launch.bins + bin] = sum;
      sum += count;
    }
    args.workspace[64 + (size_t)blockIdx.x * launch.bins + bin] = sum;
  }
  plan_barrier(args.workspace);
  for (uint32_t bin = threadIdx.x; bin < view.bins && counted; bin += blockDim.x) {
    uint32_t before = 0, all = 0;
#pragma unroll 12
    for (uint32_t b = 0; b < gridDim.x; b++) {
      uint32_t count = __ldcg(args.workspace + 64 + (size_t)b * launch.bins + bin);
      before += b < blockIdx.x ? count : 0;
      all += count;
    }
    for (uint32_t w = 0; w < launch.warps; w++)
      counts[w * launch.bins + bin] += before;
    if (blockIdx.x != 0)
      continue;
    if (bin >= view.bins - PLAN_SUMS) {
      route.sums[1 + bin - (view.bins - PLAN_SUMS)] = all;
      continue;
    }
    uint32_t seat = view.seat[bin < experts ? bin / E : bin - experts];
    if (seat < DEVICE_SEATS && bin < experts)
      route.counts[seat * E + bin % E] = all;
    else if (seat < DEVICE_SEATS)
      route.tokens[seat] = all;
  }
  if (blockIdx.x == 0 && threadIdx.x == 0)
    route.sums[0] = tokens;
  __syncthreads();
#pragma unroll 1
  for (uint32_t t = first; t < end && counted; t += each) {
    uint32_t token = used && t + slot < end ? t + slot : tokens, before = (1u << lane) - 1;
    plan_step s = look(args, view, token, tokens, slot, k, lane);
    uint32_t number = 0, row = 0;
    if (s.valid)
      number = mine[s.member * E + s.expert] + __popc(s.same & before);
    if (s.leads)
      row = mine[experts + s.member] + __popc(s.rows & before);
    __syncwarp();
    if (s.valid && (s.same & before) == 0)
      mine[s.member * E + s.expert] += __popc(s.same);
    if (s.leads && (s.rows & before) == 0)
      mine[experts + s.member] += __popc(s.rows);
    // A token's selections of one seat all have its row.
    uint32_t group = __match_any_sync(~0u, s.valid ? s.member << 8 | slot : ~lane);
    row = __shfl_sync(~0u, row, __ffs((int)group) - 1);
    uint32_t lanes = (K == 32 ? ~0u : (1u << K) - 1) << slot * K;
    uint64_t bit = s.valid ? 1ull << s.seat : 0;
    if (used) {
      uint32_t low = __reduce_or_sync(lanes, (uint32_t)bit), high = __reduce_or_sync(lanes, (uint32_t)(bit >> 32));
      if (token < tokens) {
        uint2 way = s.valid ? make_uint2(row | s.seat << CUDA_WAY_SEAT, number | s.expert << CUDA_WAY_EXPERT)
                            : make_uint2(CUDA_WAY_NONE, 0);
        ((uint2 *)route.ways)[(size_t)token * K + k] = way;
        if (k == 0)
          route.seats[token] = (uint64_t)high << 32 | low;
      }
    }
    __syncwarp();
  }
}

uint32_t bins_of(const cuda_flow *flow) {
  return CUDA_MAX_MEMBERS * (flow->experts + 1) + PLAN_SUMS;
}

} // namespace

size_t cuda_plan_workspace(const struct cuda_flow *flow, uint32_t blocks) {
  return 256 + (size_t)blocks * bins_of(flow) * 4;
}

int cuda_launch_plan(const struct cuda_plan_args *args, uint32_t blocks, bool early, cudaStream_t stream) {
  plan_launch launch_args = {*args, PLAN_WARPS, 0};
  uint32_t members = args->members ? args->members : (uint32_t)CUDA_MAX_MEMBERS;
  launch_args.bins = members * (args->flow.experts + 1) + PLAN_SUMS;
  while (launch_args.warps > 1 && (size_t)launch_args.warps * launch_args.bins * 4 > PLAN_ROOM)
    launch_args.warps--;
  void *params[] = {&launch_args};
  return launch((const void *)plan_kernel, params, blocks, launch_args.warps * WARP,
                (size_t)launch_args.warps * launch_args.bins * 4, early, stream);
}

int cuda_load_plan(bool *early) {
  return load((const void *)plan_kernel, early);
}
