// The rows that a rank received: row headers and places are stored as the rows are laid out, then counted for the
// caller (the second group of weft_ep_route_arrays).
#include <string.h>

#include "ep/routing/kept.h"

void ep_kept_begin_rows(struct ep_kept *kept, uint32_t num_sources) {
  memset(kept->sources, 0, num_sources * sizeof *kept->sources);
  kept->num_sources = num_sources;
  kept->rows_expected = kept->num_rows = 0;
}

void ep_kept_expect_rows(struct ep_kept *kept, uint32_t index, uint32_t rows, const uint32_t *counts) {
  struct ep_kept_source *source = &kept->sources[index];
  kept->num_rows += rows;
  if (rows > kept->max_rows - kept->rows_expected)
    return; // only counted; the route is too short
  source->first = kept->rows_expected;
  source->rows = rows;
  kept->rows_expected += rows;
  memcpy(ep_kept_counts(kept, index), counts, kept->experts_per_rank * sizeof *counts);
}

void ep_kept_take_rows(struct ep_kept *kept, uint32_t index, uint32_t first, uint32_t rows, const void *heads,
                       const struct ep_inbox *inbox) {
  struct ep_kept_source *source = &kept->sources[index];
  if (first + rows > source->rows)
    return; // too short
  size_t to = source->first + first, topk = kept->layout.topk, from = first;
  memcpy(kept->heads + to * kept->layout.head_stride, heads, rows * kept->layout.head_stride);
  memcpy(kept->in.count + to, inbox->count + from, rows * sizeof *inbox->count);
  memcpy(kept->in.places + to, inbox->places + from, rows * sizeof *inbox->places);
  memcpy(kept->in.index + to * topk, inbox->index + from * topk, rows * topk * sizeof *inbox->index);
  memcpy(kept->in.weight + to * topk, inbox->weight + from * topk, rows * topk * sizeof *inbox->weight);
  source->laid = first + rows;
}

// Computes how many rows each expert has, and where its part begins (the cursor) and ends.
static void count_experts(struct ep_kept *kept) {
  uint32_t begin = 0;
  memset(kept->expert_rows, 0, kept->experts_per_rank * sizeof *kept->expert_rows);
  for (uint32_t s = 0; s < kept->num_sources; s++)
    for (uint32_t e = 0; kept->sources[s].rows > 0 && e < kept->experts_per_rank; e++)
      kept->expert_rows[e] += (int32_t)ep_kept_counts(kept, s)[e];
  for (uint32_t e = 0; e < kept->experts_per_rank; e++) {
    uint32_t end = begin + (uint32_t)kept->expert_rows[e];
    kept->cursor[e] = begin;
    kept->expert_end[e] = (int32_t)end;
    begin = (end + kept->alignment - 1) / kept->alignment * kept->alignment;
  }
  kept->packed_rows = begin;
}

// Sets where the selections of one row are when the rows are packed. `left`: [E] what its source has still to bring.
static void place(struct ep_kept *kept, struct ep_row *row, uint32_t *left, int32_t *slot) {
  const int16_t *experts = ep_row_experts(&kept->layout, row);
  uint32_t next = 0;
  for (uint32_t k = 0; k < kept->topk; k++) {
    bool here = row->places >> k & 1;
    slot[k] = here ? (int32_t)kept->cursor[experts[next]]++ : -1;
    if (here)
      left[experts[next]]--;
    next += here;
  }
}

// Counts the rows of one source, of which `to` is the first. Rows that were lost with the source only have places.
static void count_source(struct ep_kept *kept, uint32_t index, uint32_t to) {
  const struct ep_kept_source *source = &kept->sources[index];
  memcpy(kept->left, ep_kept_counts(kept, index), kept->experts_per_rank * sizeof *kept->left);
  for (uint32_t i = 0; i < source->rows; i++, to++) {
    bool came = i < source->laid;
    struct ep_row *row = ep_row_at(&kept->layout, ep_kept_heads(kept, source), i);
    int32_t *slot = kept->slot + (size_t)to * kept->topk;
    kept->src_rank[to] = source->rank;
    kept->src_token[to] = came ? row->token : -1;
    if (came)
      place(kept, row, kept->left, slot);
    for (uint32_t k = 0; !came && k < kept->topk; k++)
      slot[k] = -1;
  }
  for (uint32_t e = 0; source->laid < source->rows && e < kept->experts_per_rank; e++)
    kept->cursor[e] += kept->left[e];
}

void ep_kept_end_rows(struct ep_kept *kept) {
  kept->state = kept->num_rows > kept->max_rows ? EP_KEPT_SHORT : EP_KEPT_FILLED;
  if (kept->state == EP_KEPT_SHORT)
    return;
  count_experts(kept);
  uint32_t to = 0, next_rank = 0;
  for (uint32_t s = 0; s < kept->num_sources; s++) {
    for (; next_rank < (uint32_t)kept->sources[s].rank; next_rank++)
      kept->rank_end[next_rank] = (int32_t)to;
    count_source(kept, s, to);
    to += kept->sources[s].rows;
  }
  for (; next_rank < kept->capacity; next_rank++)
    kept->rank_end[next_rank] = (int32_t)to;
}

void ep_kept_copy_inbox(const struct ep_kept *kept, const struct ep_kept_source *source, struct ep_inbox *inbox) {
  size_t first = source->first, rows = source->rows, topk = kept->layout.topk;
  memcpy(inbox->count, kept->in.count + first, rows * sizeof *inbox->count);
  memcpy(inbox->places, kept->in.places + first, rows * sizeof *inbox->places);
  memcpy(inbox->index, kept->in.index + first * topk, rows * topk * sizeof *inbox->index);
  memcpy(inbox->weight, kept->in.weight + first * topk, rows * topk * sizeof *inbox->weight);
}
