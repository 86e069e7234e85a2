// The receiving half of dispatch: hears everybody, then places the rows; and what is known then is told.
#ifndef CUDA_DISPATCH_RECEIVE_CUH
#define CUDA_DISPATCH_RECEIVE_CUH

#include "cuda/dispatch/place.cuh"
#include "cuda/kernels/empty.cuh"
#include "cuda/kernels/settle.cuh"

// Waits until all blocks have read what a conclusion changes: the last one to arrive counts the operation. [one thread]
static __device__ __noinline__ void await_arrival(const cuda_state *state, uint64_t op) {
  long_patience patience;
  while (ptx::load_volatile(&state->counters.received) == op && !patience.over(state))
    continue;
}

// Seats of the view that are neither heard nor lost. [one thread]
static __device__ __noinline__ uint64_t seats_passed_over(const cuda_view &view, uint64_t heard, uint64_t lost) {
  uint64_t passed = 0;
#pragma unroll 1
  for (uint32_t m = 0; m < view.count; m++)
    if (!(heard >> m & 1) && view.members[m].seat < DEVICE_SEATS)
      passed |= 1ull << view.members[m].seat;
  return passed & ~lost;
}

// What is known when all have been heard, for the operations to come and for who asks. [one thread of the speaker]
static __device__ __noinline__ void conclude(const cuda_dispatch_args &args, const scene &scene,
                                             const standing &standing, const hearing &hearing, uint64_t op) {
  cuda_state *state = args.state;
  cuda_counters &counters = state->counters;
  const cuda_view &view = *standing.view;
  // Asked for first, together.
  uint64_t lost = ptx::load_volatile(&counters.lost), gone = ptx::load_volatile(&state->control.gone);
  uint64_t masked = ptx::load_volatile(&state->control.masked);
  if (ptx::load_volatile(&counters.received) == op)
    await_arrival(state, op);
  const summary summary(hearing, view.count);
  uint32_t next_live = scene.counters.live[(op + 1) % CUDA_LIVE];
  if (standing.adopted) {
    state->live[standing.live] = view;
    counters.newest = standing.live;
    counters.live[op % CUDA_LIVE] = (uint8_t)standing.live;
    if (scene.live[next_live].epoch < view.epoch)
      counters.live[(op + 1) % CUDA_LIVE] = (uint8_t)(next_live = standing.live);
    report_activation(state, op, view.epoch);
  }
  if (standing.out != NOT_PUBLISHED) { // this rank is out, from the next operation on
    next_live = counters.newest = (counters.newest + 1) % CUDA_LIVE;
    make_live(state->live[next_live], state->published[standing.out], view, op + 1, 0, 1);
    counters.live[(op + 1) % CUDA_LIVE] = (uint8_t)next_live;
    report_activation(state, op + 1, state->live[next_live].epoch);
  }
  const cuda_view &next = standing.out != NOT_PUBLISHED ? state->live[next_live] : scene.live[next_live];
  decide(state, view, next, next_live, summary.lowest, op);
  counters.given_up = lost | gone;
  counters.masked = masked;
  counters.taken_dispatch = op - summary.dispatches;
  counters.taken_combine = op - summary.combines;
  uint64_t heard = hearing.heard;
#pragma unroll 1
  for (uint32_t m = 0; m < view.count; m++)
    state->handle[op % CUDA_LIVE].rows[m] = hearing.rows(args.layout, m);
  uint64_t all = view.count == 64 ? ~0ull : (1ull << view.count) - 1;
  state->handle[op % CUDA_LIVE].late = summary.late;
  state->handle[op % CUDA_LIVE].passed = heard == all ? 0 : seats_passed_over(view, heard, lost | gone);
  device_record &record = state->record[op % CUDA_RECORDS];
  record.op = op;
  record.epoch = view.epoch;
  record.mark = summary.mark;
  record.num_ranks = view.count;
  record.kind = args.d.kind;
  record.other_kinds = args.d.kind == KIND_BARRIER ? heard & ~summary.barriers : summary.barriers;
  ptx::set_bits(&record.lost, all & ~heard);
#pragma unroll 1
  for (uint32_t m = 0; args.d.wait_ns && m < view.count; m++)
    args.d.wait_ns[view.members[m].rank] += (int64_t)record.wait_ns[m];
  state->progress.received = op + 1;
}

// Hears everybody, as all blocks do. [role]
__device__ __forceinline__ void hear_all(const cuda_dispatch_args &args, scene &scene, standing &standing,
                                         hearing &hearing, const places &places, uint64_t op, const role &role) {
  if (role.thread() == 0) {
    standing = {&view_of(scene, op), scene.counters.live[op % CUDA_LIVE], 0, false, NOT_PUBLISHED};
    hearing.given_up = scene.counters.given_up;
    hearing_begin(hearing);
  }
  role.sync();
  // Each warp listens to a member; the others have nothing to do yet.
  struct role idle = role;
  idle.first += min(standing.view->count, role.warps - 1);
  idle.warps -= idle.first - role.first;
  if (idle.plays())
    empty_read(args.layout, scene, crew(idle));
  for (bool again = false;;) {
    bool newer, fine = hear(args, *standing.view, hearing, places, op, role, &newer);
    bool unusual = role.sync_or(!fine || newer);
    if (!unusual && standing.round == 0 && !again) {
      if (role.thread() == 0)
        ptx::add(&args.state->votes[op % CUDA_LIVE].all, 1);
      return;
    }
    const struct role copy = role; // what is pointed to lives in memory
    uint32_t rc = settle(args, scene, standing, hearing, op, copy, again);
    if (rc == SETTLED)
      return;
    again = rc == HEAR_AGAIN;
    if (role.thread() == 0)
      hearing_begin(hearing);
    role.sync();
  }
}

// Whether the speaker's block does nothing but that, where there are many: beside warps that place rows, the thread
// that concludes took 4 us, and all else was done before it.
__device__ __forceinline__ bool speaker_apart(const role &role) {
  return role.blocks >= FEW_BLOCKS;
}
// Those who place rows.
__device__ __forceinline__ crew placers(const role &role) {
  struct role placing = role;
  placing.blocks -= speaker_apart(role);
  return crew(placing);
}

// `memory`: shared. [role]
template <int EACH>
__device__ __forceinline__ void receive(const cuda_dispatch_args &args, scene &scene, uint32_t *memory,
                                        const role &role, const crew &placers) {
  __shared__ hearing hearing;
  __shared__ standing standing;
  uint64_t op = scene.counters.received;
  places places = {memory};
  const cuda_view &view = view_of(scene, op);
  turn first(args, view, placers.index);
  first.m = ptx::here(first.m);
  first.row = ptx::here(first.row);
  first.index = ptx::here(first.index);
  hear_all(args, scene, standing, hearing, places, op, role);
  trace(args.trace, 3, role.thread() == 0);
  if (is_speaker()) {
    if (role.thread() == role.threads() - WARP)
      conclude(args, scene, standing, hearing, op);
    if (speaker_apart(role))
      return;
  }
  tell_counts(args, *standing.view, hearing, places, placers, args.state->record[op % CUDA_RECORDS]);
  if (standing.view != &view)
    first = turn(args, *standing.view, placers.index);
  place_rows<EACH>(args, scene, *standing.view, hearing, places, first, op, placers);
  trace(args.trace, 4, role.thread() == 0);
}

#endif
