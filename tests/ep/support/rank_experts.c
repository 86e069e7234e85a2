// The experts of a rank under test: they compute outputs from the received rows.
#include <stdlib.h>
#include <string.h>

#include "base/ep_limits.h"
#include "ep/kernels/kernels.h"
#include "ep/support/rank_parts.h"

size_t rank_scale_bytes(const struct setup *s) {
  size_t blocks = s->hidden / 128;
  return s->dtype == WEFT_EP_FP8_UE8M0 ? (blocks + 3) / 4 * 4 : blocks * sizeof(float);
}

static void uncast(const struct setup *s, uint16_t *out, const uint8_t *values, const void *scales) {
  float unpacked[EP_MAX_HIDDEN / WEFT_EP_BLOCK];
  if (s->dtype == WEFT_EP_FP8_UE8M0)
    ep_kernels_unpack_scales(unpacked, scales, s->hidden);
  ep_kernels_best()->uncast_fp8(out, values, s->dtype == WEFT_EP_FP8_UE8M0 ? unpacked : scales, s->hidden);
}

// A row's scales, copied to `room` if they are not contiguous.
static const void *scales_of(const struct rank *rank, size_t row, uint32_t *room) {
  const struct weft_ep_recv_args *recv = &rank->recv;
  size_t words = rank_scale_bytes(&rank->setup) / sizeof *room;
  if (!recv->scale_row_stride)
    return (const uint32_t *)rank->scales + row * words;
  size_t at = row / rank->rows * recv->scale_expert_stride + row % rank->rows * recv->scale_row_stride;
  for (size_t b = 0; b < words; b++)
    room[b] = ((const uint32_t *)rank->scales)[at + b * recv->scale_block_stride];
  return room;
}

// Computes the output of the experts of `kind` for one received row.
static void apply_expert(struct rank *rank, enum pattern_kind kind, int64_t expert, size_t row, uint16_t *out) {
  const struct setup *s = &rank->setup;
  size_t value_bytes = s->dtype == WEFT_EP_BF16 ? 2 : 1;
  const uint8_t *values = s->in_place ? rank->rows_at[row] : (uint8_t *)rank->received + row * s->hidden * value_bytes;
  uint32_t room[EP_MAX_HIDDEN / WEFT_EP_BLOCK];
  const void *scales = s->in_place ? values + s->hidden : scales_of(rank, row, room);
  if (s->dtype == WEFT_EP_BF16)
    memcpy(out, values, (size_t)s->hidden * 2);
  else
    uncast(s, out, values, scales);
  if (kind != PATTERN_SCALED)
    return;
  for (uint32_t i = 0; i < s->hidden; i++)
    out[i] = oracle_to_bf16(oracle_bf16(out[i]) * pattern_expert_factor(expert));
}

static void run_experts_by_expert(struct rank *rank, enum pattern_kind kind) {
  for (uint32_t e = 0; e < rank->setup.experts; e++)
    for (int32_t i = 0; i < rank->counts[e]; i++) {
      size_t row = (size_t)e * rank->rows + (size_t)i;
      apply_expert(rank, kind, (int64_t)rank->index * rank->setup.experts + e, row, rank->y + row * rank->setup.hidden);
    }
}

// RANK_MAJOR: the caller computes the weighted sum over its experts.
static void run_experts_by_rank(struct rank *rank, enum pattern_kind kind) {
  const struct setup *s = &rank->setup;
  uint16_t *one = malloc((size_t)s->hidden * 2);
  double *sum = malloc(s->hidden * sizeof *sum);
  for (uint32_t row = 0; row < rank->info.num_rows; row++) {
    memset(sum, 0, s->hidden * sizeof *sum);
    for (uint32_t k = 0; k < s->topk; k++) {
      int32_t local = rank->local_expert[(size_t)row * s->topk + k];
      if (local < 0)
        continue;
      apply_expert(rank, kind, (int64_t)rank->index * s->experts + local, row, one);
      for (uint32_t i = 0; i < s->hidden; i++)
        sum[i] += (double)rank->recv_weights[(size_t)row * s->topk + k] * oracle_bf16(one[i]);
    }
    for (uint32_t i = 0; i < s->hidden; i++)
      rank->y[(size_t)row * s->hidden + i] = oracle_to_bf16(sum[i]);
  }
  free(one);
  free(sum);
}

void rank_run_experts(struct rank *rank, enum pattern_kind kind) {
  if (rank->setup.layout == WEFT_EP_PER_EXPERT)
    run_experts_by_expert(rank, kind);
  else
    run_experts_by_rank(rank, kind);
}
