// Empties the places that have been read (layout.h).
//
// A receiving kernel empties everything that earlier kernels have read, at a time when it would otherwise wait for its
// peers. The kernel after it gives the credit. So these stores delay nobody. The end of the receiving kernel orders all
// its stores before the next kernel gives the credit, and the peer writes its next row only after it has read the
// credit. Data that the kernel itself reads is not touched: it belongs to later operations, in the other slot, or is
// not counted as read yet.
//
// The last warps of the set get the first jobs, since they have the least other work.
//
// A lost member may still write later. This does no harm, since its link is not used again, and a new link has new
// areas. A member that skips an operation (dispatch/receive_headers.cuh) reads nothing of it, but takes part in later
// operations. So the sender empties the places of what it sent to this member.
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

// Empties the answers to this rank's tokens: the place of each packet, in all areas in which it arrived. Answers
// encoded as logfmt10 lie within the places of the plain answers. [warp set]
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

// Empties the rows that arrived. [warp set]
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

// Empties the rows that this rank sent to members which skipped the operation. A later kernel sends the next operation
// that uses these places, so all stores must have arrived at the end of this kernel. [warp set]
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

// Empties the rows of an operation whose row format differs from the format for which this kernel was launched. [warp
// set]
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

// Empties everything that has been read, or that will not be read. [warp set]
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
