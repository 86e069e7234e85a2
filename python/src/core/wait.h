// Waits during which other Python threads run and signals are handled.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "core/gate.h"

// Whether signal handlers run on this thread, which is then Python's main thread.
bool on_main_thread();
void set_main_thread(unsigned long ident);

// Whether this thread is in a wait of this module, and therefore in a signal handler.
bool in_wait();

// Runs the handlers of pending signals; raises their exceptions.
void run_signal_handlers();

// The parts of a wait. `attempt` owns everything that it uses (captured by value or by shared_ptr), since it may
// continue after its caller was interrupted.
struct Wait {
  uint32_t timeout_ms = 0;
  uint32_t attempt_ms = 5000;           // the longest time of one attempt: then it checks whether it is wanted
  bool stays = false;                   // the wait lasts until the current attempt ends, also after a signal
  std::function<int(uint32_t)> attempt; // called without the GIL; returns 0, 1 or a negative code
  std::function<void()> interrupt;      // ends an attempt early, if that is possible
  std::function<void()> undo;           // called if an attempt succeeds after its caller was interrupted
};

// Runs attempts until one ends for another reason than its deadline, or the time has passed; returns its result. Raises
// for a negative code. On the main thread the attempts run on a separate thread, so that signals are handled.
int run_wait(const std::shared_ptr<Gate> &gate, Entered::Kind kind, Wait wait);
