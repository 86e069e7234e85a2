// Rows of the plug-in of the tests, in groups for throughput: through the streams of windows (cuda/throughput/flow.h),
// as kernels move them, but few, and by one channel.
#ifndef SUPPORT_FAKE_STREAM_H
#define SUPPORT_FAKE_STREAM_H

#include "cuda/throughput/flow.h"
#include "device/device.h"

// A link's streams, and what an end of it asks while it waits: true ends the wait.
struct fake_stream {
  const struct cuda_flow *flow;
  char *in, *out;
  bool (*is_over)(void *arg);
  void *arg;
};

// The form of rows, as headers tell it: they are of bf16.
uint32_t fake_stream_form(const struct cuda_flow *flow);
// Writes the rows of an operation of `rank`, once the peer has read those before. False: the wait ended first.
bool fake_stream_send(const struct fake_stream *stream, int32_t rank, uint64_t op);
// Reads those that the peer, whose rank that is, wrote. False: the wait ended first. *wrong: a row is another than it
// should be.
bool fake_stream_receive(const struct fake_stream *stream, int32_t rank, uint64_t op, bool *wrong);

#endif
