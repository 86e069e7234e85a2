// Test data as a function of (seed, operation, rank): every rank can compute every other rank's input, and so judge its
// own output without communication. [any] thread. Only integers and exact conversions: the same bits everywhere.
#ifndef EP_ORACLE_PATTERN_H
#define EP_ORACLE_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/ep.h>

enum pattern_kind {
  PATTERN_CONSTANT, // the field's elastic test: row = rank - 128, its last 128 columns = the token's index (both modulo
                    // 256, so they are exact in bf16); the expert is the identity
  PATTERN_SCALED,   // random rows; expert e multiplies by pattern_expert_factor(e)
  PATTERN_PLAIN,    // random rows; the expert is the identity
};

// To which experts the tokens of an operation go, and which ranks have tokens.
enum pattern_shape {
  PATTERN_EVEN,        // all experts of active ranks are nearly equally likely
  PATTERN_HOT,         // three of four tokens select one expert, the same on all ranks, besides other experts
  PATTERN_ONE_EXPERT,  // every token selects only that expert, at any place of its top-k
  PATTERN_FEW_RANKS,   // the tokens of a rank go to one or two ranks, drawn for each rank
  PATTERN_EMPTY_RANKS, // about every second rank has no tokens
  PATTERN_ANY_SHAPE,   // one of these, drawn for each operation
};

struct pattern {
  uint64_t seed;
  uint32_t num_tokens; // the largest number; with PATTERN_CONSTANT, or without `uneven`, always so many, or none if the
                       // shape says so
  uint32_t hidden, topk, experts_per_rank;
  bool uneven; // tokens per rank vary from 0 to num_tokens by (operation, rank)
  float drop;  // share of top-k entries that are -1, 0 to 1
  // Random rows. 0: new rows in each operation. Else each rank has so many rows, at least num_tokens, and an operation
  // uses a run of them, so rows can be made before its number is known.
  uint32_t pool;
  enum pattern_shape shape;
};

// The kind of operation `op`: of any 8 successive operations one is CONSTANT, one is SCALED, and the others are PLAIN.
enum pattern_kind pattern_kind_of(uint64_t op);

// The shape of one operation, never PATTERN_ANY_SHAPE.
enum pattern_shape pattern_shape_of(const struct pattern *pattern, uint64_t op);
// The expert that HOT and ONE_EXPERT select.
int64_t pattern_hot_expert(const struct pattern *pattern, uint64_t op, const int32_t *active, uint32_t num_active);

// How many tokens `rank` dispatches in operation `op`, as pattern_fill() returns it.
uint32_t pattern_tokens(const struct pattern *pattern, uint64_t op, int32_t rank);

// What `rank` dispatches in operation `op` of a view with these active ranks (ascending, at least one): x bf16 [T][H],
// topk_idx [T][K], weights [T][K]. Returns T. x may be NULL: see pattern_row(). Callers may rely on this:
// - x depends on (seed, op, rank, token, hidden, pool) only, the routing on the active ranks too.
// - Random x are finite and below 64. Every 128 values have a magnitude of their own, so that neighbouring fp8 scales
//   differ, and no two tokens of an operation have the same row.
// - The experts of a token are distinct and belong to active ranks, as the shape says. If there are fewer than K, and
//   the shape is not ONE_EXPERT, all stand in front and -1 behind, as far as HOT and `drop` leave them.
// - Weights lie between 1/8 and 1, those of -1 entries too.
uint32_t pattern_fill(const struct pattern *pattern, uint64_t op, int32_t rank, const int32_t *active,
                      uint32_t num_active, uint16_t *x, int64_t *topk_idx, float *weights);

// The row of one token, as pattern_fill() makes it.
void pattern_row(const struct pattern *pattern, uint64_t op, int32_t rank, uint32_t token, uint16_t *row);

// With a pool: pattern_pool_fill() makes rows `first` to first + count - 1 of a rank, wrapping around after the last
// one, in x[count][H]. pattern_pool_start() returns the index of the row of token 0 in operation `op`; token 1 has the
// next row, and so on.
void pattern_pool_fill(const struct pattern *pattern, int32_t rank, uint32_t first, uint32_t count, uint16_t *x);
uint32_t pattern_pool_start(const struct pattern *pattern, uint64_t op, int32_t rank);

// What `rank` adds to the results of operation `op`, bf16 [T][H], finite and below 64: `which` is 0 or 1.
void pattern_bias(const struct pattern *pattern, uint64_t op, int32_t rank, uint32_t which, uint32_t num_tokens,
                  uint16_t *bias);

// The weight that `holder` sends back for selection `k` of a token of `source`: not 0, between -1 and 1.
float pattern_row_weight(const struct pattern *pattern, uint64_t op, int32_t holder, int32_t source, uint32_t token,
                         uint32_t k);

// Opaque bytes of a token, and its scales: any bits.
void pattern_payload(const struct pattern *pattern, uint64_t op, int32_t rank, uint32_t token, uint32_t row_bytes,
                     uint32_t scale_bytes, uint8_t *row, uint8_t *scales);

// At least 0.5, below 2, exact in bf16; different for any two experts less than 256 apart.
double pattern_expert_factor(int64_t expert);

// The expert of the operation's kind, as an oracle_expert_fn; `arg` points to the enum pattern_kind.
void pattern_expert(void *arg, int64_t expert, const double *row, uint32_t hidden, double *out);

#endif
