// Rows that cross to another host once, between GPUs: what the relay of a link is told of the links that share rows
// with it (struct device_sharing), and where it finds rows that a batch names in windows of neighbours.
//
// Batches of all links have stamps, which ascend. For each seat there is the stamp up to which the batches of its link
// have been put in place by the peer. A row can be named when the batch that brought it is among these, and a place
// written again when those that named it are. (docs/design/ep-gpu.md)
#ifndef EP_GPU_REMOTE_SHARE_H
#define EP_GPU_REMOTE_SHARE_H

#include <stdint.h>

#include "device/device.h"

struct ep_gpu;
struct ep_remote;

// Of a rank. [net lock]
struct ep_share_stamps {
  uint64_t newest;
  uint64_t counted[DEVICE_SEATS];  // UINT64_MAX: all, or there is no link that counts
  uint64_t since_ns[DEVICE_SEATS]; // when one was counted last, or the oldest that is not was posted
  uint64_t named_bytes;            // that peers found in windows of neighbours, and were not sent
};

// What the relay of a link is told.
struct ep_share {
  struct device_carrier carriers[DEVICE_SEATS - 1];
  struct device_sharing sharing;
};

void ep_share_open(struct ep_share_stamps *stamps);
// For the next batch. `relay_of`: that of a link; NULL while it carries nothing. [net lock]
void ep_share_begin(struct ep_share *share, const struct ep_remote *remote,
                    struct device_relay *(*relay_of)(const struct ep_remote *link));
// It has been posted. [net lock]
void ep_share_posted(const struct ep_share *share, struct ep_remote *remote);
// The oldest batch that the peer has not counted has that stamp, and since then nothing has been counted. 0: there is
// none, or nobody waits for this link any more. [net lock]
void ep_share_counted(struct ep_remote *remote, uint64_t oldest, uint64_t since_ns);

// Windows of neighbours that were found for a batch.
enum { EP_SHARE_KNOWN = 16 };
struct ep_share_windows {
  struct ep_remote *remote; // of the batch
  struct ep_share_window {
    uint64_t number;
    const char *memory; // NULL: none yet
  } known[EP_SHARE_KNOWN];
};

// For relay_deliver, for one batch; `windows` is set. [net lock]
struct device_neighbours ep_share_neighbours(struct ep_share_windows *windows, struct ep_remote *remote);

#endif
