// For bench_ep_relay: one thread does in the windows of a sending rank and of reading ranks what kernels would do
// there.
#ifndef BENCH_EP_RELAY_STREAM_H
#define BENCH_EP_RELAY_STREAM_H

#include <stdint.h>

#include "cuda/engine/flow_layout.h"
#include "device/device.h"

enum { STREAM_READERS = 2 }; // at most

struct relay_stream {
  struct cuda_flow flow;
  struct cuda_layout control;
  uint64_t offset; // in a window
  uint32_t readers;
  struct {
    char *out, *in; // the sender's window for the reader's rows, and the reader's
    char *back_in, *back_out;
    uint64_t read[CUDA_CHANNELS]; // rows
  } to[STREAM_READERS];
  uint64_t sent[CUDA_CHANNELS]; // rows, to each reader
};

// Initialises it for a group with these options, in which all tokens go to each reader. The caller sets `to`.
void relay_stream_init(struct relay_stream *stream, const struct device_ep_options *options, uint32_t readers);
// For `ms` milliseconds advances the tails of rows that are already in place, and gives credit for rows that have
// arrived; returns the number of arrived rows. 0: none arrived for `wait_limit_ms`.
uint64_t relay_stream_run(struct relay_stream *stream, uint32_t ms, uint32_t wait_limit_ms, uint64_t *ns);

#endif
