// The memory that two ranks share. An *area* lies in a memfd of its reader, and its writer maps it too. There is one
// area for each direction.
//
//   head | slot 0 | slot 1,   slot: head, row headers [M], rows [M], weights [M][K], combine rows [M]
//
// K = top-k. With LATENCY M = max_tokens, and operation n uses slot n % EP_DEPTH. With THROUGHPUT (`flows`) M is
// `window_rows`, the rows that the window has room for, and the rows of an operation to one peer travel in pieces of
// `piece_rows`, one after another. The slot then has counts[E] before the row headers. The first piece of an operation
// uses it: how many selections of each local expert the whole operation brings. Every operation owns N = `pieces` piece
// numbers: the most that it could need, made odd, so that the first pieces of successive operations alternate between
// the slots. Piece i of operation n has the number n * N + i and lies in slot (n * N + i) % EP_DEPTH. With LATENCY N is
// 1, so the number of a piece is the number of its operation. Numbers that an operation does not need are skipped.
//
// Each part of a slot is published by its flag: the piece's number + 1, stored with release order after everything that
// it covers. A flag shares a cache line with the words that its writer writes with it; words that the reader writes
// have a separate line. The area starts as zeros, and flags only increase.
//
// Why this is enough: the writer's plain stores to the part are sequenced before its release store of the flag
// (ep_kernels_fence() comes first, for weakly ordered stores of a kernel), and the reader reads the part only after an
// acquire load has seen that flag. The reader stores the same number into `taken` with release order after its last
// read of the part; the writer overwrites the part only after an acquire load has seen that number.
#ifndef EP_CORE_LAYOUT_H
#define EP_CORE_LAYOUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/ep.h>

#include "base/ep_limits.h"

enum {
  EP_LINE = 64,
  EP_PAGE = 4096,
  EP_LAYOUT_VERSION = 18, // of the area and the doorbell page; peers with different versions do not connect
};

enum ep_kind {
  EP_KIND_DISPATCH = 1,
  EP_KIND_BARRIER = 2,
  EP_KIND_COMBINE = 3, // weft_ep_combine_route(): no rows; the answers follow the route
};

enum ep_trait {
  EP_TRAIT_WEIGHTS = 1, // row headers carry the weights; else the weights come with the combine
  EP_TRAIT_WHOLE = 2,   // all rows lie in one piece, although they are more than piece_rows
  EP_TRAIT_ONCE = 4,    // a token's row lies in the window of one rank of the host; ep_where says in which
};

// Dispatch header of one piece. Written by the writer before `flag`.
struct ep_dispatch_head {
  _Alignas(EP_LINE) _Atomic uint64_t flag;
  uint64_t active;    // epoch in which the writer runs this operation
  uint64_t ready;     // newest epoch that the writer is ready for
  uint64_t mark;      // weft_ep_set_mark
  uint32_t count;     // rows of the operation, of all its pieces: the same in the header of each
  uint8_t kind;       // enum ep_kind
  uint8_t traits;     // enum ep_trait
  uint8_t dtype;      // of the rows
  uint8_t topk;       // of the tokens
  uint32_t row_bytes; // bytes of a row's values, and of its scales; OPAQUE rows have any
  uint32_t scale_bytes;
  // The route that the writer's rows follow: the operation that filled it, plus one; 0: none. With a route rows have no
  // row headers, since the reader has kept them. ONCE: the slot then has a word for each row in their place
  // (ep_wheres).
  uint64_t route;
  uint32_t route_rows; // rows that this route has brought from the reader to the writer
  uint32_t here;       // ONCE: rows of the reader in this piece, wherever they lie
};

struct ep_slot_head {
  struct ep_dispatch_head dispatch;
  struct {
    _Alignas(EP_LINE) _Atomic uint64_t flag;
  } weights;
  struct {
    _Alignas(EP_LINE) _Atomic uint64_t flag;
  } combine;
  struct { // by the reader
    _Alignas(EP_LINE) _Atomic uint64_t dispatch;
    _Atomic uint64_t combine;
  } taken;
};

// Values in the place of "a peer's first operation, plus one". RUNS: the writer runs operations, and has not fixed the
// peer's first one. AWAITED: the writer awaits its own first operation.
#define EP_START_RUNS    (UINT64_MAX - 1)
#define EP_START_AWAITED UINT64_MAX

struct ep_area_head {
  struct { // for a joiner: its first operation, or one of the values above. `op_plus_1` is the flag.
    _Alignas(EP_LINE) _Atomic uint64_t op_plus_1;
    _Atomic uint64_t epoch; // AWAITED: the word of view/awaiting.h. Stored before the flag; a link to another host
                            // stores both again with each of its words
  } start;
  struct {
    _Alignas(EP_LINE) _Atomic uint32_t left; // the writer ends the link on purpose: its hang-up is no death
    _Atomic uint32_t lost;                   // the writer takes the reader for lost, and reports it
  } notice;
};

// Row header: the fixed part, then float weights[K], then int16_t experts[K], of which `count` are valid, in top-k
// order. With THROUGHPUT its last word says where the row lies; ONCE uses it.
struct ep_row {
  int32_t token; // index in the source's dispatch
  uint16_t count;
  uint16_t places; // bit k: the selection at place k of the token's top-k is one of these; `count` bits are set
};

// How the rows of a dispatch travel.
struct ep_form {
  enum weft_ep_dtype dtype;
  uint32_t value_bytes; // of one row's values: 2H or H; OPAQUE: any
  uint32_t scale_bytes; // of the row's scales behind them: 0, 4H/128, or 4 * ceil(H/512); OPAQUE: any
};

struct ep_layout {
  uint32_t max_tokens, topk, hidden;
  size_t value_bytes, scale_bytes;      // of a row, for the dtype that the group was opened for, as in struct ep_form
  size_t row_stride;                    // whole cache lines
  size_t head_stride;                   // of row headers
  size_t head_where;                    // THROUGHPUT: where the last word of a header lies; else 0
  size_t combine_heads;                 // logfmt10: where the heads begin in a row of the combine
  size_t combine_bytes;                 // of a row of the combine, for the type that the group was opened for
  size_t combine_stride;                // whole cache lines
  bool flows;                           // THROUGHPUT
  uint64_t window_bytes;                // THROUGHPUT: limit of the size of an area; else 0
  uint32_t window_rows;                 // M: rows that a slot has room for
  uint32_t piece_rows;                  // most rows of a piece, unless all rows lie in one piece
  uint32_t pieces, piece_bits;          // N, and how many bits a number below N takes
  size_t counts, counts_bytes;          // THROUGHPUT: offset in a slot, and size; else where heads begin, and 0
  size_t heads, rows, weights, combine; // offsets in a slot
  size_t slot;                          // bytes of a slot
  size_t area;                          // bytes of an area, whole pages
};

void ep_layout_init(struct ep_layout *layout, uint32_t max_tokens, uint32_t hidden, uint32_t topk,
                    enum weft_ep_dtype dtype, enum weft_ep_combine_dtype combine_dtype);

// The same for THROUGHPUT, with areas of at most window_bytes of `options`. INVALID: that is too little.
int ep_layout_init_flow(struct ep_layout *layout, const struct weft_ep_options *options);

// The rows of a dispatch of `dtype`, which is not OPAQUE. They fit if they are no larger than rows of the group's type.
struct ep_form ep_layout_form(const struct ep_layout *layout, enum weft_ep_dtype dtype);
// The bytes of a row of a combine of `dtype`.
size_t ep_layout_combine_bytes(const struct ep_layout *layout, enum weft_ep_combine_dtype dtype);
// The bytes of a row of a combine of `dtype`, as other libraries count them for their bandwidth: for logfmt10 with 4
// bytes of scales for each block, as DeepEP sends it. A row of ours has a head of 8 bytes for each block.
size_t ep_layout_combine_logical(const struct ep_layout *layout, enum weft_ep_combine_dtype dtype);

// The slot of the piece of that number.
static inline struct ep_slot_head *ep_slot(const struct ep_layout *layout, void *area, uint64_t piece) {
  return (struct ep_slot_head *)((char *)area + sizeof(struct ep_area_head) + (piece % EP_DEPTH) * layout->slot);
}

// The number of piece `i` of an operation.
static inline uint64_t ep_piece(const struct ep_layout *layout, uint64_t op, uint32_t i) {
  return op * layout->pieces + i;
}

// The operation, plus one, of the piece that a dispatch flag publishes; 0: none has been published.
static inline uint64_t ep_flag_op(const struct ep_layout *layout, uint64_t flag) {
  return layout->pieces == 1 ? flag : (flag + layout->pieces - 1) / layout->pieces;
}

// In how many pieces `rows` rows travel: at least one, which brings the header.
static inline uint32_t ep_pieces_of(const struct ep_layout *layout, uint32_t rows, bool whole) {
  return whole || rows <= layout->piece_rows ? 1 : (rows + layout->piece_rows - 1) / layout->piece_rows;
}

// The flag of weights and of answers consists of the operation, the combine of that operation (`round`), the piece of
// that combine, and for answers the type of the rows with the bits below. In `taken.combine`, and where a writer waits
// for it, the type is 0.
enum {
  EP_TYPE_BITS = 4,
  EP_ANSWER_WHOLE = 1 << 2,   // all rows lie in one piece, although they are more than piece_rows
  EP_ANSWER_WEIGHTS = 1 << 3, // weights go back with them
  EP_ROUND_BITS = 12,
};

static inline uint64_t ep_answer_flag(const struct ep_layout *layout, uint64_t op, uint32_t round, uint32_t piece,
                                      uint32_t type) {
  uint64_t combine = (op + 1) << EP_ROUND_BITS | round;
  return (combine << layout->piece_bits | piece) << EP_TYPE_BITS | type;
}

static inline struct ep_row *ep_row_at(const struct ep_layout *layout, void *heads, uint32_t i) {
  return (struct ep_row *)((char *)heads + i * layout->head_stride);
}

// The bytes of `rows` rows of a dispatch with their row headers; `row_bytes`: values and scales of one row.
static inline uint64_t ep_layout_bytes(const struct ep_layout *layout, uint64_t row_bytes, uint32_t rows) {
  return rows * (row_bytes + sizeof(struct ep_row) + layout->topk * (sizeof(float) + sizeof(int16_t)));
}

// The same for rows of the group's type.
static inline uint64_t ep_layout_dispatch_bytes(const struct ep_layout *layout, uint32_t rows) {
  return ep_layout_bytes(layout, layout->value_bytes + layout->scale_bytes, rows);
}

static inline float *ep_row_weights(struct ep_row *row) {
  return (float *)(row + 1);
}

static inline int16_t *ep_row_experts(const struct ep_layout *layout, struct ep_row *row) {
  return (int16_t *)(ep_row_weights(row) + layout->topk);
}

// Where a row lies: its index in a slot, and the number of the area. The number of an area consists of the high bits of
// the number that the area's reader has given its link to the writer (remote/remote_link.h); 0: the area of the header.
enum { EP_WHERE_ROW_BITS = 16, EP_AREA_BITS = 48 };

static inline uint64_t ep_area_number(uint64_t link) {
  return link >> EP_WHERE_ROW_BITS;
}
static inline uint64_t ep_where(uint64_t area, uint32_t row) {
  return area << EP_WHERE_ROW_BITS | row;
}
static inline uint64_t ep_where_area(uint64_t where) {
  return where >> EP_WHERE_ROW_BITS;
}
static inline uint32_t ep_where_row(uint64_t where) {
  return (uint32_t)(where & (((uint64_t)1 << EP_WHERE_ROW_BITS) - 1));
}
static inline uint64_t *ep_row_where(const struct ep_layout *layout, struct ep_row *row) {
  return (uint64_t *)((char *)row + layout->head_where);
}
// The same for each row of a piece by a route: [here], where other pieces have row headers.
static inline uint64_t *ep_wheres(const struct ep_layout *layout, struct ep_slot_head *slot) {
  return (uint64_t *)((char *)slot + layout->heads);
}

_Static_assert(EP_MAX_TOKENS_THROUGHPUT <= 1 << EP_WHERE_ROW_BITS, "a row of a slot has a number of 16 bits");
_Static_assert(sizeof(struct ep_dispatch_head) == EP_LINE, "a dispatch header is one cache line");
_Static_assert(sizeof(struct ep_slot_head) == 4 * EP_LINE, "flags of a slot lie on lines of their own");
_Static_assert(sizeof(struct ep_area_head) == 2 * EP_LINE, "an area's head is two lines");

#endif
