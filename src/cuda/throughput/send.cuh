// The sending end of a channel of rows: each token's row is loaded once, and stored to the rings of all other ranks
// that get it. Also the copying of this rank's own rows, which use no ring.
#ifndef CUDA_THROUGHPUT_SEND_CUH
#define CUDA_THROUGHPUT_SEND_CUH

#include "cuda/throughput/places.cuh"
#include "cuda/throughput/publisher.cuh"

// The next token, loaded while the previous one is processed: its destinations, weights and scales. A ring's place has
// after the values: scales, rounded up to 16 bytes | routing: {number among its source's rows, token}, and for each k
// {expert << 20 | number, weight}. A kept route sends no routing, or only the first pair, for relays.
struct next_token {
  token_walk walk;
  uint64_t seats, to; // seats: all that take part; to: those that get this token
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
      // The plan may have run at the same time as this kernel, so loads must not use the read-only cache.
      uint2 both = ptx::load_pair(kernel.route.ways + (size_t)token * args.topk + lane);
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

template <bool CAST, bool KEPT> struct row_sender {
  static constexpr bool WRITES = true; // to a ring
  struct channel channel;
  const cuda_rows_args &args;
  const flow_kernel &kernel;
  next_token next;
  // For the newest job: the place of this lane's row, its seat, and the lanes that have a row.
  char *row;
  uint32_t seat, leaders;

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
    seat = next.way.row == CUDA_WAY_NONE ? DEVICE_SEATS : next.way.row >> CUDA_WAY_SEAT;
    bool goes = seat < DEVICE_SEATS && has(to, seat);
    uint32_t same = ptx::lanes_like(seat, ptx::bits_of(DEVICE_SEATS)) & __ballot_sync(~0u, goes);
    bool leads = goes && (same & ((1u << lane) - 1)) == 0;
    leaders = __ballot_sync(~0u, leads);
    uint32_t nth = __popc(leaders & ((1u << lane) - 1));
    row = leads ? channel.place(kernel.op.out[seat], channel.memory.sent[seat]) : nullptr;
    seat = goes ? seat : DEVICE_SEATS;
    if (leads) {
      job.output[nth] = row;
      job.scales_at[nth] = (uint64_t)(row + args.shape.value_bytes);
    }
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
    return JOB_READY;
  }
  __device__ __forceinline__ void place(mover_job &) {
    write_feet();
    next.load<CAST>(args, kernel, channel.dropped);
#if __CUDA_ARCH__ >= 900
    if (next.loaded && channel.lane == 0)
      ptx::prefetch_bulk((const char *)args.x + (uint64_t)next.token * args.row_stride, args.shape.in_bytes);
#endif
  }

  // Writes the caller's scales and a line of routing to each rank. [warp]
  __device__ __forceinline__ void write_feet() const {
    uint32_t lane = channel.lane, words = args.shape.scale_words;
    uint64_t mine = (uint64_t)(row + args.shape.value_bytes);
#pragma unroll 1
    for (uint32_t left = leaders; left; left &= left - 1) {
      int first = __ffs((int)left) - 1;
      char *foot = (char *)__shfl_sync(~0u, mine, first);
      uint32_t target = __shfl_sync(~0u, seat, first), number = __shfl_sync(~0u, next.way.row, first);
#pragma unroll
      for (uint32_t i = 0; i < SCALES; i++)
        if (!CAST && i * WARP + lane < words)
          ((uint32_t *)foot)[i * WARP + lane] = next.scale[i];
      uint2 *entries = (uint2 *)(foot + cuda_round_up(4 * words, 16));
      if (lane == 0 && (!KEPT || kernel.names))
        entries[0] = make_uint2(number & ((1u << CUDA_WAY_SEAT) - 1), next.token);
      if (KEPT)
        continue;
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
    // if this kernel had all headers at its begin, its readers have begun, too
    if (args.halves == DEVICE_SEND || kernel.rest)
      await_readers(channel, next.seats);
    end_channel(channel.memory, next.seats & ~channel.dropped);
  }
};

// This rank's own rows of a channel, which are copied directly to their places.
template <bool CAST, bool KEPT> struct own_rows {
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
    if (lane == 0) {
      job.input[0] = (const char *)args.x + (uint64_t)next.token * args.row_stride;
      job.inputs = 1;
    }
    __syncwarp();
    return JOB_READY;
  }
  __device__ __forceinline__ void place(mover_job &job) {
    uint32_t lane = channel.lane;
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
    if (KEPT && own)
      row.weight = row.pair < kernel.route.max_rows ? kernel.route.weight[(size_t)row.pair * args.topk + lane] : 0.0f;
    find_places(args, table, row);
    write_routed<KEPT>(args, kernel, row, lane);
    list_places(args, row, job, lane);
    if (!KEPT && lane == 0)
      kernel.route.order[((size_t)kernel.op.self * CUDA_CHANNELS + channel.index) * args.flow.list + count] =
          (int32_t)row.pair;
    count++;
    __syncwarp();
    if (!CAST)
      put_scales(args, job, next.scale, lane);
    next.load<CAST>(args, kernel, 0);
  }
  __device__ __forceinline__ void finished(const mover_job &, bool) {}
  __device__ __forceinline__ void flush() {}
  // [warp]
  __device__ __forceinline__ void end() {
    channel.settle();
    if (!KEPT && channel.lane == 0)
      kernel.route.came[kernel.op.self * CUDA_CHANNELS + channel.index] = count;
  }
};

#endif
