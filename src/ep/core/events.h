// The events of a rank: a queue of fixed size, from the threads that notice events to the thread that reads them.
//
// If the queue is full, the oldest event that the caller can do without is dropped. Two kinds must stay: that this rank
// is fenced, and the last loss of each rank. The queue has room for more events than these, so there is always one to
// drop.
#ifndef EP_CORE_EVENTS_H
#define EP_CORE_EVENTS_H

#include <pthread.h>
#include <stdint.h>

#include <weft/ep.h>

enum { EP_EVENTS = 256 }; // besides one loss for each rank, and FENCED

struct ep_events {
  pthread_mutex_t lock;
  struct weft_ep_event *ring; // [room]
  uint32_t room, first, count;
  uint64_t dropped; // since the last event was read
  int fd;           // readable while count > 0; -1 until the caller asks for it
};

// After ep_events_init() nothing can be queued until ep_events_open(); ep_events_close() is needed in either case.
void ep_events_init(struct ep_events *events);
int ep_events_open(struct ep_events *events, uint32_t capacity);
void ep_events_close(struct ep_events *events);

// Queues an event. It allocates nothing. [any]
void ep_emit(weft_ep_t *ep, enum weft_ep_event_kind kind, int32_t rank, uint64_t incarnation, uint64_t epoch,
             uint64_t op, const char *detail);

#endif
