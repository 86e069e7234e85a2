// Queues of events of peers that the application has not taken yet.
#ifndef AGENT_PEER_EVENTS_H
#define AGENT_PEER_EVENTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/agent.h>

struct agent_peer;

struct agent_event {
  struct agent_event *next;
  uint64_t number; // of all
  struct weft_agent_event event;
};

struct agent_events {
  pthread_mutex_t lock; // no lock is taken while it is held
  struct agent_event_queue {
    struct agent_event *first, **last;
    uint32_t count;
  } passing, final; // passing: LOADED and UPDATED, of which the oldest may be dropped; final: LEFT and LOST
  uint64_t number;
  uint32_t dropped; // events dropped since the application took the last one
  bool asked;       // weft_agent_next_event() was called
};

void agent_events_open(weft_agent_t *agent);
void agent_events_close(weft_agent_t *agent);

// Allocates the event for LEFT or LOST of the peer. This is done when the peer is made, so that its end cannot fail for
// lack of memory. [lock]
int agent_event_reserve(struct agent_peer *peer);

// [lock]
void agent_emit_event(weft_agent_t *agent, struct agent_peer *peer, enum weft_agent_event_kind kind,
                      const char *detail);

#endif
