// A rank that keeps running: a thread runs its operations (barriers, which need no memory) while a test makes other
// ranks fail.
#ifndef TESTS_EP_RESIDENT_H
#define TESTS_EP_RESIDENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <weft/weft.h>

struct background_rank {
  weft_ep_t *ep;
  atomic_bool stop;
  atomic_uint operations;
  char error[512]; // "" without an error
  pthread_t thread;
};

// Opens the group's first rank with these options and starts its operations.
void background_rank_start(struct background_rank *resident, const struct weft_ep_options *options);

// Waits until it has run a few more operations, so that it is unharmed. Fails the test if it does not.
void background_rank_assert_runs(struct background_rank *resident);

// Waits until it is alone in the group, and closes it.
void background_rank_end(struct background_rank *resident);

#endif
