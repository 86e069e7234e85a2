// Batches of a proxy that are under way: what both its set-up (proxy.c) and their traffic (batches.c) know of them.
#ifndef EP_GPU_REMOTE_BATCHES_H
#define EP_GPU_REMOTE_BATCHES_H

#include "ep/gpu/remote/proxy.h"
#include "ep/gpu/remote/rings.h"
#include "ep/gpu/remote/share.h"

enum {
  EP_BATCH_MOVES = 64, // of a batch
  // Bytes of its moves. With all batches under way that is 8 MiB of a link, so that links share what carries them.
  EP_BATCH_MOVED_BYTES = 1 << 20,
};

struct ep_batch {
  struct ep_post post;   // without moves,
  struct ep_post moving; // with them: one of the two is posted
  struct ep_proxy_update update;
  struct transport_piece piece;
  struct transport_piece pieces[EP_BATCH_MOVES + 1]; // the moves; and the batch
  uint32_t moved;                                    // pieces that moves had the last time
  bool busy;                                         // it has not left
  uint64_t stamp, posted_ns;                         // of the newest post
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
  uint64_t posted, counted;          // batches of this rank: sent, and counted by the peer,
  uint64_t counted_ns;               // which counted the newest then
  uint64_t delivered, acknowledged;  // the peer's batches: put in place, and counted to it
  uint32_t landed[EP_PROXY_BATCHES]; // bytes of a batch of the peer's that waits for those before it; 0: none
  struct ep_batch count;             // without data
  struct device_move moves[EP_BATCH_MOVES];
  uint64_t moved_bytes;
  struct ep_share share; // of the batch that is being collected
};

// Bytes of the moves of a batch, at most.
static inline uint64_t ep_batches_most_moved(const struct ep_rings *rings) {
  return rings->bytes < EP_BATCH_MOVED_BYTES ? rings->bytes : EP_BATCH_MOVED_BYTES;
}

// Tells share.h which batch is the oldest that the peer has not put in place; none, once the link carries nothing more.
// [net lock]
void ep_batches_update_stamps(struct ep_proxy *proxy);
// A message of the peer's, and the last moment of a link (struct ep_carrier_ops).
void ep_batches_receive(struct ep_remote *remote, const void *bytes, size_t size);
void ep_batches_flush(struct ep_remote *remote);
// Carries what there is, for all links; returns how much happened. [net lock]
uint32_t ep_batches_poll(struct ep_net *net);
// How long the net thread may sleep: kernels do not wake it. `last_ns`: when something happened last.
uint64_t ep_batches_nap_ns(uint64_t last_ns);

#endif
