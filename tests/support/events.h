// Keeps the events of a store watch, so that a test can wait for them and examine them.
#ifndef SUPPORT_EVENTS_H
#define SUPPORT_EVENTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weft/store.h>

struct support_event {
  enum weft_store_event_kind kind;
  char key[96];
  char value[96]; // the first bytes
  size_t value_len;
  int64_t revision;
  int64_t create_revision;
  int64_t version;
  int64_t lease;
  uint64_t came_ns; // time of the event
};

struct support_events {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  struct support_event *all;
  size_t count, room;
};

void support_events_init(struct support_events *events);
void support_events_free(struct support_events *events); // no watch may still use it

// The function for a watch; `arg` is the struct support_events.
void support_events_take(void *arg, const struct weft_store_event *event);

// Waits until `count` events of this kind have arrived. False: the deadline passed.
bool support_events_wait(struct support_events *events, enum weft_store_event_kind kind, size_t count);

// Waits until an event of this key with at least this `revision` has arrived. False: there is none within `timeout_ms`.
bool support_events_wait_key(struct support_events *events, const char *key, int64_t revision, uint32_t timeout_ms);

// How many events of this kind have arrived.
size_t support_events_count(struct support_events *events, enum weft_store_event_kind kind);

// Returns the n-th event of this kind, from 0. It must have arrived.
struct support_event support_events_get(struct support_events *events, enum weft_store_event_kind kind, size_t n);

#endif
