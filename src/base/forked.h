// Handles in a child that was forked and has not called exec(): the library's threads do not exist there.
//
// A handle keeps forked_now() of its opening. Where forked_since() says yes, it belongs to a process above this one: a
// call answers CLOSED before it takes any lock, which a thread that is missing here may hold; a close frees memory.
#ifndef BASE_FORKED_H
#define BASE_FORKED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// How often fork() has come between the process that loaded the library and this one; only a child's first step
// changes it.
extern atomic_uint forked_times;

static inline uint32_t forked_now(void) {
  return atomic_load_explicit(&forked_times, memory_order_relaxed);
}

static inline bool forked_since(uint32_t opened) {
  return forked_now() != opened;
}

// 0, or CLOSED with a sentence in which `what` ("the store") was opened before the fork.
int forked_check(uint32_t opened, const char *what);

#endif
