// A round of events on UCX's TCP connections passes over those that were closed in it.
//
// UCX's TCP handles all the events that epoll_wait() has found, reading before writing. When a read finds that the peer
// has gone, UCX closes the connection, and may close others to that peer with it; but it goes on with their events that
// were found in the same round, among them the one to write what was still pending, and uses what it has freed
// (uct_tcp_iface_handle_events; an assertion or SIGSEGV in the process that lives). base/avoided.c says in which
// versions; with others all is as UCX has it.
//
// So this plug-in has functions of libucs's names and kinds (ucs/sys/event_set.h, ucs/sys/sock.h), which libuct finds
// first, for it is loaded as a library of the plug-in. They know which descriptors were closed since the round began.
// (That one has left the set says less: UCX takes connections out of it and puts them back.) In a process that had
// loaded UCX before by itself, UCX stays as it is.
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>
#include <ucs/sys/event_set.h>
#include <ucs/sys/sock.h>

#include "base/avoided.h"

#define SHOWN __attribute__((visibility("default")))

enum { MOST = 64 }; // connections that one round closes; after more of them it handles nothing

// What a descriptor is in a set for.
struct place {
  ucs_sys_event_set_t *set;
  void *data;
};

struct round {
  ucs_sys_event_set_t *set;
  ucs_event_set_handler_t handler;
  void *arg;
  void *closed[MOST];
  unsigned num_closed;
  struct round *outer; // in whose handler this one began
};

static struct {
  ucs_status_t (*wait)(ucs_sys_event_set_t *set, unsigned *num_events, int timeout_ms, ucs_event_set_handler_t handler,
                       void *arg);
  ucs_status_t (*add)(ucs_sys_event_set_t *set, int fd, ucs_event_set_types_t events, void *data);
  ucs_status_t (*mod)(ucs_sys_event_set_t *set, int fd, ucs_event_set_types_t events, void *data);
  void (*close)(int *fd);
  bool found, passes_over;
} ucs;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct place *places; // by descriptor, under the lock
static size_t num_places;
static _Thread_local struct round *current;

// Asked of the library that has a function beside these: RTLD_NEXT looks in the libraries of the program alone.
static void find(void) {
  Dl_info library;
  void *handle =
      dladdr((void *)ucs_event_set_create, &library) ? dlopen(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
  if (!handle)
    return;
  *(void **)&ucs.wait = dlsym(handle, "ucs_event_set_wait");
  *(void **)&ucs.add = dlsym(handle, "ucs_event_set_add");
  *(void **)&ucs.mod = dlsym(handle, "ucs_event_set_mod");
  *(void **)&ucs.close = dlsym(handle, "ucs_close_fd");
  ucs.found = ucs.wait && ucs.add && ucs.mod && ucs.close;
  unsigned major, minor, release;
  ucp_get_version(&major, &minor, &release);
  ucs.passes_over = avoided_in(AVOIDED_UCX_EVENTS, major, minor);
  dlclose(handle);
}

static bool found(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find);
  return ucs.found;
}

// Without memory a connection is not known, and is handled as UCX does.
static void remember(int fd, struct place place) {
  pthread_mutex_lock(&lock);
  if ((size_t)fd >= num_places) {
    size_t count = ((size_t)fd + 1) * 2;
    struct place *more = realloc(places, count * sizeof *more);
    if (more) {
      memset(more + num_places, 0, (count - num_places) * sizeof *more);
      places = more;
      num_places = count;
    }
  }
  if ((size_t)fd < num_places)
    places[fd] = place;
  pthread_mutex_unlock(&lock);
}

static struct place forget(int fd) {
  struct place place = {NULL, NULL};
  pthread_mutex_lock(&lock);
  if ((size_t)fd < num_places) {
    place = places[fd];
    places[fd] = (struct place){NULL, NULL};
  }
  pthread_mutex_unlock(&lock);
  return place;
}

static bool is_open(const struct round *round, const void *data) {
  for (unsigned i = 0; i < round->num_closed; i++)
    if (round->closed[i] == data)
      return false;
  return round->num_closed < MOST;
}

static void handle_if_open(void *data, ucs_event_set_types_t events, void *arg) {
  const struct round *round = arg;
  ucs_event_set_types_t reading = events & (ucs_event_set_types_t)~UCS_EVENT_SET_EVWRITE;
  if (reading && is_open(round, data))
    round->handler(data, reading, round->arg);
  if (events & UCS_EVENT_SET_EVWRITE && is_open(round, data))
    round->handler(data, UCS_EVENT_SET_EVWRITE, round->arg);
}

SHOWN ucs_status_t ucs_event_set_wait(ucs_sys_event_set_t *set, unsigned *num_events, int timeout_ms,
                                      ucs_event_set_handler_t handler, void *arg) {
  if (!found())
    return UCS_ERR_UNSUPPORTED;
  if (!ucs.passes_over)
    return ucs.wait(set, num_events, timeout_ms, handler, arg);
  struct round round = {.set = set, .handler = handler, .arg = arg, .outer = current};
  current = &round;
  ucs_status_t status = ucs.wait(set, num_events, timeout_ms, handle_if_open, &round);
  current = round.outer;
  return status;
}

SHOWN ucs_status_t ucs_event_set_add(ucs_sys_event_set_t *set, int fd, ucs_event_set_types_t events, void *data) {
  if (!found())
    return UCS_ERR_UNSUPPORTED;
  if (ucs.passes_over)
    remember(fd, (struct place){set, data});
  return ucs.add(set, fd, events, data);
}

SHOWN ucs_status_t ucs_event_set_mod(ucs_sys_event_set_t *set, int fd, ucs_event_set_types_t events, void *data) {
  if (!found())
    return UCS_ERR_UNSUPPORTED;
  if (ucs.passes_over)
    remember(fd, (struct place){set, data});
  return ucs.mod(set, fd, events, data);
}

SHOWN void ucs_close_fd(int *fd) {
  if (!found())
    return;
  struct place place = ucs.passes_over && *fd >= 0 ? forget(*fd) : (struct place){NULL, NULL};
  for (struct round *round = current; round; round = round->outer)
    if (place.set && place.set == round->set && round->num_closed < MOST)
      round->closed[round->num_closed++] = place.data;
  ucs.close(fd);
}
