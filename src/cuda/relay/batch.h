// A batch, which a relay sends as a whole: runs, each of one kind and followed by its bytes. For areas, and for the
// streams of groups for throughput (flow.c). It uses no CUDA.
#ifndef CUDA_RELAY_BATCH_H
#define CUDA_RELAY_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/device.h"

enum cuda_run_kind {
  // Of an area (kernels/layout.h). Sizes of the elements: two words of 8 bytes; 16 bytes; 128; 16.
  RUN_WORDS = 1,
  RUN_UNITS,
  RUN_LINES,
  RUN_VALUES,
  // Of a stream (throughput/flow.h): contents of its rings, 16 bytes each; words of channels, 32 bytes each.
  RUN_PLACES,
  RUN_CHANNELS,
  RUN_ELSEWHERE, // for contents of its rings: the place where the reader finds them, struct cuda_elsewhere
};

struct cuda_run {
  uint32_t offset, bytes; // in the window
  uint32_t kind, pad;
};

// A place in the window with this number.
struct cuda_elsewhere {
  uint64_t window;
  uint32_t offset, bytes;
};

// A batch that is being collected.
struct cuda_batch {
  char *bytes;
  size_t used, size;
  struct cuda_run *open;          // the last run, NULL: none
  struct device_moves *moves;     // rows are sent as moves; NULL: rows are in the batch
  bool full;                      // there was no room for rows, in the batch or in `moves`
  struct device_sharing *sharing; // NULL: no rows are shared
};

// Returns room for `bytes` more of that kind, at `offset` of the window; NULL: there is no room.
static inline char *cuda_batch_room(struct cuda_batch *batch, enum cuda_run_kind kind, size_t offset, uint32_t bytes) {
  struct cuda_run *open = batch->open;
  bool goes_on = open && open->kind == (uint32_t)kind && (size_t)open->offset + open->bytes == offset;
  if (batch->used + (goes_on ? 0 : sizeof *open) + bytes > batch->size)
    return NULL;
  if (!goes_on) {
    open = batch->open = (struct cuda_run *)(batch->bytes + batch->used);
    *open = (struct cuda_run){.offset = (uint32_t)offset, .kind = kind};
    batch->used += sizeof *open;
  }
  char *room = batch->bytes + batch->used;
  open->bytes += bytes;
  batch->used += bytes;
  return room;
}

// --- words that kernels share ---

typedef uint64_t __attribute__((may_alias)) cuda_word;

static inline uint64_t cuda_load_word(const void *from) {
  return __atomic_load_n((const cuda_word *)from, __ATOMIC_ACQUIRE);
}

static inline void cuda_store_word(void *to, uint64_t value) {
  __atomic_store_n((cuda_word *)to, value, __ATOMIC_RELEASE);
}

#endif
