// Dispatch, and its halves.
#include "ep/operation.h"

#include "ep/receive.h"
#include "ep/route.h"

namespace {

// The arguments of a dispatch, with the owners of their memory.
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
  // An array of no tokens may have no address (torch), which would mean that there is no top-k.
  static const int64_t none = -1;
  const void *data = array.data() ? array.data() : &none;
  if (array.item() == 8)
    send.args.topk_idx = (const int64_t *)data;
  else
    send.args.topk_idx32 = (const int32_t *)data;
  send.args.num_tokens = send.operation.tokens;
  send.args.topk = send.operation.topk;
  send.kept.push_back(std::move(array));
}

// x: [tokens][hidden]; OPAQUE: [tokens][any], whose rows are bytes.
void take_rows(Sending &send, RankState &state, nb::handle source, bool has_scales, bool exact) {
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
  if (array.shape(0) < (int64_t)send.operation.tokens || (exact && array.shape(0) > (int64_t)send.operation.tokens))
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

// A dispatch by a route has the tokens and the top-k of the dispatch that filled the route.
void take_route(Sending &send, const Dispatched &given) {
  Operation &operation = send.operation;
  if (!given_none(given.route))
    operation.route = route_of(given.route);
  if (operation.route)
    send.args.route = operation.route->route;
  operation.fills = operation.route && !given_none(given.topk_idx);
  if (!given_none(given.topk_idx))
    return;
  if (!operation.route)
    throw nb::type_error("topk_idx: None is for a dispatch that goes by a route");
  if (operation.route->topk == 0)
    raise_code(WEFT_ERR_INVALID, "topk_idx is None, and no dispatch has filled the route");
  operation.tokens = send.args.num_tokens = operation.route->tokens;
  operation.topk = send.args.topk = operation.route->topk;
}

void take_sending(Sending &send, RankState &state, const Dispatched &given) {
  Operation &operation = send.operation;
  bool has_scales = !given_none(given.scales);
  send.kept.reserve(5);
  operation.dtype = given.dtype ? given.dtype : state.dtype;
  operation.row_bytes = row_bytes_of(operation.dtype, state.hidden);
  operation.scale_items = scale_items_of(operation.dtype, state.hidden);
  send.args.dtype = (weft_ep_dtype)given.dtype;
  send.args.x_dtype = (weft_ep_dtype)(has_scales || operation.dtype == WEFT_EP_OPAQUE ? operation.dtype : WEFT_EP_BF16);
  take_route(send, given);
  if (!given_none(given.topk_idx))
    take_topk(send, state, given.topk_idx);
  take_rows(send, state, given.x, has_scales, given.exact);
  if (has_scales)
    take_scales(send, state, given.scales);
  if (!given_none(given.topk_weights))
    send.args.topk_weights = (const float *)take_array(
        given.topk_weights, {"topk_weights", 4, true, (uint64_t)operation.tokens * operation.topk, false}, state.cuda,
        send.kept);
  if (!given_none(given.num_tokens_at))
    send.args.num_tokens_at =
        (const uint32_t *)take_array(given.num_tokens_at, {"num_tokens_at", 4, false, 1, false}, state.cuda, send.kept);
  send.args.stream = stream_of(given.stream);
  send.args.processors = given.processors;
  send.args.flags = given.flags;
}

// Whether the sent rows fit into the receive buffers: the library trusts the caller's sizes.
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

// Notes an operation that has begun, and returns the operation that it replaces. Memory that is read later is kept
// until the operation after the next begins.
[[nodiscard]] Operation begin(RankState &state, Sending &send, uint64_t op, bool keep) {
  Operation &operation = state.operations[op % 2];
  Operation ended = std::exchange(operation, std::move(send.operation));
  operation.number = op;
  note_route_begun(state, operation, send.args);
  if (keep)
    operation.kept = std::move(send.kept);
  return ended;
}

void note_received(RankState &state, Operation &operation, const Receive &into, nb::handle object) {
  operation.received = true;
  operation.rows = into.rows, operation.layout = into.args.layout;
  note_route_received(operation);
  if (!state.cuda)
    operation.route.reset(); // the library has copied what the combine needs
  if (state.cuda || into.in_place)
    operation.receive = nb::borrow(object);
}

#define DISPATCH_PARAMETERS                                                                                            \
  nb::object x, nb::object topk_idx, nb::object topk_weights, nb::object scales, nb::object route, int dtype,          \
      nb::object stream, nb::object num_tokens_at, uint32_t processors, uint32_t flags
#define DISPATCH_GIVEN                                                                                                 \
  { x, topk_idx, topk_weights, scales, route, stream, num_tokens_at, dtype, processors, flags }
#define DISPATCH_NAMES                                                                                                 \
  nb::arg("x").none(), nb::arg("topk_idx").none(), nb::arg("topk_weights").none(), nb::arg("scales").none(),           \
      nb::arg("route").none(), nb::arg("dtype"), nb::arg("stream").none(), nb::arg("num_tokens_at").none(),            \
      nb::arg("processors"), nb::arg("flags")
#define DISPATCH_ARGUMENTS                                                                                             \
  "x: object, topk_idx: object, topk_weights: object, scales: object, route: object, dtype: int, stream: "             \
  "object, num_tokens_at: object, processors: int, flags: int"

} // namespace

nb::object dispatch_into(RankState &state, nb::handle source, const Dispatched &given, bool want_info) {
  state.check_alone();
  nb::object into = receive_of(source);
  Receive &receive = nb::cast<Receive &>(into);
  Operation ended;
  Sending send;
  take_sending(send, state, given);
  check_fit(state, send.operation, receive);
  Receiving receiving(receive);
  Info info;
  Failure failure;
  uint64_t op = Operation::NONE;
  give_room(state, info);
  weft_ep_info *wanted = want_info ? &info.c : nullptr;
  int rc = operate(
      state, failure,
      [&](int times) {
        return times > 0 && state.cuda && op != Operation::NONE
                   ? weft_ep_await(state.ep, op, wanted, nullptr, WEFT_WAIT_FOREVER)
                   : weft_ep_dispatch(state.ep, &send.args, &receive.args, wanted, &op);
      },
      [&] {
        for (Buffer &buffer : send.kept)
          state.interrupted.push_back(std::move(buffer));
        state.interrupted_objects.push_back(into);
      });
  if (op != Operation::NONE && (rc == 0 || rc == WEFT_ERR_ROOM)) {
    ended = begin(state, send, op, state.cuda || receive.in_place || rc == WEFT_ERR_ROOM);
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

uint64_t dispatch_send_of(RankState &state, const Dispatched &given) {
  state.check_alone();
  Sending send;
  take_sending(send, state, given);
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
  Operation ended = begin(state, send, op, true);
  return op;
}

nb::object dispatch_recv_into(RankState &state, uint64_t op, nb::handle source, nb::handle stream, bool want_info) {
  state.check_alone();
  nb::object into = receive_of(source);
  Receive &receive = nb::cast<Receive &>(into);
  Operation &operation = must_find(state, op);
  check_fit(state, operation, receive);
  Receiving receiving(receive);
  Info info;
  Failure failure;
  give_room(state, info);
  weft_ep_info *wanted = want_info ? &info.c : nullptr;
  weft_ep_recv_args args = receive.args;
  args.stream = stream_of(stream);
  int rc = operate(
      state, failure,
      [&](int times) {
        return times > 0 && state.cuda ? weft_ep_await(state.ep, op, wanted, nullptr, WEFT_WAIT_FOREVER)
                                       : weft_ep_dispatch_recv(state.ep, op, &args, wanted);
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

void bind_dispatch(nb::class_<Rank> &rank) {
  rank.def(
          "dispatch",
          [](const Rank &self, nb::object into, DISPATCH_PARAMETERS, bool want_info) {
            return dispatch_into(*self.state, into, DISPATCH_GIVEN, want_info);
          },
          nb::arg("into").none(), DISPATCH_NAMES, nb::arg("want_info"),
          nb::sig("def dispatch(self, into: object, " DISPATCH_ARGUMENTS ", want_info: bool) -> tuple[int, Info | "
                  "None]"))
      .def(
          "dispatch_send",
          [](const Rank &self, DISPATCH_PARAMETERS) { return dispatch_send_of(*self.state, DISPATCH_GIVEN); },
          DISPATCH_NAMES, nb::sig("def dispatch_send(self, " DISPATCH_ARGUMENTS ") -> int"))
      .def(
          "dispatch_recv",
          [](const Rank &self, uint64_t op, nb::object into, nb::object stream, bool want_info) {
            return dispatch_recv_into(*self.state, op, into, stream, want_info);
          },
          nb::arg("op"), nb::arg("into").none(), nb::arg("stream").none(), nb::arg("want_info"),
          nb::sig("def dispatch_recv(self, op: int, into: object, stream: object, want_info: bool) -> Info | None"));
}
