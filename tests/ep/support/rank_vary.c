// Changes between the operations of a rank under test (setup.vary): drawn by the operation's number, for all ranks
// together or for each of them.
#include <string.h>

#include "base/random.h"
#include "ep/support/rank_parts.h"

// Lays x and its scales out as some callers do: with room between the rows, and the scales block by block.
static void move_apart(struct rank *rank, uint32_t tokens, struct weft_ep_dispatch_args *args) {
  const struct setup *s = &rank->setup;
  size_t dense = (size_t)s->hidden * (args->scales ? 1 : 2), words = rank_scale_bytes(s) / sizeof(uint32_t);
  args->row_stride = dense + RANK_APART;
  for (uint32_t t = 0; t < tokens; t++)
    memcpy(rank->x_apart + t * args->row_stride, (const uint8_t *)rank->x + t * dense, dense);
  args->x = rank->x_apart;
  if (!args->scales)
    return;
  args->scale_row_stride = 1;
  args->scale_block_stride = s->tokens + RANK_APART;
  for (uint32_t t = 0; t < tokens; t++)
    for (size_t b = 0; b < words; b++)
      rank->x_scales_apart[b * args->scale_block_stride + t] = ((const uint32_t *)args->scales)[t * words + b];
  args->scales = rank->x_scales_apart;
}

static bool fits(enum weft_ep_dtype opened, enum weft_ep_dtype dtype) {
  return opened == WEFT_EP_BF16 || (dtype != WEFT_EP_BF16 && (opened != WEFT_EP_FP8_UE8M0 || dtype == opened));
}

// Draws what is equal on all ranks of an operation.
void rank_draw_common(struct rank *rank, uint64_t *drawn) {
  struct setup *s = &rank->setup;
  do
    s->dtype = (enum weft_ep_dtype)(WEFT_EP_BF16 + random_next(drawn) % WEFT_EP_FP8_UE8M0);
  while (!fits(rank->opened_dtype, s->dtype));
  s->topk = rank->pattern.topk = 1 + (uint32_t)(random_next(drawn) % rank->opened_topk);
  rank->combines = 1 + (uint32_t)(random_next(drawn) % 3);
  rank->left_open = random_next(drawn) % 2;
  s->combine_dtype = rank->opened_combine;
  if (random_next(drawn) % 2 && !s->placed)
    s->combine_dtype = WEFT_EP_COMBINE_LOGFMT10;
}

// Draws what each rank has for itself.
void rank_draw_own(struct rank *rank, uint64_t *drawn) {
  struct weft_ep_recv_args *recv = &rank->recv;
  const struct setup *s = &rank->setup;
  recv->scale_row_stride = recv->scale_block_stride = recv->scale_expert_stride = 0;
  recv->flags = 0;
  recv->status = random_next(drawn) % 2 ? &rank->status : NULL;
  recv->status_size = sizeof rank->status;
  recv->lost = random_next(drawn) % 2 ? rank->lost_bits : NULL;
  if (s->layout == WEFT_EP_RANK_MAJOR && random_next(drawn) % 2)
    recv->flags = WEFT_EP_RECV_KEEP_PLACES;
  if (s->in_place || random_next(drawn) % 2)
    return;
  recv->scale_row_stride = 1;
  recv->scale_block_stride = rank->rows + RANK_APART;
  if (s->layout == WEFT_EP_PER_EXPERT)
    recv->scale_expert_stride = (rank->rows + RANK_APART) * (s->hidden / 128) + RANK_APART;
}

void rank_vary_dispatch(struct rank *rank, uint64_t *drawn, struct weft_ep_dispatch_args *args) {
  const struct setup *s = &rank->setup;
  args->dtype = s->dtype == rank->opened_dtype && random_next(drawn) % 2 ? 0 : s->dtype;
  args->topk = s->topk;
  args->flags = WEFT_EP_DISPATCH_RECYCLE;
  if (random_next(drawn) % 2) {
    rank->num_tokens = args->num_tokens;
    args->num_tokens = s->tokens;
    args->num_tokens_at = &rank->num_tokens;
  }
  if (random_next(drawn) % 2) {
    for (size_t i = 0; i < (size_t)s->tokens * s->topk; i++)
      rank->topk_idx32[i] = (int32_t)rank->topk_idx[i];
    args->topk_idx = NULL;
    args->topk_idx32 = rank->topk_idx32;
  }
  if (random_next(drawn) % 2)
    move_apart(rank, args->num_tokens_at ? rank->num_tokens : args->num_tokens, args);
}

bool rank_check_status(struct rank *rank, uint64_t op) {
  const struct weft_ep_recv_status *status = &rank->status;
  bool right = status->op == op && status->written == op + 1 && status->epoch == rank->info.epoch &&
               status->mark == rank->info.mark && status->num_ranks == rank->info.num_ranks &&
               status->num_rows == rank->info.num_rows && status->rows_needed == rank->info.rows_needed &&
               status->num_lost == rank->info.num_lost;
  if (rank->recv.status && !right)
    return rank_fail(rank, "the status of operation %llu differs from its info", (unsigned long long)op);
  for (uint32_t i = 0; rank->recv.lost && i < rank->setup.capacity; i++) {
    bool listed = false;
    for (uint32_t j = 0; j < rank->info.num_lost; j++)
      listed |= rank->lost[j] == (int32_t)i;
    if ((rank->lost_bits[i / 64] >> i % 64 & 1) != listed)
      return rank_fail(rank, "bit %u of lost is not what the list is", i);
  }
  return true;
}
