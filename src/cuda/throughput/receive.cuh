// The receiving end of a channel of rows: copies rows from the rings of all sources to their places.
#ifndef CUDA_THROUGHPUT_RECEIVE_CUH
#define CUDA_THROUGHPUT_RECEIVE_CUH

#include "cuda/throughput/places.cuh"

// KEPT: the kernel uses a route that was filled before; rows arrive without routing.
template <bool KEPT> struct row_receiver {
  static constexpr bool WRITES = false;
  struct channel channel;
  const cuda_rows_args &args;
  const flow_kernel &kernel;
  const places_table &table;
  uint64_t sources, open; // sources: all sources of rows; open: sources that may still send rows
  uint32_t last;          // source of the newest job
  // The source of the next row, whose foot (scales and routing) is loaded while the previous row is processed.
  // DEVICE_SEATS: no row has arrived.
  uint32_t seat, scale[SCALES];
  uint2 head, entry;

  __device__ __forceinline__ row_receiver(channel_memory &memory, uint32_t index, const cuda_rows_args &args,
                                          const flow_kernel &kernel, const places_table &table, uint64_t sources)
      : channel(kernel, args.flow, false, args.state, memory, index), args(args), kernel(kernel), table(table),
        sources(sources), open(sources), last(63), seat(DEVICE_SEATS) {}

  __device__ __forceinline__ int32_t *order_of(uint32_t seat, uint32_t number) const {
    return kernel.route.order + ((size_t)seat * CUDA_CHANNELS + channel.index) * args.flow.list + number;
  }

  // Loads the foot of the next row of one of `seats`. [warp]
  __device__ __forceinline__ void prefetch(uint64_t seats) {
    seat = seats ? last = next_seat(seats, last) : DEVICE_SEATS;
    if (!seats)
      return;
    uint32_t lane = channel.lane, number = channel.memory.sent[seat];
    const char *foot = channel.place(kernel.op.in[seat], number) + args.shape.value_bytes;
#pragma unroll
    for (uint32_t i = 0; i < SCALES; i++)
      scale[i] =
          i * WARP + lane < args.shape.scale_words ? ptx::load_volatile((const uint32_t *)foot + i * WARP + lane) : 0;
    entry = make_uint2(CUDA_WAY_NONE, 0);
    if (KEPT) {
      head = make_uint2((uint32_t)*order_of(seat, number), 0);
      return;
    }
    const char *line = foot + cuda_round_up(4 * args.shape.scale_words, 16);
    head = ptx::load_pair(line);
    if (lane < args.topk)
      entry = ptx::load_pair(line + 8 + 8 * lane);
  }

  __device__ __forceinline__ found_job find(mover_job &job) {
    uint32_t lane = channel.lane;
    if (seat == DEVICE_SEATS) {
      uint64_t ended, found = channel.there(open, &ended);
      open &= ~(ended | (channel.dropped & ~found));
      if (!found)
        return open ? JOB_WAITS : JOB_NONE;
      prefetch(found);
    }
    const uint32_t number = channel.memory.sent[seat];
    __syncwarp();
    if (lane == 0) {
      job.input[0] = channel.place(kernel.op.in[seat], number);
      job.inputs = 1;
      job.source = seat;
      job.token = number;
      channel.memory.sent[seat] = number + 1;
    }
    __syncwarp();
    return JOB_READY;
  }
  __device__ __forceinline__ void place(mover_job &job) {
    uint32_t lane = channel.lane, K = args.topk;
    const uint32_t seat = this->seat, number = job.token;
    const uint2 head = this->head, entry = this->entry;
    uint32_t scale[SCALES];
#pragma unroll
    for (uint32_t i = 0; i < SCALES; i++)
      scale[i] = this->scale[i];
    prefetch(channel.known(open));
    routed row;
    row.seat = seat;
    row.expert = -1;
    row.number = 0;
    row.weight = 0.0f;
    if (KEPT) {
      row.pair = head.x;
      bool known = row.pair < kernel.route.max_rows;
      row.token = known ? (uint32_t)kernel.route.token[row.pair] : 0;
      row.place = -1;
      if (known && lane < K) {
        size_t at = (size_t)row.pair * K + lane;
        row.expert = kernel.route.expert[at];
        row.weight = kernel.route.weight[at];
        // RANK_MAJOR: this does not depend on the layout in which the route was filled.
        row.place = args.layout != WEFT_EP_RANK_MAJOR         ? kept_place(args, kernel.route, at)
                    : row.expert >= 0 && row.pair < args.rows ? (int32_t)row.pair
                                                              : -1;
      }
    } else {
      row.pair = head.x < kernel.op.rows[seat] ? kernel.row_base[seat] + head.x : CUDA_WAY_NONE;
      row.token = min(head.y, args.flow.max_tokens - 1);
      uint32_t expert = entry.x >> CUDA_WAY_EXPERT;
      row.number = entry.x & ((1u << CUDA_WAY_EXPERT) - 1);
      // A value from a peer must be checked before it is used as an index.
      if (entry.x != CUDA_WAY_NONE && expert < args.flow.experts && row.number < table.count(seat, expert)) {
        row.expert = (int32_t)expert;
        row.weight = __uint_as_float(entry.y);
      }
      find_places(args, table, row);
      if (lane == 0)
        *order_of(seat, number) = (int32_t)row.pair;
    }
    __syncwarp();
    write_routed<KEPT>(args, kernel, row, lane);
    list_places(args, row, job, lane);
    __syncwarp();
    put_scales(args, job, scale, lane);
  }

  __device__ __forceinline__ void finished(const mover_job &job, bool) {
    if (channel.lane == 0)
      channel.give_credit(job.source, channel.base + job.token + 1);
  }
  __device__ __forceinline__ void flush() {}
  // [warp]
  __device__ __forceinline__ void end() {
    channel.settle();
#pragma unroll
    for (uint32_t h = 0; h < 2; h++) {
      uint32_t seat = channel.lane + h * WARP;
      if (!KEPT && seat != kernel.op.self)
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
