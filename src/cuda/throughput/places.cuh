// The places of received rows: the number of each (source, token) pair, and the rows of the caller's buffer.
#ifndef CUDA_THROUGHPUT_PLACES_CUH
#define CUDA_THROUGHPUT_PLACES_CUH

#include <weft/ep.h>

#include "cuda/throughput/channel.cuh"

// The workspace of the rows kernel: number of blocks that have ended; rows that arrived from each seat; the places of
// each block; a bit for each row of a source.
enum { ROWS_ENDED = 0, ROWS_CAME = 64, ROWS_PLACES = 128 };

// The first row and the number of rows for each source and local expert. The table is in shared memory if it fits
// there, else in the block's part of the workspace. Sources are in the order of their ranks.
enum { PLACES_SHARED = 512 }; // entries of each
struct places_table {
  // [count][E] row of the first selection, counted in the expert's part (PER_EXPERT) or in the whole buffer
  uint32_t *first;
  uint32_t *counts; // [count][E]
  uint32_t *ends;   // [E] PACKED: row after the expert's last one; at the end of the kernel see lost.cuh
  uint32_t experts;
  uint8_t nth[DEVICE_SEATS]; // index of each seat in the order of ranks
  __device__ __forceinline__ uint32_t at(uint32_t seat, uint32_t expert) const { return nth[seat] * experts + expert; }
  __device__ __forceinline__ uint32_t count(uint32_t seat, uint32_t expert) const { return counts[at(seat, expert)]; }
};
__host__ __device__ static inline uint32_t places_words(uint32_t experts) {
  return (2 * DEVICE_SEATS + 1) * experts;
}

// A row to be placed: lane k has selection k.
struct routed {
  uint32_t pair; // number of the pair; not below the route's max_rows: the route has no room for it
  uint32_t seat, token;
  int32_t expert;  // local expert; -1: the selection is another rank's
  uint32_t number; // number among the source's selections of that expert; later see find_places()
  float weight;
  int32_t place; // row of the caller's buffer, or -1
};

// Where the scales of row `place` begin in the caller's buffer, in elements.
__device__ __forceinline__ uint64_t scales_of(const cuda_rows_args &args, int32_t place) {
  uint64_t row = (uint32_t)place;
  if (args.layout == WEFT_EP_PER_EXPERT) {
    uint64_t expert = row / args.rows;
    return expert * args.out_scale_expert_stride + (row - expert * args.rows) * args.out_scale_row_stride;
  }
  return row * args.out_scale_row_stride;
}

// Finds the place of each selection, and its number among all selections of its expert, or among all packed rows.
// [warp]
__device__ __forceinline__ void find_places(const cuda_rows_args &args, const places_table &table, routed &row) {
  row.place = -1;
  if (row.expert < 0)
    return;
  row.number += table.first[table.at(row.seat, (uint32_t)row.expert)];
  if (args.layout == WEFT_EP_RANK_MAJOR) {
    row.place = row.pair < args.rows ? (int32_t)row.pair : -1;
    return;
  }
  uint32_t place = row.number;
  if (place < args.rows)
    row.place = (int32_t)(args.layout == WEFT_EP_PER_EXPERT ? (uint32_t)row.expert * args.rows + place : place);
}

// The place of a selection according to a kept route; -1: the caller's buffer has no such row. This check is needed
// although the host compares the buffer with the one with which it saw the route filled: a graph captured earlier may
// have filled the route with another buffer since.
__device__ __forceinline__ int32_t kept_place(const cuda_rows_args &args, const cuda_route &route, size_t at) {
  int32_t place = route.place[at];
  uint32_t rows = args.layout == WEFT_EP_PER_EXPERT ? args.flow.experts * args.rows : args.rows;
  return (uint32_t)place < rows ? place : -1;
}

// Writes the data of a row other than its values, for the caller and, unless the route is kept, into the route. [warp]
template <bool KEPT>
__device__ __forceinline__ void write_routed(const cuda_rows_args &args, const flow_kernel &kernel, const routed &row,
                                             uint32_t lane) {
  uint32_t K = args.topk;
  size_t at = (size_t)row.pair * K + lane;
  bool mine = lane < K;
  if (!KEPT && row.pair < kernel.route.max_rows) {
    if (lane == 0)
      kernel.route.token[row.pair] = (int32_t)row.token;
    if (mine) {
      kernel.route.place[at] = args.layout == WEFT_EP_RANK_MAJOR ? (int32_t)row.number : row.place;
      kernel.route.expert[at] = row.expert;
      kernel.route.weight[at] = row.weight;
    }
  }
  if (mine && args.slot && row.pair < args.rows)
    args.slot[at] = row.place;
  uint32_t valid = __ballot_sync(~0u, row.expert >= 0 && mine);
  if (args.layout != WEFT_EP_RANK_MAJOR) {
    if (mine && row.place >= 0) {
      if (args.src_rank)
        args.src_rank[row.place] = kernel.op.rank[row.seat];
      if (args.src_token)
        args.src_token[row.place] = (int32_t)row.token;
      if (args.weights)
        args.weights[row.place] = row.weight;
    }
    return;
  }
  if (row.pair >= args.rows)
    return;
  if (lane == 0 && args.src_rank)
    args.src_rank[row.pair] = kernel.op.rank[row.seat];
  if (lane == 0 && args.src_token)
    args.src_token[row.pair] = (int32_t)row.token;
  if (!mine)
    return;
  uint32_t before = (1u << lane) - 1;
  uint32_t k = args.keep_places  ? lane
               : row.expert >= 0 ? __popc(valid & before)
                                 : __popc(valid) + __popc(~valid & before);
  if (args.local_expert)
    args.local_expert[(size_t)row.pair * K + k] = row.expert;
  if (args.weights)
    args.weights[(size_t)row.pair * K + k] = row.expert >= 0 ? row.weight : 0.0f;
}

// Lists a row's places as the outputs of a job. [warp]
__device__ __forceinline__ void list_places(const cuda_rows_args &args, const routed &row, mover_job &job,
                                            uint32_t lane) {
  uint32_t copies = __ballot_sync(~0u, row.place >= 0 && lane < args.topk);
  if (args.layout == WEFT_EP_RANK_MAJOR) // one row for all selections
    copies &= 0u - copies;
  if (copies >> lane & 1) {
    uint32_t o = __popc(copies & ((1u << lane) - 1));
    job.output[o] = (char *)args.out + (uint64_t)(uint32_t)row.place * args.shape.value_bytes;
    job.scales_at[o] = (uint64_t)((uint32_t *)args.out_scales + (args.out_scales ? scales_of(args, row.place) : 0));
  }
  if (lane == 0)
    job.outputs = __popc(copies);
}

enum { SCALES = 4 }; // words of a row's scales for each lane
static_assert(SCALES * WARP * 4 >= EP_MAX_SCALES, "lanes have all scales of a row");

// Writes scales to each place of a job. [warp, the one that listed the places]
__device__ __forceinline__ void put_scales(const cuda_rows_args &args, const mover_job &job,
                                           const uint32_t scale[SCALES], uint32_t lane) {
  uint32_t outputs = job.outputs;
#pragma unroll 1
  for (uint32_t o = 0; o < outputs; o++) {
    uint32_t *to = (uint32_t *)job.scales_at[o];
#pragma unroll
    for (uint32_t i = 0; i < SCALES; i++)
      if (i * WARP + lane < args.shape.scale_words)
        to[(uint64_t)(i * WARP + lane) * args.out_scale_block_stride] = scale[i];
  }
}

// Makes the table; block `reporter` also reports to the caller. [block]
static __device__ __noinline__ void make_places(const cuda_rows_args &args, const flow_kernel &kernel,
                                                places_table &table, uint32_t reporter) {
  __shared__ uint32_t shared[2 * PLACES_SHARED], sizes[256], begins[257], most;
  uint32_t E = args.flow.experts, members = kernel.op.count, entries = members * E;
  uint32_t *global = args.workspace + ROWS_PLACES + (size_t)blockIdx.x * places_words(E);
  uint32_t *first = entries <= PLACES_SHARED ? shared : global;
  uint32_t *counts = entries <= PLACES_SHARED ? shared + PLACES_SHARED : global + DEVICE_SEATS * E;
  bool reports = blockIdx.x == reporter;
  if (threadIdx.x == 0) {
    table.first = first;
    table.counts = counts;
    table.ends = global + 2 * DEVICE_SEATS * E;
    table.experts = E;
    most = 0;
  }
  if (threadIdx.x < members)
    table.nth[kernel.op.by_rank[threadIdx.x]] = (uint8_t)threadIdx.x;
  for (uint32_t i = threadIdx.x; i < entries; i += blockDim.x) {
    uint32_t seat = kernel.op.by_rank[i / E];
    // A kept route keeps all places, also those of sources that have left.
    uint64_t known = kernel.op.seats | kernel.op.absent;
    counts[i] = has(known, seat) ? ((const volatile uint32_t *)kernel.op.counts)[seat * E + i % E] : 0;
  }
  uint32_t ranges = !reports || !args.range ? 0 : args.layout == WEFT_EP_RANK_MAJOR ? args.capacity : E * args.capacity;
  for (uint32_t i = threadIdx.x; i < ranges; i += blockDim.x)
    args.range[i] = 0;
  __syncthreads();
  for (uint32_t e = threadIdx.x; e < E; e += blockDim.x) {
    uint32_t rows = 0;
    for (uint32_t i = 0; i < members; i++) {
      first[i * E + e] = rows;
      rows += counts[i * E + e];
    }
    sizes[e] = rows;
    if (!reports)
      continue;
    atomicMax(&most, rows);
    if (args.counts)
      args.counts[e] = (int32_t)rows;
    if (args.expert_total)
      args.expert_total[e] += (int32_t)rows;
  }
  __syncthreads();
  if (args.layout == WEFT_EP_PACKED) {
    if (threadIdx.x < WARP) {
      uint32_t end = list_begins(sizes, E, args.alignment, begins);
      if (threadIdx.x == 0)
        begins[E] = end;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < entries; i += blockDim.x)
      first[i] += begins[i % E];
    for (uint32_t e = threadIdx.x; e < E; e += blockDim.x) {
      table.ends[e] = begins[e] + sizes[e];
      if (reports && args.expert_end)
        args.expert_end[e] = (int32_t)(begins[e] + sizes[e]);
    }
  }
  __syncthreads();
  if (!reports)
    return;
  if (threadIdx.x == 0)
    args.op->needed_rows = args.layout == WEFT_EP_PACKED       ? begins[E]
                           : args.layout == WEFT_EP_RANK_MAJOR ? kernel.rows
                                                               : most;
  if (args.range && args.layout == WEFT_EP_RANK_MAJOR) {
    for (uint32_t i = threadIdx.x; i < members; i += blockDim.x) {
      uint32_t seat = kernel.op.by_rank[i];
      args.range[kernel.op.rank[seat]] = (int64_t)((uint64_t)kernel.row_base[seat] << 32 | kernel.op.rows[seat]);
    }
  } else if (args.range) {
    for (uint32_t i = threadIdx.x; i < entries; i += blockDim.x) {
      uint32_t begin = first[i] - (args.layout == WEFT_EP_PACKED ? begins[i % E] : 0); // a row of the expert's part
      args.range[(size_t)(i % E) * args.capacity + kernel.op.rank[kernel.op.by_rank[i / E]]] =
          (int64_t)((uint64_t)begin << 32 | counts[i]);
    }
  }
}

// Sets row `place` of the caller's buffer to 0, without an owner. [warp]
static __device__ __noinline__ void zero_row(const cuda_rows_args &args, uint32_t place, int32_t rank, uint32_t lane) {
  char *row = (char *)args.out + (uint64_t)place * args.shape.value_bytes;
  for (uint32_t at = lane * 16; at < args.shape.value_bytes; at += WARP * 16)
    ptx::store16(row + at, make_uint4(0, 0, 0, 0));
  if (args.out_scales) {
    uint64_t scales = scales_of(args, (int32_t)place);
    for (uint32_t word = lane; word < args.shape.scale_words; word += WARP)
      ((uint32_t *)args.out_scales)[scales + (uint64_t)word * args.out_scale_block_stride] = 0;
  }
  if (lane == 0 && args.src_rank)
    args.src_rank[place] = rank;
  if (lane == 0 && args.src_token)
    args.src_token[place] = -1;
  if (lane == 0 && args.weights && args.layout != WEFT_EP_RANK_MAJOR)
    args.weights[place] = 0.0f;
}

// PACKED: clears the rows between the parts; all warps share the work. [warp]
static __device__ __noinline__ void zero_padding(const cuda_rows_args &args, const places_table &table, uint32_t warp,
                                                 uint32_t warps, uint32_t lane) {
  uint32_t a = args.alignment, before = 0; // before: rows in the earlier gaps
#pragma unroll 1
  for (uint32_t e = 0; e < args.flow.experts; e++) {
    uint32_t end = table.ends[e], gap = (end + a - 1) / a * a - end;
#pragma unroll 1
    for (uint32_t i = (warp + warps - before % warps) % warps; i < gap && end + i < args.rows; i += warps)
      zero_row(args, end + i, -1, lane);
    before += gap;
  }
}

#endif
