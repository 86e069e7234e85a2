// What a rank's kernels share, in device memory, so that a captured graph replays across operations and views.
#ifndef CUDA_STATE_H
#define CUDA_STATE_H

#include "cuda/layout.h"

struct cuda_member {
  char *in;       // area that it writes, in our memory
  char *out;      // area that we write, in its memory; our own rank's: the same as `in`
  uint64_t since; // first operation that counts it
  int32_t rank;
  uint32_t pad;
};

// What dispatch leaves for combine, for each operation in flight.
struct cuda_handle {
  int32_t *place;    // [R][M][K]: row of the caller's buffer that holds the selection, -1: not this rank's
  float *weight;     // [R][M][K]
  uint64_t *members; // [M]: which members have a row of this rank's token
  uint32_t *tokens;  // [R]: tokens of each member; 0: it was not heard
};

// The words that every kernel reads first, in one line.
struct cuda_counters {
  uint64_t sent, received, answered, combined; // operations so far: the number of the next one of each kind
  uint64_t lost;                               // members that did not come in time, by bit
  uint64_t timeout_ns;
  uint32_t count, self; // members of the view; which one is this rank
};

struct cuda_state {
  struct cuda_counters counters;
  uint64_t pad[8];
  uint64_t arrived; // blocks that have read the counters, in the kernel that runs
  uint64_t pad2[15];
  struct cuda_member members[CUDA_MAX_MEMBERS]; // of the view, ascending by rank
  struct cuda_handle handle[CUDA_DEPTH];
};

#endif
