// The thread that ends leases and notices callers that have gone.
#include "store/server/server.h"

#include "base/fail.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
  BATCH = 64,
  RETRY_NS = 100000000, // after memory ran out
  AT_ONCE = 16,         // callers, then it is the others' turn
};

#define OF_WAKE  0 // numbers in the epoll set of descriptors that belong to no stream
#define OF_LOBBY UINT64_MAX

void server_note_standstill(struct weft_store_server *server) {
  uint64_t late_ns = core_lease_note_pause(server->gateway.core, clock_ns());
  if (late_ns > 0)
    log_info("%s: was stopped for %.1f s: leases are extended by that time", server->url, (double)late_ns / 1e9);
}

// Expires the leases that are due; returns when to do so again.
static uint64_t expire_leases(struct weft_store_server *server) {
  enum core_status status = core_lease_expire(server->gateway.core, clock_ns());
  uint64_t next = core_lease_next_check(server->gateway.core, clock_ns());
  if (status == CORE_OK)
    return next;
  log_warn("%s: no memory to delete the keys of an expired lease; trying again", server->url);
  return clock_ns() + RETRY_NS;
}

// Does the work that is due; returns when to do so again.
static uint64_t expire(struct weft_store_server *server) {
  server_note_standstill(server);
  uint64_t leases = expire_leases(server), gate = server_gate_expire(&server->gate, clock_ns());
  return leases < gate ? leases : gate;
}

static void note_gone(struct weft_store_server *server, uint64_t number) {
  struct server_stream *stream;
  LIST_FOREACH(stream, &server->streams, link) {
    if (stream->number != number)
      continue;
    stream->gone = true;
    server_stream_resume(stream);
    return;
  }
}

// libmicrohttpd closes connections that it does not accept.
static void take_callers(struct weft_store_server *server) {
  struct lobby_caller caller;
  for (int i = 0; i < AT_ONCE && lobby_next(server->lobby, &caller); i++)
    if (MHD_add_connection(server->daemon, caller.fd, (struct sockaddr *)&caller.address, caller.size) != MHD_YES)
      log_debug("%s: a connection was refused", server->url);
}

static void *mind(void *arg) {
  struct weft_store_server *server = arg;
  pthread_mutex_lock(&server->lock);
  while (!server->stopping) {
    uint64_t next = expire(server);
    pthread_mutex_unlock(&server->lock);
    struct epoll_event events[BATCH];
    int count = epoll_wait(server->reactor_epoll, events, BATCH, next == UINT64_MAX ? -1 : clock_left_ms(next));
    for (int i = 0; i < count; i++)
      if (events[i].data.u64 == OF_LOBBY)
        take_callers(server);
    pthread_mutex_lock(&server->lock);
    for (int i = 0; i < count; i++) {
      uint64_t rest;
      if (events[i].data.u64 == OF_LOBBY)
        continue;
      if (events[i].data.u64 != OF_WAKE)
        note_gone(server, events[i].data.u64);
      else if (read(server->reactor_wake, &rest, sizeof rest) < 0 && errno != EAGAIN)
        log_warn("%s: reading an eventfd failed with errno %d", server->url, errno);
    }
  }
  pthread_mutex_unlock(&server->lock);
  return NULL;
}

int server_reactor_start(struct weft_store_server *server) {
  server->reactor_epoll = epoll_create1(EPOLL_CLOEXEC);
  server->reactor_wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  struct epoll_event wake = {.events = EPOLLIN, .data.u64 = OF_WAKE};
  struct epoll_event callers = {.events = EPOLLIN, .data.u64 = OF_LOBBY};
  int error = 0;
  if (server->reactor_epoll < 0 || server->reactor_wake < 0 ||
      epoll_ctl(server->reactor_epoll, EPOLL_CTL_ADD, server->reactor_wake, &wake) != 0 ||
      epoll_ctl(server->reactor_epoll, EPOLL_CTL_ADD, lobby_fd(server->lobby), &callers) != 0)
    error = errno;
  else
    error = thread_create(&server->reactor, NULL, mind, server);
  if (!error)
    return 0;
  if (server->reactor_epoll >= 0)
    close(server->reactor_epoll);
  if (server->reactor_wake >= 0)
    close(server->reactor_wake);
  return fail_errno(error, "no thread for an embedded server's leases");
}

void server_reactor_wake(struct weft_store_server *server) {
  uint64_t one = 1;
  if (write(server->reactor_wake, &one, sizeof one) < 0)
    log_debug("%s: the housekeeping thread is woken already", server->url);
}

void server_reactor_stop(struct weft_store_server *server) {
  server_reactor_wake(server);
  pthread_join(server->reactor, NULL);
}
