// The store inside the process, as the kind of store under test.
#include "conformance/kind.h"

// A store of this process lives as long as its handle: each test has its own.
static bool start(void) {
  return true;
}

static void stop(void) {}

const struct kind kind = {.name = "local", .start = start, .stop = stop, .open = weft_store_open_local};
