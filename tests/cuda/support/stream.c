// Windows of a group for throughput in plain memory.
#include "cuda/support/stream.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"

#include "cuda/relay/batch.h"

enum { PAGE = 4096 };

void stream_make(struct stream *stream, uint32_t hidden, bool small) {
  struct device_ep_options *options = &stream->options;
  struct cuda_forms forms;
  *options = (struct device_ep_options){.max_tokens = TOKENS,
                                        .hidden = hidden,
                                        .topk = TOPK,
                                        .experts_per_rank = EXPERTS,
                                        .dtype = CUDA_BF16,
                                        .combine_dtype = CUDA_COMBINE_BF16,
                                        .throughput = true,
                                        .window_bytes = UINT32_MAX};
  cuda_flow_of(options, &stream->flow, &stream->offset);
  if (small)
    options->window_bytes = stream->offset + cuda_flow_bytes_for(&stream->flow.rows, CUDA_LEAST_PLACES * CUDA_CHANNELS);
  cuda_area_of(options, &stream->control, &forms);
  cuda_flow_of(options, &stream->flow, &stream->offset);
  stream->size = stream->offset + stream->flow.bytes;
}

static char *make_window(const struct stream *stream) {
  char *window = aligned_alloc(PAGE, (stream->size + PAGE - 1) / PAGE * PAGE);
  assert_non_null(window);
  cuda_area_init(window, stream->size);
  return window;
}

struct device_relay *stream_relay(const struct stream *stream, char **in, char **out) {
  struct device_relay *relay = NULL;
  char why[DEVICE_WHY] = "";
  *in = make_window(stream);
  *out = make_window(stream);
  assert_int_equal(cuda_relay_open(&stream->options, *in, *out, &relay, why), 0);
  return relay;
}

void stream_end(struct device_relay *relay, char *in, char *out) {
  cuda_relay_close(relay);
  free(in);
  free(out);
}

char *stream_place(const struct stream *stream, char *window, uint32_t index, uint64_t position) {
  const struct cuda_ring *ring = index < CUDA_CHANNELS ? &stream->flow.rows : &stream->flow.answers;
  return window + stream->offset + ring->at +
         ((uint64_t)(index % CUDA_CHANNELS) * ring->places + position % ring->places) * ring->place;
}

struct cuda_flow_word *stream_words(const struct stream *stream, char *window, uint32_t index) {
  return (struct cuda_flow_word *)(window + stream->offset) + index;
}

// A unit has several fields, and the number of its operation. (control/control.h)
void stream_send(const struct stream *stream, char *window, uint64_t op, uint32_t field, uint32_t value) {
  uint32_t at = EXPERTS + field, each = CUDA_UNIT_COUNTS / 2;
  char *unit = window + sizeof(struct cuda_area_head) + op % CUDA_DEPTH * stream->control.slot +
               stream->control.counts + (size_t)(at / each) * sizeof(struct cuda_unit);
  uint64_t words[2] = {cuda_load_word(unit), cuda_load_word(unit + 8)};
  if ((uint32_t)(words[1] >> 32) != (uint32_t)op + 1)
    words[0] = 0, words[1] = (op + 1) << 32;
  memcpy((char *)words + at % each * sizeof value, &value, sizeof value);
  cuda_store_word(unit, words[0]);
  cuda_store_word(unit + 8, words[1]);
}
