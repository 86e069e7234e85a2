// A rank of a group: its handle, and the data that its open operations need.
#pragma once

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "core/buffer.h"
#include "core/gate.h"
#include "store/store.h"

struct RouteState;

// The state of an operation on this side, to check later calls. An ended operation is moved out of its place and
// destroyed at the end of the call: releasing its memory may run Python code, which may use the rank.
struct Operation {
  static constexpr uint64_t NONE = UINT64_MAX;
  uint64_t number = NONE;
  uint32_t tokens = 0, topk = 0;           // of this rank's dispatch
  uint32_t row_bytes = 0, scale_items = 0; // of the rows that travel
  int dtype = 0;
  bool received = false;
  int layout = 0;                    // of the receive
  uint64_t rows = 0;                 // room of the receive: rows of `y`
  std::vector<Buffer> kept;          // memory that the library reads after the call has returned
  nb::object receive;                // the Receive object of the call
  std::shared_ptr<RouteState> route; // until it is received; CUDA: as long as `kept`
  bool fills = false;                // the dispatch fills the route
};

struct RankState : Gate {
  RankState() : Gate("the rank") {}
  ~RankState() {
    weft_ep_close(ep);
    free_retired();
  }
  weft_ep_t *ep = nullptr; // NULL once it is closed
  std::shared_ptr<StoreState> store;
  bool cuda = false;
  uint32_t capacity = 0, max_tokens = 0, hidden = 0, topk = 0, experts = 0;
  int dtype = 0;
  std::atomic<unsigned> turns{0};   // odd while a call of an operation runs on the main thread
  unsigned seen = 0;                // the value that the watcher of signals read last
  std::atomic<bool> asked{false};   // interrupt() was called
  std::atomic<bool> stopped{false}; // a wait was interrupted by a signal
  std::array<Operation, 2> operations;
  std::vector<Buffer> interrupted; // of a call that a signal has ended: its buffers stay in use
  std::vector<nb::object> interrupted_objects;
  std::vector<int32_t> lost;              // [capacity] room for the library to write into
  std::vector<weft_ep_missing> missing;   // [max_tokens * topk] the same
  std::vector<weft_ep_route_t *> retired; // routes that were released while another call used the handle
  const char *zero_copy = nullptr;        // weft_ep_get_zero_copy_memory(), which weft_ep_close() frees
  uint64_t zero_copy_bytes = 0;
  int views = 0;        // the number of views of it that Python holds
  bool dropped = false; // the last view closes the rank
  // Raises BusyError while Python has a view of the zero-copy memory.
  void shut();
  // Whether Python has a view of the zero-copy memory that the rank itself does not keep. The GIL is held.
  bool lends();
  void keep_no_zero_copy();
  // Frees a route now or, while another thread is in the handle, later. The GIL is held.
  void retire(weft_ep_route_t *route);
  void free_retired();
};

class Rank {
public:
  explicit Rank(std::shared_ptr<RankState> made) : state(std::move(made)) {}
  ~Rank();
  std::shared_ptr<RankState> state;
};

// While a rank is watched, its waits on the main thread are ended from time to time, so that signals are handled.
void watch_signals(RankState *rank);
void unwatch_signals(RankState *rank);

// A stream of CUDA: None, a number, or an object of a framework.
void *stream_of(nb::handle source);

void bind_rank(nb::module_ &m);
void bind_receive(nb::module_ &m);
void bind_operations(nb::class_<Rank> &rank, nb::module_ &m);
void bind_counters(nb::class_<Rank> &rank, nb::module_ &m);
void bind_zero_copy(nb::class_<Rank> &rank, nb::module_ &m);
// Closes a rank without references, or leaves that to its last view; the GIL is held.
void shut_dropped(const std::shared_ptr<RankState> &state);
