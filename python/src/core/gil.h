// Lets other threads of Python run.
#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

// Where a daemon thread that wants the GIL after the interpreter has ended stays until the process ends, as in CPython
// since 3.14. Earlier versions unwind the stack of such a thread by pthread_exit(), which must not happen.
[[noreturn]] inline void stay_for_ever() {
  for (;;)
    pause();
}

// Releases the GIL during its lifetime.
class WithoutGil {
public:
  WithoutGil() : thread_(PyEval_SaveThread()) {}
  ~WithoutGil() {
    try {
      PyEval_RestoreThread(thread_);
    } catch (...) { // pthread_exit(): its exception cannot be swallowed
      stay_for_ever();
    }
  }
  WithoutGil(const WithoutGil &) = delete;
  WithoutGil &operator=(const WithoutGil &) = delete;

private:
  PyThreadState *thread_;
};
