// A round of events on UCX's TCP connections goes no further once it has closed one.
//
// UCX's TCP handles all the events that epoll_wait() has found, reading before writing. When a read finds that the peer
// has gone, UCX closes the connection, and the others to that peer with it; but it goes on with their events that were
// found in the same round, among them the one to write what was still pending, and uses what it has freed
// (uct_tcp_iface_handle_events; seen in 1.13 and 1.18: an assertion or SIGSEGV in the process that lives). The events
// of connections that are still open are found again in the next round, for the sets are level-triggered.
//
// So this plug-in has a function of libucs's name and kind (ucs/sys/event_set.h), which libuct finds first, for it is
// loaded as a library of the plug-in. In a process that had loaded UCX before by itself, UCX stays as it is.
#include <dlfcn.h>
#include <pthread.h>
#include <ucs/sys/event_set.h>

typedef ucs_status_t (*wait_fn)(ucs_sys_event_set_t *set, unsigned *num_events, int timeout_ms,
                                ucs_event_set_handler_t handler, void *arg);
typedef ucs_status_t (*del_fn)(ucs_sys_event_set_t *set, int fd);

struct round {
  ucs_event_set_handler_t handler;
  void *arg;
  unsigned closed; // `closed` at its beginning
};

static wait_fn wait_of_ucs;
static del_fn del_of_ucs;
static _Thread_local unsigned closed; // connections that this thread has taken out of sets

// Asked of the library that has a function beside these two: RTLD_NEXT looks in the libraries of the program alone.
static void find(void) {
  Dl_info library;
  void *handle =
      dladdr((void *)ucs_event_set_create, &library) ? dlopen(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
  if (!handle)
    return;
  wait_of_ucs = (wait_fn)dlsym(handle, "ucs_event_set_wait");
  del_of_ucs = (del_fn)dlsym(handle, "ucs_event_set_del");
  dlclose(handle);
}

static void find_once(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find);
}

static void handle_unless_closed(void *data, ucs_event_set_types_t events, void *arg) {
  const struct round *round = arg;
  ucs_event_set_types_t reading = events & (ucs_event_set_types_t)~UCS_EVENT_SET_EVWRITE;
  if (reading && closed == round->closed)
    round->handler(data, reading, round->arg);
  if (events & UCS_EVENT_SET_EVWRITE && closed == round->closed)
    round->handler(data, UCS_EVENT_SET_EVWRITE, round->arg);
}

__attribute__((visibility("default"))) ucs_status_t ucs_event_set_wait(ucs_sys_event_set_t *set, unsigned *num_events,
                                                                       int timeout_ms, ucs_event_set_handler_t handler,
                                                                       void *arg) {
  find_once();
  struct round round = {.handler = handler, .arg = arg, .closed = closed};
  return wait_of_ucs ? wait_of_ucs(set, num_events, timeout_ms, handle_unless_closed, &round) : UCS_ERR_UNSUPPORTED;
}

__attribute__((visibility("default"))) ucs_status_t ucs_event_set_del(ucs_sys_event_set_t *set, int fd) {
  find_once();
  closed++;
  return del_of_ucs ? del_of_ucs(set, fd) : UCS_ERR_UNSUPPORTED;
}
