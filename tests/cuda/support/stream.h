// Windows of a group for throughput in plain memory, without GPUs: the places of rings and words in a window, and the
// fields of a header as control writes them.
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

// `small`: rings have the smallest possible size, so that one operation wraps around them.
void stream_make(struct stream *stream, uint32_t hidden, bool small);

// Opens the relay of a rank with two new, empty windows. stream_end() frees all three.
struct device_relay *stream_relay(const struct stream *stream, char **in, char **out);
void stream_end(struct device_relay *relay, char *in, char *out);

// The place of a row or an answer. `index` is the index of its channel's words: the words of rows precede those of
// answers.
char *stream_place(const struct stream *stream, char *window, uint32_t index, uint64_t position);
struct cuda_flow_word *stream_words(const struct stream *stream, char *window, uint32_t index);

// Writes a field of an operation's header into `window`, for instance CUDA_FIELD_FORM.
void stream_send(const struct stream *stream, char *window, uint64_t op, uint32_t field, uint32_t value);

#endif
