// Inputs of all ranks, generated again from the pattern, and the experts' outputs.
#include <stdlib.h>
#include <string.h>

#include "base/ep_limits.h"
#include "ep/host/support/member.h"

static bool in_view(const struct member *m, int32_t rank) {
  for (uint32_t i = 0; i < m->num_view; i++)
    if (m->view[i] == rank)
      return true;
  return false;
}

// The rows of another operation in the place of those that came with the routing.
static void change_rows(const struct member *m, int32_t rank, uint32_t tokens, uint16_t *x) {
  struct pattern pattern = m->group->pattern;
  pattern.num_tokens = tokens;
  pattern.uneven = false;
  pattern.shape = PATTERN_EVEN;
  int64_t *topk_idx = malloc((size_t)tokens * pattern.topk * sizeof *topk_idx + 1);
  float *weights = malloc((size_t)tokens * pattern.topk * sizeof *weights + 1);
  pattern_fill(&pattern, m->number, rank, m->view, m->num_view, x, topk_idx, weights);
  free(topk_idx);
  free(weights);
}

static struct oracle_source make_source(struct member *m, int32_t rank) {
  struct member_source *made = &m->made[rank];
  const struct drawn_op *op = &m->op;
  struct pattern pattern = m->group->pattern;
  pattern.topk = op->topk;
  uint32_t tokens =
      pattern_fill(&pattern, m->routed_by, rank, m->routed_view, m->num_routed, made->x, made->topk_idx, made->weights);
  if (m->routed_by != m->number)
    change_rows(m, rank, tokens, made->x);
  for (uint32_t t = 0; op->dtype == WEFT_EP_OPAQUE && t < tokens; t++)
    pattern_payload(&pattern, m->number, rank, t, op->row_bytes, op->scale_bytes,
                    made->payload + (size_t)t * op->row_bytes,
                    (uint8_t *)made->payload_scales + (size_t)t * op->scale_bytes);
  if (m->routed_by != m->number && m->route.lacks_victim && rank == m->group->victim)
    tokens = 0; // this rank has no places for them
  bool masks = op->masks && drawn_masks(m->group, m->number, rank, m->rank);
  return (struct oracle_source){.rank = rank,
                                .num_tokens = tokens,
                                .x = made->x,
                                .topk_idx = made->topk_idx,
                                .topk_weights = made->weights,
                                .payload = made->payload,
                                .payload_scales = (uint8_t *)made->payload_scales,
                                .empty = masks && op->kind == DRAWN_KEEPS,
                                .outside = !in_view(m, rank)};
}

// Of a kept route, the ranks of its view; else those of this one.
void member_make_sources(struct member *m) {
  m->num_sources = 0;
  for (uint32_t i = 0; i < m->num_routed; i++)
    m->sources[m->num_sources++] = make_source(m, m->routed_view[i]);
}

static const struct oracle_source *source_of(const struct member *m, int32_t rank) {
  for (uint32_t i = 0; i < m->num_sources; i++)
    if (m->sources[i].rank == rank)
      return &m->sources[i];
  return NULL;
}

// What the experts see of a token, in bf16 as double.
static void see(const struct member *m, const struct oracle_source *source, uint32_t token, double *row) {
  uint32_t hidden = m->group->hidden;
  const uint16_t *x = source->x + (size_t)token * hidden;
  if (m->op.dtype == WEFT_EP_BF16 || m->op.dtype == WEFT_EP_OPAQUE) {
    for (uint32_t i = 0; i < hidden; i++)
      row[i] = oracle_bf16(x[i]);
    return;
  }
  uint8_t q[EP_MAX_HIDDEN];
  float scales[EP_MAX_HIDDEN / WEFT_EP_BLOCK];
  oracle_cast(q, scales, x, hidden, m->op.dtype);
  oracle_uncast(row, q, scales, hidden);
}

// The sum over this rank's experts, as a caller makes it; their outputs are bf16.
static void sum_experts(const struct member *m, const struct oracle_source *source, uint32_t token, const double *row,
                        uint16_t *y) {
  uint32_t hidden = m->group->hidden, topk = m->op.topk;
  for (uint32_t i = 0; i < hidden; i++) {
    float sum = 0;
    for (uint32_t k = 0; k < topk; k++) {
      int64_t expert = source->topk_idx[(size_t)token * topk + k];
      if (expert < 0 || expert / m->group->experts != m->rank)
        continue;
      float weight = m->op.unweighted ? 1 : source->topk_weights[(size_t)token * topk + k];
      sum += weight * (float)oracle_bf16(oracle_to_bf16(row[i] * pattern_expert_factor(expert)));
    }
    y[i] = oracle_to_bf16((double)sum);
  }
}

// RANK_MAJOR: weights that go back, at the places of this rank's experts; elsewhere what nobody must see.
static void weigh_back(struct member *m, const struct oracle_source *source, uint32_t token, float *weights) {
  for (uint32_t k = 0; k < m->op.topk; k++) {
    int64_t expert = source->topk_idx[(size_t)token * m->op.topk + k];
    bool here = expert >= 0 && expert / m->group->experts == m->rank;
    struct pattern pattern = m->group->pattern;
    pattern.topk = m->op.topk;
    weights[k] = here ? pattern_row_weight(&pattern, m->number, m->rank, source->rank, token, k) : 1e30f;
  }
}

// The weight that goes back with a row of one expert. A token of the pattern selects an expert once.
static float weigh_row(const struct member *m, const struct oracle_source *source, uint32_t token, int32_t local) {
  uint32_t k = 0;
  while (k < m->op.topk &&
         source->topk_idx[(size_t)token * m->op.topk + k] != (int64_t)m->rank * m->group->experts + local)
    k++;
  struct pattern pattern = m->group->pattern;
  pattern.topk = m->op.topk;
  return pattern_row_weight(&pattern, m->number, m->rank, source->rank, token, k);
}

// The output of one row: of one expert, or in RANK_MAJOR of all.
static void answer_row(struct member *m, const struct member_rows *rows, size_t place, int32_t local, double *row) {
  uint32_t hidden = m->group->hidden;
  const struct oracle_source *source = source_of(m, rows->src_rank[place]);
  int32_t token = rows->src_token[place];
  uint16_t *y = m->y + place * hidden;
  if (!source || token < 0 || (uint32_t)token >= source->num_tokens)
    return; // nobody waits for it
  see(m, source, (uint32_t)token, row);
  if (local < 0) {
    sum_experts(m, source, (uint32_t)token, row, y);
    weigh_back(m, source, (uint32_t)token, m->row_weights + place * m->op.topk);
    return;
  }
  m->row_weights[place] = weigh_row(m, source, (uint32_t)token, local);
  double factor = pattern_expert_factor((int64_t)(int64_t)m->rank * m->group->experts + local);
  for (uint32_t i = 0; i < hidden; i++)
    y[i] = oracle_to_bf16(row[i] * factor);
}

void member_answer(struct member *m, const struct member_rows *rows) {
  double *row = malloc(m->group->hidden * sizeof *row);
  if (rows->layout == WEFT_EP_RANK_MAJOR)
    for (uint32_t i = 0; i < rows->num_rows; i++)
      answer_row(m, rows, i, -1, row);
  else
    for (uint32_t e = 0; e < m->group->experts; e++) {
      size_t count = (size_t)rows->counts[e];
      size_t begin = rows->layout == WEFT_EP_PACKED ? (size_t)rows->expert_end[e] - count : (size_t)e * rows->rows;
      for (size_t i = 0; i < count; i++)
        answer_row(m, rows, begin + i, (int32_t)e, row);
    }
  free(row);
}
