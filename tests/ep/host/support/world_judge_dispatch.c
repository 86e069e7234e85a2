// The judge of dispatches of world.h: it walks over what all ranks sent, in the required order of the rows, and
// compares.
#include <stdlib.h>
#include <string.h>

#include "base/ep_limits.h"
#include "ep/host/support/world.h"

struct walk {
  const struct world *world;
  const struct shape *shape;
  const struct way *way;
  int32_t rank;
  const struct world_received *received;
  char *what;
  uint32_t *counts; // [E]
  uint32_t *begins; // [E] row where the part of each expert begins
  int32_t *places;  // [ranks][tokens][K] where the selection stands, -1: not here
  uint8_t *taken;   // [all rows] some row stands there
  uint32_t needed, all_rows, num_rows;
};

static bool here(const struct walk *walk, int32_t source, uint32_t token, uint32_t k) {
  int32_t rank;
  return world_reaches(walk->world, walk->shape->op, source, token, k, &rank) && rank == walk->rank;
}

static uint32_t local_of(const struct walk *walk, int32_t source, uint32_t token, uint32_t k) {
  int64_t expert = world_expert(walk->world, walk->shape->op, source, token, k);
  return (uint32_t)(expert % walk->world->experts);
}

static void count(struct walk *walk) {
  const struct world *world = walk->world;
  memset(walk->counts, 0, world->experts * sizeof *walk->counts);
  uint32_t pairs = 0, rows = 0, most = 0, end = 0, alignment = walk->way->alignment ? walk->way->alignment : 1;
  for (uint32_t r = 0; r < world->num_ranks; r++)
    for (uint32_t t = 0; t < world_tokens(world, walk->shape->op, world->ranks[r]); t++) {
      bool any = false;
      for (uint32_t k = 0; k < walk->shape->topk; k++)
        if (here(walk, world->ranks[r], t, k)) {
          walk->counts[local_of(walk, world->ranks[r], t, k)]++;
          any = true;
          rows++;
        }
      pairs += any;
    }
  for (uint32_t e = 0; e < world->experts; e++) {
    most = walk->counts[e] > most ? walk->counts[e] : most;
    walk->begins[e] = end;
    end += (walk->counts[e] + alignment - 1) / alignment * alignment;
  }
  enum weft_ep_layout layout = walk->way->layout;
  walk->needed = layout == WEFT_EP_RANK_MAJOR ? pairs : layout == WEFT_EP_PACKED ? end : most;
  walk->num_rows = layout == WEFT_EP_RANK_MAJOR ? pairs : rows;
}

uint32_t world_needed(const struct world *world, const struct shape *shape, const struct way *way, int32_t rank) {
  uint32_t counts[EP_MAX_EXPERTS], begins[EP_MAX_EXPERTS];
  struct walk walk = {.world = world, .shape = shape, .way = way, .rank = rank, .counts = counts, .begins = begins};
  count(&walk);
  return walk.needed;
}

static const uint32_t *scales_at(const struct walk *walk, uint32_t part, uint32_t place, uint64_t *block) {
  const struct weft_ep_recv_args *recv = walk->received->recv;
  uint64_t words = walk->shape->scale_bytes / 4, row = recv->scale_row_stride ? recv->scale_row_stride : words;
  *block = recv->scale_block_stride ? recv->scale_block_stride : 1;
  uint64_t expert = recv->scale_expert_stride ? recv->scale_expert_stride : recv->rows * words;
  return (const uint32_t *)recv->scales + part * expert + place * row;
}

// Row `place` of part `part` is that token's.
static bool check_row(struct walk *walk, uint32_t part, uint32_t place, int32_t source, uint32_t token) {
  const struct weft_ep_recv_args *recv = walk->received->recv;
  const struct shape *shape = walk->shape;
  uint32_t at = part * recv->rows + place;
  uint8_t values[2 * EP_MAX_HIDDEN];
  uint32_t scales[2 * EP_MAX_HIDDEN / 4];
  world_row(walk->world, shape, source, token, values, scales);
  const uint8_t *is = recv->rows_at ? recv->rows_at[at] : (const uint8_t *)recv->x + (size_t)at * shape->row_bytes;
  if (memcmp(is, values, shape->row_bytes) != 0)
    return world_wrong(walk->what, "row %u of part %u has not the values of rank %d's token %u", place, part, source,
                       token);
  uint64_t block = 1;
  const uint32_t *scales_are = recv->rows_at  ? (const void *)(is + shape->row_bytes)
                               : recv->scales ? scales_at(walk, part, place, &block)
                                              : NULL;
  for (uint32_t i = 0; i < shape->scale_bytes / 4; i++)
    if (scales_are[i * block] != scales[i])
      return world_wrong(walk->what, "row %u of part %u has scale %u 0x%08x, should be 0x%08x", place, part, i,
                         scales_are[i * block], scales[i]);
  if (recv->src_rank[at] != source || recv->src_token[at] != (int32_t)token)
    return world_wrong(walk->what, "row %u of part %u is rank %d's token %d, should be %d's %u", place, part,
                       recv->src_rank[at], recv->src_token[at], source, token);
  walk->taken[at] = 1;
  return true;
}

static bool check_range(struct walk *walk, uint32_t part, int32_t source, uint32_t begin, uint32_t end) {
  uint64_t range = (uint64_t)walk->received->recv->range[(size_t)part * walk->world->capacity + (uint32_t)source];
  if ((uint32_t)range == end - begin && (begin == end || range >> 32 == begin))
    return true;
  return world_wrong(walk->what, "range of rank %d in part %u is %u + %u, should be %u + %u", source, part,
                     (uint32_t)(range >> 32), (uint32_t)range, begin, end - begin);
}

static bool check_expert(struct walk *walk, uint32_t e) {
  const struct world *world = walk->world;
  bool packed = walk->way->layout == WEFT_EP_PACKED;
  uint32_t part = packed ? 0 : e, next = 0, base = packed ? walk->begins[e] : 0;
  for (uint32_t r = 0; r < world->num_ranks; r++) {
    int32_t source = world->ranks[r];
    uint32_t begin = next;
    for (uint32_t t = 0; t < world_tokens(world, walk->shape->op, source); t++)
      for (uint32_t k = 0; k < walk->shape->topk; k++) {
        if (!here(walk, source, t, k) || local_of(walk, source, t, k) != e)
          continue;
        walk->places[((size_t)r * world->tokens + t) * walk->shape->topk + k] = (int32_t)(base + next);
        if (!check_row(walk, part, base + next++, source, t))
          return false;
      }
    if (!check_range(walk, e, source, begin, next))
      return false;
  }
  const struct weft_ep_recv_args *recv = walk->received->recv;
  if (recv->counts[e] != (int32_t)walk->counts[e])
    return world_wrong(walk->what, "counts[%u] is %d, should be %u", e, recv->counts[e], walk->counts[e]);
  if (packed && recv->expert_end[e] != (int32_t)(base + next))
    return world_wrong(walk->what, "expert_end[%u] is %d, should be %u", e, recv->expert_end[e], base + next);
  return true;
}

static bool check_slots(struct walk *walk) {
  const struct world *world = walk->world;
  const int32_t *slot = walk->received->recv->slot;
  uint32_t topk = walk->shape->topk;
  for (uint32_t r = 0; r < world->num_ranks; r++)
    for (uint32_t t = 0; t < world_tokens(world, walk->shape->op, world->ranks[r]); t++) {
      const int32_t *places = walk->places + ((size_t)r * world->tokens + t) * topk;
      bool any = false;
      for (uint32_t k = 0; k < topk; k++)
        any |= places[k] >= 0;
      if (!any)
        continue;
      if (memcmp(slot, places, topk * sizeof *slot) != 0)
        return world_wrong(walk->what, "slots of rank %d's token %u begin with %d, should with %d", world->ranks[r], t,
                           slot[0], places[0]);
      slot += topk;
    }
  return true;
}

static bool is_all(const uint8_t *bytes, uint32_t size, uint8_t value) {
  for (uint32_t i = 0; i < size; i++)
    if (bytes[i] != value)
      return false;
  return true;
}

// Rows where none stands: as before, or with padding zeros as far as parts reach.
static bool check_gaps(struct walk *walk) {
  const struct weft_ep_recv_args *recv = walk->received->recv;
  bool packed = walk->way->layout == WEFT_EP_PACKED;
  for (uint32_t at = 0; at < walk->all_rows; at++) {
    if (walk->taken[at])
      continue;
    bool cleared = packed && walk->way->padding && at < walk->needed;
    uint8_t byte = cleared ? 0 : walk->received->poison, index = cleared ? 0xFF : walk->received->poison;
    uint64_t block;
    const uint32_t *scales = scales_at(walk, at / recv->rows, at % recv->rows, &block);
    bool good = recv->rows_at ? is_all((const uint8_t *)&recv->rows_at[at], sizeof *recv->rows_at, byte)
                              : is_all((const uint8_t *)recv->x + (size_t)at * walk->shape->row_bytes,
                                       walk->shape->row_bytes, byte);
    for (uint32_t i = 0; good && recv->scales && i < walk->shape->scale_bytes / 4; i++)
      good = is_all((const uint8_t *)&scales[i * block], 4, byte);
    good &= is_all((const uint8_t *)&recv->src_rank[at], 4, index) &&
            is_all((const uint8_t *)&recv->src_token[at], 4, index);
    if (!good)
      return world_wrong(walk->what, "row %u, where none stands, is not %s", at, cleared ? "cleared" : "untouched");
  }
  return true;
}

// The selections of a token that is row `at` of RANK_MAJOR.
static bool check_selections(struct walk *walk, uint32_t at, int32_t source, uint32_t token) {
  const struct weft_ep_recv_args *recv = walk->received->recv;
  uint32_t topk = walk->shape->topk, first = 0;
  int32_t experts[EP_MAX_TOPK];
  float weights[EP_MAX_TOPK];
  for (uint32_t k = 0; k < topk; k++) {
    experts[k] = -1;
    weights[k] = 0;
  }
  for (uint32_t k = 0; k < topk; k++)
    if (here(walk, source, token, k)) {
      uint32_t to = walk->way->keep_places ? k : first++;
      experts[to] = (int32_t)local_of(walk, source, token, k);
      weights[to] = world_weight(walk->world, walk->shape->op, source, token, k);
    }
  if (memcmp(recv->local_expert + (size_t)at * topk, experts, topk * sizeof *experts) != 0 ||
      memcmp(recv->weights + (size_t)at * topk, weights, topk * sizeof *weights) != 0)
    return world_wrong(walk->what, "row %u has not the experts or weights of rank %d's token %u", at, source, token);
  return true;
}

static bool check_ranks(struct walk *walk) {
  const struct world *world = walk->world;
  uint32_t at = 0;
  for (uint32_t r = 0; r < world->num_ranks; r++) {
    uint32_t begin = at;
    for (uint32_t t = 0; t < world_tokens(world, walk->shape->op, world->ranks[r]); t++) {
      bool any = false;
      for (uint32_t k = 0; k < walk->shape->topk; k++)
        any |= here(walk, world->ranks[r], t, k);
      if (any && (!check_row(walk, 0, at, world->ranks[r], t) || !check_selections(walk, at++, world->ranks[r], t)))
        return false;
    }
    if (!check_range(walk, 0, world->ranks[r], begin, at))
      return false;
  }
  return true;
}

static bool check_all(struct walk *walk) {
  const struct weft_ep_info *info = walk->received->info;
  if (info->num_rows != walk->num_rows || info->rows_needed != walk->needed || info->num_lost != 0)
    return world_wrong(walk->what, "%u rows, %u needed, %u lost; should be %u, %u, 0", info->num_rows,
                       info->rows_needed, info->num_lost, walk->num_rows, walk->needed);
  if (walk->way->layout == WEFT_EP_RANK_MAJOR)
    return check_ranks(walk) && check_gaps(walk);
  for (uint32_t e = 0; e < walk->world->experts; e++)
    if (!check_expert(walk, e))
      return false;
  return (walk->way->layout != WEFT_EP_PACKED || check_slots(walk)) && check_gaps(walk);
}

bool world_judge_dispatch(const struct world *world, const struct shape *shape, const struct way *way, int32_t rank,
                          const struct world_received *received, char what[256]) {
  uint32_t counts[EP_MAX_EXPERTS], begins[EP_MAX_EXPERTS];
  struct walk walk = {.world = world,
                      .shape = shape,
                      .way = way,
                      .rank = rank,
                      .received = received,
                      .what = what,
                      .counts = counts,
                      .begins = begins};
  size_t selections = (size_t)world->num_ranks * world->tokens * shape->topk;
  count(&walk);
  walk.all_rows = received->recv->rows * (way->layout == WEFT_EP_PER_EXPERT ? world->experts : 1);
  walk.places = malloc(selections * sizeof *walk.places);
  walk.taken = calloc(walk.all_rows + 1, 1);
  bool ok = walk.places && walk.taken;
  if (ok)
    memset(walk.places, 0xFF, selections * sizeof *walk.places);
  ok = ok ? check_all(&walk) : world_wrong(what, "no memory to judge with");
  free(walk.places);
  free(walk.taken);
  return ok;
}
