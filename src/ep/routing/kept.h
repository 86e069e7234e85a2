// What a route keeps on host memory: where this rank's tokens went, and which rows it received, with the row headers
// that say to which experts. A dispatch fills it; later operations use it. This code does not depend on operations;
// host/route/kept_route.c does. All memory is allocated once. The caller can read the arrays of what was sent and
// received (weft_ep_route_get_arrays()), so their addresses do not change.
#ifndef EP_ROUTING_KEPT_H
#define EP_ROUTING_KEPT_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/ep.h>

#include "ep/core/engine.h"

enum ep_kept_state {
  EP_KEPT_EMPTY,
  EP_KEPT_PLANNED, // the rows that this rank sends are known
  EP_KEPT_FILLING, // they were sent; not all rows have been received yet
  EP_KEPT_FILLED,  // all is there
  EP_KEPT_SHORT,   // more rows arrived than there is room for: no operation can use the route
};

// One rank of the view in which the route was filled.
struct ep_kept_source {
  int32_t rank;
  uint64_t incarnation;
  uint32_t rows;  // rows that it brought to this rank
  uint32_t first; // index of the first of them among the kept row headers
  uint32_t laid;  // how many of them arrived: fewer than `rows` if the source was lost meanwhile
  bool came;      // its header arrived
};

struct ep_kept {
  // Fixed.
  uint32_t max_tokens, max_rows, max_topk, alignment, capacity, experts_per_rank;
  struct ep_layout layout; // layout of row headers

  enum ep_kept_state state;
  uint64_t op, epoch; // operation that filled it, and its epoch

  // The rows that this rank sent.
  uint32_t num_tokens, topk; // T and K
  bool has_weights;
  int64_t *experts; // [T][K]
  float *weights;   // [T][K]
  uint8_t *went;    // [T][K] whether the token went to that expert
  int32_t *tokens_per_rank, *tokens_per_expert;
  uint8_t *in_rank;

  // The rows that this rank received.
  uint32_t num_sources;
  struct ep_kept_source *sources; // [num_sources] by rank, this rank among them
  enum weft_ep_layout form;       // of the receive that filled it
  uint32_t rows_expected;         // according to the sources, as far as there is room
  uint32_t num_rows;              // rows that arrived, including those that had no room
  uint32_t packed_rows;
  uint8_t *heads;          // [max_rows] row headers, grouped by source
  struct ep_inbox in;      // [max_rows] where that receive laid them
  uint32_t *counts;        // [num_sources][E] selections of each local expert that the source brought
  uint32_t *cursor, *left; // [E] used while counting
  int32_t *expert_rows, *expert_end, *rank_end, *src_rank, *src_token, *slot;
};

// --- kept.c ---

// `options` has no zeros. NOMEM, INVALID.
int ep_kept_new(const weft_ep_t *ep, const struct weft_ep_route_options *options, struct ep_kept **kept);
void ep_kept_free(struct ep_kept *kept); // NULL is legal
// The source of that rank and incarnation; NULL: it was not in the view.
const struct ep_kept_source *ep_kept_find(const struct ep_kept *kept, int32_t rank, uint64_t incarnation);
// The first member of the view that was not in the route's view; -1: there is none.
int32_t ep_kept_newcomer(const struct ep_kept *kept, const struct group_view *view);

// --- sent.c: what this rank sends ---

// Call this before writing experts and went: removes the counts of their old contents.
void ep_kept_clear_sent(struct ep_kept *kept);
// Counts the contents of experts and went.
void ep_kept_count_sent(struct ep_kept *kept);

// --- received.c: the rows that are received ---

// The rows of `num_sources` ranks will arrive.
void ep_kept_begin_rows(struct ep_kept *kept, uint32_t num_sources);
// A source brings `rows` rows, with counts[E] selections of each local expert.
void ep_kept_expect_rows(struct ep_kept *kept, uint32_t source, uint32_t rows, const uint32_t *counts);
// Some rows of a source have arrived and been checked. `heads` begins with the header of the first of them; `inbox`
// says where they were laid out, and begins with the first row of the source.
void ep_kept_take_rows(struct ep_kept *kept, uint32_t source, uint32_t first, uint32_t rows, const void *heads,
                       const struct ep_inbox *inbox);
// All rows have arrived, and the sources are filled in: counts them. The route is then filled, or was too short.
void ep_kept_end_rows(struct ep_kept *kept);
// Writes where the rows of one source were laid out, for an operation that answers them again.
void ep_kept_copy_inbox(const struct ep_kept *kept, const struct ep_kept_source *source, struct ep_inbox *inbox);

// The number of selections of each local expert in the rows of a source: [E]
static inline uint32_t *ep_kept_counts(const struct ep_kept *kept, uint32_t source) {
  return kept->counts + (size_t)source * kept->experts_per_rank;
}

// How many rows of a source can use the route again: all, or none.
static inline uint32_t ep_kept_complete(const struct ep_kept_source *source) {
  return source->laid == source->rows ? source->rows : 0;
}

// The row headers of one source. The route is filled.
static inline void *ep_kept_heads(const struct ep_kept *kept, const struct ep_kept_source *source) {
  return kept->heads + (size_t)source->first * kept->layout.head_stride;
}

#endif
