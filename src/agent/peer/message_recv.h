// Messages that have come: notifications until the application takes them, goodbyes and updates until housekeeping
// does.
#ifndef AGENT_PEER_MESSAGE_RECV_H
#define AGENT_PEER_MESSAGE_RECV_H

#include "agent/agent.h"

struct agent_note {
  _Atomic(struct agent_note *) next;
  struct agent_worker *worker; // whose spare notes it goes back to
  struct agent_peer *peer;     // of a notification; its `unread` keeps it
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
