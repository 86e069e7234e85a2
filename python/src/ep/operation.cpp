// Calls for operations besides dispatch and combine: ends, waits, barriers, results.
#include "ep/operation.h"

#include <algorithm>

#include "ep/receive.h"
#include "ep/route.h"

namespace {

// The addresses at which the caller writes outputs in place.
void combine_rows(const Rank &self, uint64_t op, nb::object into, uint32_t num_rows) {
  RankState &state = *self.state;
  state.check_alone();
  Operation &operation = must_find_received(state, op);
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
  Operation ended;
  if (!state.cuda)
    ended = std::exchange(operation, Operation());
}

// (info, result); for a graph's replay `op` is None.
nb::object await(const Rank &self, nb::object op, bool want_result, uint32_t timeout_ms) {
  RankState &state = *self.state;
  state.check_alone();
  Info info;
  Result result;
  Failure failure;
  give_room(state, info), give_room(state, result);
  uint64_t number = UINT64_MAX;
  if (!op.is_none() && !nb::try_cast<uint64_t>(op, number))
    throw nb::type_error("op: the number of an operation, or None for the newest, is wanted");
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

} // namespace

void bind_operations(nb::class_<Rank> &rank, nb::module_ &m) {
  bind_receive(m);
  bind_outcomes(m);
  bind_route(m);
  bind_dispatch(rank);
  bind_combine(rank);
  bind_prepared(rank, m);
  rank.def("combine_rows", &combine_rows, nb::arg("op"), nb::arg("into").none(), nb::arg("num_rows"),
           nb::sig("def combine_rows(self, op: int, into: object, num_rows: int) -> None"))
      .def("finish", &finish, nb::arg("op"))
      .def("wait", &await, nb::arg("op").none(), nb::arg("want_result"), nb::arg("timeout_ms"),
           nb::sig("def wait(self, op: int | None, want_result: bool, timeout_ms: int) -> tuple[Info, Result | None]"))
      .def("barrier", &barrier);
}
