// Access to a handle.
#include "core/gate.h"

#include <chrono>
#include <nanobind/nanobind.h>
#include <pthread.h>
#include <thread>

#include "core/errors.h"
#include "core/gil.h"
#include "core/wait.h"

namespace nb = nanobind;

static std::atomic<unsigned> forks{0};
static std::atomic<int> openings{0};
static std::atomic<bool> ending{false};

unsigned fork_count() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] {
    forks.fetch_add(1);
    openings.store(0); // the threads that were opening do not exist in the child
  });
  (void)registered;
  return forks.load(std::memory_order_relaxed);
}

void Gate::check_open() const {
  if (forked())
    raise_code(WEFT_ERR_CLOSED,
               std::string(what) + " was opened before this process was forked: open another one here");
  if (closed.load(std::memory_order_relaxed))
    raise_code(WEFT_ERR_CLOSED, std::string(what) + " is closed");
}

void Gate::check_alone() const {
  check_open();
  if (calls.load(std::memory_order_relaxed) > 0)
    raise_code(WEFT_ERR_BUSY, std::string("another call is using ") + what + ": one at a time may");
}

bool Gate::close(const std::function<void()> &nudge) {
  if (forked())
    return !closed.exchange(true);
  if (closed.load())
    return false;
  if (calls.load() > 0 && in_wait())
    raise_code(WEFT_ERR_BUSY, std::string(what) + " cannot be closed by a handler of a signal that came to a wait: "
                                                  "raise an exception there, and close it afterwards");
  closed.store(true);
  WithoutGil release;
  std::unique_lock<std::mutex> lock(mutex);
  while (calls.load() > 0) {
    if (nudge)
      nudge();
    idle.wait_for(lock, std::chrono::milliseconds(20));
  }
  return true;
}

Entered::Entered(Gate &gate, Kind kind) : gate_(gate) {
  if (kind == ALONE)
    gate.check_alone();
  else
    gate.check_open();
  gate.calls.fetch_add(1);
}

Entered::~Entered() {
  if (gate_.calls.fetch_sub(1) == 1 && gate_.closed.load() && !gate_.forked()) {
    std::lock_guard<std::mutex> lock(gate_.mutex);
    gate_.idle.notify_all();
  }
}

WhileOpening::WhileOpening() {
  if (ending.load() && !on_main_thread())
    raise_code(WEFT_ERR_CLOSED, "the process ends: a thread beside the main one cannot open anything any more");
  openings.fetch_add(1);
}

WhileOpening::~WhileOpening() {
  openings.fetch_sub(1);
}

void end_openings() {
  ending.store(true);
  WithoutGil release;
  for (int i = 0; i < 1000 && openings.load() > 0; i++)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}
