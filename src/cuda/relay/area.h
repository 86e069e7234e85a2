// The state of a relay for an area: how much of each operation it has collected from our window, and which answers the
// peer's operations will require. For relay.c, collect.c and deliver.c.
#ifndef CUDA_RELAY_AREA_H
#define CUDA_RELAY_AREA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cuda/relay/batch.h"
#include "cuda/relay/flow.h"

enum { CUDA_RELAY_UNIT = sizeof(struct cuda_unit) };

// Rows before `row` have been collected, and of row `row` everything before piece `piece`: a line of routing, or a
// piece of values.
struct cuda_relay_front {
  uint32_t row, piece;
};

// A dispatch of ours in a slot.
struct cuda_relay_outgoing {
  bool begun; // there has been a dispatch
  bool sent;  // the whole dispatch has been sent, including the header
  uint64_t header[2];
  uint32_t flag;  // of its header
  uint32_t rows;  // rows of the dispatch
  bool late;      // weights follow with the combine
  uint32_t units; // units of its mark and counts that have been collected
  struct cuda_relay_front routing, values, scales;
  uint32_t *token;   // [M] token of each row whose routing has been collected
  uint32_t *weights; // [M * K/3] numbers of the units of late weights that the peer reads
  uint32_t num_weights, next_weights;
};

// A dispatch of the peer's, which our kernels answer.
struct cuda_relay_incoming {
  uint32_t flag, rows; // rows: number of rows whose routing is known
  uint32_t *token;     // [M] token of each row
  struct cuda_relay_front answers;
};

struct device_relay {
  struct cuda_flow_relay flow; // must be the first member: cuda_relay_flow()
  struct cuda_layout layout;
  struct cuda_forms forms;
  char *in;
  char *out;
  uint64_t taken[2], start[2], waiting, awaits; // words of the head, as last sent
  struct cuda_relay_outgoing outgoing[CUDA_DEPTH];
  struct cuda_relay_incoming incoming[CUDA_DEPTH];
  bool flows; // the group is for throughput and uses `flow`
};

_Static_assert(offsetof(struct device_relay, flow) == 0, "as cuda_relay_flow() takes it");

static inline int cuda_relay_fail(char *why, int rc, const char *what) {
  snprintf(why, DEVICE_WHY, "%s", what);
  return rc;
}

// The offset of a slot in a window.
static inline size_t cuda_relay_slot_at(const struct device_relay *relay, uint32_t slot) {
  return sizeof(struct cuda_area_head) + (size_t)slot * relay->layout.slot;
}

// The token that a routing line names; 0: none. A row of several lines may have it in any of them.
static inline uint32_t cuda_relay_token_of(const struct device_relay *relay, const char *line) {
  uint32_t found = 0;
  for (uint32_t i = 0; i < CUDA_LINE_SELECTIONS; i++) {
    uint32_t word;
    memcpy(&word, line + i * 8, sizeof word);
    uint32_t token = word & CUDA_SELECTION_VALID ? word >> CUDA_SELECTION_TOKEN & 0x3FF : 0;
    found = token > found && token < relay->layout.max_tokens ? token : found;
  }
  return found;
}

// Stores the token that line `index` of a row's routing names, if it names one.
static inline void cuda_relay_record_token(const struct device_relay *relay, uint32_t *token, uint32_t index,
                                           const char *line) {
  uint32_t found = cuda_relay_token_of(relay, line);
  *token = index == 0 || found > *token ? found : *token;
}

#endif
