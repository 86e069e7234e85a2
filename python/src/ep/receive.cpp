// The buffers that an operation is received into.
#include "core/errors.h"

#include "ep/receive.h"

#include "core/text.h"

uint32_t row_bytes_of(int dtype, uint32_t hidden) {
  return dtype == WEFT_EP_OPAQUE ? 0 : dtype == WEFT_EP_BF16 ? 2 * hidden : hidden;
}

uint32_t scale_items_of(int dtype, uint32_t hidden) {
  switch (dtype) {
  case WEFT_EP_FP8:
  case WEFT_EP_FP8_POW2:
    return (hidden + 127) / 128;
  case WEFT_EP_FP8_UE8M0:
    return (hidden + 511) / 512;
  default:
    return 0;
  }
}

bool is_whole(const Buffer &array) {
  switch (array.kind()) {
  case Kind::FLOAT:
    return false;
  case Kind::OTHER:
    return array.item() <= 2;
  case Kind::SWAPPED:
    return array.item() == 1;
  default:
    return true;
  }
}

void check_array(const Buffer &array, const Wanted &wanted, bool cuda) {
  auto refuse = [&](const std::string &why) { throw nb::type_error((std::string(wanted.name) + ": " + why).c_str()); };
  if (cuda ? !array.on_gpu() : !array.on_host())
    refuse(cuda ? "memory of the rank's GPU is wanted" : "memory of the host is wanted");
  if (array.item() != wanted.item || !(wanted.real ? array.kind() == Kind::FLOAT : is_whole(array)))
    refuse(wanted.real        ? "float32 is wanted"
           : wanted.item == 2 ? "bf16 is wanted: of a framework that has it, or as uint16 (numpy: x.view(np.uint16))"
           : wanted.item == 1 ? "elements of one byte are wanted"
                              : "integers of " + std::to_string(8 * wanted.item) + " bits are wanted");
  if (wanted.written && array.readonly())
    refuse("it is read-only, and would be written");
  if (array.bytes() / wanted.item < wanted.elements)
    raise_code(WEFT_ERR_INVALID, std::string(wanted.name) + ": " + std::to_string(array.bytes() / wanted.item) +
                                     " elements are fewer than the " + std::to_string(wanted.elements) + " needed");
}

Buffer array_of(nb::handle source, const Wanted &wanted, bool cuda) {
  Buffer array = Buffer::of(source, wanted.name);
  check_array(array, wanted, cuda);
  if (!array.contiguous())
    raise_code(WEFT_ERR_INVALID, std::string(wanted.name) + ": its elements have to be one after the other");
  return array;
}

void *take_array(nb::handle source, const Wanted &wanted, bool cuda, std::vector<Buffer> &kept) {
  if (source.is_none())
    return nullptr;
  kept.push_back(array_of(source, wanted, cuda));
  return kept.back().data();
}

namespace {

nb::object entry(nb::dict &given, const char *name) {
  return given.contains(name) ? nb::object(nb::borrow(given[name])) : nb::none();
}

// Keeps an array, and stores its address in `address` of the arguments.
void keep(Receive &self, const char *name, nb::handle source, Buffer array, void **address) {
  *address = array.data();
  self.arrays.push_back({name, nb::borrow(source), std::move(array), address});
}

void take(Receive &self, nb::handle source, const Wanted &wanted, void **address) {
  *address = nullptr;
  if (!source.is_none())
    keep(self, wanted.name, source, array_of(source, wanted, self.cuda), address);
}

// Scales may have strides: shape [E][rows][n] or [rows][n].
void take_scales(Receive &self, nb::handle source) {
  bool per_expert = self.args.layout == WEFT_EP_PER_EXPERT;
  int dims = per_expert ? 3 : 2;
  Buffer array = Buffer::of(source, "scales");
  bool real = self.dtype == WEFT_EP_FP8 || self.dtype == WEFT_EP_FP8_POW2;
  check_array(array, {"scales", 4, real, self.rows * self.scale_items, true}, self.cuda);
  if (array.dims() == dims && array.shape(dims - 2) >= (int64_t)self.args.rows &&
      array.shape(dims - 1) >= (int64_t)self.scale_items && (!per_expert || array.shape(0) >= (int64_t)self.experts)) {
    for (int i = 0; i < dims; i++) {
      if (array.stride(i) % 4 != 0 || array.stride(i) <= 0)
        raise_code(WEFT_ERR_INVALID, "scales: strides have to be positive, and whole elements");
    }
    self.args.scale_row_stride = (uint64_t)array.stride(dims - 2) / 4;
    self.args.scale_block_stride = (uint64_t)array.stride(dims - 1) / 4;
    if (per_expert)
      self.args.scale_expert_stride = (uint64_t)array.stride(0) / 4;
  } else if (!array.contiguous()) {
    raise_code(WEFT_ERR_INVALID, "scales: an array with strides has the shape [E][rows][n] or [rows][n]");
  }
  keep(self, "scales", source, std::move(array), &self.args.scales);
}

// local_expert, slot and RANK_MAJOR weights: [rows][K], where the dispatch gives K.
void take_by_topk(Receive &self, nb::dict &given, const char *name, bool real, void **address) {
  nb::object source = entry(given, name);
  take(self, source, {name, 4, real, 0, true}, address);
  if (source.is_none())
    return;
  uint64_t topk = self.rows ? self.arrays.back().buffer.bytes() / 4 / self.rows : 0;
  if (topk < self.max_topk)
    self.max_topk = (uint32_t)topk;
}

// The arrays that a call may replace.
void take_counters(Receive &self, nb::handle expert_total, nb::handle wait_ns) {
  take(self, expert_total, {"expert_total", 4, false, self.experts, true}, (void **)&self.args.expert_total);
  take(self, wait_ns, {"wait_ns", 8, false, self.capacity, true}, (void **)&self.args.wait_ns);
}

void take_arrays(Receive &self, nb::dict &given) {
  weft_ep_recv_args &args = self.args;
  bool major = args.layout == WEFT_EP_RANK_MAJOR;
  auto take_one = [&](const char *name, uint32_t item, uint64_t elements, void *address) {
    take(self, entry(given, name), {name, item, false, elements, true}, (void **)address);
  };
  uint64_t bytes = self.rows * self.row_bytes;
  uint32_t item = self.dtype == WEFT_EP_BF16 ? 2 : 1;
  take_one("x", item, bytes / item, &args.x);
  nb::object scales = entry(given, "scales");
  if (!scales.is_none())
    take_scales(self, scales);
  take_one("counts", 4, self.experts, &args.counts);
  take_one("src_rank", 4, self.rows, &args.src_rank);
  take_one("src_token", 4, self.rows, &args.src_token);
  take_one("range", 8, major ? self.capacity : (uint64_t)self.experts * self.capacity, &args.range);
  take_one("rows_at", 8, self.rows, &args.rows_at);
  take_one("expert_end", 4, self.experts, &args.expert_end);
  take_one("lost", 8, (self.capacity + 63) / 64, &args.lost);
  take_one("status", 8, (sizeof(weft_ep_recv_status) + 7) / 8, &args.status);
  args.status_size = args.status ? sizeof(weft_ep_recv_status) : 0;
  take_by_topk(self, given, "local_expert", false, (void **)&args.local_expert);
  if (args.layout == WEFT_EP_PACKED)
    take(self, entry(given, "weights"), {"weights", 4, true, self.rows, true}, (void **)&args.weights);
  else
    take_by_topk(self, given, "weights", true, (void **)&args.weights);
  take_by_topk(self, given, "slot", false, (void **)&args.slot);
  self.in_place = args.rows_at && !args.x;
  self.fixed = self.arrays.size();
  take_counters(self, entry(given, "expert_total"), entry(given, "wait_ns"));
}

// Reads the addresses of the arrays again; returns whether one has changed.
bool renew(Receive &self, nb::object expert_total, nb::object wait_ns) {
  bool moved = false;
  if (self.calls > 0)
    raise_code(WEFT_ERR_BUSY, "another call is receiving into it, or renews it");
  Receiving renewing(self); // a look-up may run Python code, and so other calls
  for (size_t i = 0; i < self.fixed; i++) {
    ReceiveArray &array = self.arrays[i];
    if (!array.buffer.look_again(array.source, array.name, moved))
      raise_code(WEFT_ERR_INVALID, std::string(array.name) + ": its shape, strides, type or device are not those that "
                                                             "the receive was made with: make another one");
    *array.address = array.buffer.data();
  }
  if (self.arrays.size() == self.fixed && expert_total.is_none() && wait_ns.is_none())
    return moved;
  self.arrays.erase(self.arrays.begin() + (std::ptrdiff_t)self.fixed, self.arrays.end());
  take_counters(self, expert_total, wait_ns);
  return moved;
}

Receive *make_receive(const Rank &rank, int layout, uint32_t rows, int dtype, uint32_t row_bytes, uint32_t scale_bytes,
                      uint32_t alignment, uint32_t flags, nb::dict given) {
  auto self = std::make_unique<Receive>();
  RankState &state = *rank.state;
  state.check_open();
  self->args.layout = (weft_ep_layout)layout;
  self->args.rows = rows;
  self->args.alignment = alignment;
  self->args.flags = flags;
  self->dtype = dtype ? dtype : state.dtype;
  self->cuda = state.cuda;
  self->capacity = state.capacity, self->experts = state.experts, self->hidden = state.hidden;
  bool opaque = self->dtype == WEFT_EP_OPAQUE;
  self->row_bytes = opaque ? row_bytes : row_bytes_of(self->dtype, state.hidden);
  self->scale_items = opaque ? scale_bytes / 4 : scale_items_of(self->dtype, state.hidden);
  self->rows = (uint64_t)rows * (layout == WEFT_EP_PER_EXPERT || layout == 0 ? state.experts : 1);
  if (layout == 0)
    self->args.layout = WEFT_EP_PER_EXPERT;
  if (self->rows > INT32_MAX)
    raise_code(WEFT_ERR_INVALID, "rows: more than 2,147,483,647 in all parts together");
  take_arrays(*self, given);
  return self.release();
}

} // namespace

nb::object receive_of(nb::handle source) {
  static PyObject *const name = PyUnicode_InternFromString("_handle"); // each dispatch looks it up
  nb::object handle = nb::steal(PyObject_GetAttr(source.ptr(), name));
  if (!handle.is_valid())
    PyErr_Clear();
  if (!handle.is_valid() || !nb::isinstance<Receive>(handle))
    throw nb::type_error("into: what Rank.receive() made is wanted");
  return handle;
}

void bind_receive(nb::module_ &m) {
  nb::class_<Receive>(m, "Receive")
      .def_prop_ro(
          "status",
          [](const Receive &self) -> nb::object {
            const weft_ep_recv_status *status = self.args.status;
            if (!status || self.cuda)
              return nb::none();
            return nb::make_tuple(status->op, status->epoch, status->mark, status->num_ranks, status->num_rows,
                                  status->rows_needed, status->num_lost, status->written);
          },
          nb::sig("def status(self) -> tuple[int, ...] | None"))
      .def("renew", &renew, nb::arg("expert_total").none(), nb::arg("wait_ns").none(),
           nb::sig("def renew(self, expert_total: object, wait_ns: object) -> bool"));
  m.def("receive", &make_receive, nb::arg("rank"), nb::arg("layout"), nb::arg("rows"), nb::arg("dtype"),
        nb::arg("row_bytes"), nb::arg("scale_bytes"), nb::arg("alignment"), nb::arg("flags"), nb::arg("arrays"),
        nb::rv_policy::take_ownership,
        nb::sig("def receive(rank: Rank, layout: int, rows: int, dtype: int, row_bytes: int, scale_bytes: int, "
                "alignment: int, flags: int, arrays: dict[str, typing.Any]) -> Receive"));
}
