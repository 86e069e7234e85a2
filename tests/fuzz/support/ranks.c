// Two ranks of this process on a local store, configured as on two hosts.
#include "fuzz/support/ranks.h"

#include <poll.h>

#include "base/time/clock.h"
#include "ep/core/doorbell.h"
#include "fuzz/support/fuzz.h"

enum { DEADLINE_MS = 60000 };

static weft_ep_t *open_rank(weft_store_t *store, int32_t rank, const char *host) {
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  options.store = store;
  options.rank = rank;
  options.capacity = 4;
  options.hidden = 128;
  options.max_tokens = 4;
  options.topk = 2;
  options.host_id = host;
  options.transport = "shm";
  options.listen = "127.0.0.1";
  weft_ep_t *ep;
  FUZZ_CHECK(weft_ep_open(&ep, &options, DEADLINE_MS) == 0);
  return ep;
}

const struct fuzz_ranks *fuzz_ranks(void) {
  static struct fuzz_ranks ranks;
  if (!ranks.own) {
    FUZZ_CHECK(weft_store_open_local(&ranks.store) == 0);
    ranks.own = open_rank(ranks.store, 0, "one");
    ranks.peer = open_rank(ranks.store, 1, "two");
  }
  return &ranks;
}

void fuzz_ranks_part(const struct fuzz_ranks *ranks) {
  struct weft_ep_stats stats = WEFT_EP_STATS_INIT;
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  do {
    FUZZ_CHECK(!clock_passed(deadline_ns));
    for (int32_t rank = 1; rank < 4; rank++)
      weft_ep_disconnect(ranks->own, &rank, 1, 0); // one that is down is let go of by what follows
    FUZZ_CHECK(weft_ep_connect(ranks->own, NULL, 0, 0) == 0);
    FUZZ_CHECK(weft_ep_get_stats(ranks->own, &stats) == 0);
    if (stats.window_bytes > EP_DOORBELL_SIZE)
      poll(NULL, 0, 1);
  } while (stats.window_bytes > EP_DOORBELL_SIZE);
}
