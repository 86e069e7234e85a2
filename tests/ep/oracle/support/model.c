// A small operation of three ranks, and what an engine without faults makes of it.
#include "ep/oracle/support/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "ep/kernels/kernels.h"

static const int32_t ranks[MODEL_RANKS] = {0, 2, 3, 6};

void model_expert(void *arg, int64_t expert, const double *row, uint32_t hidden, double *out) {
  (void)arg;
  for (uint32_t i = 0; i < hidden; i++)
    out[i] = row[i] * (1 + (double)expert / 16);
}

static void fill_source(struct model *m, int s) {
  uint64_t random = (uint64_t)s;
  for (int i = 0; i < MODEL_TOKENS * MODEL_HIDDEN; i++)
    m->x[s][i] = (uint16_t)(0x3E00 + (random_next(&random) & 0x1FF));
  for (int t = 0; t < MODEL_TOKENS; t++)
    for (int k = 0; k < MODEL_TOPK; k++) {
      int64_t expert = ranks[(t + k + s) % MODEL_RANKS] * MODEL_EXPERTS + (t + 2 * k) % MODEL_EXPERTS;
      m->topk_idx[s][t * MODEL_TOPK + k] = t == 4 || (t + k) % 7 == 6 ? -1 : expert;
      m->topk_weights[s][t * MODEL_TOPK + k] = 0.1f * (float)(1 + (s + t + 3 * k) % 9);
    }
  m->topk_idx[s][3] = m->topk_idx[s][1];                  // twice the same
  m->topk_idx[s][6 * MODEL_TOPK] = 5 * MODEL_EXPERTS + 1; // a rank outside the view
  m->sources[s] = (struct oracle_source){.rank = ranks[s],
                                         .num_tokens = ranks[s] == 3 ? 0 : MODEL_TOKENS,
                                         .x = m->x[s],
                                         .topk_idx = m->topk_idx[s],
                                         .topk_weights = m->topk_weights[s]};
}

struct model *model_new(enum weft_ep_dtype dtype, enum weft_ep_layout layout, int32_t lost_or_none) {
  struct model *m = calloc(1, sizeof *m);
  if (!m)
    abort();
  for (int s = 0; s < MODEL_RANKS; s++)
    fill_source(m, s);
  m->test = (struct oracle_case){.hidden = MODEL_HIDDEN,
                                 .topk = MODEL_TOPK,
                                 .experts_per_rank = MODEL_EXPERTS,
                                 .capacity = MODEL_CAPACITY,
                                 .dtype = dtype,
                                 .sources = m->sources,
                                 .num_sources = MODEL_RANKS};
  m->recv = (struct weft_ep_recv_args){.size = sizeof m->recv,
                                       .layout = layout,
                                       .rows = MODEL_ROWS,
                                       .x = &m->rows,
                                       .scales = m->scales,
                                       .counts = m->counts,
                                       .src_rank = m->src_rank,
                                       .src_token = m->src_token,
                                       .range = m->range,
                                       .local_expert = layout == WEFT_EP_RANK_MAJOR ? m->local_expert : NULL,
                                       .weights = layout == WEFT_EP_RANK_MAJOR ? m->weights : NULL};
  if (lost_or_none >= 0)
    m->lost[m->num_lost++] = lost_or_none;
  model_dispatch(m);
  model_combine(m);
  return m;
}

static bool is_lost(const struct model *m, int64_t rank) {
  for (uint32_t i = 0; i < m->num_lost; i++)
    if (m->lost[i] == rank)
      return true;
  return false;
}

static void put_row(struct model *m, int place, int s, int token) {
  const uint16_t *x = &m->x[s][token * MODEL_HIDDEN];
  m->src_rank[place] = ranks[s];
  m->src_token[place] = token;
  if (m->test.dtype == WEFT_EP_BF16) {
    memcpy(&m->rows.bf16[place * MODEL_HIDDEN], x, MODEL_HIDDEN * sizeof *x);
    return;
  }
  bool packed = m->test.dtype == WEFT_EP_FP8_UE8M0;
  float apart[MODEL_BLOCKS], *scales = packed ? apart : &m->scales[place * MODEL_BLOCKS];
  ep_kernels_named("portable")
      ->cast_fp8(&m->rows.fp8[place * MODEL_HIDDEN], scales, x, MODEL_HIDDEN, m->test.dtype != WEFT_EP_FP8);
  if (packed) // a word for the two blocks of a row
    ep_kernels_pack_scales((uint8_t *)m->scales + place * 4, apart, MODEL_HIDDEN);
}

static int local_of(const struct model *m, int s, int token, int k) {
  int64_t expert = m->topk_idx[s][token * MODEL_TOPK + k];
  return expert >= 0 && expert / MODEL_EXPERTS == MODEL_JUDGED ? (int)(expert % MODEL_EXPERTS) : -1;
}

static void dispatch_per_expert(struct model *m) {
  for (int e = 0; e < MODEL_EXPERTS; e++)
    for (int s = 0; s < MODEL_RANKS; s++) {
      int begin = m->counts[e];
      for (uint32_t t = 0; t < m->sources[s].num_tokens && !is_lost(m, ranks[s]); t++)
        for (int k = 0; k < MODEL_TOPK; k++)
          if (local_of(m, s, (int)t, k) == e)
            put_row(m, e * MODEL_ROWS + m->counts[e]++, s, (int)t);
      m->range[e * MODEL_CAPACITY + ranks[s]] = (int64_t)begin << 32 | (m->counts[e] - begin);
    }
  for (int e = 0; e < MODEL_EXPERTS; e++)
    m->info.num_rows += (uint32_t)m->counts[e];
}

static void dispatch_rank_major(struct model *m) {
  int rows = 0;
  for (int s = 0; s < MODEL_RANKS; s++) {
    int begin = rows;
    for (uint32_t t = 0; t < m->sources[s].num_tokens && !is_lost(m, ranks[s]); t++) {
      int used = 0;
      for (int k = 0; k < MODEL_TOPK; k++)
        m->local_expert[rows * MODEL_TOPK + k] = -1;
      for (int k = 0; k < MODEL_TOPK; k++) {
        int e = local_of(m, s, (int)t, k);
        if (e < 0)
          continue;
        m->counts[e]++;
        m->local_expert[rows * MODEL_TOPK + used] = e;
        m->weights[rows * MODEL_TOPK + used++] = m->topk_weights[s][t * MODEL_TOPK + (uint32_t)k];
      }
      if (used > 0)
        put_row(m, rows++, s, (int)t);
    }
    m->range[ranks[s]] = (int64_t)begin << 32 | (rows - begin);
  }
  m->info.num_rows = (uint32_t)rows;
}

void model_dispatch(struct model *m) {
  memset(m->counts, 0, sizeof m->counts);
  memset(m->range, 0, sizeof m->range);
  memset(m->weights, 0, sizeof m->weights);
  memcpy(m->lost_out, m->lost, sizeof m->lost);
  m->info = (struct weft_ep_info){.size = sizeof m->info,
                                  .num_ranks = MODEL_RANKS,
                                  .num_lost = m->num_lost,
                                  .lost = m->lost_out,
                                  .lost_cap = MODEL_RANKS};
  if (m->recv.layout == WEFT_EP_PER_EXPERT)
    dispatch_per_expert(m);
  else
    dispatch_rank_major(m);
}

// What the expert gives for a token of the judged rank, in bf16.
static void run_expert(const struct model *m, int s, int token, int64_t expert, uint16_t *y) {
  const struct ep_kernels *kernels = ep_kernels_named("portable");
  const uint16_t *x = &m->x[s][token * MODEL_HIDDEN];
  uint16_t seen[MODEL_HIDDEN];
  memcpy(seen, x, sizeof seen);
  if (m->test.dtype != WEFT_EP_BF16) {
    uint8_t q[MODEL_HIDDEN];
    float scales[MODEL_BLOCKS];
    kernels->cast_fp8(q, scales, x, MODEL_HIDDEN, m->test.dtype != WEFT_EP_FP8);
    kernels->uncast_fp8(seen, q, scales, MODEL_HIDDEN);
  }
  float factor = 1 + (float)expert / 16;
  const uint16_t *rows[] = {seen};
  kernels->reduce(y, rows, &factor, 1, 1.0f, MODEL_HIDDEN);
}

// As the row travels, and back.
static void code(uint16_t *row) {
  const struct ep_kernels *kernels = ep_kernels_named("portable");
  uint8_t codes[MODEL_HIDDEN * 10 / 8];
  float heads[MODEL_BLOCKS * 2];
  kernels->encode10(codes, heads, row, MODEL_HIDDEN);
  kernels->decode10(row, codes, heads, MODEL_HIDDEN);
}

static void combine_token(struct model *m, int s, int token) {
  const struct ep_kernels *kernels = ep_kernels_named("portable");
  const int64_t *experts = &m->topk_idx[s][token * MODEL_TOPK];
  const float *weights = &m->topk_weights[s][token * MODEL_TOPK];
  uint16_t y[MODEL_TOPK][MODEL_HIDDEN], sums[MODEL_RANKS][MODEL_HIDDEN];
  const uint16_t *sum_rows[MODEL_RANKS];
  uint32_t num_sums = 0;
  float all = 0, came = 0;
  bool brought[MODEL_TOPK] = {false};
  for (int r = 0; r < MODEL_RANKS; r++) {
    const uint16_t *rows[MODEL_TOPK];
    float used[MODEL_TOPK];
    uint32_t count = 0;
    for (int k = 0; k < MODEL_TOPK && !is_lost(m, ranks[r]); k++)
      if (experts[k] >= 0 && experts[k] / MODEL_EXPERTS == ranks[r]) {
        run_expert(m, s, token, experts[k], y[count]);
        rows[count] = y[count];
        used[count++] = weights[k];
        brought[k] = true;
      }
    if (count > 0) {
      kernels->reduce(sums[num_sums], rows, used, count, 1.0f, MODEL_HIDDEN);
      if (m->test.combine_dtype == WEFT_EP_COMBINE_LOGFMT10)
        code(sums[num_sums]);
      sum_rows[num_sums] = sums[num_sums];
      num_sums++;
    }
  }
  for (int k = 0; k < MODEL_TOPK; k++) {
    all += experts[k] >= 0 ? weights[k] : 0;
    came += brought[k] ? weights[k] : 0;
    if (experts[k] >= 0 && !brought[k])
      m->missing[m->result.num_missing++] = (struct weft_ep_missing){.token = token, .k = k, .expert = experts[k]};
  }
  float factor = m->renormalize && came > 0 ? all / came : 1.0f;
  kernels->reduce(&m->out[token * MODEL_HIDDEN], sum_rows, NULL, num_sums, factor, MODEL_HIDDEN);
}

void model_combine(struct model *m) {
  m->result = (struct weft_ep_result){
      .size = sizeof m->result, .missing = m->missing, .missing_cap = MODEL_TOKENS * MODEL_TOPK};
  int s = 0;
  while (ranks[s] != MODEL_JUDGED)
    s++;
  for (int t = 0; t < MODEL_TOKENS; t++)
    combine_token(m, s, t);
}

struct oracle_verdict model_judge_dispatch(const struct model *m) {
  return oracle_check_dispatch(&m->test, MODEL_JUDGED, &m->recv, &m->info, m->lost, m->num_lost);
}

struct oracle_verdict model_judge_combine(const struct model *m) {
  return oracle_check_combine(&m->test, MODEL_JUDGED, m->out, &m->result, model_expert, NULL, m->lost, m->num_lost,
                              m->renormalize);
}
