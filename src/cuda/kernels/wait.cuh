// The one way to wait for another rank: until data has arrived, or until the deadline has passed and the rank is lost.
//
// A silent rank is distinguished from one that waits itself by *heartbeats*. A rank whose wait has lasted for an eighth
// of the limit sends a heartbeat, and then eight in each limit, to every peer, but not to a peer that is the only one
// it waits for: it writes the word `waiting` of the area's head. So two ranks that wait only for each other cannot
// extend each other's limit. A peer is lost when neither its data nor a heartbeat has arrived for a limit, and in any
// case after 1 + DEVICE_EXTENSIONS limits, which bounds every wait. The same holds for a wait for this rank's own rows,
// whose senders may wait for others: this rank sends heartbeats to itself, too. Blocks that wait for each other send
// none; the blocks that wait for a peer do. Nobody waits for a joiner that waits for its first operation.
//
// Heartbeats are sent and read in *rounds*, by whichever thread has waited long enough: each thread leaves the seat
// that it waits for in `awaited`. A changed word was written after the round before; nothing more is known of its time.
// A heartbeat names no operation: the wait that it stands for may have ended since. It extends a wait by at most one
// limit from the time at which it was sent.
#ifndef CUDA_KERNELS_WAIT_CUH
#define CUDA_KERNELS_WAIT_CUH

#include "cuda/kernels/ptx.cuh"
#include "cuda/kernels/state.h"

__device__ __forceinline__ bool is_lost(const cuda_state *state, uint32_t seat) {
  uint64_t lost = ptx::load_volatile(&state->counters.lost) | ptx::load_volatile(&state->control.gone);
  return seat >= DEVICE_SEATS || (lost >> seat & 1);
}

// From now on no thread waits for this seat, and the host finds it in the report.
__device__ __forceinline__ void mark_lost(cuda_state *state, uint32_t seat) {
  uint64_t before = atomicOr((unsigned long long *)&state->counters.lost, 1ull << seat);
  if (!(before >> seat & 1))
    state->report->lost[seat] = 1;
}

enum { HEARTBEATS = 8 }; // in a limit

// Time in units of 65 us, in 32 bits: half of the registers. They suffice for three days.
__device__ __forceinline__ uint32_t ticks() {
  return (uint32_t)(ptx::time_ns() >> 16);
}
__device__ __forceinline__ uint32_t limit_ticks(const cuda_state *state) {
  return (uint32_t)(ptx::load_volatile(&state->control.timeout_ns) >> 16) + 1;
}

__device__ __forceinline__ void begin_round(cuda_state *state) {
  volatile cuda_heartbeats &heartbeats = state->heartbeats;
  uint32_t before = heartbeats.round, now = ticks(), limit = limit_ticks(state);
  if (now - before < limit / HEARTBEATS || atomicCAS(&state->heartbeats.round, before, now) != before)
    return;
  uint64_t awaited = atomicExch((unsigned long long *)&state->heartbeats.awaited, 0);
  // 0: the seats belong to a wait that has ended
  heartbeats.awaiting = now - before > limit / 2 ? 0 : awaited & ~heartbeats.own;
  heartbeats.before = before;
  ptx::fence_system();
  heartbeats.step = 1;
}

// One step of a round, or the begin of the next. A step is short, and its state is in memory, because registers are
// scarce where it is called (tests/cuda/spills.py); its callers call again soon. A member takes two steps: one sends it
// a heartbeat, the other reads its own. Step s > 0 is for the operation (s - 1) / STEPS, counted from the oldest one.
// Other blocks may replace a view meanwhile, so nothing may come out of a cache.
//
// The views are those from the oldest operation that had not ended at this kernel's start to the last that is decided,
// the one behind those received: their windows stay mapped, and their joiners may wait for us already. (A view that an
// operation adopts is among them when all headers have arrived.) Before all blocks have begun, `progress` may be the
// kernel before's.
__device__ __forceinline__ void step_of_round(cuda_state *state) {
  enum { STEPS = 2 * CUDA_MAX_MEMBERS }; // of an operation's view
  volatile cuda_heartbeats &heartbeats = state->heartbeats;
  if (*(const volatile uint32_t *)&state->arrived != 0)
    return;
  uint32_t step = heartbeats.step;
  if (step == 0) {
    begin_round(state);
    return;
  }
  if (atomicCAS(&state->heartbeats.step, step, step + 1) != step)
    return;
  step--;
  const volatile device_progress &progress = state->progress;
  uint32_t ended = (uint32_t)progress.ended, nth = step / STEPS;
  bool open = nth == 0 || (int32_t)((uint32_t)progress.received - ended - nth) >= -1;
  const volatile cuda_view *view =
      &state->live[((const volatile uint8_t *)state->counters.live)[(ended + nth) % CUDA_LIVE]];
  uint32_t m = step / 2 % CUDA_MAX_MEMBERS;
  if (!open || m >= view->count) {
    heartbeats.step = open ? (nth + 1) * STEPS + 1 : 0;
    return;
  }
  const volatile cuda_member *member = &view->members[m];
  uint32_t seat = member->seat;
  if (seat >= DEVICE_SEATS)
    return;
  if (step % 2 == 0) {
    if (heartbeats.awaiting & ~(1ull << seat))
      ptx::store_relaxed(&((cuda_area_head *)member->out)->waiting, ptx::time_ns());
    return;
  }
  uint32_t value = *(const volatile uint32_t *)&((const cuda_area_head *)member->in)->waiting;
  if (value != heartbeats.last[seat]) {
    heartbeats.last[seat] = value;
    heartbeats.received[seat] = heartbeats.before;
  }
}

// Counts the rounds of a wait, and says when it is over: the link is down, or its seat is lost. This thread or another
// one has found the seat to be lost.
struct wait_limit {
  uint64_t since; // 32 bits would do, but with them ptxas spills in the midst of a dispatch
  uint32_t rounds;

  __device__ __forceinline__ wait_limit() : since(0), rounds(0) {}
  __device__ __forceinline__ bool over(cuda_state *state, uint32_t seat) {
    __nanosleep(20); // leaves the cache to those who write; takes 0.3 us at least
    return count(state, seat);
  }
  // For data for which many threads wait: the first rounds do not sleep.
  __device__ __forceinline__ bool over_soon(cuda_state *state, uint32_t seat) {
    return rounds < EAGER ? count(state, seat) : over(state, seat);
  }

private:
  enum : uint32_t { EAGER = 64 };
  enum : uint64_t { OVER = 2 };

  __device__ __forceinline__ bool count(cuda_state *state, uint32_t seat) {
    return ++rounds % 64 == 0 && (since = look_up(state, seat, since)) == OVER;
  }
  // Returns the begin of the wait in ticks, an odd number; or OVER. It is passed by value, since an object to which a
  // pointer exists is kept in memory.
  static __device__ __noinline__ uint64_t look_up(cuda_state *state, uint32_t seat, uint64_t since) {
    if (is_lost(state, seat))
      return OVER;
    uint32_t now = ticks();
    if (since == 0)
      since = now | 1;
    if ((int32_t)(now - (uint32_t)since) <= (int32_t)(limit_ticks(state) / HEARTBEATS))
      return since;
    // In memory, so that callers need not keep registers free.
    volatile uint32_t kept[2] = {seat, (uint32_t)since};
    cuda_state *volatile kept_state = state;
    atomicOr((uint32_t *)&state->heartbeats.awaited + seat / 32, 1u << seat % 32);
    step_of_round(state);
    seat = kept[0], since = kept[1], state = kept_state;
    if (is_silent(state, seat, since)) {
      mark_lost(state, seat);
      return OVER;
    }
    return since;
  }
  // Reads the clock and everything else again, so that little is kept in registers over a step.
  static __device__ __forceinline__ bool is_silent(const cuda_state *state, uint32_t seat, uint32_t since) {
    uint32_t now = ticks(), received = ptx::load_volatile(&state->heartbeats.received[seat]),
             limit = limit_ticks(state);
    int32_t waited = (int32_t)(now - since);
    return waited > (int32_t)limit && (now - received > limit || waited > (int32_t)((1 + DEVICE_EXTENSIONS) * limit));
  }
};

// For waits among the blocks of one kernel. The limit above bounds all of them; this limit is far longer, so that a
// defect in our code does not hang. A block may wait for several ranks, one after the other.
struct block_wait_limit {
  uint64_t since;
  uint32_t rounds;

  __device__ __forceinline__ block_wait_limit() : since(0), rounds(0) {}
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
  wait_limit wait_limit;
  while (unit.w != want) {
    if (wait_limit.over(state, seat))
      return false;
    unit = ptx::load_unit(from);
  }
  return true;
}

#endif
