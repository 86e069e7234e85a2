// The memory that two GPU ranks share: for host and device alike.
//
// An *area* lies in the memory of its reader; its writer, the peer, maps it. One area per direction, like the host
// engine's. Nothing but the data signals its arrival: the reader sees from the data itself that it is there, so one
// read brings it, with no fence, no acknowledgement and no second store.
//
//   head | slot 0 | slot 1
//   slot: header, counts [E/6], routing [M], late weights [M][K/3], rows [M], their scales [M], answers [M]
//
// Small things travel in *units* of 16 bytes, and a row's routing in *lines* of 128: each is written and read as a
// whole, and carries the number of its operation, its *flag*.
//
// Rows, scales and answers are nothing but values: a place where nothing has come yet holds words of ones, CUDA_EMPTY,
// and no word that is sent is one. So every word of 32 bits, which machines write and read as a whole, shows by itself
// whether it has come; the order, the way and the pieces in which words come do not matter. The reader of a
// place makes it empty again, in a kernel after the one that read it, and then gives the credit to write there
// (empty.cuh).
//
// The header says how many rows come, and the counts how many of them each local expert gets: with those of all sources
// the reader knows where each source's rows begin. A row's routing says which experts it is for, and its number among
// its source's rows for that expert. So every row is placed when it comes, whatever else is still on the way. Routing
// is packed in the order of tokens; a row and its answer have the place of their token, so that a row can leave before
// it is known how many others do.
//
// Operation n uses slot n % 2. A flag holds n + 1. The writer of a slot must know, before it writes there again, that
// its reader has *taken* what was there: has read it, and emptied its place. A header says how far its sender is, which
// is enough as long as operations follow each other; where they overlap, the *credit* words of the head say it, written
// at the start of the kernel after the one that emptied. The *start* unit carries a joiner's first operation, and
// *awaits* how the writer stands while it awaits its own.
//
// Rows stand as the caller has them, one behind the other. They are cut into *packets* of C chunks of 128 bytes, each
// of which a warp handles by itself, 16 bytes a lane; a chunk of e4m3 is just what shares one scale.
//
// Why a line of routing is whole: the 8 lanes' stores of 16 bytes are one instruction of one warp to one aligned line,
// which an SM sends as one packet to the second-level cache, over NVLink too, and which is read by one instruction
// likewise. It is what NCCL's LL128 protocol rests on, on the same links. PTX promises it for 16 bytes only (.b128),
// which units rely on. So there is a *strict* way for other links: the writer fences between a line's data and its
// flag, and the reader reads once more after it has seen it.
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

// A word of a row, a scale or an answer that has not come. As values it is NaN, whatever they are, and so is the word
// that is sent in its place.
#define CUDA_EMPTY     0xFFFFFFFFu
#define CUDA_NOT_EMPTY 0x7FFFFFFFu

enum cuda_dtype { CUDA_BF16 = 1, CUDA_FP8 = 2, CUDA_FP8_POW2 = 3, CUDA_FP8_UE8M0 = 4 }; // enum weft_ep_dtype
enum cuda_combine_dtype { CUDA_COMBINE_BF16 = 1, CUDA_COMBINE_LOGFMT10 = 2 };           // weft_ep_combine_dtype

// Written and read as a whole.
struct cuda_unit {
  uint32_t word[3];
  uint32_t flag;
};

// By the area's writer.
struct cuda_area_head {
  uint64_t taken_dispatch; // number + 1 of the last dispatch that it has taken from us
  uint64_t taken_combine;
  struct cuda_unit start; // words 0, 1: the operation that is the reader's first, + 1; word 2: its epoch; flag: 1
  uint64_t waiting;       // another value each time that the writer says: it waits, and not for the reader (wait.cuh)
  uint64_t taken_round;   // cuda_round() of the newest further combine for which it has emptied our answers
  uint64_t coded;         // cuda_round() of the newest combine that has answers come as logfmt10 by its call
  uint64_t unused;
  uint64_t awaits; // the word of ep/view/awaiting.h; 0: the writer runs operations, or has not said so yet
  uint64_t pad[7];
};

// Header of an operation's dispatch. Word 0 of `count`: rows, 16 bits; kind, 2; top-k - 1, 4; the type of the rows - 1,
// 2; whether the weights come late, 1; how many dispatches (2 bits) and combines (3 bits) before this operation the
// sender has not taken yet. Words 1 and 2: the epochs that it runs in, and that it is ready for.
enum {
  CUDA_HEAD_KIND = 16,
  CUDA_HEAD_TOPK = 18,
  CUDA_HEAD_DTYPE = 22,
  CUDA_HEAD_LATE = 24,
  CUDA_HEAD_DISPATCHES = 25,
  CUDA_HEAD_COMBINES = 27
};
#define CUDA_HEAD_FORM (0x3Fu << CUDA_HEAD_TOPK) // top-k and type: the same for all who send rows
struct cuda_slot_head {
  struct cuda_unit count;
  struct cuda_unit mark; // words 0, 1
  uint64_t pad[12];
};

enum {
  CUDA_UNIT_COUNTS = 6,  // of experts, 16 bits each
  CUDA_UNIT_WEIGHTS = 3, // late ones
};

// A further combine of operation `op`, `round` 1 and on, as a credit and as the flag of its late weights: a place may
// hold flags of earlier operations and rounds, none of which it equals.
CUDA_SHARED uint64_t cuda_round(uint64_t op, uint32_t round) {
  return (op + 1) << 12 | round;
}
CUDA_SHARED uint32_t cuda_late_flag(uint64_t op, uint32_t round) {
  return (uint32_t)op + 1 + round * 0x9E3779B1u;
}

// A selection of a row, 8 bytes of its routing line: this word, and its weight (f32). A line has 15, in top-k order;
// those of other ranks are 0.
#define CUDA_SELECTION_VALID 0x80000000u
enum {
  CUDA_SELECTION_EXPERT = 0, // shifts: local expert, 8 bits
  CUDA_SELECTION_ROW = 8,    // number of the row among its source's for that expert, 10 bits
  CUDA_SELECTION_TOKEN = 18, // of the source, 10 bits
  CUDA_LINE_SELECTIONS = 15,
};

enum {
  CUDA_FP8_CHUNKS = 8, // of a packet
  CUDA_BF16_CHUNKS = 16,
  CUDA_CODED_LINES = 11, // in which one of bf16 travels as logfmt10, eight blocks of it: combine/coded.cuh
  CUDA_WORD_MARKS = 31,  // in a word of marks
};

// Divides numbers below 2^31 by what it was made of, exactly: a division proper takes a GPU some 200 cycles.
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

// Of a packet that travels as logfmt10, of so many chunks of bf16: the words of its code, the words behind them with a
// mark for each, and the lines of both, see combine/coded.cuh.
CUDA_SHARED uint32_t cuda_coded_words(uint32_t chunks) {
  return chunks * CUDA_LINE / 2 / LOGFMT10_BLOCK * ((LOGFMT10_CODE_BYTES + LOGFMT10_HEAD_BYTES) / 4);
}
CUDA_SHARED uint32_t cuda_coded_marks(uint32_t chunks) {
  return (cuda_coded_words(chunks) + CUDA_WORD_MARKS - 1) / CUDA_WORD_MARKS;
}
CUDA_SHARED uint32_t cuda_coded_lines(uint32_t chunks) {
  return (cuda_coded_words(chunks) + cuda_coded_marks(chunks) + CUDA_LINE / 4 - 1) / (CUDA_LINE / 4);
}

// How a row travels.
struct cuda_form {
  uint32_t chunks;  // of 128 bytes, of a row
  uint32_t each;    // of a packet; the last one may have fewer
  uint32_t packets; // of a row
  uint32_t stride;  // bytes from row to row
  struct cuda_divisor by_packets;
  uint32_t scales;       // offset of the scales in a slot,
  uint32_t scale_stride; // bytes from one row's scales to the next's, on their way: a word each. 0: there are none
};

// What the rows of a dispatch may be: bf16, or any fp8. An operation may have the other form than that before it.
struct cuda_forms {
  struct cuda_form plain, quantized;
};

struct cuda_layout {
  uint32_t max_tokens, hidden, topk;
  uint32_t experts;                  // of a rank
  uint32_t count_units, late_units;  // of a header's counts, of a token's late weights
  uint32_t routing_lines;            // of a row
  uint32_t value_bytes, scale_bytes; // of a dispatched row, in the caller's buffer
  uint32_t coded;                    // whether other ranks' answers travel as logfmt10
  uint32_t dtype;                    // of the dispatched rows
  struct cuda_divisor by_experts;
  struct cuda_form row, answer; // of dispatch, of combine
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

// What a call says for itself: top-k, the type of its rows, and that of a combine. Their rows take no more room than
// those that the group was opened for; where a slot's parts begin stays.
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

// In host memory: an area in which nothing has come. Ones are no flag of any operation but the last that there can be.
static inline void cuda_area_init(void *area, uint64_t bytes) {
  memset(area, 0xFF, bytes);
  memset(area, 0, bytes < sizeof(struct cuda_area_head) ? bytes : sizeof(struct cuda_area_head));
}

CUDA_STATIC_ASSERT(sizeof(struct cuda_area_head) == CUDA_LINE, "an area's head is one line");
CUDA_STATIC_ASSERT(sizeof(struct cuda_unit) == 16, "a unit is what one store writes");
CUDA_STATIC_ASSERT(sizeof(struct cuda_slot_head) == CUDA_LINE, "a slot's head is one line");

#endif
