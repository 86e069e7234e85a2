// Ranks on CUDA memory, with a fake plug-in that needs no GPU. One thread drives operations without tokens, since
// launches return at once.
#ifndef EP_FAKE_RANKS_H
#define EP_FAKE_RANKS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"

#include "base/time/clock.h"
#include "ep/gpu/gpu.h"

enum { DEADLINE_MS = 30000 };

// Setup and teardown of a test: they open and close the store of its ranks.
int fake_open_store(void **state);
int fake_close_store(void **state);

void assert_ok(int rc);
void assert_says(const char *words); // the text of the last error must contain them

// Counts of a rank's events so far.
struct fake_events {
  uint64_t activated, released, lost;
};
// Takes all events from the rank's queue and counts them in `events`.
void fake_take_events(weft_ep_t *ep, struct fake_events *events);

struct weft_ep_options fake_options(int32_t rank, const int32_t *founders, uint32_t count);
weft_ep_t *fake_open(struct weft_ep_options options);

// Runs weft_ep_activate(), which waits for others, in a thread until fake_end().
struct fake_activation {
  weft_ep_t *ep;
  pthread_t thread;
  int rc;
  char error[256];
  _Atomic bool done;
};
void fake_begin(struct fake_activation *activation, weft_ep_t *ep);
void fake_end(struct fake_activation *activation);

// Opens and activates `count` founders, 0 to count - 1, at most four. `op_timeout_ms` 0: as in fake_options().
void fake_found_with(weft_ep_t **eps, uint32_t count, uint32_t op_timeout_ms);
void fake_found(weft_ep_t **eps, uint32_t count);

const struct weft_ep_recv_args *fake_no_rows(void);

// Launches an operation and its combine.
uint64_t fake_launch(weft_ep_t *ep);
// Runs the next operation of all ranks that take part in it, at most eight; `info` is the first rank's. A joiner may
// begin later.
void fake_operate(weft_ep_t **eps, uint32_t count, struct weft_ep_info *info);
// Runs operations of all of `count` ranks but the last, which joins by `activation`, until it has joined. At the end
// all ranks have the same number of operations.
void fake_take_in(weft_ep_t **eps, uint32_t count, struct fake_activation *activation);
// Opens the last of `count` ranks with `options`, and takes it in.
void fake_join(weft_ep_t **eps, uint32_t count, struct weft_ep_options options);

#endif
