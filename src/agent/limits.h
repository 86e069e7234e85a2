// Limits of an agent.
#ifndef AGENT_LIMITS_H
#define AGENT_LIMITS_H

#include <weft/agent.h>

enum {
  AGENT_MAX_WORKERS = 8,
  AGENT_MAX_PEERS = 1 << 16,   // living peers
  AGENT_MAX_FOREIGN = 1 << 20, // regions of all peers: some 700 MB
  AGENT_CREDITS = 1024,        // unread notifications of one peer
  AGENT_CREDIT_BATCH = 256,    // the reader returns credit to the sender after so many
  AGENT_FLYING = 2048,         // messages in flight to a peer, beyond which heartbeats and news wait
  AGENT_NEWS = 1024,   // messages of a peer that wait for housekeeping: enough for all its regions to go at once
  AGENT_EVENTS = 1024, // LOADED and UPDATED events that the application has not taken
  AGENT_MAX_DETAIL = WEFT_AGENT_MAX_DETAIL, // bytes of an error text that is kept
  AGENT_PEER_SLOT_BITS = 24 // bits of a weft_peer_t for its slot + 1; the bits above have the slot's generation
};

#endif
