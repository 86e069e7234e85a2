// The snapshot of the state that each block takes at its start: the counters, the host's words, the views and the
// handles.
#ifndef CUDA_KERNELS_SNAPSHOT_CUH
#define CUDA_KERNELS_SNAPSHOT_CUH

#include "cuda/kernels/args.h"
#include "cuda/kernels/packet.cuh"
#include "cuda/kernels/usual.cuh"

enum { WARPS = 24, BLOCK = WARPS * WARP };
enum { HEAD_UNITS = 2 }; // units of a slot's head: count and mark

// Up to this number of blocks, each block takes part in all jobs.
enum { FEW_BLOCKS = 16 };

// A role: the blocks, and the warps of each block, that do the same work. A kernel with two kinds of work has two
// roles, which run at the same time.
struct role {
  uint32_t first_block, blocks;
  uint32_t first, warps; // warps of a block
  int barrier;           // 1 to 15

  __device__ __forceinline__ bool includes_me() const {
    return blockIdx.x - first_block < blocks && threadIdx.x / WARP - first < warps;
  }
  __device__ __forceinline__ uint32_t thread() const { return threadIdx.x - first * WARP; }
  __device__ __forceinline__ uint32_t threads() const { return warps * WARP; }
  __device__ __forceinline__ void sync() const { ptx::barrier(barrier, (int)threads()); }
  __device__ __forceinline__ bool sync_or(bool value) const { return ptx::barrier_or(barrier, (int)threads(), value); }
};

// Built with CUDA_TRACE, one thread of each block records the time at which it reaches step i (0 to 7).
__device__ __forceinline__ void trace(uint64_t *stamps, uint32_t i, bool one) {
#ifdef CUDA_TRACE
  if (one && stamps)
    stamps[blockIdx.x * 8 + i] = ptx::time_ns();
#else
  (void)stamps, (void)i, (void)one;
#endif
}

struct alignas(16) snapshot {
  cuda_counters counters;
  cuda_control control;
  cuda_view live[CUDA_LIVE];
  cuda_handle handle[CUDA_LIVE];
};

__device__ __forceinline__ uint32_t divide(uint32_t number, cuda_divisor by) {
  return (uint32_t)((uint64_t)number * by.factor >> by.shift);
}

// Selection `i` of a caller's list of int32_t (`narrow`) or int64_t; the lower half of an int64_t is sufficient.
__device__ __forceinline__ int32_t expert_at(const void *topk_idx, bool narrow, size_t i) {
  return CUDA_OPTION(narrow) ? ((const int32_t *)topk_idx)[i] : (int32_t)((const int64_t *)topk_idx)[i];
}

__device__ __forceinline__ cuda_view &view_of(snapshot &snapshot, uint64_t op) {
  return snapshot.live[snapshot.counters.live[op % CUDA_LIVE]];
}
__device__ __forceinline__ const cuda_view &view_of(const snapshot &snapshot, uint64_t op) {
  return snapshot.live[snapshot.counters.live[op % CUDA_LIVE]];
}

// The steps of an operation that a kernel does; they determine which counters it increases.
struct steps {
  bool sends, receives, answers, combines;
  bool keeps;     // the combine leaves its operation open
  bool coded;     // answers are encoded as logfmt10
  bool again;     // the operation may already have had a combine
  uint32_t ahead; // device_combine.ahead
};

template <typename T> __device__ __forceinline__ void clear(T *object, uint32_t thread, uint32_t threads) {
#pragma unroll 1
  for (uint32_t i = thread; i < sizeof(T) / 4; i += threads)
    ((uint32_t *)object)[i] = 0;
}

// To be called before a credit is given. The end of the earlier kernels has ordered their emptying before the stores of
// this kernel, but only in this GPU's memory. Their stores to host memory may not have arrived yet.
__device__ __forceinline__ void order_credit(const snapshot &snapshot) {
  if (snapshot.control.strict)
    ptx::fence_system();
}

// Publishes to the peers what earlier kernels have taken, and to the host the progress of these kernels; clears the
// counts of later operations. [warp]
__device__ __forceinline__ void publish(const snapshot &snapshot, cuda_state *state, steps steps) {
  const cuda_counters &now = snapshot.counters;
  uint64_t op = steps.sends ? now.sent : steps.receives ? now.received : steps.answers ? now.answered : now.combined;
  op += steps.ahead;
  const cuda_view &view = view_of(snapshot, op);
  uint32_t lane = threadIdx.x % WARP;
  order_credit(snapshot);
#pragma unroll 1
  for (uint32_t m = lane; m < view.count; m += WARP)
    if (view.members[m].out) {
      cuda_area_head *head = (cuda_area_head *)view.members[m].out;
      ptx::store_relaxed(&head->taken_dispatch, now.emptied_rows);
      ptx::store_relaxed(&head->taken_combine, now.emptied_answers);
    }
  if (lane == 0) {
    state->progress.left = min(now.emptied_rows, now.emptied_answers);
    state->progress.ended = now.combined;
    state->progress.begun = now.sent + steps.sends;
  }
  bool sends_coded = steps.answers && steps.coded;
#pragma unroll 1
  for (uint32_t m = lane; sends_coded && m < view.count; m += WARP)
    if (view.members[m].out)
      ptx::store_relaxed(&((cuda_area_head *)view.members[m].out)->coded,
                         cuda_round(op, steps.again ? snapshot.handle[op % CUDA_LIVE].kept : 0));
  // For a further combine of an operation: the previous kernel has emptied the places of our answers.
  uint32_t round = steps.answers && steps.again ? snapshot.handle[op % CUDA_LIVE].kept : 0;
#pragma unroll 1
  for (uint32_t m = lane; round > 0 && m < view.count; m += WARP)
    if (view.members[m].out)
      ptx::store_relaxed(&((cuda_area_head *)view.members[m].out)->taken_round, cuda_round(op, round));
  if (steps.sends)
    clear(&state->record[(now.sent + 1) % CUDA_RECORDS], lane, WARP);
  if (steps.receives)
    clear(&state->votes[(now.received + 2) % CUDA_LIVE], lane, WARP);
}

// Loads the arguments first, one line by each warp. Loading each argument when it is needed takes 0.2 us more.
template <typename T> __device__ __forceinline__ void touch(const T &args) {
  constexpr uint32_t LINE = 16; // words
  __shared__ uint32_t unread[32];
  uint32_t warp = threadIdx.x / WARP;
  if (threadIdx.x % WARP == 0)
    *(volatile uint32_t *)&unread[warp] = ((const uint32_t *)&args)[min(warp * LINE, (uint32_t)(sizeof args / 4 - 1))];
}

// A thread's part of the snapshot while it is loaded. These loads are issued first, so that they do not queue behind
// others.
template <uint32_t THREADS> struct snapshot_part {
  static constexpr uint32_t LIVE = sizeof(snapshot::live) / 16, HANDLES = sizeof(snapshot::handle) / 16;
  static constexpr uint32_t WORDS = (sizeof(snapshot::counters) + sizeof(snapshot::control)) / 8;
  static constexpr uint32_t ALL = WORDS + HANDLES + LIVE, EACH = (ALL + THREADS - 1) / THREADS;
  uint4 v[EACH];

  __device__ __forceinline__ explicit snapshot_part(const cuda_state *state) {
#pragma unroll
    for (uint32_t k = 0; k < EACH; k++) {
      uint32_t i = threadIdx.x + k * THREADS;
      if (i < WORDS) {
        uint64_t word = ptx::load_volatile((const uint64_t *)&state->counters + i);
        v[k].x = (uint32_t)word;
        v[k].y = (uint32_t)(word >> 32);
      } else if (i < ALL) {
        v[k] = i < WORDS + HANDLES ? ((const uint4 *)state->handle)[i - WORDS]
                                   : ((const uint4 *)state->live)[i - WORDS - HANDLES];
      }
    }
  }
  // [block, barrier to follow]
  __device__ __forceinline__ void put(snapshot &snapshot) const {
#pragma unroll
    for (uint32_t k = 0; k < EACH; k++) {
      uint32_t i = threadIdx.x + k * THREADS;
      if (i < WORDS)
        ((uint2 *)&snapshot.counters)[i] = make_uint2(v[k].x, v[k].y);
      else if (i < WORDS + HANDLES)
        ((uint4 *)snapshot.handle)[i - WORDS] = v[k];
      else if (i < ALL)
        ((uint4 *)snapshot.live)[i - WORDS - HANDLES] = v[k];
    }
  }
};

// Counts the operations that this kernel begins, after all its blocks have read the counters. A warp for which no other
// warp waits should call it, since it takes a round trip to the second-level cache. [warp]
__device__ __forceinline__ void arrive(const snapshot &snapshot, cuda_state *state, steps steps) {
  const cuda_counters &now = snapshot.counters;
  if (threadIdx.x % WARP != 0 || atomicAdd(&state->arrived, 1) != gridDim.x - 1)
    return;
  state->arrived = 0;
  state->counters.sent = now.sent + steps.sends;
  state->counters.received = now.received + steps.receives;
  state->counters.answered = steps.keeps ? now.combined : now.answered + steps.answers;
  state->counters.combined = now.combined + (steps.combines && !steps.keeps);
  if (steps.keeps)
    state->handle[(now.combined + steps.ahead) % CUDA_LIVE].kept++;
  if (steps.receives || steps.combines) { // as empty.cuh does
    state->counters.emptied_rows = now.received;
    state->counters.emptied_answers = now.combined;
  }
}

__device__ __forceinline__ char *slot_of(const cuda_layout &layout, char *area, uint64_t op) {
  return area + sizeof(cuda_area_head) + (op % CUDA_DEPTH) * layout.slot;
}

// The place, in an area, of packet `index` of a token's answer.
__device__ __forceinline__ size_t answer_offset(const cuda_layout &layout, uint64_t op, uint32_t token,
                                                uint32_t index) {
  return sizeof(cuda_area_head) + (size_t)(op % CUDA_DEPTH * layout.slot + layout.answers) +
         (token * layout.answer.stride + index * layout.answer.each * CUDA_LINE);
}
// The same for packet `index` of a row.
__device__ __forceinline__ spot row_spot(const cuda_layout &layout, const cuda_form &form, uint64_t op, uint32_t token,
                                         uint32_t index) {
  size_t slot = sizeof(cuda_area_head) + (size_t)(op % CUDA_DEPTH * layout.slot);
  return {slot + layout.rows + (token * form.stride + index * form.each * CUDA_LINE),
          slot + form.scales + (token * form.scale_stride + index * form.each * 4)};
}

__device__ __forceinline__ uint32_t chunks_of(const cuda_form &form, uint32_t index) {
  return min(form.each, form.chunks - index * form.each);
}

__device__ __forceinline__ uint64_t or_over_warp(uint64_t bits) {
  uint32_t low = __reduce_or_sync(~0u, (uint32_t)bits), high = __reduce_or_sync(~0u, (uint32_t)(bits >> 32));
  return (uint64_t)high << 32 | low;
}

// Waits until the members of `seats` have taken the former contents of this operation's slots, that is until their word
// is at least `least`. Returns the seats that have done so. It waits only for members whose first operation is not
// after `since`. [warp]
static __device__ __noinline__ uint64_t await_taken(cuda_state *state, const cuda_view &view, uint64_t seats,
                                                    uint64_t since, uint64_t least, uint64_t cuda_area_head::*taken) {
  uint64_t open = 0;
#pragma unroll 1
  for (uint32_t base = 0; base < view.count; base += WARP) {
    uint32_t m = base + threadIdx.x % WARP;
    uint64_t bit = 0;
    if (m < view.count && view.members[m].seat < DEVICE_SEATS)
      bit = (1ull << view.members[m].seat) & seats;
    if (bit && since >= view.members[m].since) {
      const uint64_t *word = &(((const cuda_area_head *)view.members[m].in)->*taken);
      wait_limit wait_limit;
      while (bit && ptx::load_acquire(word) < least)
        if (wait_limit.over(state, view.members[m].seat))
          bit = 0;
    }
    open |= or_over_warp(bit);
  }
  return open;
}

// Returns the seats of the members that have taken the former contents of this operation's slots; a member that does
// not do so in time is lost. `known`: all members have taken the operations before this number. [warp]
__device__ __forceinline__ uint64_t await_credit(cuda_state *state, const snapshot &snapshot, const cuda_view &view,
                                                 uint64_t op, uint64_t known, uint64_t cuda_area_head::*taken) {
  uint64_t open = view.seats & ~(snapshot.counters.lost | snapshot.control.gone);
  return known + 1 < op ? await_taken(state, view, open, op - CUDA_DEPTH, op - 1, taken) : open;
}

// The warps of a kernel that have one role, numbered so that a few jobs are spread over as many processors.
struct warp_set {
  uint32_t index, count, lane;

  __device__ __forceinline__ warp_set(const role &role)
      : index(ptx::here((threadIdx.x / WARP - role.first) * role.blocks + blockIdx.x - role.first_block)),
        count(role.blocks * role.warps), lane(threadIdx.x % WARP) {}
};

#endif
