// Where the rows of each source are placed in the receive buffer: behind those of the sources before it, in the order
// of ranks. The places follow from how many rows each source brings to each expert, so rows may be laid out in any
// order of sources, and in parts.
#include <stdlib.h>
#include <string.h>

#include "ep/host/host.h"
#include "ep/host/rows/rows.h"

int ep_places_open(weft_ep_t *ep, struct ep_places *places) {
  size_t experts = ep->experts_per_rank, entries = ep->capacity * experts;
  places->left = calloc(entries, sizeof *places->left);
  places->next = calloc(entries, sizeof *places->next);
  places->next_row = calloc(ep->capacity, sizeof *places->next_row);
  places->total = calloc(experts, sizeof *places->total);
  places->first = calloc(experts, sizeof *places->first);
  places->tally = calloc(experts, sizeof *places->tally);
  places->saved = calloc(2 * experts, sizeof *places->saved);
  return places->saved && places->left && places->next && places->next_row && places->total && places->first &&
                 places->tally
             ? 0
             : -1;
}

void ep_places_close(struct ep_places *places) {
  free(places->saved);
  free(places->left);
  free(places->next);
  free(places->next_row);
  free(places->total);
  free(places->first);
  free(places->tally);
}

// Sets where the scales of this form are placed.
static void place_scales(struct ep_host *host, const struct ep_form *form, const struct weft_ep_recv_args *recv) {
  uint64_t words = form->scale_bytes / sizeof(uint32_t);
  host->out_scales.row = recv->scale_row_stride ? recv->scale_row_stride : words;
  host->out_scales.block = recv->scale_block_stride ? recv->scale_block_stride : 1;
  host->out_scales_expert = recv->scale_expert_stride ? recv->scale_expert_stride : recv->rows * words;
}

void ep_places_begin(weft_ep_t *ep, const struct ep_op *op, const struct weft_ep_recv_args *recv) {
  struct ep_places *places = &ep->host->places;
  memset(places->total, 0, ep->experts_per_rank * sizeof *places->total);
  places->rows = 0;
  places->laid = 0;
  if (recv && op->fills)
    ep_kept_begin_rows(op->route->kept, op->num_members);
  if (recv)
    place_scales(ep->host, &op->form, recv);
  for (uint32_t e = 0; recv && e < ep->experts_per_rank; e++)
    places->first[e] = e * recv->rows;
  if (!recv || !recv->range)
    return;
  size_t ranges = recv->layout != WEFT_EP_RANK_MAJOR ? (size_t)ep->experts_per_rank * ep->capacity : ep->capacity;
  memset(recv->range, 0, ranges * sizeof *recv->range);
}

// begin << 32 | count
static int64_t range(uint32_t begin, uint32_t count) {
  return (int64_t)begin << 32 | count;
}

void ep_places_add(weft_ep_t *ep, const struct ep_op *op, uint32_t index, const uint32_t *counts,
                   const struct weft_ep_recv_args *recv) {
  const struct ep_member *member = &op->members[index];
  ep_places_add_source(ep, index, member->rank, member->rows_in, counts, recv);
  if (op->fills)
    ep_kept_expect_rows(op->route->kept, index, member->rows_in, counts);
}

void ep_places_add_source(weft_ep_t *ep, uint32_t index, int32_t rank, uint32_t rows, const uint32_t *counts,
                          const struct weft_ep_recv_args *recv) {
  struct ep_places *places = &ep->host->places;
  uint32_t *left = ep_places_left(ep, index), *next = ep_places_next(ep, index);
  bool by_rank = recv->layout == WEFT_EP_RANK_MAJOR;
  for (uint32_t e = 0; e < ep->experts_per_rank; e++) {
    if (recv->range && !by_rank)
      recv->range[(size_t)e * ep->capacity + (size_t)rank] = range(places->total[e], counts[e]);
    left[e] = counts[e];
    next[e] = places->total[e];
    places->total[e] += counts[e];
  }
  if (recv->range && by_rank)
    recv->range[rank] = range(places->rows, rows);
  places->next_row[index] = places->rows;
  places->rows += rows;
}

void ep_places_save(weft_ep_t *ep, uint32_t index) {
  struct ep_places *places = &ep->host->places;
  size_t experts = ep->experts_per_rank;
  memcpy(places->saved, ep_places_left(ep, index), experts * sizeof *places->saved);
  memcpy(places->saved + experts, ep_places_next(ep, index), experts * sizeof *places->saved);
  places->saved_row = places->next_row[index];
}

void ep_places_restore(weft_ep_t *ep, uint32_t index) {
  struct ep_places *places = &ep->host->places;
  size_t experts = ep->experts_per_rank;
  memcpy(ep_places_left(ep, index), places->saved, experts * sizeof *places->saved);
  memcpy(ep_places_next(ep, index), places->saved + experts, experts * sizeof *places->saved);
  places->next_row[index] = places->saved_row;
}

static uint32_t round_up(uint32_t rows, uint32_t alignment) {
  return alignment > 1 ? (rows + alignment - 1) / alignment * alignment : rows;
}

void ep_places_pack(weft_ep_t *ep, const struct weft_ep_recv_args *recv) {
  struct ep_places *places = &ep->host->places;
  uint32_t end = 0;
  for (uint32_t e = 0; e < ep->experts_per_rank; e++) {
    places->first[e] = round_up(end, recv->alignment);
    end = places->first[e] + places->total[e];
  }
}

uint32_t ep_places_needed(const weft_ep_t *ep, const struct weft_ep_recv_args *recv) {
  const struct ep_places *places = &ep->host->places;
  if (recv->layout == WEFT_EP_RANK_MAJOR)
    return places->rows;
  uint32_t last = ep->experts_per_rank - 1;
  if (recv->layout == WEFT_EP_PACKED)
    return round_up(places->first[last] + places->total[last], recv->alignment);
  uint32_t most = 0;
  for (uint32_t e = 0; e < ep->experts_per_rank; e++)
    if (places->total[e] > most)
      most = places->total[e];
  return most;
}

// How many rows of the buffer are written.
static uint32_t rows_of(const weft_ep_t *ep, const struct weft_ep_recv_args *recv) {
  const struct ep_places *places = &ep->host->places;
  uint32_t rows = 0;
  for (uint32_t e = 0; e < ep->experts_per_rank; e++)
    rows += places->total[e];
  return recv->layout != WEFT_EP_RANK_MAJOR ? rows : places->rows;
}

void ep_places_expect(weft_ep_t *ep, const struct ep_op *op, const struct weft_ep_recv_args *recv) {
  uint64_t bytes = (uint64_t)rows_of(ep, recv) * op->form.value_bytes;
  if (bytes > EP_CACHED_BYTES)
    ep->host->places.laid = bytes;
}

uint32_t ep_places_end(const weft_ep_t *ep, const struct weft_ep_recv_args *recv) {
  const struct ep_places *places = &ep->host->places;
  for (uint32_t e = 0; e < ep->experts_per_rank; e++) {
    recv->counts[e] = (int32_t)places->total[e];
    if (recv->expert_total)
      recv->expert_total[e] += (int32_t)places->total[e];
    if (recv->expert_end)
      recv->expert_end[e] = (int32_t)(places->first[e] + places->total[e]);
  }
  return rows_of(ep, recv);
}
