// The receiving half of dispatch: receives all headers, then places the rows, and publishes the result.
#ifndef CUDA_DISPATCH_RECEIVE_CUH
#define CUDA_DISPATCH_RECEIVE_CUH

#include "cuda/dispatch/notify.cuh"
#include "cuda/dispatch/place.cuh"
#include "cuda/kernels/agree.cuh"
#include "cuda/kernels/empty.cuh"

// Waits until all blocks have read the words that conclude() changes: the last block to arrive counts the operation.
// [one thread]
static __device__ __noinline__ void await_arrival(const cuda_state *state, uint64_t op) {
  block_wait_limit wait_limit;
  while (ptx::load_volatile(&state->counters.received) == op && !wait_limit.over(state))
    continue;
}

// The seats of the view whose headers did not arrive although they are not lost. [one thread]
static __device__ __noinline__ uint64_t seats_passed_over(const cuda_view &view, uint64_t received, uint64_t lost) {
  uint64_t passed = 0;
#pragma unroll 1
  for (uint32_t m = 0; m < view.count; m++)
    if (!(received >> m & 1) && view.members[m].seat < DEVICE_SEATS)
      passed |= 1ull << view.members[m].seat;
  return passed & ~lost;
}

// Publishes the result of the headers, when all have arrived, for later operations and for the host. [one thread of the
// lead block]
static __device__ __noinline__ void conclude(const cuda_dispatch_args &args, const snapshot &snapshot,
                                             const agreement &agreement, const headers &headers, uint64_t op) {
  cuda_state *state = args.state;
  cuda_counters &counters = state->counters;
  const cuda_view &view = *agreement.view;
  // These loads come first, so that they run together.
  uint64_t lost = ptx::load_volatile(&counters.lost), gone = ptx::load_volatile(&state->control.gone);
  uint64_t masked = ptx::load_volatile(&state->control.masked);
  if (ptx::load_volatile(&counters.received) == op)
    await_arrival(state, op);
  const summary summary(headers, view.count);
  uint32_t next_live = snapshot.counters.live[(op + 1) % CUDA_LIVE];
  if (agreement.adopted) {
    state->live[agreement.live] = view;
    counters.newest = agreement.live;
    counters.live[op % CUDA_LIVE] = (uint8_t)agreement.live;
    if (snapshot.live[next_live].epoch < view.epoch)
      counters.live[(op + 1) % CUDA_LIVE] = (uint8_t)(next_live = agreement.live);
    report_activation(state, op, view.epoch);
  }
  if (agreement.out != NOT_PUBLISHED) { // this rank is out of the group from the next operation on
    next_live = counters.newest = (counters.newest + 1) % CUDA_LIVE;
    make_live(state->live[next_live], state->published[agreement.out], view, op + 1, 0, 1);
    counters.live[(op + 1) % CUDA_LIVE] = (uint8_t)next_live;
    report_activation(state, op + 1, state->live[next_live].epoch);
  }
  const cuda_view &next = agreement.out != NOT_PUBLISHED ? state->live[next_live] : snapshot.live[next_live];
  decide(state, view, next, next_live, summary.lowest, op);
  counters.given_up = lost | gone;
  counters.masked = masked;
  counters.taken_dispatch = op - summary.dispatches;
  counters.taken_combine = op - summary.combines;
  uint64_t received = headers.received;
#pragma unroll 1
  for (uint32_t m = 0; m < view.count; m++)
    state->handle[op % CUDA_LIVE].rows[m] = headers.rows(args.layout, m);
  uint64_t all = view.count == 64 ? ~0ull : (1ull << view.count) - 1;
  state->handle[op % CUDA_LIVE].late = summary.late;
  state->handle[op % CUDA_LIVE].passed = received == all ? 0 : seats_passed_over(view, received, lost | gone);
  device_record &record = state->record[op % CUDA_RECORDS];
  record.op = op;
  record.epoch = view.epoch;
  record.mark = summary.mark;
  record.num_ranks = view.count;
  record.kind = args.d.kind;
  record.other_kinds = args.d.kind == KIND_BARRIER ? received & ~summary.barriers : summary.barriers;
  ptx::set_bits(&record.lost, all & ~received);
#pragma unroll 1
  for (uint32_t m = 0; args.d.wait_ns && m < view.count; m++)
    args.d.wait_ns[view.members[m].rank] += (int64_t)record.wait_ns[m];
  state->progress.received = op + 1;
}

// Receives the headers of all members, as every block does, until all blocks agree on the members whose headers
// arrived. `receive` receives the headers of a view; its `newer` says whether this warp's member runs in a newer view.
// [role]
template <typename RECEIVE>
__device__ __forceinline__ void receive_until_agreed(const cuda_dispatch_args &args, snapshot &snapshot,
                                                     agreement &agreement, headers &headers, uint64_t op,
                                                     const role &role, const RECEIVE &receive) {
  if (role.thread() == 0) {
    agreement = {&view_of(snapshot, op), snapshot.counters.live[op % CUDA_LIVE], 0, false, NOT_PUBLISHED};
    headers.given_up = snapshot.counters.given_up;
    headers_begin(headers);
  }
  role.sync();
  // One warp waits for each member; the other warps have nothing to do yet.
  struct role idle = role;
  idle.first += min(agreement.view->count, role.warps - 1);
  idle.warps -= idle.first - role.first;
  if (idle.includes_me())
    empty_read(args.layout, args.state, snapshot, warp_set(idle));
  for (bool again = false;;) {
    bool newer, fine = receive(*agreement.view, &newer);
    bool unusual = role.sync_or(!fine || newer);
    if (!unusual && agreement.round == 0 && !again) {
      if (role.thread() == 0)
        ptx::add(&args.state->votes[op % CUDA_LIVE].all, 1);
      return;
    }
    const struct role copy = role; // a copy, since an object to which a pointer exists is kept in memory
    uint32_t rc = agree(args, snapshot, agreement, headers, op, copy, again);
    if (rc == AGREED)
      return;
    again = rc == RECEIVE_AGAIN;
    if (role.thread() == 0)
      headers_begin(headers);
    role.sync();
  }
}

__device__ __forceinline__ void receive_all_headers(const cuda_dispatch_args &args, snapshot &snapshot,
                                                    agreement &agreement, headers &headers, const places &places,
                                                    uint64_t op, const role &role) {
  receive_until_agreed(args, snapshot, agreement, headers, op, role, [&](const cuda_view &view, bool *newer) {
    return receive_headers(args, view, headers, places, op, role, newer);
  });
}

// Whether the lead block places no rows. With many blocks it places none: if its other warps place rows, the thread in
// conclude() takes 4 us and ends after everything else.
__device__ __forceinline__ bool lead_block_apart(const role &role) {
  return role.blocks >= FEW_BLOCKS;
}
// The warps that place rows.
__device__ __forceinline__ warp_set placers(const role &role) {
  struct role placing = role;
  placing.blocks -= lead_block_apart(role);
  return warp_set(placing);
}

// `memory`: shared. [role]
template <int EACH>
__device__ __forceinline__ void receive(const cuda_dispatch_args &args, snapshot &snapshot, uint32_t *memory,
                                        const role &role, const warp_set &placers) {
  __shared__ headers headers;
  __shared__ agreement agreement;
  uint64_t op = snapshot.counters.received;
  places places = {memory};
  const cuda_view &view = view_of(snapshot, op);
  packet_cursor first(args, view, placers.index);
  first.m = ptx::here(first.m);
  first.row = ptx::here(first.row);
  first.index = ptx::here(first.index);
  receive_all_headers(args, snapshot, agreement, headers, places, op, role);
  trace(args.trace, 3, role.thread() == 0);
  if (is_lead_block()) {
    if (role.thread() == role.threads() - WARP)
      conclude(args, snapshot, agreement, headers, op);
    if (lead_block_apart(role))
      return notify(args, *agreement.view, op, role);
  }
  write_counts(args, *agreement.view, headers, places, placers, args.state->record[op % CUDA_RECORDS]);
  if (agreement.view != &view)
    first = packet_cursor(args, *agreement.view, placers.index);
  place_rows<EACH>(args, snapshot, *agreement.view, headers, places, first, op, placers);
  notify(args, *agreement.view, op, role);
  trace(args.trace, 4, role.thread() == 0);
}

#endif
