// Memory of any framework: the buffer protocol, DLPack, __cuda_array_interface__, __array_interface__.
#pragma once

#include <cstdint>
#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace dlpack {
struct Tensor;
}

// The kind of an element. Frameworks without bf16 and fp8 hold them as unsigned integers, or as raw bytes. SWAPPED: the
// bytes are in the other order.
enum class Kind : uint8_t { INT, UINT, FLOAT, BFLOAT, OTHER, SWAPPED };

// An array of another owner, with a reference that keeps it. It can be moved, not copied.
class Buffer {
public:
  enum { MAX_DIMS = 6 };
  Buffer() = default;
  ~Buffer() { release(); }
  Buffer(Buffer &&other) noexcept { take(other); }
  Buffer &operator=(Buffer &&other) noexcept {
    if (this != &other) {
      release();
      take(other);
    }
    return *this;
  }
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;

  // `name` is its name in error sentences. Raises TypeError if `source` is no such memory.
  static Buffer of(nb::handle source, const char *name);
  // Looks up `source`, from which this was made, again; sets `moved` if its address has changed. False: it has another
  // shape, other strides, another type or another device, and nothing is changed.
  bool look_again(nb::handle source, const char *name, bool &moved);

  void *data() const { return data_; }
  int dims() const { return dims_; }
  int64_t shape(int dim) const { return shape_[dim]; }
  int64_t stride(int dim) const { return stride_[dim]; } // in bytes
  uint32_t item() const { return item_; }
  Kind kind() const { return kind_; }
  bool readonly() const { return readonly_; }
  bool on_gpu() const { return gpu_; }
  bool on_host() const { return host_; }
  int device() const { return device_; }
  uint64_t bytes() const; // of its elements
  bool contiguous() const { return contiguous_from(0); }
  bool contiguous_from(int dim) const; // in C's order, of the dimensions from `dim` on

private:
  void *data_ = nullptr;
  int64_t shape_[MAX_DIMS] = {};
  int64_t stride_[MAX_DIMS] = {};
  int dims_ = 0;
  int device_ = -1;
  uint32_t item_ = 1;
  Kind kind_ = Kind::OTHER;
  bool readonly_ = false, gpu_ = false, host_ = true;
  Py_buffer view_ = {}; // of the buffer protocol, if `has_view_`
  bool has_view_ = false;
  PyObject *keep_ = nullptr; // else the owner of the memory: the array, or its capsule

  void release();
  void take(Buffer &other) noexcept;
  bool same_form(const Buffer &other) const;
  bool is_form_of(const dlpack::Tensor &tensor) const;
  bool from_view(nb::handle source);
  void from_dlpack(nb::handle source, const char *name);
  void take_tensor(const dlpack::Tensor &tensor, int type, const char *name);
  void from_interface(nb::handle source, nb::handle interface, bool gpu, const char *name);
};

void bind_buffer(nb::module_ &m);
