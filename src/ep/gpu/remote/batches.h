// Batches of a proxy that are in flight: the data that both its set-up (proxy.c) and their traffic (batches.c) use.
#ifndef EP_GPU_REMOTE_BATCHES_H
#define EP_GPU_REMOTE_BATCHES_H

#include "ep/gpu/remote/proxy.h"
#include "ep/gpu/remote/rings.h"
#include "ep/gpu/remote/share.h"

enum {
  EP_BATCH_MOVES = 64, // of a batch
  // Bytes of the moves in a batch. With all batches in flight that is 8 MiB for each link, so that links share the
  // transport.
  EP_BATCH_MOVED_BYTES = 1 << 20,
};

struct ep_batch {
  struct ep_post post;   // without moves,
  struct ep_post moving; // with moves: one of the two is posted
  struct ep_proxy_update update;
  struct transport_piece piece;
  struct transport_piece pieces[EP_BATCH_MOVES + 1]; // the moves, and the batch
  uint32_t moved;                                    // number of pieces that `moving` had the last time
  bool busy;                                         // the batch has not left yet
  uint64_t stamp, posted_ns;                         // of its newest post
};

struct ep_proxy {
  struct ep_remote *remote;
  const struct device_api *api;
  struct device_relay *relay;
  struct ep_window staging, landing;
  struct ep_rings rings;
  // All under the net lock.
  bool ready;
  struct ep_batch batches[EP_PROXY_BATCHES];
  uint64_t posted, counted;          // batches of this rank: sent, and counted by the peer
  uint64_t counted_ns;               // when the peer counted the newest
  uint64_t delivered, acknowledged;  // batches of the peer: put in place, and reported to the peer
  uint32_t landed[EP_PROXY_BATCHES]; // bytes of a batch of the peer that waits for earlier ones; 0: none
  struct ep_batch count;             // a message without data
  struct device_move moves[EP_BATCH_MOVES];
  uint64_t moved_bytes;
  struct ep_share share; // of the batch that is being collected
};

// Bytes of the moves of a batch, at most.
static inline uint64_t ep_batches_most_moved(const struct ep_rings *rings) {
  return rings->bytes < EP_BATCH_MOVED_BYTES ? rings->bytes : EP_BATCH_MOVED_BYTES;
}

// Reports to share.h the oldest batch that the peer has not put in place, or none if the link carries nothing any more.
// [net lock]
void ep_batches_update_stamps(struct ep_proxy *proxy);
// Receives a message of the peer; flushes a link before it ends (struct ep_carrier_ops).
void ep_batches_receive(struct ep_remote *remote, const void *bytes, size_t size);
void ep_batches_flush(struct ep_remote *remote);
// Carries all collected data, for all links; returns how much happened. [net lock]
uint32_t ep_batches_poll(struct ep_net *net);
// How long the net thread may sleep: kernels do not wake it. `last_ns`: when something happened last.
uint64_t ep_batches_nap_ns(uint64_t last_ns);

#endif
