// Rows of the fake plug-in. An operation sends one to three of them to each peer, in the channel with the number of
// their source. Each word of a row contains its source, its operation and its number.
#include "support/fake_stream.h"

#include <weft/err.h>

#include "cuda/engine/flow_layout.h"
#include "support/fake_device.h"

size_t fake_area_bytes(const struct device_ep_options *options, char *why) {
  struct cuda_layout layout;
  struct cuda_forms forms;
  struct cuda_flow flow;
  uint64_t offset;
  cuda_area_of(options, &layout, &forms);
  if (!options->throughput)
    return layout.area;
  cuda_flow_of(options, &flow, &offset);
  if (flow.bytes == 0)
    fake_say(why, WEFT_ERR_INVALID, "window_bytes has no room for a stream");
  return flow.bytes ? offset + flow.bytes : 0;
}

static uint32_t channel_of(int32_t rank) {
  return (uint32_t)rank % CUDA_CHANNELS;
}

// Not more rows than the channel allows and a ring has room for.
static uint32_t rows_of(const struct fake_stream *stream, uint64_t op) {
  uint32_t rows = 1 + (uint32_t)(op % CUDA_LEAST_PLACES), most = stream->flow->list - 1;
  return rows < most ? rows : most;
}

static uint64_t content_of(int32_t rank, uint64_t op, uint32_t row) {
  return op << 32 | (uint64_t)row << 16 | (uint32_t)(rank + 1);
}

// The bytes of a place: values, and a line of routing, which names the token after its first word.
static uint32_t used_of(const struct fake_stream *stream) {
  return 2 * stream->flow->hidden + cuda_routing_bytes(stream->flow->topk);
}

uint32_t fake_stream_form(const struct cuda_flow *flow) {
  return cuda_flow_form(CUDA_BF16, flow->topk, 2 * flow->hidden, 0);
}

static uint32_t *token_at(const struct fake_stream *stream, uint64_t *place) {
  return (uint32_t *)((char *)place + 2 * stream->flow->hidden) + 1;
}

static struct cuda_flow_word *word_of(char *window, int32_t rank) {
  return &((struct cuda_flow_head *)window)->rows[channel_of(rank)];
}

static uint64_t *place_of(const struct fake_stream *stream, char *window, int32_t rank, uint64_t position) {
  const struct cuda_ring *ring = &stream->flow->rows;
  uint64_t place = (uint64_t)channel_of(rank) * ring->places + position % ring->places;
  return (uint64_t *)(window + ring->at + place * ring->place);
}

static bool await(const struct fake_stream *stream, const uint64_t *word, uint64_t least) {
  for (;;) {
    bool over = stream->is_over(stream->arg); // before the word: what the peer wrote before it went counts
    if (__atomic_load_n(word, __ATOMIC_ACQUIRE) >= least)
      return true;
    if (over)
      return false;
    fake_nap();
  }
}

bool fake_stream_send(const struct fake_stream *stream, int32_t rank, uint64_t op) {
  struct cuda_flow_sent *sent = &((struct cuda_flow_head *)stream->in)->sent;
  uint64_t position = op * stream->flow->list, end = position + rows_of(stream, op);
  if (!await(stream, &word_of(stream->in, rank)->credit, sent->newest * stream->flow->list))
    return false;
  sent->newest = op + 1;
  for (uint32_t row = 0; position < end; row++, position++) {
    uint64_t *place = place_of(stream, stream->out, rank, position);
    for (uint32_t i = 0; i < used_of(stream) / sizeof *place; i++)
      place[i] = content_of(rank, op, row);
    *token_at(stream, place) = channel_of(rank) + row * CUDA_CHANNELS;
  }
  __atomic_store_n(&word_of(stream->out, rank)->tail, end * 2 + 1, __ATOMIC_RELEASE);
  return true;
}

bool fake_stream_receive(const struct fake_stream *stream, int32_t rank, uint64_t op, bool *wrong) {
  uint64_t position = op * stream->flow->list, end = position + rows_of(stream, op);
  const struct cuda_flow_word *word = word_of(stream->in, rank);
  if (!await(stream, &word->tail, end * 2 + 1))
    return false;
  *wrong = __atomic_load_n(&word->tail, __ATOMIC_ACQUIRE) != end * 2 + 1;
  for (uint32_t row = 0; position < end; row++, position++) {
    uint64_t *place = place_of(stream, stream->in, rank, position);
    for (uint32_t i = 0; i < used_of(stream) / sizeof *place; i++)
      *wrong |= i != 2 * stream->flow->hidden / sizeof *place && place[i] != content_of(rank, op, row);
    *wrong |= *token_at(stream, place) != channel_of(rank) + row * CUDA_CHANNELS;
  }
  __atomic_store_n(&word_of(stream->out, rank)->credit, (op + 1) * stream->flow->list, __ATOMIC_RELEASE);
  return true;
}
