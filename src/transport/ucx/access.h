// The messages of an access that the target serves, and of its answer.
#ifndef TRANSPORT_UCX_ACCESS_H
#define TRANSPORT_UCX_ACCESS_H

#include <stdint.h>

// With a WRITE its data follows. `tag` is a random number of the initiator for this peer alone: an answer without it is
// not from that peer.
struct ucx_ask {
  uint64_t cookie, key, address, length, pass, tag;
  uint32_t region, session; // the indices of the key and the pass in their tables
};

// After a READ without an error its data follows.
struct ucx_reply {
  uint64_t cookie, tag;
  int64_t status;
};

#endif
