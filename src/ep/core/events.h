// The events of a rank, from whichever thread notices them to the one that asks: a queue of fixed room.
//
// When it is full, the oldest event goes that the caller can do without. What it has to be told stays: that this rank
// is fenced, and for each rank the last loss. There is always one that may go, since the room is more than one of these
// for each rank.
#ifndef EP_CORE_EVENTS_H
#define EP_CORE_EVENTS_H

#include <pthread.h>
#include <stdint.h>

#include <weft/ep.h>

enum { EP_EVENTS = 256 }; // beside one loss for each rank, and FENCED

struct ep_events {
  pthread_mutex_t lock;
  struct weft_ep_event *ring; // [room]
  uint32_t room, first, count;
  uint64_t dropped; // since one was taken
  int fd;           // readable while count > 0; -1 until somebody asks
};

// Initialised, nothing can be queued before it is opened; it has to be closed in either case.
void ep_events_init(struct ep_events *events);
int ep_events_open(struct ep_events *events, uint32_t capacity);
void ep_events_close(struct ep_events *events);

// Queues an event. It allocates nothing. [any]
void ep_emit(weft_ep_t *ep, enum weft_ep_event_kind kind, int32_t rank, uint64_t incarnation, uint64_t epoch,
             uint64_t op, const char *detail);

#endif
