// Events of peers, until the application takes them.
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
  pthread_mutex_t lock; // the last one of all
  struct agent_event_queue {
    struct agent_event *first, **last;
    uint32_t count;
  } passing, final; // LOADED and UPDATED, of which the oldest may be dropped; LEFT and LOST
  uint64_t number;
  uint32_t dropped; // since the last that was taken
  bool asked;       // by weft_agent_next_event()
};

void agent_events_open(weft_agent_t *agent);
void agent_events_close(weft_agent_t *agent);

// What LEFT or LOST of the peer will stand in: made with the peer, so that its end cannot fail for lack of memory.
// [lock]
int agent_event_reserve(struct agent_peer *peer);

// [lock]
void agent_emit_event(weft_agent_t *agent, struct agent_peer *peer, enum weft_agent_event_kind kind,
                      const char *detail);

#endif
