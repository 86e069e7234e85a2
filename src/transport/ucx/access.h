// What an access that the target serves and its answer look like on the way.
#ifndef TRANSPORT_UCX_ACCESS_H
#define TRANSPORT_UCX_ACCESS_H

#include <stdint.h>

// With a WRITE its data follows. `tag` is what the initiator drew for this peer alone: an answer without it is
// another's.
struct ucx_ask {
  uint64_t cookie, key, address, length, pass, tag;
  uint32_t region, session; // where the key and the pass stand in their tables
};

// With a READ that worked its data follows.
struct ucx_reply {
  uint64_t cookie, tag;
  int64_t status;
};

#endif
