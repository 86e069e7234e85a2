// The sending end of a channel of rows: each token's row is loaded once, and stored to the rings of all ranks that it
// goes to, and to this rank's own places.
#ifndef CUDA_THROUGHPUT_SEND_CUH
#define CUDA_THROUGHPUT_SEND_CUH

#include "cuda/throughput/places.cuh"

// A ring's place: values | scales, rounded up to 16 bytes | routing: {row among its source's, token} and for each k
// {expert << 20 | number, weight}. A kept route sends no routing.
template <bool CAST> struct row_sender {
  struct channel channel;
  const cuda_rows_args &args;
  const flow_kernel &kernel;
  const places_table &table;
  token_walk walk;
  uint32_t line; // bytes of routing
  uint64_t mine; // this rank's own seat, as a bit
  uint64_t shut; // seats that get nothing (more)
  // The next token, loaded while the one before it is at work.
  bool loaded;
  uint32_t token, scale[SCALES];
  uint64_t to;
  cuda_way way;
  float weight;

  __device__ __forceinline__ row_sender(const cuda_rows_args &args, const flow_kernel &kernel, const places_table &table,
                                        pump &pump, uint32_t index)
      : channel(kernel, args.flow, false, args.state, *pump.memory, index), args(args), kernel(kernel), table(table),
        walk(kernel.route.seats, index, kernel.tokens, false), line(args.kept ? 0 : cuda_routing_bytes(args.topk)),
        mine(1ull << kernel.op.self), shut(~kernel.seats) {
    prefetch();
  }

  // Loads what has to be known of the next token. [warp]
  __device__ __forceinline__ void prefetch() {
    uint32_t lane = channel.lane;
    way = {CUDA_WAY_NONE, 0};
    weight = 0.0f;
    for (;; walk.take()) {
      loaded = walk.look(&token, &to);
      to &= ~(shut | channel.dropped);
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
      if (!CAST && i * WARP + lane < args.shape.scale_words)
        scale[i] = __ldg(scales + (uint64_t)(i * WARP + lane) * args.scale_block_stride);
  }

  __device__ __forceinline__ found_job find(pump &pump, pump_job &job, uint32_t number) {
    uint32_t lane = channel.lane;
    while (loaded && !(to &= ~channel.dropped))
      prefetch();
    if (!loaded)
      return JOB_NONE;
    if (channel.full(to & ~mine))
      return JOB_WAITS;
    uint32_t seat = way.row == CUDA_WAY_NONE ? DEVICE_SEATS : way.row >> CUDA_WAY_SEAT;
    bool goes = seat < DEVICE_SEATS && has(to, seat);
    uint32_t same = __match_any_sync(~0u, goes ? seat : DEVICE_SEATS + lane);
    bool leads = goes && seat != kernel.op.self && (same & ((1u << lane) - 1)) == 0;
    uint32_t remote = __ballot_sync(~0u, leads), nth = __popc(remote & ((1u << lane) - 1));
    if (leads)
      job.output[nth] = channel.place(kernel.op.out[seat], channel.memory.sent[seat]);
    char *foot = pump.foot(number % PUMP_FEET);
#if __CUDA_ARCH__ >= 900
    if (lane == 0)
      ptx::bulk_wait_read_but<2>(); // four jobs ago the foot was another's
    __syncwarp();
#endif
    write_feet(pump, foot, goes ? seat : DEVICE_SEATS, remote, lane);
    if (lane == 0) {
      job.input[0] = (const char *)args.x + (uint64_t)token * args.row_stride;
      job.inputs = 1;
      job.step = pump.shape.in_packet;
      job.remote = job.outputs = __popc(remote);
      job.foot = number % PUMP_FEET;
      job.seats = to;
    }
    if (to & mine)
      place_own(job, goes && seat == kernel.op.self, __popc(remote), lane);
    pump::settle();
    if (!CAST && to & mine) {
#pragma unroll
      for (uint32_t i = 0; i < SCALES; i++)
        if (i * WARP + lane < args.shape.scale_words)
          put_scale(args, job, job.remote, i * WARP + lane, scale[i]);
    }
    channel.memory.sent[lane] += has(to, lane);
    channel.memory.sent[lane + WARP] += has(to, lane + WARP);
    __syncwarp();
    prefetch();
    return JOB_READY;
  }

  // Scales that are given, and a line of routing for each rank. [warp]
  __device__ __forceinline__ void write_feet(const pump &pump, char *foot, uint32_t seat, uint32_t remote,
                                             uint32_t lane) const {
#pragma unroll
    for (uint32_t i = 0; i < SCALES; i++)
      if (i * WARP + lane < args.shape.scale_words)
        ((uint32_t *)foot)[i * WARP + lane] = CAST ? 0 : scale[i];
    char *entry = foot + pump.shape.scales;
    if (!line)
      return;
#pragma unroll 1
    for (uint32_t left = remote; left; left &= left - 1, entry += line) {
      int first = __ffs((int)left) - 1;
      uint32_t target = __shfl_sync(~0u, seat, first), row = __shfl_sync(~0u, way.row, first);
      uint2 *entries = (uint2 *)entry;
      if (lane == 0)
        entries[0] = make_uint2(row & ((1u << CUDA_WAY_SEAT) - 1), token);
      if (lane < args.topk)
        entries[1 + lane] = seat == target ? make_uint2(way.number, __float_as_uint(weight))
                                           : make_uint2(CUDA_WAY_NONE, 0);
    }
  }

  // This rank's own row: straight to its places. [warp]
  __device__ __forceinline__ void place_own(pump_job &job, bool own, uint32_t before, uint32_t lane) const {
    uint32_t first = __ffs((int)__ballot_sync(~0u, own)) - 1;
    uint32_t number = __shfl_sync(~0u, way.row, first) & ((1u << CUDA_WAY_SEAT) - 1);
    routed row;
    row.pair = kernel.row_base[kernel.op.self] + number;
    row.seat = kernel.op.self;
    row.token = token;
    row.expert = own ? (int32_t)(way.number >> CUDA_WAY_EXPERT) : -1;
    row.number = way.number & ((1u << CUDA_WAY_EXPERT) - 1);
    row.weight = own ? weight : 0.0f;
    if (args.kept && own)
      row.weight = row.pair < kernel.route.max_rows ? kernel.route.weight[(size_t)row.pair * args.topk + lane] : 0.0f;
    find_places(args, table, row);
    write_routed(args, kernel, row, lane);
    list_places(args, row, job, before, args.shape.value_bytes, lane);
    if (!args.kept && lane == 0)
      kernel.route.order[((size_t)kernel.op.self * CUDA_CHANNELS + channel.index) * args.flow.list +
                         channel.memory.sent[kernel.op.self]] = (int32_t)row.pair;
  }

  template <typename MORE>
  __device__ __forceinline__ void work(pump &pump, const pump_job &job, uint32_t &ready, MORE more) {
    auto last = [&]() {
      pump.store_feet(job, line);
    };
    if (!CAST) {
      pump.pass(job, ready, more, last);
      return;
    }
    pump.cast(job, args.shape.casts, ready, more, last);
    if (job.outputs > job.remote) {
      const uint32_t *foot = (const uint32_t *)pump.foot(job.foot);
      for (uint32_t word = channel.lane; word < args.shape.scale_words; word += WARP)
        put_scale(args, job, job.remote, word, foot[word]);
    }
  }

  __device__ __forceinline__ void finished(pump &pump, const pump_job &job) {
    channel.count_row(pump, pump.shape.packets, job.seats & ~mine);
  }
  __device__ __forceinline__ void flush(pump &pump) {
    pump.await_stores(0);
    channel.tell();
  }
  // [warp]
  __device__ __forceinline__ void end(pump &pump) {
    pump.await_stores(0);
    channel.close(kernel.seats & ~mine & ~channel.dropped);
    if (!args.kept && channel.lane == 0)
      kernel.route.came[kernel.op.self * CUDA_CHANNELS + channel.index] = channel.memory.sent[kernel.op.self];
  }
};

#endif
