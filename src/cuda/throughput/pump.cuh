// A warp's pump: moves rows, packet by packet, from places in memory to others, and casts or adds them on the way.
//
// A row's work is a *job*: its inputs, and where the result goes. Loads run ahead of what the warp does: into the next
// job, once it is ready. An *item* is one packet of one input; it has one *stage* of shared memory, from its load until
// its last use, and one group of bulk stores, empty where the item stores nothing: so what has to have ended is told by
// counting items.
//
// Before Hopper lanes copy, and nothing runs ahead.
#ifndef CUDA_THROUGHPUT_PUMP_CUH
#define CUDA_THROUGHPUT_PUMP_CUH

#include "cuda/dispatch/cast.cuh"
#include "cuda/kernels/packet.cuh"
#include "cuda/throughput/op.h"

enum {
  PUMP_LINE = WARP * 16,            // bytes, 16 a lane
  PUMP_LINES = 7,                   // of a packet, at most: a row of 7168 makes whole ones
  PUMP_PACKET = PUMP_LINES * PUMP_LINE,
  PUMP_INPUTS = CUDA_MAX_TOPK + 2,  // ranks or experts, and biases
  PUMP_OUTPUTS = CUDA_MAX_TOPK,
  PUMP_FEET = 4,
  PUMP_MOST_STAGES = 12,
};

// Built with FLOW_TRACE, warps count the cycles of what they do.
#ifdef FLOW_TRACE
__device__ unsigned long long flow_traced[4][8];
__device__ __forceinline__ unsigned flow_clock() {
  unsigned v;
  asm volatile("mov.u32 %0, %clock;" : "=r"(v)::"memory");
  return v;
}
struct flow_timer {
  unsigned &sum, since;
  __device__ __forceinline__ explicit flow_timer(unsigned &sum) : sum(sum), since(flow_clock()) {}
  __device__ __forceinline__ ~flow_timer() { sum += flow_clock() - since; }
};
#define FLOW_TIME(i) flow_timer timer_##i(traced[i])
#define FLOW_TIME_OF(p, i) flow_timer timer_##i((p).traced[i])
#else
#define FLOW_TIME(i)
#define FLOW_TIME_OF(p, i)
#endif

enum pump_kind { PUMP_PASS, PUMP_CAST, PUMP_SUM };

// In shared memory, of a warp.
struct pump_job {
  const char *input[PUMP_INPUTS];
  float weight[PUMP_INPUTS];
  uint32_t inputs, outputs;
  uint32_t step;      // bytes of the inputs from packet to packet; 0: they are zeros
  uint32_t factor_at; // PUMP_SUM: after so many inputs the sum is multiplied by `factor`; 0: never
  float factor;
  uint32_t remote;      // of the outputs, the first: places of rings, which get feet
  uint32_t foot;        // which of the warp's feet
  uint32_t source;      // seat, where the input is a ring's
  uint32_t number;      // of the row in its channel
  uint64_t seats;       // that the job concerns
  char *output[PUMP_OUTPUTS];
  uint64_t scales_at[PUMP_OUTPUTS]; // elements: where the scales of an output go
};

// What a pump is made of: the same for all warps of a kernel.
struct pump_shape {
  uint32_t in_row, out_row;       // bytes
  uint32_t in_packet, out_packet; // bytes
  uint32_t packets;               // of a row
  uint32_t stages;
  uint32_t scales, foot; // bytes of a foot: scales at its begin, rounded up to 16; all of it
};

struct pump_memory {
  pump_job jobs[2];
  uint64_t arrivals[PUMP_MOST_STAGES];
  uint32_t sent[DEVICE_SEATS]; // rows of this operation and channel, by seat: written or read
  uint32_t room[DEVICE_SEATS]; // up to which number there is room, or a row
};

static inline size_t pump_bytes(const pump_shape &shape) {
  return (sizeof(pump_memory) + PUMP_FEET * shape.foot + 127) / 128 * 128 + (size_t)shape.stages * PUMP_PACKET;
}

// Rows of `in` bytes that become ones of `out`, which is `in` or half of it.
static inline void pump_shape_init(pump_shape *shape, uint32_t in, uint32_t out) {
  shape->in_row = in;
  shape->out_row = out;
  shape->packets = (in + PUMP_PACKET - 1) / PUMP_PACKET;
  uint32_t unit = 2 * CUDA_BLOCK; // bytes of bf16 that share a scale
  shape->in_packet = (in + shape->packets * unit - 1) / (shape->packets * unit) * unit;
  shape->packets = (in + shape->in_packet - 1) / shape->in_packet;
  shape->out_packet = (uint32_t)((uint64_t)shape->in_packet * out / in);
  shape->scales = shape->foot = 0;
  shape->stages = 0;
}

__device__ uint4 pump_zeros[PUMP_PACKET / 16];

// Waits until all groups but the newest `n` have arrived, or some more.
__device__ __forceinline__ void pump_wait_but(uint32_t n) {
#if __CUDA_ARCH__ >= 900
  if (n >= 8)
    ptx::bulk_wait_but<8>();
  else if (n >= 4)
    ptx::bulk_wait_but<4>();
  else if (n >= 2)
    ptx::bulk_wait_but<2>();
  else if (n == 1)
    ptx::bulk_wait_but<1>();
  else
    ptx::bulk_wait_but<0>();
#endif
}

struct pump {
  const pump_shape &shape;
  pump_memory *memory;
  char *feet;
  uint32_t stages_at; // shared address
  uint32_t lane;
  uint32_t issued, done;              // items
  uint32_t load_stage, load_job, load_packet, load_input; // where the next load goes, and what it loads
#ifdef FLOW_TRACE
  unsigned traced[8] = {};
#endif
  uint32_t use_stage, phases;         // phase of each stage, by bit, for its next wait
  uint32_t stored;                    // stages that something was stored from, by bit

  // [warp]
  __device__ __forceinline__ pump(const pump_shape &shape, char *room)
      : shape(shape), memory((pump_memory *)room), feet(room + sizeof(pump_memory)), lane(threadIdx.x % WARP),
        issued(0), done(0), load_stage(0), load_job(0), load_packet(0), load_input(0), use_stage(0), phases(0), stored(0) {
    stages_at = ptx::shared_address(room) + (uint32_t)((sizeof(pump_memory) + PUMP_FEET * shape.foot + 127) / 128 * 128);
#if __CUDA_ARCH__ >= 900
    if (lane < shape.stages)
      ptx::arrival_init(ptx::shared_address(&memory->arrivals[lane]));
    ptx::arrival_init_fence();
#endif
    __syncwarp();
  }

  __device__ __forceinline__ char *foot(uint32_t i) const { return feet + i * shape.foot; }
  __device__ __forceinline__ uint32_t stage(uint32_t i) const { return stages_at + i * PUMP_PACKET; }
  __device__ __forceinline__ uint32_t in_bytes(uint32_t packet) const {
    return min(shape.in_packet, shape.in_row - packet * shape.in_packet);
  }

  // Loads what there is room for, of jobs before `ready`. [warp]
  __device__ __forceinline__ void load(uint32_t ready) {
    FLOW_TIME(6);
#pragma unroll 1
    while (load_job != ready && issued - done < shape.stages - 1) {
      const pump_job &job = memory->jobs[load_job % 2];
      uint32_t bytes = in_bytes(load_packet);
      const char *from = job.input[load_input] + load_packet * job.step;
#if __CUDA_ARCH__ >= 900
      if (lane == 0) {
        uint32_t arrival = ptx::shared_address(&memory->arrivals[load_stage]);
        if (stored >> load_stage & 1)
          ptx::bulk_wait_read_but<1>(); // the item that had this stage is at least one before the newest
        ptx::arrival_expect(arrival, bytes);
        ptx::bulk_load(stage(load_stage), from, bytes, arrival);
      }
#else
      for (uint32_t at = lane * 16; at < bytes; at += PUMP_LINE)
        put(stage(load_stage) + at, ptx::load_line(from + at));
#endif
      issued++;
      load_stage = load_stage + 1 == shape.stages ? 0 : load_stage + 1;
      if (++load_input == job.inputs) {
        load_input = 0;
        if (++load_packet == shape.packets) {
          load_packet = 0;
          load_job++;
        }
      }
    }
  }

  template <typename MORE> __device__ __forceinline__ void load_more(uint32_t &ready, MORE more) {
    load(ready);
    if (load_job == ready && more())
      load(ready);
  }

  static __device__ __forceinline__ void put(uint32_t at, uint4 v) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
  }
  static __device__ __forceinline__ void put8(uint32_t at, uint2 v) {
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(at), "r"(v.x), "r"(v.y) : "memory");
  }

  // What the lanes wrote to shared memory can be stored from there, and what they read there can be written again.
  static __device__ __forceinline__ void settle() {
#if __CUDA_ARCH__ >= 900
    ptx::bulk_fence();
#endif
    __syncwarp();
  }

  // Copies shared memory; arrives some time. [warp]
  __device__ __forceinline__ void store(char *to, uint32_t from, uint32_t bytes) const {
#if __CUDA_ARCH__ >= 900
    if (lane == 0)
      ptx::bulk_store(to, from, bytes);
#else
    for (uint32_t at = lane * 16; at < bytes; at += PUMP_LINE)
      ptx::store16(to + at, ptx::shared_load16(from + at));
#endif
  }
  __device__ __forceinline__ void commit() const {
#if __CUDA_ARCH__ >= 900
    if (lane == 0)
      ptx::bulk_commit();
#else
    __syncwarp();
#endif
  }
  // Until all stores but those of the newest `items` items have arrived. [warp]
  __device__ __forceinline__ void await_stores(uint32_t items) const {
#if __CUDA_ARCH__ >= 900
    if (lane == 0)
      pump_wait_but(items);
#endif
    __syncwarp();
  }

  // The feet of a job's places in rings: scales and the first line together, further lines alone. `line`: bytes. [warp]
  __device__ __forceinline__ void store_feet(const pump_job &job, uint32_t line) const {
    uint32_t from = ptx::shared_address(foot(job.foot));
#pragma unroll 1
    for (uint32_t o = 0; o < job.remote; o++) {
      char *to = job.output[o] + shape.out_row;
      if (o == 0) {
        if (shape.scales + line)
          store(to, from, shape.scales + line);
        continue;
      }
      if (shape.scales)
        store(to, from, shape.scales);
      if (line)
        store(to + shape.scales, from + shape.scales + o * line, line);
    }
  }

  // Waits for the next item's load. Returns its stage's address. [warp]
  __device__ __forceinline__ uint32_t await() {
    FLOW_TIME(5);
#if __CUDA_ARCH__ >= 900
    ptx::arrival_wait(ptx::shared_address(&memory->arrivals[use_stage]), phases >> use_stage & 1);
    phases ^= 1u << use_stage;
#else
    __syncwarp();
#endif
    uint32_t at = stage(use_stage);
    use_stage = use_stage + 1 == shape.stages ? 0 : use_stage + 1;
    return at;
  }

  __device__ __forceinline__ void store_packet(const pump_job &job, uint32_t at, uint32_t packet) {
    stored |= 1u << (use_stage == 0 ? shape.stages : use_stage) - 1;
    uint32_t first = packet * shape.out_packet, bytes = min(shape.out_packet, shape.out_row - first);
#pragma unroll 1
    for (uint32_t o = 0; o < job.outputs; o++)
      store(job.output[o] + first, at, bytes);
  }

  // All packets of a job as they are. `ready`: jobs before it can be loaded; `more` makes it more, if it can. `last`
  // stores what belongs to the row besides. [warp]
  template <typename MORE, typename LAST>
  __device__ __forceinline__ void pass(const pump_job &job, uint32_t &ready, MORE more, LAST last) {
#pragma unroll 1
    for (uint32_t packet = 0; packet < shape.packets; packet++) {
      load_more(ready, more);
      uint32_t at = await();
      store_packet(job, at, packet);
      if (packet + 1 == shape.packets)
        last();
      commit();
      done++;
    }
  }

  // bf16 to e4m3, with scales of type SCALE into the job's foot. [warp]
  template <typename MORE, typename LAST>
  __device__ __forceinline__ void cast(const pump_job &job, int dtype, uint32_t &ready, MORE more,
                                       LAST last) {
    char *scales = foot(job.foot);
#pragma unroll 1
    for (uint32_t packet = 0; packet < shape.packets; packet++) {
      load_more(ready, more);
      uint32_t at = await(), blocks = in_bytes(packet) / (2 * CUDA_BLOCK);
      uint32_t first = packet * (shape.in_packet / (2 * CUDA_BLOCK));
      uint4 v[PUMP_LINES];
#pragma unroll
      for (int i = 0; i < PUMP_LINES; i++)
        v[i] = ptx::shared_load16(at + i * PUMP_LINE + lane * 16);
      __syncwarp();
      // Lines side by side, since each step waits for the one before. Half a warp has a block.
      uint32_t most[PUMP_LINES];
#pragma unroll
      for (int i = 0; i < PUMP_LINES; i++) {
        uint32_t pair = amax_pair(v[i]);
        most[i] = max(pair & 0xFFFF, pair >> 16);
      }
#pragma unroll
      for (int step = 8; step > 0; step /= 2)
#pragma unroll
        for (int i = 0; i < PUMP_LINES; i++)
          most[i] = max(most[i], __shfl_xor_sync(~0u, most[i], step));
      bool finite = true;
#pragma unroll
      for (int i = 0; i < PUMP_LINES; i++)
        finite &= is_finite(most[i]);
      if (!__all_sync(~0u, finite)) {
#pragma unroll
        for (int i = 0; i < PUMP_LINES; i++)
          most[i] = finite_over_block(v[i], most[i]);
      }
#pragma unroll
      for (int i = 0; i < PUMP_LINES; i++) {
        uint32_t block = 2 * i + lane / 16;
        float inverse, scale = block_scale(most[i], dtype != CUDA_FP8, &inverse);
        uint2 codes = cast8(v[i], inverse);
        if (block < blocks) {
          put8(at + i * (PUMP_LINE / 2) + lane * 8, codes);
          if (lane % 16 == 0 && dtype == CUDA_FP8_UE8M0)
            scales[first + block] = (char)ue8m0_of(scale);
          else if (lane % 16 == 0)
            ((float *)scales)[first + block] = scale;
        }
      }
      settle();
      store_packet(job, at, packet);
      if (packet + 1 == shape.packets)
        last();
      commit();
      done++;
    }
  }

  // The largest magnitude of a block's values that are finite. [warp]
  static __device__ __noinline__ uint32_t finite_over_block(uint4 v, uint32_t most) {
    most = finite_amax_of(v, make_uint4(0, 0, 0, 0));
#pragma unroll 1
    for (int step = 8; step > 0; step /= 2)
      most = max(most, __shfl_xor_sync(~0u, most, step));
    return most;
  }

  // The inputs added up in their order, in f32, each with its weight, rounded once to bf16. [warp]
  template <typename MORE, typename LAST>
  __device__ __forceinline__ void sum(const pump_job &job, uint32_t &ready, MORE more, LAST last) {
#pragma unroll 1
    for (uint32_t packet = 0; packet < shape.packets; packet++) {
      load_more(ready, more); // while no sum takes registers
      float acc[PUMP_LINES][8] = {};
#pragma unroll 1
      for (uint32_t input = 0; input < job.inputs; input++) {
        load(ready);
        uint32_t at = await();
        float weight = job.weight[input];
#pragma unroll
        for (int i = 0; i < PUMP_LINES; i++)
          add8(acc[i], ptx::shared_load16(at + i * PUMP_LINE + lane * 16), weight);
        if (input + 1 == job.factor_at) {
          float factor = job.factor;
#pragma unroll
          for (int i = 0; i < PUMP_LINES; i++)
#pragma unroll
            for (int j = 0; j < 8; j++)
              acc[i][j] *= factor;
        }
        if (input + 1 == job.inputs) {
#pragma unroll
          for (int i = 0; i < PUMP_LINES; i++)
            put(at + i * PUMP_LINE + lane * 16, pack8(acc[i]));
        }
        if (input + 1 == job.inputs) {
          settle();
          store_packet(job, at, packet);
          if (packet + 1 == shape.packets)
            last();
        } else {
          __syncwarp();
        }
        commit();
        done++;
      }
    }
  }
};

#endif
