// The memory of a route, and the ranks in it.
#include "ep/routing/kept.h"

#include <stdlib.h>

#include "base/fail.h"

static bool allocate_sent(struct ep_kept *kept) {
  size_t selections = (size_t)kept->max_tokens * kept->max_topk;
  kept->experts = calloc(selections, sizeof *kept->experts);
  kept->weights = calloc(selections, sizeof *kept->weights);
  kept->went = calloc(selections, sizeof *kept->went);
  kept->tokens_per_rank = calloc(kept->capacity, sizeof *kept->tokens_per_rank);
  kept->tokens_per_expert = calloc((size_t)kept->capacity * kept->experts_per_rank, sizeof *kept->tokens_per_expert);
  kept->in_rank = calloc((size_t)kept->max_tokens * kept->capacity, sizeof *kept->in_rank);
  return kept->experts && kept->weights && kept->went && kept->tokens_per_rank && kept->tokens_per_expert &&
         kept->in_rank;
}

static bool allocate_came(struct ep_kept *kept) {
  size_t rows = kept->max_rows, group_topk = kept->layout.topk;
  kept->sources = calloc(kept->capacity, sizeof *kept->sources);
  kept->heads = calloc(rows, kept->layout.head_stride);
  kept->in.count = calloc(rows, sizeof *kept->in.count);
  kept->in.places = calloc(rows, sizeof *kept->in.places);
  kept->in.index = calloc(rows * group_topk, sizeof *kept->in.index);
  kept->in.weight = calloc(rows * group_topk, sizeof *kept->in.weight);
  kept->counts = calloc((size_t)kept->capacity * kept->experts_per_rank, sizeof *kept->counts);
  kept->left = calloc(kept->experts_per_rank, sizeof *kept->left);
  kept->cursor = calloc(kept->experts_per_rank, sizeof *kept->cursor);
  kept->expert_rows = calloc(kept->experts_per_rank, sizeof *kept->expert_rows);
  kept->expert_end = calloc(kept->experts_per_rank, sizeof *kept->expert_end);
  kept->rank_end = calloc(kept->capacity, sizeof *kept->rank_end);
  kept->src_rank = calloc(rows, sizeof *kept->src_rank);
  kept->src_token = calloc(rows, sizeof *kept->src_token);
  kept->slot = calloc(rows * kept->max_topk, sizeof *kept->slot);
  return kept->sources && kept->counts && kept->left && kept->heads && kept->in.count && kept->in.places &&
         kept->in.index && kept->in.weight && kept->cursor && kept->expert_rows && kept->expert_end && kept->rank_end &&
         kept->src_rank && kept->src_token && kept->slot;
}

int ep_kept_new(const weft_ep_t *ep, const struct weft_ep_route_options *options, struct ep_kept **out) {
  struct ep_kept *kept = calloc(1, sizeof *kept);
  if (!kept)
    return fail(WEFT_ERR_NOMEM, "route_create: no memory");
  kept->max_tokens = options->max_tokens;
  kept->max_rows = options->max_rows;
  kept->max_topk = options->topk;
  kept->alignment = options->alignment;
  kept->capacity = ep->capacity;
  kept->experts_per_rank = ep->experts_per_rank;
  kept->layout = ep->layout;
  if (!allocate_sent(kept) || !allocate_came(kept)) {
    ep_kept_free(kept);
    return fail(WEFT_ERR_NOMEM, "route_create: no memory for a route of %u tokens and %u received rows: give max_rows",
                options->max_tokens, options->max_rows);
  }
  *out = kept;
  return 0;
}

void ep_kept_free(struct ep_kept *kept) {
  if (!kept)
    return;
  void *memory[] = {kept->experts,
                    kept->weights,
                    kept->went,
                    kept->tokens_per_rank,
                    kept->tokens_per_expert,
                    kept->in_rank,
                    kept->sources,
                    kept->heads,
                    kept->in.count,
                    kept->in.places,
                    kept->in.index,
                    kept->in.weight,
                    kept->cursor,
                    kept->counts,
                    kept->left,
                    kept->rank_end,
                    kept->src_rank,
                    kept->src_token,
                    kept->slot,
                    kept->expert_rows,
                    kept->expert_end,
                    kept};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
    free(memory[i]);
}

const struct ep_kept_source *ep_kept_find(const struct ep_kept *kept, int32_t rank, uint64_t incarnation) {
  uint32_t low = 0, high = kept->num_sources;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (kept->sources[middle].rank < rank)
      low = middle + 1;
    else
      high = middle;
  }
  const struct ep_kept_source *source = &kept->sources[low];
  return low < kept->num_sources && source->rank == rank && source->incarnation == incarnation ? source : NULL;
}

int32_t ep_kept_newcomer(const struct ep_kept *kept, const struct group_view *view) {
  for (uint32_t i = 0; i < view->count; i++)
    if (!ep_kept_find(kept, view->members[i].rank, view->members[i].incarnation))
      return view->members[i].rank;
  return -1;
}
