// Data that two ranks with CUDA memory on different hosts write into each other's areas, drawn from a seed. Each side
// can compute its own data and the other side's.
#ifndef TESTS_CUDA_RELAY_PLAN_H
#define TESTS_CUDA_RELAY_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/kernels/layout.h"

enum { TOKENS = 12, EXPERTS = 16 };

typedef uint32_t __attribute__((may_alias)) value;

struct plan {
  struct cuda_layout layout;
  struct cuda_forms forms;
  uint64_t first, ops, seed;
};

// A piece of the data, identified by its place.
enum item_kind { UNIT, LINE, VALUES };

struct item {
  size_t offset;
  uint32_t bytes; // CUDA_LINE at most
  enum item_kind kind;
};

// The caller provides room for the most items that there can be.
struct items {
  struct item *item;
  uint32_t count;
};

uint64_t plan_mix(uint64_t x);
// A number that belongs to (side, operation, what).
uint64_t plan_drawn(const struct plan *plan, uint32_t side, uint64_t op, uint64_t what);
// Where the operation's slot begins.
size_t plan_slot(const struct plan *plan, uint64_t op);

// Lists the items that the dispatch of `side` writes.
void plan_list_dispatch(const struct plan *plan, uint32_t side, uint64_t op, struct items *items);
// Lists the late weights of `side`: `all` units, or only those that the peer reads.
void plan_list_weights(const struct plan *plan, uint32_t side, uint64_t op, bool all, struct items *items);
// Lists the answers to the dispatch of `side`.
void plan_list_answers(const struct plan *plan, uint32_t side, uint64_t op, struct items *items);
// Computes the content of an item of `side`.
void plan_content(const struct plan *plan, uint32_t side, uint64_t op, const struct item *item, uint64_t words[16]);

#endif
