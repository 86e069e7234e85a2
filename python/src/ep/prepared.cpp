// A dispatch and a combine with fixed options: repeated calls need no frame of Python.
#include "ep/operation.h"

#include "ep/receive.h"
#include "ep/route.h"

namespace {

// The options, and the rank that they are for.
struct Prepared {
  std::shared_ptr<RankState> state;
  int dtype = 0, combine_dtype = 0;
  uint32_t processors = 0, dispatch_flags = 0, combine_flags = 0;
  bool want_info = false, want_result = false;
};

Prepared *prepare(const Rank &rank, int dtype, int combine_dtype, uint32_t processors, uint32_t dispatch_flags,
                  uint32_t combine_flags, bool want_info, bool want_result) {
  rank.state->check_open();
  auto made = std::make_unique<Prepared>();
  made->state = rank.state;
  made->dtype = dtype, made->combine_dtype = combine_dtype;
  made->processors = processors;
  made->dispatch_flags = dispatch_flags, made->combine_flags = combine_flags;
  made->want_info = want_info, made->want_result = want_result;
  return made.release();
}

Dispatched sending(const Prepared &self, nb::object &x, nb::object &topk_idx, nb::object &stream) {
  Dispatched given;
  given.x = std::move(x), given.topk_idx = std::move(topk_idx), given.stream = std::move(stream);
  given.dtype = self.dtype, given.processors = self.processors, given.flags = self.dispatch_flags;
  given.exact = true;
  return given;
}

nb::object dispatch(const Prepared &self, nb::object x, nb::object topk_idx, nb::object into, nb::object stream) {
  return dispatch_into(*self.state, into, sending(self, x, topk_idx, stream), self.want_info);
}

uint64_t dispatch_send(const Prepared &self, nb::object x, nb::object topk_idx, nb::object stream) {
  return dispatch_send_of(*self.state, sending(self, x, topk_idx, stream));
}

nb::object dispatch_recv(const Prepared &self, uint64_t op, nb::object into, nb::object stream) {
  return dispatch_recv_into(*self.state, op, into, stream, self.want_info);
}

template <Half half>
nb::object combine(const Prepared &self, uint64_t op, nb::object y, nb::object out, nb::object topk_weights,
                   nb::object stream, bool keep) {
  Combined given;
  given.y = std::move(y), given.out = std::move(out), given.topk_weights = std::move(topk_weights);
  given.stream = std::move(stream);
  given.dtype = self.combine_dtype, given.processors = self.processors;
  given.flags = self.combine_flags | (keep ? WEFT_EP_COMBINE_KEEP : 0);
  given.exact = true;
  return combine_of(*self.state, half, op, given, self.want_result);
}

template <Half half> void bind_half(nb::class_<Prepared> &prepared, const char *name, const char *signature) {
  prepared.def(name, &combine<half>, nb::arg("op"), nb::arg("y"), nb::arg("out"),
               nb::arg("topk_weights").none() = nb::none(), nb::arg("stream").none() = nb::none(),
               nb::arg("keep") = false, nb::sig(signature));
}

} // namespace

#define COMBINE_ARGUMENTS                                                                                              \
  "op: int, y: object, out: object, topk_weights: object = None, stream: object = None, keep: bool = False"

void bind_prepared(nb::class_<Rank> &rank, nb::module_ &m) {
  nb::class_<Prepared> prepared(m, "Prepared");
  prepared
      .def("dispatch", &dispatch, nb::arg("x").none(), nb::arg("topk_idx").none(), nb::arg("into").none(),
           nb::arg("stream").none() = nb::none(),
           nb::sig("def dispatch(self, x: object, topk_idx: object, into: object, stream: object = None) -> tuple[int, "
                   "Info | None]"))
      .def("dispatch_send", &dispatch_send, nb::arg("x").none(), nb::arg("topk_idx").none(),
           nb::arg("stream").none() = nb::none(),
           nb::sig("def dispatch_send(self, x: object, topk_idx: object, stream: object = None) -> int"))
      .def("dispatch_recv", &dispatch_recv, nb::arg("op"), nb::arg("into").none(),
           nb::arg("stream").none() = nb::none(),
           nb::sig("def dispatch_recv(self, op: int, into: object, stream: object = None) -> Info | None"));
  bind_half<BOTH>(prepared, "combine", "def combine(self, " COMBINE_ARGUMENTS ") -> Result | None");
  bind_half<SEND>(prepared, "combine_send", "def combine_send(self, " COMBINE_ARGUMENTS ") -> Result | None");
  bind_half<RECV>(prepared, "combine_recv", "def combine_recv(self, " COMBINE_ARGUMENTS ") -> Result | None");
  rank.def("prepare", &prepare, nb::arg("dtype"), nb::arg("combine_dtype"), nb::arg("processors"),
           nb::arg("dispatch_flags"), nb::arg("combine_flags"), nb::arg("want_info"), nb::arg("want_result"),
           nb::rv_policy::take_ownership,
           nb::sig("def prepare(self, dtype: int, combine_dtype: int, processors: int, dispatch_flags: int, "
                   "combine_flags: int, want_info: bool, want_result: bool) -> Prepared"));
}
