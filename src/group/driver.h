// A group's handle: the state machine, the thread that drives it, and the callers that wait for it.
//   group.c  open, close, calls that do not wait     driver.c      the thread
//   wait.c   calls that wait                         wait_offer.c  offers and changes
#ifndef GROUP_DRIVER_H
#define GROUP_DRIVER_H

#include <pthread.h>

#include "group/machine.h"

struct group {
  weft_store_t *store;
  char *prefix;
  uint32_t capacity;
  uint64_t incarnation;
  group_event_fn on_event;
  bool (*interrupted)(void *arg);
  void *event_arg;
  weft_store_watch_t *watch; // the thread's watch
  pthread_t thread;
  _Atomic uint64_t limit_ns; // the thread gives up its request to the store then; CLOCK_NEVER: at the store's limit
  pthread_mutex_t lock;      // guards the machine
  pthread_cond_t changed;    // the machine got an input: waiting calls check again. CLOCK_MONOTONIC
  pthread_cond_t input;      // the thread has something to do. CLOCK_MONOTONIC
  bool poked;                // there is something new since the thread last checked
  struct group_machine *machine;
};

// Starts the thread, which ends when the machine has closed.
int group_driver_start(struct group *group);

// Wakes the thread because a wish has changed. With the lock.
void group_driver_poke(struct group *group);

// From now on no request waits longer than a few seconds, nor does the one under way. [any]
void group_driver_limit(struct group *group);

enum { GROUP_PENDING = 1 };

// The error because of which a wish about views cannot be fulfilled any more, or GROUP_PENDING. With the lock.
int group_obstacle(struct group *group);
// This member in the newest view, or NULL. With the lock.
const struct group_member *group_self_in_view(const struct group *group);
// INVALID: one of the ranks is beyond the capacity.
int group_valid_ranks(const struct group *group, const int32_t *ranks, size_t count);

// Waits until `check`, which is called with the lock, returns something other than GROUP_PENDING, and returns that
// value. When the deadline has passed, `missing` adds what is missing to the error. With the lock; unlocked while it
// waits.
int group_wait(struct group *group, uint64_t deadline_ns, int (*check)(struct group *group, void *arg),
               void (*missing)(struct group *group, void *arg, struct text *out), void *arg);

// Waits until group_open() has its claim. Takes the lock.
int group_wait_claim(struct group *group, uint64_t deadline_ns);

#endif
