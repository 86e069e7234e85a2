// Code that the calls of operations share: their results, waits, and the handling of signals.
#pragma once

#include "core/errors.h"

#include "core/gil.h"
#include "core/text.h"
#include "core/wait.h"
#include "ep/rank.h"

// The result of a dispatch: struct weft_ep_info, with the lost ranks.
struct Info {
  weft_ep_info c = WEFT_EP_INFO_INIT;
  std::vector<int32_t> lost;
};

struct Result {
  weft_ep_result c = WEFT_EP_RESULT_INIT;
  std::vector<weft_ep_missing> missing;
};

// Room for the lost ranks that the library writes: it belongs to the rank, so a call without losses allocates nothing.
inline void give_room(RankState &state, Info &info) {
  info.c.lost = state.lost.data();
  info.c.lost_cap = (uint32_t)state.lost.size();
}

inline void take_lost(RankState &state, Info &info) {
  uint32_t count = info.c.num_lost < info.c.lost_cap ? info.c.num_lost : info.c.lost_cap;
  if (count)
    info.lost.assign(state.lost.begin(), state.lost.begin() + count);
  info.c.lost = nullptr;
}

inline void give_room(RankState &state, Result &result) {
  result.c.missing = state.missing.data();
  result.c.missing_cap = (uint32_t)state.missing.size();
}

inline void take_missing(RankState &state, Result &result) {
  uint32_t count = result.c.num_missing < result.c.missing_cap ? result.c.num_missing : result.c.missing_cap;
  if (count)
    result.missing.assign(state.missing.begin(), state.missing.begin() + count);
  result.c.missing = nullptr;
}

// Marks a call of an operation on the main thread, for the watcher of signals.
class Turn {
public:
  Turn(RankState &state, bool main) : state_(state), main_(main) {
    if (main_)
      state_.turns.fetch_add(1, std::memory_order_relaxed);
  }
  ~Turn() {
    if (main_)
      state_.turns.fetch_add(1, std::memory_order_relaxed);
  }

private:
  RankState &state_;
  bool main_;
};

// Repeats a call of an operation while the watcher of signals ends it. `call` gets the number of previous attempts.
// `keep` takes the buffers that stay in use when a signal or interrupt() ends the wait.
template <class F, class K> int operate(RankState &state, Failure &failure, F call, K keep) {
  bool main = on_main_thread();
  Entered entered(state, Entered::ALONE);
  if (!state.retired.empty())
    state.free_retired();
  for (int times = 0;; times++) {
    int rc;
    {
      WithoutGil release;
      Turn turn(state, main);
      rc = call(times);
      if (rc < 0)
        failure.sentence = weft_last_error();
    }
    failure.code = rc;
    if (rc != WEFT_ERR_CANCELED) {
      if (!state.interrupted.empty() || !state.interrupted_objects.empty()) {
        state.interrupted.clear();
        state.interrupted_objects.clear();
      }
      return rc;
    }
    try {
      if (state.closed.load())
        raise_code(WEFT_ERR_CLOSED, "the rank was closed meanwhile");
      if (state.asked.exchange(false))
        raise_failure(failure);
      if (main)
        run_signal_handlers();
    } catch (...) {
      keep();
      throw;
    }
  }
}

// The operation with that number. Raises InvalidError if there is none.
inline Operation &must_find(RankState &state, uint64_t op) {
  Operation &operation = state.operations[op % 2];
  if (operation.number != op)
    raise_code(WEFT_ERR_INVALID, "operation " + std::to_string(op) + " is not open here");
  return operation;
}

// The same of a received operation.
inline Operation &must_find_received(RankState &state, uint64_t op) {
  Operation &operation = must_find(state, op);
  if (!operation.received)
    raise_code(WEFT_ERR_INVALID, "operation " + std::to_string(op) + " was not received");
  return operation;
}

// The arguments of a dispatch from Python. NULL is None.
struct Dispatched {
  nb::object x, topk_idx, topk_weights, scales, route, stream, num_tokens_at;
  int dtype;
  uint32_t processors, flags;
  bool exact = false; // x must have exactly as many rows as topk_idx
};

// The arguments of a combine from Python. NULL is None.
struct Combined {
  nb::object y, out, topk_weights, row_weights, out_weights, bias, stream;
  int dtype;
  uint32_t processors, flags;
  bool exact = false; // the arrays must have exactly the shapes of the operation
};

inline bool given_none(const nb::object &one) {
  return !one.is_valid() || one.is_none();
}

// Both halves of a combine, or one of them.
enum Half { BOTH, SEND, RECV };

// (number, Info or None); the number; Info or None.
nb::object dispatch_into(RankState &state, nb::handle into, const Dispatched &given, bool want_info);
uint64_t dispatch_send_of(RankState &state, const Dispatched &given);
nb::object dispatch_recv_into(RankState &state, uint64_t op, nb::handle into, nb::handle stream, bool want_info);
// The result, or None.
nb::object combine_of(RankState &state, Half half, uint64_t op, const Combined &given, bool want_result);

void bind_dispatch(nb::class_<Rank> &rank);
void bind_combine(nb::class_<Rank> &rank);
void bind_prepared(nb::class_<Rank> &rank, nb::module_ &m);
