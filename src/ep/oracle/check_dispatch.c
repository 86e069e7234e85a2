// The judge of dispatch: checks all tokens of all sources in the order that their rows must have.
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "ep/oracle/walk.h"

static bool is_packed(const struct walk *walk) {
  return walk->recv->layout == WEFT_EP_PACKED;
}

static bool by_expert(const struct walk *walk) {
  return walk->recv->layout != WEFT_EP_RANK_MAJOR;
}

static bool has_scales(const struct oracle_case *test) {
  return test->dtype == WEFT_EP_OPAQUE ? test->scale_bytes > 0 : test->dtype != WEFT_EP_BF16;
}

// Whether a source that was lost in mid-flow has places: either all its rows have places, or none.
static bool has_places(const struct walk *walk, int32_t rank) {
  for (uint32_t p = 0; p < walk->num_parts; p++)
    if ((uint32_t)walk->recv->range[(size_t)p * walk->test->capacity + (uint32_t)rank] > 0)
      return true;
  return false;
}

static enum brought what_came(const struct walk *walk, const struct oracle_source *source) {
  if (source->empty || source->outside)
    return BROUGHT_PART;
  if (!oracle_listed(source->rank, walk->lost, walk->num_lost))
    return BROUGHT_ALL;
  bool partial = oracle_listed(source->rank, walk->test->partial, walk->test->num_partial);
  return partial && has_places(walk, source->rank) ? BROUGHT_PART : BROUGHT_NOTHING;
}

// The local expert of selection k of a token; -1: the selection is not for this rank.
static int32_t local_expert(const struct walk *walk, const struct oracle_source *source, uint32_t token, uint32_t k) {
  int64_t expert = source->topk_idx[(size_t)token * walk->test->topk + k];
  int64_t local = expert - (int64_t)walk->rank * walk->test->experts_per_rank;
  return local >= 0 && local < walk->test->experts_per_rank ? (int32_t)local : -1;
}

// Adds a source's selections of each local expert. Returns its tokens with at least one.
static uint32_t count_source(const struct walk *walk, const struct oracle_source *source, uint32_t *counts) {
  uint32_t tokens = 0;
  for (uint32_t t = 0; t < source->num_tokens; t++) {
    bool any = false;
    for (uint32_t k = 0; k < walk->test->topk; k++) {
      int32_t local = local_expert(walk, source, t, k);
      if (local >= 0)
        counts[local]++;
      any |= local >= 0;
    }
    tokens += any;
  }
  return tokens;
}

// --- counts and parts ---

static uint64_t round_up(uint64_t rows, uint32_t alignment) {
  return alignment ? (rows + alignment - 1) / alignment * alignment : rows;
}

// Computes where the parts begin. Returns the room for all rows, as in weft_ep_info.rows_needed.
static uint64_t place_parts(struct walk *walk, const uint32_t *counts, uint32_t tokens) {
  if (!by_expert(walk))
    return tokens;
  uint64_t most = 0, end = 0;
  for (uint32_t e = 0; e < walk->num_parts; e++) {
    walk->begin[e] = is_packed(walk) ? end : (uint64_t)e * walk->recv->rows;
    end = round_up(walk->begin[e] + counts[e], walk->recv->alignment);
    most = counts[e] > most ? counts[e] : most;
  }
  return is_packed(walk) ? end : most;
}

static bool check_info(const struct walk *walk, const struct weft_ep_info *info, uint32_t rows, uint64_t needed) {
  uint32_t num_ranks = 0;
  for (uint32_t s = 0; s < walk->test->num_sources; s++)
    num_ranks += !walk->test->sources[s].outside;
  if (info->num_ranks != num_ranks)
    return oracle_wrong(walk->verdict, "dispatch: num_ranks is %u, should be %u", info->num_ranks, num_ranks);
  if (info->num_rows != rows)
    return oracle_wrong(walk->verdict, "dispatch: num_rows is %u, should be %u", info->num_rows, rows);
  if (info->rows_needed != needed)
    return oracle_wrong(walk->verdict, "dispatch: rows_needed is %u, should be %" PRIu64, info->rows_needed, needed);
  if (info->num_lost != walk->num_lost)
    return oracle_wrong(walk->verdict, "dispatch: num_lost is %u, should be %u", info->num_lost, walk->num_lost);
  for (uint32_t i = 0; info->lost && i < info->num_lost && i < info->lost_cap; i++)
    if (info->lost[i] != walk->lost[i])
      return oracle_wrong(walk->verdict, "dispatch: lost[%u] is rank %d, should be %d", i, info->lost[i],
                          walk->lost[i]);
  return true;
}

static bool check_ends(const struct walk *walk, const uint32_t *counts) {
  const int32_t *expert_end = walk->recv->expert_end;
  for (uint32_t e = 0; is_packed(walk) && expert_end && e < walk->num_parts; e++)
    if (expert_end[e] < 0 || (uint64_t)expert_end[e] != walk->begin[e] + counts[e])
      return oracle_wrong(walk->verdict, "dispatch: expert_end[%u] is %d, should be %" PRIu64, e, expert_end[e],
                          walk->begin[e] + counts[e]);
  return true;
}

// Checks the rows between the parts of PACKED, up to the beginning of the next part.
static bool check_padding(const struct walk *walk, const uint32_t *counts) {
  const struct weft_ep_recv_args *recv = walk->recv;
  if (!is_packed(walk) || !(recv->flags & WEFT_EP_RECV_ZERO_PADDING))
    return true;
  for (uint32_t e = 0; e < walk->num_parts; e++) {
    uint64_t end = round_up(walk->begin[e] + counts[e], recv->alignment);
    for (uint32_t i = counts[e]; walk->begin[e] + i < end; i++) {
      struct row row = {.token = -1, .part = e, .index = i};
      uint64_t place = walk_place(walk, &row);
      if (recv->src_rank && recv->src_rank[place] != -1)
        return walk_wrong(walk, &row, "src_rank is %d, should be -1", recv->src_rank[place]);
      if (recv->src_token && recv->src_token[place] != -1)
        return walk_wrong(walk, &row, "src_token is %d, should be -1", recv->src_token[place]);
      if (recv->weights && recv->weights[place] != 0)
        return walk_wrong(walk, &row, "weights is %a, should be 0", (double)recv->weights[place]);
      if (!walk_check_zeros(walk, &row))
        return false;
    }
  }
  return true;
}

static bool check_counts(struct walk *walk, const struct weft_ep_info *info, uint32_t *counts) {
  const struct weft_ep_recv_args *recv = walk->recv;
  uint32_t tokens = 0, selections = 0;
  for (uint32_t s = 0; s < walk->test->num_sources; s++)
    if (what_came(walk, &walk->test->sources[s]) != BROUGHT_NOTHING)
      tokens += count_source(walk, &walk->test->sources[s], counts);
  for (uint32_t e = 0; e < walk->test->experts_per_rank; e++) {
    if (recv->counts[e] < 0 || (uint32_t)recv->counts[e] != counts[e])
      return oracle_wrong(walk->verdict, "dispatch: counts[%u] is %d, should be %u", e, recv->counts[e], counts[e]);
    if (by_expert(walk) && !is_packed(walk) && counts[e] > recv->rows)
      return oracle_wrong(walk->verdict, "dispatch: local expert %u gets %u rows, there is room for %u", e, counts[e],
                          recv->rows);
    selections += counts[e];
  }
  uint64_t needed = place_parts(walk, counts, tokens);
  if (needed > recv->rows)
    return oracle_wrong(walk->verdict, "dispatch: %" PRIu64 " rows arrived, there is room for %u", needed, recv->rows);
  if (info && !check_info(walk, info, by_expert(walk) ? selections : tokens, needed))
    return false;
  return check_ends(walk, counts) && check_padding(walk, counts);
}

// --- rows ---

static bool check_row(const struct walk *walk, const struct row *row) {
  const struct weft_ep_recv_args *recv = walk->recv;
  uint64_t place = walk_place(walk, row);
  if (recv->src_rank && recv->src_rank[place] != row->source->rank)
    return walk_wrong(walk, row, "src_rank is %d", recv->src_rank[place]);
  if (recv->src_token && recv->src_token[place] != row->token)
    return walk_wrong(walk, row, "src_token is %d", recv->src_token[place]);
  if (row->token < 0)
    return walk_check_zeros(walk, row);
  return !oracle_sampled(walk->test, (uint32_t)row->token) || walk_check_values(walk, row);
}

// RANK_MAJOR: checks the token's local experts and their weights: in top-k order, then -1 and 0; or each at its place.
// A token that did not arrive has only -1 and 0.
static bool check_lists(const struct walk *walk, const struct row *row) {
  const struct weft_ep_recv_args *recv = walk->recv;
  uint32_t topk = walk->test->topk, used = 0;
  int32_t experts[EP_MAX_TOPK];
  float weights[EP_MAX_TOPK];
  bool keeps = recv->flags & WEFT_EP_RECV_KEEP_PLACES;
  for (uint32_t k = 0; row->token >= 0 && k < topk; k++) {
    int32_t local = local_expert(walk, row->source, (uint32_t)row->token, k);
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
      return walk_wrong(walk, row, "local_expert[%u] is %d, should be %d", k, recv->local_expert[place], experts[k]);
    if (recv->weights && memcmp(&recv->weights[place], &weights[k], sizeof *weights) != 0)
      return walk_wrong(walk, row, "weights[%u] is %a, should be %a", k, (double)recv->weights[place],
                        (double)weights[k]);
  }
  return true;
}

// PACKED: checks the weight of a row, which belongs to the token's selection k.
static bool check_weight(const struct walk *walk, const struct row *row, uint32_t token, uint32_t k) {
  const float *weights = is_packed(walk) ? walk->recv->weights : NULL, *sent = row->source->topk_weights;
  if (!weights || (row->token >= 0 && !sent))
    return true;
  float is = weights[walk_place(walk, row)];
  float right = row->token < 0 ? 0 : sent[(size_t)token * walk->test->topk + k];
  if (memcmp(&is, &right, sizeof is) == 0)
    return true;
  return walk_wrong(walk, row, "weights is %a, should be %a", (double)is, (double)right);
}

// PACKED: checks where the token's selections are in x.
static bool check_slots(struct walk *walk, const struct oracle_source *source, int64_t token, const int64_t *right) {
  const int32_t *slot = walk->recv->slot;
  uint32_t pair = walk->next_pair++;
  for (uint32_t k = 0; slot && k < walk->test->topk; k++) {
    int32_t is = slot[(size_t)pair * walk->test->topk + k];
    if (is == right[k])
      continue;
    if (token < 0)
      return oracle_wrong(walk->verdict, "dispatch: slot[%u][%u] (rank %d, not arrived) is %d, should be -1", pair, k,
                          source->rank, is);
    return oracle_wrong(walk->verdict,
                        "dispatch: slot[%u][%u] (token %" PRId64 " of rank %d) is %d, should be %" PRId64, pair, k,
                        token, source->rank, is, right[k]);
  }
  return true;
}

// `came`: false if the token of a source that was lost in mid-flow did not arrive; its places then have to be empty.
static bool check_token(struct walk *walk, const struct oracle_source *source, uint32_t token, bool came) {
  int64_t slots[EP_MAX_TOPK], stands = came ? (int64_t)token : -1;
  bool any = false;
  for (uint32_t k = 0; k < walk->test->topk; k++) {
    int32_t local = local_expert(walk, source, token, k);
    slots[k] = -1;
    if (local < 0)
      continue;
    if (!any && came && oracle_sampled(walk->test, token))
      walk_take(walk, source, token);
    any = true;
    if (!by_expert(walk))
      continue;
    struct row row = {.source = source, .token = stands, .part = (uint32_t)local, .index = walk->next_row[local]++};
    slots[k] = came ? (int64_t)walk_place(walk, &row) : -1;
    if (!check_row(walk, &row) || !check_weight(walk, &row, token, k))
      return false;
  }
  if (!any)
    return true;
  if (by_expert(walk))
    return !is_packed(walk) || check_slots(walk, source, stands, slots);
  struct row row = {.source = source, .token = stands, .index = walk->next_row[0]++};
  return check_row(walk, &row) && check_lists(walk, &row);
}

// --- sources ---

static bool check_range(const struct walk *walk, uint32_t part, int32_t rank, uint32_t begin, uint32_t count) {
  uint64_t range = (uint64_t)walk->recv->range[(size_t)part * walk->test->capacity + (uint32_t)rank];
  if ((uint32_t)range == count && (count == 0 || range >> 32 == begin))
    return true;
  return oracle_wrong(walk->verdict,
                      "dispatch: range of rank %d in part %u is %" PRIu64 " + %" PRIu64 ", should be %u + %u", rank,
                      part, range >> 32, range & 0xFFFFFFFF, begin, count);
}

// Whether a token of a source that was lost in mid-flow arrived: then it is at the first of its places. Any of the
// tokens may have arrived: on host memory they arrive in order, on GPUs in several channels at once.
static bool token_came(const struct walk *walk, const struct oracle_source *source, uint32_t token) {
  for (uint32_t k = 0; k < walk->test->topk; k++) {
    int32_t local = local_expert(walk, source, token, k);
    if (local < 0)
      continue;
    struct row row = {.part = by_expert(walk) ? (uint32_t)local : 0};
    row.index = walk->next_row[row.part];
    uint64_t place = walk_place(walk, &row);
    return walk->recv->src_rank[place] == source->rank && walk->recv->src_token[place] == (int64_t)token;
  }
  return false;
}

// A source that is masked or not in the view may have places by a kept route, but none of its tokens may have arrived.
static bool check_partial(struct walk *walk, const struct oracle_source *source) {
  bool brings = !source->empty && !source->outside;
  for (uint32_t t = 0; t < source->num_tokens; t++)
    if (!check_token(walk, source, t, brings && token_came(walk, source, t)))
      return false;
  return true;
}

static bool check_source(struct walk *walk, const struct oracle_source *source) {
  uint32_t begin[EP_MAX_EXPERTS];
  enum brought came = what_came(walk, source);
  memcpy(begin, walk->next_row, sizeof begin);
  if (came == BROUGHT_PART && !check_partial(walk, source))
    return false;
  for (uint32_t t = 0; came == BROUGHT_ALL && t < source->num_tokens; t++)
    if (!check_token(walk, source, t, true))
      return false;
  for (uint32_t p = 0; walk->recv->range && p < walk->num_parts; p++)
    if (!check_range(walk, p, source->rank, begin[p], walk->next_row[p] - begin[p]))
      return false;
  return true;
}

// Checks ranks outside the view, which are in `range` too.
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

static bool check_arguments(const struct walk *walk) {
  const struct weft_ep_recv_args *recv = walk->recv;
  const struct oracle_case *test = walk->test;
  if (!oracle_case_valid(test, walk->verdict))
    return false;
  if (!recv->x || !recv->counts || (has_scales(test) && !recv->scales))
    return oracle_wrong(walk->verdict, "dispatch: no x, counts or scales to judge");
  if (test->num_partial > 0 && (!recv->range || !recv->src_rank || !recv->src_token))
    return oracle_wrong(walk->verdict,
                        "case: without range, src_rank or src_token nothing shows which rows of a lost rank arrived");
  return true;
}

struct oracle_verdict oracle_check_dispatch(const struct oracle_case *test, int32_t rank,
                                            const struct weft_ep_recv_args *recv, const struct weft_ep_info *info,
                                            const int32_t *lost, uint32_t num_lost) {
  struct oracle_verdict verdict = {.ok = true};
  struct walk walk = {
      .test = test, .recv = recv, .lost = lost, .num_lost = num_lost, .rank = rank, .verdict = &verdict};
  uint32_t counts[EP_MAX_EXPERTS] = {0};
  walk.num_parts = by_expert(&walk) ? test->experts_per_rank : 1;
  if (!check_arguments(&walk) || !check_counts(&walk, info, counts))
    return verdict;
  for (uint32_t s = 0; s < test->num_sources; s++)
    if (!check_source(&walk, &test->sources[s]))
      return verdict;
  check_strangers(&walk);
  return verdict;
}
