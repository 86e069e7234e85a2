// Waits during which other Python threads run and signals are handled.
#include "core/wait.h"

#include <chrono>
#include <nanobind/nanobind.h>
#include <system_error>
#include <thread>

#include "core/errors.h"
#include "core/gil.h"

namespace nb = nanobind;
using clock_type = std::chrono::steady_clock;

static std::atomic<unsigned long> main_thread{0};
static thread_local int waits = 0;

enum { SLICE_MS = 30 }; // the longest delay until a signal is handled

bool on_main_thread() {
  return PyThread_get_thread_ident() == main_thread.load(std::memory_order_relaxed);
}
void set_main_thread(unsigned long ident) {
  main_thread.store(ident);
}
bool in_wait() {
  return waits > 0;
}

void run_signal_handlers() {
  waits++;
  int rc = PyErr_CheckSignals();
  waits--;
  if (rc != 0)
    throw nb::python_error();
}

namespace {

// An attempt and its result, shared by the thread that runs it and the thread that waits.
struct Job {
  Wait wait;
  std::shared_ptr<Gate> gate;
  std::unique_ptr<Entered> entered;
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::atomic<bool> abandoned{false};
  int rc = 0;
  std::string sentence;

  void run();
};

void Job::run() {
  const auto begin = clock_type::now();
  for (;;) {
    uint64_t gone = (uint64_t)std::chrono::duration_cast<std::chrono::milliseconds>(clock_type::now() - begin).count();
    uint64_t left = wait.timeout_ms == WEFT_WAIT_FOREVER
                        ? UINT64_MAX
                        : wait.timeout_ms - (gone < wait.timeout_ms ? gone : wait.timeout_ms);
    rc = wait.attempt((uint32_t)(left < wait.attempt_ms ? left : wait.attempt_ms));
    if (rc < 0)
      sentence = weft_last_error();
    bool again = rc == WEFT_ERR_TIMEOUT && left > wait.attempt_ms;
    if (!again || abandoned.load() || gate->closed.load())
      return;
  }
}

} // namespace

// Waits until the job is done, on the thread that runs signal handlers.
static void obey_signals(const std::shared_ptr<Job> &job) {
  try {
    for (;;) {
      {
        WithoutGil release;
        std::unique_lock<std::mutex> lock(job->mutex);
        if (job->changed.wait_for(lock, std::chrono::milliseconds(SLICE_MS), [&] { return job->done; }))
          return;
      }
      run_signal_handlers();
      if (job->gate->closed.load() && job->wait.interrupt)
        job->wait.interrupt();
    }
  } catch (...) {
    std::unique_lock<std::mutex> lock(job->mutex, std::defer_lock);
    WithoutGil release;
    lock.lock();
    job->abandoned.store(true);
    while (!job->done && (job->wait.stays || job->wait.interrupt)) {
      if (job->wait.interrupt)
        job->wait.interrupt();
      job->changed.wait_for(lock, std::chrono::milliseconds(SLICE_MS));
    }
    if (job->done && job->rc >= 0 && job->wait.undo) {
      job->wait.undo();
      job->wait.undo = nullptr;
    }
    throw;
  }
}

// The thread of an attempt. It uses no Python objects.
static void run_alone(const std::shared_ptr<Job> &job) {
  job->run();
  job->entered.reset();
  std::lock_guard<std::mutex> lock(job->mutex);
  job->done = true;
  bool unwanted = job->abandoned.load() && !job->wait.stays && !job->wait.interrupt;
  if (unwanted && job->rc >= 0 && job->wait.undo) {
    job->wait.undo();
    job->wait.undo = nullptr;
  }
  job->changed.notify_all();
}

int run_wait(const std::shared_ptr<Gate> &gate, Entered::Kind kind, Wait wait) {
  auto job = std::make_shared<Job>();
  job->gate = gate;
  job->wait = std::move(wait);
  job->entered = std::make_unique<Entered>(*gate, kind);
  if (on_main_thread() && job->wait.timeout_ms > SLICE_MS) {
    try {
      std::thread([job] { run_alone(job); }).detach();
    } catch (const std::system_error &) {
      raise_code(WEFT_ERR_LIMIT, "no more threads");
    }
    obey_signals(job);
  } else {
    WithoutGil release;
    job->run();
  }
  job->entered.reset();
  if (job->rc < 0) {
    gate->check_open();
    raise_code(job->rc, job->sentence);
  }
  return job->rc;
}
