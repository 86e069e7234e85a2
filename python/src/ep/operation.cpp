// Operations: dispatch, combine, and their halves.
#include "core/errors.h"

#include "ep/rank.h"

#include "core/text.h"
#include "core/wait.h"
#include "ep/receive.h"

namespace {

// What a dispatch did: struct weft_ep_info, with the ranks that were lost.
struct Info {
  weft_ep_info c = WEFT_EP_INFO_INIT;
  std::vector<int32_t> lost;
};

struct Result {
  weft_ep_result c = WEFT_EP_RESULT_INIT;
  std::vector<weft_ep_missing> missing;
};

// Room for what the library writes of losses: the rank's own, so that nothing is allocated where nobody was lost.
void give_room(RankState &state, Info &info) {
  info.c.lost = state.lost.data();
  info.c.lost_cap = (uint32_t)state.lost.size();
}

void take_lost(RankState &state, Info &info) {
  uint32_t count = info.c.num_lost < info.c.lost_cap ? info.c.num_lost : info.c.lost_cap;
  if (count)
    info.lost.assign(state.lost.begin(), state.lost.begin() + count);
  info.c.lost = nullptr;
}

void give_room(RankState &state, Result &result) {
  result.c.missing = state.missing.data();
  result.c.missing_cap = (uint32_t)state.missing.size();
}

void take_missing(RankState &state, Result &result) {
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

// Makes a call of an operation until it ends otherwise than by the watcher of signals. `call` is told how often it was
// made before. `keep` takes the buffers that stay in use when a signal or interrupt() ends the wait.
template <class F, class K> int operate(RankState &state, Failure &failure, F call, K keep) {
  bool main = on_main_thread();
  Entered entered(state, Entered::ALONE);
  for (int times = 0;; times++) {
    int rc;
    {
      nb::gil_scoped_release release;
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

// The arguments of a dispatch, with what holds their memory.
struct Sending {
  weft_ep_dispatch_args args = WEFT_EP_DISPATCH_ARGS_INIT;
  std::vector<Buffer> kept;
  Operation operation;
};

void take_topk(Sending &send, RankState &state, nb::handle source) {
  Buffer array = Buffer::of(source, "topk_idx");
  if (array.dims() != 2 || !array.contiguous() || (array.item() != 8 && array.item() != 4) ||
      array.kind() == Kind::FLOAT || array.kind() == Kind::BFLOAT)
    throw nb::type_error("topk_idx: a contiguous array of int64 or int32 of shape [tokens][top-k] is wanted");
  check_array(array, {"topk_idx", array.item(), false, 0, false}, state.cuda);
  if (array.shape(0) > UINT32_MAX || array.shape(1) > UINT32_MAX || array.shape(1) == 0)
    raise_code(WEFT_ERR_INVALID, "topk_idx: its shape is [tokens][top-k], with at least one expert for a token");
  send.operation.tokens = (uint32_t)array.shape(0);
  send.operation.topk = (uint32_t)array.shape(1);
  if (array.item() == 8)
    send.args.topk_idx = (const int64_t *)array.data();
  else
    send.args.topk_idx32 = (const int32_t *)array.data();
  send.args.num_tokens = send.operation.tokens;
  send.args.topk = send.operation.topk;
  send.kept.push_back(std::move(array));
}

// x: [tokens][hidden]; OPAQUE: [tokens][any], whose rows are bytes.
void take_rows(Sending &send, RankState &state, nb::handle source, bool has_scales) {
  Buffer array = Buffer::of(source, "x");
  int dtype = send.operation.dtype;
  bool opaque = dtype == WEFT_EP_OPAQUE;
  uint32_t item = opaque ? array.item() : has_scales ? 1 : 2;
  if (array.dims() != 2)
    throw nb::type_error("x: an array of shape [tokens][hidden] is wanted");
  if (!opaque)
    check_array(array, {"x", item, false, 0, false}, state.cuda);
  else if (state.cuda ? !array.on_gpu() : !array.on_host())
    throw nb::type_error("x: it is not in the rank's memory");
  if (array.shape(0) < (int64_t)send.operation.tokens)
    raise_code(WEFT_ERR_INVALID,
               "x has " + std::to_string(array.shape(0)) + " rows, topk_idx " + std::to_string(send.operation.tokens));
  if (!opaque && array.shape(1) != (int64_t)state.hidden)
    raise_code(WEFT_ERR_INVALID, "x has rows of " + std::to_string(array.shape(1)) + " values, the group " +
                                     std::to_string(state.hidden));
  uint64_t row = (uint64_t)array.shape(1) * item;
  if (!array.contiguous_from(1) || array.stride(0) < 0 || (array.shape(0) > 1 && (uint64_t)array.stride(0) < row) ||
      row > UINT32_MAX)
    raise_code(WEFT_ERR_INVALID, "x: the values of a row have to be one after the other, and rows apart");
  if (array.shape(0) > 1 && (uint64_t)array.stride(0) != row)
    send.args.row_stride = (uint64_t)array.stride(0);
  if (opaque)
    send.args.row_bytes = send.operation.row_bytes = (uint32_t)row;
  send.args.x = array.data();
  send.kept.push_back(std::move(array));
}

// scales: [tokens][n], with any strides.
void take_scales(Sending &send, RankState &state, nb::handle source) {
  int dtype = send.operation.dtype;
  Buffer array = Buffer::of(source, "scales");
  if (array.dims() != 2 || array.shape(0) < (int64_t)send.operation.tokens)
    throw nb::type_error("scales: an array of shape [tokens][n] is wanted");
  check_array(array, {"scales", 4, dtype == WEFT_EP_FP8 || dtype == WEFT_EP_FP8_POW2, 0, false}, state.cuda);
  if (dtype == WEFT_EP_OPAQUE) {
    send.operation.scale_items = (uint32_t)array.shape(1);
    send.args.scale_bytes = 4 * (uint32_t)array.shape(1);
  } else if (array.shape(1) != (int64_t)send.operation.scale_items) {
    raise_code(WEFT_ERR_INVALID, "scales has " + std::to_string(array.shape(1)) + " for a row, this type " +
                                     std::to_string(send.operation.scale_items));
  }
  for (int i = 0; i < 2; i++) {
    if (array.stride(i) % 4 != 0 || (array.shape(i) > 1 && array.stride(i) <= 0))
      raise_code(WEFT_ERR_INVALID, "scales: strides have to be positive, and whole elements");
  }
  if (array.shape(0) > 1)
    send.args.scale_row_stride = (uint64_t)array.stride(0) / 4;
  if (array.shape(1) > 1)
    send.args.scale_block_stride = (uint64_t)array.stride(1) / 4;
  send.args.scales = array.data();
  send.kept.push_back(std::move(array));
}

void take_sending(Sending &send, RankState &state, nb::object x, nb::object topk_idx, nb::object topk_weights,
                  nb::object scales, int dtype, nb::object stream, nb::object num_tokens_at, uint32_t processors,
                  uint32_t flags) {
  send.kept.reserve(5);
  send.operation.dtype = dtype ? dtype : state.dtype;
  send.operation.row_bytes = row_bytes_of(send.operation.dtype, state.hidden);
  send.operation.scale_items = scale_items_of(send.operation.dtype, state.hidden);
  send.args.dtype = (weft_ep_dtype)dtype;
  take_topk(send, state, topk_idx);
  take_rows(send, state, x, !scales.is_none());
  if (!scales.is_none())
    take_scales(send, state, scales);
  if (!topk_weights.is_none())
    send.args.topk_weights = (const float *)take_array(
        topk_weights, {"topk_weights", 4, true, (uint64_t)send.operation.tokens * send.operation.topk, false},
        state.cuda, send.kept);
  if (!num_tokens_at.is_none())
    send.args.num_tokens_at =
        (const uint32_t *)take_array(num_tokens_at, {"num_tokens_at", 4, false, 1, false}, state.cuda, send.kept);
  send.args.stream = stream_of(stream);
  send.args.processors = processors;
  send.args.flags = flags;
}

// Whether what is sent fits what it is received into: the library trusts the caller's sizes.
void check_fit(const RankState &state, const Operation &sent, const Receive &into) {
  if (into.cuda != state.cuda || into.experts != state.experts || into.capacity != state.capacity ||
      into.hidden != state.hidden)
    raise_code(WEFT_ERR_INVALID, "into: it was made for a group of other sizes");
  if (into.dtype != sent.dtype || into.row_bytes < sent.row_bytes || into.scale_items != sent.scale_items)
    raise_code(WEFT_ERR_INVALID, "into: it has room for another type than that of the dispatch");
  if (into.max_topk < sent.topk)
    raise_code(WEFT_ERR_INVALID, "into: local_expert, weights or slot have room for a top-k of " +
                                     std::to_string(into.max_topk) + ", the dispatch has one of " +
                                     std::to_string(sent.topk));
}

Operation *find(RankState &state, uint64_t op) {
  Operation &operation = state.operations[op % 2];
  return operation.number == op ? &operation : nullptr;
}

Operation &must_find(RankState &state, uint64_t op) {
  Operation *operation = find(state, op);
  if (!operation)
    raise_code(WEFT_ERR_INVALID, "operation " + std::to_string(op) + " is not open here");
  return *operation;
}

// Notes an operation that has begun. Memory that is read later is kept until the operation after the next begins.
void begin(RankState &state, Sending &send, uint64_t op, bool keep) {
  Operation &operation = state.operations[op % 2];
  operation = std::move(send.operation);
  operation.number = op;
  if (keep)
    operation.kept = std::move(send.kept);
}

void note_received(RankState &state, Operation &operation, const Receive &into, nb::handle object) {
  operation.received = true;
  operation.rows = into.rows;
  if (state.cuda || into.in_place)
    operation.receive = nb::borrow(object);
}

nb::object dispatch(const Rank &self, nb::object into, nb::object x, nb::object topk_idx, nb::object topk_weights,
                    nb::object scales, int dtype, nb::object stream, nb::object num_tokens_at, uint32_t processors,
                    uint32_t flags, bool want_info) {
  RankState &state = *self.state;
  state.check_alone();
  Receive &receive = nb::cast<Receive &>(into);
  Sending send;
  take_sending(send, state, x, topk_idx, topk_weights, scales, dtype, stream, num_tokens_at, processors, flags);
  check_fit(state, send.operation, receive);
  Info info;
  Failure failure;
  uint64_t op = Operation::NONE;
  give_room(state, info);
  weft_ep_info *told = want_info ? &info.c : nullptr;
  int rc = operate(
      state, failure,
      [&](int times) {
        return times > 0 && state.cuda && op != Operation::NONE
                   ? weft_ep_await(state.ep, op, told, nullptr, WEFT_WAIT_FOREVER)
                   : weft_ep_dispatch(state.ep, &send.args, &receive.args, told, &op);
      },
      [&] {
        for (Buffer &buffer : send.kept)
          state.interrupted.push_back(std::move(buffer));
        state.interrupted_objects.push_back(into);
      });
  if (op != Operation::NONE && (rc == 0 || rc == WEFT_ERR_ROOM)) {
    begin(state, send, op, state.cuda || receive.in_place || rc == WEFT_ERR_ROOM);
    if (rc == 0 || state.cuda)
      note_received(state, state.operations[op % 2], receive, into);
  }
  if (rc < 0) {
    failure.has_op = op != Operation::NONE;
    failure.op = op;
    failure.rows_needed = info.c.rows_needed;
    raise_failure(failure);
  }
  if (!want_info)
    return nb::make_tuple(op, nb::none());
  take_lost(state, info);
  return nb::make_tuple(op, std::move(info));
}

uint64_t dispatch_send(const Rank &self, nb::object x, nb::object topk_idx, nb::object topk_weights, nb::object scales,
                       int dtype, nb::object stream, nb::object num_tokens_at, uint32_t processors, uint32_t flags) {
  RankState &state = *self.state;
  state.check_alone();
  Sending send;
  take_sending(send, state, x, topk_idx, topk_weights, scales, dtype, stream, num_tokens_at, processors, flags);
  Failure failure;
  uint64_t op = Operation::NONE;
  int rc = operate(
      state, failure, [&](int) { return weft_ep_dispatch_send(state.ep, &send.args, &op); },
      [&] {
        for (Buffer &buffer : send.kept)
          state.interrupted.push_back(std::move(buffer));
      });
  if (rc < 0)
    raise_failure(failure);
  begin(state, send, op, true);
  return op;
}

nb::object dispatch_recv(const Rank &self, uint64_t op, nb::object into, nb::object stream, bool want_info) {
  RankState &state = *self.state;
  state.check_alone();
  Receive &receive = nb::cast<Receive &>(into);
  Operation &operation = must_find(state, op);
  check_fit(state, operation, receive);
  Info info;
  Failure failure;
  give_room(state, info);
  weft_ep_info *told = want_info ? &info.c : nullptr;
  weft_ep_recv_args args = receive.args;
  args.stream = stream_of(stream);
  int rc = operate(
      state, failure,
      [&](int times) {
        return times > 0 && state.cuda ? weft_ep_await(state.ep, op, told, nullptr, WEFT_WAIT_FOREVER)
                                       : weft_ep_dispatch_recv(state.ep, op, &args, told);
      },
      [&] { state.interrupted_objects.push_back(into); });
  if (rc == 0 || (rc == WEFT_ERR_ROOM && state.cuda))
    note_received(state, operation, receive, into);
  if (rc < 0) {
    failure.has_op = true, failure.op = op, failure.rows_needed = info.c.rows_needed;
    raise_failure(failure);
  }
  if (!want_info)
    return nb::none();
  take_lost(state, info);
  return nb::cast(std::move(info));
}

// The arguments of a combine.
struct Summing {
  weft_ep_combine_args args = WEFT_EP_COMBINE_ARGS_INIT;
  std::vector<Buffer> kept;
};

struct Combined { // what Python gives
  nb::object y, out, topk_weights, row_weights, out_weights, bias, stream;
  int dtype;
  uint32_t processors, flags;
};

void take_summing(Summing &sum, RankState &state, const Operation &operation, const Combined &given) {
  uint64_t selections = (uint64_t)operation.tokens * operation.topk, values = (uint64_t)operation.tokens * state.hidden;
  auto take = [&](nb::handle source, const char *name, uint32_t item, bool real, uint64_t elements, bool written) {
    return take_array(source, {name, item, real, elements, written}, state.cuda, sum.kept);
  };
  sum.kept.reserve(7);
  weft_ep_combine_args &args = sum.args;
  args.y = take(given.y, "y", 2, false, operation.rows * state.hidden, false);
  args.out = take(given.out, "out", 2, false, values, true);
  if (!given.topk_weights.is_none())
    args.topk_weights = (const float *)take(given.topk_weights, "topk_weights", 4, true, selections, false);
  if (!given.row_weights.is_none())
    args.row_weights =
        (const float *)take(given.row_weights, "row_weights", 4, true, operation.rows * operation.topk, false);
  if (!given.out_weights.is_none())
    args.out_weights = (float *)take(given.out_weights, "out_weights", 4, true, selections, true);
  if (!given.bias.is_none()) {
    size_t count = 0;
    for (nb::handle bias : given.bias) {
      if (count == 2)
        raise_code(WEFT_ERR_INVALID, "bias: at most two are added");
      args.bias[count++] = take(bias, "bias", 2, false, values, false);
    }
  }
  args.stream = stream_of(given.stream);
  args.dtype = (weft_ep_combine_dtype)given.dtype;
  args.processors = given.processors;
  args.flags = given.flags;
}

enum Half { BOTH, SEND, RECV };

nb::object combine(const Rank &self, Half half, uint64_t op, const Combined &given, bool want_result) {
  RankState &state = *self.state;
  state.check_alone();
  Operation &operation = must_find(state, op);
  if (!operation.received)
    raise_code(WEFT_ERR_INVALID, "operation " + std::to_string(op) + " was not received");
  Summing sum;
  take_summing(sum, state, operation, given);
  Result result;
  Failure failure;
  give_room(state, result);
  weft_ep_result *told = want_result && half != SEND ? &result.c : nullptr;
  int rc = operate(
      state, failure,
      [&](int times) {
        if (times > 0 && state.cuda)
          return weft_ep_await(state.ep, op, nullptr, told, WEFT_WAIT_FOREVER);
        return half == SEND   ? weft_ep_combine_send(state.ep, op, &sum.args)
               : half == RECV ? weft_ep_combine_recv(state.ep, op, &sum.args, told)
                              : weft_ep_combine(state.ep, op, &sum.args, told);
      },
      [&] {
        for (Buffer &buffer : sum.kept)
          state.interrupted.push_back(std::move(buffer));
      });
  if (rc < 0)
    raise_failure(failure);
  if (state.cuda || half == SEND) {
    for (Buffer &buffer : sum.kept)
      operation.kept.push_back(std::move(buffer));
  } else if (!(given.flags & WEFT_EP_COMBINE_KEEP)) {
    operation = Operation();
  }
  if (!told)
    return nb::none();
  take_missing(state, result);
  return nb::cast(std::move(result));
}

// The addresses that outputs are written to in place.
void combine_rows(const Rank &self, uint64_t op, nb::object into, uint32_t num_rows) {
  RankState &state = *self.state;
  state.check_alone();
  Operation &operation = must_find(state, op);
  if (!operation.received)
    raise_code(WEFT_ERR_INVALID, "operation " + std::to_string(op) + " was not received");
  std::vector<Buffer> kept;
  void *rows = take_array(into, {"into", 8, false, std::max<uint64_t>(num_rows, operation.rows), true}, false, kept);
  Failure failure;
  if (operate(
          state, failure, [&](int) { return weft_ep_combine_rows(state.ep, op, (void **)rows); },
          [&] {
            for (Buffer &buffer : kept)
              state.interrupted.push_back(std::move(buffer));
          }) < 0)
    raise_failure(failure);
}

void finish(const Rank &self, uint64_t op) {
  RankState &state = *self.state;
  state.check_alone();
  Operation &operation = must_find(state, op);
  check(weft_ep_finish(state.ep, op));
  if (!state.cuda)
    operation = Operation();
}

// (info, result); of a graph's replay `op` is None.
nb::object await(const Rank &self, nb::object op, bool want_result, uint32_t timeout_ms) {
  RankState &state = *self.state;
  state.check_alone();
  Info info;
  Result result;
  Failure failure;
  give_room(state, info), give_room(state, result);
  uint64_t number = op.is_none() ? UINT64_MAX : nb::cast<uint64_t>(op);
  int rc = operate(
      state, failure,
      [&](int) { return weft_ep_await(state.ep, number, &info.c, want_result ? &result.c : nullptr, timeout_ms); },
      [] {});
  if (rc < 0) {
    failure.has_op = !op.is_none(), failure.op = number, failure.rows_needed = info.c.rows_needed;
    raise_failure(failure);
  }
  take_lost(state, info), take_missing(state, result);
  return nb::make_tuple(std::move(info), want_result ? nb::cast(std::move(result)) : nb::none());
}

void barrier(const Rank &self) {
  RankState &state = *self.state;
  state.check_alone();
  uint64_t op = weft_ep_next_op(state.ep);
  Failure failure;
  if (operate(
          state, failure,
          [&](int times) {
            return times > 0 && state.cuda ? weft_ep_await(state.ep, op, nullptr, nullptr, WEFT_WAIT_FOREVER)
                                           : weft_ep_barrier(state.ep);
          },
          [] {}) < 0)
    raise_failure(failure);
}

void bind_outcomes(nb::module_ &m) {
  nb::class_<Info>(m, "Info")
      .def_prop_ro("op", [](const Info &self) { return self.c.op; })
      .def_prop_ro("epoch", [](const Info &self) { return self.c.epoch; })
      .def_prop_ro("mark", [](const Info &self) { return self.c.mark; })
      .def_prop_ro("wire_bytes", [](const Info &self) { return self.c.wire_bytes; })
      .def_prop_ro("logical_bytes", [](const Info &self) { return self.c.logical_bytes; })
      .def_prop_ro("num_lost", [](const Info &self) { return self.c.num_lost; })
      .def_prop_ro("num_ranks", [](const Info &self) { return self.c.num_ranks; })
      .def_prop_ro("num_rows", [](const Info &self) { return self.c.num_rows; })
      .def_prop_ro("rows_needed", [](const Info &self) { return self.c.rows_needed; })
      .def_prop_ro(
          "lost",
          [](const Info &self) {
            nb::list list;
            for (int32_t rank : self.lost)
              list.append(rank);
            return list;
          },
          nb::sig("def lost(self) -> list[int]"));
  nb::class_<Result>(m, "Result")
      .def_prop_ro("wire_bytes", [](const Result &self) { return self.c.wire_bytes; })
      .def_prop_ro("logical_bytes", [](const Result &self) { return self.c.logical_bytes; })
      .def_prop_ro("num_missing", [](const Result &self) { return self.c.num_missing; })
      .def_prop_ro("num_lost", [](const Result &self) { return self.c.num_lost; })
      .def_prop_ro(
          "missing",
          [](const Result &self) {
            nb::list list;
            for (const weft_ep_missing &one : self.missing)
              list.append(nb::make_tuple(one.token, one.k, one.expert));
            return list;
          },
          nb::sig("def missing(self) -> list[tuple[int, int, int]]"));
}

template <Half half>
nb::object combine_half(const Rank &self, uint64_t op, nb::object y, nb::object out, nb::object topk_weights,
                        nb::object row_weights, nb::object out_weights, nb::object bias, int dtype, nb::object stream,
                        uint32_t processors, uint32_t flags, bool want_result) {
  return combine(self, half, op,
                 {y, out, topk_weights, row_weights, out_weights, bias, stream, dtype, processors, flags}, want_result);
}

template <Half half> void bind_combine(nb::class_<Rank> &rank, const char *name, const char *signature) {
  rank.def(name, &combine_half<half>, nb::arg("op"), nb::arg("y").none(), nb::arg("out").none(),
           nb::arg("topk_weights").none(), nb::arg("row_weights").none(), nb::arg("out_weights").none(),
           nb::arg("bias").none(), nb::arg("dtype"), nb::arg("stream").none(), nb::arg("processors"), nb::arg("flags"),
           nb::arg("want_result"), nb::sig(signature));
}

} // namespace

#define COMBINE_ARGUMENTS                                                                                              \
  "(self, op: int, y: object, out: object, topk_weights: object, row_weights: object, out_weights: object, bias: "     \
  "object, dtype: int, stream: object, processors: int, flags: int, want_result: bool) -> Result | None"

void bind_operations(nb::class_<Rank> &rank, nb::module_ &m) {
  bind_receive(m);
  bind_outcomes(m);
  rank.def("dispatch", &dispatch, nb::arg("into"), nb::arg("x"), nb::arg("topk_idx"), nb::arg("topk_weights").none(),
           nb::arg("scales").none(), nb::arg("dtype"), nb::arg("stream").none(), nb::arg("num_tokens_at").none(),
           nb::arg("processors"), nb::arg("flags"), nb::arg("want_info"),
           nb::sig("def dispatch(self, into: Receive, x: object, topk_idx: object, topk_weights: object, scales: "
                   "object, dtype: int, stream: object, num_tokens_at: object, processors: int, flags: int, "
                   "want_info: bool) -> tuple[int, Info | None]"))
      .def("dispatch_send", &dispatch_send, nb::arg("x"), nb::arg("topk_idx"), nb::arg("topk_weights").none(),
           nb::arg("scales").none(), nb::arg("dtype"), nb::arg("stream").none(), nb::arg("num_tokens_at").none(),
           nb::arg("processors"), nb::arg("flags"),
           nb::sig("def dispatch_send(self, x: object, topk_idx: object, topk_weights: object, scales: object, dtype: "
                   "int, stream: object, num_tokens_at: object, processors: int, flags: int) -> int"))
      .def("dispatch_recv", &dispatch_recv, nb::arg("op"), nb::arg("into"), nb::arg("stream").none(),
           nb::arg("want_info"),
           nb::sig("def dispatch_recv(self, op: int, into: Receive, stream: object, want_info: bool) -> Info | None"))
      .def("combine_rows", &combine_rows, nb::arg("op"), nb::arg("into"), nb::arg("num_rows"),
           nb::sig("def combine_rows(self, op: int, into: object, num_rows: int) -> None"))
      .def("finish", &finish, nb::arg("op"))
      .def("wait", &await, nb::arg("op").none(), nb::arg("want_result"), nb::arg("timeout_ms"),
           nb::sig("def wait(self, op: int | None, want_result: bool, timeout_ms: int) -> tuple[Info, Result | None]"))
      .def("barrier", &barrier);
  bind_combine<BOTH>(rank, "combine", "def combine" COMBINE_ARGUMENTS);
  bind_combine<SEND>(rank, "combine_send", "def combine_send" COMBINE_ARGUMENTS);
  bind_combine<RECV>(rank, "combine_recv", "def combine_recv" COMBINE_ARGUMENTS);
}
