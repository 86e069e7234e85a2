// The receiving half of dispatch: hears the routing, then copies each packet to its places when it has come.
#ifndef CUDA_PLACE_CUH
#define CUDA_PLACE_CUH

#include "cuda/send.cuh"
#include "cuda/settle.cuh"

// Counts and ranges: one warp for each part of the caller's buffer, and each expert. The last ones come first, for they
// have least to place. [role]
__device__ __forceinline__ void tell_counts(const cuda_dispatch_args &args, const cuda_view &view,
                                            const hearing &hearing, const places &places, const crew &crew,
                                            device_record &record) {
  uint32_t E = args.layout.experts;
#pragma unroll 1
  for (uint32_t part = crew.count - 1 - crew.index; part <= E; part += crew.count) {
    uint32_t total = part < E ? places.before(hearing, args.layout, view.count, part)
                              : rows_before(hearing, args.layout, view.count);
    bool rows = args.d.rank_major == (part == E); // of the caller's buffer
    if (crew.lane == 0) {
      if (part < E)
        args.d.counts[part] = (int32_t)total;
      if (part < E && args.d.expert_total)
        args.d.expert_total[part] += (int32_t)total;
      if (rows && total) {
        ptx::add(&record.num_rows, total); // also those that there is no room for
        atomicMax(&record.needed_rows, total);
      }
    }
    if (!args.d.range || !rows)
      continue;
    int64_t *range = args.d.rank_major ? args.d.range : args.d.range + (size_t)part * args.capacity;
#pragma unroll 1
    for (uint32_t i = crew.lane; i < args.capacity; i += WARP)
      range[i] = 0;
    __syncwarp();
#pragma unroll 1
    for (uint32_t m = crew.lane; m < view.count; m += WARP) {
      uint32_t ends[2];
#pragma unroll 1
      for (uint32_t i = 0; i < 2; i++) {
        ends[1] = args.d.rank_major ? rows_before(hearing, args.layout, m + i)
                                    : places.before(hearing, args.layout, m + i, part);
        ends[0] = i == 0 ? ends[1] : ends[0];
      }
      range[view.members[m].rank] = (int64_t)((uint64_t)ends[0] << 32 | (ends[1] - ends[0]));
    }
  }
}

// Where a row goes. Lane k has selection k.
struct target {
  int expert; // local, -1: not this rank's
  float weight;
  int32_t place;   // row of the caller's buffer, -1: none, or beyond its end
  uint32_t copies; // lanes whose places the row is copied to
  uint32_t token;  // of the source
};

// Where a lane finds its part of a row's routing: a group of lanes has a line.
__device__ __forceinline__ const char *routing_of(const cuda_layout &layout, const cuda_member &member, uint32_t row,
                                                  uint64_t op) {
  seat_in_packet at;
  uint32_t line = row * layout.routing_lines + min(at.group, layout.routing_lines - 1);
  return slot_of(layout, member.in, op) + layout.routing + line * CUDA_LINE + at.lane * 16;
}

// Reads the row's routing, `v` being a first look at it. False: the member is lost. [warp]
__device__ __forceinline__ bool find_target(const cuda_dispatch_args &args, const cuda_member &member,
                                            const hearing &hearing, const places &places, uint32_t m, uint32_t row,
                                            uint64_t op, bool strict, const char *from, uint4 v, target &t) {
  const cuda_layout &layout = args.layout;
  seat_in_packet at;
  uint32_t lane = threadIdx.x % WARP;
  patience patience;
  while (!__all_sync(~0u, at.lane != GROUP - 1 || has_flag(v, op + 1))) {
    bool over = lane == 0 && patience.over(args.state, member.seat);
    if (__shfl_sync(~0u, over, 0))
      return false;
    v = ptx::load_line(from);
  }
  if (strict) {
    ptx::fence_system();
    v = ptx::load_line(from);
  }
  uint32_t k = lane % CUDA_LINE_SELECTIONS; // lane 15 is the first of the second line
  int source = (int)(lane / CUDA_LINE_SELECTIONS * GROUP + k / 2) % WARP;
  uint32_t x = __shfl_sync(~0u, v.x, source), y = __shfl_sync(~0u, v.y, source);
  uint32_t z = __shfl_sync(~0u, v.z, source), w = __shfl_sync(~0u, v.w, source);
  uint32_t word = k % 2 ? z : x;
  bool valid = lane < layout.topk && word & CUDA_SELECTION_VALID;
  uint32_t expert = word >> CUDA_SELECTION_EXPERT & 0xFF, nth = word >> CUDA_SELECTION_ROW & 0x3FF;
  valid = valid && expert < layout.experts;
  t.expert = valid ? (int)expert : -1;
  t.weight = __uint_as_float(k % 2 ? w : y);
  t.token = __reduce_max_sync(~0u, valid ? word >> CUDA_SELECTION_TOKEN & 0x3FF : 0);
  t.place = -1;
  if (valid) {
    uint32_t place =
        args.d.rank_major ? rows_before(hearing, layout, m) + row : places.before(hearing, layout, m, expert) + nth;
    if (place < args.d.rows)
      t.place = (int32_t)(args.d.rank_major ? place : expert * args.d.rows + place);
  }
  t.copies = __ballot_sync(~0u, t.place >= 0);
  if (args.d.rank_major) // all of them have one
    t.copies &= 0u - t.copies;
  return true;
}

// Rank-major: a row's local experts and weights, in top-k order. [warp]
__device__ __forceinline__ void tell_selections(const cuda_dispatch_args &args, const target &t, int32_t place,
                                                uint32_t lane) {
  uint32_t K = args.layout.topk, valid = __ballot_sync(~0u, t.expert >= 0), count = __popc(valid);
  uint32_t k = t.expert >= 0 ? __popc(valid & ((1u << lane) - 1)) : lane;
  int32_t *experts = args.d.local_expert ? args.d.local_expert + (size_t)place * K : nullptr;
  float *weights = args.d.weights ? args.d.weights + (size_t)place * K : nullptr;
  if (t.expert >= 0 && experts)
    experts[k] = t.expert;
  if (t.expert >= 0 && weights)
    weights[k] = t.weight;
  if (lane >= count && lane < K && experts)
    experts[lane] = -1;
  if (lane >= count && lane < K && weights)
    weights[lane] = 0.0f;
}

// What combine and the caller have to know of a row, apart from its values. [warp]
__device__ __forceinline__ void tell_row(const cuda_dispatch_args &args, const scene &scene, const cuda_member &member,
                                         const target &t, uint32_t m, uint32_t row, uint64_t op, uint32_t lane) {
  const cuda_handle &handle = scene.handle[op % CUDA_DEPTH];
  size_t at = (size_t)m * args.layout.max_tokens + row;
  if (lane == 0)
    handle.token[at] = t.token;
  if (lane < args.layout.topk) {
    handle.place[at * args.layout.topk + lane] = t.place;
    handle.weight[at * args.layout.topk + lane] = t.weight;
  }
  if (t.copies >> lane & 1) {
    if (args.d.src_rank)
      args.d.src_rank[t.place] = member.rank;
    if (args.d.src_token)
      args.d.src_token[t.place] = (int32_t)t.token;
  }
  if (args.d.rank_major && t.copies)
    tell_selections(args, t, __shfl_sync(~0u, t.place, __ffs((int)t.copies) - 1), lane);
}

// Writes a packet to its rows of the caller's buffer. `scale`: of chunk `lane` of the packet. Each lane knows where its
// own copy begins, so that little is left to be done for one after the other. [warp]
template <int EACH>
__device__ __forceinline__ void store_packet(const cuda_dispatch_args &args, const packet<EACH> &p, uint32_t scale,
                                             const target &t, uint32_t index, uint32_t count) {
  constexpr bool SCALES = packet<EACH>::SCALES;
  seat_in_packet at;
  uint32_t first = index * EACH, lane = threadIdx.x % WARP;
  bool bytes = SCALES && args.dtype == CUDA_FP8_UE8M0; // of a scale: 1, else 4
  bool last = index + 1 == args.layout.row.packets;    // its scales are padded to whole words, if they are bytes
  bool pads = bytes && last && first + lane < args.layout.scale_bytes, has = lane < count;
  uint64_t mine = (uint64_t)args.d.out + (uint64_t)(uint32_t)t.place * args.layout.value_bytes;
  uint64_t its = SCALES ? (uint64_t)args.d.out_scales + (uint64_t)(uint32_t)t.place * args.layout.scale_bytes : 0;
  uint32_t offset = first * CUDA_LINE + at.offset(0), scale_offset = (first + lane) * (bytes ? 1 : 4);
#pragma unroll 1
  for (uint32_t left = t.copies; left; left &= left - 1) {
    int from = __ffs((int)left) - 1;
    char *out = (char *)__shfl_sync(~0u, mine, from) + offset;
#pragma unroll
    for (int i = 0; i < packet<EACH>::ITERATIONS; i++)
      ptx::store16_if(at.line(i) < count, out + i * GROUPS * CUDA_LINE, p.v[i]);
    if (!SCALES)
      continue;
    char *scales = (char *)__shfl_sync(~0u, its, from) + scale_offset;
    ptx::store4_if(has && !bytes, scales, scale);
    if (bytes && (has || pads))
      *scales = (char)(has ? scale : 0);
  }
}

// One packet of a row: from its area to each of its places. False: the member is lost. [warp]
template <int EACH>
__device__ __forceinline__ bool place_packet(const cuda_dispatch_args &args, const scene &scene,
                                             const cuda_member &member, const hearing &hearing, const places &places,
                                             uint32_t m, uint32_t row, uint32_t index, uint64_t op, uint32_t lane,
                                             scratch &scratch) {
  const cuda_layout &layout = args.layout;
  packet<EACH> p;
  uint32_t count = chunks_of(layout.row, index);
  const char *from = member.in + packet_offset(layout, layout.row, layout.rows, op, row, index);
  const char *routing_from = routing_of(layout, member, row, op);
  uint4 routing = ptx::load_line(routing_from);
  bool whole = load_packet(p, from, count, op + 1); // both come in one round trip
  target t;
  bool here = find_target(args, member, hearing, places, m, row, op, scene.control.strict, routing_from, routing, t);
  if (!here)
    t = {-1, 0.0f, -1, 0, 0};
  if (index == 0)
    tell_row(args, scene, member, t, m, row, op, lane);
  here = here && (whole || take_late(p, args.state, member.seat, from, count, op + 1));
  if (here && scene.control.strict) {
    ptx::fence_system();
    load_packet(p, from, count, op + 1);
  }
  uint32_t scale = 0;
  if (here) {
    unseal(p, count, scratch);
    if constexpr (packet<EACH>::SCALES)
      scale = packet_scale<EACH>(scratch, lane);
  } else {
    p = packet<EACH>();
  }
  store_packet(args, p, scale, t, index, count);
  return here;
}

// The i-th packet of those that come, by turns.
struct turn {
  uint32_t m, row, index;

  __device__ __forceinline__ turn(const cuda_dispatch_args &args, const cuda_view &view, uint32_t i) {
    uint32_t nth = divide(i, args.layout.row.by_packets);
    row = divide(nth, view.by_count);
    index = i - nth * args.layout.row.packets;
    m = nth - row * view.count + view.self;
    m -= m >= view.count ? view.count : 0;
  }
};

// All rows of those that were heard. `now`: this warp's first. [role]
template <int EACH>
__device__ __forceinline__ void place_rows(const cuda_dispatch_args &args, const scene &scene, const cuda_view &view,
                                           const hearing &hearing, const places &places, turn now, uint64_t op,
                                           const crew &crew, scratch &scratch) {
  uint32_t most = 0;
#pragma unroll 1
  for (uint32_t m = crew.lane; m < view.count; m += WARP)
    most = max(most, hearing.rows(args.layout, m));
  uint32_t jobs = __reduce_max_sync(~0u, most) * view.count * args.layout.row.packets;
#pragma unroll 1
  for (uint32_t i = crew.index; i < jobs; i += crew.count, now = turn(args, view, i))
    if (now.row < hearing.rows(args.layout, now.m) &&
        !place_packet<EACH>(args, scene, view.members[now.m], hearing, places, now.m, now.row, now.index, op, crew.lane,
                            scratch) &&
        crew.lane == 0)
      ptx::set_bits(&args.state->record[op % CUDA_RECORDS].lost, 1ull << now.m);
}

// What is known when all have been heard, for the operations to come and for the host. [one thread of the speaker]
static __device__ __noinline__ void conclude(const cuda_dispatch_args &args, const scene &scene,
                                             const standing &standing, const hearing &hearing, uint64_t op) {
  cuda_state *state = args.state;
  cuda_counters &counters = state->counters;
  const cuda_view &view = *standing.view;
  // Asked for first, together.
  uint64_t lost = ptx::load_volatile(&counters.lost), gone = ptx::load_volatile(&state->control.gone);
  uint64_t masked = ptx::load_volatile(&state->control.masked);
  device_report *report = (device_report *)ptx::load_volatile((const uint64_t *)&state->report);
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
    state->handle[op % CUDA_DEPTH].rows[m] = hearing.rows(args.layout, m);
  state->handle[op % CUDA_DEPTH].late = summary.late;
  device_record &record = state->record[op % CUDA_RECORDS];
  record.op = op;
  record.epoch = view.epoch;
  record.mark = summary.mark;
  record.num_ranks = view.count;
  record.kind = args.d.kind;
  record.other_kinds = args.d.kind == KIND_BARRIER ? heard & ~summary.barriers : summary.barriers;
  uint64_t all = view.count == 64 ? ~0ull : (1ull << view.count) - 1;
  ptx::set_bits(&record.lost, all & ~heard);
#pragma unroll 1
  for (uint32_t m = 0; args.d.wait_ns && m < view.count; m++)
    args.d.wait_ns[view.members[m].rank] += (int64_t)record.wait_ns[m];
  report->received = op + 1;
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

// Whether the speaker's block does nothing but that, where there are many: beside warps that place rows, the thread that
// concludes took 4 us, and all else was done before it.
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
                                        const role &role, const crew &placers, scratch &scratch) {
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
  place_rows<EACH>(args, scene, *standing.view, hearing, places, first, op, placers, scratch);
  trace(args.trace, 4, role.thread() == 0);
}

#endif
