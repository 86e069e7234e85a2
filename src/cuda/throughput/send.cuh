// The sending end of a channel of rows: each token's row is loaded once, and stored to the rings of all other ranks
// that it goes to. And the way of this rank's own rows, which go through no ring.
#ifndef CUDA_THROUGHPUT_SEND_CUH
#define CUDA_THROUGHPUT_SEND_CUH

#include "cuda/throughput/places.cuh"
#include "cuda/throughput/teller.cuh"

// The next token, loaded while the one before it is at work: where it goes, its weights and its scales. Of a ring's
// place, behind the values: scales, rounded up to 16 bytes | routing: {row among its source's, token}, and for each k
// {expert << 20 | number, weight}. A kept route sends no routing.
struct next_token {
  token_walk walk;
  uint64_t seats, to; // that count; of them, those of this token
  bool loaded;
  uint32_t token, scale[SCALES];
  cuda_way way;
  float weight;

  __device__ __forceinline__ next_token(const flow_kernel &kernel, uint32_t index, uint64_t seats)
      : walk(kernel.route.seats, index, kernel.tokens, false), seats(seats), loaded(false) {}

  // [warp]
  template <bool CAST>
  __device__ __forceinline__ void load(const cuda_rows_args &args, const flow_kernel &kernel, uint64_t dropped) {
    uint32_t lane = threadIdx.x % WARP;
    way = {CUDA_WAY_NONE, 0};
    weight = 0.0f;
    for (;; walk.take()) {
      loaded = walk.look(&token, &to);
      to &= seats & ~dropped;
      if (!loaded || to)
        break;
    }
    if (!loaded)
      return;
    walk.take();
    if (lane < args.topk) {
      uint2 both = __ldg((const uint2 *)(kernel.route.ways + (size_t)token * args.topk + lane));
      way = {both.x, both.y};
      if (args.topk_weights)
        weight = __ldg(args.topk_weights + (size_t)token * args.topk + lane);
    }
    const uint32_t *scales = (const uint32_t *)args.scales + (uint64_t)token * args.scale_row_stride;
#pragma unroll
    for (uint32_t i = 0; i < SCALES; i++)
      scale[i] = !CAST && i * WARP + lane < args.shape.scale_words
                     ? __ldg(scales + (uint64_t)(i * WARP + lane) * args.scale_block_stride)
                     : 0;
  }
};

template <bool CAST> struct row_sender {
  static constexpr bool WRITES = true; // to a ring
  struct channel channel;
  const cuda_rows_args &args;
  const flow_kernel &kernel;
  next_token next;

  __device__ __forceinline__ row_sender(channel_memory &memory, uint32_t index, const cuda_rows_args &args,
                                        const flow_kernel &kernel)
      : channel(kernel, args.flow, false, args.state, memory, index), args(args), kernel(kernel),
        next(kernel, index, kernel.seats & ~(1ull << kernel.op.self)) {
    next.load<CAST>(args, kernel, 0);
  }

  __device__ __forceinline__ found_job find(mover_job &job) {
    uint32_t lane = channel.lane;
    while (next.loaded && !(next.to &= ~channel.dropped))
      next.load<CAST>(args, kernel, channel.dropped);
    if (!next.loaded)
      return JOB_NONE;
    uint64_t to = next.to;
    if (channel.full(to))
      return JOB_WAITS;
    cuda_way way = next.way;
    uint32_t seat = way.row == CUDA_WAY_NONE ? DEVICE_SEATS : way.row >> CUDA_WAY_SEAT;
    bool goes = seat < DEVICE_SEATS && has(to, seat);
    uint32_t same = __match_any_sync(~0u, goes ? seat : DEVICE_SEATS + lane);
    bool leads = goes && (same & ((1u << lane) - 1)) == 0;
    uint32_t leaders = __ballot_sync(~0u, leads), nth = __popc(leaders & ((1u << lane) - 1));
    char *place = leads ? channel.place(kernel.op.out[seat], channel.memory.sent[seat]) : nullptr;
    if (leads) {
      job.output[nth] = place;
      job.scales_at[nth] = (uint64_t)(place + args.shape.value_bytes);
    }
    write_feet(place, goes ? seat : DEVICE_SEATS, leaders);
    if (lane == 0) {
      job.input[0] = (const char *)args.x + (uint64_t)next.token * args.row_stride;
      job.inputs = 1;
      job.outputs = __popc(leaders);
      job.seats = to;
    }
    __syncwarp();
    channel.memory.sent[lane] += has(to, lane);
    channel.memory.sent[lane + WARP] += has(to, lane + WARP);
    __syncwarp();
    next.load<CAST>(args, kernel, channel.dropped);
    return JOB_READY;
  }

  // Scales that are given, and a line of routing, to each rank. [warp]
  __device__ __forceinline__ void write_feet(char *place, uint32_t seat, uint32_t leaders) const {
    uint32_t lane = channel.lane, words = args.shape.scale_words;
    uint64_t mine = (uint64_t)(place + args.shape.value_bytes);
#pragma unroll 1
    for (uint32_t left = leaders; left; left &= left - 1) {
      int first = __ffs((int)left) - 1;
      char *foot = (char *)__shfl_sync(~0u, mine, first);
      uint32_t target = __shfl_sync(~0u, seat, first), row = __shfl_sync(~0u, next.way.row, first);
#pragma unroll
      for (uint32_t i = 0; i < SCALES; i++)
        if (!CAST && i * WARP + lane < words)
          ((uint32_t *)foot)[i * WARP + lane] = next.scale[i];
      uint2 *entries = (uint2 *)(foot + cuda_round_up(4 * words, 16));
      if (args.kept)
        continue;
      if (lane == 0)
        entries[0] = make_uint2(row & ((1u << CUDA_WAY_SEAT) - 1), next.token);
      if (lane < args.topk)
        entries[1 + lane] =
            seat == target ? make_uint2(next.way.number, __float_as_uint(next.weight)) : make_uint2(CUDA_WAY_NONE, 0);
    }
  }

  __device__ __forceinline__ void finished(const mover_job &job, bool) {
    channel.count_arrived(job.seats);
  }
  __device__ __forceinline__ void flush() {
    channel.settle();
  }
  // [warp]
  __device__ __forceinline__ void end() {
    channel.settle();
    end_channel(channel.memory, next.seats & ~channel.dropped);
  }
};

// This rank's own rows of a channel: straight to their places.
template <bool CAST> struct own_rows {
  static constexpr bool WRITES = false;
  struct channel channel;
  const cuda_rows_args &args;
  const flow_kernel &kernel;
  const places_table &table;
  next_token next;
  uint32_t count;

  __device__ __forceinline__ own_rows(channel_memory &memory, uint32_t index, const cuda_rows_args &args,
                                      const flow_kernel &kernel, const places_table &table)
      : channel(kernel, args.flow, false, args.state, memory, index), args(args), kernel(kernel), table(table),
        next(kernel, index, kernel.seats & 1ull << kernel.op.self), count(0) {
    next.load<CAST>(args, kernel, 0);
  }

  __device__ __forceinline__ found_job find(mover_job &job) {
    uint32_t lane = channel.lane;
    if (!next.loaded)
      return JOB_NONE;
    cuda_way way = next.way;
    bool own = way.row != CUDA_WAY_NONE && way.row >> CUDA_WAY_SEAT == kernel.op.self;
    uint32_t first = __ffs((int)__ballot_sync(~0u, own)) - 1;
    uint32_t number = __shfl_sync(~0u, way.row, first) & ((1u << CUDA_WAY_SEAT) - 1);
    routed row;
    row.pair = kernel.row_base[kernel.op.self] + number;
    row.seat = kernel.op.self;
    row.token = next.token;
    row.expert = own ? (int32_t)(way.number >> CUDA_WAY_EXPERT) : -1;
    row.number = way.number & ((1u << CUDA_WAY_EXPERT) - 1);
    row.weight = own ? next.weight : 0.0f;
    if (args.kept && own)
      row.weight = row.pair < kernel.route.max_rows ? kernel.route.weight[(size_t)row.pair * args.topk + lane] : 0.0f;
    find_places(args, table, row);
    write_routed(args, kernel, row, lane);
    list_places(args, row, job, lane);
    if (!args.kept && lane == 0)
      kernel.route.order[((size_t)kernel.op.self * CUDA_CHANNELS + channel.index) * args.flow.list + count] =
          (int32_t)row.pair;
    count++;
    if (lane == 0) {
      job.input[0] = (const char *)args.x + (uint64_t)next.token * args.row_stride;
      job.inputs = 1;
    }
    __syncwarp();
    if (!CAST)
      put_scales(args, job, next.scale, lane);
    next.load<CAST>(args, kernel, 0);
    return JOB_READY;
  }
  __device__ __forceinline__ void finished(const mover_job &, bool) {}
  __device__ __forceinline__ void flush() {}
  // [warp]
  __device__ __forceinline__ void end() {
    channel.settle();
    if (!args.kept && channel.lane == 0)
      kernel.route.came[kernel.op.self * CUDA_CHANNELS + channel.index] = count;
  }
};

#endif
