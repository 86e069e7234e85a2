#include "ep/support/insist.h"

#include "base/random.h"
#include "base/time/clock.h"

enum { MOST_MS = 4, DEADLINE_MS = 60000 };

// An interruption ends the next wait, whichever call waits.
static bool has_no_time(int rc) {
  return rc == WEFT_ERR_TIMEOUT || rc == WEFT_ERR_CANCELED;
}

int insist(struct insister *insister, uint32_t most, int (*call)(weft_ep_t *ep, uint32_t timeout_ms)) {
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  int rc = WEFT_ERR_TIMEOUT;
  for (uint32_t i = 0; has_no_time(rc) && (most == 0 || i < most) && !clock_passed(deadline_ns); i++) {
    uint32_t most_ms = MOST_MS << (i < 64 ? i / 8 : 8);
    rc = call(insister->ep, (uint32_t)(random_next(&insister->random) % (most_ms + 1)));
    insister->calls++;
    insister->timeouts += has_no_time(rc);
  }
  return rc;
}

static int await_start(weft_ep_t *ep, uint32_t timeout_ms) {
  return weft_ep_await_start(ep, timeout_ms, NULL);
}

static int leave(weft_ep_t *ep, uint32_t timeout_ms) {
  int32_t self = weft_ep_rank(ep);
  return weft_ep_disconnect(ep, &self, 1, timeout_ms);
}

int insist_on_coming(struct insister *insister, bool *gave_up) {
  uint64_t drawn = random_next(&insister->random);
  uint32_t most = drawn % 4 == 0 ? 1 + (uint32_t)(drawn >> 8) % 2 : 0;
  bool offers = (drawn >> 16) % 3 == 0, waits = offers && (drawn >> 24) % 2;
  int rc = offers ? insist(insister, most, weft_ep_offer) : 0;
  if (rc == 0)
    rc = insist(insister, most, waits ? await_start : weft_ep_activate);
  *gave_up = has_no_time(rc) && most > 0;
  return *gave_up ? 0 : rc;
}

int insist_on_leaving(struct insister *insister) {
  return insist(insister, 0, leave);
}

int insist_on_another(struct insister *insister, int32_t rank, uint32_t *taken) {
  struct weft_ep_change_args change = {.size = sizeof change, .add = &rank, .num_add = 1};
  int rc = weft_ep_change(insister->ep, &change, (uint32_t)(random_next(&insister->random) % 2));
  *taken += rc == 0;
  return has_no_time(rc) ? 0 : rc;
}
