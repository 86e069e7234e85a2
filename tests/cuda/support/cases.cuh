// Cases of a test of the public interface on GPUs: each is a process of its own, since what goes wrong ends it.
#ifndef TESTS_CUDA_CASES_CUH
#define TESTS_CUDA_CASES_CUH

#include "cuda/support/api.cuh"

struct test {
  const char *name;
  void (*body)(rank &);
};

// Runs those that the arguments name, else all. What main() is to return.
int run_tests(const test *tests, size_t count, int argc, char **argv);

#endif
