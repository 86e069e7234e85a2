// Waits that let other threads of Python run and obey signals.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "core/gate.h"

// Whether signal handlers run on this thread, which is then Python's main thread.
bool on_main_thread();
void set_main_thread(unsigned long ident);

// Whether this thread is in a wait of this module, and so in a handler of a signal.
bool in_wait();

// Runs the handlers of pending signals; raises their exceptions.
void run_signal_handlers();

// What a wait does. All that `attempt` uses belongs to it (captured by value or by shared_ptr), since it may go on
// after its caller has been interrupted.
struct Wait {
  uint32_t timeout_ms = 0;
  uint32_t attempt_ms = 5000;           // the longest that one attempt may take before it looks whether it is wanted
  bool stays = false;                   // an attempt under way is waited for, also after a signal
  std::function<int(uint32_t)> attempt; // called without the GIL; returns 0, 1 or a negative code
  std::function<void()> interrupt;      // ends an attempt early, where something can
  std::function<void()> undo;           // after an attempt that succeeded and that nobody waits for any more
};

// Runs attempts until one ends otherwise than by its deadline, or the time has passed; returns what that one did.
// Raises for a negative code. On the main thread the attempts run on a thread of their own, so that signals are obeyed.
int run_wait(const std::shared_ptr<Gate> &gate, Entered::Kind kind, Wait wait);
