// Rows that cross to another host once, between GPUs: what the relay of a link is told of the links that share rows
// with it (struct device_sharing), and where it finds rows that a batch names in windows of neighbours.
//
// Batches of all links have stamps, which ascend. For each seat there is the stamp up to which the batches of its link
// have been put in place by the peer. A row can be named when the batch that brought it is among these, and a place
// written again when those that named it are. (docs/design/ep-gpu.md)
#ifndef EP_GPU_SHARE_H
#define EP_GPU_SHARE_H

#include <stdint.h>

#include "device/device.h"

struct ep_gpu;
struct ep_remote;

// Of a rank. [net lock]
struct ep_share_stamps {
  uint64_t newest;
  uint64_t counted[DEVICE_SEATS];  // UINT64_MAX: all, or there is no link that counts
  uint64_t since_ns[DEVICE_SEATS]; // when the oldest batch was posted that is not counted
  uint64_t named_bytes;            // that peers found in windows of neighbours, and were not sent
};

// What the relay of a link is told.
struct ep_share {
  struct device_carrier carriers[DEVICE_SEATS - 1];
  struct device_sharing sharing;
};

void ep_share_open(struct ep_share_stamps *stamps);
// For the next batch. [net lock]
void ep_share_begin(struct ep_share *share, const struct ep_remote *remote);
// It has been posted. [net lock]
void ep_share_posted(const struct ep_share *share, struct ep_remote *remote);
// The oldest batch that the peer has not counted has that stamp, and was posted then. 0: there is none, or nobody waits
// for this link any more. [net lock]
void ep_share_counted(struct ep_remote *remote, uint64_t oldest, uint64_t since_ns);

// For relay_deliver_shared.
struct device_neighbours ep_share_neighbours(struct ep_remote *remote);

#endif
