// What a rank sends, counted for the caller: the first group of weft_ep_route_arrays.
#include "ep/routing/kept.h"

// Only what was written is cleared: the arrays are as large as the group may be.
void ep_kept_clear_sent(struct ep_kept *kept) {
  for (size_t i = 0; i < (size_t)kept->num_tokens * kept->topk; i++) {
    if (kept->experts[i] < 0)
      continue;
    size_t expert = (size_t)kept->experts[i], rank = expert / kept->experts_per_rank;
    kept->tokens_per_expert[expert] = 0;
    kept->tokens_per_rank[rank] = 0;
    kept->in_rank[i / kept->topk * kept->capacity + rank] = 0;
  }
}

void ep_kept_count_sent(struct ep_kept *kept) {
  for (size_t i = 0; i < (size_t)kept->num_tokens * kept->topk; i++) {
    if (kept->experts[i] < 0)
      continue;
    size_t expert = (size_t)kept->experts[i], rank = expert / kept->experts_per_rank;
    uint8_t *there = &kept->in_rank[i / kept->topk * kept->capacity + rank];
    kept->tokens_per_expert[expert]++;
    if (!kept->went[i] || *there)
      continue;
    *there = 1;
    kept->tokens_per_rank[rank]++;
  }
}
