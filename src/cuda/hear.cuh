// The headers and the counts of all members.
#ifndef CUDA_HEAR_CUH
#define CUDA_HEAR_CUH

#include "cuda/scene.cuh"

enum { KIND_DISPATCH = 1, KIND_BARRIER = 2 }; // enum ep_kind

// What a block has heard. In shared memory.
struct hearing {
  uint64_t given_up;       // seats that take no part: lost, or passed over
  uint64_t failed;         // members, by index, that some thread did not hear
  uint64_t late, barriers; // likewise: their weights come later; their operation is a barrier
  uint64_t mark;
  uint32_t lowest, newest;                                 // lowest `ready`, newest `active`
  uint32_t dispatches, combines;                           // most that anybody has not taken yet
  uint32_t rows[CUDA_MAX_MEMBERS], base[CUDA_MAX_MEMBERS]; // of each member; before it (rank-major)
};

// [one thread]
__device__ __forceinline__ void hearing_begin(hearing &hearing) {
  hearing.failed = hearing.late = hearing.barriers = 0;
  hearing.mark = UINT64_MAX;
  hearing.lowest = UINT32_MAX;
  hearing.newest = hearing.dispatches = hearing.combines = 0;
}

__device__ __forceinline__ bool takes_part(const hearing &hearing, const cuda_member &member) {
  return member.seat < DEVICE_SEATS && !(hearing.given_up >> member.seat & 1);
}

// Members that take part and were heard, by index.
__device__ __forceinline__ uint64_t heard_of(const hearing &hearing, const cuda_view &view) {
  uint64_t heard = 0;
#pragma unroll 1
  for (uint32_t m = 0; m < view.count; m++)
    heard |= (uint64_t)takes_part(hearing, view.members[m]) << m;
  return heard & ~hearing.failed;
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

// Waits for the member's header; `count` holds a first look at it. [one thread of each warp that wants to know]
__device__ __forceinline__ bool wait_header(const cuda_dispatch_args &args, const cuda_member &member, uint64_t op,
                                            uint4 &count, bool timed, uint64_t *waited) {
  const cuda_unit *head = &((const cuda_slot_head *)slot_of(args.layout, member.in, op))->count;
  if (count.w == (uint32_t)op + 1)
    return true;
  uint64_t begin = timed ? ptx::time_ns() : 0;
  patience patience;
  while (count.w != (uint32_t)op + 1) {
    if (patience.over(args.state, member.seat) || (patience.rounds % 64 == 0 && passes_over(args.layout, member, op)))
      return false;
    count = ptx::load_unit(head);
  }
  if (timed)
    *waited += ptx::time_ns() - begin;
  return true;
}

// The block that tells, for all, what was heard: the one that has least else to do.
__device__ __forceinline__ bool is_speaker() {
  return blockIdx.x == gridDim.x - 1;
}

// What a header says, into what the block knows. [one thread for each member]
__device__ __forceinline__ void note_header(const cuda_dispatch_args &args, const cuda_member &member, uint32_t m,
                                            uint64_t op, uint4 count, hearing &hearing) {
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
  if (!is_speaker())
    return;
  const cuda_unit *mark = &((const cuda_slot_head *)slot_of(args.layout, member.in, op))->mark;
  uint4 unit = ptx::load_unit(mark);
  if (wait_unit(args.state, member.seat, mark, (uint32_t)op + 1, unit))
    atomicMin((unsigned long long *)&hearing.mark, (uint64_t)unit.y << 32 | unit.x);
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

// Hears the members that take part, and notes their counts. Equal parts of the role listen to each member. False: this
// thread did not hear its member. *newer: it has heard that its member runs in a newer view. [role]
__device__ __forceinline__ bool hear(const cuda_dispatch_args &args, const cuda_view &view, hearing &hearing,
                                     const places &places, uint64_t op, const role &role, bool *newer) {
  const cuda_layout &layout = args.layout;
  uint32_t listeners = BLOCK / 2;
  while (listeners * view.count > role.threads())
    listeners /= 2;
  uint32_t m = role.thread() / listeners, begin = role.thread() % listeners, width = min(listeners, (uint32_t)WARP);
  const cuda_member &member = view.members[m < view.count ? m : 0];
  bool listens = m < view.count && takes_part(hearing, member) && begin < (layout.count_units + WARP - 1) / WARP * WARP;
  const char *slot = listens ? slot_of(layout, member.in, op) : nullptr;
  const cuda_unit *counts = (const cuda_unit *)(slot + layout.counts);
  uint4 first = listens && begin < layout.count_units ? ptx::load_unit(counts + begin) : make_uint4(0, 0, 0, 0);
  uint4 count = listens ? ptx::load_unit(&((const cuda_slot_head *)slot)->count) : make_uint4(0, 0, 0, 0);
  bool here = true; // one thread of a warp asks for each member's header
  if (listens && threadIdx.x % width == 0)
    here = wait_header(args, member, op, count, is_speaker() && begin == 0,
                       &args.state->record[op % CUDA_RECORDS].wait_ns[m]);
  here = __shfl_sync(~0u, here, 0, (int)width);
  count.y = __shfl_sync(~0u, count.y, 0, (int)width);
  *newer = false;
  if (!listens)
    return true;
#pragma unroll 1
  for (uint32_t i = begin; i < layout.count_units && here; i += listeners) {
    uint4 unit = i == begin ? first : ptx::load_unit(counts + i);
    here = wait_unit(args.state, member.seat, counts + i, (uint32_t)op + 1, unit);
    uint32_t word[3] = {unit.x, unit.y, unit.z};
#pragma unroll
    for (uint32_t j = 0; j < CUDA_UNIT_COUNTS; j++)
      if (i * CUDA_UNIT_COUNTS + j < layout.experts)
        places.base[m * layout.experts + i * CUDA_UNIT_COUNTS + j] = word[j / 2] >> j % 2 * 16 & 0xFFFF;
  }
  *newer = here && count.y > (uint32_t)view.epoch;
  if (here && begin == 0)
    note_header(args, member, m, op, count, hearing);
  if (!here)
    atomicOr((unsigned long long *)&hearing.failed, 1ull << m);
  return here;
}

// Sums the counts up. [role, barriers before and behind]
__device__ __forceinline__ void sum_up(const cuda_dispatch_args &args, const cuda_view &view, hearing &hearing,
                                       const places &places, const role &role) {
  uint64_t heard = heard_of(hearing, view);
#pragma unroll 1
  for (uint32_t e = role.thread(); e < args.layout.experts; e += role.threads()) {
    uint32_t sum = 0;
#pragma unroll 1
    for (uint32_t m = 0; m < view.count; m++) {
      uint32_t *at = &places.base[m * args.layout.experts + e], count = heard >> m & 1 ? *at : 0;
      *at = sum;
      sum += count;
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
