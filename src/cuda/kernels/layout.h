// The layout of the memory that two GPU ranks share. Host and device code include this header.
//
// An *area* lies in the memory of its reader; the writer, which is the peer, maps it. There is one area for each
// direction, as in the host engine. The data itself signals its arrival: the reader recognises from the data that it is
// complete. So one read gets the data, without a fence, an acknowledgement or a second store.
//
//   head | slot 0 | slot 1
//   slot: header, counts [E/6], routing [M], late weights [M][K/3], rows [M], their scales [M], answers [M]
//
// Small data is sent in *units* of 16 bytes, and the routing of a row in *lines* of 128 bytes. Each unit or line is
// written and read as a whole, and contains the number of its operation, its *flag*.
//
// Rows, scales and answers contain values only, no flag. A place that is still empty holds words with all bits set,
// CUDA_EMPTY, and no word that is sent has this value. So each word of 32 bits, which hardware writes and reads as a
// whole, shows by itself whether it has arrived. The order, the path and the pieces in which words arrive do not
// matter. The reader of a place makes it empty again, in a kernel after the one that read it, and then gives the credit
// to write there (empty.cuh).
//
// The header says how many rows follow, and the counts say how many of them are for each local expert. With the counts
// of all sources the reader knows where the rows of each source begin. The routing of a row names its experts, and for
// each expert the number of the row among the rows that its source sends to this expert. So the reader can place each
// row when it arrives, even if other data is still missing. Routing is packed in the order of tokens. A row and its
// answer have the place of their token, so that a row can be sent before the number of other rows is known.
//
// Operation n uses slot n % 2. A flag holds n + 1. Before the writer of a slot writes there again, it must know that
// the reader has *taken* the old data: has read it and emptied its place. A header says how many operations its sender
// has taken. That is enough while operations follow each other. If they overlap, the *credit* words of the head give
// this number; the reader writes them at the start of the kernel after the one that emptied the place. The *start* unit
// contains a joiner's first operation, and *awaits* the state of the writer while it waits for its own first operation.
//
// Rows have the caller's format and lie one after the other. A row is divided into *packets* of C chunks of 128 bytes.
// One warp handles one packet, 16 bytes for each lane; the values of an e4m3 chunk share one scale.
//
// Why a line of routing is written as a whole: the 8 lanes store 16 bytes each, in one instruction of one warp, to one
// aligned line. An SM sends this as one packet to the second-level cache, also over NVLink; one instruction reads the
// line in the same way. NCCL's LL128 protocol relies on the same property, on the same links. PTX guarantees it for 16
// bytes only (.b128), and units rely on this. For other links there is a *strict* way: the writer fences between a
// line's data and its flag, and the reader reads the line once more after it has seen the flag.
#ifndef CUDA_KERNELS_LAYOUT_H
#define CUDA_KERNELS_LAYOUT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "device/logfmt10.h"

#ifdef __cplusplus
#define CUDA_STATIC_ASSERT static_assert
#else
#define CUDA_STATIC_ASSERT _Static_assert
#endif
#ifdef __CUDACC__
#define CUDA_SHARED static constexpr inline __host__ __device__
#else
#define CUDA_SHARED static inline
#endif

enum {
  CUDA_LINE = 128,
  CUDA_MAX_MEMBERS = 64,
  CUDA_BLOCK = 128, // values that share a scale
  CUDA_DEPTH = 2,
};

// A word of a row, a scale or an answer that has not arrived. In every value type it is NaN, and so is CUDA_NOT_EMPTY,
// the word that is sent in its place.
#define CUDA_EMPTY     0xFFFFFFFFu
#define CUDA_NOT_EMPTY 0x7FFFFFFFu

enum cuda_dtype { CUDA_BF16 = 1, CUDA_FP8 = 2, CUDA_FP8_POW2 = 3, CUDA_FP8_UE8M0 = 4 }; // enum weft_ep_dtype
enum cuda_combine_dtype { CUDA_COMBINE_BF16 = 1, CUDA_COMBINE_LOGFMT10 = 2 };           // weft_ep_combine_dtype

// Written and read as a whole.
struct cuda_unit {
  uint32_t word[3];
  uint32_t flag;
};

// Written by the writer of the area.
struct cuda_area_head {
  uint64_t taken_dispatch; // number + 1 of the last dispatch of ours that the writer has taken
  uint64_t taken_combine;
  struct cuda_unit start; // words 0, 1: the reader's first operation, + 1; word 2: its epoch; flag: 1
  uint64_t waiting; // a heartbeat: changes each time the writer says that it waits, not only for the reader (wait.cuh)
  uint64_t taken_round; // cuda_round() of the newest further combine for which the writer has emptied the place of our
                        // answers
  uint64_t coded;       // cuda_round() of the newest combine whose call asks for logfmt10 answers
  uint64_t unused;
  uint64_t awaits; // the word of ep/view/awaiting.h; 0: the writer runs operations, or has not published a word yet
  uint64_t pad[7];
};

// Header of an operation's dispatch. Word 0 of `count`: rows, 16 bits; kind, 2; top-k - 1, 4; the type of the rows - 1,
// 2; whether the weights follow late, 1; how many dispatches (2 bits) and combines (3 bits) before this operation the
// sender has not taken yet. Words 1 and 2: the epoch of the sender's operation, and the epoch that the sender is ready
// for.
enum {
  CUDA_HEAD_KIND = 16,
  CUDA_HEAD_TOPK = 18,
  CUDA_HEAD_DTYPE = 22,
  CUDA_HEAD_LATE = 24,
  CUDA_HEAD_DISPATCHES = 25,
  CUDA_HEAD_COMBINES = 27
};
#define CUDA_HEAD_FORM (0x3Fu << CUDA_HEAD_TOPK) // top-k and type: the same for all ranks that send rows
struct cuda_slot_head {
  struct cuda_unit count;
  struct cuda_unit mark; // words 0, 1
  uint64_t pad[12];
};

enum {
  CUDA_UNIT_COUNTS = 6,  // of experts, 16 bits each
  CUDA_UNIT_WEIGHTS = 3, // late ones
};

// The number of a further combine of operation `op` (`round` 1 and up), used as a credit and as the flag of its late
// weights. A place may hold flags of earlier operations and rounds; this flag differs from all of them.
CUDA_SHARED uint64_t cuda_round(uint64_t op, uint32_t round) {
  return (op + 1) << 12 | round;
}
CUDA_SHARED uint32_t cuda_late_flag(uint64_t op, uint32_t round) {
  return (uint32_t)op + 1 + round * 0x9E3779B1u;
}

// A selection of a row takes 8 bytes of its routing line: this word, and the weight (f32). A line has 15 selections, in
// top-k order; selections of other ranks' experts are 0.
#define CUDA_SELECTION_VALID 0x80000000u
enum {
  CUDA_SELECTION_EXPERT = 0, // shifts: local expert, 8 bits
  CUDA_SELECTION_ROW = 8,    // number of the row among its source's rows for that expert, 10 bits
  CUDA_SELECTION_TOKEN = 18, // number of the token at the source, 10 bits
  CUDA_LINE_SELECTIONS = 15,
};

enum {
  CUDA_FP8_CHUNKS = 8, // chunks of a packet
  CUDA_BF16_CHUNKS = 16,
  CUDA_CODED_LINES = 11, // lines of a bf16 packet (eight blocks) encoded as logfmt10: combine/coded.cuh
  CUDA_WORD_MARKS = 31,  // marks in a word of marks
};

// Divides numbers below 2^31 exactly by the number that it was made from. A normal division takes about 200 cycles on a
// GPU.
struct cuda_divisor {
  uint32_t factor, shift;
};

static inline struct cuda_divisor cuda_divisor_of(uint32_t number) {
  struct cuda_divisor by = {0, 31};
  while ((uint64_t)1 << (by.shift - 31) < number)
    by.shift++;
  by.factor = (uint32_t)((((uint64_t)1 << by.shift) + number - 1) / number);
  return by;
}

// For a packet of `chunks` chunks of bf16 that is encoded as logfmt10: the words of its code, the words of marks after
// them (one mark for each code word), and the lines of both; see combine/coded.cuh.
CUDA_SHARED uint32_t cuda_coded_words(uint32_t chunks) {
  return chunks * CUDA_LINE / 2 / LOGFMT10_BLOCK * ((LOGFMT10_CODE_BYTES + LOGFMT10_HEAD_BYTES) / 4);
}
CUDA_SHARED uint32_t cuda_coded_marks(uint32_t chunks) {
  return (cuda_coded_words(chunks) + CUDA_WORD_MARKS - 1) / CUDA_WORD_MARKS;
}
CUDA_SHARED uint32_t cuda_coded_lines(uint32_t chunks) {
  return (cuda_coded_words(chunks) + cuda_coded_marks(chunks) + CUDA_LINE / 4 - 1) / (CUDA_LINE / 4);
}

// The format in which a row is sent.
struct cuda_form {
  uint32_t chunks;  // chunks of 128 bytes in a row
  uint32_t each;    // chunks of a packet; the last packet may have fewer
  uint32_t packets; // packets of a row
  uint32_t stride;  // bytes from row to row
  struct cuda_divisor by_packets;
  uint32_t scales;       // offset of the scales in a slot,
  uint32_t scale_stride; // bytes from one row's scales to the next row's, as they are sent: a word for each scale. 0:
                         // no scales
};

// The two formats of the rows of a dispatch: bf16, or any fp8. Each operation may have either one.
struct cuda_forms {
  struct cuda_form plain, quantized;
};

struct cuda_layout {
  uint32_t max_tokens, hidden, topk;
  uint32_t experts;                  // of a rank
  uint32_t count_units, late_units;  // units of a header's counts, and of a token's late weights
  uint32_t routing_lines;            // routing lines of a row
  uint32_t value_bytes, scale_bytes; // bytes of a dispatched row in the caller's buffer
  uint32_t coded;                    // whether answers between ranks are encoded as logfmt10
  uint32_t dtype;                    // of the dispatched rows
  struct cuda_divisor by_experts;
  struct cuda_form row, answer; // of dispatch and of combine
  // offsets in a slot
  uint32_t counts, routing, late, rows, answers;
  uint32_t slot; // bytes
  uint64_t area;
};

CUDA_SHARED uint32_t cuda_round_up(uint32_t value, uint32_t unit) {
  return (value + unit - 1) / unit * unit;
}

static inline struct cuda_form cuda_form_of(uint32_t bytes, uint32_t each) {
  struct cuda_form form;
  form.chunks = bytes / CUDA_LINE;
  form.each = each;
  form.packets = (form.chunks + each - 1) / each;
  form.stride = bytes;
  form.by_packets = cuda_divisor_of(form.packets);
  form.scales = form.scale_stride = 0;
  return form;
}

// Sets the values of one call: top-k, the type of its rows, and the type of a combine. Rows of these types take no more
// room than the rows that the group was opened for, so the offsets of a slot's parts do not change.
static inline void cuda_layout_call(struct cuda_layout *layout, const struct cuda_forms *forms, uint32_t topk,
                                    int dtype, int combine_dtype) {
  uint32_t hidden = layout->hidden, blocks = hidden / CUDA_BLOCK;
  layout->topk = topk;
  layout->routing_lines = (topk + CUDA_LINE_SELECTIONS - 1) / CUDA_LINE_SELECTIONS;
  layout->late_units = (topk + CUDA_UNIT_WEIGHTS - 1) / CUDA_UNIT_WEIGHTS;
  layout->dtype = (uint32_t)dtype;
  layout->value_bytes = dtype == CUDA_BF16 ? 2 * hidden : hidden;
  layout->scale_bytes = dtype == CUDA_BF16 ? 0 : dtype == CUDA_FP8_UE8M0 ? cuda_round_up(blocks, 4) : blocks * 4;
  layout->row = dtype == CUDA_BF16 ? forms->plain : forms->quantized;
  layout->coded = combine_dtype == CUDA_COMBINE_LOGFMT10;
}

static inline void cuda_layout_init(struct cuda_layout *layout, struct cuda_forms *forms, uint32_t max_tokens,
                                    uint32_t hidden, uint32_t topk, uint32_t experts, int dtype, int combine_dtype) {
  layout->max_tokens = max_tokens;
  layout->hidden = hidden;
  layout->experts = experts;
  layout->by_experts = cuda_divisor_of(experts);
  layout->count_units = (experts + CUDA_UNIT_COUNTS - 1) / CUDA_UNIT_COUNTS;
  layout->answer = cuda_form_of(2 * hidden, CUDA_BF16_CHUNKS);
  forms->plain = cuda_form_of(2 * hidden, CUDA_BF16_CHUNKS);
  forms->quantized = cuda_form_of(hidden, CUDA_FP8_CHUNKS);
  forms->quantized.scale_stride = cuda_round_up(hidden / CUDA_BLOCK * 4, 16);
  cuda_layout_call(layout, forms, topk, dtype, combine_dtype);
  uint32_t at = sizeof(struct cuda_slot_head);
  layout->counts = at;
  at = cuda_round_up(at + layout->count_units * (uint32_t)sizeof(struct cuda_unit), CUDA_LINE);
  layout->routing = at;
  at += max_tokens * layout->routing_lines * CUDA_LINE;
  layout->late = at;
  at = cuda_round_up(at + max_tokens * layout->late_units * (uint32_t)sizeof(struct cuda_unit), CUDA_LINE);
  layout->rows = at;
  forms->plain.scales = at; // none
  forms->quantized.scales = at + max_tokens * forms->quantized.stride;
  layout->row = dtype == CUDA_BF16 ? forms->plain : forms->quantized;
  at = cuda_round_up(at + max_tokens * (layout->row.stride + layout->row.scale_stride), CUDA_LINE);
  layout->answers = at;
  at += max_tokens * layout->answer.stride;
  layout->slot = at;
  layout->area = sizeof(struct cuda_area_head) + (uint64_t)CUDA_DEPTH * at;
}

// Makes an empty area in host memory. A flag with all bits set belongs to the last possible operation only.
static inline void cuda_area_init(void *area, uint64_t bytes) {
  memset(area, 0xFF, bytes);
  memset(area, 0, bytes < sizeof(struct cuda_area_head) ? bytes : sizeof(struct cuda_area_head));
}

CUDA_STATIC_ASSERT(sizeof(struct cuda_area_head) == CUDA_LINE, "an area's head is one line");
CUDA_STATIC_ASSERT(sizeof(struct cuda_unit) == 16, "a unit is what one store writes");
CUDA_STATIC_ASSERT(sizeof(struct cuda_slot_head) == CUDA_LINE, "a slot's head is one line");

#endif
