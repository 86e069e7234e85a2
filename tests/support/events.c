// Keeps the events of a store watch, for a test to wait for.
#include "support/events.h"

#include "base/time/clock.h"
#include "support/wait.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void support_events_init(struct support_events *events) {
  pthread_condattr_t attributes;
  *events = (struct support_events){0};
  pthread_mutex_init(&events->lock, NULL);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&events->changed, &attributes);
  pthread_condattr_destroy(&attributes);
}

void support_events_free(struct support_events *events) {
  pthread_cond_destroy(&events->changed);
  pthread_mutex_destroy(&events->lock);
  free(events->all);
}

void support_events_take(void *arg, const struct weft_store_event *event) {
  struct support_events *events = arg;
  struct support_event copy = {.kind = event->kind, .revision = event->revision, .came_ns = clock_ns()};
  const struct weft_store_kv *kv = event->kv;
  if (kv) {
    copy.create_revision = kv->create_revision;
    copy.version = kv->version;
    copy.lease = kv->lease;
    copy.value_len = kv->value_len;
    snprintf(copy.key, sizeof copy.key, "%s", kv->key);
    snprintf(copy.value, sizeof copy.value, "%s", (const char *)kv->value);
  }
  pthread_mutex_lock(&events->lock);
  if (events->count == events->room) {
    events->room = events->room ? 2 * events->room : 64;
    events->all = realloc(events->all, events->room * sizeof *events->all);
    if (!events->all)
      abort();
  }
  events->all[events->count++] = copy;
  pthread_cond_broadcast(&events->changed);
  pthread_mutex_unlock(&events->lock);
}

static size_t count_locked(const struct support_events *events, enum weft_store_event_kind kind) {
  size_t count = 0;
  for (size_t i = 0; i < events->count; i++)
    count += events->all[i].kind == kind;
  return count;
}

bool support_events_wait(struct support_events *events, enum weft_store_event_kind kind, size_t count) {
  struct timespec deadline = clock_timespec(clock_deadline_ms(SUPPORT_DEADLINE_MS));
  bool in_time = true;
  pthread_mutex_lock(&events->lock);
  while (count_locked(events, kind) < count && in_time)
    in_time = pthread_cond_timedwait(&events->changed, &events->lock, &deadline) != ETIMEDOUT;
  bool came = count_locked(events, kind) >= count;
  if (!came)
    fprintf(stderr, "%zu events of kind %d came, not %zu\n", count_locked(events, kind), (int)kind, count);
  pthread_mutex_unlock(&events->lock);
  return came;
}

static bool has_key(const struct support_events *events, const char *key, int64_t revision) {
  for (size_t i = events->count; i-- > 0;)
    if (events->all[i].revision >= revision && strcmp(events->all[i].key, key) == 0)
      return true;
  return false;
}

bool support_events_wait_key(struct support_events *events, const char *key, int64_t revision, uint32_t timeout_ms) {
  struct timespec deadline = clock_timespec(clock_deadline_ms(timeout_ms));
  bool in_time = true;
  pthread_mutex_lock(&events->lock);
  while (!has_key(events, key, revision) && in_time)
    in_time = pthread_cond_timedwait(&events->changed, &events->lock, &deadline) != ETIMEDOUT;
  bool came = has_key(events, key, revision);
  pthread_mutex_unlock(&events->lock);
  return came;
}

size_t support_events_count(struct support_events *events, enum weft_store_event_kind kind) {
  pthread_mutex_lock(&events->lock);
  size_t count = count_locked(events, kind);
  pthread_mutex_unlock(&events->lock);
  return count;
}

struct support_event support_events_get(struct support_events *events, enum weft_store_event_kind kind, size_t n) {
  struct support_event found = {.key = "(no such event)"};
  pthread_mutex_lock(&events->lock);
  for (size_t i = 0; i < events->count; i++)
    if (events->all[i].kind == kind && n-- == 0)
      found = events->all[i];
  pthread_mutex_unlock(&events->lock);
  return found;
}
