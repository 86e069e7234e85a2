// Who may use a handle: none after close(), none in a forked child, and one call at a time where C asks for that.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

// How many forks lie between this process and the one that loaded the module.
unsigned fork_count();

// The calls of one handle. Calls enter with the GIL held; `closed` and `exclusive` are read and written with it.
struct Gate {
  explicit Gate(const char *called) : what(called), born(fork_count()) {}
  const char *what; // as sentences call it: "the agent"
  const unsigned born;
  std::atomic<int> calls{0};
  std::atomic<bool> closed{false};
  std::mutex mutex;
  std::condition_variable idle;

  bool forked() const { return born != fork_count(); }
  // Raises ClosedError unless the handle is open and of this process.
  void check_open() const;
  // Likewise, and BusyError where another call is in it. Enough for a call that keeps the GIL.
  void check_alone() const;
  // Closes it for new calls and waits, without the GIL, until none is in it; calls `nudge` until then. False: it was
  // closed before. Raises BusyError inside a handler of a signal that has come to a wait of this thread.
  bool close(const std::function<void()> &nudge = nullptr);
};

// A call that lets the GIL go: counted from its beginning to its end.
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
