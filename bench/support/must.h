// Errors of the library end a benchmark.
#ifndef BENCH_MUST_H
#define BENCH_MUST_H

#include <stdio.h>
#include <stdlib.h>

#include <weft/err.h>

// Ends the process with a sentence if `rc` is an error; `what` names the failed action.
static inline void must(int rc, const char *what) {
  if (rc >= 0)
    return;
  fprintf(stderr, "%s: %s: %s\n", what, weft_strerror(rc), weft_last_error());
  exit(1);
}

#endif
