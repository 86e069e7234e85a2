// Access to a handle: none after close(), none in a forked child, and one call at a time if the C API requires it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

// The number of forks between the process that loaded the module and this one.
unsigned fork_count();

// The calls of one handle. Calls enter with the GIL held; `closed` and `exclusive` are read and written with it.
struct Gate {
  explicit Gate(const char *called) : what(called), born(fork_count()) {}
  const char *what; // its name in error sentences: "the agent"
  const unsigned born;
  std::atomic<int> calls{0};
  std::atomic<bool> closed{false};
  std::mutex mutex;
  std::condition_variable idle;

  bool forked() const { return born != fork_count(); }
  // Raises ClosedError unless the handle is open and of this process.
  void check_open() const;
  // The same, and raises BusyError if another call is in it. This is enough for a call that keeps the GIL.
  void check_alone() const;
  // Refuses new calls and waits, without the GIL, until no call is in it; calls `nudge` until then. False: it was
  // closed before. Raises BusyError inside a signal handler that interrupted a wait of this thread.
  bool close(const std::function<void()> &nudge = nullptr);
};

// A call that releases the GIL: counted from its beginning to its end.
class Entered {
public:
  enum Kind { SHARED, ALONE };
  Entered(Gate &gate, Kind kind);
  ~Entered();
  Entered(const Entered &) = delete;
  Entered &operator=(const Entered &) = delete;

private:
  Gate &gate_;
};

// A handle that is being opened. Raises ClosedError once the process ends, except on the main thread: nobody would
// close the handle of another thread, which would use libraries while the process takes them down.
class WhileOpening {
public:
  WhileOpening();
  ~WhileOpening();
  WhileOpening(const WhileOpening &) = delete;
  WhileOpening &operator=(const WhileOpening &) = delete;
};

// The process ends: waits, at most a second, for handles that other threads are opening, and refuses further ones.
void end_openings();
