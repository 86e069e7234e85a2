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
  _Atomic bool hold;           // what is posted stays in flight until released
  _Atomic uint32_t release;    // so many of them, the oldest first, move and end in the next progress()
  _Atomic bool deaf;           // cancel() does nothing until this is false again: hardware that still writes
  _Atomic int fail;            // the next that ends fails with this, once
  _Atomic uint32_t fail_piece; // and this piece of it
  _Atomic int refuse;          // the next post() does, once
  _Atomic bool mute;           // messages arrive at nobody
  _Atomic uint32_t posts, cancels, ends, messages, heard; // messages: on their way; heard: told to somebody
};
extern struct loop loop;

// Everything as at the start.
void loop_reset(void);

// Whether so many are in flight, in all workers.
uint32_t loop_flying(void);

// Tells the worker that opened last but `back` that all its peers have gone.
void loop_kill_peers(uint32_t back, const char *why);

#endif
