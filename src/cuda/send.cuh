// The sending of rows: cast, and written packet by packet.
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
  constexpr int ITERATIONS = row_form<KIND>::ITERATIONS;
  if constexpr (KIND != ROW_CAST) {
#pragma unroll
    for (int i = 0; i < ITERATIONS; i++) {
      p.v[i] = s.v[i];
      if constexpr (KIND == ROW_GIVEN)
        p.scale[i] = s.scale[i];
    }
    return;
  } else {
    // All lines at once, without branches between them.
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
      p.v[i] = make_uint4(a.x, a.y, b.x, b.y);
      p.scale[i] = dtype == CUDA_FP8_UE8M0 ? ue8m0_of(scale) : __float_as_uint(scale);
    }
  }
}

// Where a token's rows go: lane n has the n-th of the members from `base` on, beginning with one that differs from rank
// to rank and token to token, so that every link has its turn. NULL: it gets none. [warp]
__device__ __forceinline__ char *row_places(const cuda_dispatch_args &args, const cuda_view &view, const outgoing &out,
                                            uint64_t open, uint32_t token, uint32_t base) {
  uint32_t lane = threadIdx.x % WARP, count = view.count, turn = view.self + 1 + token;
  turn -= divide(turn, view.by_count) * count;
  auto member = [&](uint32_t n) {
    uint32_t m = turn + base + n;
    return m - (m >= count ? count : 0);
  };
  // Lane w counts the tokens before this one in word w.
  uint32_t counted = lane < out.words ? first_bits((int32_t)(token - lane * 32)) : 0, rows = 0;
#pragma unroll 1
  for (uint32_t n = 0; n < WARP && base + n < count; n += ABREAST_MEMBERS) {
    uint32_t sum[ABREAST_MEMBERS];
#pragma unroll
    for (uint32_t k = 0; k < ABREAST_MEMBERS; k++)
      sum[k] =
          base + n + k < count && counted ? ptx::shared_load(out.of(member(n + k), args.layout.experts) + lane * 4) : 0;
#pragma unroll
    for (uint32_t k = 0; k < ABREAST_MEMBERS; k++)
      sum[k] = __reduce_add_sync(~0u, __popc(sum[k] & counted));
#pragma unroll
    for (uint32_t k = 0; k < ABREAST_MEMBERS; k++)
      rows = lane == n + k ? sum[k] : rows;
  }
  if (base + lane >= count)
    return nullptr;
  const cuda_member &its = view.members[member(lane)];
  bool gets = out.has(member(lane), args.layout.experts, token) && open >> its.seat & 1;
  return gets ? its.out + (size_t)rows * args.layout.row.stride : nullptr;
}

// A warp's packets, one after the other; the first one is ready before it is known where it goes. A warp waits until
// its packet has arrived before it sends the next: more under way would not be faster, and what is small would wait
// behind it.
template <int KIND> struct sender {
  static constexpr int EACH = row_form<KIND>::EACH;
  using parcel = ::parcel<EACH>;
  const cuda_dispatch_args &args;
  uint32_t i, step, jobs;
  packet<EACH> p;

  __device__ __forceinline__ sender(const cuda_dispatch_args &args, const crew &crew)
      : args(args), i(crew.index), step(crew.count), jobs(args.d.num_tokens * args.layout.row.packets) {}

  __device__ __forceinline__ void load(source_packet<KIND> &source, uint32_t i) const {
    uint32_t token = divide(i, args.layout.row.by_packets);
    load_source<KIND>(source, args, token, i - token * args.layout.row.packets);
  }
  // [role]
  __device__ __forceinline__ void prepare() {
    if (i >= jobs)
      return;
    source_packet<KIND> source;
    load(source, i);
    make_packet<KIND>(p, source, args.dtype);
  }
  // [role]
  __device__ __forceinline__ void send(const scene &scene, const cuda_view &view, const outgoing &out, uint64_t open,
                                       scratch &scratch, char *stage) {
    uint64_t op = scene.counters.sent;
#pragma unroll 1
    for (; i < jobs; i += step) {
      source_packet<KIND> source;
      if (i + step < jobs)
        load(source, i + step);
      uint32_t token = divide(i, args.layout.row.by_packets), index = i - token * args.layout.row.packets;
      uint32_t count = chunks_of(args.layout.row, index);
      size_t offset = packet_offset(args.layout, args.layout.row, args.layout.rows, op, 0, index);
      char *to = row_places(args, view, out, open, token, 0);
      seal(p, count, op + 1, scratch);
      parcel::wait_until_there(); // the one before
      const parcel parcel(p, stage, count, scene.control.strict);
#pragma unroll 1
      for (uint32_t base = WARP;; base += WARP) {
        parcel.send(to, offset);
        if (base >= view.count)
          break;
        to = row_places(args, view, out, open, token, base);
      }
      parcel.sent();
      if (i + step < jobs)
        make_packet<KIND>(p, source, args.dtype);
    }
    parcel::wait_until_read();
  }
};

#endif
