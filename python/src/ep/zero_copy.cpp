// The zero-copy memory of a rank, whose rows peers read in place, as a Python object.
#include "core/errors.h"

#include "ep/receive.h"
#include "ep/route.h"

// Releases kept arrays in the zero-copy memory: that memory lives as long as the rank.
void RankState::keep_no_zero_copy() {
  std::vector<Buffer> gone; // destroyed at the end, since that may run any Python code
  std::vector<nb::object> objects;
  auto needless = [&](const Buffer &array) {
    auto *data = (const char *)array.data();
    return array.bytes() == 0 || (data >= zero_copy && data < zero_copy + zero_copy_bytes);
  };
  auto sift = [&](std::vector<Buffer> &kept) {
    std::vector<Buffer> others;
    for (Buffer &array : kept)
      (needless(array) ? gone : others).push_back(std::move(array));
    kept = std::move(others);
  };
  auto sift_receive = [&](nb::object &kept) { // keeps its other arrays instead
    if (!kept.is_valid() || !nb::isinstance<Receive>(kept))
      return;
    nb::list others;
    const Receive &receive = nb::cast<const Receive &>(kept);
    for (const ReceiveArray &array : receive.arrays) {
      if (!needless(array.buffer))
        others.append(array.source);
    }
    if (others.size() == receive.arrays.size())
      return;
    objects.push_back(std::move(kept));
    kept = std::move(others);
  };
  for (Operation &operation : operations) {
    sift(operation.kept);
    sift_receive(operation.receive);
    if (operation.route && needless(operation.route->planned))
      gone.push_back(std::move(operation.route->planned));
  }
  sift(interrupted);
  for (nb::object &object : interrupted_objects)
    sift_receive(object);
}

bool RankState::lends() {
  if (views > 0 && !closed.load() && !forked()) // a forked child's copy of the memory stays
    keep_no_zero_copy();
  return views > 0 && !closed.load() && !forked();
}

namespace {

// The whole zero-copy memory. On the host each exported buffer is a view. On a GPU this object is a view once it has
// given its address: frameworks keep it as long as their arrays.
struct ZeroCopy {
  explicit ZeroCopy(std::shared_ptr<RankState> of) : rank(std::move(of)) {}
  ZeroCopy(const ZeroCopy &) = delete;
  ~ZeroCopy() {
    if (shown)
      end_view();
  }
  std::shared_ptr<RankState> rank;
  int32_t device = -1; // -1: host memory
  bool shown = false;

  void *address() const { return (void *)rank->zero_copy; }
  void end_view() {
    auto held = rank;
    if (--held->views == 0 && held->dropped) {
      nb::error_scope scope;
      shut_dropped(held);
    }
  }
};

int get_buffer(PyObject *object, Py_buffer *view, int flags) {
  ZeroCopy *self = nb::inst_ptr<ZeroCopy>(object);
  view->obj = nullptr;
  if (self->device >= 0 || self->rank->closed.load() || self->rank->forked()) {
    PyErr_SetString(PyExc_BufferError,
                    self->device >= 0 ? "memory of a GPU has no buffer of the host" : "the rank is closed");
    return -1;
  }
  if (PyBuffer_FillInfo(view, object, self->address(), (Py_ssize_t)self->rank->zero_copy_bytes, 0, flags) != 0)
    return -1;
  self->rank->views++;
  return 0;
}

void release_buffer(PyObject *object, Py_buffer *) {
  nb::inst_ptr<ZeroCopy>(object)->end_view();
}

PyType_Slot slots[] = {
    {Py_bf_getbuffer, (void *)get_buffer}, {Py_bf_releasebuffer, (void *)release_buffer}, {0, nullptr}};

nb::dict cuda_interface(ZeroCopy &self) {
  self.rank->check_open();
  if (self.device < 0)
    throw nb::attribute_error("__cuda_array_interface__");
  nb::dict entries;
  entries["shape"] = nb::make_tuple(self.rank->zero_copy_bytes);
  entries["typestr"] = "|u1";
  entries["data"] = nb::make_tuple((uintptr_t)self.address(), false);
  entries["strides"] = nb::none();
  entries["version"] = 3;
  self.rank->views += !self.shown;
  self.shown = true;
  return entries;
}

nb::object zero_copy(const Rank &self) {
  self.state->check_open();
  if (!self.state->zero_copy)
    return nb::none();
  auto made = std::make_unique<ZeroCopy>(self.state);
  weft_ep_get_memory(self.state->ep, &made->device);
  return nb::cast(made.release(), nb::rv_policy::take_ownership);
}

} // namespace

void bind_zero_copy(nb::class_<Rank> &rank, nb::module_ &m) {
  nb::class_<ZeroCopy>(m, "ZeroCopy", nb::type_slots(slots))
      .def_prop_ro("length", [](const ZeroCopy &self) { return self.rank->zero_copy_bytes; })
      .def_prop_ro("device", [](const ZeroCopy &self) { return self.device; })
      .def_prop_ro("address", [](const ZeroCopy &self) { return (uintptr_t)self.address(); })
      .def_prop_ro("__cuda_array_interface__", &cuda_interface,
                   nb::sig("def __cuda_array_interface__(self) -> dict[str, typing.Any]"));
  rank.def_prop_ro("zero_copy", &zero_copy, nb::sig("def zero_copy(self) -> ZeroCopy | None"))
      .def("close_after_views", [](Rank &self) { return self.state->dropped = self.state->lends(); });
}
