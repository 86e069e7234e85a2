// Loads the kernels for many tokens.
#include "cuda/throughput/launch.h"

extern "C" int cuda_load_throughput(bool *early) {
  int rc = cuda_load_plan(early);
  rc = rc ? rc : cuda_load_rows(early);
  return rc ? rc : cuda_load_answers(early);
}
