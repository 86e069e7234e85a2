// Decides in which view operations run: the kernels themselves apply the rule of ep/core/activation.h.
#ifndef CUDA_KERNELS_ACTIVATE_CUH
#define CUDA_KERNELS_ACTIVATE_CUH

#include "cuda/dispatch/receive_headers.cuh"

enum { NOT_PUBLISHED = CUDA_PUBLISHED };

// The published view of `epoch`, or the oldest newer one; NOT_PUBLISHED. [one thread]
__device__ __forceinline__ uint32_t find_published(const cuda_state *state, uint64_t epoch) {
  uint32_t found = NOT_PUBLISHED;
  uint64_t best = UINT64_MAX;
  for (uint32_t i = 0; i < CUDA_PUBLISHED; i++) {
    uint64_t has = ptx::load_acquire(&state->published[i].epoch);
    if (has >= epoch && has < best) {
      found = i;
      best = has;
    }
  }
  return found;
}

__device__ __forceinline__ const cuda_member *find_seat(const cuda_view &view, uint32_t seat) {
#pragma unroll 1
  for (uint32_t m = 0; m < view.count; m++)
    if (view.members[m].seat == seat)
      return &view.members[m];
  return nullptr;
}

// Makes the live view for operations from `op` on: the published view, with the first operation in which each member
// counts. `before`: the view of the previous operation. [threads that take part all call it, with consecutive numbers]
__device__ __forceinline__ void make_live(cuda_view &live, const cuda_view &published, const cuda_view &before,
                                          uint64_t op, uint32_t thread, uint32_t threads) {
  uint32_t count = published.self == CUDA_NOT_A_MEMBER ? 0 : published.count;
#pragma unroll 1
  for (uint32_t m = thread; m < count; m += threads) {
    cuda_member member = published.members[m];
    const cuda_member *same = member.seat < DEVICE_SEATS ? find_seat(before, member.seat) : nullptr;
    member.since = same ? same->since : op;
    live.members[m] = member;
  }
  if (thread == 0) {
    live.epoch = published.epoch;
    live.count = count;
    live.by_count = published.by_count;
    live.seats = published.seats;
    live.self = published.self;
  }
}

// Publishes to a peer that `op` is its first operation, unless this rank has already done so.
__device__ __forceinline__ void publish_start(cuda_state *state, const cuda_member &member, uint64_t op,
                                              uint64_t epoch) {
  uint64_t start = state->start_sent[member.seat];
  if (start != 0 && start <= op + 1)
    return;
  state->start_sent[member.seat] = op + 1;
  uint64_t first = op + 1;
  ptx::store_unit(&((cuda_area_head *)member.out)->start,
                  make_uint4((uint32_t)first, (uint32_t)(first >> 32), (uint32_t)epoch, 1));
}

// Publishes to each rank that is in `next` but not in `now` that operation `op` is its first. [one thread]
__device__ __forceinline__ void notify_joiners(cuda_state *state, const cuda_view &now, const cuda_view &next,
                                               uint64_t op) {
#pragma unroll 1
  for (uint32_t m = 0; m < next.count; m++)
    if (next.members[m].seat < DEVICE_SEATS && m != next.self && !find_seat(now, next.members[m].seat))
      publish_start(state, next.members[m], op, next.epoch);
  ptx::fence_system();
}

// Clears the lost bits of new members' seats. [one thread]
__device__ __forceinline__ void clear_lost(cuda_state *state, const cuda_view &now, const cuda_view &next) {
#pragma unroll 1
  for (uint32_t m = 0; m < next.count; m++)
    if (next.members[m].seat < DEVICE_SEATS && !find_seat(now, next.members[m].seat))
      atomicAnd((unsigned long long *)&state->counters.lost, ~(1ull << next.members[m].seat));
}

// Reports to the host that `epoch` takes effect with `op`. [one thread]
__device__ __forceinline__ void report_activation(cuda_state *state, uint64_t op, uint64_t epoch) {
  uint64_t n = state->counters.activations;
  state->report->activation[n % DEVICE_ACTIVATIONS].op = op;
  state->report->activation[n % DEVICE_ACTIVATIONS].epoch = epoch;
  ptx::fence_system();
  state->report->activations = n + 1;
  state->counters.activations = n + 1;
}

__device__ __forceinline__ bool step_begins(const cuda_state *state, uint64_t op) {
  return op % ptx::load_volatile(&state->control.operations_per_step) == 0;
}

// Decides the view of op + 2 from all headers of `op`, which ran in `now`, as every other rank does. `next`: the view
// of op + 1. [one thread]
__device__ __forceinline__ void decide(cuda_state *state, const cuda_view &now, const cuda_view &next,
                                       uint32_t next_live, uint64_t lowest, uint64_t op) {
  cuda_counters &counters = state->counters;
  counters.live[(op + 2) % CUDA_LIVE] = (uint8_t)next_live;
  if (now.epoch != next.epoch || now.count == 0 || lowest == UINT32_MAX || lowest <= next.epoch ||
      !step_begins(state, op + 2))
    return;
  uint32_t slot = find_published(state, lowest);
  if (slot == NOT_PUBLISHED)
    return; // impossible: this rank's own header named it as published
  uint32_t made = (counters.newest + 1) % CUDA_LIVE;
  cuda_view &live = state->live[made];
  make_live(live, state->published[slot], next, op + 2, 0, 1);
  counters.newest = made;
  counters.live[(op + 2) % CUDA_LIVE] = (uint8_t)made;
  clear_lost(state, next, live);
  // A rank that leaves notifies the joiners, too, since it may be the last rank that runs operations; its `live` has no
  // members. If the view without this rank only stands for a newer view that never arrived here, there is no rank to
  // notify.
  if (live.epoch == lowest || live.count > 0)
    notify_joiners(state, now, state->published[slot], op + 2);
  report_activation(state, op + 2, live.epoch);
}

#endif
