// Operations with every buffer of their calls, for tests of routes.
#include "ep/support/routes.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"

void draw_make(struct draw *draw, const struct setup *setup) {
  uint64_t state = random_mix(draw->seed);
  uint64_t experts = (uint64_t)draw->count * setup->experts;
  for (uint32_t r = 0; r < draw->count; r++) {
    uint32_t tokens = draw->even ? setup->tokens : (uint32_t)(random_next(&state) % (setup->tokens + 1));
    size_t selections = (size_t)tokens * draw->topk;
    draw->tokens[r] = tokens;
    draw->topk_idx[r] = calloc(selections + 1, sizeof **draw->topk_idx);
    draw->weights[r] = calloc(selections + 1, sizeof **draw->weights);
    for (size_t i = 0; i < selections; i++) {
      bool none = (double)(random_next(&state) % 1000) < 1000 * (double)draw->drop;
      draw->topk_idx[r][i] = none ? -1 : (int64_t)(random_next(&state) % experts);
      draw->weights[r][i] = (float)(random_next(&state) % 1000 + 1) / 512;
    }
    // No token selects an expert twice: that takes more rows than the buffers have.
    for (uint32_t t = 0; t < tokens; t++)
      for (uint32_t k = 1; k < draw->topk; k++)
        for (uint32_t j = 0; j < k; j++)
          if (draw->topk_idx[r][t * draw->topk + k] == draw->topk_idx[r][t * draw->topk + j])
            draw->topk_idx[r][t * draw->topk + k] = -1;
  }
}

void draw_free(struct draw *draw) {
  for (uint32_t r = 0; r < draw->count; r++) {
    free(draw->topk_idx[r]);
    free(draw->weights[r]);
  }
}

void draw_x(const struct setup *setup, uint64_t seed, int32_t rank, uint16_t *x) {
  uint64_t state = random_mix(seed ^ ((uint64_t)rank + 1) << 40);
  for (size_t i = 0; i < (size_t)setup->tokens * setup->hidden; i++)
    x[i] = oracle_to_bf16((double)(int64_t)(random_next(&state) % 2001 - 1000) / 64);
}

static size_t total_rows(const struct setup *s) {
  return (size_t)s->experts * s->capacity * s->tokens;
}

void brought_new(struct brought *b, const struct setup *s) {
  size_t total = total_rows(s), x = total * s->hidden * 2, scales = total * (s->hidden / 128) * 4,
         counts = s->experts * sizeof(int32_t), numbers = total * sizeof(int32_t), places = numbers * s->topk,
         range = (size_t)s->experts * s->capacity * sizeof(int64_t), out = (size_t)s->tokens * s->hidden * 2,
         out_weights = (size_t)s->tokens * s->topk * sizeof(float);
  memset(b, 0, sizeof *b);
  b->bytes = x + scales + range + numbers * 2 + places * 3 + counts * 2 + out + out_weights;
  b->memory = aligned_alloc(64, (b->bytes + 63) / 64 * 64);
  uint8_t *at = b->memory;
  b->range = (int64_t *)at;
  b->x = at += range;
  b->scales = (uint32_t *)(at += x);
  b->src_rank = (int32_t *)(at += scales);
  b->src_token = (int32_t *)(at += numbers);
  b->local_expert = (int32_t *)(at += numbers);
  b->weights = (float *)(at += places);
  b->counts = (int32_t *)(at += places);
  b->expert_end = (int32_t *)(at += counts);
  b->slot = (int32_t *)(at += counts);
  b->out_weights = (float *)(at += places);
  b->out = (uint16_t *)(at += out_weights);
  b->row_weights = calloc(total * s->topk, sizeof *b->row_weights);
  b->y = calloc(total * s->hidden, sizeof *b->y);
  b->rows_at = calloc(total, sizeof *b->rows_at);
}

void brought_free(struct brought *b) {
  free(b->memory);
  free(b->y);
  free(b->row_weights);
  free(b->rows_at);
}

void brought_poison(struct brought *b) {
  memset(b->memory, 0xEE, b->bytes);
  memset(b->missing, 0xEE, sizeof b->missing);
  memset(b->lost, 0xEE, sizeof b->lost);
  b->info = (struct weft_ep_info){.size = sizeof b->info, .lost = b->lost, .lost_cap = ROUTES_RANKS};
  b->result = (struct weft_ep_result){.size = sizeof b->result, .missing = b->missing, .missing_cap = 256};
}

bool way_flows(void) {
  return getenv("WEFT_TEST_WINDOW") != NULL;
}

bool way_shares(void) {
  return way_flows() && getenv("WEFT_TEST_HOSTS") != NULL;
}

struct route_way way_of(struct route_way way) {
  if (way_flows())
    way.late = way.apart = way.in_place = false;
  return way;
}

struct weft_ep_dispatch_args way_dispatch(const struct rank *rank, const struct draw *draw, const struct route_way *way,
                                          const uint16_t *x) {
  struct weft_ep_dispatch_args args = WEFT_EP_DISPATCH_ARGS_INIT;
  args.x = x;
  args.num_tokens = draw->tokens[rank->index];
  args.topk = draw->topk;
  args.dtype = way->dtype;
  args.topk_idx = draw->topk_idx[rank->index];
  args.topk_weights = way->late ? NULL : draw->weights[rank->index];
  return args;
}

void way_recv(const struct rank *rank, const struct route_way *way, struct brought *b) {
  const struct setup *s = &rank->setup;
  bool ranks = way->layout == WEFT_EP_RANK_MAJOR;
  b->recv = (struct weft_ep_recv_args){.size = sizeof b->recv,
                                       .layout = way->layout,
                                       .rows = s->capacity * s->tokens,
                                       .x = way->in_place ? NULL : b->x,
                                       .rows_at = way->in_place ? b->rows_at : NULL,
                                       .scales = way->dtype > WEFT_EP_BF16 && !way->in_place ? b->scales : NULL,
                                       .counts = b->counts,
                                       .src_rank = b->src_rank,
                                       .src_token = b->src_token,
                                       .range = b->range,
                                       .local_expert = ranks ? b->local_expert : NULL,
                                       .weights = ranks ? b->weights : NULL,
                                       .flags = ranks && way->keep_places ? WEFT_EP_RECV_KEEP_PLACES : 0};
  if (way->layout == WEFT_EP_PACKED) {
    b->recv.rows *= s->experts; // the alignment takes some of them
    b->recv.alignment = way->alignment;
    b->recv.slot = b->slot;
    b->recv.expert_end = b->expert_end;
    b->recv.flags = WEFT_EP_RECV_ZERO_PADDING;
  }
}

void way_answers(const struct rank *rank, uint64_t seed, struct brought *b) {
  const struct setup *s = &rank->setup;
  uint64_t state = random_mix(seed + (uint64_t)rank->index);
  for (size_t i = 0; i < total_rows(s) * s->hidden; i += 4) {
    uint64_t bits = random_next(&state);
    for (int j = 0; j < 4; j++)
      b->y[i + (size_t)j] = (uint16_t)(0x3F00 | (bits >> 16 * j & 0x80FF)); // +-0.5 to 2
  }
  for (size_t i = 0; i < total_rows(s) * s->topk; i++)
    b->row_weights[i] = (float)(random_next(&state) % 1000) / 64;
}

struct weft_ep_combine_args way_combine(const struct rank *rank, const struct draw *draw, const struct route_way *way,
                                        struct brought *b) {
  struct weft_ep_combine_args args = WEFT_EP_COMBINE_ARGS_INIT;
  args.y = b->y;
  args.out = b->out;
  args.dtype = way->combine_dtype;
  args.topk_weights = way->late ? draw->weights[rank->index] : NULL;
  args.flags = way->renormalize ? WEFT_EP_COMBINE_RENORMALIZE : 0;
  if (way->weights_back) { // of those ranks that have received rows by rank
    args.row_weights = way->layout == WEFT_EP_RANK_MAJOR ? b->row_weights : NULL;
    args.out_weights = b->out_weights;
  }
  return args;
}

// Rows in place, brought to where the others would have been.
static void gather(const struct rank *rank, const struct route_way *way, struct brought *b) {
  const struct setup *s = &rank->setup;
  size_t bytes = (size_t)s->hidden * (way->dtype > WEFT_EP_BF16 ? 1 : 2);
  bool ranks = way->layout == WEFT_EP_RANK_MAJOR;
  if (way->layout == WEFT_EP_PACKED) {
    for (uint32_t i = 0; i < b->info.rows_needed; i++)
      if (b->rows_at[i])
        memcpy(b->x + i * bytes, b->rows_at[i], bytes);
    return;
  }
  for (uint32_t e = 0; e < (ranks ? 1 : s->experts); e++) {
    uint32_t count = ranks ? b->info.num_rows : (uint32_t)b->counts[e];
    for (size_t i = (size_t)e * b->recv.rows; count-- > 0; i++)
      memcpy(b->x + i * bytes, b->rows_at[i], bytes);
  }
}

bool way_run(struct rank *rank, const struct draw *draw, const struct route_way *way,
             const struct weft_ep_dispatch_args *args, uint64_t seed, struct brought *b) {
  uint64_t op;
  brought_poison(b);
  way_recv(rank, way, b);
  way_answers(rank, seed, b);
  int rc = way->apart ? weft_ep_dispatch_send(rank->ep, args, &op)
                      : weft_ep_dispatch(rank->ep, args, &b->recv, &b->info, &op);
  if (rc == 0 && way->apart)
    rc = weft_ep_dispatch_recv(rank->ep, op, &b->recv, &b->info);
  if (rc != 0)
    return rank_fail(rank, "dispatch: %s: %s", weft_err_name(rc), weft_last_error());
  if (way->in_place)
    gather(rank, way, b);
  struct weft_ep_combine_args combine = way_combine(rank, draw, way, b);
  rc = way->apart ? weft_ep_combine_send(rank->ep, op, &combine) : weft_ep_combine(rank->ep, op, &combine, &b->result);
  if (rc == 0 && way->apart)
    rc = weft_ep_combine_recv(rank->ep, op, &combine, &b->result);
  return rc == 0 ? true : rank_fail(rank, "combine: %s: %s", weft_err_name(rc), weft_last_error());
}

bool brought_equal(struct rank *rank, const struct brought *a, const struct brought *b, const char *what) {
  const struct {
    const char *name;
    const void *begin, *end;
  } parts[] = {{"range", a->range, a->x},
               {"x", a->x, a->scales},
               {"scales", a->scales, a->src_rank},
               {"src_rank", a->src_rank, a->src_token},
               {"src_token", a->src_token, a->local_expert},
               {"local_expert", a->local_expert, a->weights},
               {"weights", a->weights, a->counts},
               {"counts", a->counts, a->expert_end},
               {"expert_end", a->expert_end, a->slot},
               {"slot", a->slot, a->out_weights},
               {"out_weights", a->out_weights, a->out},
               {"out", a->out, a->memory + a->bytes}};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    const uint8_t *left = parts[i].begin, *right = b->memory + (left - a->memory);
    for (size_t at = 0; left + at < (const uint8_t *)parts[i].end; at++)
      if (left[at] != right[at])
        return rank_fail(rank, "%s: %s differs at byte %zu: 0x%02x is not 0x%02x", what, parts[i].name, at, left[at],
                         right[at]);
  }
  if (a->info.num_rows != b->info.num_rows || a->info.rows_needed != b->info.rows_needed ||
      a->info.logical_bytes != b->info.logical_bytes)
    return rank_fail(rank, "%s: %u rows of %u are not %u of %u", what, a->info.num_rows, a->info.rows_needed,
                     b->info.num_rows, b->info.rows_needed);
  if (a->result.num_missing != b->result.num_missing || a->result.wire_bytes != b->result.wire_bytes ||
      memcmp(a->missing, b->missing, sizeof a->missing) != 0)
    return rank_fail(rank, "%s: %u missing selections and %llu bytes are not %u and %llu", what, a->result.num_missing,
                     (unsigned long long)a->result.wire_bytes, b->result.num_missing,
                     (unsigned long long)b->result.wire_bytes);
  return true;
}
