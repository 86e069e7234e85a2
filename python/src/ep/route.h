// A route: the places of the tokens of an operation, kept for later operations.
#pragma once

#include <memory>

#include "ep/rank.h"

// Its memory, which its views and operations in progress keep.
struct RouteState {
  explicit RouteState(std::shared_ptr<RankState> owner) : rank(std::move(owner)) {}
  RouteState(const RouteState &) = delete;
  ~RouteState() { rank->retire(route); }
  std::shared_ptr<RankState> rank;
  weft_ep_route_t *route = nullptr;
  uint32_t max_topk = 0;
  uint64_t max_rows = 0;
  // The sizes with which it was planned or filled, to check later calls; the library compares the route itself.
  uint32_t tokens = 0, topk = 0; // topk 0: neither yet
  uint64_t rows = 0;             // room of the receive that filled it: rows of `y`
  int layout = 0;                // of that receive
  bool received = false;         // a dispatch has filled it, and was received
  Buffer planned;                // top-k that a kernel may still read
};

class Route {
public:
  explicit Route(std::shared_ptr<RouteState> made) : state(std::move(made)) {}
  std::shared_ptr<RouteState> state; // NULL: closed
  // The state that a call holds while it lets other threads run, which may close the route. Raises ClosedError, or
  // BusyError if another call uses its rank.
  std::shared_ptr<RouteState> must_be_open() const;
};

// The route in `_handle` of an object that Rank.route() of the package made. Raises TypeError or ClosedError.
std::shared_ptr<RouteState> route_of(nb::handle source);
// Notes in a route what an operation brings that fills it: when it has begun, and when it has been received.
void note_route_begun(const RankState &state, Operation &operation, const weft_ep_dispatch_args &args);
void note_route_received(const Operation &operation);

void bind_route(nb::module_ &m);
