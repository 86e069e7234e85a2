// Memory of any framework, as an address, a shape and strides.
#include "core/buffer.h"

#include <algorithm>
#include <cstring>
#include <nanobind/stl/string.h>

#include "core/errors.h"

// DLPack's layout, as its specification fixes it (version 0 and the unversioned capsule, which every framework makes).
namespace dlpack {
struct Device {
  int32_t type, id;
};
struct Type {
  uint8_t code, bits;
  uint16_t lanes;
};
struct Tensor {
  void *data;
  Device device;
  int32_t ndim;
  Type dtype;
  int64_t *shape;
  int64_t *strides; // in elements; NULL: C's order
  uint64_t byte_offset;
};
// The table that a type offers as __dlpack_c_exchange_api__ since version 1.3: C functions instead of Python calls. Its
// beginning is the same in all of version 1.
struct Exchange {
  uint32_t major, minor;
  const Exchange *older;
  void (*allocate)(), (*export_owned)(), (*import_owned)();
  int (*look)(void *object, Tensor *tensor); // its arrays belong to the object; NULL: there is no such function
};
enum { CPU = 1, CUDA = 2, CUDA_HOST = 3, CUDA_MANAGED = 13 };
enum { INT = 0, UINT = 1, FLOAT = 2, BFLOAT = 4 };
} // namespace dlpack

[[noreturn]] static void refuse(const char *name, const std::string &why) {
  throw nb::type_error((std::string(name) + ": " + why).c_str());
}

static std::string name_of_type(nb::handle source) {
  return nb::cast<std::string>(nb::handle(reinterpret_cast<PyObject *>(Py_TYPE(source.ptr()))).attr("__name__"));
}

// For the format letters of the module struct: one element without padding.
static Kind kind_of_format(const char *format) {
  if (!format)
    return Kind::UINT;
  if (*format && strchr(">!", *format))
    return Kind::SWAPPED;
  if (*format && strchr("@=<", *format))
    format++;
  if (!format[0] || format[1])
    return Kind::OTHER;
  if (strchr("bhilqn", *format))
    return Kind::INT;
  if (strchr("BHILQN?", *format))
    return Kind::UINT;
  return strchr("efd", *format) ? Kind::FLOAT : Kind::OTHER;
}

void Buffer::release() {
  if (has_view_)
    PyBuffer_Release(&view_);
  has_view_ = false;
  Py_CLEAR(keep_);
}

void Buffer::take(Buffer &other) noexcept {
  memcpy(shape_, other.shape_, sizeof shape_);
  memcpy(stride_, other.stride_, sizeof stride_);
  data_ = other.data_, dims_ = other.dims_, device_ = other.device_, item_ = other.item_, kind_ = other.kind_;
  readonly_ = other.readonly_, gpu_ = other.gpu_, host_ = other.host_;
  view_ = other.view_, has_view_ = other.has_view_, keep_ = other.keep_;
  other.has_view_ = false;
  other.keep_ = nullptr;
  other.data_ = nullptr;
}

uint64_t Buffer::bytes() const {
  uint64_t all = item_;
  for (int i = 0; i < dims_; i++)
    all *= (uint64_t)shape_[i];
  return all;
}

bool Buffer::contiguous_from(int dim) const {
  int64_t want = item_;
  for (int i = dims_ - 1; i >= dim; i--) {
    if (shape_[i] > 1 && stride_[i] != want)
      return false;
    want *= shape_[i];
  }
  return true;
}

bool Buffer::from_view(nb::handle source) {
  if (PyObject_GetBuffer(source.ptr(), &view_, PyBUF_RECORDS_RO) != 0) {
    PyErr_Clear(); // numpy refuses types for which the protocol has no letter: another interface may have them
    return false;
  }
  has_view_ = true;
  if (view_.ndim > MAX_DIMS || view_.ndim < 0)
    throw nb::value_error("more than 6 dimensions");
  if (view_.format && strcmp(view_.format, "O") == 0)
    throw nb::type_error("an array of objects of Python is no memory for others");
  data_ = view_.buf;
  item_ = (uint32_t)view_.itemsize;
  dims_ = view_.ndim;
  readonly_ = view_.readonly;
  kind_ = kind_of_format(view_.format);
  int64_t step = item_; // for objects that give no strides although they were requested (ctypes)
  for (int i = dims_ - 1; i >= 0; i--) {
    shape_[i] = view_.shape ? view_.shape[i] : view_.len / (Py_ssize_t)(item_ ? item_ : 1);
    stride_[i] = view_.strides ? view_.strides[i] : step;
    step *= shape_[i];
  }
  return true;
}

static Kind kind_of_code(const dlpack::Type &type) {
  switch (type.code) {
  case dlpack::INT:
    return Kind::INT;
  case dlpack::UINT:
    return Kind::UINT;
  case dlpack::FLOAT:
    return Kind::FLOAT;
  case dlpack::BFLOAT:
    return Kind::BFLOAT;
  default:
    return Kind::OTHER;
  }
}

// The C functions that a type offers; NULL: none. Types are kept alive, so the last one is remembered.
static const dlpack::Exchange *exchange_of(PyTypeObject *type) {
  static PyTypeObject *known;
  static const dlpack::Exchange *calls;
  if (type == known)
    return calls;
  const dlpack::Exchange *found = nullptr;
  nb::object capsule = nb::steal(PyObject_GetAttrString((PyObject *)type, "__dlpack_c_exchange_api__"));
  if (capsule.is_valid() && PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api"))
    found = (const dlpack::Exchange *)PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api");
  PyErr_Clear();
  while (found && found->major > 1)
    found = found->older;
  if (found && (found->major != 1 || found->minor < 3 || !found->look))
    found = nullptr;
  Py_INCREF((PyObject *)type); // the address stays that of this type
  Py_XDECREF((PyObject *)known);
  known = type, calls = found;
  return found;
}

// The caller has to order its streams: neither way requests synchronisation.
void Buffer::from_dlpack(nb::handle source, const char *name) {
  const dlpack::Exchange *calls = exchange_of(Py_TYPE(source.ptr()));
  if (calls) {
    dlpack::Tensor tensor = {};
    if (calls->look(source.ptr(), &tensor) != 0) {
      if (!PyErr_Occurred())
        refuse(name, "its type does not say where its memory is");
      throw nb::python_error();
    }
    take_tensor(tensor, tensor.device.type, name);
    keep_ = nb::borrow(source).release().ptr();
    return;
  }
  int type = nb::cast<int>(nb::int_(nb::object(source.attr("__dlpack_device__")())[0]));
  nb::object capsule =
      type == dlpack::CUDA ? source.attr("__dlpack__")(nb::arg("stream") = -1) : source.attr("__dlpack__")();
  auto *tensor = (const dlpack::Tensor *)PyCapsule_GetPointer(capsule.ptr(), "dltensor");
  if (!tensor)
    throw nb::python_error();
  take_tensor(*tensor, type, name);
  keep_ = capsule.release().ptr();
}

void Buffer::take_tensor(const dlpack::Tensor &tensor, int type, const char *name) {
  if (tensor.ndim > MAX_DIMS || tensor.ndim < 0 || tensor.dtype.bits % 8 != 0 || tensor.dtype.lanes != 1)
    refuse(name, "an array of whole bytes with at most 6 dimensions is wanted");
  data_ = (char *)tensor.data + tensor.byte_offset;
  item_ = tensor.dtype.bits / 8;
  dims_ = tensor.ndim;
  kind_ = kind_of_code(tensor.dtype);
  gpu_ = type == dlpack::CUDA || type == dlpack::CUDA_HOST || type == dlpack::CUDA_MANAGED;
  host_ = type == dlpack::CPU || type == dlpack::CUDA_HOST || type == dlpack::CUDA_MANAGED;
  if (!gpu_ && !host_)
    refuse(name, "memory of the host or of a CUDA GPU is wanted");
  device_ = type == dlpack::CUDA ? tensor.device.id : -1;
  int64_t step = item_;
  for (int i = dims_ - 1; i >= 0; i--) {
    shape_[i] = tensor.shape[i];
    stride_[i] = tensor.strides ? tensor.strides[i] * (int64_t)item_ : step;
    step *= shape_[i];
  }
}

// __array_interface__ and __cuda_array_interface__ have the same entries.
void Buffer::from_interface(nb::handle source, nb::handle interface, bool gpu, const char *name) {
  nb::dict entries = nb::cast<nb::dict>(interface);
  nb::object where = nb::borrow(entries["data"]), typestr = nb::borrow(entries["typestr"]);
  nb::object shape = nb::borrow(entries["shape"]);
  nb::object strides = entries.contains("strides") ? nb::borrow(entries["strides"]) : nb::none();
  std::string type = nb::cast<std::string>(typestr);
  if (where.is_none() || type.size() < 3 || nb::len(shape) > MAX_DIMS || type[0] == '>')
    refuse(name, "its array interface has no address, more than 6 dimensions, or elements of another byte order");
  data_ = (void *)nb::cast<uintptr_t>(nb::object(where[0]));
  readonly_ = nb::cast<bool>(nb::object(where[1]));
  item_ = (uint32_t)std::stoul(type.substr(2));
  kind_ = type[1] == 'i' ? Kind::INT : type[1] == 'u' ? Kind::UINT : type[1] == 'f' ? Kind::FLOAT : Kind::OTHER;
  gpu_ = gpu, host_ = !gpu;
  dims_ = (int)nb::len(shape);
  int64_t step = item_;
  for (int i = dims_ - 1; i >= 0; i--) {
    shape_[i] = nb::cast<int64_t>(nb::object(shape[i]));
    stride_[i] = strides.is_none() ? step : nb::cast<int64_t>(nb::object(strides[i]));
    step *= shape_[i];
  }
  keep_ = nb::borrow(source).release().ptr();
}

Buffer Buffer::of(nb::handle source, const char *name) {
  Buffer made;
  if (nb::isinstance<Buffer>(source)) { // a memory that was looked up before
    Buffer &known = nb::cast<Buffer &>(source);
    if (!known.has_view_ && !known.keep_)
      refuse(name, "the buffer was released");
    memcpy(made.shape_, known.shape_, sizeof made.shape_);
    memcpy(made.stride_, known.stride_, sizeof made.stride_);
    made.data_ = known.data_, made.dims_ = known.dims_, made.device_ = known.device_, made.item_ = known.item_;
    made.kind_ = known.kind_, made.readonly_ = known.readonly_, made.gpu_ = known.gpu_, made.host_ = known.host_;
    made.keep_ = nb::borrow(source).release().ptr();
    return made;
  }
  if (PyObject_CheckBuffer(source.ptr()) && made.from_view(source))
    return made;
  if (exchange_of(Py_TYPE(source.ptr())) || nb::hasattr(source, "__dlpack__")) {
    try {
      made.from_dlpack(source, name);
      return made;
    } catch (nb::python_error &error) { // numpy's arrays of times, and of types that jax has added to it
      if (!error.matches(PyExc_BufferError) || !nb::hasattr(source, "__array_interface__"))
        throw;
    }
  }
  const char *interfaces[] = {"__cuda_array_interface__", "__array_interface__"};
  for (int i = 0; i < 2; i++) {
    if (nb::hasattr(source, interfaces[i])) {
      made.from_interface(source, source.attr(interfaces[i]), i == 0, name);
      return made;
    }
  }
  refuse(name, "a " + name_of_type(source) +
                   " is no memory: an object with the buffer protocol, __dlpack__ or "
                   "__cuda_array_interface__ is wanted");
}

bool Buffer::same_form(const Buffer &other) const {
  return dims_ == other.dims_ && item_ == other.item_ && kind_ == other.kind_ && device_ == other.device_ &&
         readonly_ == other.readonly_ && gpu_ == other.gpu_ && host_ == other.host_ &&
         std::equal(shape_, shape_ + dims_, other.shape_) && std::equal(stride_, stride_ + dims_, other.stride_);
}

// The same for the strides of a tensor, in the form of its framework.
bool Buffer::is_form_of(const dlpack::Tensor &tensor) const {
  bool same = tensor.ndim == dims_ && tensor.dtype.bits == 8 * item_ && tensor.dtype.lanes == 1 &&
              kind_of_code(tensor.dtype) == kind_ && tensor.device.type == (gpu_ ? dlpack::CUDA : dlpack::CPU) &&
              (!gpu_ || tensor.device.id == device_) && tensor.strides;
  for (int i = 0; same && i < dims_; i++)
    same = tensor.shape[i] == shape_[i] && tensor.strides[i] * (int64_t)item_ == stride_[i];
  return same;
}

bool Buffer::look_again(nb::handle source, const char *name, bool &moved) {
  const dlpack::Exchange *calls = keep_ == source.ptr() ? exchange_of(Py_TYPE(source.ptr())) : nullptr;
  dlpack::Tensor tensor = {};
  if (calls && calls->look(source.ptr(), &tensor) == 0 && is_form_of(tensor)) {
    void *data = (char *)tensor.data + tensor.byte_offset;
    moved = moved || data != data_;
    data_ = data;
    return true;
  }
  PyErr_Clear(); // the other way raises the error
  Buffer fresh = of(source, name);
  if (!fresh.same_form(*this))
    return false;
  moved = moved || fresh.data_ != data_;
  *this = std::move(fresh);
  return true;
}

void bind_buffer(nb::module_ &m) {
  nb::class_<Buffer>(m, "Buffer")
      .def(
          "__init__", [](Buffer *self, nb::object source) { new (self) Buffer(Buffer::of(source, "source")); },
          nb::arg("source").none(), nb::sig("def __init__(self, source: object) -> None"))
      .def_prop_ro("address", [](const Buffer &self) { return (uintptr_t)self.data(); })
      .def_prop_ro("nbytes", &Buffer::bytes)
      .def_prop_ro("itemsize", &Buffer::item)
      .def_prop_ro("readonly", &Buffer::readonly)
      .def_prop_ro("contiguous", &Buffer::contiguous)
      .def_prop_ro("device", [](const Buffer &self) { return self.on_host() ? -1 : self.device(); })
      .def_prop_ro("on_gpu", [](const Buffer &self) { return !self.on_host(); })
      .def_prop_ro(
          "shape",
          [](const Buffer &self) {
            nb::list shape;
            for (int i = 0; i < self.dims(); i++)
              shape.append(self.shape(i));
            return nb::tuple(shape);
          },
          nb::sig("def shape(self) -> tuple[int, ...]"));
}
