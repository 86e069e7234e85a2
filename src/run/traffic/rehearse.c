// Does in advance what is slow the first time: access to new pages of memory, copies to a GPU, and the loading of
// kernels.
#include <string.h>

#include "run/traffic/internal.h"

// Rows of a part of the receive buffer that an operation is likely to use, with some to spare: every token of every
// rank goes to K experts, which are spread evenly.
static uint32_t likely_rows(const struct traffic *t) {
  uint64_t rows = (uint64_t)t->config->num_tokens * t->config->topk * 5 / 4 / t->groups + 1;
  return rows < t->rows ? (uint32_t)rows : t->rows;
}

// Touches the rows by writing zeroes, which they contain already.
static int touch_rows(struct traffic *t, int index) {
  struct traffic_pair *pair = &t->pairs[index];
  size_t part = pair->size / t->groups;
  int err = 0;
  for (uint32_t g = 0; pair->place && g < t->groups && !err; g++) {
    size_t size = pair->is_large ? part / t->rows * likely_rows(t) : part;
    err = buffer_fill(t->home, (char *)pair->place + g * part, 0, size);
    if (!err && pair->host != pair->place)
      memset((char *)pair->host + g * part, 0, size);
  }
  return err;
}

int traffic_rehearse(struct traffic *t) {
  int err = 0;
  for (int i = 0; i < NUM_PAIRS && !err; i++)
    err = touch_rows(t, i);
  return err || !t->home->api ? err : traffic_gpu_rehearse(t);
}
