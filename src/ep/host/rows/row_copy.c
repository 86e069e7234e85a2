// How rows are copied into a peer's window. Ordinary stores fetch each line from the cache of the core that read it
// last. That is the fastest way if the two cores share a cache, and slower by a multiple if they do not. Stores past
// the caches cost the same wherever the peer runs. This rank cannot know where the peer runs, and the peer may move. So
// both ways are measured from time to time, on a few rows that are sent anyhow.
#include <string.h>

#include "base/time/clock.h"
#include "ep/host/host.h"
#include "ep/host/rows/rows.h"

enum {
  TRIAL_ROWS = 4,     // rows for each way
  LONGEST_PAUSE = 64, // sends between trials; after a change trials are frequent at first
  // Factor: the reader loses a part of what the writer saves past the caches, since it then reads from memory.
  WORTH = 2,
};

struct ep_writing ep_write_begin(struct ep_link *link, uint32_t rows) {
  struct ep_way *way = &link->way;
  struct ep_writing writing = {.way = way};
  if (rows < 2 * TRIAL_ROWS || link->path->shadow) // a shadow is read by this host at once
    return writing;
  writing.trial = way->until_trial == 0;
  way->until_trial = writing.trial ? way->pause : way->until_trial - 1;
  return writing;
}

// The trial is over. One trial may have been disturbed, so the way is changed only if two trials agree.
static void judge(struct ep_writing *writing) {
  struct ep_way *way = writing->way;
  bool stream = WORTH * writing->spent_ns[true] < writing->spent_ns[false];
  if (stream != way->stream && way->doubt)
    way->stream = stream;
  way->doubt = stream != way->stream;
  way->pause = way->doubt ? 0 : way->pause < LONGEST_PAUSE ? 2 * way->pause + 1 : LONGEST_PAUSE;
  way->until_trial = way->pause;
  writing->trial = false;
}

void ep_write_row(weft_ep_t *ep, struct ep_writing *writing, void *to, const void *from, size_t size) {
  if (!writing->trial) {
    (writing->way->stream ? ep->kernels->stream : ep->kernels->copy)(to, from, size);
    return;
  }
  bool stream = writing->row >= TRIAL_ROWS;
  uint64_t begin = clock_ns();
  (stream ? ep->kernels->stream : ep->kernels->copy)(to, from, size);
  writing->spent_ns[stream] += clock_ns() - begin;
  if (++writing->row == 2 * TRIAL_ROWS)
    judge(writing);
}

void ep_copy_scales(uint32_t *to, uint64_t to_block, const uint32_t *from, uint64_t from_block, uint32_t bytes) {
  if (to_block == 1 && from_block == 1) {
    memcpy(to, from, bytes);
    return;
  }
  for (uint32_t i = 0; i < bytes / sizeof *to; i++)
    to[i * to_block] = from[i * from_block];
}

const uint8_t *ep_op_keep_row(weft_ep_t *ep, struct ep_op *op, uint32_t token, const uint8_t *values,
                              const struct ep_scales *scales) {
  uint8_t *row = op->cast + token * ep->layout.row_stride;
  ep->kernels->copy(row, values, op->form.value_bytes);
  if (scales->words)
    ep_copy_scales((uint32_t *)(row + op->form.value_bytes), 1, scales->words + token * scales->row, scales->block,
                   op->form.scale_bytes);
  return row;
}
