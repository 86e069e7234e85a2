// Combine, its halves, and a combine by a route.
#include "ep/operation.h"

#include "ep/receive.h"
#include "ep/route.h"

namespace {

// The arguments of a combine.
struct Summing {
  weft_ep_combine_args args = WEFT_EP_COMBINE_ARGS_INIT;
  std::vector<Buffer> kept;
};

// The shape that an array has to have, as text.
std::string shape_text(std::initializer_list<uint64_t> shape) {
  std::string text;
  for (uint64_t one : shape)
    text += (text.empty() ? "[" : ", ") + std::to_string(one);
  return text + "]";
}

// Raises InvalidError unless the last kept array has the shape.
void check_shape(const Summing &sum, const char *name, std::initializer_list<uint64_t> shape) {
  const Buffer &array = sum.kept.back();
  bool same = array.dims() == (int)shape.size();
  for (int i = 0; same && i < array.dims(); i++)
    same = (uint64_t)array.shape(i) == shape.begin()[i];
  if (!same)
    raise_code(WEFT_ERR_INVALID, std::string(name) + ": an array of shape " + shape_text(shape) + " is wanted");
}

void take_summing(Summing &sum, RankState &state, const Operation &operation, const Combined &given) {
  uint64_t selections = (uint64_t)operation.tokens * operation.topk, values = (uint64_t)operation.tokens * state.hidden;
  auto take = [&](nb::handle source, const char *name, uint32_t item, bool real, uint64_t elements, bool written) {
    return take_array(source, {name, item, real, elements, written}, state.cuda, sum.kept);
  };
  sum.kept.reserve(7);
  weft_ep_combine_args &args = sum.args;
  args.y = take(given.y, "y", 2, false, operation.rows * state.hidden, false);
  bool exact = given.exact;
  if (exact && args.y && operation.layout == WEFT_EP_PER_EXPERT)
    check_shape(sum, "y", {state.experts, operation.rows / state.experts, state.hidden});
  else if (exact && args.y)
    check_shape(sum, "y", {operation.rows, state.hidden});
  args.out = take(given.out, "out", 2, false, values, true);
  if (exact && args.out)
    check_shape(sum, "out", {operation.tokens, state.hidden});
  if (!given_none(given.topk_weights)) {
    args.topk_weights = (const float *)take(given.topk_weights, "topk_weights", 4, true, selections, false);
    if (exact)
      check_shape(sum, "topk_weights", {operation.tokens, operation.topk});
  }
  uint64_t of_row = operation.layout == WEFT_EP_RANK_MAJOR ? operation.topk : 1;
  if (!given_none(given.row_weights))
    args.row_weights = (const float *)take(given.row_weights, "row_weights", 4, true, operation.rows * of_row, false);
  if (!given_none(given.out_weights))
    args.out_weights = (float *)take(given.out_weights, "out_weights", 4, true, selections, true);
  if (!given_none(given.bias)) {
    size_t count = 0;
    for (nb::handle bias : entries_of(given.bias, "bias", "arrays")) {
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

// As a separate operation: (op, result).
nb::object combine_route(const Rank &self, nb::handle by, const Combined &given, bool want_result) {
  RankState &state = *self.state;
  state.check_alone();
  auto held = route_of(by);
  RouteState &route = *held;
  if (!route.received)
    raise_code(WEFT_ERR_INVALID, "route: no dispatch has filled it, or it has not been received");
  Operation ended, operation;
  operation.tokens = route.tokens, operation.topk = route.topk, operation.rows = route.rows;
  operation.layout = route.layout;
  operation.received = true;
  Summing sum;
  take_summing(sum, state, operation, given);
  Result result;
  Failure failure;
  uint64_t op = Operation::NONE;
  give_room(state, result);
  weft_ep_result *wanted = want_result ? &result.c : nullptr;
  int rc = operate(
      state, failure,
      [&](int times) {
        return times > 0 && state.cuda && op != Operation::NONE
                   ? weft_ep_await(state.ep, op, nullptr, wanted, WEFT_WAIT_FOREVER)
                   : weft_ep_combine_route(state.ep, route.route, &sum.args, wanted, &op);
      },
      [&] {
        for (Buffer &buffer : sum.kept)
          state.interrupted.push_back(std::move(buffer));
      });
  if (rc < 0) {
    failure.has_op = op != Operation::NONE, failure.op = op;
    raise_failure(failure);
  }
  operation.number = op;
  if (state.cuda)
    operation.kept = std::move(sum.kept), operation.route = held;
  bool open = state.cuda || (given.flags & WEFT_EP_COMBINE_KEEP);
  ended = std::exchange(state.operations[op % 2], open ? std::move(operation) : Operation());
  if (!wanted)
    return nb::make_tuple(op, nb::none());
  take_missing(state, result);
  return nb::make_tuple(op, std::move(result));
}

#define COMBINE_PARAMETERS                                                                                             \
  nb::object y, nb::object out, nb::object topk_weights, nb::object row_weights, nb::object out_weights,               \
      nb::object bias, int dtype, nb::object stream, uint32_t processors, uint32_t flags, bool want_result
#define COMBINE_GIVEN                                                                                                  \
  { y, out, topk_weights, row_weights, out_weights, bias, stream, dtype, processors, flags }
#define COMBINE_NAMES                                                                                                  \
  nb::arg("y").none(), nb::arg("out").none(), nb::arg("topk_weights").none(), nb::arg("row_weights").none(),           \
      nb::arg("out_weights").none(), nb::arg("bias").none(), nb::arg("dtype"), nb::arg("stream").none(),               \
      nb::arg("processors"), nb::arg("flags"), nb::arg("want_result")
#define COMBINE_ARGUMENTS                                                                                              \
  "y: object, out: object, topk_weights: object, row_weights: object, out_weights: object, bias: object, dtype: int, " \
  "stream: object, processors: int, flags: int, want_result: bool"

template <Half half> void bind_half(nb::class_<Rank> &rank, const char *name, const char *signature) {
  rank.def(
      name,
      [](const Rank &self, uint64_t op, COMBINE_PARAMETERS) {
        return combine_of(*self.state, half, op, COMBINE_GIVEN, want_result);
      },
      nb::arg("op"), COMBINE_NAMES, nb::sig(signature));
}

} // namespace

nb::object combine_of(RankState &state, Half half, uint64_t op, const Combined &given, bool want_result) {
  state.check_alone();
  Operation &operation = must_find_received(state, op);
  Operation ended;
  Summing sum;
  take_summing(sum, state, operation, given);
  Result result;
  Failure failure;
  give_room(state, result);
  weft_ep_result *wanted = want_result && half != SEND ? &result.c : nullptr;
  int rc = operate(
      state, failure,
      [&](int times) {
        if (times > 0 && state.cuda)
          return weft_ep_await(state.ep, op, nullptr, wanted, WEFT_WAIT_FOREVER);
        return half == SEND   ? weft_ep_combine_send(state.ep, op, &sum.args)
               : half == RECV ? weft_ep_combine_recv(state.ep, op, &sum.args, wanted)
                              : weft_ep_combine(state.ep, op, &sum.args, wanted);
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
    ended = std::exchange(operation, Operation());
  }
  if (!wanted)
    return nb::none();
  take_missing(state, result);
  return nb::cast(std::move(result));
}

void bind_combine(nb::class_<Rank> &rank) {
  bind_half<BOTH>(rank, "combine", "def combine(self, op: int, " COMBINE_ARGUMENTS ") -> Result | None");
  bind_half<SEND>(rank, "combine_send", "def combine_send(self, op: int, " COMBINE_ARGUMENTS ") -> Result | None");
  bind_half<RECV>(rank, "combine_recv", "def combine_recv(self, op: int, " COMBINE_ARGUMENTS ") -> Result | None");
  rank.def(
      "combine_route",
      [](const Rank &self, nb::object route, COMBINE_PARAMETERS) {
        return combine_route(self, route, COMBINE_GIVEN, want_result);
      },
      nb::arg("route").none(), COMBINE_NAMES,
      nb::sig("def combine_route(self, route: object, " COMBINE_ARGUMENTS ") -> tuple[int, Result | None]"));
}
