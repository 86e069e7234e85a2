// The one way to wait for another rank: until something has come, or the deadline has passed and the rank is lost.
//
// Silence is not waiting. A rank whose wait has gone on for an eighth of the limit says so, from then on eight times a
// limit, to every peer but those that it waits for, in the word `waiting` of the area's head: two that wait for each
// other get nothing by it. A peer is lost when it has neither come nor said so for a limit; and after
// 1 + DEVICE_EXTENSIONS limits whatever it says, which bounds every wait. The same holds for a wait for this rank's own
// rows, whose senders may wait for others: it tells itself, too. Blocks that wait for each other leave it to those that
// wait for a peer; and nobody waits for a joiner that waits for its first operation.
//
// It is done in *rounds*, by whichever thread has waited for so long: each leaves the seat that it waits for in
// `awaited`. What is found to have changed was said after the round before, which is all that is known of the time.
// What is said is of no operation: it may be of a wait that has ended since, and gives a limit at most from when it was
// said.
#ifndef CUDA_KERNELS_WAIT_CUH
#define CUDA_KERNELS_WAIT_CUH

#include "cuda/kernels/ptx.cuh"
#include "cuda/kernels/state.h"

__device__ __forceinline__ bool is_lost(const cuda_state *state, uint32_t seat) {
  uint64_t lost = ptx::load_volatile(&state->counters.lost) | ptx::load_volatile(&state->control.gone);
  return seat >= DEVICE_SEATS || (lost >> seat & 1);
}

// From now on nobody waits for it, and the host hears of it.
__device__ __forceinline__ void lose(cuda_state *state, uint32_t seat) {
  uint64_t before = atomicOr((unsigned long long *)&state->counters.lost, 1ull << seat);
  if (!(before >> seat & 1))
    state->report->lost[seat] = 1;
}

enum { SIGNS = 8 }; // in a limit

// Time in units of 65 us, in 32 bits: half of the registers. They suffice for three days.
__device__ __forceinline__ uint32_t ticks() {
  return (uint32_t)(ptx::time_ns() >> 16);
}
__device__ __forceinline__ uint32_t limit_ticks(const cuda_state *state) {
  return (uint32_t)(ptx::load_volatile(&state->control.timeout_ns) >> 16) + 1;
}

__device__ __forceinline__ void begin_round(cuda_state *state) {
  volatile cuda_signs &signs = state->signs;
  uint32_t before = signs.round, now = ticks(), limit = limit_ticks(state);
  if (now - before < limit / SIGNS || atomicCAS(&state->signs.round, before, now) != before)
    return;
  uint64_t awaited = atomicExch((unsigned long long *)&state->signs.awaited, 0);
  signs.awaiting = now - before > limit / 2 ? 0 : awaited & ~signs.own; // those of a wait that has ended
  signs.before = before;
  ptx::fence_system();
  signs.step = 1;
}

// One step of a round, or the begin of the next. So short, and with all in memory that lasts, for registers are scarce
// where this is called (tests/cuda/spills.py), and whoever calls looks soon again. A member takes two: one says to it
// that this rank waits, the other notes whether it has said so. Step s > 0 is for the operation (s - 1) / STEPS from
// the oldest one on. As other blocks may make a view anew meanwhile, nothing may come out of a cache.
//
// The views are those from the oldest operation that had not ended at this kernel's start to the last that is decided,
// the one behind those received: their windows stay mapped, and their joiners may wait for us already. (A view that an
// operation adopts is among them when all are heard.) Before all blocks have begun, `progress` may be the kernel
// before's.
__device__ __forceinline__ void step_of_round(cuda_state *state) {
  enum { STEPS = 2 * CUDA_MAX_MEMBERS }; // of an operation's view
  volatile cuda_signs &signs = state->signs;
  if (*(const volatile uint32_t *)&state->arrived != 0)
    return;
  uint32_t step = signs.step;
  if (step == 0) {
    begin_round(state);
    return;
  }
  if (atomicCAS(&state->signs.step, step, step + 1) != step--)
    return;
  const volatile device_progress &progress = state->progress;
  uint32_t ended = (uint32_t)progress.ended, nth = step / STEPS;
  bool open = nth == 0 || (int32_t)((uint32_t)progress.received - ended - nth) >= -1;
  const volatile cuda_view *view =
      &state->live[((const volatile uint8_t *)state->counters.live)[(ended + nth) % CUDA_LIVE]];
  uint32_t m = step / 2 % CUDA_MAX_MEMBERS;
  if (!open || m >= view->count) {
    signs.step = open ? (nth + 1) * STEPS + 1 : 0;
    return;
  }
  const volatile cuda_member *member = &view->members[m];
  uint32_t seat = member->seat;
  if (seat >= DEVICE_SEATS)
    return;
  if (step % 2 == 0) {
    if (signs.awaiting & ~(1ull << seat))
      ptx::store_relaxed(&((cuda_area_head *)member->out)->waiting, ptx::time_ns());
    return;
  }
  uint32_t says = *(const volatile uint32_t *)&((const cuda_area_head *)member->in)->waiting;
  if (says != signs.said[seat]) {
    signs.said[seat] = says;
    signs.heard[seat] = signs.before;
  }
}

// Counts the rounds of a wait and says when it is over: the link is down, or its seat is lost, found so here or by
// another thread.
struct patience {
  uint64_t since; // 32 bits would do, but with them ptxas spills in the midst of a dispatch
  uint32_t rounds;

  __device__ __forceinline__ patience() : since(0), rounds(0) {}
  __device__ __forceinline__ bool over(cuda_state *state, uint32_t seat) {
    __nanosleep(20); // leaves the cache to those who write; takes 0.3 us at least
    return count(state, seat);
  }
  // For what many wait for: the first rounds come at once.
  __device__ __forceinline__ bool over_soon(cuda_state *state, uint32_t seat) {
    return rounds < EAGER ? count(state, seat) : over(state, seat);
  }

private:
  enum : uint32_t { EAGER = 64 };
  enum : uint64_t { OVER = 2 };

  __device__ __forceinline__ bool count(cuda_state *state, uint32_t seat) {
    return ++rounds % 64 == 0 && (since = look_up(state, seat, since)) == OVER;
  }
  // Since when there has been waiting, in ticks, an odd number; or OVER. By value: what is pointed to would live in
  // memory.
  static __device__ __noinline__ uint64_t look_up(cuda_state *state, uint32_t seat, uint64_t since) {
    if (is_lost(state, seat))
      return OVER;
    uint32_t now = ticks();
    if (since == 0)
      since = now | 1;
    if ((int32_t)(now - (uint32_t)since) <= (int32_t)(limit_ticks(state) / SIGNS))
      return since;
    // In memory, and so in no register that callers would have to keep free.
    volatile uint32_t kept[2] = {seat, (uint32_t)since};
    cuda_state *volatile kept_state = state;
    atomicOr((uint32_t *)&state->signs.awaited + seat / 32, 1u << seat % 32);
    step_of_round(state);
    seat = kept[0], since = kept[1], state = kept_state;
    if (is_silent(state, seat, since)) {
      lose(state, seat);
      return OVER;
    }
    return since;
  }
  // The clock is read again, and all else, so that little is kept over a step.
  static __device__ __forceinline__ bool is_silent(const cuda_state *state, uint32_t seat, uint32_t since) {
    uint32_t now = ticks(), heard = ptx::load_volatile(&state->signs.heard[seat]), limit = limit_ticks(state);
    int32_t waited = (int32_t)(now - since);
    return waited > (int32_t)limit && (now - heard > limit || waited > (int32_t)((1 + DEVICE_EXTENSIONS) * limit));
  }
};

// For waits among the blocks of one kernel, all of which are bounded by the one above: far beyond it, so that a defect
// of ours is no hang. A block may wait for several ranks, one after the other.
struct long_patience {
  uint64_t since;
  uint32_t rounds;

  __device__ __forceinline__ long_patience() : since(0), rounds(0) {}
  __device__ __forceinline__ bool over(const cuda_state *state) {
    __nanosleep(100);
    if (++rounds % 64 != 0)
      return false;
    uint64_t now = ptx::time_ns();
    if (since == 0)
      since = now;
    return now - since > 8 * (1 + DEVICE_EXTENSIONS) * ptx::load_volatile(&state->control.timeout_ns);
  }
};

// Waits until the unit's flag is `want`; `unit` holds a first look at it.
__device__ __forceinline__ bool wait_unit(cuda_state *state, uint32_t seat, const void *from, uint32_t want,
                                          uint4 &unit) {
  patience patience;
  while (unit.w != want) {
    if (patience.over(state, seat))
      return false;
    unit = ptx::load_unit(from);
  }
  return true;
}

#endif
