// A time limit for all calls of one thread to stores: a call gives up at this time, even before the store's own limit.
// Another thread may set an earlier time while a call waits, so that a thread that has to end does not hang if the
// store does not answer.
#ifndef STORE_LIMIT_H
#define STORE_LIMIT_H

#include <stdatomic.h>
#include <stdint.h>

// Sets the limit for the calls of this thread from now on; NULL: none. A call notices a change within about a second.
void store_limit_thread(const _Atomic uint64_t *until_ns);

// This thread's limit; CLOCK_NEVER: none.
uint64_t store_limit(void);

#endif
