// The tokens, rows and answers of the ranks of a test, as numbers drawn from a seed. Each rank knows what all others
// send and how, so it knows its correct results without the oracle. Values are small whole or half numbers, whose sums
// bf16 represents exactly.
#ifndef TESTS_EP_HOST_WORLD_H
#define TESTS_EP_HOST_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/ep.h>

#include "ep/support/rank.h"

struct world {
  uint64_t seed;
  uint32_t capacity, tokens, hidden, topk, experts; // of the group; tokens and topk are upper limits
  enum weft_ep_dtype dtype;
  enum weft_ep_combine_dtype combine_dtype;
  uint32_t window;      // THROUGHPUT: rows that a window has room for; 0: LATENCY
  const int32_t *ranks; // ascending
  uint32_t num_ranks;
};

// What is equal on all ranks of an operation.
struct shape {
  uint64_t op;
  enum weft_ep_dtype dtype;
  uint32_t row_bytes, scale_bytes; // of a row as it travels
  uint32_t topk, combines;
  bool late, unweighted;
};

// What one rank has for itself in an operation.
struct way {
  enum weft_ep_layout layout;
  uint32_t alignment, spare_rows, biases;
  bool padding, in_place, apart, columns, keep_places, placed, renormalize, wants_weights, cast_before;
  enum weft_ep_combine_dtype answers; // bf16 or logfmt10
};

struct shape world_shape(const struct world *world, uint64_t op);
struct way world_way(const struct world *world, const struct shape *shape, int32_t rank);

uint32_t world_tokens(const struct world *world, uint64_t op, int32_t rank);
// -1, or an expert of any rank below the capacity.
int64_t world_expert(const struct world *world, uint64_t op, int32_t rank, uint32_t token, uint32_t k);
float world_weight(const struct world *world, uint64_t op, int32_t rank, uint32_t token, uint32_t k);
bool world_masks(const struct world *world, uint64_t op, int32_t source, int32_t rank);
// Whether a selection reaches the rank of its expert, which is `*rank`.
bool world_reaches(const struct world *world, uint64_t op, int32_t source, uint32_t token, uint32_t k, int32_t *rank);

// A token's row before a cast, bf16 [H], and as it is sent.
void world_row_before(const struct world *world, uint64_t op, int32_t rank, uint32_t token, uint16_t *x);
void world_row(const struct world *world, const struct shape *shape, int32_t rank, uint32_t token, uint8_t *values,
               uint32_t *scales);

// What an expert makes of a token of rank `source` in column i; and what a rank that receives RANK_MAJOR makes of it.
float world_output(const struct world *world, uint64_t op, int64_t expert, int32_t source, uint32_t token, uint32_t i);
float world_rank_output(const struct world *world, uint64_t op, int32_t rank, int32_t source, uint32_t token,
                        uint32_t i);
// Whether a rank that receives RANK_MAJOR returns weights in that combine; and these weights.
bool world_gives_weights(const struct world *world, uint64_t op, uint32_t round, int32_t rank);
float world_row_weight(const struct world *world, uint64_t op, uint32_t round, int32_t rank, int32_t source,
                       uint32_t token, uint32_t k);
float world_bias(const struct world *world, uint64_t op, int32_t rank, uint32_t which, uint32_t token, uint32_t i);

uint16_t world_bf16(float value); // of numbers that bf16 holds exactly
float world_value(uint16_t bits);

// Writes the judge's result into `what`, and returns false.
bool world_wrong(char what[256], const char *format, ...) __attribute__((format(printf, 2, 3)));

// --- world_judge_dispatch.c, world_judge_combine.c ---

// A rank's buffers of one operation; `poison` in every byte before it.
struct world_received {
  const struct weft_ep_recv_args *recv;
  const struct weft_ep_info *info;
  uint8_t poison;
};

// The room that the rank needs.
uint32_t world_needed(const struct world *world, const struct shape *shape, const struct way *way, int32_t rank);
// Judges what the rank received, and what it got back. False: `what` names the first error.
bool world_judge_dispatch(const struct world *world, const struct shape *shape, const struct way *way, int32_t rank,
                          const struct world_received *received, char what[256]);
bool world_judge_combine(const struct world *world, const struct shape *shape, const struct way *way, uint32_t round,
                         int32_t rank, const uint16_t *out, const float *out_weights,
                         const struct weft_ep_result *result, char what[256]);

// --- world_operate.c ---

// Runs and judges the next operation; repeats calls that are interrupted. False: rank->error gives the reason.
bool world_operate(struct rank *rank, const struct world *world);

#endif
