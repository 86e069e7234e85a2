// Lets other threads of Python run.
#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

// Releases the GIL during its lifetime. A daemon thread that returns after the interpreter has ended stays here until
// the process ends, as in CPython since 3.14; earlier versions unwind the stack of such a thread, which must not
// happen.
class WithoutGil {
public:
  WithoutGil() : thread_(PyEval_SaveThread()) {}
  ~WithoutGil() {
    try {
      PyEval_RestoreThread(thread_);
    } catch (...) { // pthread_exit(): its exception cannot be swallowed
      for (;;)
        pause();
    }
  }
  WithoutGil(const WithoutGil &) = delete;
  WithoutGil &operator=(const WithoutGil &) = delete;

private:
  PyThreadState *thread_;
};
