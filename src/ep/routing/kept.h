// What a route keeps on host memory: where this rank's tokens went, and what came to it, with the row headers that say
// to which experts. A dispatch fills it; later operations go by it. It knows nothing of operations:
// host/route/kept_route.c does.  All of it is allocated once. What the rank sent and what came are arrays of the
// caller's too (weft_ep_route_get_arrays), whose addresses stay.
#ifndef EP_ROUTING_KEPT_H
#define EP_ROUTING_KEPT_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/ep.h>

#include "ep/core/engine.h"

enum ep_kept_state {
  EP_KEPT_EMPTY,
  EP_KEPT_PLANNED, // what this rank sends is known
  EP_KEPT_FILLING, // it was sent; what comes is not there yet
  EP_KEPT_FILLED,  // all is there
  EP_KEPT_SHORT,   // more rows came than there is room for: no operation can go by it
};

// One rank of the view in which the route was filled.
struct ep_kept_source {
  int32_t rank;
  uint64_t incarnation;
  uint32_t rows;  // of its that it brought to this rank
  uint32_t first; // of them among the kept row headers
  uint32_t laid;  // of them that really came: fewer, where it was lost in the middle of them
  bool came;      // its header did
};

struct ep_kept {
  // Fixed.
  uint32_t max_tokens, max_rows, max_topk, alignment, capacity, experts_per_rank;
  struct ep_layout layout; // of row headers

  enum ep_kept_state state;
  uint64_t op, epoch; // that filled it

  // What this rank sent.
  uint32_t num_tokens, topk; // T and K
  bool has_weights;
  int64_t *experts; // [T][K]
  float *weights;   // [T][K]
  uint8_t *went;    // [T][K] whether the token went to that expert
  int32_t *tokens_per_rank, *tokens_per_expert;
  uint8_t *in_rank;

  // What came.
  uint32_t num_sources;
  struct ep_kept_source *sources; // [num_sources] by rank, this rank among them
  enum weft_ep_layout form;       // of the receive that filled it,
  uint32_t recv_rows;             // and its weft_ep_recv_args.rows
  uint32_t rows_expected;         // by the sources that have room
  uint32_t num_rows;              // rows that came, also those that had no room
  uint32_t packed_rows;
  uint8_t *heads;          // [max_rows] row headers, those of each source together
  struct ep_inbox in;      // [max_rows] where that receive laid them
  uint32_t *counts;        // [num_sources][E] selections of each local expert that it brought
  uint32_t *cursor, *left; // [E] while it is counted
  int32_t *expert_rows, *expert_end, *rank_end, *src_rank, *src_token, *slot;
};

// --- kept.c ---

// `options` has no zeros. NOMEM, INVALID.
int ep_kept_new(const weft_ep_t *ep, const struct weft_ep_route_options *options, struct ep_kept **kept);
void ep_kept_free(struct ep_kept *kept); // NULL is legal
// The source of that rank and incarnation, NULL: it was not in the view.
const struct ep_kept_source *ep_kept_find(const struct ep_kept *kept, int32_t rank, uint64_t incarnation);
// The first member of the view that was not in the route's, -1: there is none.
int32_t ep_kept_newcomer(const struct ep_kept *kept, const struct group_view *view);

// --- sent.c: what this rank sends ---

// Before experts and went are written: those from before are not counted any more.
void ep_kept_clear_sent(struct ep_kept *kept);
// Counts what experts and went say.
void ep_kept_count_sent(struct ep_kept *kept);

// --- received.c: what comes ---

// The rows of `num_sources` ranks will come.
void ep_kept_begin_rows(struct ep_kept *kept, uint32_t num_sources);
// One brings so many, with so many selections of each local expert. counts: [E]
void ep_kept_expect_rows(struct ep_kept *kept, uint32_t source, uint32_t rows, const uint32_t *counts);
// Some of its have come: `heads`, from the first of these on, were checked, `inbox` says where they were laid, from the
// first of the source's on.
void ep_kept_take_rows(struct ep_kept *kept, uint32_t source, uint32_t first, uint32_t rows, const void *heads,
                       const struct ep_inbox *inbox);
// All have, and the sources are filled in: counts them. The route is filled, or was too short.
void ep_kept_end_rows(struct ep_kept *kept);
// Writes where the rows of one source were laid, for an operation that answers them again.
void ep_kept_copy_inbox(const struct ep_kept *kept, const struct ep_kept_source *source, struct ep_inbox *inbox);

// How many selections of each local expert the rows of a source bring: [E]
static inline uint32_t *ep_kept_counts(const struct ep_kept *kept, uint32_t source) {
  return kept->counts + (size_t)source * kept->experts_per_rank;
}

// The rows of a source that can go by the route again: all, or none.
static inline uint32_t ep_kept_complete(const struct ep_kept_source *source) {
  return source->laid == source->rows ? source->rows : 0;
}

// The row headers of one source. The route is filled.
static inline void *ep_kept_heads(const struct ep_kept *kept, const struct ep_kept_source *source) {
  return kept->heads + (size_t)source->first * kept->layout.head_stride;
}

#endif
