// The experts: each multiplies by its own factor, or by 1, so that a judge can compute the same.
#include "base/ep_limits.h"
#include "ep/kernels/kernels.h"
#include "run/traffic/internal.h"

// One received row as bf16: the row itself, or the row cast back into `room`.
static const uint16_t *row_bf16(const struct traffic *t, size_t row, uint16_t *room) {
  uint32_t hidden = t->config->hidden;
  if (t->config->dtype == WEFT_EP_BF16)
    return (const uint16_t *)t->recv.x + row * hidden;
  size_t blocks = hidden / WEFT_EP_BLOCK;
  float unpacked[EP_MAX_HIDDEN / WEFT_EP_BLOCK];
  const float *scales = (const float *)t->recv.scales + row * blocks;
  if (t->config->dtype == WEFT_EP_FP8_UE8M0) {
    ep_kernels_unpack_scales(unpacked, (const uint8_t *)t->recv.scales + row * ((blocks + 3) / 4 * 4), hidden);
    scales = unpacked;
  }
  ep_kernels_best()->uncast_fp8(room, (const uint8_t *)t->recv.x + row * hidden, scales, hidden);
  return room;
}

static float factor_of(const struct traffic *t, enum pattern_kind kind, uint32_t local_expert) {
  int64_t expert = (int64_t)weft_ep_rank(t->ep) * t->config->experts_per_rank + local_expert;
  return kind == PATTERN_SCALED ? (float)pattern_expert_factor(expert) : 1.0f;
}

// The row at which the part of an expert begins, if the previous part ends at `end`.
static size_t part_of(const struct traffic *t, uint32_t e, size_t end) {
  uint32_t alignment = t->config->alignment ? t->config->alignment : 1;
  return t->config->layout == WEFT_EP_PER_EXPERT ? (size_t)e * t->rows : (end + alignment - 1) / alignment * alignment;
}

static void answer_per_expert(struct traffic *t, enum pattern_kind kind) {
  const struct ep_kernels *kernels = ep_kernels_best();
  uint32_t hidden = t->config->hidden;
  size_t end = 0;
  for (uint32_t e = 0; e < t->config->experts_per_rank; e++) {
    float factor = factor_of(t, kind, e);
    size_t begin = part_of(t, e, end);
    end = begin + (size_t)t->recv.counts[e];
    for (size_t at = begin; at < end; at++) {
      uint16_t *y = t->y + at * hidden;
      const uint16_t *x = row_bf16(t, at, factor == 1.0f ? y : t->row);
      if (x != y)
        kernels->reduce(y, &x, NULL, 1, factor, hidden);
    }
  }
}

// Each row goes to all its local experts. Their outputs, rounded to bf16 like those of real experts, are weighted and
// summed.
static void answer_rank_major(struct traffic *t, enum pattern_kind kind) {
  const struct ep_kernels *kernels = ep_kernels_best();
  uint32_t hidden = t->config->hidden, topk = t->config->topk;
  const uint16_t *outputs[EP_MAX_TOPK];
  for (uint32_t i = 0; i < t->info.num_rows; i++) {
    const uint16_t *x = row_bf16(t, i, t->row + (size_t)topk * hidden);
    const int32_t *experts = t->recv.local_expert + (size_t)i * topk;
    float weights[EP_MAX_TOPK];
    uint32_t count = 0;
    for (uint32_t k = 0; k < topk; k++) {
      if (experts[k] < 0)
        continue;
      float factor = factor_of(t, kind, (uint32_t)experts[k]);
      uint16_t *output = t->row + (size_t)count * hidden;
      if (factor != 1.0f)
        kernels->reduce(output, &x, NULL, 1, factor, hidden);
      weights[count] = t->recv.weights[(size_t)i * topk + k];
      outputs[count++] = factor != 1.0f ? output : x;
    }
    kernels->reduce(t->y + (size_t)i * hidden, outputs, weights, count, 1.0f, hidden);
  }
}

void traffic_experts(struct traffic *t, enum pattern_kind kind) {
  if (t->config->layout == WEFT_EP_RANK_MAJOR)
    answer_rank_major(t, kind);
  else
    answer_per_expert(t, kind);
}
