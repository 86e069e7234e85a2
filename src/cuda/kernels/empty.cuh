// Makes places empty again that have been read (layout.h).
//
// A kernel that receives does it for all that the kernels before it have read, while it would wait for its peers; the
// kernel after it gives the credit. So no store of it is on anybody's way, and the end of a kernel, which orders all
// its stores before what the next one does, stands between them and the peer's next row: the credit is read, and then
// the row written, after that. What is read here by the kernel itself is not touched: it belongs to later operations,
// in the other slot, or is not counted as read yet.
//
// The last warps of the set begin: where there is little to empty, they have least else to do.
//
// A member that is lost may write later. Its link is not used again: a new one has new areas. One that passes over an
// operation (dispatch/receive_headers.cuh) reads nothing of it, but is there in later ones: what it was sent its sender
// takes back.
#ifndef CUDA_KERNELS_EMPTY_CUH
#define CUDA_KERNELS_EMPTY_CUH

#include "cuda/kernels/snapshot.cuh"

// [warp]
template <int EACH> __device__ __forceinline__ void empty_lines(char *at, uint32_t count) {
  seat_in_packet seat;
#pragma unroll
  for (int i = 0; i < packet<EACH>::ITERATIONS; i++)
    ptx::store16_if(seat.line(i) < count, at + seat.offset(i),
                    make_uint4(CUDA_EMPTY, CUDA_EMPTY, CUDA_EMPTY, CUDA_EMPTY));
}

// The answers to this rank's tokens: each packet's place, in all areas that it came to. Those that travel as logfmt10
// lie within the places of what they code. [warp set]
__device__ __forceinline__ void empty_answers(const cuda_layout &layout, const snapshot &snapshot, uint64_t op,
                                              const warp_set &warp_set) {
  const cuda_view &view = view_of(snapshot, op);
  const cuda_handle &handle = snapshot.handle[op % CUDA_LIVE];
  uint32_t jobs = (uint32_t)handle.tokens * layout.answer.packets;
#pragma unroll 1
  for (uint32_t i = warp_set.count - 1 - warp_set.index; i < jobs; i += warp_set.count) {
    uint32_t token = divide(i, layout.answer.by_packets), index = i - token * layout.answer.packets;
    uint64_t seats = handle.members[token];
    size_t at = answer_offset(layout, op, token, index);
    uint32_t count = chunks_of(layout.answer, index);
#pragma unroll 1
    for (uint32_t m = 0; m < view.count; m++)
      if (view.members[m].seat < DEVICE_SEATS && seats >> view.members[m].seat & 1)
        empty_lines<CUDA_BF16_CHUNKS>(view.members[m].in + at, count);
  }
}

// The rows that came. [warp set]
template <int EACH>
__device__ __forceinline__ void empty_rows(const cuda_layout &layout, const cuda_form &form, const snapshot &snapshot,
                                           uint64_t op, const warp_set &warp_set) {
  const cuda_view &view = view_of(snapshot, op);
  const cuda_handle &handle = snapshot.handle[op % CUDA_LIVE];
  uint32_t i = warp_set.count - 1 - warp_set.index;
#pragma unroll 1
  for (uint32_t m = 0; m < view.count; m++) {
    if (view.members[m].seat >= DEVICE_SEATS)
      continue;
    uint32_t jobs = handle.rows[m] * form.packets;
#pragma unroll 1
    for (; i < jobs; i += warp_set.count) {
      uint32_t row = divide(i, form.by_packets), index = i - row * form.packets;
      uint32_t token = handle.token[(size_t)m * layout.max_tokens + row], count = chunks_of(form, index);
      spot at = row_spot(layout, form, op, token, index);
      empty_lines<EACH>(view.members[m].in + at.values, count);
      if (packet<EACH>::SCALES)
        ptx::store4_if(warp_set.lane < count, view.members[m].in + at.scales + warp_set.lane * 4, CUDA_EMPTY);
    }
    i -= jobs; // the next job is the next member's
  }
}

// The rows of this rank's that members which passed over the operation were sent. The next operation with those places
// is sent by a later kernel: so all that is stored here has to be there by the end of this one. [warp set]
static __device__ __noinline__ void take_back(const cuda_layout &layout, const cuda_form &form,
                                              const snapshot &snapshot, uint64_t op, uint32_t first, uint32_t step) {
  const cuda_view &view = view_of(snapshot, op);
  const cuda_handle &handle = snapshot.handle[op % CUDA_LIVE];
  const uint4 none = make_uint4(CUDA_EMPTY, CUDA_EMPTY, CUDA_EMPTY, CUDA_EMPTY);
  uint32_t begin = threadIdx.x % WARP * 16;
#pragma unroll 1
  for (uint32_t m = 0; m < view.count; m++) {
    uint32_t seat = view.members[m].seat;
    if (seat >= DEVICE_SEATS || !(handle.passed >> seat & 1))
      continue;
#pragma unroll 1
    for (uint32_t token = first; token < handle.sent; token += step) {
      if (!(handle.members[token] >> seat & 1))
        continue;
      spot at = row_spot(layout, form, op, token, 0);
#pragma unroll 1
      for (uint32_t i = begin; i < form.stride; i += WARP * 16)
        ptx::store16(view.members[m].out + at.values + i, none);
#pragma unroll 1
      for (uint32_t i = begin; i < form.scale_stride; i += WARP * 16)
        ptx::store16(view.members[m].out + at.scales + i, none);
    }
  }
  ptx::fence_system();
}

// The same for an operation whose rows are of another form than those of the one that this kernel is for. [warp set]
static __device__ __noinline__ void empty_other_rows(const cuda_layout &layout, const cuda_forms &forms,
                                                     const snapshot &snapshot, uint64_t op, warp_set warp_set) {
  const cuda_handle &handle = snapshot.handle[op % CUDA_LIVE];
  const cuda_form form = handle.quantized ? forms.quantized : forms.plain;
  if (handle.quantized)
    empty_rows<CUDA_FP8_CHUNKS>(layout, form, snapshot, op, warp_set);
  else
    empty_rows<CUDA_BF16_CHUNKS>(layout, form, snapshot, op, warp_set);
  if (handle.passed)
    take_back(layout, form, snapshot, op, warp_set.index, warp_set.count);
}

// All that has been read, and what will not be. [warp set]
__device__ __forceinline__ void empty_read(const cuda_layout &layout, const cuda_state *state, const snapshot &snapshot,
                                           const warp_set &warp_set) {
  const cuda_counters &now = snapshot.counters;
#pragma unroll 1
  for (uint64_t op = now.emptied_answers; op < now.combined; op++)
    empty_answers(layout, snapshot, op, warp_set);
#pragma unroll 1
  for (uint64_t op = now.emptied_rows; op < now.received; op++) {
    const cuda_handle &handle = snapshot.handle[op % CUDA_LIVE];
    if (handle.quantized != (layout.dtype != CUDA_BF16)) {
      empty_other_rows(layout, state->forms, snapshot, op, warp_set);
      continue;
    }
    if (handle.quantized)
      empty_rows<CUDA_FP8_CHUNKS>(layout, layout.row, snapshot, op, warp_set);
    else
      empty_rows<CUDA_BF16_CHUNKS>(layout, layout.row, snapshot, op, warp_set);
    if (handle.passed)
      take_back(layout, layout.row, snapshot, op, warp_set.index, warp_set.count);
  }
}

#endif
