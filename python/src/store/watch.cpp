// Watches of a store: its thread queues events, and Python takes them at any time.
#include <deque>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/errors.h"
#include "core/text.h"
#include "core/wait.h"
#include "store/store.h"

namespace {

struct Event {
  weft_store_event_kind kind;
  int64_t revision = 0;
  bool has_kv = false;
  std::string key, value;
  int64_t create = 0, mod = 0, version = 0, lease = 0;
};

struct WatchState : Gate {
  WatchState() : Gate("the watch"), fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~WatchState() {
    weft_store_watch_close(watch);
    ::close(fd);
  }
  void add(const weft_store_event *event);
  bool take(Event *event);

  std::shared_ptr<StoreState> store; // the watch is closed before it
  weft_store_watch_t *watch = nullptr;
  std::mutex queue_mutex;
  std::deque<Event> queue;
  const int fd; // readable while the queue has events
};

// On the store's thread.
void WatchState::add(const weft_store_event *event) {
  Event copy;
  copy.kind = event->kind;
  copy.revision = event->revision;
  if (event->kv) {
    copy.has_kv = true;
    copy.key.assign(event->kv->key, event->kv->key_len);
    if (event->kv->value)
      copy.value.assign((const char *)event->kv->value, event->kv->value_len);
    copy.create = event->kv->create_revision, copy.mod = event->kv->mod_revision;
    copy.version = event->kv->version, copy.lease = event->kv->lease;
  }
  std::lock_guard<std::mutex> lock(queue_mutex);
  queue.push_back(std::move(copy));
  eventfd_write(fd, 1);
}

bool WatchState::take(Event *event) {
  std::lock_guard<std::mutex> lock(queue_mutex);
  if (queue.empty())
    return false;
  *event = std::move(queue.front());
  queue.pop_front();
  eventfd_t count;
  if (queue.empty())
    eventfd_read(fd, &count);
  return true;
}

class Watch {
public:
  ~Watch() {
    WithoutGil release;
    state.reset();
  }
  std::shared_ptr<WatchState> state;
};

Watch *open_watch(const Store &store, nb::object prefix, int64_t from) {
  WhileOpening guard;
  auto state = std::make_shared<WatchState>();
  auto text = std::make_shared<std::string>(c_text(loose_bytes(prefix, "prefix"), "prefix"));
  store.state->check_open();
  if (state->fd < 0)
    raise_code(WEFT_ERR_LIMIT, "no more descriptors");
  state->store = store.state;
  Wait wait;
  wait.timeout_ms = wait.attempt_ms = UINT32_MAX - 1;
  // The library's thread holds a plain pointer, so the state is freed only after weft_store_watch_close().
  wait.attempt = [state, text, from](uint32_t) {
    return weft_store_watch_open(
        state->store->store, text->c_str(), from,
        [](void *arg, const weft_store_event *event) { ((WatchState *)arg)->add(event); }, state.get(), &state->watch);
  };
  run_wait(store.state, Entered::SHARED, std::move(wait));
  auto *watch = new Watch;
  watch->state = state;
  return watch;
}

nb::object made_event(const Event &event) {
  nb::object kv = nb::none();
  if (event.has_kv)
    kv = nb::make_tuple(loose_text(event.key.data(), event.key.size()),
                        nb::bytes(event.value.data(), event.value.size()), event.create, event.mod, event.version,
                        event.lease);
  return nb::make_tuple((int)event.kind, event.revision, kv);
}

// (kind, revision, key and value or None), or None when the time has passed.
nb::object next_event(Watch &self, uint32_t timeout_ms) {
  auto state = self.state;
  state->check_open();
  Event event;
  if (state->take(&event))
    return made_event(event);
  for (uint32_t left = timeout_ms; left > 0;) {
    uint32_t slice = left < 50 ? left : 50;
    {
      Entered entered(*state, Entered::SHARED);
      WithoutGil release;
      pollfd news = {state->fd, POLLIN, 0};
      poll(&news, 1, (int)slice);
    }
    if (left != UINT32_MAX)
      left -= slice;
    run_signal_handlers();
    state->check_open();
    if (state->take(&event))
      return made_event(event);
  }
  return nb::none();
}

void close_watch(Watch &self) {
  auto state = self.state;
  if (!state->close())
    return;
  WithoutGil release;
  weft_store_watch_close(state->watch);
  state->watch = nullptr;
}

} // namespace

void bind_watch(nb::module_ &m) {
  nb::class_<Watch>(m, "Watch")
      .def("next", &next_event, nb::arg("timeout_ms"),
           nb::sig("def next(self, timeout_ms: int) -> tuple[int, int, tuple[str, bytes, int, int, int, int] | None] "
                   "| None"))
      .def("fileno",
           [](const Watch &self) {
             self.state->check_open();
             return self.state->fd;
           })
      .def_prop_ro("closed", [](const Watch &self) { return self.state->closed.load() || self.state->forked(); })
      .def("close", &close_watch);
  m.def("watch_open", &open_watch, nb::arg("store"), nb::arg("prefix").none(), nb::arg("start"),
        nb::rv_policy::take_ownership,
        nb::sig("def watch_open(store: Store, prefix: str | bytes, start: int) -> Watch"));
}
