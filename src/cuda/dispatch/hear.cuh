// The headers and the counts of all members.
#ifndef CUDA_DISPATCH_HEAR_CUH
#define CUDA_DISPATCH_HEAR_CUH

#include "cuda/kernels/scene.cuh"

enum { KIND_DISPATCH = 1, KIND_BARRIER = 2 }; // enum ep_kind

// What a block has heard. In shared memory.
struct hearing {
  uint64_t given_up;      // seats that take no part: lost, or passed over
  uint64_t heard, failed; // members, by index, that some warp heard, and did not hear
  // Of each member, where it was heard
  uint4 count[CUDA_MAX_MEMBERS]; // the header's first unit
  uint64_t mark[CUDA_MAX_MEMBERS];

  __device__ __forceinline__ uint32_t rows(const cuda_layout &layout, uint32_t m) const {
    return heard >> m & 1 ? min(count[m].x & 0xFFFF, layout.max_tokens) : 0;
  }
};

// [one thread]
__device__ __forceinline__ void hearing_begin(hearing &hearing) {
  hearing.heard = hearing.failed = 0;
}

__device__ __forceinline__ bool takes_part(const hearing &hearing, const cuda_member &member) {
  return member.seat < DEVICE_SEATS && !(hearing.given_up >> member.seat & 1);
}

// The peer counts us from a later operation on, and has sent that one: it takes no part in this one (as in
// ep/core/activation.h), for some rank has died while the operation was fixed. What we have sent it in this one we take
// back (kernels/empty.cuh). What hosts carry between them cannot be: where some link may be theirs, the peer is lost.
__device__ __forceinline__ bool passes_over(const cuda_dispatch_args &args, const cuda_member &member, uint64_t op) {
  const cuda_unit *start = &((const cuda_area_head *)member.in)->start;
  uint4 told = ptx::load_unit(start);
  uint64_t first = (uint64_t)told.y << 32 | told.x; // + 1
  if (told.w != 1 || first <= op + 1)
    return false;
  const cuda_slot_head *head = (const cuda_slot_head *)slot_of(args.layout, member.in, first - 1);
  if (ptx::load_unit(&head->count).w != (uint32_t)first)
    return false;
  // It may have come to count us earlier, and told us so before it sent that one: both have to see it alike.
  ptx::fence_system();
  if (ptx::load_unit(start).x != told.x)
    return false;
  if (ptx::load_volatile(&args.state->control.strict))
    lose(args.state, member.seat);
  return true;
}

// The block that tells, for all, what was heard: the one that is placed last, when all others have begun.
__device__ __forceinline__ bool is_speaker() {
  return blockIdx.x == gridDim.x - 1;
}

// What all headers together say. Bits are of members, by index.
struct summary {
  uint64_t late, barriers; // their weights come later; their operation is a barrier
  uint64_t mark;
  uint32_t lowest, newest;       // lowest `ready`, newest `active`
  uint32_t dispatches, combines; // most that anybody has not taken yet

  __device__ __forceinline__ summary(const hearing &hearing, uint32_t members)
      : late(0), barriers(0), mark(UINT64_MAX), lowest(UINT32_MAX), newest(0), dispatches(0), combines(0) {
#pragma unroll 1
    for (uint32_t m = 0; m < members; m++) {
      uint64_t bit = hearing.heard & 1ull << m;
      if (!bit)
        continue;
      uint4 count = hearing.count[m];
      late |= count.x >> CUDA_HEAD_LATE & 1 ? bit : 0;
      barriers |= (count.x >> CUDA_HEAD_KIND & 0xFF) == KIND_BARRIER ? bit : 0;
      mark = min(mark, hearing.mark[m]);
      lowest = min(lowest, count.z);
      newest = max(newest, count.y);
      dispatches = max(dispatches, count.x >> CUDA_HEAD_DISPATCHES & 3);
      combines = max(combines, count.x >> CUDA_HEAD_COMBINES & 7);
    }
  }
};

// Bit `m` of a word in shared memory: 64 bits at once would take a loop.
__device__ __forceinline__ void set_shared(uint64_t &bits, uint32_t m) {
  atomicOr((uint32_t *)&bits + m / 32, 1u << m % 32);
}

// How many rows of each member are for each local expert: where they stand among the expert's follows by adding up
// those of the members before, for each row anew: with a few members that is less than it takes all warps to do it
// first. In shared memory.
struct places {
  uint32_t *counts; // [members][experts], of members that were heard

  __device__ __forceinline__ uint32_t before(const hearing &hearing, const cuda_layout &layout, uint32_t m,
                                             uint32_t expert) const {
    uint32_t sum = 0;
#pragma unroll 1
    for (uint32_t i = 0; i < m; i++)
      sum += hearing.heard >> i & 1 ? counts[i * layout.experts + expert] : 0;
    return sum;
  }
};

inline size_t places_size(const cuda_dispatch_args &args) {
  return (size_t)args.members * args.layout.experts * 4;
}

// Rows of the members before: where a member's begin in the caller's buffer, where that is rank-major.
__device__ __forceinline__ uint32_t rows_before(const hearing &hearing, const cuda_layout &layout, uint32_t m) {
  uint32_t sum = 0;
#pragma unroll 1
  for (uint32_t i = 0; i < m; i++)
    sum += hearing.rows(layout, i);
  return sum;
}

// What a header has, in the order in which lanes look at it: count, mark, counts.
__device__ __forceinline__ const cuda_unit *header_unit(const cuda_layout &layout, const char *slot, uint32_t i) {
  return i < HEAD_UNITS ? (const cuda_unit *)slot + i : (const cuda_unit *)(slot + layout.counts) + i - HEAD_UNITS;
}

// Notes unit `i` of a header.
__device__ __forceinline__ void note_unit(const cuda_dispatch_args &args, uint32_t m, uint32_t i, uint4 unit,
                                          hearing &hearing, const places &places) {
  uint32_t first = (i - HEAD_UNITS) * CUDA_UNIT_COUNTS, word[3] = {unit.x, unit.y, unit.z};
  if (i == 0)
    hearing.count[m] = unit;
  else if (i == 1)
    hearing.mark[m] = (uint64_t)unit.y << 32 | unit.x;
  else
#pragma unroll
    for (uint32_t j = 0; j < CUDA_UNIT_COUNTS; j++)
      if (first + j < args.layout.experts)
        places.counts[m * args.layout.experts + first + j] = word[j / 2] >> j % 2 * 16 & 0xFFFF;
}

// Waits for a member's header, all units at once, and notes it. False: the member is lost. [warp]
__device__ __forceinline__ bool hear_member(const cuda_dispatch_args &args, const cuda_view &view, hearing &hearing,
                                            const places &places, uint32_t m, uint64_t op, uint32_t *epoch) {
  const cuda_layout &layout = args.layout;
  const cuda_member &member = view.members[m];
  const char *slot = slot_of(layout, member.in, op);
  uint32_t lane = threadIdx.x % WARP, units = HEAD_UNITS + layout.count_units;
  bool timed = is_speaker() && lane == 0;
#pragma unroll 1
  for (uint32_t base = 0; base < units; base += WARP) {
    const cuda_unit *from = header_unit(layout, slot, min(base + lane, units - 1));
    uint4 unit = ptx::load_unit(from);
    uint64_t begin = 0;
    patience patience;
    while (!__all_sync(~0u, unit.w == (uint32_t)op + 1)) {
      bool over = false;
      if (timed && begin == 0)
        begin = ptx::time_ns();
      if (lane == 0)
        over =
            patience.over_soon(args.state, member.seat) || (patience.rounds % 64 == 0 && passes_over(args, member, op));
      if (__shfl_sync(~0u, over, 0))
        return false;
      unit = ptx::load_unit(from);
    }
    if (begin)
      args.state->record[op % CUDA_RECORDS].wait_ns[m] += ptx::time_ns() - begin;
    if (base + lane < units)
      note_unit(args, m, base + lane, unit, hearing, places);
    if (base == 0)
      *epoch = __shfl_sync(~0u, unit.y, 0);
  }
  return true;
}

// Hears the members that take part, and notes their counts: a warp listens to each. False: this warp did not hear its
// member. *newer: it has heard that its member runs in a newer view. [role]
__device__ __forceinline__ bool hear(const cuda_dispatch_args &args, const cuda_view &view, hearing &hearing,
                                     const places &places, uint64_t op, const role &role, bool *newer) {
  bool all = true;
  *newer = false;
#pragma unroll 1
  for (uint32_t m = role.thread() / WARP; m < view.count; m += role.warps) {
    uint32_t epoch = 0;
    if (!takes_part(hearing, view.members[m]))
      continue;
    bool here = hear_member(args, view, hearing, places, m, op, &epoch);
    *newer |= here && epoch > (uint32_t)view.epoch;
    if (threadIdx.x % WARP == 0)
      set_shared(here ? hearing.heard : hearing.failed, m);
    all &= here;
  }
  return all;
}

#endif
