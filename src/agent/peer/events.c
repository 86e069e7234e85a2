// Events of peers wait for the application in two queues: events that may be dropped, the oldest first, and events that
// may not. The application gets them while only their own lock is held, for the time of a copy.
#include "agent/peer/events.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/agent.h"
#include "agent/progress/signal.h"
#include "base/fail.h"
#include "base/sized.h"
#include "base/time/clock.h"

static void queue_open(struct agent_event_queue *queue) {
  *queue = (struct agent_event_queue){.last = &queue->first};
}

static void append(struct agent_event_queue *queue, struct agent_event *event) {
  event->next = NULL;
  *queue->last = event;
  queue->last = &event->next;
  queue->count++;
}

// NULL: it is empty.
static struct agent_event *take(struct agent_event_queue *queue) {
  struct agent_event *event = queue->first;
  if (!event)
    return NULL;
  queue->first = event->next;
  queue->last = queue->first ? queue->last : &queue->first;
  queue->count--;
  return event;
}

void agent_events_open(weft_agent_t *agent) {
  pthread_mutex_init(&agent->events.lock, NULL);
  queue_open(&agent->events.passing);
  queue_open(&agent->events.final);
}

void agent_events_close(weft_agent_t *agent) {
  struct agent_event *event;
  while ((event = take(&agent->events.passing)) || (event = take(&agent->events.final)))
    free(event);
  pthread_mutex_destroy(&agent->events.lock);
}

int agent_event_reserve(struct agent_peer *peer) {
  peer->end_event = malloc(sizeof *peer->end_event);
  return peer->end_event ? 0 : fail(WEFT_ERR_NOMEM, "no memory for the events of a peer");
}

static void fill(struct weft_agent_event *event, const struct agent_peer *peer, enum weft_agent_event_kind kind,
                 const char *detail) {
  *event = (struct weft_agent_event){.size = sizeof *event, .kind = kind, .peer = peer->id, .time_ns = clock_ns()};
  snprintf(event->name, sizeof event->name, "%s", peer->name);
  snprintf(event->detail, sizeof event->detail, "%s", detail);
}

// For a program that never takes events, only the last ones of either kind are kept. [events.lock]
static void keep_bounds(weft_agent_t *agent, struct agent_event_queue *queue) {
  struct agent_events *events = &agent->events;
  if (queue->count <= AGENT_EVENTS || (events->asked && queue == &events->final))
    return;
  free(take(queue));
  events->dropped++;
  if (events->asked)
    atomic_fetch_sub(&agent->signal.waiting, 1);
}

void agent_emit_event(weft_agent_t *agent, struct agent_peer *peer, enum weft_agent_event_kind kind,
                      const char *detail) {
  struct agent_events *events = &agent->events;
  bool final = kind == WEFT_AGENT_EVENT_PEER_LEFT || kind == WEFT_AGENT_EVENT_PEER_LOST;
  struct agent_event *event = final ? peer->end_event : malloc(sizeof *event);
  if (final)
    peer->end_event = NULL;
  if (event)
    fill(&event->event, peer, kind, detail);
  pthread_mutex_lock(&events->lock);
  if (event) {
    event->number = events->number++;
    if (events->asked)
      atomic_fetch_add(&agent->signal.waiting, 1);
    append(final ? &events->final : &events->passing, event);
    keep_bounds(agent, final ? &events->final : &events->passing);
  } else {
    events->dropped++;
  }
  pthread_mutex_unlock(&events->lock);
  agent_signal(agent);
}

// The older one of both queues. [events.lock]
static struct agent_event *take_oldest(struct agent_events *events) {
  const struct agent_event *passing = events->passing.first, *final = events->final.first;
  bool first = passing && (!final || passing->number < final->number);
  return take(first ? &events->passing : &events->final);
}

int weft_agent_next_event(weft_agent_t *agent, struct weft_agent_event *out) {
  int unusable = agent_handle_check(agent);
  if (unusable != 0)
    return unusable;
  int rc = sized_check_output(out, SIZED_END(struct weft_agent_event, detail), "weft_agent_event");
  if (rc != 0)
    return rc;
  struct agent_events *events = &agent->events;
  pthread_mutex_lock(&events->lock);
  if (!events->asked)
    atomic_fetch_add(&agent->signal.waiting, events->passing.count + events->final.count);
  events->asked = true;
  struct agent_event *event = take_oldest(events);
  if (event) {
    event->event.dropped = events->dropped;
    events->dropped = 0;
    atomic_fetch_sub(&agent->signal.waiting, 1);
  }
  pthread_mutex_unlock(&events->lock);
  if (!event) {
    agent_signal_clear(agent);
    return 0;
  }
  sized_write(out, &event->event, sizeof event->event);
  free(event);
  return 1;
}
