// The possible cause of an error of a transfer.
#include <poll.h>

#include "base/time/clock.h"
#include "meet/meet.h"

enum { MOMENT_MS = 2000 };

static bool may_follow(int err) {
  return err == WEFT_ERR_PEER_LOST || err == WEFT_ERR_UNREACHABLE || err == WEFT_ERR_NOT_CONNECTED ||
         err == WEFT_ERR_NOT_FOUND || err == WEFT_ERR_CLOSED || err == WEFT_ERR_TIMEOUT;
}

int meet_cause(struct meet *meet, int err) {
  uint64_t deadline_ns = clock_deadline_ms(MOMENT_MS);
  while (may_follow(err) && !clock_passed(deadline_ns)) {
    int cause = meet_lost(meet, NULL, NULL, 0) ? meet_barrier(meet, "cause", MOMENT_MS) : 0;
    if (cause)
      return cause;
    poll(NULL, 0, 1); // between two looks
  }
  return 0;
}
