// Lets other threads of Python run.
#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

// Without the GIL, as long as it lives. A daemon thread that comes back when the interpreter has ended stays here until
// the process ends, as CPython has it since 3.14: before, it ends such a thread by unwinding what has to stay.
class WithoutGil {
public:
  WithoutGil() : thread_(PyEval_SaveThread()) {}
  ~WithoutGil() {
    try {
      PyEval_RestoreThread(thread_);
    } catch (...) { // pthread_exit(): it cannot be caught for good
      for (;;)
        pause();
    }
  }
  WithoutGil(const WithoutGil &) = delete;
  WithoutGil &operator=(const WithoutGil &) = delete;

private:
  PyThreadState *thread_;
};
