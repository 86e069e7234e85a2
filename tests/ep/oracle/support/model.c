// A small operation of four ranks, and the results of an engine without faults.
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
  for (size_t i = 0; i < sizeof m->payload[s]; i++)
    m->payload[s][i] = (uint8_t)random_next(&random);
  for (size_t i = 0; i < sizeof m->payload_scales[s]; i++)
    m->payload_scales[s][i] = (uint8_t)random_next(&random);
  for (int t = 0; t < MODEL_TOKENS; t++)
    for (int k = 0; k < MODEL_TOPK; k++) {
      int64_t expert = ranks[(t + k + s) % MODEL_RANKS] * MODEL_EXPERTS + (t + 2 * k) % MODEL_EXPERTS;
      m->topk_idx[s][t * MODEL_TOPK + k] = t == 4 || (t + k) % 7 == 6 ? -1 : expert;
      m->topk_weights[s][t * MODEL_TOPK + k] = 0.1f * (float)(1 + (s + t + 3 * k) % 9);
    }
  m->topk_idx[s][3] = m->topk_idx[s][1];                  // token 0 selects this expert twice
  m->topk_idx[s][6 * MODEL_TOPK] = 5 * MODEL_EXPERTS + 1; // an expert of a rank outside the view
  m->sources[s] = (struct oracle_source){.rank = ranks[s],
                                         .num_tokens = ranks[s] == 3 ? 0 : MODEL_TOKENS,
                                         .x = m->x[s],
                                         .topk_idx = m->topk_idx[s],
                                         .topk_weights = m->topk_weights[s],
                                         .payload = m->payload[s],
                                         .payload_scales = m->payload_scales[s]};
}

static void fill_answer(struct model *m) {
  uint64_t random = MODEL_RANKS;
  for (int b = 0; b < 2; b++)
    for (int i = 0; i < MODEL_TOKENS * MODEL_HIDDEN; i++)
      m->bias[b][i] = (uint16_t)(0x3D00 + (random_next(&random) & 0x2FF));
  for (int i = 0; i < MODEL_TOKENS * MODEL_TOPK; i++)
    m->row_weights[i] = (float)(random_next(&random) % 999) * 0.001f - 0.5f;
}

struct model *model_new(enum weft_ep_dtype dtype, enum weft_ep_layout layout, int32_t lost_or_none) {
  struct model *m = calloc(1, sizeof *m);
  if (!m)
    abort();
  for (int s = 0; s < MODEL_RANKS; s++)
    fill_source(m, s);
  fill_answer(m);
  m->test = (struct oracle_case){.hidden = MODEL_HIDDEN,
                                 .topk = MODEL_TOPK,
                                 .experts_per_rank = MODEL_EXPERTS,
                                 .capacity = MODEL_CAPACITY,
                                 .dtype = dtype,
                                 .sources = m->sources,
                                 .num_sources = MODEL_RANKS,
                                 .row_bytes = MODEL_ROW_BYTES,
                                 .scale_bytes = MODEL_SCALE_BYTES,
                                 .answer = &m->answer};
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
  if (layout == WEFT_EP_PACKED) {
    m->recv.rows = MODEL_EXPERTS * MODEL_ROWS;
    m->recv.alignment = 4;
    m->recv.flags = WEFT_EP_RECV_ZERO_PADDING;
    m->recv.slot = m->slot;
    m->recv.expert_end = m->expert_end;
  }
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

void model_break(struct model *m, int32_t rank, uint32_t came, uint32_t answered) {
  for (int s = 0; s < MODEL_RANKS; s++)
    if (ranks[s] == rank) {
      m->came[s] = came;
      m->answered[s] = answered;
    }
  m->lost[m->num_lost++] = rank;
  m->partial = true;
  m->test.partial = m->lost;
  m->test.num_partial = m->num_lost;
}

// Whether the tokens of source s have places among the received rows.
static bool has_places(const struct model *m, int s) {
  return m->partial || !is_lost(m, ranks[s]);
}

// Whether a token of source s has arrived.
static bool is_there(const struct model *m, int s, int token) {
  return !is_lost(m, ranks[s]) || (m->partial && m->came[s] >> token & 1);
}

static void put_opaque(struct model *m, int place, int s, int token) {
  memcpy(&m->rows.opaque[place * MODEL_ROW_BYTES], &m->payload[s][token * MODEL_ROW_BYTES], MODEL_ROW_BYTES);
  memcpy(&m->scales[place * MODEL_BLOCKS], &m->payload_scales[s][token * MODEL_SCALE_BYTES], MODEL_SCALE_BYTES);
}

static void put_row(struct model *m, int place, int s, int token) {
  const uint16_t *x = &m->x[s][token * MODEL_HIDDEN];
  m->src_rank[place] = ranks[s];
  m->src_token[place] = token;
  if (m->test.dtype == WEFT_EP_BF16) {
    memcpy(&m->rows.bf16[place * MODEL_HIDDEN], x, MODEL_HIDDEN * sizeof *x);
    return;
  }
  if (m->test.dtype == WEFT_EP_OPAQUE) {
    put_opaque(m, place, s, token);
    return;
  }
  bool packed = m->test.dtype == WEFT_EP_FP8_UE8M0;
  float apart[MODEL_BLOCKS], *scales = packed ? apart : &m->scales[place * MODEL_BLOCKS];
  ep_kernels_named("portable")
      ->cast_fp8(&m->rows.fp8[place * MODEL_HIDDEN], scales, x, MODEL_HIDDEN, m->test.dtype != WEFT_EP_FP8);
  if (packed) // one word for the scales of both blocks of a row
    ep_kernels_pack_scales((uint8_t *)m->scales + place * 4, apart, MODEL_HIDDEN);
}

static void put_nothing(struct model *m, int place, int32_t rank) {
  size_t bytes = m->test.dtype == WEFT_EP_BF16     ? MODEL_HIDDEN * sizeof(uint16_t)
                 : m->test.dtype == WEFT_EP_OPAQUE ? (size_t)MODEL_ROW_BYTES
                                                   : (size_t)MODEL_HIDDEN;
  size_t scales = m->test.dtype == WEFT_EP_FP8_UE8M0 ? 4 : MODEL_BLOCKS * sizeof(float);
  m->src_rank[place] = rank;
  m->src_token[place] = -1;
  memset((uint8_t *)&m->rows + (size_t)place * bytes, 0, bytes);
  if (m->test.dtype != WEFT_EP_BF16)
    memset((uint8_t *)m->scales + (size_t)place * scales, 0, scales);
}

static int local_of(const struct model *m, int s, int token, int k) {
  int64_t expert = m->topk_idx[s][token * MODEL_TOPK + k];
  return expert >= 0 && expert / MODEL_EXPERTS == MODEL_JUDGED ? (int)(expert % MODEL_EXPERTS) : -1;
}

// Writes the rows of source s for expert e from `place` on. The rows of tokens that have not arrived are empty. Returns
// the number of these rows. `dry`: only counts them.
static int put_source(struct model *m, int e, int s, int place, bool dry) {
  int first = place;
  for (int t = 0; has_places(m, s) && t < (int)m->sources[s].num_tokens; t++)
    for (int k = 0; k < MODEL_TOPK; k++) {
      if (local_of(m, s, t, k) != e)
        continue;
      if (!dry && is_there(m, s, t))
        put_row(m, place, s, t);
      else if (!dry)
        put_nothing(m, place, ranks[s]);
      place++;
    }
  return place - first;
}

static void dispatch_by_expert(struct model *m) {
  bool packed = m->recv.layout == WEFT_EP_PACKED;
  int begin = 0, end = 0, most = 0;
  for (int e = 0; e < MODEL_EXPERTS; e++) {
    if (!packed)
      begin = e * MODEL_ROWS;
    for (int s = 0; s < MODEL_RANKS; s++) {
      int count = put_source(m, e, s, begin + m->counts[e], false);
      m->range[e * MODEL_CAPACITY + ranks[s]] = (int64_t)m->counts[e] << 32 | count;
      m->counts[e] += count;
    }
    m->info.num_rows += (uint32_t)m->counts[e];
    most = m->counts[e] > most ? m->counts[e] : most;
    if (!packed)
      continue;
    end = m->expert_end[e] = begin + m->counts[e];
    while (end % (int)m->recv.alignment != 0)
      put_nothing(m, end++, -1);
    begin = end;
  }
  m->info.rows_needed = (uint32_t)(packed ? end : most);
}

// The index of the row in x that belongs to selection `k` of a token: it follows the rows of all selections of the same
// expert by earlier sources and tokens, and by earlier selections of this token.
static int row_of(struct model *m, int s, int token, int k) {
  int e = local_of(m, s, token, k), row = m->expert_end[e] - m->counts[e];
  for (int before = 0; before < s; before++)
    row += put_source(m, e, before, 0, true);
  for (int t = 0; t <= token; t++)
    for (int j = 0; j < (t < token ? MODEL_TOPK : k); j++)
      row += local_of(m, s, t, j) == e;
  return row;
}

static void fill_slots(struct model *m) {
  int pair = 0;
  memset(m->slot, 0xFF, sizeof m->slot); // -1
  for (int s = 0; s < MODEL_RANKS; s++)
    for (int t = 0; has_places(m, s) && t < (int)m->sources[s].num_tokens; t++) {
      bool any = false;
      for (int k = 0; k < MODEL_TOPK; k++) {
        if (local_of(m, s, t, k) < 0)
          continue;
        any = true;
        if (is_there(m, s, t))
          m->slot[pair * MODEL_TOPK + k] = row_of(m, s, t, k);
      }
      pair += any;
    }
}

static void put_lists(struct model *m, int row, int s, int t, bool there) {
  int used = 0;
  for (int k = 0; k < MODEL_TOPK; k++) {
    m->local_expert[row * MODEL_TOPK + k] = -1;
    m->weights[row * MODEL_TOPK + k] = 0;
  }
  for (int k = 0; k < MODEL_TOPK; k++) {
    int e = local_of(m, s, t, k);
    if (e < 0)
      continue;
    m->counts[e]++;
    if (!there)
      continue;
    m->local_expert[row * MODEL_TOPK + used] = e;
    m->weights[row * MODEL_TOPK + used++] = m->topk_weights[s][t * MODEL_TOPK + k];
  }
}

static bool is_for_us(const struct model *m, int s, int t) {
  for (int k = 0; k < MODEL_TOPK; k++)
    if (local_of(m, s, t, k) >= 0)
      return true;
  return false;
}

static void dispatch_rank_major(struct model *m) {
  int rows = 0;
  for (int s = 0; s < MODEL_RANKS; s++) {
    int begin = rows;
    for (int t = 0; has_places(m, s) && t < (int)m->sources[s].num_tokens; t++) {
      if (!is_for_us(m, s, t))
        continue;
      put_lists(m, rows, s, t, is_there(m, s, t));
      if (is_there(m, s, t))
        put_row(m, rows++, s, t);
      else
        put_nothing(m, rows++, ranks[s]);
    }
    m->range[ranks[s]] = (int64_t)begin << 32 | (rows - begin);
  }
  m->info.num_rows = m->info.rows_needed = (uint32_t)rows;
}

void model_dispatch(struct model *m) {
  memset(m->counts, 0, sizeof m->counts);
  memset(m->range, 0, sizeof m->range);
  memset(&m->rows, 0xEE, sizeof m->rows);
  memset(m->scales, 0xEE, sizeof m->scales);
  memcpy(m->lost_out, m->lost, sizeof m->lost);
  m->info = (struct weft_ep_info){.size = sizeof m->info,
                                  .num_ranks = MODEL_RANKS,
                                  .num_lost = m->num_lost,
                                  .lost = m->lost_out,
                                  .lost_cap = MODEL_RANKS};
  if (m->recv.layout == WEFT_EP_RANK_MAJOR)
    dispatch_rank_major(m);
  else
    dispatch_by_expert(m);
  if (m->recv.layout == WEFT_EP_PACKED)
    fill_slots(m);
}

// Computes the output of an expert for a token of source s, in bf16.
static void run_expert(const struct model *m, int s, int token, int64_t expert, uint16_t *y) {
  const struct ep_kernels *kernels = ep_kernels_named("portable");
  const uint16_t *x = &m->x[s][token * MODEL_HIDDEN];
  uint16_t seen[MODEL_HIDDEN];
  memcpy(seen, x, sizeof seen);
  if (m->test.dtype != WEFT_EP_BF16 && m->test.dtype != WEFT_EP_OPAQUE) {
    uint8_t q[MODEL_HIDDEN];
    float scales[MODEL_BLOCKS];
    kernels->cast_fp8(q, scales, x, MODEL_HIDDEN, m->test.dtype != WEFT_EP_FP8);
    kernels->uncast_fp8(seen, q, scales, MODEL_HIDDEN);
  }
  float factor = 1 + (float)expert / 16;
  const uint16_t *rows[] = {seen};
  kernels->reduce(y, rows, &factor, 1, 1.0f, MODEL_HIDDEN);
}

// Encodes the row as it is sent, and decodes it again.
static void code(uint16_t *row) {
  const struct ep_kernels *kernels = ep_kernels_named("portable");
  uint8_t codes[MODEL_HIDDEN * 10 / 8];
  float heads[MODEL_BLOCKS * 2];
  kernels->encode10(codes, heads, row, MODEL_HIDDEN);
  kernels->decode10(row, codes, heads, MODEL_HIDDEN);
}

static bool answers(const struct model *m, int r, int token) {
  return !is_lost(m, ranks[r]) || (m->partial && m->answered[r] >> token & 1);
}

// Computes the row with which rank r answers a token, from the selections of the token that are experts of r, and sets
// `brought` for each of them. False: rank r answers no row.
static bool make_rank_row(const struct model *m, int s, int r, int token, uint16_t *sum, bool *brought) {
  const struct ep_kernels *kernels = ep_kernels_named("portable");
  const int64_t *experts = &m->topk_idx[s][token * MODEL_TOPK];
  uint16_t y[MODEL_TOPK][MODEL_HIDDEN];
  const uint16_t *rows[MODEL_TOPK];
  float used[MODEL_TOPK];
  uint32_t count = 0;
  for (int k = 0; k < MODEL_TOPK && answers(m, r, token); k++) {
    if (experts[k] < 0 || experts[k] / MODEL_EXPERTS != ranks[r])
      continue;
    run_expert(m, s, token, m->answer.by_rank ? ranks[r] : experts[k], y[count]);
    rows[count] = y[count];
    used[count++] = m->topk_weights[s][token * MODEL_TOPK + k];
    brought[k] = true;
  }
  if (count == 0)
    return false;
  if (m->answer.by_rank)
    memcpy(sum, y[0], sizeof y[0]);
  else
    kernels->reduce(sum, rows, m->answer.unweighted ? NULL : used, count, 1.0f, MODEL_HIDDEN);
  if (m->test.combine_dtype == WEFT_EP_COMBINE_LOGFMT10)
    code(sum);
  return true;
}

// Adds the ranks' rows, multiplies the sum by the factor, and adds the biases: in f32, rounded once.
static void add_rows(struct model *m, int token, const uint16_t *const *rows, uint32_t count, float factor) {
  for (int i = 0; i < MODEL_HIDDEN; i++) {
    float sum = 0;
    for (uint32_t r = 0; r < count; r++)
      sum += (float)oracle_bf16(rows[r][i]);
    sum *= factor;
    for (int b = 0; b < 2; b++)
      if (m->answer.bias[b])
        sum += (float)oracle_bf16(m->answer.bias[b][token * MODEL_HIDDEN + i]);
    m->out[token * MODEL_HIDDEN + i] = oracle_to_bf16((double)sum);
  }
}

static void combine_token(struct model *m, int s, int token) {
  const int64_t *experts = &m->topk_idx[s][token * MODEL_TOPK];
  uint16_t sums[MODEL_RANKS][MODEL_HIDDEN];
  const uint16_t *rows[MODEL_RANKS];
  uint32_t count = 0;
  float all = 0, came = 0;
  bool brought[MODEL_TOPK] = {false};
  for (int r = 0; r < MODEL_RANKS; r++)
    if (make_rank_row(m, s, r, token, sums[count], brought)) {
      rows[count] = sums[count];
      count++;
    }
  for (int k = 0; k < MODEL_TOPK; k++) {
    float weight = m->answer.unweighted ? 1 : m->topk_weights[s][token * MODEL_TOPK + k];
    all += experts[k] >= 0 ? weight : 0;
    came += brought[k] ? weight : 0;
    m->out_weights[token * MODEL_TOPK + k] = brought[k] ? m->row_weights[token * MODEL_TOPK + k] : 0;
    if (experts[k] >= 0 && !brought[k])
      m->missing[m->result.num_missing++] = (struct weft_ep_missing){.token = token, .k = k, .expert = experts[k]};
  }
  add_rows(m, token, rows, count, m->renormalize && came > 0 ? all / came : 1.0f);
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
  return oracle_check_combine(&m->test, MODEL_JUDGED, m->out, &m->result, model_expert, NULL, m->lost,
                              m->partial ? 0 : m->num_lost, m->renormalize);
}
