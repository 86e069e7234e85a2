// See world.h.
#include "ep/host/support/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/ep_limits.h"
#include "base/random.h"
#include "ep/oracle/oracle.h"

// What is drawn.
enum what { SHAPE, WAY, TOKENS, EXPERT, WEIGHT, MASKS, ROW, OUTPUT, GIVES, ROW_WEIGHT, BIAS };

static uint64_t mix(const struct world *world, enum what what, uint64_t op, uint64_t a, uint64_t b, uint64_t c) {
  uint64_t bits = random_mix(world->seed + what);
  bits = random_mix(bits ^ op);
  bits = random_mix(bits + a * 0x9E3779B97F4A7C15u);
  return random_mix(bits ^ (b << 32 | c));
}

static uint32_t draw(uint64_t *state, uint32_t low, uint32_t high) {
  return low + (uint32_t)(random_next(state) % (high - low + 1));
}

static uint32_t scale_bytes(const struct world *world, enum weft_ep_dtype dtype) {
  uint32_t blocks = world->hidden / WEFT_EP_BLOCK;
  return dtype == WEFT_EP_BF16 ? 0 : dtype == WEFT_EP_FP8_UE8M0 ? (blocks + 3) / 4 * 4 : blocks * 4;
}

struct shape world_shape(const struct world *world, uint64_t op) {
  uint64_t state = mix(world, SHAPE, op, 0, 0, 0);
  struct shape shape = {.op = op};
  uint32_t room = world->dtype == WEFT_EP_BF16 ? 2 * world->hidden : world->hidden + scale_bytes(world, world->dtype);
  do {
    shape.dtype = (enum weft_ep_dtype)draw(&state, WEFT_EP_BF16, WEFT_EP_OPAQUE);
    shape.row_bytes = shape.dtype == WEFT_EP_BF16 ? 2 * world->hidden : world->hidden;
    shape.scale_bytes = scale_bytes(world, shape.dtype);
    if (shape.dtype == WEFT_EP_OPAQUE) {
      shape.row_bytes = 16 * draw(&state, 1, room / 16);
      shape.scale_bytes = 4 * draw(&state, 0, (room - shape.row_bytes) / 4);
    }
  } while (shape.row_bytes + shape.scale_bytes > room);
  shape.topk = draw(&state, 1, world->topk);
  shape.combines = draw(&state, 1, 2);
  shape.late = draw(&state, 0, 3) == 0 && world->window == 0;
  shape.unweighted = draw(&state, 0, 2) == 0;
  return shape;
}

struct way world_way(const struct world *world, const struct shape *shape, int32_t rank) {
  uint64_t state = mix(world, WAY, shape->op, (uint64_t)rank, 0, 0);
  struct way way = {.layout = (enum weft_ep_layout)draw(&state, WEFT_EP_PER_EXPERT, WEFT_EP_PACKED)};
  if (shape->late && way.layout == WEFT_EP_RANK_MAJOR) // whose weights cannot be late
    way.layout = WEFT_EP_PACKED;
  way.alignment = draw(&state, 0, 2) == 0 ? 0 : draw(&state, 1, draw(&state, 0, 9) == 0 ? 256 : 9);
  way.spare_rows = draw(&state, 0, 1) ? 0 : draw(&state, 1, 7);
  way.biases = draw(&state, 0, 3); // a bit for each
  way.padding = draw(&state, 0, 1);
  way.in_place = draw(&state, 0, 3) == 0;
  way.apart = draw(&state, 0, 1);
  way.columns = draw(&state, 0, 1);
  way.keep_places = draw(&state, 0, 1);
  way.renormalize = draw(&state, 0, 1);
  way.wants_weights = draw(&state, 0, 2) > 0;
  way.cast_before = draw(&state, 0, 1);
  way.answers = world->combine_dtype;
  if (draw(&state, 0, 2) == 0)
    way.answers = WEFT_EP_COMBINE_LOGFMT10;
  if (world->window > 0 && world->window < world->tokens) // rows have to flow
    way.in_place = way.apart = false;
  bool can_be_placed = world->window == 0 || world->window >= world->tokens;
  way.placed =
      draw(&state, 0, 1) && can_be_placed && way.layout == WEFT_EP_RANK_MAJOR && way.answers == WEFT_EP_COMBINE_BF16;
  return way;
}

uint32_t world_tokens(const struct world *world, uint64_t op, int32_t rank) {
  uint64_t state = mix(world, TOKENS, op, (uint64_t)rank, 0, 0);
  return draw(&state, 0, 5) == 0 ? 0 : draw(&state, 0, world->tokens);
}

int64_t world_expert(const struct world *world, uint64_t op, int32_t rank, uint32_t token, uint32_t k) {
  uint64_t state = mix(world, EXPERT, op, (uint64_t)rank, token, k), of_op = mix(world, EXPERT, op, 0, 0, 0);
  uint32_t kind = draw(&state, 0, 9);
  if (kind == 0)
    return -1;
  if (draw(&of_op, 0, 9) == 0) // all tokens go to one expert
    return world->ranks[draw(&of_op, 0, world->num_ranks - 1)] * (int64_t)world->experts;
  if (kind == 1)
    return draw(&state, 0, world->capacity * world->experts - 1); // of a rank that may not be there
  int64_t owner = world->ranks[draw(&state, 0, world->num_ranks - 1)];
  return owner * world->experts + draw(&state, 0, world->experts - 1);
}

float world_weight(const struct world *world, uint64_t op, int32_t rank, uint32_t token, uint32_t k) {
  uint64_t state = mix(world, WEIGHT, op, (uint64_t)rank, token, k);
  return (float)draw(&state, 1, 4) / 2;
}

bool world_masks(const struct world *world, uint64_t op, int32_t source, int32_t rank) {
  uint64_t state = mix(world, MASKS, op, (uint64_t)source, (uint64_t)rank, 0);
  return op % 2 && draw(&state, 0, 4) == 0;
}

bool world_reaches(const struct world *world, uint64_t op, int32_t source, uint32_t token, uint32_t k, int32_t *rank) {
  int64_t expert = world_expert(world, op, source, token, k);
  *rank = expert < 0 ? -1 : (int32_t)(expert / world->experts);
  for (uint32_t i = 0; i < world->num_ranks; i++)
    if (world->ranks[i] == *rank)
      return !world_masks(world, op, source, *rank);
  return false;
}

void world_row_before(const struct world *world, uint64_t op, int32_t rank, uint32_t token, uint16_t *x) {
  uint64_t state = mix(world, ROW, op, (uint64_t)rank, token, 0);
  for (uint32_t i = 0; i < world->hidden; i++)
    x[i] = world_bf16((float)draw(&state, 0, 16) - 8);
}

void world_row(const struct world *world, const struct shape *shape, int32_t rank, uint32_t token, uint8_t *values,
               uint32_t *scales) {
  uint64_t state = mix(world, ROW, shape->op, (uint64_t)rank, token, 0);
  if (shape->dtype == WEFT_EP_OPAQUE) {
    for (uint32_t i = 0; i < shape->row_bytes; i++)
      values[i] = (uint8_t)random_next(&state);
    for (uint32_t i = 0; i < shape->scale_bytes / 4; i++)
      scales[i] = (uint32_t)random_next(&state);
    return;
  }
  uint16_t x[EP_MAX_HIDDEN];
  float unpacked[EP_MAX_HIDDEN / WEFT_EP_BLOCK];
  world_row_before(world, shape->op, rank, token, x);
  if (shape->dtype == WEFT_EP_BF16) {
    memcpy(values, x, shape->row_bytes);
    return;
  }
  oracle_cast(values, unpacked, x, world->hidden, shape->dtype);
  if (shape->dtype == WEFT_EP_FP8_UE8M0)
    oracle_pack_scales((uint8_t *)scales, unpacked, world->hidden);
  else
    memcpy(scales, unpacked, shape->scale_bytes);
}

static float output(const struct world *world, uint64_t op, uint64_t who, int32_t source, uint32_t token, uint32_t i) {
  uint64_t bits = mix(world, OUTPUT, op, who, (uint64_t)source, token);
  return (float)(random_mix(bits + i) % 5) - 2;
}

float world_output(const struct world *world, uint64_t op, int64_t expert, int32_t source, uint32_t token, uint32_t i) {
  return output(world, op, (uint64_t)expert, source, token, i);
}

float world_rank_output(const struct world *world, uint64_t op, int32_t rank, int32_t source, uint32_t token,
                        uint32_t i) {
  return output(world, op, UINT32_MAX + (uint64_t)rank, source, token, i);
}

bool world_gives_weights(const struct world *world, uint64_t op, uint32_t round, int32_t rank) {
  return mix(world, GIVES, op, (uint64_t)rank, round, 0) % 3 > 0;
}

float world_row_weight(const struct world *world, uint64_t op, uint32_t round, int32_t rank, int32_t source,
                       uint32_t token, uint32_t k) {
  uint64_t bits = mix(world, ROW_WEIGHT, op, (uint64_t)rank << 8 | round, (uint64_t)source << 16 | token, k);
  return (float)(bits % 10000) / 7;
}

float world_bias(const struct world *world, uint64_t op, int32_t rank, uint32_t which, uint32_t token, uint32_t i) {
  uint64_t bits = mix(world, BIAS, op, (uint64_t)rank << 1 | which, token, i);
  return (float)(bits % 17) - 8;
}

uint16_t world_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)(bits >> 16);
}

float world_value(uint16_t bits) {
  uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}

bool world_wrong(char what[256], const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(what, 256, format, args);
  va_end(args);
  return false;
}
