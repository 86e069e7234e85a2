// Sends rows: casts them, and writes them packet by packet.
#ifndef CUDA_DISPATCH_SEND_CUH
#define CUDA_DISPATCH_SEND_CUH

#include "cuda/dispatch/cast.cuh"
#include "cuda/dispatch/outgoing.cuh"

// The type of x, and the type that is sent.
enum row_kind {
  ROW_BF16,
  ROW_CAST,  // bf16, cast to e4m3 here
  ROW_GIVEN, // e4m3, with scales
};

template <int KIND> struct row_form {
  static constexpr int EACH = KIND == ROW_BF16 ? CUDA_BF16_CHUNKS : CUDA_FP8_CHUNKS;
  static constexpr int ITERATIONS = packet<EACH>::ITERATIONS;
  static constexpr int LOADS = KIND == ROW_CAST ? 2 : 1; // loads of 16 bytes for a lane's part of a line
};

// A lane's part of a packet of x.
template <int KIND> struct source_packet {
  uint4 v[row_form<KIND>::ITERATIONS * row_form<KIND>::LOADS];
  uint32_t scale[KIND == ROW_GIVEN ? row_form<KIND>::ITERATIONS : 1];
};

__device__ __forceinline__ uint32_t load_scale(const cuda_dispatch_args &args, uint32_t token, uint32_t chunk) {
  bool bytes = args.layout.dtype == CUDA_FP8_UE8M0;
  if (!CUDA_STRIDES(args.strided)) {
    const char *scales = (const char *)args.d.scales + (size_t)token * args.layout.scale_bytes;
    return bytes ? ((const uint8_t *)scales)[chunk] : ((const uint32_t *)scales)[chunk];
  }
  const uint32_t *scales = (const uint32_t *)args.d.scales + (size_t)token * args.d.scale_row_stride;
  if (bytes)
    return ((const uint8_t *)(scales + (uint64_t)(chunk / 4) * args.d.scale_block_stride))[chunk % 4];
  return scales[(uint64_t)chunk * args.d.scale_block_stride];
}

template <int KIND>
__device__ __forceinline__ void load_source(source_packet<KIND> &s, const cuda_dispatch_args &args, uint32_t token,
                                            uint32_t index) {
  using form = row_form<KIND>;
  seat_in_packet at;
  uint32_t count = chunks_of(args.layout.row, index), first = index * form::EACH;
  uint32_t chunk_bytes = form::LOADS * CUDA_LINE;
  const char *x = (const char *)args.d.x + (size_t)token * args.d.row_stride;
#pragma unroll
  for (int i = 0; i < form::ITERATIONS; i++) {
    uint32_t chunk = first + at.line(i);
    bool in = at.line(i) < count;
#pragma unroll
    for (int j = 0; j < form::LOADS; j++)
      s.v[i * form::LOADS + j] =
          in ? ptx::load_input16(x + (size_t)chunk * chunk_bytes + at.lane * form::LOADS * 16 + j * 16)
             : make_uint4(0, 0, 0, 0);
    if constexpr (KIND == ROW_GIVEN)
      s.scale[i] = in ? load_scale(args, token, chunk) : 0;
  }
}

// Casts the packet, if KIND requires it.
template <int KIND>
__device__ __forceinline__ void make_packet(packet<row_form<KIND>::EACH> &p, const source_packet<KIND> &s, int dtype) {
  constexpr int ITERATIONS = row_form<KIND>::ITERATIONS;
  if constexpr (KIND != ROW_CAST) {
#pragma unroll
    for (int i = 0; i < ITERATIONS; i++) {
      p.v[i] = fill(s.v[i]);
      if constexpr (KIND == ROW_GIVEN)
        p.scale[i] = fill(s.scale[i]);
    }
    return;
  } else {
    // All lines together, without branches between them.
    uint32_t amax[ITERATIONS];
    bool finite = true;
#pragma unroll
    for (int i = 0; i < ITERATIONS; i++) {
      amax[i] = amax_of(s.v[2 * i], s.v[2 * i + 1]);
      finite &= is_finite(amax[i]);
    }
    if (!finite)
#pragma unroll
      for (int i = 0; i < ITERATIONS; i++)
        amax[i] = finite_amax_of(s.v[2 * i], s.v[2 * i + 1]);
#pragma unroll
    for (int step = 1; step < GROUP; step *= 2)
#pragma unroll
      for (int i = 0; i < ITERATIONS; i++)
        amax[i] = max(amax[i], __shfl_xor_sync(~0u, amax[i], step));
#pragma unroll
    for (int i = 0; i < ITERATIONS; i++) {
      float inverse, scale = block_scale(amax[i], dtype != CUDA_FP8, &inverse);
      uint2 a = cast8(s.v[2 * i], inverse), b = cast8(s.v[2 * i + 1], inverse);
      p.v[i] = make_uint4(a.x, a.y, b.x, b.y); // none is empty: the cast makes NaN 0x7F
#if __CUDA_ARCH__ < 890
      p.v[i] = fill(p.v[i]); // and CUDA's own keeps the sign
#endif
      p.scale[i] = dtype == CUDA_FP8_UE8M0 ? ue8m0_of(scale) : __float_as_uint(scale);
    }
  }
}

// The destinations of a token's rows. Each row has the place of its token in the areas of the members that get it, so
// no other data of the operation is needed. `expert`: lane k has selection k, -1: none. Lane n gets the place for the
// n-th member from `base` on; NULL: this member gets no row. The first member differs between ranks and tokens, so that
// all links are used equally. [warp]
__device__ __forceinline__ char *row_places(const cuda_dispatch_args &args, const cuda_view &view, uint64_t open,
                                            int32_t expert, uint32_t token, uint32_t base) {
  constexpr uint32_t AT_ONCE = 8; // entries after the last selection are -1
  uint32_t lane = threadIdx.x % WARP, count = view.count, first = view.self + 1 + token;
  uint32_t m = base + lane + first - divide(first, view.by_count) * count;
  m -= m >= count ? count : 0;
  const cuda_member &its = view.members[min(m, CUDA_MAX_MEMBERS - 1)];
  int32_t to = its.rank, rank = expert >= 0 ? (int32_t)divide((uint32_t)expert, args.layout.by_experts) : -1;
  bool gets = false;
#pragma unroll 1
  for (uint32_t k = 0; k < args.layout.topk; k += AT_ONCE)
#pragma unroll
    for (uint32_t j = 0; j < AT_ONCE; j++)
      gets |= __shfl_sync(~0u, rank, (int)(k + j)) == to;
  return gets && base + lane < count && its.seat < DEVICE_SEATS && open >> its.seat & 1 ? its.out : nullptr;
}

// A warp's packets, one after the other. A warp waits until its packet has arrived before it sends the next one: more
// packets in flight would not be faster, and small data would wait behind them.
template <int KIND> struct sender {
  static constexpr int EACH = row_form<KIND>::EACH;
  using outbound_packet = ::outbound_packet<EACH>;
  const cuda_dispatch_args &args;
  uint32_t i, step, jobs;
  uint32_t token, index;
  int32_t expert; // of the token: lane k has selection k
  source_packet<KIND> source;

  // `includes_me`: whether this warp sends.
  __device__ __forceinline__ sender(const cuda_dispatch_args &args, uint32_t tokens, const warp_set &warp_set,
                                    bool includes_me)
      : args(args), i(warp_set.index), step(warp_set.count), jobs(includes_me ? tokens * args.layout.row.packets : 0) {
    prefetch();
  }
  // Begins to load packet `i` and the data of its token, without waiting for it.
  __device__ __forceinline__ void prefetch() {
    if (i >= jobs)
      return;
    uint32_t lane = threadIdx.x % WARP, K = args.layout.topk;
    token = divide(i, args.layout.row.by_packets);
    index = i - token * args.layout.row.packets;
    expert = lane < K ? expert_at(args.d.topk_idx, args.d.narrow, (size_t)token * K + lane) : -1;
    load_source<KIND>(source, args, token, index);
  }
  // [role]
  __device__ __forceinline__ void send(const snapshot &snapshot, const cuda_view &view, uint64_t open, char *stage) {
    uint64_t op = snapshot.counters.sent;
    open &= ~shut_seats(args, snapshot);
#pragma unroll 1
    while (i < jobs) {
      // First the work that needs no values, since these are still being loaded.
      uint32_t count = chunks_of(args.layout.row, index);
      spot spot = row_spot(args.layout, args.layout.row, op, token, index);
      char *to = row_places(args, view, open, expert, token, 0);
      packet<EACH> p;
      make_packet<KIND>(p, source, (int)args.layout.dtype);
      outbound_packet::wait_until_arrived(); // the previous packet
      const outbound_packet outbound_packet(p, stage, count, snapshot.control.strict);
      outbound_packet.send(to, spot);
#pragma unroll 1
      for (uint32_t base = WARP; base < view.count; base += WARP)
        outbound_packet.send(row_places(args, view, open, expert, token, base), spot);
      outbound_packet.sent();
      i += step; // loaded here and not earlier, since the copies' fence would wait for it
      prefetch();
    }
    outbound_packet::wait_until_read();
  }
};

#endif
