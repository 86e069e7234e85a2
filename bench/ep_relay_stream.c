// Writes tails, credits and headers of operations that fill all channels, one operation after the other.
#include "ep_relay_stream.h"

#include <string.h>

#include "base/time/clock.h"
#include "cuda/relay/batch.h"

static struct cuda_flow_word *word_of(const struct relay_stream *stream, char *window, uint32_t channel) {
  return &((struct cuda_flow_head *)(window + stream->offset))->rows[channel];
}

static uint64_t position_of(const struct relay_stream *stream, uint64_t rows) {
  uint64_t each = stream->flow.list - 1;
  return rows / each * stream->flow.list + rows % each;
}

// Writes the header of an operation, from which the relay knows how much of a place is used.
static void send_header(const struct relay_stream *stream, char *out, uint64_t op) {
  uint32_t values[CUDA_FIELDS] = {0}, each = CUDA_UNIT_COUNTS / 2, experts = stream->flow.experts;
  values[CUDA_FIELD_FORM] = cuda_flow_form(CUDA_BF16, stream->flow.topk, 2 * stream->flow.hidden);
  char *units = out + sizeof(struct cuda_area_head) + op % CUDA_DEPTH * stream->control.slot + stream->control.counts;
  for (uint32_t first = 0; first < experts + CUDA_FIELDS; first += each) {
    uint32_t words[4] = {0, 0, 0, (uint32_t)op + 1};
    for (uint32_t i = 0; i < each; i++)
      words[i] = first + i >= experts && first + i < experts + CUDA_FIELDS ? values[first + i - experts] : 0;
    uint64_t halves[2];
    memcpy(halves, words, sizeof halves);
    cuda_store_word(units + first / each * sizeof words, halves[0]);
    cuda_store_word(units + first / each * sizeof words + 8, halves[1]);
  }
}

static void name_token(const struct relay_stream *stream, char *out, uint32_t channel, uint64_t position) {
  const struct cuda_ring *ring = &stream->flow.rows;
  uint64_t place = (uint64_t)channel * ring->places + position % ring->places;
  uint32_t token = (uint32_t)(position % stream->flow.list) * CUDA_CHANNELS + channel;
  memcpy(out + stream->offset + ring->at + place * ring->place + 2 * stream->flow.hidden + 4, &token, sizeof token);
}

// Sends one batch of rows, if all readers have given credit for it.
static void send_some(struct relay_stream *stream, uint32_t channel) {
  const struct cuda_ring *ring = &stream->flow.rows;
  uint64_t each = stream->flow.list - 1, sent = stream->sent[channel], left = each - sent % each;
  uint64_t some = left < ring->batch ? left : ring->batch;
  uint64_t last = position_of(stream, sent + some - 1), op = last / stream->flow.list, base = op * stream->flow.list;
  for (uint32_t i = 0; i < stream->readers; i++) {
    uint64_t credit = cuda_load_word(&word_of(stream, stream->to[i].back_in, channel)->credit);
    // The readers have not read all of the operation before, or too little of this one.
    if (credit < base || last >= credit + ring->places)
      return;
  }
  stream->sent[channel] += some;
  for (uint32_t i = 0; i < stream->readers; i++) {
    if (sent % each == 0)
      send_header(stream, stream->to[i].out, op);
    for (uint64_t position = last + 1 - some; position <= last; position++)
      name_token(stream, stream->to[i].out, channel, position);
    cuda_store_word(&word_of(stream, stream->to[i].out, channel)->tail, (last + 1) * 2 + (some == left));
  }
}

// After the last row of an operation the credit is that of the whole operation.
static uint64_t receive_some(struct relay_stream *stream, uint32_t reader, uint32_t channel) {
  uint64_t each = stream->flow.list - 1, *read = &stream->to[reader].read[channel];
  uint64_t tail = cuda_load_word(&word_of(stream, stream->to[reader].in, channel)->tail);
  uint64_t op = tail / 2 / stream->flow.list, rows = op * each + tail / 2 % stream->flow.list;
  uint64_t news = rows > *read ? rows - *read : 0;
  if (news == 0)
    return 0;
  *read = rows;
  cuda_store_word(&word_of(stream, stream->to[reader].back_out, channel)->credit,
                  rows % each ? position_of(stream, rows) : (op + 1) * stream->flow.list);
  return news;
}

void relay_stream_init(struct relay_stream *stream, const struct device_ep_options *options, uint32_t readers) {
  struct cuda_forms forms;
  *stream = (struct relay_stream){.readers = readers};
  cuda_flow_of(options, &stream->flow, &stream->offset);
  cuda_area_of(options, &stream->control, &forms);
}

// All channels advance in one loop, so that the channels of two operations can be under way.
uint64_t relay_stream_run(struct relay_stream *stream, uint32_t ms, uint32_t wait_limit_ms, uint64_t *ns) {
  uint64_t begin = clock_ns(), end = begin + (uint64_t)ms * 1000000, rows = 0, now = begin, last = begin;
  for (; now < end; now = clock_ns()) {
    uint64_t before = rows;
    for (uint32_t channel = 0; channel < CUDA_CHANNELS; channel++) {
      send_some(stream, channel);
      for (uint32_t i = 0; i < stream->readers; i++)
        rows += receive_some(stream, i, channel);
    }
    last = rows > before ? now : last;
    if (now - last > (uint64_t)wait_limit_ms * 1000000)
      return 0;
  }
  *ns = now - begin;
  return rows;
}
