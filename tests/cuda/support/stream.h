// Windows of a group for throughput in plain memory, without GPUs: where rings and words lie in them, and the fields of
// a header as control writes them.
#ifndef TESTS_CUDA_STREAM_H
#define TESTS_CUDA_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/engine/flow_layout.h"
#include "cuda/relay/relay.h"

enum { TOKENS = 1500, TOPK = 4, EXPERTS = 3 };

struct stream {
  struct device_ep_options options;
  struct cuda_flow flow;
  struct cuda_layout control;
  uint64_t offset; // of the words, in a window
  size_t size;     // of a window
};

// `small`: rings as small as they can be, round which an operation goes.
void stream_make(struct stream *stream, uint32_t hidden, bool small);

// The relay of a rank, between two windows of its own, which are empty. stream_end() frees all three.
struct device_relay *stream_relay(const struct stream *stream, char **in, char **out);
void stream_end(struct device_relay *relay, char *in, char *out);

// A row of a channel, whose index is that of its words: answers stand behind rows.
char *stream_place(const struct stream *stream, char *window, uint32_t index, uint64_t position);
struct cuda_flow_word *stream_words(const struct stream *stream, char *window, uint32_t index);

// A field of an operation's header in `window`: CUDA_FIELD_FORM, say.
void stream_send(const struct stream *stream, char *window, uint64_t op, uint32_t field, uint32_t value);

#endif
