// The relay of streams: see flow.c. Part of a relay (relay.h).
#ifndef CUDA_RELAY_FLOW_H
#define CUDA_RELAY_FLOW_H

#include "cuda/relay/batch.h"
#include "cuda/throughput/flow.h"
#include "device/device.h"

enum { CUDA_FLOW_WORDS = 2 * CUDA_CHANNELS }; // the words of rows, then the words of answers

struct cuda_flow_relay {
  struct cuda_flow flow;
  uint64_t offset; // of a stream in a window
  struct cuda_layout control;
  char *in, *out;                              // windows
  struct cuda_flow_word sent[CUDA_FLOW_WORDS]; // as last sent
  uint32_t next;                               // channel to begin with
  // For a ring whose rows are moved from window to window: the newest batch with rows of the ring, and the number of
  // their operation.
  struct cuda_flow_went {
    uint64_t batch, op;
  } went[CUDA_FLOW_WORDS];
  struct cuda_flow_share_place *places; // [CUDA_CHANNELS][flow.rows.places]; see flow_share.c
  // [CUDA_CHANNELS] stamp of the newest batch that named a place to the peer of a seat
  uint64_t (*published)[DEVICE_SEATS];
  // stamps of batches: newest: with rows of a channel; landed: the newest one that has landed
  uint64_t newest[CUDA_CHANNELS], landed;
};

// The contents of a place in the peer's window.
struct cuda_flow_share_place {
  uint64_t number;  // position of its row, + 1; 0: no row that could be named
  uint64_t stamp;   // of its batch
  uint64_t readers; // seats to whose peers the place was named
  uint32_t token;
  bool whole; // the row has landed, and had not been overwritten before it was collected
};

// The part of a relay for streams, which is its first member (relay.c).
static inline struct cuda_flow_relay *cuda_relay_flow(struct device_relay *relay) {
  return (struct cuda_flow_relay *)(void *)relay;
}
// The ring of a channel; from index CUDA_CHANNELS on, its ring for answers.
static inline const struct cuda_ring *cuda_flow_relay_ring(const struct cuda_flow_relay *relay, uint32_t index) {
  return index >= CUDA_CHANNELS ? &relay->flow.answers : &relay->flow.rows;
}
// The words of a channel in one of the windows.
static inline struct cuda_flow_word *cuda_flow_relay_words(char *window, const struct cuda_flow_relay *relay,
                                                           uint32_t index) {
  return (struct cuda_flow_word *)(window + relay->offset) + index;
}
// The offset of a place in both windows.
static inline size_t cuda_flow_relay_place(const struct cuda_flow_relay *relay, uint32_t index, uint64_t position) {
  const struct cuda_ring *ring = cuda_flow_relay_ring(relay, index);
  uint64_t place = (uint64_t)(index % CUDA_CHANNELS) * ring->places + position % ring->places;
  return relay->offset + ring->at + place * ring->place;
}

// Clears the heads of both streams, as kernels require. INVALID: window_bytes is too small.
int cuda_flow_relay_open(struct cuda_flow_relay *relay, const struct device_ep_options *options, void *in, void *out,
                         char *why);
void cuda_flow_relay_close(struct cuda_flow_relay *relay);
// Adds what kernels have written to the batch, as far as it fits.
void cuda_flow_relay_collect(struct cuda_flow_relay *relay, struct cuda_batch *batch);
// The range of the rings in both windows.
void cuda_flow_relay_rings(const struct cuda_flow_relay *relay, uint64_t *offset, uint64_t *bytes);
// The first function says whether a run of a stream lies in a legal range; the second writes it into `in`.
bool cuda_flow_relay_is_legal(const struct cuda_flow_relay *relay, const struct cuda_run *run);
void cuda_flow_relay_deliver(struct cuda_flow_relay *relay, const struct cuda_run *run, const char *from);

#endif
