// The headers and the counts of all members.
#ifndef CUDA_HEAR_CUH
#define CUDA_HEAR_CUH

#include "cuda/scene.cuh"

enum { KIND_DISPATCH = 1, KIND_BARRIER = 2 }; // enum ep_kind
enum { HEAD_UNITS = 2 };                      // of a slot's head: count and mark

// What a block has heard. In shared memory.
struct hearing {
  uint64_t given_up;       // seats that take no part: lost, or passed over
  uint64_t heard, failed;  // members, by index, that some warp heard, and did not hear
  uint64_t late, barriers; // likewise: their weights come later; their operation is a barrier
  uint64_t mark;
  uint32_t lowest, newest;                                 // lowest `ready`, newest `active`
  uint32_t dispatches, combines;                           // most that anybody has not taken yet
  uint32_t rows[CUDA_MAX_MEMBERS], base[CUDA_MAX_MEMBERS]; // of each member; before it (rank-major)
};

// [one thread]
__device__ __forceinline__ void hearing_begin(hearing &hearing) {
  hearing.heard = hearing.failed = hearing.late = hearing.barriers = 0;
  hearing.mark = UINT64_MAX;
  hearing.lowest = UINT32_MAX;
  hearing.newest = hearing.dispatches = hearing.combines = 0;
}

__device__ __forceinline__ bool takes_part(const hearing &hearing, const cuda_member &member) {
  return member.seat < DEVICE_SEATS && !(hearing.given_up >> member.seat & 1);
}

// The peer counts us from a later operation on, and has sent that one: it takes no part in this one (as in
// ep/activation.h).
__device__ __forceinline__ bool passes_over(const cuda_layout &layout, const cuda_member &member, uint64_t op) {
  uint4 start = ptx::load_unit(&((const cuda_area_head *)member.in)->start);
  uint64_t first = (uint64_t)start.y << 32 | start.x; // + 1
  if (start.w != 1 || first <= op + 1)
    return false;
  const cuda_slot_head *head = (const cuda_slot_head *)slot_of(layout, member.in, first - 1);
  return ptx::load_unit(&head->count).w == (uint32_t)first;
}

// The block that tells, for all, what was heard: the one that has least else to do.
__device__ __forceinline__ bool is_speaker() {
  return blockIdx.x == gridDim.x - 1;
}

// What a header says, into what the block knows. [one thread for each member]
__device__ __forceinline__ void note_header(const cuda_dispatch_args &args, uint32_t m, uint4 count, hearing &hearing) {
  uint64_t bit = 1ull << m;
  hearing.rows[m] = min(count.x & 0xFFFF, args.layout.max_tokens);
  atomicMin(&hearing.lowest, count.z);
  atomicMax(&hearing.newest, count.y);
  atomicMax(&hearing.dispatches, count.x >> CUDA_HEAD_DISPATCHES & 3);
  atomicMax(&hearing.combines, count.x >> CUDA_HEAD_COMBINES & 7);
  if (count.x >> CUDA_HEAD_LATE & 1)
    atomicOr((unsigned long long *)&hearing.late, bit);
  if ((count.x >> CUDA_HEAD_KIND & 0xFF) == KIND_BARRIER)
    atomicOr((unsigned long long *)&hearing.barriers, bit);
}

// Where the rows of each (local expert, member) stand among the expert's. In shared memory.
struct places {
  uint32_t *base;   // [members][experts]: counts, then sums of those of the members before
  uint32_t *totals; // [experts]
};

inline size_t places_size(const cuda_dispatch_args &args) {
  return ((size_t)args.members + 1) * args.layout.experts * 4;
}

__device__ __forceinline__ places places_in(const cuda_dispatch_args &args, uint32_t *memory) {
  return {memory + args.layout.experts, memory};
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
    note_header(args, m, unit, hearing);
  else if (i == 1)
    atomicMin((unsigned long long *)&hearing.mark, (uint64_t)unit.y << 32 | unit.x);
  else
#pragma unroll
    for (uint32_t j = 0; j < CUDA_UNIT_COUNTS; j++)
      if (first + j < args.layout.experts)
        places.base[m * args.layout.experts + first + j] = word[j / 2] >> j % 2 * 16 & 0xFFFF;
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
        over = patience.over(args.state, member.seat) || (patience.rounds % 64 == 0 && passes_over(layout, member, op));
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
      atomicOr((unsigned long long *)(here ? &hearing.heard : &hearing.failed), 1ull << m);
    all &= here;
  }
  return all;
}

enum { AT_ONCE = 4 }; // loads of a thread, each of which takes its time

// Sums the counts up. [role, barriers before and behind]
__device__ __forceinline__ void sum_up(const cuda_dispatch_args &args, const cuda_view &view, hearing &hearing,
                                       const places &places, const role &role) {
  uint64_t heard = hearing.heard;
#pragma unroll 1
  for (uint32_t e = role.thread(); e < args.layout.experts; e += role.threads()) {
    uint32_t sum = 0;
#pragma unroll 1
    for (uint32_t base = 0; base < view.count; base += AT_ONCE) {
      uint32_t count[AT_ONCE], *at = &places.base[base * args.layout.experts + e];
#pragma unroll
      for (uint32_t j = 0; j < AT_ONCE; j++)
        count[j] = base + j < view.count && heard >> (base + j) & 1 ? at[j * args.layout.experts] : 0;
#pragma unroll
      for (uint32_t j = 0; j < AT_ONCE; j++) {
        if (base + j < view.count)
          at[j * args.layout.experts] = sum;
        sum += count[j];
      }
    }
    places.totals[e] = sum;
  }
  if (role.thread() == role.threads() - 1) {
    uint32_t sum = 0;
#pragma unroll 1
    for (uint32_t m = 0; m < view.count; m++) {
      hearing.base[m] = sum;
      if (!(heard >> m & 1))
        hearing.rows[m] = 0;
      sum += hearing.rows[m];
    }
  }
}

#endif
