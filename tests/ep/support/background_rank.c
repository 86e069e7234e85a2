// A rank whose thread runs barriers while a test makes other ranks fail.
#include "ep/support/background_rank.h"

#include <sched.h>
#include <stdio.h>

#include "cmocka_all.h"

#include "base/time/clock.h"

enum { DEADLINE_MS = 30000 };

static bool is_alone(const weft_ep_t *ep) {
  uint32_t count = 0;
  weft_ep_view(ep, NULL, NULL, 0, &count);
  return count == 1;
}

static void *reside(void *arg) {
  struct background_rank *resident = arg;
  uint64_t deadline = 0;
  while (!resident->stop || !is_alone(resident->ep)) {
    int rc = weft_ep_barrier(resident->ep);
    if (rc != 0 && rc != WEFT_ERR_PEER_LOST) {
      snprintf(resident->error, sizeof resident->error, "barrier: %s: %s", weft_err_name(rc), weft_last_error());
      return NULL;
    }
    resident->operations++;
    if (resident->stop && deadline == 0)
      deadline = clock_deadline_ms(DEADLINE_MS);
    if (deadline != 0 && clock_passed(deadline)) {
      snprintf(resident->error, sizeof resident->error, "the guest is still in the view");
      return NULL;
    }
    sched_yield();
  }
  return NULL;
}

void background_rank_start(struct background_rank *resident, const struct weft_ep_options *options) {
  *resident = (struct background_rank){.ep = NULL};
  assert_int_equal(weft_ep_open(&resident->ep, options, DEADLINE_MS), 0);
  assert_int_equal(weft_ep_activate(resident->ep, DEADLINE_MS), 0);
  assert_int_equal(pthread_create(&resident->thread, NULL, reside, resident), 0);
}

void background_rank_assert_runs(struct background_rank *resident) {
  unsigned wanted = resident->operations + 3;
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  while (resident->operations < wanted && !clock_passed(deadline))
    sched_yield();
  if (resident->operations < wanted)
    fail_msg("the rank that is there stands still: %s", resident->error);
}

void background_rank_end(struct background_rank *resident) {
  resident->stop = true;
  pthread_join(resident->thread, NULL);
  if (resident->error[0])
    fail_msg("the rank that is there: %s", resident->error);
  weft_ep_close(resident->ep);
}
