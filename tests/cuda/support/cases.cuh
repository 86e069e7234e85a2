// Cases of a test of the public interface on GPUs. Each case runs in a separate process, since a failure ends it.
#ifndef TESTS_CUDA_CASES_CUH
#define TESTS_CUDA_CASES_CUH

#include "cuda/support/api.cuh"

struct test {
  const char *name;
  void (*body)(rank &);
};

// Runs the cases that the arguments name, or all cases without arguments. Returns the exit status for main().
int run_tests(const test *tests, size_t count, int argc, char **argv);

#endif
