// A rank of a group: open, membership, events.
#include "core/errors.h"

#include "ep/rank.h"

#include <chrono>
#include <dlfcn.h>
#include <nanobind/stl/vector.h>
#include <system_error>

#include "core/gil.h"
#include "core/text.h"
#include "core/wait.h"
#include "ep/receive.h"

void RankState::shut() {
  if (lends())
    raise_code(WEFT_ERR_BUSY, std::to_string(views) + " views of the rank's zero-copy memory are in use: delete the "
                                                      "arrays, or release the memoryviews, before closing it");
  if (!close([this] { weft_ep_interrupt(ep); }))
    return;
  if (!forked())
    unwatch_signals(this);
  {
    WithoutGil release;
    weft_ep_close(ep);
  }
  ep = nullptr;
  free_retired();
  for (Operation &operation : operations)
    operation = Operation();
  interrupted.clear();
  interrupted_objects.clear();
}

void RankState::retire(weft_ep_route_t *route) {
  bool used = calls.load() > 0 || (closed.load() && ep); // also while it is being closed
  if (used && !forked())
    retired.push_back(route);
  else
    weft_ep_route_free(route);
}

void RankState::free_retired() {
  for (weft_ep_route_t *route : retired)
    weft_ep_route_free(route);
  retired.clear();
}

void shut_dropped(const std::shared_ptr<RankState> &state) {
  try {
    state->dropped = state->lends();
    if (!state->dropped)
      state->shut();
  } catch (...) { // in a signal handler: the objects stay until the process ends
    PyErr_Clear();
    new std::shared_ptr<RankState>(state);
  }
}

Rank::~Rank() {
  shut_dropped(state);
}

static void *address_of_stream(nb::handle number) {
  uintptr_t address;
  if (!nb::try_cast<uintptr_t>(number, address))
    throw nb::type_error("stream: the address of a stream is a whole number from 0 to 2**64 - 1");
  return (void *)address;
}

void *stream_of(nb::handle source) {
  if (source.is_none())
    return nullptr;
  if (PyLong_Check(source.ptr()))
    return address_of_stream(source);
  if (nb::hasattr(source, "cuda_stream")) // torch
    return address_of_stream(nb::object(source.attr("cuda_stream")));
  if (nb::hasattr(source, "__cuda_stream__")) { // (version, stream), of cuda.core and others
    nb::object said = source.attr("__cuda_stream__");
    if (PyCallable_Check(said.ptr()))
      said = said();
    return address_of_stream(nb::object(said[1]));
  }
  if (nb::hasattr(source, "ptr")) // cupy
    return address_of_stream(nb::object(source.attr("ptr")));
  throw nb::type_error("stream: None, a number, or an object with cuda_stream, __cuda_stream__ or ptr is wanted");
}

namespace {

using clock_type = std::chrono::steady_clock;

// A call with a deadline, during which signals are handled. `call` owns everything that it uses.
void rank_wait(const Rank &self, uint32_t timeout_ms, std::function<int(weft_ep_t *, uint32_t)> call) {
  auto state = self.state;
  Wait wait;
  wait.timeout_ms = timeout_ms;
  wait.attempt_ms = UINT32_MAX - 1;
  wait.attempt = [state, call](uint32_t attempt_ms) {
    auto begin = clock_type::now();
    for (uint32_t left = attempt_ms;;) {
      int rc = call(state->ep, left);
      if (rc != WEFT_ERR_CANCELED || state->stopped.load() || state->closed.load() || state->asked.exchange(false))
        return rc;
      auto gone = std::chrono::duration_cast<std::chrono::milliseconds>(clock_type::now() - begin).count();
      left = gone < attempt_ms ? attempt_ms - (uint32_t)gone : 0;
    }
  };
  wait.interrupt = [state] {
    state->stopped.store(true);
    weft_ep_interrupt(state->ep);
  };
  state->check_alone();
  state->stopped.store(false);
  run_wait(state, Entered::ALONE, std::move(wait));
}

std::shared_ptr<std::vector<int32_t>> ranks_of(nb::handle source, const char *name) {
  auto ranks = std::make_shared<std::vector<int32_t>>();
  for (nb::handle entry : entries_of(source, name, "ranks")) {
    int32_t rank;
    if (!nb::try_cast<int32_t>(entry, rank))
      throw nb::type_error((std::string(name) + ": a list of ranks is wanted").c_str());
    ranks->push_back(rank);
  }
  return ranks;
}

// The arguments of weft_ep_open(), with the memory that they point to.
struct Opening {
  weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  std::string prefix, transport, listen, host_id;
  std::shared_ptr<std::vector<int32_t>> founders;
};

const char *text_of(nb::dict &given, const char *name, std::string &kept) {
  nb::object value = nb::borrow(given[name]);
  if (value.is_none())
    return nullptr;
  kept = must_be_text(value, name);
  return kept.c_str();
}

template <class T> T number_of(nb::dict &given, const char *name) {
  T value;
  if (!nb::try_cast<T>(nb::borrow(given[name]), value))
    throw nb::type_error((std::string(name) + ": a whole number within its range is wanted").c_str());
  return value;
}

void read_options(Opening &opening, nb::dict &given) {
  weft_ep_options &options = opening.options;
  options.prefix = text_of(given, "prefix", opening.prefix);
  options.transport = text_of(given, "transport", opening.transport);
  options.listen = text_of(given, "listen", opening.listen);
  options.host_id = text_of(given, "host_id", opening.host_id);
  options.rank = number_of<int32_t>(given, "rank");
  options.capacity = number_of<uint32_t>(given, "capacity");
  options.max_tokens = number_of<uint32_t>(given, "max_tokens");
  options.hidden = number_of<uint32_t>(given, "hidden");
  options.topk = number_of<uint32_t>(given, "topk");
  options.experts_per_rank = number_of<uint32_t>(given, "experts_per_rank");
  options.dtype = (weft_ep_dtype)number_of<int>(given, "dtype");
  options.combine_dtype = (weft_ep_combine_dtype)number_of<int>(given, "combine_dtype");
  options.op_timeout_ms = number_of<uint32_t>(given, "op_timeout_ms");
  options.lease_ttl_s = number_of<uint32_t>(given, "lease_ttl_s");
  options.memory = (weft_ep_memory)number_of<int>(given, "memory");
  options.device = number_of<int32_t>(given, "device");
  options.max_processors = number_of<uint32_t>(given, "max_processors");
  options.flags = number_of<uint32_t>(given, "flags");
  options.window_bytes = number_of<uint64_t>(given, "window_bytes");
  options.mode = (weft_ep_mode)number_of<int>(given, "mode");
  options.max_rows = number_of<uint32_t>(given, "max_rows");
  options.zero_copy_bytes = number_of<uint64_t>(given, "zero_copy_bytes");
  options.operations_per_step = number_of<uint32_t>(given, "operations_per_step");
  opening.founders = ranks_of(given["founders"], "founders");
  options.founders = opening.founders->empty() ? nullptr : opening.founders->data();
  options.num_founders = (uint32_t)opening.founders->size();
}

// Replaces 0 by the defaults of ep.h.
void note_sizes(RankState &state, const weft_ep_options &options) {
  state.capacity = options.capacity ? options.capacity : 64;
  state.max_tokens = options.max_tokens ? options.max_tokens : 128;
  state.hidden = options.hidden ? options.hidden : 7168;
  state.topk = options.topk ? options.topk : 8;
  state.experts = options.experts_per_rank ? options.experts_per_rank : 2;
  state.dtype = options.dtype ? (int)options.dtype : (int)WEFT_EP_BF16;
  state.cuda = weft_ep_get_memory(state.ep, nullptr) == WEFT_EP_MEMORY_CUDA;
  state.zero_copy = (const char *)weft_ep_get_zero_copy_memory(state.ep, &state.zero_copy_bytes);
  state.lost.resize(state.capacity);
  state.missing.resize((size_t)state.max_tokens * state.topk);
}

// The GPU of this thread's context; -1: it has no context, and then the current GPU is the same on every thread.
int32_t current_gpu() {
  int device = -1;
  void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (!driver)
    return -1;
  auto get = (int (*)(int *))dlsym(driver, "cuCtxGetDevice");
  bool known = get && get(&device) == 0;
  dlclose(driver);
  return known ? device : -1;
}

Rank *open_rank(const Store &store, nb::dict given, uint32_t timeout_ms) {
  WhileOpening guard;
  auto opening = std::make_shared<Opening>();
  auto state = std::make_shared<RankState>();
  read_options(*opening, given);
  store.state->check_open();
  state->store = store.state;
  opening->options.store = store.state->store;
  Wait wait;
  wait.timeout_ms = timeout_ms;
  wait.attempt_ms = 60000;
  wait.attempt = [state, opening](uint32_t attempt_ms) {
    return weft_ep_open(&state->ep, &opening->options, attempt_ms);
  };
  wait.undo = [state] {
    weft_ep_close(state->ep);
    state->ep = nullptr;
  };
  if (opening->options.memory != WEFT_EP_MEMORY_HOST && opening->options.device == -1)
    opening->options.device = current_gpu(); // here, since the library may be called on another thread
  run_wait(state, Entered::ALONE, std::move(wait));
  note_sizes(*state, opening->options);
  try {
    watch_signals(state.get());
  } catch (const std::system_error &) {
    raise_code(WEFT_ERR_LIMIT, "no more threads");
  }
  return new Rank(state);
}

void change(const Rank &self, nb::object add, nb::object remove, uint32_t timeout_ms) {
  auto in = ranks_of(add, "add"), out = ranks_of(remove, "remove");
  rank_wait(self, timeout_ms, [=](weft_ep_t *ep, uint32_t left) {
    weft_ep_change_args args = WEFT_EP_CHANGE_ARGS_INIT;
    args.add = in->data(), args.num_add = (uint32_t)in->size();
    args.remove = out->data(), args.num_remove = (uint32_t)out->size();
    return weft_ep_change(ep, &args, left);
  });
}

uint64_t await_start(const Rank &self, uint32_t timeout_ms) {
  auto op = std::make_shared<uint64_t>(0);
  rank_wait(self, timeout_ms, [=](weft_ep_t *ep, uint32_t left) { return weft_ep_await_start(ep, left, op.get()); });
  return *op;
}

// (epoch, [rank])
nb::object view(const Rank &self, bool committed) {
  if (committed)
    self.state->check_open();
  else
    self.state->check_alone();
  std::vector<int32_t> ranks(self.state->capacity);
  uint64_t epoch = 0;
  uint32_t count = 0;
  auto call = committed ? weft_ep_committed_view : weft_ep_view;
  check(call(self.state->ep, &epoch, ranks.data(), (uint32_t)ranks.size(), &count));
  nb::list list;
  for (uint32_t i = 0; i < count && i < ranks.size(); i++)
    list.append(ranks[i]);
  return nb::make_tuple(epoch, list);
}

nb::object states(const Rank &self) {
  self.state->check_alone();
  std::vector<weft_ep_rank_state> all(self.state->capacity);
  uint32_t count = 0;
  check(weft_ep_states(self.state->ep, all.data(), (uint32_t)all.size(), &count));
  nb::list list;
  for (uint32_t i = 0; i < count && i < all.size(); i++)
    list.append((int)all[i]);
  return list;
}

// (kind, rank, incarnation, epoch, op, time_ns, dropped, detail), or None.
nb::object next_event(const Rank &self) {
  self.state->check_open();
  weft_ep_event event = WEFT_EP_EVENT_INIT;
  int rc = weft_ep_next_event(self.state->ep, &event);
  check(rc);
  if (rc == 0)
    return nb::none();
  return nb::make_tuple((int)event.kind, event.rank, event.incarnation, event.epoch, event.op, event.time_ns,
                        event.dropped, loose_text(event.detail));
}

// The masks as a list, or into an int32 array in rank memory.
nb::object masks(const Rank &self, nb::object into, nb::object stream) {
  self.state->check_alone();
  if (into.is_none()) {
    if (self.state->cuda)
      raise_code(WEFT_ERR_INVALID, "masks of a rank on CUDA memory: give an int32 array on its GPU as `into`");
    std::vector<int32_t> all(self.state->capacity);
    check(weft_ep_mask_read(self.state->ep, all.data(), (uint32_t)all.size(), nullptr));
    nb::list list;
    for (int32_t masked : all)
      list.append(masked != 0);
    return list;
  }
  Buffer array = Buffer::of(into, "into");
  if (array.item() != 4 || !is_whole(array) || !array.contiguous() || array.readonly() ||
      (self.state->cuda ? !array.on_gpu() : !array.on_host()))
    throw nb::type_error("into: a contiguous writable int32 array in rank memory is wanted");
  check(weft_ep_mask_read(self.state->ep, (int32_t *)array.data(), (uint32_t)(array.bytes() / 4), stream_of(stream)));
  return nb::none();
}

template <class F> void by_ranks(const Rank &self, nb::object ranks, uint32_t timeout_ms, F call) {
  auto all = ranks_of(ranks, "ranks");
  rank_wait(self, timeout_ms, [=](weft_ep_t *ep, uint32_t left) { return call(ep, all->data(), all->size(), left); });
}

void bind_membership(nb::class_<Rank> &rank) {
  rank.def(
          "connect",
          [](const Rank &self, nb::object ranks, uint32_t ms) { by_ranks(self, ranks, ms, weft_ep_connect); },
          nb::arg("ranks").none(), nb::arg("timeout_ms"),
          nb::sig("def connect(self, ranks: typing.Iterable[int], timeout_ms: int) -> None"))
      .def(
          "disconnect",
          [](const Rank &self, nb::object ranks, uint32_t ms) { by_ranks(self, ranks, ms, weft_ep_disconnect); },
          nb::arg("ranks").none(), nb::arg("timeout_ms"),
          nb::sig("def disconnect(self, ranks: typing.Iterable[int], timeout_ms: int) -> None"))
      .def(
          "activate", [](const Rank &self, uint32_t ms) { rank_wait(self, ms, weft_ep_activate); },
          nb::arg("timeout_ms"))
      .def(
          "offer", [](const Rank &self, uint32_t ms) { rank_wait(self, ms, weft_ep_offer); }, nb::arg("timeout_ms"))
      .def(
          "withdraw",
          [](const Rank &self, int32_t rank, uint32_t ms) {
            rank_wait(self, ms, [=](weft_ep_t *ep, uint32_t left) { return weft_ep_withdraw(ep, rank, left); });
          },
          nb::arg("rank"), nb::arg("timeout_ms"))
      .def("change", &change, nb::arg("add").none(), nb::arg("remove").none(), nb::arg("timeout_ms"),
           nb::sig("def change(self, add: typing.Iterable[int], remove: typing.Iterable[int], timeout_ms: int) -> "
                   "None"))
      .def("await_start", &await_start, nb::arg("timeout_ms"))
      .def("view", &view, nb::arg("committed"), nb::sig("def view(self, committed: bool) -> tuple[int, list[int]]"))
      .def("states", &states, nb::sig("def states(self) -> list[int]"))
      .def(
          "mask_update",
          [](const Rank &self, int32_t rank, bool masked) {
            self.state->check_alone();
            check(weft_ep_mask_update(self.state->ep, rank, masked));
          },
          nb::arg("rank"), nb::arg("masked"))
      .def("masks", &masks, nb::arg("into").none(), nb::arg("stream").none(),
           nb::sig("def masks(self, into: object, stream: object) -> list[bool] | None"))
      .def(
          "set_mark",
          [](const Rank &self, uint64_t mark) {
            self.state->check_alone();
            weft_ep_set_mark(self.state->ep, mark);
          },
          nb::arg("mark"));
}

} // namespace

void bind_rank(nb::module_ &m) {
  nb::class_<Rank> rank(m, "Rank", nb::is_weak_referenceable());
  rank.def_prop_ro("index",
                   [](const Rank &self) {
                     self.state->check_open();
                     return weft_ep_rank(self.state->ep);
                   })
      .def_prop_ro("incarnation",
                   [](const Rank &self) {
                     self.state->check_open();
                     return weft_ep_incarnation(self.state->ep);
                   })
      .def_prop_ro("cuda", [](const Rank &self) { return self.state->cuda; })
      .def_prop_ro("device",
                   [](const Rank &self) {
                     int32_t device = -1;
                     self.state->check_open();
                     weft_ep_get_memory(self.state->ep, &device);
                     return device;
                   })
      .def_prop_ro("active",
                   [](const Rank &self) {
                     self.state->check_alone();
                     return weft_ep_is_active(self.state->ep);
                   })
      .def_prop_ro("next_op",
                   [](const Rank &self) {
                     self.state->check_alone();
                     return weft_ep_next_op(self.state->ep);
                   })
      .def("next_event", &next_event,
           nb::sig("def next_event(self) -> tuple[int, int, int, int, int, int, int, str] | None"))
      .def("fileno",
           [](const Rank &self) {
             int fd = -1;
             self.state->check_open();
             check(weft_ep_fd(self.state->ep, &fd));
             return fd;
           })
      .def("interrupt",
           [](const Rank &self) {
             self.state->check_open();
             self.state->asked.store(true);
             weft_ep_interrupt(self.state->ep);
           })
      .def_prop_ro("closed", [](const Rank &self) { return self.state->closed.load() || self.state->forked(); })
      .def("close", [](Rank &self) { self.state->shut(); });
  bind_membership(rank);
  bind_operations(rank, m);
  bind_counters(rank, m);
  bind_zero_copy(rank, m);
  m.def("rank_open", &open_rank, nb::arg("store"), nb::arg("options"), nb::arg("timeout_ms"),
        nb::rv_policy::take_ownership,
        nb::sig("def rank_open(store: Store, options: dict[str, typing.Any], timeout_ms: int) -> Rank"));
}
