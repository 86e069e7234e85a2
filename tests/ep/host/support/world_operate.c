// An operation of a world (world.h): this rank sends, receives in its own way, checks, answers, and checks the answers
// that it receives.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"

#include "ep/host/support/world.h"

enum { POISON = 0xA5, SPARE = 3 };

// What a rank has for one operation. Buffers have their exact sizes, for the sanitizer.
struct buffers {
  uint8_t *x, *received;
  uint32_t *x_scales, *scales;
  int64_t *topk_idx, *range;
  float *weights, *recv_weights, *row_weights, *out_weights;
  int32_t *counts, *src_rank, *src_token, *local_expert, *slot, *expert_end;
  uint16_t *y, *out, *bias[2];
  const void **rows_at;
  void **answers_at;
};
enum { NUM_BUFFERS = sizeof(struct buffers) / sizeof(void *) };

static void *poisoned(size_t count, size_t size) {
  void *memory = malloc(count * size + 1);
  assert_non_null(memory);
  memset(memory, POISON, count * size + 1);
  return memory;
}

struct turn {
  struct rank *rank;
  const struct world *world;
  struct shape shape;
  struct way way;
  uint32_t tokens, all_rows;
  struct buffers b;
  struct weft_ep_dispatch_args dispatch;
  struct weft_ep_recv_args recv;
  struct weft_ep_info info;
  uint64_t op;
};

static void fill_tokens(struct turn *turn) {
  const struct world *world = turn->world;
  const struct shape *shape = &turn->shape;
  struct buffers *b = &turn->b;
  struct weft_ep_dispatch_args *args = &turn->dispatch;
  uint32_t topk = shape->topk, words = shape->scale_bytes / 4;
  bool fp8 = shape->dtype != WEFT_EP_BF16 && shape->dtype != WEFT_EP_OPAQUE, cast = !fp8 || turn->way.cast_before;
  size_t row_bytes = cast ? shape->row_bytes : 2 * (size_t)world->hidden, gap = turn->way.columns ? 16 : 0;
  b->x = poisoned(turn->tokens, row_bytes + gap);
  b->x_scales = poisoned((size_t)(turn->tokens + SPARE) * words, sizeof *b->x_scales);
  b->topk_idx = poisoned((size_t)turn->tokens * topk, sizeof *b->topk_idx);
  b->weights = poisoned((size_t)turn->tokens * topk, sizeof *b->weights);
  uint8_t *values = poisoned(1, shape->row_bytes);
  uint32_t *scales = poisoned(words, sizeof *scales);
  for (uint32_t t = 0; t < turn->tokens; t++) {
    uint8_t *to = b->x + t * (row_bytes + gap);
    if (!cast)
      world_row_before(world, shape->op, turn->rank->index, t, (uint16_t *)to);
    world_row(world, shape, turn->rank->index, t, cast ? to : values, scales);
    for (uint32_t i = 0; i < words; i++)
      b->x_scales[turn->way.columns ? i * (turn->tokens + SPARE) + t : t * words + i] = scales[i];
    for (uint32_t k = 0; k < topk; k++) {
      b->topk_idx[t * topk + k] = world_expert(world, shape->op, turn->rank->index, t, k);
      b->weights[t * topk + k] = world_weight(world, shape->op, turn->rank->index, t, k);
    }
  }
  free(values);
  free(scales);
  bool has_scales = words > 0 && cast;
  *args = (struct weft_ep_dispatch_args){.size = sizeof *args,
                                         .x = b->x,
                                         .scales = has_scales ? b->x_scales : NULL,
                                         .topk_idx = b->topk_idx,
                                         .topk_weights = shape->late ? NULL : b->weights,
                                         .row_stride = gap ? row_bytes + gap : 0,
                                         .num_tokens = turn->tokens,
                                         .topk = topk,
                                         .dtype = shape->dtype};
  if (shape->dtype == WEFT_EP_OPAQUE) {
    args->row_bytes = shape->row_bytes;
    args->scale_bytes = shape->scale_bytes;
  }
  if (has_scales && turn->way.columns) {
    args->scale_row_stride = 1;
    args->scale_block_stride = turn->tokens + SPARE;
  }
}

static void make_room(struct turn *turn) {
  const struct world *world = turn->world;
  const struct shape *shape = &turn->shape;
  const struct way *way = &turn->way;
  struct buffers *b = &turn->b;
  struct weft_ep_recv_args *recv = &turn->recv;
  bool packed = way->layout == WEFT_EP_PACKED, by_rank = way->layout == WEFT_EP_RANK_MAJOR;
  uint32_t rows = world_needed(world, shape, way, turn->rank->index) + way->spare_rows, words = shape->scale_bytes / 4;
  uint32_t parts = packed || by_rank ? 1 : world->experts;
  turn->all_rows = rows * parts;
  size_t scale_words = way->columns ? (size_t)parts * (rows + SPARE) * words : (size_t)turn->all_rows * words;
  b->received = poisoned(turn->all_rows, shape->row_bytes);
  b->scales = poisoned(scale_words, sizeof *b->scales);
  b->counts = poisoned(world->experts, sizeof *b->counts);
  b->src_rank = poisoned(turn->all_rows, sizeof *b->src_rank);
  b->src_token = poisoned(turn->all_rows, sizeof *b->src_token);
  b->range = poisoned((size_t)world->capacity * (by_rank ? 1 : world->experts), sizeof *b->range);
  b->local_expert = poisoned((size_t)turn->all_rows * shape->topk, sizeof *b->local_expert);
  b->recv_weights = poisoned((size_t)turn->all_rows * shape->topk, sizeof *b->recv_weights);
  b->slot = poisoned((size_t)turn->all_rows * shape->topk, sizeof *b->slot);
  b->expert_end = poisoned(world->experts, sizeof *b->expert_end);
  b->rows_at = poisoned(turn->all_rows, sizeof *b->rows_at);
  *recv = (struct weft_ep_recv_args){.size = sizeof *recv,
                                     .x = way->in_place ? NULL : b->received,
                                     .scales = words > 0 && !way->in_place ? b->scales : NULL,
                                     .counts = b->counts,
                                     .src_rank = b->src_rank,
                                     .src_token = b->src_token,
                                     .range = b->range,
                                     .rows_at = way->in_place ? b->rows_at : NULL,
                                     .layout = way->layout,
                                     .rows = rows};
  if (recv->scales && way->columns) {
    recv->scale_row_stride = 1;
    recv->scale_block_stride = rows + SPARE;
    recv->scale_expert_stride = packed || by_rank ? 0 : (rows + SPARE) * words;
  }
  if (by_rank) {
    recv->local_expert = b->local_expert;
    recv->weights = shape->late ? NULL : b->recv_weights;
    recv->flags = way->keep_places ? WEFT_EP_RECV_KEEP_PLACES : 0;
  }
  if (packed) {
    recv->alignment = way->alignment;
    recv->flags = way->padding ? WEFT_EP_RECV_ZERO_PADDING : 0;
    recv->slot = b->slot;
    recv->expert_end = b->expert_end;
  }
}

// The call, made again for as long as it is interrupted.
#define UNTIL_DONE(call)                                                                                               \
  ({                                                                                                                   \
    int rc_;                                                                                                           \
    do                                                                                                                 \
      rc_ = (call);                                                                                                    \
    while (rc_ == WEFT_ERR_CANCELED);                                                                                  \
    rc_;                                                                                                               \
  })

static bool dispatch(struct turn *turn) {
  weft_ep_t *ep = turn->rank->ep;
  int rc;
  turn->info = (struct weft_ep_info)WEFT_EP_INFO_INIT;
  if (turn->way.apart) {
    rc = UNTIL_DONE(weft_ep_dispatch_send(ep, &turn->dispatch, &turn->op));
    memset(turn->b.x, POISON, 1);
    if (rc == 0)
      rc = UNTIL_DONE(weft_ep_dispatch_recv(ep, turn->op, &turn->recv, &turn->info));
  } else {
    rc = UNTIL_DONE(weft_ep_dispatch(ep, &turn->dispatch, &turn->recv, &turn->info, &turn->op));
  }
  if (rc != 0)
    return rank_fail(turn->rank, "dispatch: %s", weft_last_error());
  char what[256];
  struct world_received received = {&turn->recv, &turn->info, POISON};
  if (turn->op != turn->shape.op)
    return rank_fail(turn->rank, "operation %" PRIu64 " is not %" PRIu64, turn->op, turn->shape.op);
  if (!world_judge_dispatch(turn->world, &turn->shape, &turn->way, turn->rank->index, &received, what))
    return rank_fail(turn->rank, "layout %d, dtype %d, dispatch: %s", (int)turn->way.layout, (int)turn->shape.dtype,
                     what);
  return true;
}

static void fill_row(struct turn *turn, uint32_t row, int64_t expert) {
  uint32_t hidden = turn->world->hidden;
  int32_t source = turn->b.src_rank[row], token = turn->b.src_token[row];
  for (uint32_t i = 0; i < hidden; i++) {
    float value = turn->way.layout == WEFT_EP_RANK_MAJOR
                      ? world_rank_output(turn->world, turn->op, turn->rank->index, source, (uint32_t)token, i)
                      : world_output(turn->world, turn->op, expert, source, (uint32_t)token, i);
    turn->b.y[(size_t)row * hidden + i] = world_bf16(value);
  }
}

static void run_experts(struct turn *turn) {
  turn->b.y = poisoned((size_t)turn->all_rows * turn->world->hidden, sizeof *turn->b.y);
  if (turn->way.layout == WEFT_EP_RANK_MAJOR)
    for (uint32_t row = 0; row < turn->info.num_rows; row++)
      fill_row(turn, row, -1);
  else
    for (uint32_t e = 0; e < turn->world->experts; e++) {
      uint32_t count = (uint32_t)turn->b.counts[e];
      uint32_t begin =
          turn->way.layout == WEFT_EP_PACKED ? (uint32_t)turn->b.expert_end[e] - count : e * turn->recv.rows;
      for (uint32_t i = 0; i < count; i++)
        fill_row(turn, begin + i, (int64_t)turn->rank->index * turn->world->experts + e);
    }
}

static void fill_extras(struct turn *turn, uint32_t round, struct weft_ep_combine_args *args) {
  const struct world *world = turn->world;
  uint32_t topk = turn->shape.topk;
  if (turn->way.layout == WEFT_EP_RANK_MAJOR && world_gives_weights(world, turn->op, round, turn->rank->index)) {
    for (uint32_t row = 0; row < turn->info.num_rows; row++)
      for (uint32_t k = 0; k < topk; k++)
        turn->b.row_weights[(size_t)row * topk + k] = world_row_weight(
            world, turn->op, round, turn->rank->index, turn->b.src_rank[row], (uint32_t)turn->b.src_token[row], k);
    args->row_weights = turn->b.row_weights;
  }
  for (uint32_t b = 0; b < 2; b++) {
    if (!(turn->way.biases >> b & 1))
      continue;
    for (uint32_t t = 0; t < turn->tokens; t++)
      for (uint32_t i = 0; i < world->hidden; i++)
        turn->b.bias[b][(size_t)t * world->hidden + i] =
            world_bf16(world_bias(world, turn->op, turn->rank->index, b, t, i));
    args->bias[b] = turn->b.bias[b];
  }
  args->out_weights = turn->way.wants_weights ? turn->b.out_weights : NULL;
  memset(turn->b.out, POISON, (size_t)turn->tokens * world->hidden * 2);
  memset(turn->b.out_weights, POISON, (size_t)turn->tokens * topk * sizeof(float));
}

static bool place_answers(struct turn *turn, struct weft_ep_combine_args *args) {
  size_t bytes = (size_t)turn->world->hidden * 2;
  args->y = NULL;
  if (UNTIL_DONE(weft_ep_combine_rows(turn->rank->ep, turn->op, turn->b.answers_at)) != 0)
    return rank_fail(turn->rank, "combine_rows: %s", weft_last_error());
  for (uint32_t row = 0; row < turn->info.num_rows; row++)
    memcpy(turn->b.answers_at[row], (const uint8_t *)turn->b.y + row * bytes, bytes);
  return true;
}

static bool combine_once(struct turn *turn, uint32_t round) {
  weft_ep_t *ep = turn->rank->ep;
  const struct way *way = &turn->way;
  struct weft_ep_result result = WEFT_EP_RESULT_INIT;
  struct weft_ep_combine_args args = {
      .size = sizeof args, .y = turn->b.y, .out = turn->b.out, .dtype = way->placed ? 0 : way->answers};
  args.topk_weights = turn->shape.late && !turn->shape.unweighted ? turn->b.weights : NULL;
  args.flags = (way->renormalize ? WEFT_EP_COMBINE_RENORMALIZE : 0) |
               (turn->shape.unweighted ? WEFT_EP_COMBINE_UNWEIGHTED : 0) |
               (round + 1 < turn->shape.combines ? WEFT_EP_COMBINE_KEEP : 0);
  fill_extras(turn, round, &args);
  if (way->placed && !place_answers(turn, &args))
    return false;
  int rc;
  if (way->apart) {
    rc = UNTIL_DONE(weft_ep_combine_send(ep, turn->op, &args));
    memset(turn->b.row_weights, 0xFF, (size_t)turn->info.num_rows * turn->shape.topk * sizeof(float)); // NaN
    if (rc == 0)
      rc = UNTIL_DONE(weft_ep_combine_recv(ep, turn->op, &args, &result));
  } else {
    rc = UNTIL_DONE(weft_ep_combine(ep, turn->op, &args, &result));
  }
  if (rc != 0)
    return rank_fail(turn->rank, "combine: %s", weft_last_error());
  char what[256];
  if (!world_judge_combine(turn->world, &turn->shape, way, round, turn->rank->index, turn->b.out, args.out_weights,
                           &result, what))
    return rank_fail(turn->rank, "layout %d, unweighted %d, late %d, combine %u: %s", (int)way->layout,
                     turn->shape.unweighted, turn->shape.late, round, what);
  return true;
}

static bool combine(struct turn *turn) {
  struct buffers *b = &turn->b;
  size_t values = (size_t)turn->tokens * turn->world->hidden;
  b->out = poisoned(values, sizeof *b->out);
  b->bias[0] = poisoned(values, sizeof *b->out);
  b->bias[1] = poisoned(values, sizeof *b->out);
  b->out_weights = poisoned((size_t)turn->tokens * turn->shape.topk, sizeof *b->out_weights);
  b->row_weights = poisoned((size_t)turn->info.num_rows * turn->shape.topk, sizeof *b->row_weights);
  b->answers_at = poisoned(turn->info.num_rows, sizeof *b->answers_at);
  for (uint32_t round = 0; round < turn->shape.combines; round++)
    if (!combine_once(turn, round))
      return false;
  return true;
}

static bool mask(struct turn *turn) {
  const struct world *world = turn->world;
  for (uint32_t r = 0; r < world->num_ranks; r++)
    if (weft_ep_mask_update(turn->rank->ep, world->ranks[r],
                            world_masks(world, turn->shape.op, turn->rank->index, world->ranks[r])) != 0)
      return rank_fail(turn->rank, "mask: %s", weft_last_error());
  return true;
}

bool world_operate(struct rank *rank, const struct world *world) {
  struct turn turn = {.rank = rank, .world = world};
  turn.shape = world_shape(world, weft_ep_next_op(rank->ep));
  turn.way = world_way(world, &turn.shape, rank->index);
  turn.tokens = world_tokens(world, turn.shape.op, rank->index);
  fill_tokens(&turn);
  make_room(&turn);
  bool ok = mask(&turn) && dispatch(&turn);
  if (ok) {
    run_experts(&turn);
    ok = combine(&turn);
  }
  void *memory[NUM_BUFFERS];
  memcpy(memory, &turn.b, sizeof memory);
  for (int i = 0; i < NUM_BUFFERS; i++)
    free(memory[i]);
  return ok;
}
