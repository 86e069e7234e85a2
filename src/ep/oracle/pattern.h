// Test data as a function of (seed, operation, rank): every rank can make every other rank's input again, and judge its own
// output without being told anything.
#ifndef EP_PATTERN_H
#define EP_PATTERN_H

#include <stdint.h>

#include <weft/ep.h>

enum pattern_kind {
  PATTERN_CONSTANT, // the field's elastic test: row = rank - 128, its last 128 columns the token's index (bf16-exact: modulo
                    // 256); the expert is the identity
  PATTERN_SCALED,   // random rows; expert e multiplies by pattern_expert_factor(e)
  PATTERN_PLAIN,    // random rows; the expert is the identity
};

struct pattern {
  uint64_t seed;
  uint32_t num_tokens; // largest; PATTERN_CONSTANT and uneven = false: always so many
  uint32_t hidden, topk, experts_per_rank;
  bool uneven;         // tokens per rank vary from 0 to num_tokens by (operation, rank)
  float drop;          // share of top-k entries that are -1
};

// Operation number -> kind: of 8 operations in a row one is CONSTANT and one is SCALED.
enum pattern_kind pattern_kind_of(uint64_t op);

// What `rank` dispatches in operation `op` of a view with these active ranks (ascending): x bf16 [T][H], topk_idx [T][K] with
// distinct experts of active ranks (as many as there are, then -1) and some -1, weights [T][K] positive. Returns T.
uint32_t pattern_fill(const struct pattern *pattern, uint64_t op, int32_t rank, const int32_t *active, uint32_t num_active,
                      uint16_t *x, int64_t *topk_idx, float *weights);

// Between 0.5 and 2, different for each expert, exact in bf16.
double pattern_expert_factor(int64_t expert);

// The expert of the operation's kind, as the oracle wants it; `arg` points to the enum pattern_kind.
void pattern_expert(void *arg, int64_t expert, const double *row, uint32_t hidden, double *out);

#endif
