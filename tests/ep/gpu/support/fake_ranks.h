// Ranks on CUDA memory, on a plug-in that has no GPU: operations without tokens, driven by one thread, since launches
// return at once.
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

// Setup and teardown of a test: the store of its ranks.
int fake_open_store(void **state);
int fake_close_store(void **state);

void assert_ok(int rc);
void assert_says(const char *words); // the last error does

// What a rank's events told so far.
struct fake_heard {
  uint64_t activated, released, lost;
};
// Takes what is queued.
void fake_hear(weft_ep_t *ep, struct fake_heard *heard);

struct weft_ep_options fake_options(int32_t rank, const int32_t *founders, uint32_t count);
weft_ep_t *fake_open(struct weft_ep_options options);

// weft_ep_activate waits for others: in a thread, until fake_end().
struct fake_activation {
  weft_ep_t *ep;
  pthread_t thread;
  int rc;
  char error[256];
  _Atomic bool done;
};
void fake_begin(struct fake_activation *activation, weft_ep_t *ep);
void fake_end(struct fake_activation *activation);

// Opens `count` founders, 0 to count - 1, four at most, and activates them. `op_timeout_ms` 0: that of fake_options().
void fake_found_with(weft_ep_t **eps, uint32_t count, uint32_t op_timeout_ms);
void fake_found(weft_ep_t **eps, uint32_t count);

const struct weft_ep_recv_args *fake_no_rows(void);

// Launches an operation and its combine.
uint64_t fake_launch(weft_ep_t *ep);
// The next operation of all ranks, eight at most, that take part in it; `info` is that of the first. A joiner may begin
// later.
void fake_operate(weft_ep_t **eps, uint32_t count, struct weft_ep_info *info);
// The last of `count` opens with `options` and joins, while the others operate. At the end all are at the same
// operation.
void fake_join(weft_ep_t **eps, uint32_t count, struct weft_ep_options options);

#endif
