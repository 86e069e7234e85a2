// Rows that cross to another host once, between GPUs: which links share rows with a link, for its relay (struct
// device_sharing), and where the relay finds rows that a batch names in windows of neighbours.
//
// The batches of all links have ascending stamps. For each seat, `counted` is the stamp up to which the peer has put
// the batches of its link in place. A batch may name a row only if the batch that brought the row is in place, and the
// place of a row may be written again only when the batches that named it are in place. (docs/design/ep-gpu.md)
#ifndef EP_GPU_REMOTE_SHARE_H
#define EP_GPU_REMOTE_SHARE_H

#include <stdint.h>

#include "device/device.h"

struct ep_gpu;
struct ep_remote;

// The stamps of a rank. [net lock]
struct ep_share_stamps {
  uint64_t newest;
  uint64_t counted[DEVICE_SEATS];  // UINT64_MAX: all, or no link with this seat is in use
  uint64_t since_ns[DEVICE_SEATS]; // when a batch was counted last, or when the oldest uncounted one was posted
  uint64_t named_bytes;            // bytes that were not sent, since peers found them in windows of neighbours
};

// The input of the relay of a link.
struct ep_share {
  struct device_carrier carriers[DEVICE_SEATS - 1];
  struct device_sharing sharing;
};

void ep_share_open(struct ep_share_stamps *stamps);
// Begins the next batch. `relay_of`: returns the relay of a link; NULL while the link carries nothing. [net lock]
void ep_share_begin(struct ep_share *share, const struct ep_remote *remote,
                    struct device_relay *(*relay_of)(const struct ep_remote *link));
// The batch has been posted. [net lock]
void ep_share_posted(const struct ep_share *share, struct ep_remote *remote);
// Sets the stamp of the oldest batch that the peer has not counted, and since when none has been counted. 0: there is
// no such batch, or nothing waits for this link any more. [net lock]
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

// The argument of relay_deliver for one batch; initialises `windows`. [net lock]
struct device_neighbours ep_share_neighbours(struct ep_share_windows *windows, struct ep_remote *remote);

#endif
