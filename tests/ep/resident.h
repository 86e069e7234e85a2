// A rank that is there: a thread runs its operations (barriers, which need no memory) while a test lets others fail.
#ifndef TESTS_EP_RESIDENT_H
#define TESTS_EP_RESIDENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <weft/weft.h>

struct resident {
  weft_ep_t *ep;
  atomic_bool stop;
  atomic_uint operations;
  char error[512]; // "" while all is well
  pthread_t thread;
};

// Opens the group's first rank with these options and starts its operations.
void resident_start(struct resident *resident, const struct weft_ep_options *options);

// Waits until it has run a few more operations: it was not harmed. Fails the test when it does not.
void resident_assert_runs(struct resident *resident);

// Waits until it is alone, and closes it.
void resident_end(struct resident *resident);

#endif
