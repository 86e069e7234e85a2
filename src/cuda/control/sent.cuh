// The sending half of control: sends the headers of a throughput dispatch, with the numbers of what the route sends to
// each rank.
#ifndef CUDA_CONTROL_SENT_CUH
#define CUDA_CONTROL_SENT_CUH

#include "cuda/control/control.h"
#include "cuda/dispatch/roles.cuh"
#include "cuda/dispatch/send_metadata.cuh"
#include "cuda/throughput/steps.cuh"

namespace {

// The plan's counts; the pointers are loaded before the plan has counted. `number`: of the kept route, kept_route().
struct planned {
  const uint32_t *counts, *tokens, *sums; // as in struct cuda_route
  uint32_t number;
};

// Field `i` of the header to a seat.
__device__ __forceinline__ uint32_t field_of(const cuda_control_args &args, const planned &route, uint32_t seat,
                                             uint32_t i) {
  // the plan has left out masked seats; with a kept route, the seats that were masked when it was filled
  bool rows = !args.no_rows;
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

// Sends the header and the fields to one member. [warp]
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
  constexpr uint32_t FIELDS = CUDA_UNIT_COUNTS / 2; // fields of a unit
#pragma unroll 1
  for (uint32_t unit = lane; unit < layout.count_units; unit += WARP)
    ptx::store_unit((cuda_unit *)(slot + layout.counts) + unit,
                    make_uint4(field_of(args, route, seat, unit * FIELDS),
                               field_of(args, route, seat, unit * FIELDS + 1),
                               field_of(args, route, seat, unit * FIELDS + 2), flag));
}

// The number + 1 of the operation that filled the kept route: its low half, as it is sent.
__device__ __forceinline__ uint32_t kept_route(const cuda_control_args &args) {
  return args.keeps ? (uint32_t)args.filled->op : 0;
}

// Writes the data about this rank's own tokens for the records and the later kernels. [one thread]
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

// Writes the data of the operation that senders of rows need in addition to the plan. `open`: seats to which rows are
// sent. [role]
__device__ __forceinline__ void write_sending(const cuda_control_args &args, const cuda_view &view, uint64_t open,
                                              uint64_t op, const role &role) {
  cuda_flow_op &out = *args.op;
  if (role.thread() == 0) {
    out.op = op;
    out.self = view.count ? view.members[view.self].seat : 0;
    out.count = 0; // nothing has arrived yet
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
    // rows are sent when the member has read all that was sent to it before
    cuda_flow_sent &sent = sent_to(args, member);
    sent.rows = sent.newest;
  }
}

// Records to which members rows of this operation are sent. [role]
__device__ __forceinline__ void note_sent(const cuda_control_args &args, const planned &route, const cuda_view &view,
                                          uint64_t open, uint64_t op, const role &role) {
#pragma unroll 1
  for (uint32_t m = role.thread(); m < view.count; m += role.threads()) {
    const cuda_member &member = view.members[m];
    if (m != view.self && member.seat < DEVICE_SEATS && open >> member.seat & 1 && route.tokens[member.seat] > 0)
      sent_to(args, member).newest = op + 1;
  }
}

// Writes the data that senders of rows need, and sends the headers when the plan has counted. This rank's own header is
// sent last, so that everything that is written when all headers have arrived is written after that. [role]
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
      publish_step(&args.op->ready, CUDA_READY_SENDING);
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

} // namespace

#endif
