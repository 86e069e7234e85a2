// The receiving end of a channel of rows: takes rows from the rings of all sources to their places.
#ifndef CUDA_THROUGHPUT_RECEIVE_CUH
#define CUDA_THROUGHPUT_RECEIVE_CUH

#include "cuda/throughput/places.cuh"

struct row_receiver {
  struct channel channel;
  const cuda_rows_args &args;
  const flow_kernel &kernel;
  const places_table &table;
  uint64_t open; // sources from which rows may come yet
  uint32_t last; // source of the newest job

  __device__ __forceinline__ row_receiver(const cuda_rows_args &args, const flow_kernel &kernel,
                                          const places_table &table, pump &pump, uint32_t index, uint64_t sources)
      : channel(kernel, args.flow, false, args.state, *pump.memory, index), args(args), kernel(kernel), table(table),
        open(sources), last(63) {}

  __device__ __forceinline__ found_job find(pump &pump, pump_job &job, uint32_t) {
    uint64_t ended, found = channel.there(open, &ended);
    uint32_t lane = channel.lane, K = args.topk;
    open &= ~(ended | (channel.dropped & ~found));
    if (!found)
      return open ? JOB_WAITS : JOB_NONE;
    uint32_t seat = last = next_seat(found, last), number = channel.memory.sent[seat];
    const char *from = channel.place(kernel.op.in[seat], number);
    if (lane == 0) {
      job.input[0] = from;
      job.inputs = 1;
      job.step = pump.shape.in_packet;
      job.remote = job.outputs = 0;
      job.source = seat;
      job.number = number;
    }
    routed row;
    row.seat = seat;
    row.expert = -1;
    row.number = 0;
    row.weight = 0.0f;
    const char *foot = from + pump.shape.out_row;
    uint32_t scale[4]; // of a row of up to 16,384 values
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
      if (i * WARP + lane < args.shape.scale_words)
        scale[i] = ptx::load_volatile((const uint32_t *)foot + i * WARP + lane);
    int32_t *order = kernel.route.order + ((size_t)seat * CUDA_CHANNELS + channel.index) * args.flow.list + number;
    if (args.kept) {
      row.pair = (uint32_t)*order;
      bool known = row.pair < kernel.route.max_rows;
      row.token = known ? (uint32_t)kernel.route.token[row.pair] : 0;
      row.place = -1;
      if (known && lane < K) {
        size_t at = (size_t)row.pair * K + lane;
        row.expert = kernel.route.expert[at];
        row.weight = kernel.route.weight[at];
        row.place = kernel.route.place[at];
      }
    } else {
      const char *line = foot + pump.shape.scales;
      uint2 head = ptx::load_pair(line), entry = make_uint2(CUDA_WAY_NONE, 0);
      if (lane < K)
        entry = ptx::load_pair(line + 8 + 8 * lane);
      row.pair = head.x < kernel.op.rows[seat] ? kernel.row_base[seat] + head.x : CUDA_WAY_NONE;
      row.token = min(head.y, args.flow.max_tokens - 1);
      uint32_t expert = entry.x >> CUDA_WAY_EXPERT;
      row.number = entry.x & ((1u << CUDA_WAY_EXPERT) - 1);
      // What a peer says is no index before it was looked at.
      if (entry.x != CUDA_WAY_NONE && expert < args.flow.experts &&
          row.number < __ldg(kernel.op.counts + seat * args.flow.experts + expert)) {
        row.expert = (int32_t)expert;
        row.weight = __uint_as_float(entry.y);
      }
      find_places(args, table, row);
      if (lane == 0)
        *order = (int32_t)row.pair;
    }
    __syncwarp();
    write_routed(args, kernel, row, lane);
    list_places(args, row, job, 0, args.shape.value_bytes, lane);
    __syncwarp();
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
      if (i * WARP + lane < args.shape.scale_words)
        put_scale(args, job, 0, i * WARP + lane, scale[i]);
    if (lane == 0)
      channel.memory.sent[seat]++;
    __syncwarp();
    return JOB_READY;
  }

  template <typename MORE>
  __device__ __forceinline__ void work(pump &pump, const pump_job &job, uint32_t &ready, MORE more) {
    pump.pass(job, ready, more, [] {});
  }
  __device__ __forceinline__ void finished(pump &, const pump_job &job) {
    if (channel.lane == 0)
      channel.give_credit(job.source, channel.base + job.number + 1);
  }
  __device__ __forceinline__ void flush(pump &) {}
  // [warp]
  __device__ __forceinline__ void end(uint64_t sources) {
#pragma unroll
    for (uint32_t h = 0; h < 2; h++) {
      uint32_t seat = channel.lane + h * WARP;
      if (!args.kept && seat != kernel.op.self)
        kernel.route.came[seat * CUDA_CHANNELS + channel.index] = channel.memory.sent[seat];
      if (has(sources & ~channel.dropped, seat))
        channel.give_credit(seat, channel.base + channel.list);
      if (has(sources, seat))
        ptx::add(args.workspace + ROWS_CAME + seat, channel.memory.sent[seat]);
    }
    if (channel.lane == 0 && channel.dropped & sources)
      ptx::set_bits(&args.op->lost, channel.dropped & sources);
  }
};

#endif
