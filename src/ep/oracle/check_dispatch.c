// The judge of dispatch: goes through all tokens of all sources in the order in which their rows must stand.
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ep/oracle/judge.h"

struct walk {
  const struct oracle_case *test;
  const struct weft_ep_recv_args *recv;
  const int32_t *lost;
  uint32_t num_lost;
  int32_t rank;
  // A part is a local expert's rows, or in RANK_MAJOR the one part that holds all.
  uint32_t num_parts;
  uint32_t next_row[EP_MAX_EXPERTS]; // of each part
  uint8_t q[EP_MAX_HIDDEN];          // the token at hand, cast
  float scales[EP_MAX_HIDDEN / WEFT_EP_BLOCK];
  struct oracle_verdict *verdict;
};

// A received row and the token that must stand there.
struct row {
  const struct oracle_source *source;
  uint32_t token;
  uint32_t part, index; // where
};

static uint32_t tokens_brought(const struct walk *walk, const struct oracle_source *source) {
  return oracle_listed(source->rank, walk->lost, walk->num_lost) ? 0 : source->num_tokens;
}

// The local expert that selection k of a token is for, or -1 when it is not for this rank.
static int32_t local_expert(const struct walk *walk, const struct oracle_source *source, uint32_t token, uint32_t k) {
  int64_t expert = source->topk_idx[(size_t)token * walk->test->topk + k];
  int64_t local = expert - (int64_t)walk->rank * walk->test->experts_per_rank;
  return local >= 0 && local < walk->test->experts_per_rank ? (int32_t)local : -1;
}

// Selections of each local expert, and tokens with at least one.
static uint32_t count_selections(const struct walk *walk, uint32_t counts[EP_MAX_EXPERTS]) {
  uint32_t tokens = 0;
  memset(counts, 0, EP_MAX_EXPERTS * sizeof *counts);
  for (uint32_t s = 0; s < walk->test->num_sources; s++) {
    const struct oracle_source *source = &walk->test->sources[s];
    uint32_t num_tokens = tokens_brought(walk, source);
    for (uint32_t t = 0; t < num_tokens; t++) {
      bool any = false;
      for (uint32_t k = 0; k < walk->test->topk; k++) {
        int32_t local = local_expert(walk, source, t, k);
        if (local >= 0)
          counts[local]++;
        any |= local >= 0;
      }
      tokens += any;
    }
  }
  return tokens;
}

static bool check_info(const struct walk *walk, const struct weft_ep_info *info, uint32_t rows) {
  if (info->num_ranks != walk->test->num_sources)
    return oracle_wrong(walk->verdict, "dispatch: num_ranks is %u, should be %u", info->num_ranks,
                        walk->test->num_sources);
  if (info->num_rows != rows)
    return oracle_wrong(walk->verdict, "dispatch: num_rows is %u, should be %u", info->num_rows, rows);
  if (info->num_lost != walk->num_lost)
    return oracle_wrong(walk->verdict, "dispatch: num_lost is %u, should be %u", info->num_lost, walk->num_lost);
  for (uint32_t i = 0; info->lost && i < info->num_lost && i < info->lost_cap; i++)
    if (info->lost[i] != walk->lost[i])
      return oracle_wrong(walk->verdict, "dispatch: lost[%u] is rank %d, should be %d", i, info->lost[i],
                          walk->lost[i]);
  return true;
}

static bool check_counts(const struct walk *walk, const struct weft_ep_info *info) {
  const struct weft_ep_recv_args *recv = walk->recv;
  if (!recv->x || !recv->counts || (walk->test->dtype != WEFT_EP_BF16 && !recv->scales))
    return oracle_wrong(walk->verdict, "dispatch: no x, counts or scales to judge");
  uint32_t counts[EP_MAX_EXPERTS];
  uint32_t tokens = count_selections(walk, counts), selections = 0;
  for (uint32_t e = 0; e < walk->test->experts_per_rank; e++) {
    if (recv->counts[e] < 0 || (uint32_t)recv->counts[e] != counts[e])
      return oracle_wrong(walk->verdict, "dispatch: counts[%u] is %d, should be %u", e, recv->counts[e], counts[e]);
    if (recv->layout != WEFT_EP_RANK_MAJOR && counts[e] > recv->rows)
      return oracle_wrong(walk->verdict, "dispatch: local expert %u gets %u rows, there is room for %u", e, counts[e],
                          recv->rows);
    selections += counts[e];
  }
  if (recv->layout == WEFT_EP_RANK_MAJOR && tokens > recv->rows)
    return oracle_wrong(walk->verdict, "dispatch: %u rows came, there is room for %u", tokens, recv->rows);
  return !info || check_info(walk, info, recv->layout != WEFT_EP_RANK_MAJOR ? selections : tokens);
}

// Says where the row stands, before what is wrong with it.
__attribute__((format(printf, 3, 4))) static bool wrong_row(const struct walk *walk, const struct row *row,
                                                            const char *format, ...) {
  char detail[160], part[32] = "";
  va_list args;
  va_start(args, format);
  vsnprintf(detail, sizeof detail, format, args);
  va_end(args);
  if (walk->recv->layout != WEFT_EP_RANK_MAJOR)
    snprintf(part, sizeof part, "local expert %u, ", row->part);
  return oracle_wrong(walk->verdict, "dispatch: %srow %u (token %u of rank %d): %s", part, row->index, row->token,
                      row->source->rank, detail);
}

static size_t place_of(const struct walk *walk, const struct row *row) {
  return (size_t)row->part * walk->recv->rows + row->index;
}

static bool check_bf16(const struct walk *walk, const struct row *row) {
  size_t hidden = walk->test->hidden, i = 0;
  const uint16_t *x = (const uint16_t *)walk->recv->x + place_of(walk, row) * hidden;
  const uint16_t *right = row->source->x + (size_t)row->token * hidden;
  if (memcmp(x, right, hidden * sizeof *x) == 0)
    return true;
  while (x[i] == right[i])
    i++;
  return wrong_row(walk, row, "x[%zu] is 0x%04x (%g), should be 0x%04x (%g)", i, x[i], oracle_bf16(x[i]), right[i],
                   oracle_bf16(right[i]));
}

// Where the word `block` of a row's scales is to lie, of `words` in all.
static const uint8_t *scale_at(const struct walk *walk, const struct row *row, size_t block, size_t words) {
  const struct weft_ep_recv_args *recv = walk->recv;
  uint64_t each = recv->scale_row_stride ? recv->scale_row_stride : words;
  uint64_t next = recv->scale_block_stride ? recv->scale_block_stride : 1;
  uint64_t part = recv->scale_expert_stride ? recv->scale_expert_stride : recv->rows * words;
  return (const uint8_t *)recv->scales + 4 * (row->part * part + row->index * each + block * next);
}

static bool check_packed(const struct walk *walk, const struct row *row) {
  uint8_t right[EP_MAX_HIDDEN / WEFT_EP_BLOCK + 3];
  size_t size = oracle_pack_scales(right, walk->scales, walk->test->hidden);
  for (size_t b = 0; b < size; b++) {
    uint8_t is = scale_at(walk, row, b / 4, size / 4)[b % 4];
    if (is != right[b])
      return wrong_row(walk, row, "scales[%zu], byte %zu is 0x%02x, should be 0x%02x", b / 4, b % 4, is, right[b]);
  }
  return true;
}

static bool check_scales(const struct walk *walk, const struct row *row) {
  size_t blocks = walk->test->hidden / WEFT_EP_BLOCK;
  if (walk->test->dtype == WEFT_EP_FP8_UE8M0)
    return check_packed(walk, row);
  for (size_t b = 0; b < blocks; b++) {
    float is;
    memcpy(&is, scale_at(walk, row, b, blocks), sizeof is);
    if (memcmp(&is, &walk->scales[b], sizeof is) != 0)
      return wrong_row(walk, row, "scales[%zu] is %a, should be %a", b, (double)is, (double)walk->scales[b]);
  }
  return true;
}

static bool check_fp8(const struct walk *walk, const struct row *row) {
  size_t hidden = walk->test->hidden, i = 0;
  if (!check_scales(walk, row))
    return false;
  const uint8_t *q = (const uint8_t *)walk->recv->x + place_of(walk, row) * hidden;
  if (memcmp(q, walk->q, hidden) == 0)
    return true;
  while (q[i] == walk->q[i])
    i++;
  return wrong_row(walk, row, "x[%zu] is 0x%02x (%g), should be 0x%02x (%g)", i, q[i], oracle_e4m3(q[i]), walk->q[i],
                   oracle_e4m3(walk->q[i]));
}

static bool check_row(const struct walk *walk, const struct row *row) {
  const struct weft_ep_recv_args *recv = walk->recv;
  size_t place = place_of(walk, row);
  if (recv->src_rank && recv->src_rank[place] != row->source->rank)
    return wrong_row(walk, row, "src_rank is %d", recv->src_rank[place]);
  if (recv->src_token && (recv->src_token[place] < 0 || (uint32_t)recv->src_token[place] != row->token))
    return wrong_row(walk, row, "src_token is %d", recv->src_token[place]);
  return walk->test->dtype == WEFT_EP_BF16 ? check_bf16(walk, row) : check_fp8(walk, row);
}

// RANK_MAJOR: the token's local experts and their weights, in top-k order, then -1 and 0; or each at its place.
static bool check_lists(const struct walk *walk, const struct row *row) {
  const struct weft_ep_recv_args *recv = walk->recv;
  uint32_t topk = walk->test->topk, used = 0;
  int32_t experts[EP_MAX_TOPK];
  float weights[EP_MAX_TOPK];
  bool keeps = recv->flags & WEFT_EP_RECV_KEEP_PLACES;
  for (uint32_t k = 0; k < topk; k++) {
    int32_t local = local_expert(walk, row->source, row->token, k);
    if (local < 0 && !keeps)
      continue;
    float weight = row->source->topk_weights ? row->source->topk_weights[(size_t)row->token * topk + k] : NAN;
    experts[used] = local < 0 ? -1 : local;
    weights[used++] = local < 0 ? 0 : weight;
  }
  for (; used < topk; used++) {
    experts[used] = -1;
    weights[used] = 0;
  }
  for (uint32_t k = 0; k < topk; k++) {
    size_t place = (size_t)row->index * topk + k;
    if (recv->local_expert && recv->local_expert[place] != experts[k])
      return wrong_row(walk, row, "local_expert[%u] is %d, should be %d", k, recv->local_expert[place], experts[k]);
    if (recv->weights && memcmp(&recv->weights[place], &weights[k], sizeof *weights) != 0)
      return wrong_row(walk, row, "weights[%u] is %a, should be %a", k, (double)recv->weights[place],
                       (double)weights[k]);
  }
  return true;
}

static bool check_token(struct walk *walk, const struct oracle_source *source, uint32_t token) {
  bool per_expert = walk->recv->layout != WEFT_EP_RANK_MAJOR, any = false;
  for (uint32_t k = 0; k < walk->test->topk; k++) {
    int32_t local = local_expert(walk, source, token, k);
    if (local < 0)
      continue;
    if (!any && walk->test->dtype != WEFT_EP_BF16)
      oracle_cast(walk->q, walk->scales, source->x + (size_t)token * walk->test->hidden, walk->test->hidden,
                  walk->test->dtype);
    any = true;
    if (per_expert) {
      struct row row = {.source = source, .token = token, .part = (uint32_t)local, .index = walk->next_row[local]++};
      if (!check_row(walk, &row))
        return false;
    }
  }
  if (per_expert || !any)
    return true;
  struct row row = {.source = source, .token = token, .index = walk->next_row[0]++};
  return check_row(walk, &row) && check_lists(walk, &row);
}

static bool check_range(const struct walk *walk, uint32_t part, int32_t rank, uint32_t begin, uint32_t count) {
  uint64_t range = (uint64_t)walk->recv->range[(size_t)part * walk->test->capacity + (uint32_t)rank];
  if ((uint32_t)range == count && (count == 0 || range >> 32 == begin))
    return true;
  return oracle_wrong(walk->verdict,
                      "dispatch: range of rank %d in part %u is %" PRIu64 " + %" PRIu64 ", should be %u + %u", rank,
                      part, range >> 32, range & 0xFFFFFFFF, begin, count);
}

static bool check_source(struct walk *walk, const struct oracle_source *source) {
  uint32_t begin[EP_MAX_EXPERTS];
  memcpy(begin, walk->next_row, sizeof begin);
  for (uint32_t t = 0, end = tokens_brought(walk, source); t < end; t++)
    if (!check_token(walk, source, t))
      return false;
  for (uint32_t p = 0; walk->recv->range && p < walk->num_parts; p++)
    if (!check_range(walk, p, source->rank, begin[p], walk->next_row[p] - begin[p]))
      return false;
  return true;
}

// Ranks outside the view stand in `range` too.
static bool check_strangers(const struct walk *walk) {
  for (uint32_t rank = 0; walk->recv->range && rank < walk->test->capacity; rank++) {
    if (oracle_source_of(walk->test, (int32_t)rank))
      continue;
    for (uint32_t p = 0; p < walk->num_parts; p++)
      if (!check_range(walk, p, (int32_t)rank, 0, 0))
        return false;
  }
  return true;
}

struct oracle_verdict oracle_check_dispatch(const struct oracle_case *test, int32_t rank,
                                            const struct weft_ep_recv_args *recv, const struct weft_ep_info *info,
                                            const int32_t *lost, uint32_t num_lost) {
  struct oracle_verdict verdict = {.ok = true};
  struct walk walk = {
      .test = test, .recv = recv, .lost = lost, .num_lost = num_lost, .rank = rank, .verdict = &verdict};
  walk.num_parts = recv->layout != WEFT_EP_RANK_MAJOR ? test->experts_per_rank : 1;
  if (!oracle_case_valid(test, &verdict) || !check_counts(&walk, info))
    return verdict;
  for (uint32_t s = 0; s < test->num_sources; s++)
    if (!check_source(&walk, &test->sources[s]))
      return verdict;
  check_strangers(&walk);
  return verdict;
}
