// The metadata of a dispatch: sends the headers with their counts, and every token's routing.
#ifndef CUDA_DISPATCH_SEND_METADATA_CUH
#define CUDA_DISPATCH_SEND_METADATA_CUH

#include "cuda/dispatch/outgoing.cuh"
#include "cuda/dispatch/receive_headers.cuh"

// The bits of a header's first word other than the number of rows.
__device__ __forceinline__ uint32_t head_bits(const cuda_dispatch_args &args, const snapshot &snapshot, uint64_t op) {
  uint32_t late = args.d.num_tokens > 0 && !args.d.topk_weights;
  return args.d.kind << CUDA_HEAD_KIND | head_form(args.layout) | late << CUDA_HEAD_LATE |
         (uint32_t)(op - snapshot.counters.emptied_rows) << CUDA_HEAD_DISPATCHES |
         (uint32_t)(op - snapshot.counters.emptied_answers) << CUDA_HEAD_COMBINES;
}

// Sends the header and counts to one member. [warp]
__device__ __forceinline__ void send_header(const cuda_dispatch_args &args, const snapshot &snapshot,
                                            const cuda_view &view, const outgoing &out, uint32_t m, uint64_t op) {
  const cuda_layout &layout = args.layout;
  uint32_t lane = threadIdx.x % WARP, flag = (uint32_t)op + 1;
  char *slot = slot_of(layout, view.members[m].out, op);
  uint32_t rows = lane < out.words ? __popc(ptx::shared_load(out.of(m, layout.experts) + lane * 4)) : 0;
  rows = __reduce_add_sync(~0u, rows);
  uint64_t mark = snapshot.control.mark;
  order_credit(snapshot); // the header's first unit gives a credit
  if (lane < HEAD_UNITS) {
    uint4 count =
        make_uint4(rows | head_bits(args, snapshot, op), (uint32_t)view.epoch, (uint32_t)snapshot.control.ready, flag);
    uint4 unit = lane == 0 ? count : make_uint4((uint32_t)mark, (uint32_t)(mark >> 32), 0, flag);
    ptx::store_unit((cuda_unit *)slot + lane, unit);
  }
  // Two lanes for each unit; each has half of its experts. Counts beyond the last expert are never read.
  constexpr uint32_t HALF = CUDA_UNIT_COUNTS / 2;
#pragma unroll 1
  for (uint32_t base = 0; base < layout.count_units; base += WARP / 2) {
    uint32_t unit = base + lane / 2, sum[HALF] = {};
    uint32_t bits = out.of(m, min(unit, layout.count_units - 1) * CUDA_UNIT_COUNTS + lane % 2 * HALF);
#pragma unroll 1
    for (uint32_t w = 0; w < out.words; w += QUAD, bits += 16)
#pragma unroll
      for (uint32_t i = 0; i < HALF; i++)
        sum[i] += count_bits(ptx::shared_load16(bits + i * out.words * 4));
    uint32_t fourth = __shfl_down_sync(~0u, sum[0], 1), last = __shfl_down_sync(~0u, sum[1] | sum[2] << 16, 1);
    if (unit < layout.count_units && lane % 2 == 0)
      ptx::store_unit((cuda_unit *)(slot + layout.counts) + unit,
                      make_uint4(sum[0] | sum[1] << 16, sum[2] | fourth << 16, last, flag));
  }
}

// A selection as it is sent. Lane k has selection k.
struct selection_sent {
  int member;      // -1: no rank gets it
  uint64_t unsent; // the member, as a bit, that is in the view but does not get the selection
  bool valid;      // there is a selection
  uint32_t word, weight;
};

// A lane's selection of a token, as the caller gives it; -1: none.
struct selection_given {
  int32_t expert;
  uint32_t weight;

  __device__ __forceinline__ selection_given(const cuda_dispatch_args &args, uint32_t tokens, uint32_t token)
      : expert(-1), weight(0) {
    uint32_t lane = threadIdx.x % WARP;
    size_t at = (size_t)token * args.layout.topk + lane;
    if (lane >= args.layout.topk || token >= tokens)
      return;
    expert = expert_at(args.d.topk_idx, args.d.narrow, at);
    if (args.d.topk_weights)
      weight = __float_as_uint(args.d.topk_weights[at]);
  }
};

__device__ __forceinline__ selection_sent find_selection(const cuda_dispatch_args &args, const cuda_view &view,
                                                         const outgoing &out, uint64_t shut, uint64_t open,
                                                         uint32_t token, const selection_given &given) {
  selection_sent s = {-1, 0, false, 0, given.weight};
  int32_t expert = given.expert;
  s.valid = expert >= 0;
  if (!s.valid)
    return s;
  uint32_t rank = divide((uint32_t)expert, args.layout.by_experts);
  uint32_t local = (uint32_t)expert - rank * args.layout.experts;
#pragma unroll 1
  for (uint32_t m = 0; m < view.count; m++) {
    const cuda_member &member = view.members[m];
    if ((uint32_t)member.rank != rank)
      continue;
    uint64_t bit = member.seat < DEVICE_SEATS ? 1ull << member.seat : 0;
    s.member = bit & ~shut ? (int)m : -1;
    s.unsent = bit & ~shut & open ? 0 : 1ull << m;
  }
  if (s.member >= 0)
    s.word = CUDA_SELECTION_VALID | local << CUDA_SELECTION_EXPERT |
             out.before((uint32_t)s.member, local, token) << CUDA_SELECTION_ROW | token << CUDA_SELECTION_TOKEN;
  return s;
}

// The numbers of what a warp has sent.
struct tally {
  uint32_t rows, selections, missing;

  __device__ __forceinline__ tally() : rows(0), selections(0), missing(0) {}
  __device__ __forceinline__ void end(device_record &record) const {
    if (threadIdx.x % WARP != 0)
      return;
    if (rows)
      ptx::add(&record.sent_rows, rows);
    if (selections)
      ptx::add(&record.selections, selections);
    if (missing)
      ptx::add(&record.unsent, missing);
  }
};

// The two selections of a routing line that one lane has.
struct selection_pair {
  int member[2];
  uint32_t word[2], weight[2];
};

// Writes a routing line to each member that gets the token; one group of lanes for each member. `writes`: whether this
// lane writes. Returns the seats to which this lane's group has written.
__device__ __forceinline__ uint64_t put_routing(const cuda_dispatch_args &args, const cuda_view &view,
                                                const outgoing &out, uint64_t open, const selection_pair &pair,
                                                uint32_t token, uint32_t line, uint64_t op, bool writes) {
  const cuda_layout &layout = args.layout;
  seat_in_packet at;
  uint64_t seats = 0;
#pragma unroll 1
  for (uint32_t m = at.group; m < view.count; m += GROUPS) {
    const cuda_member &member = view.members[m];
    if (!out.has(m, layout.experts, token) || !(open >> member.seat & 1))
      continue;
    seats |= 1ull << member.seat;
    uint4 v = make_uint4(pair.member[0] == (int)m ? pair.word[0] : 0, pair.weight[0],
                         pair.member[1] == (int)m ? pair.word[1] : 0, pair.weight[1]);
    if (at.lane == GROUP - 1) {
      v.z = (uint32_t)(op + 1);
      v.w = (uint32_t)((op + 1) >> 32);
    }
    uint32_t row = out.before(m, layout.experts, token);
    char *to = slot_of(layout, member.out, op) + layout.routing + (row * layout.routing_lines + line) * CUDA_LINE;
    if (writes)
      ptx::store_line(to + at.lane * 16, v);
  }
  return seats;
}

// Sends a token's routing. [warp]
__device__ __forceinline__ void send_routing(const cuda_dispatch_args &args, const snapshot &snapshot,
                                             const cuda_view &view, const outgoing &out, uint64_t open, uint32_t token,
                                             const selection_given &given, uint64_t op, tally &tally) {
  seat_in_packet at;
  selection_sent s = find_selection(args, view, out, shut_seats(args, snapshot), open, token, given);
  uint64_t seats = 0;
  bool flags = at.lane == GROUP - 1;
#pragma unroll 1
  for (uint32_t line = 0; line < args.layout.routing_lines; line++) {
    int even = (int)(line * CUDA_LINE_SELECTIONS + 2 * at.lane), odd = even + 1;
    selection_pair pair = {{__shfl_sync(~0u, s.member, even), __shfl_sync(~0u, s.member, odd)},
                           {__shfl_sync(~0u, s.word, even), __shfl_sync(~0u, s.word, odd)},
                           {__shfl_sync(~0u, s.weight, even), __shfl_sync(~0u, s.weight, odd)}};
    if (snapshot.control.strict) { // see kernels/layout.h
      put_routing(args, view, out, open, pair, token, line, op, !flags);
      ptx::fence_system();
      __syncwarp();
      ptx::fence_system();
    }
    seats |= put_routing(args, view, out, open, pair, token, line, op, flags || !snapshot.control.strict);
  }
  seats = or_over_warp(seats);
  uint64_t own = view.count ? 1ull << view.members[view.self].seat : 0;
  tally.rows += __popcll(seats & ~own);
  tally.selections += __popc(__ballot_sync(~0u, s.valid));
  uint32_t missing = __ballot_sync(~0u, s.valid && (s.member < 0 || s.unsent));
  uint64_t unsent = missing ? or_over_warp(s.unsent) : 0;
  tally.missing += __popc(missing);
  const cuda_handle &handle = snapshot.handle[op % CUDA_LIVE];
  if (threadIdx.x % WARP == 0) {
    handle.members[token] = seats;
    handle.unsent[token] = unsent;
  }
}

// Sends all headers. One block does, because the host may change `ready` and the mark between the snapshots of two
// blocks, and all members have to see the same. The last block has the fewest tokens, and so have its last warps.
// [role]
__device__ __forceinline__ void send_headers(const cuda_dispatch_args &args, const snapshot &snapshot,
                                             const cuda_view &view, const outgoing &out, uint64_t open, uint64_t op,
                                             const role &role) {
  if (blockIdx.x - role.first_block != role.blocks - 1)
    return;
#pragma unroll 1
  for (uint32_t m = role.warps - 1 - role.thread() / WARP; m < view.count; m += role.warps)
    if (view.members[m].seat < DEVICE_SEATS && open >> view.members[m].seat & 1)
      send_header(args, snapshot, view, out, m, op);
}

// Sends the headers, and the routing of every token. `given`: selections of this warp's first token. [role]
__device__ __forceinline__ void send_metadata(const cuda_dispatch_args &args, const snapshot &snapshot,
                                              const cuda_view &view, uint32_t tokens, const outgoing &out,
                                              uint64_t open, selection_given &given, const role &role,
                                              const warp_set &warp_set) {
  uint64_t op = snapshot.counters.sent;
  send_headers(args, snapshot, view, out, open, op, role);
  tally tally;
  if (warp_set.index == 0 && warp_set.lane == 0) {
    cuda_handle &handle = args.state->handle[op % CUDA_LIVE];
    handle.tokens = handle.sent = args.state->record[op % CUDA_RECORDS].tokens = tokens;
    handle.quantized = args.layout.dtype != CUDA_BF16;
    handle.kept = 0;
  }
#pragma unroll 1
  for (uint32_t token = warp_set.index; token < tokens; token += warp_set.count) {
    send_routing(args, snapshot, view, out, open, token, given, op, tally);
    given = selection_given(args, tokens, token + warp_set.count);
  }
  tally.end(args.state->record[op % CUDA_RECORDS]);
}

#endif
