// The destinations of a rank's tokens: one bit for each (member, local expert, token) and each (member, token), in
// shared memory of every block that sends metadata. From these bits a warp finds which members get a token, and the
// number of its row there.
#ifndef CUDA_DISPATCH_OUTGOING_CUH
#define CUDA_DISPATCH_OUTGOING_CUH

#include "cuda/kernels/snapshot.cuh"

enum { QUAD = 4 }; // words that one load reads

__host__ __device__ inline uint32_t words_of(uint32_t tokens) {
  return (tokens + 32 * QUAD - 1) / (32 * QUAD) * QUAD;
}

__device__ __forceinline__ uint32_t count_bits(uint4 quad) {
  return __popc(quad.x) + __popc(quad.y) + __popc(quad.z) + __popc(quad.w);
}

// The first `count` bits; none if it is negative.
__device__ __forceinline__ uint32_t first_bits(int32_t count) {
  return __funnelshift_lc(~0u, 0, (uint32_t)max(count, 0));
}

struct outgoing {
  uint32_t bits; // shared memory: [members][experts + 1][words]; the last part is for the member as a whole
  uint32_t parts, words;

  __device__ __forceinline__ uint32_t of(uint32_t member, uint32_t part) const {
    return bits + (member * parts + part) * words * 4;
  }
  __device__ __forceinline__ bool has(uint32_t member, uint32_t part, uint32_t token) const {
    return ptx::shared_load(of(member, part) + token / 32 * 4) >> token % 32 & 1;
  }
  // The number of tokens before this one that have the bit.
  __device__ __forceinline__ uint32_t before(uint32_t member, uint32_t part, uint32_t token) const {
    uint32_t quad = of(member, part), sum = 0;
#pragma unroll 1
    for (int32_t left = (int32_t)token; left > 0; left -= 32 * QUAD, quad += 16) {
      uint4 v = ptx::shared_load16(quad);
      sum += count_bits(make_uint4(v.x & first_bits(left), v.y & first_bits(left - 32), v.z & first_bits(left - 64),
                                   v.w & first_bits(left - 96)));
    }
    return sum;
  }
};

inline size_t outgoing_size(const cuda_dispatch_args &args) {
  // the last unit may read beyond the end
  size_t parts = (size_t)args.members * (args.layout.experts + 1) + CUDA_UNIT_COUNTS;
  return parts * words_of(args.d.num_tokens) * 4;
}

// The number of this rank's tokens, which earlier kernels may have written. Sizes that are needed before those kernels
// have ended use the maximum instead.
__device__ __forceinline__ uint32_t tokens_of(const cuda_dispatch_args &args) {
  uint32_t most = args.d.num_tokens;
  return CUDA_OPTION(args.d.num_tokens_at) ? min(ptx::load_volatile(args.d.num_tokens_at), most) : most;
}

// To be called before the barrier after which the snapshot is complete. `here`: whether this block marks. [block]
__device__ __forceinline__ outgoing outgoing_begin(const cuda_dispatch_args &args, uint32_t *memory, bool here) {
  outgoing out = {ptx::here(ptx::shared_address(memory)), args.layout.experts + 1, words_of(args.d.num_tokens)};
#pragma unroll 1
  for (uint32_t i = threadIdx.x; here && i < args.members * out.parts * out.words / QUAD; i += BLOCK)
    ((uint4 *)memory)[i] = make_uint4(0, 0, 0, 0);
  return out;
}

// The seats that get no rows. All blocks must compute the same set, since some send rows and others their metadata.
__device__ __forceinline__ uint64_t shut_seats(const cuda_dispatch_args &args, const snapshot &snapshot) {
  return snapshot.counters.given_up | (args.d.replays ? snapshot.counters.masked : args.d.masked);
}

// Number of members that are examined together, without branches.
enum { ABREAST_MEMBERS = 4 };

// The destinations of N selections: members (-1: none) and their local experts. All N are found together, to overlap
// the latency of the steps.
template <int N>
__device__ __forceinline__ void find_members(const cuda_dispatch_args &args, const cuda_view &view, uint64_t shut,
                                             const int32_t expert[N], int member[N], uint32_t local[N]) {
  int32_t rank[N];
#pragma unroll
  for (int j = 0; j < N; j++) {
    rank[j] = expert[j] >= 0 ? (int32_t)divide((uint32_t)expert[j], args.layout.by_experts) : -1;
    local[j] = (uint32_t)expert[j] - (uint32_t)rank[j] * args.layout.experts;
    member[j] = -1;
  }
#pragma unroll 1
  for (uint32_t base = 0; base < view.count; base += ABREAST_MEMBERS) {
    int2 its[ABREAST_MEMBERS]; // rank, seat
#pragma unroll
    for (uint32_t k = 0; k < ABREAST_MEMBERS; k++)
      its[k] = *(const int2 *)&view.members[base + k].rank;
#pragma unroll
    for (uint32_t k = 0; k < ABREAST_MEMBERS; k++) {
      bool open = base + k < view.count && (uint32_t)its[k].y < DEVICE_SEATS && !(shut >> its[k].y & 1);
#pragma unroll
      for (int j = 0; j < N; j++)
        if (open && rank[j] == its[k].x)
          member[j] = (int)(base + k);
    }
  }
}

// A warp marks one *slice* at a time: SLICE selections of each of 32 tokens, one lane for each token. So lanes access
// the same word only if tokens share an expert. Ballots mark the members as a whole: atomic operations on few words
// would take longer than everything else here.
enum { SLICE = 4, NO_SLICE = 1 << 20 }; // NO_SLICE: larger than any index of a slice

// log2 of the number of slices of 32 tokens, which have up to 16 selections each.
__device__ __forceinline__ uint32_t slices_log2(const cuda_layout &layout) {
  return layout.topk <= SLICE ? 0 : layout.topk <= 2 * SLICE ? 1 : 2;
}

struct slice {
  int32_t expert[SLICE];

  __device__ __forceinline__ slice(const cuda_dispatch_args &args, uint32_t tokens, uint32_t index) {
    uint32_t K = args.layout.topk, log2 = slices_log2(args.layout), first = (index & ((1u << log2) - 1)) * SLICE;
    uint32_t token = (index >> log2) * WARP + threadIdx.x % WARP;
#pragma unroll
    for (uint32_t j = 0; j < SLICE; j++)
      expert[j] = token < tokens && first + j < K
                      ? expert_at(args.d.topk_idx, args.d.narrow, (size_t)token * K + first + j)
                      : -1;
  }
};

__device__ __forceinline__ void mark_slice(const outgoing &out, const cuda_dispatch_args &args, const cuda_view &view,
                                           uint64_t shut, uint32_t index, const slice &slice) {
  uint32_t lane = threadIdx.x % WARP, word = index >> slices_log2(args.layout);
  int member[SLICE];
  uint32_t local[SLICE];
  find_members<SLICE>(args, view, shut, slice.expert, member, local);
#pragma unroll
  for (uint32_t j = 0; j < SLICE; j++)
    if (member[j] >= 0)
      ptx::shared_or(out.of((uint32_t)member[j], local[j]) + word * 4, 1u << lane);
#pragma unroll 1
  for (uint32_t base = 0; base < view.count; base += ABREAST_MEMBERS) {
    uint32_t mine = 0;
#pragma unroll
    for (uint32_t k = 0; k < ABREAST_MEMBERS; k++) {
      bool has = false;
#pragma unroll
      for (uint32_t j = 0; j < SLICE; j++)
        has |= member[j] == (int)(base + k);
      uint32_t tokens = __ballot_sync(~0u, has);
      mine = lane == k ? tokens : mine;
    }
    if (mine)
      ptx::shared_or(out.of(base + lane, args.layout.experts) + word * 4, mine);
  }
}

// `first`: this warp's first slice, loaded before the snapshot was complete. [role, its barrier to follow]
__device__ __forceinline__ void outgoing_mark(const outgoing &out, const cuda_dispatch_args &args,
                                              const snapshot &snapshot, const cuda_view &view, uint32_t tokens,
                                              const slice &first, const role &role) {
  uint64_t shut = shut_seats(args, snapshot);
  uint32_t index = role.thread() / WARP, slices = (tokens + WARP - 1) / WARP << slices_log2(args.layout);
  if (index >= slices)
    return;
  slice now = first;
#pragma unroll 1
  for (;;) {
    mark_slice(out, args, view, shut, index, now);
    index += role.warps;
    if (index >= slices)
      return;
    now = slice(args, tokens, index);
  }
}

#endif
