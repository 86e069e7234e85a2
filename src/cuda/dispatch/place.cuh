// Places received rows: reads their routing, and copies each packet to its places when it has arrived.
#ifndef CUDA_DISPATCH_PLACE_CUH
#define CUDA_DISPATCH_PLACE_CUH

#include "cuda/dispatch/receive_headers.cuh"

// Writes counts and ranges: one warp for each part of the caller's buffer, and for each expert. It begins with the last
// warps, since they have the fewest rows to place. [role]
__device__ __forceinline__ void write_counts(const cuda_dispatch_args &args, const cuda_view &view,
                                             const headers &headers, const places &places, const warp_set &warp_set,
                                             device_record &record) {
  uint32_t E = args.layout.experts;
#pragma unroll 1
  for (uint32_t part = warp_set.count - 1 - warp_set.index; part <= E; part += warp_set.count) {
    uint32_t total = part < E ? places.before(headers, args.layout, view.count, part)
                              : rows_before(headers, args.layout, view.count);
    bool rows = args.d.rank_major == (part == E); // of the caller's buffer
    if (warp_set.lane == 0) {
      if (part < E)
        args.d.counts[part] = (int32_t)total;
      if (part < E && args.d.expert_total)
        args.d.expert_total[part] += (int32_t)total;
      if (rows && total) {
        ptx::add(&record.num_rows, total); // also the rows for which there is no room
        atomicMax(&record.needed_rows, total);
      }
    }
    if (!args.d.range || !rows)
      continue;
    int64_t *range = args.d.rank_major ? args.d.range : args.d.range + (size_t)part * args.capacity;
#pragma unroll 1
    for (uint32_t i = warp_set.lane; i < args.capacity; i += WARP)
      range[i] = 0;
    __syncwarp();
#pragma unroll 1
    for (uint32_t m = warp_set.lane; m < view.count; m += WARP) {
      uint32_t ends[2];
#pragma unroll 1
      for (uint32_t i = 0; i < 2; i++) {
        ends[1] = args.d.rank_major ? rows_before(headers, args.layout, m + i)
                                    : places.before(headers, args.layout, m + i, part);
        ends[0] = i == 0 ? ends[1] : ends[0];
      }
      range[view.members[m].rank] = (int64_t)((uint64_t)ends[0] << 32 | (ends[1] - ends[0]));
    }
  }
}

// The destination of a row. Lane k has selection k.
struct target {
  int expert; // local expert; -1: another rank's
  float weight;
  int32_t place;   // row of the caller's buffer; -1: none, or beyond its end
  uint32_t copies; // lanes to whose places the row is copied
};

// The address of a lane's part of a row's routing: each group of lanes has one line.
__device__ __forceinline__ const char *routing_of(const cuda_layout &layout, const cuda_member &member, uint32_t row,
                                                  uint64_t op) {
  seat_in_packet at;
  uint32_t line = row * layout.routing_lines + min(at.group, layout.routing_lines - 1);
  return slot_of(layout, member.in, op) + layout.routing + line * CUDA_LINE + at.lane * 16;
}

__device__ __forceinline__ bool has_flag(uint4 v, uint64_t flag) {
  return v.z == (uint32_t)flag && v.w == (uint32_t)(flag >> 32);
}

// Waits for the row's routing and loads the lane's part of a line. False: the member is lost. [warp]
__device__ __forceinline__ bool take_routing(const cuda_dispatch_args &args, const cuda_member &member, uint32_t row,
                                             uint64_t op, bool strict, uint4 &v) {
  const char *from = routing_of(args.layout, member, row, op);
  bool flags = threadIdx.x % GROUP == GROUP - 1;
  wait_limit wait_limit;
  for (v = ptx::load_line(from); !__all_sync(~0u, !flags || has_flag(v, op + 1)); v = ptx::load_line(from)) {
    bool over = threadIdx.x % WARP == 0 && wait_limit.over(args.state, member.seat);
    if (__shfl_sync(~0u, over, 0))
      return false;
  }
  if (strict) {
    ptx::fence_system();
    v = ptx::load_line(from);
  }
  return true;
}

// The number of the row's token at its source, which every selection of the row contains. [warp]
__device__ __forceinline__ uint32_t token_of(const cuda_layout &layout, uint4 v) {
  uint32_t word = v.x & CUDA_SELECTION_VALID ? v.x : threadIdx.x % GROUP == GROUP - 1 ? 0 : v.z;
  uint32_t token = word & CUDA_SELECTION_VALID ? word >> CUDA_SELECTION_TOKEN & 0x3FF : 0;
  return min(__reduce_max_sync(~0u, token), layout.max_tokens - 1);
}

// Finds the destination of a row. `v`: its routing. [warp]
__device__ __forceinline__ target find_target(const cuda_dispatch_args &args, const headers &headers,
                                              const places &places, uint32_t m, uint32_t row, uint4 v) {
  const cuda_layout &layout = args.layout;
  uint32_t lane = threadIdx.x % WARP;
  uint32_t k = lane % CUDA_LINE_SELECTIONS; // lane 15 is the first of the second line
  int source = (int)(lane / CUDA_LINE_SELECTIONS * GROUP + k / 2) % WARP;
  uint32_t x = __shfl_sync(~0u, v.x, source), y = __shfl_sync(~0u, v.y, source);
  uint32_t z = __shfl_sync(~0u, v.z, source), w = __shfl_sync(~0u, v.w, source);
  uint32_t word = k % 2 ? z : x;
  bool valid = lane < layout.topk && word & CUDA_SELECTION_VALID;
  uint32_t expert = word >> CUDA_SELECTION_EXPERT & 0xFF, nth = word >> CUDA_SELECTION_ROW & 0x3FF;
  valid = valid && expert < layout.experts;
  target t = {valid ? (int)expert : -1, __uint_as_float(k % 2 ? w : y), -1, 0};
  if (valid) {
    uint32_t place =
        args.d.rank_major ? rows_before(headers, layout, m) + row : places.before(headers, layout, m, expert) + nth;
    if (place < args.d.rows)
      t.place = (int32_t)(args.d.rank_major ? place : expert * args.d.rows + place);
  }
  t.copies = __ballot_sync(~0u, t.place >= 0);
  if (args.d.rank_major) // all selections share one row
    t.copies &= 0u - t.copies;
  return t;
}

// Rank-major: a row's local experts and weights, in top-k order or at their places in it. [warp]
__device__ __forceinline__ void write_selections(const cuda_dispatch_args &args, const target &t, int32_t place,
                                                 uint32_t lane) {
  uint32_t K = args.layout.topk, valid = __ballot_sync(~0u, t.expert >= 0), count = __popc(valid);
  bool keep = CUDA_OPTION(args.d.keep_places);
  uint32_t k = t.expert >= 0 && !keep ? __popc(valid & ((1u << lane) - 1)) : lane;
  bool none = lane < K && (keep ? t.expert < 0 : lane >= count);
  int32_t *experts = args.d.local_expert ? args.d.local_expert + (size_t)place * K : nullptr;
  float *weights = args.d.weights ? args.d.weights + (size_t)place * K : nullptr;
  if (t.expert >= 0 && experts)
    experts[k] = t.expert;
  if (t.expert >= 0 && weights)
    weights[k] = t.weight;
  if (none && experts)
    experts[lane] = -1;
  if (none && weights)
    weights[lane] = 0.0f;
}

// Writes the data of a row other than its values, for combine and for the caller. [warp]
__device__ __forceinline__ void write_row_origin(const cuda_dispatch_args &args, const snapshot &snapshot,
                                                 const cuda_member &member, const target &t, uint32_t m, uint32_t row,
                                                 uint32_t token, uint64_t op, uint32_t lane) {
  const cuda_handle &handle = snapshot.handle[op % CUDA_LIVE];
  size_t at = (size_t)m * args.layout.max_tokens + row;
  if (lane == 0)
    handle.token[at] = token;
  if (lane < args.layout.topk) {
    handle.place[at * args.layout.topk + lane] = t.place;
    handle.weight[at * args.layout.topk + lane] = t.weight;
  }
  if (t.copies >> lane & 1) {
    if (args.d.src_rank)
      args.d.src_rank[t.place] = member.rank;
    if (args.d.src_token)
      args.d.src_token[t.place] = (int32_t)token;
  }
  if (args.d.rank_major && t.copies)
    write_selections(args, t, __shfl_sync(~0u, t.place, __ffs((int)t.copies) - 1), lane);
}

// The offset of the scales of the lane's row.
__device__ __forceinline__ uint64_t scales_at(const cuda_dispatch_args &args, const target &t) {
  uint64_t place = (uint32_t)t.place;
  uint64_t at = CUDA_STRIDES(args.strided)
                    ? (place * args.d.out_scale_row_stride + (uint32_t)t.expert * args.expert_scales) * sizeof(uint32_t)
                    : place * args.layout.scale_bytes;
  return (uint64_t)args.d.out_scales + at;
}

// The offset of a chunk's scale from there. `bytes`: a scale has one byte, else four.
__device__ __forceinline__ uint64_t scale_offset_of(const cuda_dispatch_args &args, uint32_t chunk, bool bytes) {
  if (!CUDA_STRIDES(args.strided))
    return chunk * (bytes ? 1 : 4);
  return (uint64_t)(bytes ? chunk / 4 : chunk) * args.d.out_scale_block_stride * 4 + (bytes ? chunk % 4 : 0);
}

// Writes a packet to its rows of the caller's buffer. Each lane knows where its own copy begins, so that little work
// remains for each copy. [warp]
template <int EACH>
__device__ __forceinline__ void store_packet(const cuda_dispatch_args &args, const inbound_packet<EACH> &came,
                                             const target &t, uint32_t index, uint32_t count) {
  constexpr bool SCALES = packet<EACH>::SCALES;
  seat_in_packet at;
  uint32_t first = index * EACH, lane = threadIdx.x % WARP;
  bool bytes = SCALES && args.layout.dtype == CUDA_FP8_UE8M0; // a scale has 1 byte, else 4
  bool last = index + 1 == args.layout.row.packets;           // scales of bytes are padded to whole words
  bool pads = bytes && last && first + lane < args.layout.scale_bytes, has = lane < count;
  uint64_t mine = (uint64_t)args.d.out + (uint64_t)(uint32_t)t.place * args.layout.value_bytes;
  uint64_t its = SCALES ? scales_at(args, t) : 0;
  uint32_t offset = first * CUDA_LINE + at.offset(0);
  uint64_t scale_offset = SCALES ? scale_offset_of(args, first + lane, bytes) : 0;
#pragma unroll 1
  for (uint32_t left = t.copies; left; left &= left - 1) {
    int from = __ffs((int)left) - 1;
    char *out = (char *)__shfl_sync(~0u, mine, from) + offset;
#pragma unroll
    for (int i = 0; i < packet<EACH>::ITERATIONS; i++)
      ptx::store16_if(at.line(i) < count, out + i * GROUPS * CUDA_LINE, came.p.v[i]);
    if (!SCALES)
      continue;
    char *scales = (char *)__shfl_sync(~0u, its, from) + scale_offset;
    ptx::store4_if(has && !bytes, scales, came.scale);
    if (bytes && (has || pads))
      *scales = (char)came.scale; // 0 if there is no scale
  }
}

// Copies one packet of a row from its area to each of its places. False: the member is lost. [warp]
template <int EACH>
__device__ __forceinline__ bool place_packet(const cuda_dispatch_args &args, const snapshot &snapshot,
                                             const cuda_member &member, const headers &headers, const places &places,
                                             uint32_t m, uint32_t row, uint32_t index, uint64_t op, uint32_t lane) {
  const cuda_layout &layout = args.layout;
  inbound_packet<EACH> came;
  uint32_t count = chunks_of(layout.row, index);
  uint4 routing;
  target t = {-1, 0.0f, -1, 0};
  uint32_t token = 0;
  spot from = {0, 0};
  bool here = take_routing(args, member, row, op, snapshot.control.strict, routing), whole = false;
  if (here) {
    token = token_of(layout, routing);
    from = row_spot(layout, layout.row, op, token, index);
    came.load(member.in, from, count); // loaded while the routing is being read
    t = find_target(args, headers, places, m, row, routing);
    whole = came.whole();
  }
  if (index == 0)
    write_row_origin(args, snapshot, member, t, m, row, token, op, lane);
  here = here && (whole || came.await(args.state, member.seat, member.in, from, count));
  if (!here)
    came = inbound_packet<EACH>();
  store_packet(args, came, t, index, count);
  return here;
}

// The i-th of the packets that arrive, taken from all members in rotation.
struct packet_cursor {
  uint32_t m, row, index;

  __device__ __forceinline__ packet_cursor(const cuda_dispatch_args &args, const cuda_view &view, uint32_t i) {
    uint32_t nth = divide(i, args.layout.row.by_packets);
    row = divide(nth, view.by_count);
    index = i - nth * args.layout.row.packets;
    m = nth - row * view.count + view.self;
    m -= m >= view.count ? view.count : 0;
  }
};

// Places all rows of the members whose headers arrived. `now`: this warp's first packet. [role]
template <int EACH>
__device__ __forceinline__ void place_rows(const cuda_dispatch_args &args, const snapshot &snapshot,
                                           const cuda_view &view, const headers &headers, const places &places,
                                           packet_cursor now, uint64_t op, const warp_set &warp_set) {
  uint32_t most = 0;
#pragma unroll 1
  for (uint32_t m = warp_set.lane; m < view.count; m += WARP)
    most = max(most, headers.rows(args.layout, m));
  uint32_t jobs = __reduce_max_sync(~0u, most) * view.count * args.layout.row.packets;
#pragma unroll 1
  for (uint32_t i = warp_set.index; i < jobs; i += warp_set.count, now = packet_cursor(args, view, i))
    if (now.row < headers.rows(args.layout, now.m) &&
        !place_packet<EACH>(args, snapshot, view.members[now.m], headers, places, now.m, now.row, now.index, op,
                            warp_set.lane) &&
        warp_set.lane == 0)
      ptx::set_bits(&args.state->record[op % CUDA_RECORDS].lost, 1ull << now.m);
}

#endif
