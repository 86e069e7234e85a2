// Received messages: notifications that the application has not taken yet, goodbyes and updates that housekeeping has
// not taken yet.
#ifndef AGENT_PEER_MESSAGE_RECV_H
#define AGENT_PEER_MESSAGE_RECV_H

#include "agent/agent.h"

struct agent_note {
  _Atomic(struct agent_note *) next;
  struct agent_worker *worker; // its spare notes get this note back
  struct agent_peer *peer;     // sender of a notification; its `unread` keeps the peer from being freed
  weft_peer_t peer_id;
  uint64_t sequence;
  uint32_t kind, size;
  bool large;
  uint8_t bytes[];
};

int agent_inbox_open(weft_agent_t *agent);
void agent_inbox_free(weft_agent_t *agent);

// Called by transports: agent_worker is the argument. [worker lock]
void agent_inbox_message(void *arg, const void *bytes, size_t size);

// Hands goodbyes and updates to liveness_control_message(). [housekeeping]
void agent_inbox_housekeep(weft_agent_t *agent);

#endif
