// The sending half of dispatch: headers, routing, and the rows packet by packet.
#ifndef CUDA_SEND_CUH
#define CUDA_SEND_CUH

#include "cuda/cast.cuh"
#include "cuda/outgoing.cuh"

// What x holds and what travels.
enum row_kind {
  ROW_BF16,
  ROW_CAST,  // bf16, cast to e4m3 here
  ROW_GIVEN, // e4m3, with scales
};

template <int KIND> struct row_form {
  static constexpr int EACH = KIND == ROW_BF16 ? CUDA_BF16_CHUNKS : CUDA_FP8_CHUNKS;
  static constexpr int ITERATIONS = packet<EACH>::ITERATIONS;
  static constexpr int LOADS = KIND == ROW_CAST ? 2 : 1; // of 16 bytes, for a lane's part of a line
};

// A lane's part of a packet as x has it.
template <int KIND> struct source_packet {
  uint4 v[row_form<KIND>::ITERATIONS * row_form<KIND>::LOADS];
  uint32_t scale[KIND == ROW_GIVEN ? row_form<KIND>::ITERATIONS : 1];
};

__device__ __forceinline__ uint32_t load_scale(const cuda_dispatch_args &args, uint32_t token, uint32_t chunk) {
  const char *scales = (const char *)args.d.scales + (size_t)token * args.layout.scale_bytes;
  return args.dtype == CUDA_FP8_UE8M0 ? ((const uint8_t *)scales)[chunk] : ((const uint32_t *)scales)[chunk];
}

template <int KIND>
__device__ __forceinline__ void load_source(source_packet<KIND> &s, const cuda_dispatch_args &args, uint32_t token,
                                            uint32_t index) {
  using form = row_form<KIND>;
  seat_in_packet at;
  uint32_t count = chunks_of(args.layout.row, index), first = index * form::EACH;
  uint32_t chunk_bytes = form::LOADS * CUDA_LINE;
  const char *x = (const char *)args.d.x + (size_t)token * args.layout.row.chunks * chunk_bytes;
#pragma unroll
  for (int i = 0; i < form::ITERATIONS; i++) {
    uint32_t chunk = first + at.line(i);
    bool in = at.line(i) < count;
#pragma unroll
    for (int j = 0; j < form::LOADS; j++)
      s.v[i * form::LOADS + j] =
          in ? ptx::load_once16(x + (size_t)chunk * chunk_bytes + at.lane * form::LOADS * 16 + j * 16)
             : make_uint4(0, 0, 0, 0);
    if constexpr (KIND == ROW_GIVEN)
      s.scale[i] = in ? load_scale(args, token, chunk) : 0;
  }
}

// Casts, where that is to be done.
template <int KIND>
__device__ __forceinline__ void make_packet(packet<row_form<KIND>::EACH> &p, const source_packet<KIND> &s, int dtype) {
#pragma unroll
  for (int i = 0; i < row_form<KIND>::ITERATIONS; i++) {
    if constexpr (KIND == ROW_CAST) {
      uint4 low = s.v[2 * i], high = s.v[2 * i + 1];
      uint32_t amax = amax_of(low, high);
#pragma unroll
      for (int step = 1; step < GROUP; step *= 2)
        amax = max(amax, __shfl_xor_sync(~0u, amax, step));
      float inverse, scale = block_scale(amax, dtype != CUDA_FP8, &inverse);
      uint2 a = cast8(low, inverse), b = cast8(high, inverse);
      p.v[i] = make_uint4(a.x, a.y, b.x, b.y);
      p.scale[i] = dtype == CUDA_FP8_UE8M0 ? ue8m0_of(scale) : __float_as_uint(scale);
    } else {
      p.v[i] = s.v[i];
      if constexpr (KIND == ROW_GIVEN)
        p.scale[i] = s.scale[i];
    }
  }
}

// What a header says of this rank beside its rows.
__device__ __forceinline__ uint32_t head_bits(const cuda_dispatch_args &args, const scene &scene, uint64_t op) {
  uint32_t late = args.d.num_tokens > 0 && !args.d.topk_weights;
  return args.d.kind << CUDA_HEAD_KIND | late << CUDA_HEAD_LATE |
         (uint32_t)(op - scene.counters.received) << CUDA_HEAD_DISPATCHES |
         (uint32_t)(op - scene.counters.combined) << CUDA_HEAD_COMBINES;
}

// Header and counts, to one member. [warp]
__device__ __forceinline__ void send_header(const cuda_dispatch_args &args, const scene &scene, const cuda_view &view,
                                            const outgoing &out, uint32_t m, uint64_t op) {
  const cuda_layout &layout = args.layout;
  uint32_t lane = threadIdx.x % WARP;
  char *slot = slot_of(layout, view.members[m].out, op);
  cuda_slot_head *head = (cuda_slot_head *)slot;
  uint64_t mark = scene.control.mark;
  if (lane == 0)
    ptx::store_unit(&head->count, make_uint4(out.total(m, layout.experts) | head_bits(args, scene, op),
                                             (uint32_t)view.epoch, (uint32_t)scene.control.ready, (uint32_t)op + 1));
  if (lane == 1)
    ptx::store_unit(&head->mark, make_uint4((uint32_t)mark, (uint32_t)(mark >> 32), 0, (uint32_t)op + 1));
#pragma unroll 1
  for (uint32_t unit = lane; unit < layout.count_units; unit += WARP) {
    uint32_t first = unit * CUDA_UNIT_COUNTS, sum[CUDA_UNIT_COUNTS] = {};
    const uint32_t *bits = out.of(m, first);
#pragma unroll 1
    for (uint32_t w = 0; w < out.words; w += QUAD)
#pragma unroll
      for (uint32_t i = 0; i < CUDA_UNIT_COUNTS; i++) // beyond the last expert: something, which nobody reads
        sum[i] += count_bits(*(const uint4 *)(bits + i * out.words + w));
    ptx::store_unit((cuda_unit *)(slot + layout.counts) + unit,
                    make_uint4(sum[0] | sum[1] << 16, sum[2] | sum[3] << 16, sum[4] | sum[5] << 16, (uint32_t)op + 1));
  }
}

// A selection as it travels. Lane k has selection k.
struct selection_sent {
  int member;      // -1: nobody gets it
  uint64_t unsent; // the member, as a bit, that is in the view and does not get it
  bool valid;      // there is a selection
  uint32_t word, weight;
};

// A lane's selection of a token, as the caller has it: -1 for none.
struct selection_given {
  int32_t expert;
  uint32_t weight;

  __device__ __forceinline__ selection_given(const cuda_dispatch_args &args, uint32_t token) : expert(-1), weight(0) {
    uint32_t lane = threadIdx.x % WARP;
    size_t at = (size_t)token * args.layout.topk + lane;
    if (lane >= args.layout.topk || token >= args.d.num_tokens)
      return;
    expert = (int32_t)args.d.topk_idx[at];
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

// What a warp has sent.
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
      ptx::add(&record.missing, missing);
  }
};

// Two selections that a lane has of a routing line.
struct selection_pair {
  int member[2];
  uint32_t word[2], weight[2];
};

// Writes a routing line to each member that gets the token: a group of lanes for each. `writes`: whether this lane
// does. Returns their seats, those of this lane's group.
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

// A token's routing. [warp]
__device__ __forceinline__ void send_routing(const cuda_dispatch_args &args, const scene &scene, const cuda_view &view,
                                             const outgoing &out, uint64_t open, uint32_t token,
                                             const selection_given &given, uint64_t op, tally &tally) {
  seat_in_packet at;
  selection_sent s = find_selection(args, view, out, shut_seats(args, scene), open, token, given);
  uint64_t seats = 0;
  bool flags = at.lane == GROUP - 1;
#pragma unroll 1
  for (uint32_t line = 0; line < args.layout.routing_lines; line++) {
    int even = (int)(line * CUDA_LINE_SELECTIONS + 2 * at.lane), odd = even + 1;
    selection_pair pair = {{__shfl_sync(~0u, s.member, even), __shfl_sync(~0u, s.member, odd)},
                           {__shfl_sync(~0u, s.word, even), __shfl_sync(~0u, s.word, odd)},
                           {__shfl_sync(~0u, s.weight, even), __shfl_sync(~0u, s.weight, odd)}};
    if (scene.control.strict) { // as in packet.cuh
      put_routing(args, view, out, open, pair, token, line, op, !flags);
      ptx::fence_system();
      __syncwarp();
      ptx::fence_system();
    }
    seats |= put_routing(args, view, out, open, pair, token, line, op, flags || !scene.control.strict);
  }
  seats = or_over_warp(seats);
  uint64_t own = view.count ? 1ull << view.members[view.self].seat : 0;
  tally.rows += __popcll(seats & ~own);
  tally.selections += __popc(__ballot_sync(~0u, s.valid));
  uint32_t missing = __ballot_sync(~0u, s.valid && (s.member < 0 || s.unsent));
  uint64_t unsent = missing ? or_over_warp(s.unsent) : 0;
  tally.missing += __popc(missing);
  const cuda_handle &handle = scene.handle[op % CUDA_DEPTH];
  if (threadIdx.x % WARP == 0) {
    handle.members[token] = seats;
    handle.unsent[token] = unsent;
  }
}

// Writes a packet to each member that gets the token, beginning with one that differs from rank to rank and token to
// token. [warp]
template <int EACH>
__device__ __forceinline__ void
put_to_members(const cuda_dispatch_args &args, const scene &scene, const cuda_view &view, const outgoing &out,
               uint64_t open, const packet<EACH> &p, uint64_t op, uint32_t token, uint32_t index, char *stage) {
  uint32_t count = chunks_of(args.layout.row, index), lane = threadIdx.x % WARP;
  const parcel<EACH> parcel(p, stage, count, scene.control.strict);
  size_t offset = packet_offset(args.layout, args.layout.row, args.layout.rows, op, 0, index);
#pragma unroll 1
  for (uint32_t base = 0; base < view.count; base += WARP) {
    uint32_t m = base + lane, row = 0;
    bool to = m < view.count && out.has(m, args.layout.experts, token) && open >> view.members[m].seat & 1;
    if (to)
      row = out.before(m, args.layout.experts, token);
    uint32_t all = __ballot_sync(~0u, to), turn = view.self + 1 + token;
    uint32_t ahead = all & ~0u << (turn - divide(turn, view.by_count) * view.count) % WARP;
#pragma unroll 1
    for (uint32_t left = ahead ? ahead : all; left; left = all & ahead ? all & ahead : all) {
      uint32_t i = (uint32_t)__ffs((int)left) - 1;
      all &= ~(1u << i);
      parcel.send(view.members[base + i].out + offset + (size_t)__shfl_sync(~0u, row, (int)i) * args.layout.row.stride);
    }
  }
  parcel.sent();
}

// The first token whose routing a warp sends. Who announces is in a block of the middle, where there is little to
// announce: the first blocks have rows to place, and the last one concludes, for which all of a block must have heard.
__device__ __forceinline__ uint32_t first_token(const role &role) {
  crew crew(role);
  uint32_t middle = crew.count / 2 + role.blocks / 2;
  return crew.index + (crew.index < middle ? crew.count : 0) - middle;
}

// Headers, and routing of every token from `first` on. `given`: that token's. [role]
__device__ __forceinline__ void announce(const cuda_dispatch_args &args, const scene &scene, const cuda_view &view,
                                         const outgoing &out, selection_given &given, uint32_t first,
                                         const crew &crew) {
  uint64_t op = scene.counters.sent;
  uint64_t open =
      await_credit(args.state, scene, view, op, scene.counters.taken_dispatch, &cuda_area_head::taken_dispatch);
#pragma unroll 1
  for (uint32_t m = crew.count - 1 - first; m < view.count; m += crew.count) // beginning before token 0
    if (view.members[m].seat < DEVICE_SEATS && open >> view.members[m].seat & 1)
      send_header(args, scene, view, out, m, op);
  tally tally;
#pragma unroll 1
  for (uint32_t token = first; token < args.d.num_tokens; token += crew.count) {
    send_routing(args, scene, view, out, open, token, given, op, tally);
    given = selection_given(args, token + crew.count);
  }
  tally.end(args.state->record[op % CUDA_RECORDS]);
}

// The rows. `source`: of this warp's first packet, asked for before the scene was known. A warp waits until its packet
// has arrived before it sends the next: more under way would not be faster, and what is small would wait behind it.
// [role]
template <int KIND>
__device__ __forceinline__ void send_rows(const cuda_dispatch_args &args, const scene &scene, const cuda_view &view,
                                          const outgoing &out, source_packet<KIND> &source, const crew &crew,
                                          scratch &scratch, char *stage) {
  constexpr int EACH = row_form<KIND>::EACH;
  uint64_t op = scene.counters.sent;
  uint32_t packets = args.layout.row.packets, jobs = args.d.num_tokens * packets;
  uint64_t open =
      await_credit(args.state, scene, view, op, scene.counters.taken_dispatch, &cuda_area_head::taken_dispatch);
#pragma unroll 1
  for (uint32_t i = crew.index; i < jobs; i += crew.count) {
    uint32_t token = divide(i, args.layout.row.by_packets), index = i - token * packets, next = i + crew.count;
    packet<EACH> p;
    make_packet<KIND>(p, source, args.dtype);
    uint32_t after = divide(next, args.layout.row.by_packets);
    if (next < jobs)
      load_source<KIND>(source, args, after, next - after * packets);
    seal(p, chunks_of(args.layout.row, index), op + 1, scratch);
    parcel<EACH>::wait_until_there(); // the one before
    put_to_members(args, scene, view, out, open, p, op, token, index, stage);
  }
  parcel<EACH>::wait_until_read();
}

#endif
