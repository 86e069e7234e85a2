// A transport between workers of one process that a test controls step by step, for tests that depend on exact order
// and time. `transport_loop` posts with the worker's turn, `transport_loop_free` from any thread.
#ifndef SUPPORT_LOOP_H
#define SUPPORT_LOOP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "transport/transport.h"

extern const struct transport transport_loop;
extern const struct transport transport_loop_free;

struct loop {
  _Atomic bool hold;           // posted requests stay in flight until released
  _Atomic uint32_t release;    // so many requests in flight, the oldest first, move and end in the next progress()
  _Atomic bool deaf;           // cancel() does nothing while this is true: simulates hardware that still writes
  _Atomic int fail;            // the next request that ends fails with this error, once
  _Atomic uint32_t fail_piece; // and this piece of it fails
  _Atomic int refuse;          // the next post() fails with this error, once
  _Atomic bool mute;           // no message is delivered
  _Atomic uint32_t posts, cancels, ends, messages, heard; // messages: delivered; heard: passed to a callback
};
extern struct loop loop;

// Sets everything to its initial state.
void loop_reset(void);

// How many requests are in flight, in all workers.
uint32_t loop_flying(void);

// Reports to a worker that all its peers are gone: to the worker that opened last, or `back` workers before it.
void loop_kill_peers(uint32_t back, const char *why);

#endif
