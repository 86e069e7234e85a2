// The plan of a dispatch: the destinations of each token, and its numbers there.
//
// Tokens are divided into as many consecutive pieces as there are warps. Each warp counts its piece's selections of
// each expert, and its rows to each seat, in shared memory. The numbers of a piece begin at the sum of the counts of
// earlier pieces. So all numbers depend on the order of tokens only, not on the number of warps.
//
// Blocks publish their counts to each other without a barrier: each count goes with the number of the plan, in one
// word.
#include "cuda/kernels/snapshot.cuh"
#include "cuda/throughput/launch.h"
#include "cuda/throughput/sizes.h"
#include "cuda/throughput/steps.cuh"

namespace {

// PLAN_ROOM: bytes of shared memory, if the device has so many.
enum { PLAN_WARPS = 32, PLAN_SUMS = 3, PLAN_ROOM = 190 * 1024 };
// Number of steps of a piece whose selections stay in registers between counting and numbering; the selections of other
// steps are read again.
enum { PLAN_KEPT = 2 };
enum { PLAN_READERS = 4 }; // lanes that read the published counts of one bin
// Words of the workspace: the number of plans so far; the counts that blocks publish.
enum { PLAN_NUMBER = 0, PLAN_PUBLISHED = 64 };

struct plan_launch {
  cuda_plan_args args;
  cuda_divisor by_experts;
  uint32_t warps, bins; // warps: of a block; bins: experts of all possible members, members, and PLAN_SUMS
};

// The part of the state that the plan needs, in shared memory. It loads all views, although the operation needs one:
// loading only that view would need a second load that waits for the first.
struct plan_state {
  uint64_t op, open; // open: seats that get rows
  uint32_t live;     // the index of the view of operation n: byte n % CUDA_LIVE
  uint32_t number;   // of the plan
  uint32_t count[CUDA_LIVE];
  int32_t rank[CUDA_LIVE][CUDA_MAX_MEMBERS]; // ascending
  uint8_t seat[CUDA_LIVE][CUDA_MAX_MEMBERS];

  // [block, barrier to follow]
  __device__ __forceinline__ void load(const cuda_plan_args &args) {
    const cuda_state &from = *args.state;
    for (uint32_t i = threadIdx.x; i < CUDA_LIVE * CUDA_MAX_MEMBERS; i += blockDim.x) {
      const cuda_member &member = from.live[i / CUDA_MAX_MEMBERS].members[i % CUDA_MAX_MEMBERS];
      rank[i / CUDA_MAX_MEMBERS][i % CUDA_MAX_MEMBERS] = member.rank;
      seat[i / CUDA_MAX_MEMBERS][i % CUDA_MAX_MEMBERS] = (uint8_t)member.seat;
    }
    if (threadIdx.x < CUDA_LIVE)
      count[threadIdx.x] = from.live[threadIdx.x].count;
    if (threadIdx.x != blockDim.x - 1)
      return;
    op = ptx::load_volatile(&from.counters.sent);
    live = ptx::load_volatile((const uint32_t *)from.counters.live);
    number = ptx::load_volatile(args.workspace + PLAN_NUMBER) + 1;
    uint64_t lost = ptx::load_volatile(&from.counters.lost), gone = ptx::load_volatile(&from.control.gone);
    uint64_t masked = ptx::load_volatile(&from.control.masked);
    open = ~(lost | gone | (args.replays ? masked : args.masked));
  }
};
static_assert(sizeof(plan_state) + sizeof(cuda_route) <= STAGES_STATIC, "as stages_room() counts on");
static_assert(CUDA_LIVE == 4 && offsetof(cuda_counters, live) % 4 == 0, "the indices of live views are one word");

// The view of the operation.
struct plan_view {
  uint32_t count;
  uint64_t open;
  const int32_t *rank;
  const uint8_t *seat;
  __device__ __forceinline__ plan_view(const plan_state &state) : open(state.open) {
    uint32_t chosen = state.live >> (uint32_t)(state.op % CUDA_LIVE) * 8 & (CUDA_LIVE - 1);
    count = min(state.count[chosen], (uint32_t)CUDA_MAX_MEMBERS);
    rank = state.rank[chosen];
    seat = state.seat[chosen];
  }
};

// A step: a warp's selections of some tokens; the selections of a token are in neighbouring lanes. [warp]
struct plan_step {
  uint32_t member, expert, seat;
  // same: lanes with the same expert; token_same: with the same token and seat; rows: leaders with the same seat
  uint32_t same, token_same, rows;
  bool selected, valid; // selected: there is a selection; valid: a rank has its expert
  bool leads;           // the first lane of its token and seat, which stands for a row
};

// The piece of a warp, and the position of a lane in a step.
struct plan_piece {
  uint32_t first, end, each; // first, end: tokens; each: tokens of a step
  uint32_t lane, slot, k;    // token within the step; place in its top-k
  bool used;

  __device__ __forceinline__ plan_piece(const plan_launch &launch, uint32_t warp)
      : each(WARP / launch.args.topk), lane(threadIdx.x % WARP) {
    uint32_t pieces = gridDim.x * launch.warps, piece = blockIdx.x * launch.warps + warp;
    uint32_t per = (launch.args.num_tokens + pieces - 1) / pieces;
    per = (per + each - 1) / each * each;
    first = min(piece * per, launch.args.num_tokens);
    end = min(first + per, launch.args.num_tokens);
    slot = lane / launch.args.topk;
    k = lane - slot * launch.args.topk;
    used = slot < each;
  }
  __device__ __forceinline__ uint32_t token(uint32_t step) const {
    uint32_t token = first + step * each + slot;
    return used && token < end ? token : 0xFFFFFFFFu;
  }
  __device__ __forceinline__ bool has(uint32_t step) const { return first + step * each < end; }
};

// The caller's selection for this lane; -1: none.
__device__ __forceinline__ int64_t selection_of(const cuda_plan_args &args, const plan_piece &piece, uint32_t step) {
  uint32_t token = piece.token(step);
  if (token == 0xFFFFFFFFu)
    return -1;
  size_t at = (size_t)token * args.topk + piece.k;
  return args.narrow ? ((const int32_t *)args.topk_idx)[at] : ((const int64_t *)args.topk_idx)[at];
}

// `slot_lanes`: the lanes of the token.
__device__ __forceinline__ plan_step look(const plan_launch &launch, const plan_view &view, const plan_piece &piece,
                                          uint32_t slot_lanes, int64_t global) {
  plan_step s;
  s.selected = global >= 0;
  s.valid = false;
  s.member = s.expert = s.seat = 0;
  if (global >= 0 && global < (int64_t)1 << 31) {
    uint32_t rank = divide((uint32_t)global, launch.by_experts), low = 0, high = view.count;
    s.expert = (uint32_t)global - rank * launch.args.flow.experts;
    while (low < high) {
      uint32_t middle = (low + high) / 2;
      if ((uint32_t)view.rank[middle] < rank)
        low = middle + 1;
      else
        high = middle;
    }
    if (low < view.count && (uint32_t)view.rank[low] == rank) {
      s.member = low;
      s.seat = view.seat[low];
      s.valid = s.seat < DEVICE_SEATS && view.open >> s.seat & 1;
    }
  }
  uint32_t before = (1u << piece.lane) - 1;
  // A lane without a valid selection is in none of these sets.
  uint32_t there = ptx::lanes_like(s.member, ptx::bits_of(view.count)) & __ballot_sync(~0u, s.valid);
  s.same = there & ptx::lanes_like(s.expert, ptx::bits_of(launch.args.flow.experts));
  s.token_same = there & slot_lanes;
  s.leads = s.valid && (s.token_same & before) == 0;
  s.rows = there & __ballot_sync(~0u, s.leads);
  return s;
}

// A warp's counts, or the sums of the counts before it. [warp]
struct plan_bins {
  uint32_t *bins; // [members][E], then [members]
  uint32_t E, experts, sums;

  // The bins of this lane's selection.
  __device__ __forceinline__ uint32_t &expert(const plan_step &s) const { return bins[s.member * E + s.expert]; }
  __device__ __forceinline__ uint32_t &rows(const plan_step &s) const { return bins[experts + s.member]; }
  // Adds a step's selections.
  __device__ __forceinline__ void add(const plan_step &s, uint32_t before) const {
    if (s.valid && (s.same & before) == 0)
      expert(s) += __popc(s.same);
    if (s.leads && (s.rows & before) == 0)
      rows(s) += __popc(s.rows);
    __syncwarp();
  }
  __device__ __forceinline__ void add_sums(const plan_step &s, uint32_t slot_lanes, uint32_t before) const {
    uint32_t selected = __ballot_sync(~0u, s.selected), valid = __ballot_sync(~0u, s.valid);
    uint32_t going = __ballot_sync(~0u, s.valid && (valid & slot_lanes & before) == 0);
    if (before == 0) {
      bins[sums] += __popc(selected);
      bins[sums + 1] += __popc(selected & ~valid);
      bins[sums + 2] += __popc(going);
    }
    __syncwarp();
  }
};

// Writes the destinations of a step's tokens. [warp]
__device__ __forceinline__ void write_ways(const cuda_route &route, const plan_bins &mine, const plan_bins &base,
                                           const plan_piece &piece, const plan_step &s, uint32_t step,
                                           uint32_t slot_lanes, uint32_t tokens) {
  uint32_t before = (1u << piece.lane) - 1, number = 0, row = 0, K = __popc(slot_lanes);
  if (s.valid)
    number = mine.expert(s) + base.expert(s) + __popc(s.same & before);
  if (s.leads)
    row = mine.rows(s) + base.rows(s) + __popc(s.rows & before);
  __syncwarp();
  mine.add(s, before);
  row = __shfl_sync(~0u, row, __ffs((int)s.token_same) - 1); // all lanes of a token for one seat get the leader's row
  if (!piece.used)
    return;
  uint64_t bit = s.valid ? 1ull << s.seat : 0;
  uint32_t low = __reduce_or_sync(slot_lanes, (uint32_t)bit),
           high = __reduce_or_sync(slot_lanes, (uint32_t)(bit >> 32));
  uint32_t token = piece.token(step);
  if (token >= tokens)
    return;
  ((uint2 *)route.ways)[(size_t)token * K + piece.k] =
      s.valid ? make_uint2(row | s.seat << CUDA_WAY_SEAT, number | s.expert << CUDA_WAY_EXPERT)
              : make_uint2(CUDA_WAY_NONE, 0);
  if (piece.k == 0)
    route.seats[token] = (uint64_t)high << 32 | low;
}

// For one bin: computes for each warp of the block the sum of the counts before it; returns the sum of all.
__device__ __forceinline__ uint32_t sum_before(uint32_t *counts, uint32_t stride, uint32_t warps) {
  enum { EACH = 8 };
  uint32_t sum = 0;
#pragma unroll 1
  for (uint32_t w = 0; w < warps; w += EACH) {
    uint32_t count[EACH];
#pragma unroll
    for (uint32_t i = 0; i < EACH; i++)
      count[i] = w + i < warps ? counts[(w + i) * stride] : 0;
#pragma unroll
    for (uint32_t i = 0; i < EACH; i++) {
      if (w + i < warps)
        counts[(w + i) * stride] = sum;
      sum += count[i];
    }
  }
  return sum;
}

// For one bin: computes the sum of the counts of earlier blocks, and of all blocks; waits for blocks that have not
// published their counts yet. `published`: the count of the first block. [PLAN_READERS neighbouring lanes]
__device__ __forceinline__ uint32_t await_counts(const uint64_t *published, uint32_t stride, uint32_t number,
                                                 uint32_t *all) {
  enum { EACH = 6 };
  uint32_t before = 0, sum = 0;
#pragma unroll 1
  for (uint32_t b = threadIdx.x % PLAN_READERS; b < gridDim.x; b += EACH * PLAN_READERS) {
    uint64_t word[EACH];
#pragma unroll
    for (uint32_t i = 0; i < EACH; i++) {
      uint32_t block = b + i * PLAN_READERS;
      word[i] = block < gridDim.x ? ptx::load_volatile(published + (size_t)block * stride) : (uint64_t)number << 32;
    }
#pragma unroll
    for (uint32_t i = 0; i < EACH; i++) {
      uint32_t block = b + i * PLAN_READERS;
      while ((uint32_t)(word[i] >> 32) != number)
        word[i] = ptx::load_volatile(published + (size_t)block * stride);
      before += block < blockIdx.x ? (uint32_t)word[i] : 0;
      sum += (uint32_t)word[i];
    }
  }
  uint32_t lanes = ((1u << PLAN_READERS) - 1) << threadIdx.x % WARP / PLAN_READERS * PLAN_READERS;
  *all = __reduce_add_sync(lanes, sum);
  return __reduce_add_sync(lanes, before);
}

// Writes the route's totals; one block does it.
__device__ __forceinline__ void write_total(const cuda_route &route, const plan_view &view, uint32_t E, uint32_t bin,
                                            uint32_t all) {
  uint32_t experts = view.count * E;
  if (bin >= experts + view.count) {
    route.sums[1 + bin - (experts + view.count)] = all;
    return;
  }
  uint32_t seat = view.seat[bin < experts ? bin / E : bin - experts];
  if (seat < DEVICE_SEATS && bin < experts)
    route.counts[seat * E + bin % E] = all;
  else if (seat < DEVICE_SEATS)
    route.tokens[seat] = all;
}

// [grid]
__device__ __forceinline__ void make_blank(const cuda_blank &blank) {
  uint32_t word = blank.word, count = blank.memory ? (uint32_t)(blank.bytes / sizeof(uint4)) : 0;
#pragma unroll 1
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    ((uint4 *)blank.memory)[i] = make_uint4(word, word, word, word);
}

__global__ __launch_bounds__(PLAN_WARPS *WARP, 1) void plan_kernel(const __grid_constant__ plan_launch launch) {
  extern __shared__ uint32_t counts[]; // [warps][bins], then the counts of earlier blocks [bins]
  __shared__ plan_state state;
  __shared__ cuda_route route;
  const cuda_plan_args &args = launch.args;
  ptx::await_previous();
  state.load(args);
  if (args.op && blockIdx.x == 0 && threadIdx.x == WARP) {
    clear_step(&args.op->counted);
    clear_step(&args.op->planned);
  }
  for (uint32_t i = threadIdx.x; i < sizeof(cuda_route) / 4; i += blockDim.x)
    ((uint32_t *)&route)[i] = ((const uint32_t *)args.route)[i];
  uint32_t warp = threadIdx.x / WARP, tokens = args.num_tokens;
  const plan_piece piece(launch, warp);
  int64_t selected[PLAN_KEPT];
#pragma unroll
  for (uint32_t i = 0; i < PLAN_KEPT; i++)
    selected[i] = selection_of(args, piece, i);
  if (args.num_tokens_at)
    tokens = min(*args.num_tokens_at, tokens);
  for (uint32_t i = threadIdx.x; i < launch.warps * launch.bins; i += blockDim.x)
    counts[i] = 0;
  __syncthreads();
  ptx::let_next();
  const plan_view view(state);
  uint32_t E = args.flow.experts, experts = view.count * E, bins = experts + view.count + PLAN_SUMS;
  if (bins > launch.bins) // never true: a launch has room for the maximum of members
    return;
  const plan_bins mine = {counts + warp * launch.bins, E, experts, experts + view.count};
  const plan_bins base = {counts + launch.warps * launch.bins, E, experts, experts + view.count};
  uint32_t slot_lanes = (0xFFFFFFFFu >> (WARP - args.topk)) << piece.slot * args.topk, before = (1u << piece.lane) - 1;
  plan_step kept[PLAN_KEPT];
#pragma unroll
  for (uint32_t i = 0; i < PLAN_KEPT; i++) {
    kept[i] = look(launch, view, piece, slot_lanes, piece.token(i) < tokens ? selected[i] : -1);
    mine.add(kept[i], before);
    mine.add_sums(kept[i], slot_lanes, before);
  }
#pragma unroll 1
  for (uint32_t i = PLAN_KEPT; piece.has(i); i++) {
    plan_step s = look(launch, view, piece, slot_lanes, piece.token(i) < tokens ? selection_of(args, piece, i) : -1);
    mine.add(s, before);
    mine.add_sums(s, slot_lanes, before);
  }
  __syncthreads();
  uint64_t *published = (uint64_t *)(args.workspace + PLAN_PUBLISHED);
  for (uint32_t bin = threadIdx.x; bin < bins; bin += blockDim.x)
    ptx::store_relaxed(published + (size_t)blockIdx.x * launch.bins + bin,
                       (uint64_t)state.number << 32 | sum_before(counts + bin, launch.bins, launch.warps));
  make_blank(args.blank[0]); // while the counts of other blocks arrive
  make_blank(args.blank[1]);
  for (uint32_t bin = threadIdx.x / PLAN_READERS; bin < bins; bin += blockDim.x / PLAN_READERS) {
    uint32_t all, sum = await_counts(published + bin, launch.bins, state.number, &all);
    if (threadIdx.x % PLAN_READERS != 0)
      continue;
    base.bins[bin] = sum;
    if (blockIdx.x == 0)
      write_total(route, view, E, bin, all);
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    route.sums[0] = tokens;
    args.workspace[PLAN_NUMBER] = state.number; // all blocks have already published their counts with this number
  }
  __syncthreads();
  if (blockIdx.x == 0 && threadIdx.x == 0 && args.op)
    publish_step(&args.op->counted, state.op + 1);
#pragma unroll
  for (uint32_t i = 0; i < PLAN_KEPT; i++)
    write_ways(route, mine, base, piece, kept[i], i, slot_lanes, tokens);
#pragma unroll 1
  for (uint32_t i = PLAN_KEPT; piece.has(i); i++) {
    plan_step s = look(launch, view, piece, slot_lanes, piece.token(i) < tokens ? selection_of(args, piece, i) : -1);
    write_ways(route, mine, base, piece, s, i, slot_lanes, tokens);
  }
  __syncthreads();
  if (threadIdx.x == 0 && args.op)
    count_step(&args.op->planned, 1 + (blockIdx.x == 0 ? (uint64_t)tokens << 32 : 0));
}

uint32_t bins_of(uint32_t experts, uint32_t members) {
  return members * (experts + 1) + PLAN_SUMS;
}

size_t memory_of(uint32_t bins, uint32_t warps) {
  return (size_t)(warps + 1) * bins * 4;
}

} // namespace

size_t cuda_plan_workspace(const struct cuda_flow *flow, uint32_t blocks) {
  return PLAN_PUBLISHED * 4 + (size_t)blocks * bins_of(flow->experts, CUDA_MAX_MEMBERS) * 8;
}

size_t cuda_plan_memory(uint32_t experts, uint32_t members) {
  return memory_of(bins_of(experts, members), 1);
}

int cuda_launch_plan(const struct cuda_plan_args *args, uint32_t blocks, bool early, cudaStream_t stream) {
  plan_launch launch_args = {*args, cuda_divisor_of(args->flow.experts), PLAN_WARPS, 0};
  uint32_t members = args->members ? args->members : (uint32_t)CUDA_MAX_MEMBERS;
  uint32_t room = stages_room(0);
  room = room < PLAN_ROOM ? room : (uint32_t)PLAN_ROOM;
  launch_args.bins = bins_of(args->flow.experts, members);
  while (launch_args.warps > 1 && memory_of(launch_args.bins, launch_args.warps) > room)
    launch_args.warps--;
  void *params[] = {&launch_args};
  return launch((const void *)plan_kernel, params, blocks, launch_args.warps * WARP,
                memory_of(launch_args.bins, launch_args.warps), early, stream);
}

int cuda_load_plan(bool *early) {
  return load((const void *)plan_kernel, early);
}
