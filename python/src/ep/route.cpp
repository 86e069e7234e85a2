// Routes: creation, planning, queries, and their arrays as Python objects.
#include "ep/operation.h"

#include "ep/receive.h"
#include "ep/route.h"

std::shared_ptr<RouteState> Route::must_be_open() const {
  if (!state)
    raise_code(WEFT_ERR_CLOSED, "the route is closed");
  state->rank->check_alone();
  return state;
}

std::shared_ptr<RouteState> route_of(nb::handle source) {
  nb::object handle = nb::getattr(source, "_handle", nb::none());
  if (!nb::isinstance<Route>(handle))
    throw nb::type_error("route: what Rank.route() made is wanted");
  return nb::cast<Route &>(handle).must_be_open();
}

// With CHECK_ROUTE: whether this operation fills the route, or uses it as it was filled. On CUDA memory a dispatch that
// fills a route also receives, and a dispatch that uses it may still run.
static bool does_fill(const RankState &state, const Operation &operation) {
  if (state.cuda)
    return !operation.route->received;
  weft_ep_route_info info = WEFT_EP_ROUTE_INFO_INIT;
  int rc = weft_ep_route_await(operation.route->route, &info, 0);
  return rc == WEFT_ERR_TIMEOUT || rc == WEFT_ERR_ROOM || info.op == operation.number;
}

void note_route_begun(const RankState &state, Operation &operation, const weft_ep_dispatch_args &args) {
  if (operation.fills && (args.flags & WEFT_EP_DISPATCH_CHECK_ROUTE))
    operation.fills = does_fill(state, operation);
  if (!operation.fills)
    return;
  RouteState &route = *operation.route;
  bool counted = args.num_tokens_at && !state.cuda; // if it has changed since, the library refuses later calls
  route.tokens = counted ? *args.num_tokens_at : operation.tokens;
  route.topk = operation.topk;
  route.received = false;
}

void note_route_received(const Operation &operation) {
  if (!operation.fills)
    return;
  operation.route->rows = operation.rows;
  operation.route->layout = operation.layout;
  operation.route->received = true;
}

namespace {

// One array of a route. It keeps the route's memory, also when the route and its rank have been closed.
struct RouteView {
  std::shared_ptr<RouteState> route;
  void *data = nullptr;
  bool bytes = false; // uint8, else int32
  int dims = 1;
  Py_ssize_t shape[2] = {0, 0}, stride[2] = {0, 0};
  Py_ssize_t item() const { return bytes ? 1 : 4; }
};

int get_buffer(PyObject *object, Py_buffer *view, int flags) {
  RouteView *self = nb::inst_ptr<RouteView>(object);
  view->obj = nullptr;
  if (self->route->rank->cuda || (flags & PyBUF_WRITABLE)) {
    PyErr_SetString(PyExc_BufferError, self->route->rank->cuda ? "memory of a GPU has no buffer of the host"
                                                               : "the arrays of a route are read-only");
    return -1;
  }
  view->buf = self->data;
  view->itemsize = self->item();
  view->len = self->item();
  for (int i = 0; i < self->dims; i++)
    view->len *= self->shape[i];
  view->readonly = 1;
  view->ndim = self->dims;
  view->format = flags & PyBUF_FORMAT ? (char *)(self->bytes ? "B" : "i") : nullptr;
  view->shape = flags & PyBUF_ND ? self->shape : nullptr;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? self->stride : nullptr;
  view->suboffsets = nullptr;
  view->internal = nullptr;
  Py_INCREF(object);
  view->obj = object;
  return 0;
}

PyType_Slot view_slots[] = {{Py_bf_getbuffer, (void *)get_buffer}, {0, nullptr}};

nb::object view_of(const std::shared_ptr<RouteState> &route, const void *data, bool bytes, uint64_t rows,
                   uint64_t columns = 0) {
  auto view = std::make_unique<RouteView>();
  view->route = route;
  view->data = (void *)data;
  view->bytes = bytes;
  view->dims = columns ? 2 : 1;
  view->shape[0] = (Py_ssize_t)rows, view->shape[1] = (Py_ssize_t)columns;
  view->stride[0] = view->item() * (columns ? (Py_ssize_t)columns : 1), view->stride[1] = view->item();
  return nb::cast(view.release(), nb::rv_policy::take_ownership);
}

// Frameworks refuse read-only arrays, so the array is not marked as read-only; it must not be written nevertheless.
nb::object cuda_interface(const RouteView &self) {
  if (!self.route->rank->cuda)
    throw nb::attribute_error("the array is in host memory: it has the buffer protocol");
  nb::dict said;
  nb::list shape;
  for (int i = 0; i < self.dims; i++)
    shape.append(self.shape[i]);
  said["shape"] = nb::tuple(shape);
  said["typestr"] = self.bytes ? "|u1" : "<i4";
  said["data"] = nb::make_tuple((uintptr_t)self.data, false);
  said["strides"] = nb::none();
  said["version"] = 3;
  return said;
}

Route *create(const Rank &rank, uint32_t max_tokens, uint32_t max_rows, uint32_t topk, uint32_t alignment) {
  RankState &state = *rank.state;
  auto made = std::make_shared<RouteState>(rank.state);
  weft_ep_route_options options = WEFT_EP_ROUTE_OPTIONS_INIT;
  options.max_tokens = max_tokens, options.max_rows = max_rows;
  options.topk = topk, options.alignment = alignment;
  Failure failure;
  if (operate(
          state, failure, [&](int) { return weft_ep_route_create(state.ep, &options, &made->route); }, [] {}) < 0)
    raise_failure(failure);
  made->max_topk = topk ? topk : state.topk;
  // The library's default, or more if that is needed; its selections and padding have 31 bits.
  uint64_t all = (uint64_t)state.max_tokens * state.capacity, numbered = INT32_MAX / made->max_topk - (1 << 16);
  made->max_rows = std::min(max_rows && max_rows < all ? max_rows : all, numbered);
  return new Route(std::move(made));
}

void plan(const Route &self, nb::object topk_idx, nb::object stream) {
  auto held = self.must_be_open();
  RouteState &route = *held;
  RankState &state = *route.rank;
  Buffer array = Buffer::of(topk_idx, "topk_idx");
  check_array(array, {"topk_idx", 8, false, 0, false}, state.cuda);
  if (array.dims() != 2 || !array.contiguous() || array.shape(1) != (int64_t)route.max_topk ||
      array.shape(0) > UINT32_MAX)
    throw nb::type_error(("topk_idx: a contiguous int64 array of shape [tokens][" + std::to_string(route.max_topk) +
                          "] is wanted, the top-k of the route")
                             .c_str());
  void *in = stream_of(stream);
  Failure failure;
  int rc = operate(
      state, failure,
      [&](int) { return weft_ep_route_plan(route.route, (const int64_t *)array.data(), (uint32_t)array.shape(0), in); },
      [] {});
  if (rc < 0)
    raise_failure(failure);
  route.tokens = (uint32_t)array.shape(0), route.topk = route.max_topk;
  route.received = false;
  if (state.cuda)
    route.planned = std::move(array);
}

int ask(RouteState &route, weft_ep_route_info &info, Failure &failure, uint32_t timeout_ms) {
  return operate(
      *route.rank, failure, [&](int) { return weft_ep_route_await(route.route, &info, timeout_ms); }, [] {});
}

// (op, epoch, [rows of each expert], num_rows, packed_rows, num_ranks, num_lost)
nb::object wait(const Route &self, uint32_t timeout_ms) {
  auto held = self.must_be_open();
  RouteState &route = *held;
  weft_ep_route_info info = WEFT_EP_ROUTE_INFO_INIT;
  std::vector<int32_t> rows(route.rank->experts);
  Failure failure;
  info.expert_rows = rows.data(), info.expert_cap = (uint32_t)rows.size();
  if (ask(route, info, failure, timeout_ms) < 0) {
    failure.rows_needed = failure.code == WEFT_ERR_ROOM ? info.num_rows : 0;
    raise_failure(failure);
  }
  nb::list of_experts;
  for (uint32_t e = 0; e < info.num_experts && e < rows.size(); e++)
    of_experts.append(rows[e]);
  return nb::make_tuple(info.op, info.epoch, of_experts, info.num_rows, info.packed_rows, info.num_ranks,
                        info.num_lost);
}

// S of the second group of arrays: the received rows, or the largest number that the caller gives.
uint64_t rows_of(RouteState &route, nb::handle wanted) {
  if (!wanted.is_none()) {
    uint64_t rows = 0;
    if (!nb::try_cast<uint64_t>(wanted, rows) || rows > route.max_rows)
      raise_code(WEFT_ERR_INVALID,
                 "rows: a number up to " + std::to_string(route.max_rows) + " is wanted, the room of the route");
    return rows;
  }
  weft_ep_route_info info = WEFT_EP_ROUTE_INFO_INIT;
  Failure failure;
  int rc = ask(route, info, failure, WEFT_WAIT_FOREVER);
  if (rc < 0 && rc != WEFT_ERR_CONFLICT) { // a rank has joined: the arrays are unchanged
    failure.rows_needed = rc == WEFT_ERR_ROOM ? info.num_rows : 0;
    raise_failure(failure);
  }
  return info.num_rows;
}

// In the order of weft_ep_route_arrays; None for arrays that do not exist yet.
nb::object arrays(const Route &self, nb::object rows) {
  auto held = self.must_be_open();
  RouteState &route = *held;
  const RankState &state = *route.rank;
  weft_ep_route_arrays a = WEFT_EP_ROUTE_ARRAYS_INIT;
  check(weft_ep_route_get_arrays(route.route, &a));
  nb::object none = nb::none();
  if (route.topk == 0)
    return nb::make_tuple(none, none, none, none, none, none, none, none);
  auto view = [&](const void *data, bool bytes, uint64_t first, uint64_t second = 0) {
    return view_of(held, data, bytes, first, second);
  };
  nb::object per_rank = view(a.tokens_per_rank, false, state.capacity);
  nb::object per_expert = view(a.tokens_per_expert, false, (uint64_t)state.capacity * state.experts);
  nb::object in_rank = view(a.in_rank, true, route.tokens, state.capacity);
  if (!route.received)
    return nb::make_tuple(per_rank, per_expert, in_rank, none, none, none, none, none);
  uint64_t count = rows_of(route, rows);
  return nb::make_tuple(per_rank, per_expert, in_rank, view(a.rank_end, false, state.capacity),
                        view(a.expert_end, false, state.experts), view(a.src_rank, false, count),
                        view(a.src_token, false, count), view(a.slot, false, count, route.topk));
}

} // namespace

void bind_route(nb::module_ &m) {
  nb::class_<RouteView>(m, "RouteView", nb::type_slots(view_slots))
      .def_prop_ro("__cuda_array_interface__", &cuda_interface,
                   nb::sig("def __cuda_array_interface__(self) -> dict[str, typing.Any]"));
  nb::class_<Route>(m, "Route")
      .def("plan", &plan, nb::arg("topk_idx").none(), nb::arg("stream").none(),
           nb::sig("def plan(self, topk_idx: object, stream: object) -> None"))
      .def("wait", &wait, nb::arg("timeout_ms"),
           nb::sig("def wait(self, timeout_ms: int) -> tuple[int, int, list[int], int, int, int, int]"))
      .def("arrays", &arrays, nb::arg("rows").none(),
           nb::sig("def arrays(self, rows: int | None) -> tuple[RouteView | None, ...]"))
      .def_prop_ro("closed", [](const Route &self) { return !self.state || self.state->rank->closed.load(); })
      .def("close", [](Route &self) { self.state.reset(); });
  m.def("route_create", &create, nb::arg("rank"), nb::arg("max_tokens"), nb::arg("max_rows"), nb::arg("topk"),
        nb::arg("alignment"), nb::rv_policy::take_ownership);
}
