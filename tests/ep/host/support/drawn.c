// The random groups, operations and ranks of random_throughput.c.
#include "ep/host/support/drawn.h"

#include <string.h>

#include "base/random.h"

static uint32_t draw(uint64_t *state, uint32_t low, uint32_t high) {
  return low + (uint32_t)(random_next(state) % (high - low + 1));
}

static bool one_in(uint64_t *state, uint32_t count) {
  return random_next(state) % count == 0;
}

// Rank indices, ascending, with gaps: the first are founders, and a founder more is a joiner.
static void draw_ranks(struct drawn_group *group, uint64_t *state) {
  int32_t ranks[DRAWN_CAPACITY];
  for (int32_t i = 0; i < DRAWN_CAPACITY; i++)
    ranks[i] = i;
  for (uint32_t i = DRAWN_CAPACITY; i > 1; i--) {
    uint32_t other = draw(state, 0, i - 1);
    int32_t rank = ranks[i - 1];
    ranks[i - 1] = ranks[other];
    ranks[other] = rank;
  }
  group->num_founders = draw(state, 1, DRAWN_FOUNDERS);
  group->num_joiners = one_in(state, 2) ? draw(state, 1, DRAWN_JOINERS) : 0;
  uint32_t count = 0;
  for (int32_t rank = 0; rank < DRAWN_CAPACITY; rank++) // ascending
    for (uint32_t i = 0; i < group->num_founders; i++)
      if (ranks[i] == rank)
        group->founders[count++] = rank;
  memcpy(group->joiners, ranks + group->num_founders, sizeof group->joiners);
}

// Windows for a few rows, for some, for all.
static uint64_t draw_window(uint64_t *state) {
  static const uint64_t sizes[] = {64 << 10, 96 << 10, 256 << 10, 1 << 20, 0};
  return sizes[draw(state, 0, 4)];
}

void drawn_group_draw(struct drawn_group *group, uint64_t *state, uint32_t features, enum weft_ep_mode mode) {
  bool large = mode == WEFT_EP_THROUGHPUT && one_in(state, 4);
  *group = (struct drawn_group){.features = features, .mode = mode, .victim = -1};
  group->window_bytes = mode == WEFT_EP_THROUGHPUT ? draw_window(state) : 0;
  group->dtype = one_in(state, 2) ? WEFT_EP_BF16 : (enum weft_ep_dtype)draw(state, WEFT_EP_BF16, WEFT_EP_FP8_UE8M0);
  group->combine_dtype = one_in(state, 4) ? WEFT_EP_COMBINE_LOGFMT10 : WEFT_EP_COMBINE_BF16;
  bool many = !large && one_in(state, 6);
  group->experts = many ? draw(state, 7, 40) : draw(state, 1, 6);
  group->topk = draw(state, 1, 8);
  group->tokens = large ? draw(state, 64, 300) : draw(state, 1, 40);
  group->hidden = (large || many ? 1 : draw(state, 1, 4)) * WEFT_EP_BLOCK;
  group->stay = draw(state, 1, 30);
  draw_ranks(group, state);
  group->pattern = (struct pattern){.seed = random_next(state),
                                    .num_tokens = group->tokens,
                                    .hidden = group->hidden,
                                    .topk = group->topk,
                                    .experts_per_rank = group->experts,
                                    .uneven = draw(state, 0, 3) > 0,
                                    .drop = (float)draw(state, 0, 4) / 8,
                                    .shape = (enum pattern_shape)draw(state, PATTERN_EVEN, PATTERN_ANY_SHAPE)};
}

static bool fits(enum weft_ep_dtype opened, enum weft_ep_dtype dtype) {
  return opened == WEFT_EP_BF16 || (dtype != WEFT_EP_BF16 && (opened != WEFT_EP_FP8_UE8M0 || dtype == opened));
}

// Opaque rows of any size that the rows of the group's type leave room for.
static void draw_opaque(const struct drawn_group *group, uint64_t *state, struct drawn_op *op) {
  uint32_t bytes = group->hidden * (group->dtype == WEFT_EP_BF16 ? 2 : 1);
  op->dtype = WEFT_EP_OPAQUE;
  op->row_bytes = 16 * draw(state, 1, bytes / 32);
  op->scale_bytes = 4 * draw(state, 0, bytes / 64);
}

static enum drawn_kind draw_kind(const struct drawn_group *group, uint64_t *state) {
  uint32_t drawn = draw(state, 0, 11);
  if (drawn == 0)
    return DRAWN_UNANSWERED;
  if (!(group->features & DRAWN_FILL) || drawn < 5)
    return DRAWN_PLAIN;
  if (drawn < 7 && group->features & DRAWN_KEPT)
    return DRAWN_KEEPS;
  if (drawn < 10 && group->features & DRAWN_BACK)
    return DRAWN_GOES_BACK;
  return DRAWN_FILLS;
}

struct drawn_op drawn_op_draw(const struct drawn_group *group, uint64_t number) {
  uint64_t state = random_mix(group->pattern.seed ^ number);
  struct drawn_op op = {.kind = draw_kind(group, &state)};
  do
    op.dtype = (enum weft_ep_dtype)draw(&state, WEFT_EP_BF16, WEFT_EP_FP8_UE8M0);
  while (!fits(group->dtype, op.dtype));
  if (group->features & DRAWN_OPAQUE && one_in(&state, 5))
    draw_opaque(group, &state, &op);
  op.combine_dtype = one_in(&state, 2) ? WEFT_EP_COMBINE_LOGFMT10 : group->combine_dtype;
  op.topk = draw(&state, 1, group->topk);
  op.unweighted = group->features & DRAWN_UNWEIGHTED && one_in(&state, 4);
  op.masks = one_in(&state, 4) && group->victim < 0;
  op.combines = one_in(&state, 4) ? draw(&state, 2, 3) : 1;
  return op;
}

struct drawn_own drawn_own_draw(const struct drawn_group *group, uint64_t number, int32_t rank) {
  static const uint32_t alignments[] = {0, 1, 2, 7, 8, 16};
  uint64_t state = random_mix(random_mix(group->pattern.seed + number) ^ (uint64_t)rank << 32);
  struct drawn_own own = {.layout = (enum weft_ep_layout)draw(&state, WEFT_EP_PER_EXPERT, WEFT_EP_RANK_MAJOR)};
  if (group->features & DRAWN_PACKED && one_in(&state, 3))
    own.layout = WEFT_EP_PACKED;
  bool packed = own.layout == WEFT_EP_PACKED, by_rank = own.layout == WEFT_EP_RANK_MAJOR;
  own.alignment = alignments[draw(&state, 0, 5)] * packed;
  own.zero_padding = packed && one_in(&state, 2);
  own.keeps_places = by_rank && one_in(&state, 2);
  own.by_column = one_in(&state, 3);
  own.short_of_room = one_in(&state, 8);
  own.apart = one_in(&state, 4);
  own.lists = one_in(&state, 2) || group->victim >= 0; // which show what came of it
  for (int i = 0; i < 2; i++)
    own.biased[i] = group->features & DRAWN_BIAS && one_in(&state, 4);
  own.renormalizes = one_in(&state, 2);
  own.gives_weights = group->features & DRAWN_ROW_WEIGHTS && one_in(&state, 2);
  own.wants_weights = group->features & DRAWN_ROW_WEIGHTS && one_in(&state, 2);
  return own;
}

bool drawn_masks(const struct drawn_group *group, uint64_t op, int32_t source, int32_t rank) {
  uint64_t drawn = random_mix(random_mix(group->pattern.seed ^ ~op) + (uint64_t)source);
  return random_mix(drawn + (uint64_t)rank) % 4 == 0;
}
