// The memory that two GPU ranks share: for host and device alike.
//
// An *area* lies in the memory of its reader; its writer, the peer, maps it. One area per direction, like the host
// engine's, with three differences that a GPU asks for:
//   - A row has a place of its own for each token of the source (row t is token t), so that nobody counts before it
//     writes; rows of tokens that do not go to the reader stay as they are.
//   - Each row has a flag of its own: a row is expanded, or added, when it comes, while others are on their way.
//   - The header and the routing of all tokens (local experts and weights) travel ahead of the rows, in *units* of 16
//     bytes that carry their own flag and are written and read as a whole: no fence, and one look brings flag and data.
//     From the routing the reader computes the place of each row that is still to come.
//
//   head | slot 0 | slot 1      slot: header, routing [M][K/2], row flags [M], combine flags [M], rows [M],
//                                     combine rows [M]
//
// Operation n uses slot n % 2. A flag holds n + 1 (its lower 32 bits); flags are only ever raised. The *credit* words
// of the head say which operations of ours the area's writer has taken from the area that we write: it writes them at
// the start of its next kernel, when the kernel before has read everything.
#ifndef CUDA_LAYOUT_H
#define CUDA_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define CUDA_STATIC_ASSERT static_assert
#else
#define CUDA_STATIC_ASSERT _Static_assert
#endif

enum {
  CUDA_LINE = 128,
  CUDA_MAX_MEMBERS = 64,
  CUDA_BLOCK = 128, // values that share a scale
  CUDA_DEPTH = 2,
};

enum cuda_dtype { CUDA_BF16 = 0, CUDA_FP8 = 1, CUDA_FP8_POW2 = 2 }; // enum weft_ep_dtype

// By the area's writer.
struct cuda_area_head {
  uint64_t taken_dispatch; // number + 1 of the last dispatch that it has taken from us
  uint64_t taken_combine;
  uint64_t pad[14];
};

// Written and read as a whole.
struct cuda_unit {
  uint32_t word[3];
  uint32_t flag;
};

// Header of an operation's dispatch.
struct cuda_slot_head {
  struct cuda_unit count; // word 0: tokens of the source
  uint64_t pad[14];
};

// Two selections of a token: local experts (int16, -1: not the reader's) in word 0, their weights (f32) behind.
enum { CUDA_UNIT_SELECTIONS = 2 };

struct cuda_layout {
  uint32_t max_tokens, hidden, topk;
  uint32_t units;                                // of a token's routing
  uint32_t value_bytes, scale_bytes, row_stride; // of a dispatched row
  uint32_t combine_stride;
  // offsets in a slot
  uint32_t routing, row_flags, combine_flags, rows, combine;
  uint32_t slot, area; // bytes
};

static inline uint32_t cuda_round_up(uint32_t value, uint32_t unit) {
  return (value + unit - 1) / unit * unit;
}

static inline void cuda_layout_init(struct cuda_layout *layout, uint32_t max_tokens, uint32_t hidden, uint32_t topk,
                                    int dtype) {
  layout->max_tokens = max_tokens;
  layout->hidden = hidden;
  layout->topk = topk;
  layout->units = (topk + CUDA_UNIT_SELECTIONS - 1) / CUDA_UNIT_SELECTIONS;
  layout->value_bytes = dtype == CUDA_BF16 ? 2 * hidden : hidden;
  layout->scale_bytes = dtype == CUDA_BF16 ? 0 : hidden / CUDA_BLOCK * 4;
  layout->row_stride = cuda_round_up(layout->value_bytes + layout->scale_bytes, CUDA_LINE);
  layout->combine_stride = 2 * hidden;
  uint32_t at = sizeof(struct cuda_slot_head);
  layout->routing = at;
  at = cuda_round_up(at + max_tokens * layout->units * (uint32_t)sizeof(struct cuda_unit), CUDA_LINE);
  layout->row_flags = at;
  at = cuda_round_up(at + max_tokens * 4, CUDA_LINE);
  layout->combine_flags = at;
  at = cuda_round_up(at + max_tokens * 4, CUDA_LINE);
  layout->rows = at;
  at += max_tokens * layout->row_stride;
  layout->combine = at;
  at += max_tokens * layout->combine_stride;
  layout->slot = at;
  layout->area = cuda_round_up(sizeof(struct cuda_area_head) + CUDA_DEPTH * at, CUDA_LINE);
}

CUDA_STATIC_ASSERT(sizeof(struct cuda_area_head) == CUDA_LINE, "an area's head is one line");
CUDA_STATIC_ASSERT(sizeof(struct cuda_unit) == 16, "a unit is what one store writes");
CUDA_STATIC_ASSERT(sizeof(struct cuda_slot_head) == CUDA_LINE, "a slot's head is one line");

#endif
