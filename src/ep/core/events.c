// The events of weft/ep.h, and their queue.
#include "ep/core/events.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/sized.h"
#include "base/time/clock.h"
#include "ep/core/engine.h"

void ep_events_init(struct ep_events *events) {
  *events = (struct ep_events){.fd = -1};
  pthread_mutex_init(&events->lock, NULL);
}

int ep_events_open(struct ep_events *events, uint32_t capacity) {
  events->room = EP_EVENTS + capacity + 1;
  events->ring = calloc(events->room, sizeof *events->ring);
  return events->ring ? 0 : fail(WEFT_ERR_NOMEM, "no memory for the events of %u ranks", capacity);
}

void ep_events_close(struct ep_events *events) {
  if (events->fd >= 0)
    close(events->fd);
  free(events->ring);
  pthread_mutex_destroy(&events->lock);
}

static struct weft_ep_event *at(const struct ep_events *events, uint32_t place) {
  return &events->ring[(events->first + place) % events->room];
}

// Whether the event in that place may be dropped: it is no loss, or the rank was lost again later.
static bool may_go(const struct ep_events *events, uint32_t place) {
  const struct weft_ep_event *event = at(events, place);
  if (event->kind == WEFT_EP_EVENT_FENCED)
    return false;
  if (event->kind != WEFT_EP_EVENT_PEER_LOST)
    return true;
  for (uint32_t i = place + 1; i < events->count; i++)
    if (at(events, i)->kind == WEFT_EP_EVENT_PEER_LOST && at(events, i)->rank == event->rank)
      return true;
  return false;
}

// Makes room for one event: events before the dropped one move up.
static void drop_one(struct ep_events *events) {
  uint32_t place = 0;
  while (place + 1 < events->count && !may_go(events, place))
    place++;
  for (; place > 0; place--)
    *at(events, place) = *at(events, place - 1);
  events->first = (events->first + 1) % events->room;
  events->count--;
  events->dropped++;
}

// Makes the descriptor readable while there is an event. Under lock.
static void signal_fd(const struct ep_events *events) {
  uint64_t one = 1;
  if (events->fd >= 0)
    (void)!write(events->fd, &one, sizeof one);
}

static void calm_fd(const struct ep_events *events) {
  uint64_t drained;
  if (events->fd >= 0)
    (void)!read(events->fd, &drained, sizeof drained);
}

void ep_emit(weft_ep_t *ep, enum weft_ep_event_kind kind, int32_t rank, uint64_t incarnation, uint64_t epoch,
             uint64_t op, const char *detail) {
  struct ep_events *events = &ep->events;
  pthread_mutex_lock(&events->lock);
  if (events->count == events->room)
    drop_one(events);
  struct weft_ep_event *event = at(events, events->count);
  *event = (struct weft_ep_event){.size = sizeof *event,
                                  .kind = kind,
                                  .rank = rank,
                                  .incarnation = incarnation,
                                  .epoch = epoch,
                                  .op = op,
                                  .time_ns = clock_ns()};
  snprintf(event->detail, sizeof event->detail, "%s", detail);
  if (events->count++ == 0)
    signal_fd(events);
  pthread_mutex_unlock(&events->lock);
}

static bool take(struct ep_events *events, struct weft_ep_event *event) {
  pthread_mutex_lock(&events->lock);
  bool any = events->count > 0;
  if (any) {
    *event = *at(events, 0);
    event->dropped = events->dropped;
    events->dropped = 0;
    events->first = (events->first + 1) % events->room;
    if (--events->count == 0)
      calm_fd(events);
  }
  pthread_mutex_unlock(&events->lock);
  return any;
}

int weft_ep_next_event(weft_ep_t *ep, struct weft_ep_event *event) {
  struct weft_ep_event taken;
  if (!ep_is_ours(ep))
    return ep_refuse_handle(ep, "next_event");
  int rc = sized_check_output(event, SIZED_END(struct weft_ep_event, detail), "weft_ep_event");
  if (rc != 0)
    return rc;
  if (!take(&ep->events, &taken))
    return 0;
  sized_write(event, &taken, sizeof taken);
  return 1;
}

int weft_ep_fd(weft_ep_t *ep, int *fd) {
  if (!ep_is_ours(ep))
    return ep_refuse_handle(ep, "fd");
  if (!fd)
    return fail(WEFT_ERR_INVALID, "fd: fd is NULL");
  struct ep_events *events = &ep->events;
  int error = 0;
  pthread_mutex_lock(&events->lock);
  if (events->fd < 0) {
    events->fd = eventfd(events->count > 0, EFD_CLOEXEC | EFD_NONBLOCK);
    error = events->fd < 0 ? errno : 0;
  }
  int made = events->fd;
  pthread_mutex_unlock(&events->lock);
  if (error != 0)
    return fail_errno(error, "fd: cannot make a file descriptor for events");
  *fd = made;
  return 0;
}
