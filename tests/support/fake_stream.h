// Rows of the fake plug-in, in groups for throughput. They pass through the streams of windows
// (cuda/throughput/flow.h), as with kernels, but they are few and use one channel.
#ifndef SUPPORT_FAKE_STREAM_H
#define SUPPORT_FAKE_STREAM_H

#include "cuda/throughput/flow.h"
#include "device/device.h"

// The streams of a link. An end that waits calls is_over(); true ends the wait.
struct fake_stream {
  const struct cuda_flow *flow;
  char *in, *out;
  bool (*is_over)(void *arg);
  void *arg;
};

// The form of rows for headers: rows are of bf16.
uint32_t fake_stream_form(const struct cuda_flow *flow);
// Writes the rows of an operation of `rank`, after the peer has read the earlier rows. False: the wait ended first.
bool fake_stream_send(const struct fake_stream *stream, int32_t rank, uint64_t op);
// Reads the rows that the peer with this rank wrote. False: the wait ended first. *wrong: a row is not as it should be.
bool fake_stream_receive(const struct fake_stream *stream, int32_t rank, uint64_t op, bool *wrong);

#endif
