// Decides to which ranks the tokens of a dispatch go.
#include <string.h>

#include "base/fail.h"
#include "ep/host/host.h"

static int64_t expert_at(const struct weft_ep_dispatch_args *args, size_t at) {
  return args->topk_idx ? args->topk_idx[at] : args->topk_idx32[at];
}

int ep_check_experts(const weft_ep_t *ep, const struct weft_ep_dispatch_args *args, uint32_t num_tokens, uint32_t topk,
                     const char *call) {
  if (!args->topk_idx && !args->topk_idx32)
    return 0;
  int64_t experts = (int64_t)ep->capacity * ep->experts_per_rank;
  for (uint32_t t = 0; t < num_tokens; t++)
    for (uint32_t k = 0; k < topk; k++) {
      int64_t expert = expert_at(args, (size_t)t * topk + k);
      if (expert < -1 || expert >= experts)
        return fail(WEFT_ERR_INVALID, "%s: topk_idx[%u][%u] is %lld; experts are 0 to %lld, and -1 is none", call, t, k,
                    (long long)expert, (long long)experts - 1);
    }
  return 0;
}

void ep_take_experts(struct ep_op *op, const struct weft_ep_dispatch_args *args, size_t selections) {
  if (args->topk_idx)
    memcpy(op->experts, args->topk_idx, selections * sizeof *op->experts);
  else
    for (size_t i = 0; i < selections; i++)
      op->experts[i] = args->topk_idx32[i];
}

static void zero_counts(struct ep_op *op) {
  for (uint32_t i = 0; i < op->num_members; i++) {
    op->members[i].first_row = op->members[i].rows_out = 0;
    op->members[i].last_token = -1;
  }
}

// Assigns a member and a row to one selection, unless no member has its expert. True: the token had no row there
// before.
static bool place(weft_ep_t *ep, struct ep_op *op, uint32_t token, size_t at) {
  op->member_of[at] = -1;
  if (op->experts[at] < 0)
    return false;
  op->logical_selections++;
  if (op->went && !op->went[at])
    return false;
  uint32_t expert = (uint32_t)op->experts[at], rank = expert / ep->experts_per_rank;
  int32_t index = ep_op_member(op, (int32_t)rank);
  if (index < 0 || op->members[index].lost)
    return false;
  struct ep_member *member = &op->members[index];
  if (ep->masked[rank] == member->incarnation && op->kind != EP_KIND_COMBINE) // a combine by a route sends no tokens
    return false;
  bool first = member->last_token != (int32_t)token; // rows are packed in the order of tokens
  if (first)
    member->rows_out++;
  member->last_token = (int32_t)token;
  op->member_of[at] = (int16_t)index;
  op->local_of[at] = (int16_t)(expert - rank * ep->experts_per_rank);
  op->row_of[at] = (uint16_t)(member->rows_out - 1);
  return first;
}

void ep_route(weft_ep_t *ep, struct ep_op *op) {
  uint32_t topk = op->topk, num_rows = 0;
  zero_counts(op);
  for (uint32_t t = 0; t < op->num_tokens; t++)
    for (uint32_t k = 0; k < topk; k++)
      if (place(ep, op, t, (size_t)t * topk + k))
        op->row_at[num_rows++] = t * topk + k;
  uint32_t first = 0;
  for (uint32_t i = 0; i < op->num_members; i++) {
    op->members[i].first_row = first;
    first += op->members[i].rows_out;
  }
  for (uint32_t i = 0; i < num_rows; i++) {
    uint32_t at = op->row_at[i];
    op->row_token[op->members[op->member_of[at]].first_row + op->row_of[at]] = (uint16_t)(at / topk);
  }
}

void ep_count_selections(const weft_ep_t *ep, const struct ep_op *op, uint32_t index, uint32_t *counts) {
  const struct ep_member *member = &op->members[index];
  memset(counts, 0, ep->experts_per_rank * sizeof *counts);
  for (uint32_t i = 0; i < member->rows_out; i++) {
    size_t at = (size_t)op->row_token[member->first_row + i] * op->topk;
    for (uint32_t k = 0; k < op->topk; k++)
      if (op->member_of[at + k] == (int16_t)index)
        counts[op->local_of[at + k]]++;
  }
}
