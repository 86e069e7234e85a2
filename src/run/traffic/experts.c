// The experts: each multiplies by a factor of its own, or by 1, so that a judge can follow them.
#include "base/ep_limits.h"
#include "ep/kernels/kernels.h"
#include "run/traffic/internal.h"

// One received row as bf16: itself, or its cast back into `room`.
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

static void answer_per_expert(struct traffic *t, enum pattern_kind kind) {
  const struct ep_kernels *kernels = ep_kernels_best();
  uint32_t hidden = t->config->hidden;
  for (uint32_t e = 0; e < t->config->experts_per_rank; e++) {
    float factor = factor_of(t, kind, e);
    for (int32_t i = 0; i < t->recv.counts[e]; i++) {
      size_t at = (size_t)e * t->rows + (size_t)i;
      uint16_t *y = t->y + at * hidden;
      const uint16_t *x = row_bf16(t, at, factor == 1.0f ? y : t->row);
      if (x != y)
        kernels->reduce(y, &x, NULL, 1, factor, hidden);
    }
  }
}

// Each row goes to all its local experts; their outputs, rounded to bf16 as from real experts, are weighed and summed.
static void answer_rank_major(struct traffic *t, enum pattern_kind kind) {
  const struct ep_kernels *kernels = ep_kernels_best();
  uint32_t hidden = t->config->hidden, topk = t->config->topk;
  const uint16_t *outputs[EP_MAX_TOPK];
  for (uint32_t i = 0; i < t->info.num_rows; i++) {
    const uint16_t *x = row_bf16(t, i, t->row + (size_t)topk * hidden);
    const int32_t *experts = t->recv.local_expert + (size_t)i * topk;
    uint32_t count = 0;
    for (; count < topk && experts[count] >= 0; count++) {
      float factor = factor_of(t, kind, (uint32_t)experts[count]);
      uint16_t *output = t->row + (size_t)count * hidden;
      if (factor != 1.0f)
        kernels->reduce(output, &x, NULL, 1, factor, hidden);
      outputs[count] = factor != 1.0f ? output : x;
    }
    kernels->reduce(t->y + (size_t)i * hidden, outputs, t->recv.weights + (size_t)i * topk, count, 1.0f, hidden);
  }
}

void traffic_experts(struct traffic *t, enum pattern_kind kind) {
  if (t->config->layout == WEFT_EP_PER_EXPERT)
    answer_per_expert(t, kind);
  else
    answer_rank_major(t, kind);
}
