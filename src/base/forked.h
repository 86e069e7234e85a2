// Handles in a child that was forked and has not called exec(): the library's threads do not exist there.
//
// A handle keeps the forked_now() of its opening. If forked_since() is true, the handle belongs to an ancestor of this
// process. A call then returns CLOSED before it takes any lock, since a thread that does not exist here may hold the
// lock; a close only frees memory.
#ifndef BASE_FORKED_H
#define BASE_FORKED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// The number of fork() calls between the process that loaded the library and this one. It changes only at the beginning
// of a child.
extern atomic_uint forked_times;

static inline uint32_t forked_now(void) {
  return atomic_load_explicit(&forked_times, memory_order_relaxed);
}

static inline bool forked_since(uint32_t opened) {
  return forked_now() != opened;
}

// 0, or CLOSED with a text that says that `what` ("the store") was opened before the fork.
int forked_check(uint32_t opened, const char *what);

#endif
