// Where the rows of a dispatch stand in the caller's buffer: computed by every block from the routing of all sources,
// before the rows have come.
#ifndef CUDA_PLACES_CUH
#define CUDA_PLACES_CUH

#include "cuda/scene.cuh"

enum {
  RECEIVERS = 3 * TEAM, // threads of a block that receive; one team sends
  FIRST_RECEIVER = BLOCK - RECEIVERS,
  PLACERS = 3 * WARP, // of them, those that place one row
};

// In which rows selections stand. A part is a local expert, or (rank-major, part E) the rank; it has a bit for each
// (member, token), in words of 32 tokens, and before[] counts the bits of the words before.
struct places {
  uint32_t *bits;    // [parts][words]
  uint32_t *experts; // [R][M][units]: local experts, two to a word
  uint16_t *before;  // [parts][words]
  uint32_t parts, words, words_per_member;

  __device__ __forceinline__ uint32_t find(uint32_t part, uint32_t member, uint32_t token) const {
    uint32_t word = part * words + member * words_per_member + token / 32;
    return before[word] + __popc(bits[word] & ((1u << token % 32) - 1));
  }
};

__host__ __device__ inline uint32_t words_of(uint32_t tokens) {
  return (tokens + 31) / 32;
}

// Shared memory for the places of so many members.
inline size_t places_size(const cuda_dispatch_args &args, uint32_t members) {
  size_t words = (size_t)members * words_of(args.layout.max_tokens);
  size_t parts = args.experts_per_rank + (args.rank_major ? 1 : 0);
  return parts * words * 6 + (size_t)members * args.layout.max_tokens * args.layout.units * 4 + 16;
}

__device__ __forceinline__ void places_begin(places &places, const cuda_dispatch_args &args, uint32_t members,
                                             uint32_t *memory, uint32_t thread) {
  places.parts = args.experts_per_rank + (args.rank_major ? 1 : 0);
  places.words_per_member = words_of(args.layout.max_tokens);
  places.words = places.words_per_member * members;
  places.bits = memory;
  places.experts = memory + places.parts * places.words;
  places.before = (uint16_t *)(places.experts + members * args.layout.max_tokens * args.layout.units);
  for (uint32_t i = thread; i < places.parts * places.words; i += RECEIVERS)
    places.bits[i] = 0;
}

__device__ __forceinline__ void mark(const cuda_dispatch_args &args, places &places, uint32_t m, uint32_t token,
                                     uint32_t expert) {
  if (expert >= args.experts_per_rank)
    return;
  uint32_t word = m * places.words_per_member + token / 32, bit = 1u << token % 32;
  atomicOr(&places.bits[expert * places.words + word], bit);
  if (args.rank_major)
    atomicOr(&places.bits[args.experts_per_rank * places.words + word], bit);
}

// Sums up the words of each part: a group of lanes, as many as words or all, for each.
__device__ __forceinline__ void count_places(places &places, uint32_t thread) {
  uint32_t lane = threadIdx.x % WARP, group = WARP;
  while (group > 4 && group / 2 >= places.words)
    group /= 2;
  uint32_t at = lane % group, groups = RECEIVERS / group;
  uint32_t rounds = (places.parts + groups - 1) / groups;
  for (uint32_t round = 0; round < rounds; round++) {
    uint32_t part = round * groups + thread / group, sum = 0;
    for (uint32_t base = 0; base < places.words; base += group) {
      bool in = part < places.parts && base + at < places.words;
      uint32_t word = part * places.words + base + at, own = in ? __popc(places.bits[word]) : 0, upto = own;
      for (uint32_t step = 1; step < group; step *= 2) {
        uint32_t left = __shfl_up_sync(~0u, upto, step, (int)group);
        upto += at >= step ? left : 0;
      }
      if (in)
        places.before[word] = (uint16_t)(sum + upto - own);
      sum += __shfl_sync(~0u, upto, (int)group - 1, (int)group);
    }
  }
}

#endif
