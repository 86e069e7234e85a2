// Ends waits of operations from time to time, so that the main thread checks for signals. An interrupted call of an
// operation continues where it was when it is repeated, so nothing is lost.
#include <algorithm>
#include <chrono>
#include <new>
#include <pthread.h>
#include <thread>

#include "ep/rank.h"

namespace {

struct Watcher {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<RankState *> ranks;
  bool running = false;
  void run();
};

Watcher &watcher() {
  static Watcher *made = [] {
    auto *fresh = new Watcher; // never freed: its thread may outlive static objects
    pthread_atfork(nullptr, nullptr, [] { new (&watcher()) Watcher; }); // its thread does not exist in the child
    return fresh;
  }();
  return *made;
}

void Watcher::run() {
  std::unique_lock<std::mutex> lock(mutex);
  while (!ranks.empty()) {
    changed.wait_for(lock, std::chrono::milliseconds(50));
    for (RankState *rank : ranks) {
      unsigned turn = rank->turns.load(std::memory_order_relaxed);
      if (turn % 2 == 1 && turn == rank->seen) // the same call as the last time
        weft_ep_interrupt(rank->ep);
      rank->seen = turn;
    }
  }
  running = false;
}

} // namespace

void watch_signals(RankState *rank) {
  Watcher &all = watcher();
  std::lock_guard<std::mutex> lock(all.mutex);
  if (!all.running) {
    std::thread([&all] { all.run(); }).detach(); // throws if no thread can be started: nothing has changed then
    all.running = true;
  }
  all.ranks.push_back(rank);
}

void unwatch_signals(RankState *rank) {
  Watcher &all = watcher();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.ranks.erase(std::remove(all.ranks.begin(), all.ranks.end(), rank), all.ranks.end());
  all.changed.notify_all();
}
