// The formats of the messages of an access that the target serves, and of its answer.
#ifndef TRANSPORT_UCX_ACCESS_H
#define TRANSPORT_UCX_ACCESS_H

#include <stdint.h>

// The data of a WRITE follows. `tag` is a random number that the initiator uses only with this peer: an answer without
// it is not from that peer.
struct ucx_ask {
  uint64_t cookie, key, address, length, pass, tag;
  uint32_t region, session; // the indices of the key and the pass in their tables
};

// The data of a READ follows, unless there is an error.
struct ucx_reply {
  uint64_t cookie, tag;
  int64_t status;
};

#endif
