// Receives the headers and the counts of all members.
#ifndef CUDA_DISPATCH_RECEIVE_HEADERS_CUH
#define CUDA_DISPATCH_RECEIVE_HEADERS_CUH

#include "cuda/kernels/snapshot.cuh"

enum { KIND_DISPATCH = 1, KIND_BARRIER = 2 }; // enum ep_kind

// The form of the rows in a header, and the form of this rank's rows.
__device__ __forceinline__ uint32_t head_form(const cuda_layout &layout) {
  return (layout.topk - 1) << CUDA_HEAD_TOPK | (layout.dtype - 1) << CUDA_HEAD_DTYPE;
}

// The headers that a block has received. In shared memory.
struct headers {
  uint64_t given_up;         // seats that do not take part: they are lost, or skip the operation
  uint64_t received, failed; // members, by index: a warp received the header, or gave it up
  // For each member whose header was received
  uint4 count[CUDA_MAX_MEMBERS]; // the header's first unit
  uint64_t mark[CUDA_MAX_MEMBERS];

  __device__ __forceinline__ uint32_t rows(const cuda_layout &layout, uint32_t m) const {
    return received >> m & 1 ? min(count[m].x & 0xFFFF, layout.max_tokens) : 0;
  }
};

// [one thread]
__device__ __forceinline__ void headers_begin(headers &headers) {
  headers.received = headers.failed = 0;
}

__device__ __forceinline__ bool takes_part(const headers &headers, const cuda_member &member) {
  return member.seat < DEVICE_SEATS && !(headers.given_up >> member.seat & 1);
}

// Whether the peer counts this rank from a later operation on, and has sent that operation. Then the peer does not take
// part in this operation (as in ep/core/activation.h), because a rank died while the operation was being fixed. This
// rank then withdraws the rows that it sent to the peer (kernels/empty.cuh). Rows relayed by hosts cannot be withdrawn:
// if any link may be relayed, the peer is lost.
__device__ __forceinline__ bool passes_over(const cuda_dispatch_args &args, const cuda_member &member, uint64_t op) {
  const cuda_unit *start = &((const cuda_area_head *)member.in)->start;
  uint4 unit = ptx::load_unit(start);
  uint64_t first = (uint64_t)unit.y << 32 | unit.x; // + 1
  if (unit.w != 1 || first <= op + 1)
    return false;
  const cuda_slot_head *head = (const cuda_slot_head *)slot_of(args.layout, member.in, first - 1);
  if (ptx::load_unit(&head->count).w != (uint32_t)first)
    return false;
  // The peer may have published an earlier start before it sent that operation. Both ranks have to see the same start.
  ptx::fence_system();
  if (ptx::load_unit(start).x != unit.x)
    return false;
  if (ptx::load_volatile(&args.state->control.strict))
    mark_lost(args.state, member.seat);
  return true;
}

// The lead block publishes the result of the headers for all. It is the block that is placed last, when all others have
// begun.
__device__ __forceinline__ bool is_lead_block() {
  return blockIdx.x == gridDim.x - 1;
}

// The combined data of all headers. Bits are members, by index.
struct summary {
  uint64_t late, barriers; // late: weights follow later; barriers: the operation is a barrier
  uint64_t mark;
  uint32_t lowest, newest;       // lowest `ready`, newest `active`
  uint32_t dispatches, combines; // the largest number that any member has not taken yet

  __device__ __forceinline__ summary(const headers &headers, uint32_t members)
      : late(0), barriers(0), mark(UINT64_MAX), lowest(UINT32_MAX), newest(0), dispatches(0), combines(0) {
#pragma unroll 1
    for (uint32_t m = 0; m < members; m++) {
      uint64_t bit = headers.received & 1ull << m;
      if (!bit)
        continue;
      uint4 count = headers.count[m];
      late |= count.x >> CUDA_HEAD_LATE & 1 ? bit : 0;
      barriers |= (count.x >> CUDA_HEAD_KIND & 3) == KIND_BARRIER ? bit : 0;
      mark = min(mark, headers.mark[m]);
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

// The number of rows of each member for each local expert. A row's place among the expert's rows is the sum over the
// earlier members. It is computed anew for each row: with few members this takes less time than if all warps computed
// all sums first. In shared memory.
struct places {
  uint32_t *counts; // [members][experts], of members whose header was received

  __device__ __forceinline__ uint32_t before(const headers &headers, const cuda_layout &layout, uint32_t m,
                                             uint32_t expert) const {
    uint32_t sum = 0;
#pragma unroll 1
    for (uint32_t i = 0; i < m; i++)
      sum += headers.received >> i & 1 ? counts[i * layout.experts + expert] : 0;
    return sum;
  }
};

inline size_t places_size(const cuda_dispatch_args &args) {
  return (size_t)args.members * args.layout.experts * 4;
}

// The number of rows of earlier members; the member's rows begin there in a rank-major buffer of the caller.
__device__ __forceinline__ uint32_t rows_before(const headers &headers, const cuda_layout &layout, uint32_t m) {
  uint32_t sum = 0;
#pragma unroll 1
  for (uint32_t i = 0; i < m; i++)
    sum += headers.rows(layout, i);
  return sum;
}

// Unit `i` of a header, in the order in which lanes read the units: count, mark, counts.
__device__ __forceinline__ const cuda_unit *header_unit(const cuda_layout &layout, const char *slot, uint32_t i) {
  return i < HEAD_UNITS ? (const cuda_unit *)slot + i : (const cuda_unit *)(slot + layout.counts) + i - HEAD_UNITS;
}

// Stores unit `i` of a header.
__device__ __forceinline__ void record_header_unit(const cuda_dispatch_args &args, uint32_t m, uint32_t i, uint4 unit,
                                                   headers &headers, const places &places) {
  uint32_t first = (i - HEAD_UNITS) * CUDA_UNIT_COUNTS, word[3] = {unit.x, unit.y, unit.z};
  if (i == 0)
    headers.count[m] = unit;
  else if (i == 1)
    headers.mark[m] = (uint64_t)unit.y << 32 | unit.x;
  else
#pragma unroll
    for (uint32_t j = 0; j < CUDA_UNIT_COUNTS; j++)
      if (first + j < args.layout.experts)
        places.counts[m * args.layout.experts + first + j] = word[j / 2] >> j % 2 * 16 & 0xFFFF;
}

// Waits for a member's header, all units at once, and stores it. False: the member is lost. [warp]
__device__ __forceinline__ bool receive_header(const cuda_dispatch_args &args, const cuda_view &view, headers &headers,
                                               const places &places, uint32_t m, uint64_t op, uint32_t *epoch,
                                               uint32_t *count) {
  const cuda_layout &layout = args.layout;
  const cuda_member &member = view.members[m];
  const char *slot = slot_of(layout, member.in, op);
  uint32_t lane = threadIdx.x % WARP, units = HEAD_UNITS + layout.count_units;
  bool timed = is_lead_block() && lane == 0;
#pragma unroll 1
  for (uint32_t base = 0; base < units; base += WARP) {
    const cuda_unit *from = header_unit(layout, slot, min(base + lane, units - 1));
    uint4 unit = ptx::load_unit(from);
    uint64_t begin = 0;
    wait_limit wait_limit;
    while (!__all_sync(~0u, unit.w == (uint32_t)op + 1)) {
      bool over = false;
      if (timed && begin == 0)
        begin = ptx::time_ns();
      if (lane == 0)
        over = wait_limit.over_soon(args.state, member.seat) ||
               (wait_limit.rounds % 64 == 0 && passes_over(args, member, op));
      if (__shfl_sync(~0u, over, 0))
        return false;
      unit = ptx::load_unit(from);
    }
    if (begin)
      args.state->record[op % CUDA_RECORDS].wait_ns[m] += ptx::time_ns() - begin;
    if (base + lane < units)
      record_header_unit(args, m, base + lane, unit, headers, places);
    if (base == 0) {
      *epoch = __shfl_sync(~0u, unit.y, 0);
      *count = __shfl_sync(~0u, unit.x, 0);
    }
  }
  return true;
}

// Rows of another form cannot be read, and it cannot be recognised when all of them have arrived: their sender is lost.
// [warp]
static __device__ __noinline__ void lose_other_form(cuda_state *state, uint32_t seat) {
  if (threadIdx.x % WARP == 0)
    mark_lost(state, seat);
}

// Whether a header announces no rows, or rows of this rank's form.
__device__ __forceinline__ bool has_our_form(const cuda_layout &layout, uint32_t count) {
  return (count & 0xFFFF) == 0 || (count & CUDA_HEAD_FORM) == head_form(layout);
}

// Receives the headers of the members that take part, with their counts: one warp for each member. False: this warp's
// member sent none in time. *newer: this warp's member runs in a newer view. [role]
__device__ __forceinline__ bool receive_headers(const cuda_dispatch_args &args, const cuda_view &view, headers &headers,
                                                const places &places, uint64_t op, const role &role, bool *newer) {
  bool all = true;
  *newer = false;
#pragma unroll 1
  for (uint32_t m = role.thread() / WARP; m < view.count; m += role.warps) {
    uint32_t epoch = 0, count = 0;
    if (!takes_part(headers, view.members[m]))
      continue;
    bool here = receive_header(args, view, headers, places, m, op, &epoch, &count);
    if (here && !has_our_form(args.layout, count)) {
      lose_other_form(args.state, view.members[m].seat);
      here = false;
    }
    *newer |= here && epoch > (uint32_t)view.epoch;
    if (threadIdx.x % WARP == 0)
      set_shared(here ? headers.received : headers.failed, m);
    all &= here;
  }
  return all;
}

#endif
