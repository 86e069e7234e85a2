// A transport's plug-in whose calls all fail with a message, and which changes a signal handler when it is loaded.
#include <signal.h>

#include "base/fail.h"
#include "transport/transport.h"

// As libraries of networks do.
__attribute__((constructor)) static void take_signals(void) {
  signal(SIGUSR2, SIG_IGN);
}

static int probe(char *why, size_t cap) {
  (void)why, (void)cap;
  return fail(WEFT_ERR_UNSUPPORTED, "the plug-in says %d", 42);
}

static int open_worker(const struct transport_options *options, struct transport_worker **worker) {
  (void)options, (void)worker;
  fail(WEFT_ERR_UNREACHABLE, "no road");
  return fail_context(WEFT_ERR_UNREACHABLE, "opening");
}

extern const struct transport transport_ucx;
const struct transport transport_ucx = {.name = "ucx", .what = "a fake", .probe = probe, .open = open_worker};
