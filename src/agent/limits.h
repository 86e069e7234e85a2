// Limits of an agent.
#ifndef AGENT_LIMITS_H
#define AGENT_LIMITS_H

#include <weft/agent.h>

enum {
  AGENT_MAX_WORKERS = 8,
  AGENT_MAX_PEERS = 1 << 16,   // that live
  AGENT_MAX_FOREIGN = 1 << 20, // regions of all peers: some 700 MB
  AGENT_CREDITS = 1024,        // unread notifications of one peer
  AGENT_CREDIT_BATCH = 256,    // the reader returns credit to the sender after so many
  AGENT_NEWS = 1024,           // messages of a peer that wait for housekeeping: more than its regions gone at once
  AGENT_EVENTS = 1024,         // LOADED and UPDATED that the application has not taken
  AGENT_MAX_DETAIL = WEFT_AGENT_MAX_DETAIL, // bytes of a sentence that is kept
  AGENT_PEER_SLOT_BITS = 24                 // of a weft_peer_t: its slot + 1; above them the slot's generation
};

#endif
