// Counts forks, by a handler that runs in each child.
#include "base/forked.h"

#include <pthread.h>

#include "base/fail.h"

atomic_uint forked_times;

static void in_child(void) {
  atomic_fetch_add_explicit(&forked_times, 1, memory_order_relaxed);
}

// Runs before main(), so before each open. It fails only for lack of memory; the program ends soon then.
__attribute__((constructor)) static void count_forks(void) {
  (void)pthread_atfork(NULL, NULL, in_child);
}

int forked_check(uint32_t opened, const char *what) {
  if (!forked_since(opened))
    return 0;
  return fail(WEFT_ERR_CLOSED,
              "%s was opened before this process was forked, and works only in the process that opened it: open "
              "another one here, or call exec()",
              what);
}
