// What a relay sends at once: runs of bytes, each of one kind, behind which stand their bytes. For areas, and for the
// streams of groups for throughput (flow.c). No CUDA in it.
#ifndef CUDA_RELAY_BATCH_H
#define CUDA_RELAY_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/device.h"

enum cuda_run_kind {
  // Of an area (kernels/layout.h): of 8 bytes, two of them; of 16; of 128; 16.
  RUN_WORDS = 1,
  RUN_UNITS,
  RUN_LINES,
  RUN_VALUES,
  // Of a stream (throughput/flow.h): what lies in its rings, of 16 bytes; the words of channels, of 32.
  RUN_PLACES,
  RUN_CHANNELS,
  RUN_ELSEWHERE, // of what lies in its rings, where the reader finds it: struct cuda_elsewhere
};

struct cuda_run {
  uint32_t offset, bytes; // in the window
  uint32_t kind, pad;
};

// In the window of that number.
struct cuda_elsewhere {
  uint64_t window;
  uint32_t offset, bytes;
};

// What is being collected.
struct cuda_batch {
  char *bytes;
  size_t used, size;
  struct cuda_run *open;          // the last run, NULL: none
  struct device_moves *moves;     // rows go so; NULL: they go in the batch
  bool full;                      // rows had no room, here or in moves
  struct device_sharing *sharing; // NULL: no rows are shared
};

// Room for `bytes` more of that kind, at `offset` of the window; NULL: there is none.
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
