// The receiving half of control: receives the headers of all ranks, and derives from them the data for the kernels that
// move rows (op.h).
#ifndef CUDA_CONTROL_RECEIVED_CUH
#define CUDA_CONTROL_RECEIVED_CUH

#include "cuda/control/control.h"
#include "cuda/control/sent.cuh"
#include "cuda/dispatch/receive.cuh"

namespace {

// Field `i` of a member's header.
__device__ __forceinline__ uint32_t field_came(const cuda_control_args &args, const places &places, uint32_t m,
                                               uint32_t i) {
  const uint32_t *halves = places.counts + m * args.base.layout.experts + 2 * i;
  return halves[0] | halves[1] << 16;
}

// Whether a rank has joined the view after the route that a header names was filled; 0: the header names no route. Rows
// that use such a route would miss that rank, so no rows are moved. All ranks find that out in the same operation,
// since they have the same headers. A rank counts itself, and the ranks that it met when it joined, from its first
// operation on. [warp]
__device__ __forceinline__ bool is_outdated(const cuda_view &view, uint32_t route) {
  bool joined = false;
#pragma unroll 1
  for (uint32_t m = threadIdx.x % WARP; m < view.count; m += WARP)
    joined |= (int32_t)((uint32_t)view.members[m].since - route) >= 0;
  return route != 0 && __any_sync(~0u, joined);
}

// Whether the rows that a header announces can be read: they have this rank's form, use the same route, and are not
// more than there can be. [warp]
__device__ __forceinline__ bool fits(const cuda_control_args &args, const cuda_view &view, const places &places,
                                     uint32_t m, uint32_t route) {
  uint32_t E = args.experts, form = field_came(args, places, m, E + CUDA_FIELD_FORM);
  uint32_t rows = field_came(args, places, m, E + CUDA_FIELD_ROWS);
  bool fine = rows <= args.max_tokens;
#pragma unroll 1
  for (uint32_t e = threadIdx.x % WARP; e < E; e += WARP)
    fine &= field_came(args, places, m, e) <= min(rows, args.max_tokens) * args.topk;
  uint32_t theirs = field_came(args, places, m, E + CUDA_FIELD_ROUTE);
  if (form != 0 && args.base.d.kind != KIND_BARRIER)
    fine &=
        (theirs == route && (rows == 0 || form == args.form)) || is_outdated(view, theirs) || is_outdated(view, route);
  else // one of the headers belongs to a barrier, or was sent to a rank that its sender did not count yet
    fine &= rows == 0;
  return __all_sync(~0u, fine);
}

// Like receive_headers(): one warp for each member. [role]
__device__ __forceinline__ bool receive_fields(const cuda_control_args &args, const cuda_view &view, headers &headers,
                                               const places &places, uint64_t op, uint32_t route, const role &role,
                                               bool *newer) {
  bool all = true;
  *newer = false;
#pragma unroll 1
  for (uint32_t m = role.thread() / WARP; m < view.count; m += role.warps) {
    uint32_t epoch = 0, count = 0;
    if (!takes_part(headers, view.members[m]))
      continue;
    bool here = receive_header(args.base, view, headers, places, m, op, &epoch, &count);
    __syncwarp();
    if (here && !fits(args, view, places, m, route)) {
      lose_other_form(args.base.state, view.members[m].seat);
      here = false;
    }
    *newer |= here && epoch > (uint32_t)view.epoch;
    if (threadIdx.x % WARP == 0)
      set_shared(here ? headers.received : headers.failed, m);
    all &= here;
  }
  return all;
}

// Whether some rank uses a route that misses another rank. [warp]
__device__ __forceinline__ bool is_conflict(const cuda_control_args &args, const cuda_view &view,
                                            const headers &headers, const places &places) {
  bool found = args.keeps && args.filled->op == 0;
#pragma unroll 1
  for (uint32_t m = 0; m < view.count; m++)
    if (headers.received >> m & 1)
      found |= is_outdated(view, field_came(args, places, m, args.experts + CUDA_FIELD_ROUTE));
  return found && args.base.d.kind != KIND_BARRIER;
}

// Replaces what is different with a kept route. `seats`: seats that take part. [one thread]
__device__ __forceinline__ void write_kept_op(const cuda_control_args &args, uint64_t seats) {
  cuda_flow_op &out = *args.op;
  const cuda_filled &filled = *args.filled;
  out.count = filled.count;
#pragma unroll 1
  for (uint32_t i = 0; i < filled.count; i++)
    out.by_rank[i] = filled.by_rank[i];
  out.seats = seats & filled.seats;
  out.absent = filled.seats & ~seats;
  out.counts = filled.counts;
}

// Writes the operation's struct for the kernels that move its rows. `here`: members that take part. [one thread]
__device__ __forceinline__ void write_op(const cuda_control_args &args, const cuda_view &view, uint64_t here,
                                         uint64_t op, bool conflict) {
  cuda_flow_op &out = *args.op;
  uint32_t count = 0;
  uint64_t seats = 0;
  out.op = op;
  out.answer = op * EP_MAX_COMBINES;
  out.self = view.count ? view.members[view.self].seat : 0;
#pragma unroll 1
  for (uint32_t m = 0; m < view.count; m++) {
    uint32_t seat = view.members[m].seat;
    if (seat >= DEVICE_SEATS)
      continue;
    out.by_rank[count++] = (uint8_t)seat;
    seats |= here >> m & 1 ? 1ull << seat : 0;
  }
  out.count = count;
  out.seats = conflict ? 0 : seats;
  out.counts = args.counts;
  out.lost = out.answers_lost = out.absent = 0;
  if (args.keeps && args.base.d.kind != KIND_BARRIER && !conflict)
    write_kept_op(args, seats);
}

// Forgets rows that were sent before it was known whether the member takes part: a member that does not take part reads
// none of them.
__device__ __forceinline__ void forget_rows(const cuda_control_args &args, const cuda_member &member, uint64_t op) {
  cuda_flow_sent &sent = sent_to(args, member);
  if (sent.newest == op + 1)
    sent.newest = 0;
}

// Writes the part of the struct about each member. [role]
__device__ __forceinline__ void write_members(const cuda_control_args &args, const cuda_view &view,
                                              const places &places, uint64_t here, uint64_t op, bool kept,
                                              const role &role) {
  cuda_flow_op &out = *args.op;
  uint32_t E = args.experts;
#pragma unroll 1
  for (uint32_t i = role.thread(); kept && i < args.filled->count; i += role.threads()) {
    uint32_t seat = args.filled->by_rank[i];
    out.rows[seat] = args.filled->rows[seat];
    out.rank[seat] = args.filled->seat_rank[seat];
  }
#pragma unroll 1
  for (uint32_t m = role.thread(); m < view.count; m += role.threads()) {
    const cuda_member &member = view.members[m];
    if (member.seat >= DEVICE_SEATS)
      continue;
    if (!kept) {
      out.rows[member.seat] = here >> m & 1 ? field_came(args, places, m, E + CUDA_FIELD_ROWS) : 0;
      out.rank[member.seat] = member.rank;
    }
    out.member[member.seat] = (uint8_t)m;
    out.in[member.seat] = member.in + args.stream;
    out.out[member.seat] = member.out + args.stream;
    if (!args.no_rows && m != view.self && !(here >> m & 1))
      forget_rows(args, member, op);
  }
#pragma unroll 1
  for (uint32_t i = role.thread(); !kept && i < view.count * E; i += role.threads()) {
    uint32_t m = divide(i, args.by_experts), expert = i - m * E, seat = view.members[m].seat;
    uint32_t count = here >> m & 1 ? field_came(args, places, m, expert) : 0;
    if (seat >= DEVICE_SEATS)
      continue;
    args.counts[seat * E + expert] = count;
    if (args.filled && !args.keeps)
      args.filled->counts[seat * E + expert] = count;
  }
}

// The number of rows of all sources for an expert.
__device__ __forceinline__ uint32_t total_of(const cuda_control_args &args, const cuda_view &view, const places &places,
                                             uint64_t here, uint32_t expert) {
  uint32_t sum = 0;
#pragma unroll 1
  for (uint32_t m = 0; m < view.count; m++)
    sum += here >> m & 1 ? field_came(args, places, m, expert) : 0;
  return sum;
}

// Counts the rows, by layout, for the record and for the route that is being filled. [warp]
__device__ __forceinline__ void count_rows(const cuda_control_args &args, const cuda_view &view, const places &places,
                                           uint64_t here, uint64_t op) {
  uint32_t lane = threadIdx.x % WARP, pairs = 0, selections = 0, most = 0, packed = 0, filled = 0;
#pragma unroll 1
  for (uint32_t m = lane; m < view.count; m += WARP)
    pairs += here >> m & 1 ? field_came(args, places, m, args.experts + CUDA_FIELD_ROWS) : 0;
  bool kept = args.keeps && !args.no_rows && here; // then the places of ranks that have left count, too
  pairs = kept ? lane == 0 ? args.filled->num_rows : 0 : pairs;
#pragma unroll 1
  for (uint32_t e = lane; e < args.experts; e += WARP) {
    uint32_t total = kept ? args.filled->totals[e] : total_of(args, view, places, here, e);
    selections += total;
    most = max(most, total);
    packed += cuda_round_up(total, args.alignment);
    filled += cuda_round_up(total, args.filled_alignment);
    if (args.filled && !args.keeps)
      args.filled->totals[e] = total;
  }
  pairs = __reduce_add_sync(~0u, pairs);
  selections = __reduce_add_sync(~0u, selections);
  most = __reduce_max_sync(~0u, most);
  packed = __reduce_add_sync(~0u, packed);
  filled = __reduce_add_sync(~0u, filled);
  if (lane != 0)
    return;
  device_record &record = args.base.state->record[op % CUDA_RECORDS];
  bool by_rank = args.layout == WEFT_EP_RANK_MAJOR;
  record.num_rows = by_rank ? pairs : selections;
  record.needed_rows = by_rank ? pairs : args.layout == WEFT_EP_PACKED ? packed : most;
  args.op->pairs = args.keeps && here ? args.filled->num_rows : pairs;
  args.op->max_rows = args.route->max_rows;
  if (!args.filled || args.keeps)
    return;
  args.filled->num_rows = pairs;
  args.filled->packed_rows = filled;
}

// Writes the data about this dispatch into the route that it fills. [one thread]
__device__ __forceinline__ void write_filled(const cuda_control_args &args, const cuda_view &view, const places &places,
                                             uint64_t here, uint64_t op) {
  cuda_filled &out = *args.filled;
  uint64_t all = view.count == 64 ? ~0ull : (1ull << view.count) - 1;
  uint32_t end = 0;
  out.epoch = view.epoch;
  out.lost = all & ~here;
  out.num_ranks = view.count;
  out.seats = out.count = 0;
#pragma unroll 1
  for (uint32_t m = 0; m < view.count; m++) {
    uint32_t rows = here >> m & 1 ? field_came(args, places, m, args.experts + CUDA_FIELD_ROWS) : 0;
    uint32_t seat = view.members[m].seat;
    end += rows;
    out.rank_end[m] = end;
    out.rank[m] = view.members[m].rank;
    if (seat >= DEVICE_SEATS)
      continue;
    out.by_rank[out.count++] = (uint8_t)seat;
    out.seats |= here >> m & 1 ? 1ull << seat : 0;
    out.seat_rank[seat] = view.members[m].rank;
    out.rows[seat] = rows;
  }
  out.op = op + 1;
}

// Writes the result of the headers: first for the next kernel, which may wait for it; then for the records and the
// route. [role]
__device__ __forceinline__ void write_came(const cuda_control_args &args, const cuda_view &view, const headers &headers,
                                           const places &places, uint64_t op, bool conflict, const role &role) {
  bool rows = args.base.d.kind != KIND_BARRIER && !conflict;
  uint64_t here = headers.received;
  if (role.thread() == role.threads() - WARP)
    write_op(args, view, here, op, conflict);
  write_members(args, view, places, conflict ? 0 : here, op, rows && args.keeps, role);
  role.sync();
  if (role.thread() == 2 * WARP)
    publish_step(&args.op->ready, CUDA_READY_ALL);
  if (role.thread() == 0 && rows && args.filled && !args.keeps)
    write_filled(args, view, places, here, op);
  if (role.thread() / WARP == 1)
    count_rows(args, view, places, conflict ? 0 : here, op);
}

// `memory`: shared. [role]
__device__ __forceinline__ void receive_control(const cuda_control_args &args, snapshot &snapshot, uint32_t *memory,
                                                const role &role) {
  __shared__ headers headers;
  __shared__ agreement agreement;
  uint64_t op = snapshot.counters.received;
  places places = {memory};
  uint32_t route = kept_route(args);
  receive_until_agreed(args.base, snapshot, agreement, headers, op, role, [&](const cuda_view &view, bool *newer) {
    return receive_fields(args, view, headers, places, op, route, role, newer);
  });
  __shared__ bool conflict;
  if (role.thread() / WARP == 0) {
    bool found = is_conflict(args, *agreement.view, headers, places);
    if (threadIdx.x % WARP == 0)
      conflict = found;
  }
  role.sync();
  write_came(args, *agreement.view, headers, places, op, conflict, role);
  if (role.thread() == role.threads() - WARP) {
    conclude(args.base, snapshot, agreement, headers, op);
    if (conflict)
      args.base.state->record[op % CUDA_RECORDS].kind |= DEVICE_CONFLICT;
  }
}

} // namespace

#endif
