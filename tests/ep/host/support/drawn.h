// What random_throughput.c draws: groups, and what each operation and each rank of it does. All of it is a function of
// seeds, so that every rank knows what the others do, and can judge what it gets.
#ifndef TESTS_EP_HOST_DRAWN_H
#define TESTS_EP_HOST_DRAWN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/weft.h>

#include "ep/oracle/pattern.h"

enum {
  DRAWN_CAPACITY = 8,
  DRAWN_FOUNDERS = 4, // most founders of a group
  DRAWN_JOINERS = 2,  // most joiners of a group
};

// What an engine may refuse as UNSUPPORTED.
enum drawn_feature {
  DRAWN_PACKED = 1 << 0,
  DRAWN_OPAQUE = 1 << 1,
  DRAWN_BIAS = 1 << 2,
  DRAWN_UNWEIGHTED = 1 << 3,
  DRAWN_ROW_WEIGHTS = 1 << 4,
  DRAWN_FILL = 1 << 5, // a route, by a dispatch
  DRAWN_KEPT = 1 << 6, // a dispatch by a kept route
  DRAWN_BACK = 1 << 7, // a combine by one
  DRAWN_FEATURES = 8,
};

struct drawn_group {
  weft_store_t *store;
  uint32_t features; // DRAWN_*, that the engine has
  enum weft_ep_mode mode;
  uint64_t window_bytes;
  enum weft_ep_dtype dtype;                 // of the options of the group
  enum weft_ep_combine_dtype combine_dtype; // also of its options
  uint32_t experts, topk, tokens, hidden;
  uint32_t operations;    // at least so many, as the founders number them
  struct pattern pattern; // its topk is that of each operation
  int32_t founders[DRAWN_FOUNDERS], joiners[DRAWN_JOINERS];
  uint32_t num_founders, num_joiners;
  uint32_t stay;         // operations of a joiner
  int32_t victim;        // rank that dies; -1: none
  _Atomic uint32_t gone; // joiners that have left for good
};

enum drawn_kind {
  DRAWN_PLAIN,      // a dispatch and its combines
  DRAWN_FILLS,      // the same, and it fills the route
  DRAWN_KEEPS,      // the same by that route; where there is none, FILLS
  DRAWN_GOES_BACK,  // a combine by that route; where there is none, FILLS
  DRAWN_UNANSWERED, // a dispatch, and weft_ep_finish()
};

// What all ranks of an operation have alike.
struct drawn_op {
  enum drawn_kind kind;
  enum weft_ep_dtype dtype;
  uint32_t row_bytes, scale_bytes; // OPAQUE
  enum weft_ep_combine_dtype combine_dtype;
  uint32_t topk;
  bool unweighted, masks;
  uint32_t combines;
};

// What each rank has for itself.
struct drawn_own {
  enum weft_ep_layout layout;
  uint32_t alignment;
  bool zero_padding, keeps_places, by_column;
  bool short_of_room; // at first
  bool apart;         // by the four halves, where an operation fits into a piece
  bool lists;         // range, slot and expert_end are asked for
  bool biased[2], renormalizes, gives_weights, wants_weights;
};

void drawn_group_draw(struct drawn_group *group, uint64_t *state, uint32_t features, enum weft_ep_mode mode);
struct drawn_op drawn_op_draw(const struct drawn_group *group, uint64_t op);
struct drawn_own drawn_own_draw(const struct drawn_group *group, uint64_t op, int32_t rank);
bool drawn_masks(const struct drawn_group *group, uint64_t op, int32_t source, int32_t rank);

// The features that an engine of this mode has: DRAWN_*. False: it has not even the mode. Fails the test at errors
// other than UNSUPPORTED.
bool drawn_probe(enum weft_ep_mode mode, uint32_t *features);
const char *drawn_feature_name(uint32_t index);

#endif
