// Control of a dispatch of many tokens: the headers of all ranks, with what the route sends to each; and from them what
// the kernels that move rows have to know (op.h). By one block.
#ifndef CUDA_CONTROL_CONTROL_CUH
#define CUDA_CONTROL_CONTROL_CUH

#include "cuda/control/control.h"
#include "cuda/dispatch/receive.cuh"
#include "cuda/dispatch/roles.cuh"
#include "cuda/dispatch/send_metadata.cuh"
#include "cuda/throughput/steps.cuh"

namespace {

enum { BARRIER_SEND = 3 };
constexpr uint32_t SENDING_WARPS = 4;

// Warps that send headers, where this kernel does both halves, and those that receive.
__device__ __forceinline__ role senders(bool receives) {
  return {0, 1, 0, receives ? SENDING_WARPS : (uint32_t)WARPS, BARRIER_SEND};
}
__device__ __forceinline__ role receivers(bool sends) {
  uint32_t first = sends ? SENDING_WARPS : 0;
  return {0, 1, first, WARPS - first, BARRIER_RECEIVE};
}

// --- what is sent ---

// What the plan has counted, looked up before it has. `number`: of the kept route, kept_route().
struct planned {
  const uint32_t *counts, *tokens, *sums; // as in struct cuda_route
  uint32_t number;
};

// Field `i` of the header to a seat.
__device__ __forceinline__ uint32_t field_of(const cuda_control_args &args, const planned &route, uint32_t seat,
                                             uint32_t i) {
  bool rows = !args.no_rows; // the plan has left out seats that are masked, of a kept route those of its filling
  if (args.base.d.kind == KIND_BARRIER)
    return 0;
  if (i < args.experts)
    return rows ? route.counts[seat * args.experts + i] : 0;
  switch (i - args.experts) {
  case CUDA_FIELD_ROWS:
    return rows ? route.tokens[seat] : 0;
  case CUDA_FIELD_ROUTE:
    return route.number;
  case CUDA_FIELD_FORM:
    return args.form;
  default:
    return 0;
  }
}

// Header and fields, to one member. [warp]
__device__ __forceinline__ void send_fields(const cuda_control_args &args, const planned &route,
                                            const snapshot &snapshot, const cuda_view &view, uint32_t m, uint64_t op) {
  const cuda_layout &layout = args.base.layout;
  uint32_t lane = threadIdx.x % WARP, flag = (uint32_t)op + 1, seat = view.members[m].seat;
  char *slot = slot_of(layout, view.members[m].out, op);
  uint64_t mark = snapshot.control.mark;
  order_credit(snapshot);
  if (lane < HEAD_UNITS) {
    uint4 count =
        make_uint4(head_bits(args.base, snapshot, op), (uint32_t)view.epoch, (uint32_t)snapshot.control.ready, flag);
    uint4 unit = lane == 0 ? count : make_uint4((uint32_t)mark, (uint32_t)(mark >> 32), 0, flag);
    ptx::store_unit((cuda_unit *)slot + lane, unit);
  }
  constexpr uint32_t FIELDS = CUDA_UNIT_COUNTS / 2; // of a unit
#pragma unroll 1
  for (uint32_t unit = lane; unit < layout.count_units; unit += WARP)
    ptx::store_unit((cuda_unit *)(slot + layout.counts) + unit,
                    make_uint4(field_of(args, route, seat, unit * FIELDS),
                               field_of(args, route, seat, unit * FIELDS + 1),
                               field_of(args, route, seat, unit * FIELDS + 2), flag));
}

// The number, + 1, of the operation that filled the kept route; its low half, as it travels.
__device__ __forceinline__ uint32_t kept_route(const cuda_control_args &args) {
  return args.keeps ? (uint32_t)args.filled->op : 0;
}

// What the records and the kernels behind have to know of this rank's own tokens. [one thread]
__device__ __forceinline__ void record_sent(const cuda_control_args &args, const planned &route, const cuda_view &view,
                                            uint64_t open, uint64_t op) {
  cuda_state *state = args.base.state;
  cuda_handle &handle = state->handle[op % CUDA_LIVE];
  device_record &record = state->record[op % CUDA_RECORDS];
  handle.tokens = handle.sent = handle.quantized = handle.kept = 0;
  if (args.base.d.kind == KIND_BARRIER)
    return;
  uint32_t rows = 0;
#pragma unroll 1
  for (uint32_t m = 0; m < view.count; m++) {
    uint32_t seat = view.members[m].seat;
    if (m != view.self && seat < DEVICE_SEATS && open >> seat & 1 && !args.no_rows)
      rows += route.tokens[seat];
  }
  record.tokens = route.sums[0];
  record.selections = args.no_rows ? 0 : route.sums[1];
  record.unsent = route.sums[2];
  record.sent_rows = rows;
}

__device__ __forceinline__ cuda_flow_sent &sent_to(const cuda_control_args &args, const cuda_member &member) {
  return ((cuda_flow_head *)(member.in + args.stream))->sent;
}

// What whoever sends rows has to know of the operation, apart from the plan. `open`: seats that they go to. [role]
__device__ __forceinline__ void write_sending(const cuda_control_args &args, const cuda_view &view, uint64_t open,
                                              uint64_t op, const role &role) {
  cuda_flow_op &out = *args.op;
  if (role.thread() == 0) {
    out.op = op;
    out.self = view.count ? view.members[view.self].seat : 0;
    out.count = 0; // nothing has come
    out.seats = !args.keeps ? open : args.filled->op ? open & args.filled->seats : 0;
    out.lost = out.answers_lost = out.absent = 0;
  }
#pragma unroll 1
  for (uint32_t m = role.thread(); m < view.count; m += role.threads()) {
    const cuda_member &member = view.members[m];
    if (member.seat >= DEVICE_SEATS)
      continue;
    out.in[member.seat] = member.in + args.stream;
    out.out[member.seat] = member.out + args.stream;
    if (m == view.self || !(open >> member.seat & 1))
      continue;
    cuda_flow_sent &sent = sent_to(args, member); // they go when it has read those that it was sent before
    sent.rows = sent.newest;
  }
}

// Which members rows of this operation go to. [role]
__device__ __forceinline__ void note_sent(const cuda_control_args &args, const planned &route, const cuda_view &view,
                                          uint64_t open, uint64_t op, const role &role) {
#pragma unroll 1
  for (uint32_t m = role.thread(); m < view.count; m += role.threads()) {
    const cuda_member &member = view.members[m];
    if (m != view.self && member.seat < DEVICE_SEATS && open >> member.seat & 1 && route.tokens[member.seat] > 0)
      sent_to(args, member).newest = op + 1;
  }
}

// What whoever sends rows has to know; and the headers, when the plan has counted. This rank's own header goes last: so
// whatever is written when all headers have come is written after that. [role]
__device__ __forceinline__ void send_control(const cuda_control_args &args, const planned &route,
                                             const snapshot &snapshot, const role &role) {
  uint64_t op = snapshot.counters.sent;
  const cuda_view &view = view_of(snapshot, op);
  uint64_t open = await_credit(args.base.state, snapshot, view, op, snapshot.counters.taken_dispatch,
                               &cuda_area_head::taken_dispatch);
  if (!args.no_rows)
    write_sending(args, view, open, op, role);
  role.sync();
  if (role.thread() == 0) {
    if (!args.no_rows)
      say_step(&args.op->ready, CUDA_READY_SENDING);
    if (args.overlaps)
      await_step(&args.op->counted, op + 1);
  }
  role.sync();
#pragma unroll 1
  for (uint32_t m = role.thread() / WARP; m < view.count; m += role.warps)
    if (m != view.self && view.members[m].seat < DEVICE_SEATS && open >> view.members[m].seat & 1)
      send_fields(args, route, snapshot, view, m, op);
  if (!args.no_rows)
    note_sent(args, route, view, open, op, role);
  role.sync();
  if (role.thread() / WARP == 1 && view.self < view.count && open >> view.members[view.self].seat & 1)
    send_fields(args, route, snapshot, view, view.self, op);
  if (role.thread() == 2 * WARP)
    record_sent(args, route, view, open, op);
}

// --- what comes ---

// Field `i` of a member's header.
__device__ __forceinline__ uint32_t field_came(const cuda_control_args &args, const places &places, uint32_t m,
                                               uint32_t i) {
  const uint32_t *halves = places.counts + m * args.base.layout.experts + 2 * i;
  return halves[0] | halves[1] << 16;
}

// Whether a rank has joined the view since the route was filled that a header names; 0: it names none. Rows that went
// by it would miss that rank, so none move, and all find that out in the same operation: they have the same headers. A
// rank counts itself, and those that it met when it joined, from its first operation on. [warp]
__device__ __forceinline__ bool is_outdated(const cuda_view &view, uint32_t route) {
  bool joined = false;
#pragma unroll 1
  for (uint32_t m = threadIdx.x % WARP; m < view.count; m += WARP)
    joined |= (int32_t)((uint32_t)view.members[m].since - route) >= 0;
  return route != 0 && __any_sync(~0u, joined);
}

// Whether the rows that a header tells of can be read: they have this rank's form, go the ways of the same route, and
// are as many as there can be. [warp]
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
  else // one of them is a barrier's, or it goes to a rank that its sender had not counted yet
    fine &= rows == 0;
  return __all_sync(~0u, fine);
}

// As receive_headers(): one warp for each member. [role]
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

// Whether some rank goes by a route that misses another. [warp]
__device__ __forceinline__ bool is_conflict(const cuda_control_args &args, const cuda_view &view,
                                            const headers &headers, const places &places) {
  bool found = args.keeps && args.filled->op == 0;
#pragma unroll 1
  for (uint32_t m = 0; m < view.count; m++)
    if (headers.received >> m & 1)
      found |= is_outdated(view, field_came(args, places, m, args.experts + CUDA_FIELD_ROUTE));
  return found && args.base.d.kind != KIND_BARRIER;
}

// The same by a kept route. `seats`: that take part. [one thread]
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

// The operation, for the kernels that move its rows. `here`: members that take part. [one thread]
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

// Rows that were sent before it was known whether the member takes part: one that does not reads none of them.
__device__ __forceinline__ void forget_rows(const cuda_control_args &args, const cuda_member &member, uint64_t op) {
  cuda_flow_sent &sent = sent_to(args, member);
  if (sent.newest == op + 1)
    sent.newest = 0;
}

// What it knows of each member. [role]
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

// Rows that all sources together have for an expert.
__device__ __forceinline__ uint32_t total_of(const cuda_control_args &args, const cuda_view &view, const places &places,
                                             uint64_t here, uint32_t expert) {
  uint32_t sum = 0;
#pragma unroll 1
  for (uint32_t m = 0; m < view.count; m++)
    sum += here >> m & 1 ? field_came(args, places, m, expert) : 0;
  return sum;
}

// Rows, by layout, of the record; and of the route that is filled. [warp]
__device__ __forceinline__ void count_rows(const cuda_control_args &args, const cuda_view &view, const places &places,
                                           uint64_t here, uint64_t op) {
  uint32_t lane = threadIdx.x % WARP, pairs = 0, selections = 0, most = 0, packed = 0, filled = 0;
#pragma unroll 1
  for (uint32_t m = lane; m < view.count; m += WARP)
    pairs += here >> m & 1 ? field_came(args, places, m, args.experts + CUDA_FIELD_ROWS) : 0;
  bool kept = args.keeps && !args.no_rows && here; // then the places of those who have left count too
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
  args.op->pairs = pairs;
  if (!args.filled || args.keeps)
    return;
  args.filled->num_rows = pairs;
  args.filled->packed_rows = filled;
}

// The route that this dispatch fills. [one thread]
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

// What has come: first for the kernel behind, which may wait for it; then for the records and the route. [role]
__device__ __forceinline__ void write_came(const cuda_control_args &args, const cuda_view &view, const headers &headers,
                                           const places &places, uint64_t op, bool conflict, const role &role) {
  bool rows = args.base.d.kind != KIND_BARRIER && !conflict;
  uint64_t here = headers.received;
  if (role.thread() == role.threads() - WARP)
    write_op(args, view, here, op, conflict);
  write_members(args, view, places, conflict ? 0 : here, op, rows && args.keeps, role);
  role.sync();
  if (role.thread() == 2 * WARP)
    say_step(&args.op->ready, CUDA_READY_ALL);
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

template <bool SENDS, bool RECEIVES>
__global__ void __launch_bounds__(BLOCK, 1) control(const __grid_constant__ cuda_control_args args) {
  extern __shared__ __align__(128) char memory[];
  __shared__ snapshot snapshot;
  constexpr steps STEPS = {SENDS, RECEIVES, false, false, false, false, false, 0};
  const role sending = senders(RECEIVES), receiving = receivers(SENDS);
  touch(args);
  if (!args.overlaps)
    ptx::await_previous();
  if (threadIdx.x == 0)
    clear_step(&args.op->ready);
  __syncthreads();
  ptx::let_next();
  const snapshot_part<BLOCK> part(args.base.state);
  part.put(snapshot);
  __syncthreads();
  const planned route = {args.route->counts, args.route->tokens, args.route->sums, kept_route(args)};
  if (threadIdx.x / WARP == WARPS - 1) { // the plan has looked at the counters: it lets no kernel in before
    publish(snapshot, args.base.state, STEPS);
    if (SENDS && args.base.d.replays && threadIdx.x % WARP == 0)
      args.base.state->report->replayed = snapshot.counters.sent + 1;
    arrive(snapshot, args.base.state, STEPS);
  }
  if (SENDS && sending.includes_me())
    send_control(args, route, snapshot, sending);
  if (RECEIVES && receiving.includes_me())
    receive_control(args, snapshot, (uint32_t *)memory, receiving);
  if (args.overlaps)
    ptx::await_previous();
}

} // namespace

#endif
