// The connections by which a death is noticed at once. A worker sends its id to everybody who connects to its port, and
// "bye" before it leaves. All workers connect to each other, so that each notices a death itself, even if the store
// died with a worker. If there are many workers, rank 0 connects to all, and all connect to rank 0. If a connection
// ends without "bye", the worker at its other end is dead.
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/net/endpoint.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "meet/state.h"
#include "secure/lobby.h"

enum {
  SPARE_INCOMING = 64, // connections of others than the workers
  EVENTS = 32,
  BYE_SIZE = 4,
  FULL_MESH = 64, // most workers of which each connects to all others; if there are more, see above
  PAUSE_MS = 100, // until descriptors may have come free
};
#define BYE "bye\n"

struct connection {
  struct connection *next;
  int fd;
  enum { LISTENER, WAKER, INCOMING, OUTGOING } kind;
  // OUTGOING: whom it is to, and what has arrived of its id and "bye"
  uint32_t rank;
  char id[MEET_ID_SIZE];
  char received[MEET_ID_SIZE - 1 + BYE_SIZE];
  size_t num_received;
  bool same_place; // OUTGOING: that worker has the place (struct meet_worker) of this one
  bool gone;       // to be freed by sweep()
};

struct meet_linker {
  struct meet *meet;
  pthread_t thread;
  int set;
  uint32_t num_incoming;
  uint64_t resume_ns; // until then nobody is accepted; 0: they are
  uint64_t retry_ns;  // when connections that could not be begun are tried again; 0: there are none
  atomic_bool stop;
  struct connection *list;
};

static struct connection *add(struct meet_linker *linker, int fd, int kind, uint32_t events) {
  struct connection *connection = calloc(1, sizeof *connection);
  struct epoll_event event = {.events = events, .data.ptr = connection};
  if (!connection || epoll_ctl(linker->set, EPOLL_CTL_ADD, fd, &event) != 0) {
    free(connection);
    close(fd);
    return NULL;
  }
  connection->fd = fd;
  connection->kind = kind;
  connection->next = linker->list;
  linker->list = connection;
  return connection;
}

// Freed by sweep(), for an event may still point to it.
static void drop(struct meet_linker *linker, struct connection *connection) {
  if (connection->kind == INCOMING && !connection->gone)
    linker->num_incoming--;
  connection->gone = true;
}

static void sweep(struct meet_linker *linker) {
  for (struct connection **at = &linker->list; *at;) {
    struct connection *connection = *at;
    if (connection->gone) {
      *at = connection->next;
      close(connection->fd);
      free(connection);
    } else {
      at = &connection->next;
    }
  }
}

static void watch_listener(struct meet_linker *linker, struct connection *listener, uint32_t events) {
  struct epoll_event event = {.events = events, .data.ptr = listener};
  epoll_ctl(linker->set, EPOLL_CTL_MOD, listener->fd, &event);
}

static bool is_passing(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM || error == EAGAIN ||
         error == EADDRNOTAVAIL; // the last two: no port
}

// Without descriptors a caller waits in the listener's queue, and would wake the thread at once, again and again.
static void pause_accepting(struct meet_linker *linker, struct connection *listener) {
  linker->resume_ns = clock_deadline_ms(PAUSE_MS);
  watch_listener(linker, listener, 0);
}

static void resume_accepting(struct meet_linker *linker) {
  if (linker->resume_ns == 0 || !clock_passed(linker->resume_ns))
    return;
  linker->resume_ns = 0;
  for (struct connection *one = linker->list; one; one = one->next)
    if (one->kind == LISTENER)
      watch_listener(linker, one, EPOLLIN);
}

static void accept_all(struct meet_linker *linker, struct connection *listener) {
  int fd;
  while ((fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
    if (linker->num_incoming >= linker->meet->size + SPARE_INCOMING) { // strangers: the lease has to do
      close(fd);
    } else if (send(fd, linker->meet->id, MEET_ID_SIZE - 1, MSG_NOSIGNAL) == MEET_ID_SIZE - 1) {
      linker->num_incoming += add(linker, fd, INCOMING, EPOLLIN) != NULL;
    } else {
      close(fd);
    }
  }
  if (errno != EAGAIN && is_passing(errno))
    pause_accepting(linker, listener);
}

// Nobody sends anything here: the connection ends when the worker at its other end does.
static void read_incoming(struct meet_linker *linker, struct connection *incoming) {
  char ignored[64];
  ssize_t got = recv(incoming->fd, ignored, sizeof ignored, 0);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
    drop(linker, incoming);
}

static void report_dead(struct meet_linker *linker, const struct connection *outgoing, const char *why) {
  struct meet *meet = linker->meet;
  pthread_mutex_lock(&meet->lock);
  if (strcmp(meet->workers[outgoing->rank].id, outgoing->id) == 0)
    meet_state_suspect(meet, outgoing->rank, why);
  pthread_mutex_unlock(&meet->lock);
}

static void end_outgoing(struct meet_linker *linker, struct connection *outgoing, int error) {
  bool greeted = outgoing->num_received >= MEET_ID_SIZE - 1,
       bye = outgoing->num_received == sizeof outgoing->received &&
             memcmp(outgoing->received + MEET_ID_SIZE - 1, BYE, BYE_SIZE) == 0;
  drop(linker, outgoing);
  if (bye)
    return;
  if (greeted && error == ETIMEDOUT)
    report_dead(linker, outgoing, "its host has not answered for seconds");
  else if (greeted)
    report_dead(linker, outgoing, "its process has ended");
  else if (error == ECONNREFUSED && outgoing->same_place)
    report_dead(linker, outgoing, "its process has ended, as nothing listens at its port");
  // else a firewall, or too many callers: its lease then shows a death
}

static void read_outgoing(struct meet_linker *linker, struct connection *outgoing) {
  char rest[64];
  size_t room = sizeof outgoing->received - outgoing->num_received;
  ssize_t got =
      recv(outgoing->fd, room ? outgoing->received + outgoing->num_received : rest, room ? room : sizeof rest, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (got <= 0) {
    end_outgoing(linker, outgoing, got < 0 ? errno : 0);
    return;
  }
  outgoing->num_received += room ? (size_t)got : 0;
  if (outgoing->num_received >= MEET_ID_SIZE - 1 && memcmp(outgoing->received, outgoing->id, MEET_ID_SIZE - 1) != 0) {
    drop(linker, outgoing);
    if (outgoing->same_place) // else its address may mean somebody else here
      report_dead(linker, outgoing, "its process has ended, and another process uses its port");
  }
}

// With the lock.
static void connect_one(struct meet_linker *linker, uint32_t rank) {
  struct meet_worker *worker = &linker->meet->workers[rank];
  bool same_place = strcmp(worker->place, linker->meet->place) == 0;
  int fd = meet_connect(worker->address), error = errno;
  struct connection *outgoing = fd < 0 ? NULL : add(linker, fd, OUTGOING, EPOLLIN);
  worker->connect_begun = outgoing || (fd < 0 && !is_passing(error));
  if (!worker->connect_begun)
    linker->retry_ns = clock_deadline_ms(PAUSE_MS);
  if (fd < 0 && error == ECONNREFUSED && same_place)
    meet_state_suspect(linker->meet, rank, "its process has ended, as nothing listens at its port");
  if (!outgoing)
    return;
  outgoing->rank = rank;
  outgoing->same_place = same_place;
  memcpy(outgoing->id, worker->id, sizeof outgoing->id);
}

// Connects to the workers whose death this worker has to notice, if it has not done so yet. Takes the lock.
static void connect_all(struct meet_linker *linker) {
  struct meet *meet = linker->meet;
  linker->retry_ns = 0;
  pthread_mutex_lock(&meet->lock);
  for (uint32_t rank = 0; meet->joined && rank < meet->size; rank++) {
    const struct meet_worker *worker = &meet->workers[rank];
    bool wanted = meet->size <= FULL_MESH ? rank != meet->rank : (rank == 0) != (meet->rank == 0);
    if (wanted && worker->there && !worker->connect_begun && strcmp(worker->meeting, meet->meeting) == 0)
      connect_one(linker, rank);
  }
  pthread_mutex_unlock(&meet->lock);
}

static void serve(struct meet_linker *linker, struct connection *connection) {
  uint64_t count;
  if (connection->gone)
    return;
  if (connection->kind == LISTENER)
    accept_all(linker, connection);
  else if (connection->kind == INCOMING)
    read_incoming(linker, connection);
  else if (connection->kind == OUTGOING)
    read_outgoing(linker, connection);
  else if (read(connection->fd, &count, sizeof count) == sizeof count)
    connect_all(linker);
}

// For epoll_wait(): until the first pause is over.
static int sleep_ms(const struct meet_linker *linker) {
  uint64_t first = linker->resume_ns;
  if (linker->retry_ns && (!first || linker->retry_ns < first))
    first = linker->retry_ns;
  return first ? clock_left_ms(first) : -1;
}

static void *run(void *arg) {
  struct meet_linker *linker = arg;
  struct epoll_event events[EVENTS];
  while (!atomic_load(&linker->stop)) {
    int count = epoll_wait(linker->set, events, EVENTS, sleep_ms(linker));
    resume_accepting(linker);
    if (linker->retry_ns && clock_passed(linker->retry_ns))
      connect_all(linker);
    for (int i = 0; i < count; i++)
      serve(linker, events[i].data.ptr);
    sweep(linker);
  }
  for (struct connection *one = linker->list; one; one = one->next)
    if (one->kind == INCOMING && send(one->fd, BYE, BYE_SIZE, MSG_NOSIGNAL) != BYE_SIZE)
      continue; // it has gone already
  return NULL;
}

static void free_linker(struct meet_linker *linker) {
  for (struct connection *one = linker->list; one; one = one->next)
    one->gone = true;
  sweep(linker);
  if (linker->set >= 0)
    close(linker->set);
  free(linker);
}

static int open_sockets(struct meet_linker *linker, const char *host) {
  struct meet *meet = linker->meet;
  bool v6 = strchr(host, ':') != NULL;
  char any[MEET_ADDRESS_SIZE];
  uint16_t port;
  int listener;
  snprintf(any, sizeof any, v6 ? "[%s]:0" : "%s:0", host);
  int err = endpoint_listen(any, &listener, &port);
  if (err)
    return fail_context(err, "a worker of a benchmark cannot listen at %s, where the others are to notice its end",
                        host);
  snprintf(meet->address, sizeof meet->address, v6 ? "[%s]:%u" : "%s:%u", host, port);
  if (!add(linker, listener, LISTENER, EPOLLIN))
    return fail(WEFT_ERR_NOMEM, "no memory for the connections of a benchmark");
  int waker = fcntl(meet->waker, F_DUPFD_CLOEXEC, 0); // closed with the others
  if (waker < 0 || !add(linker, waker, WAKER, EPOLLIN))
    return fail_errno(errno, "cannot make the connections of a benchmark");
  return 0;
}

int meet_linker_start(struct meet *meet, const char *host) {
  struct meet_linker *linker = calloc(1, sizeof *linker);
  if (!linker)
    return fail(WEFT_ERR_NOMEM, "no memory for the connections of a benchmark");
  linker->meet = meet;
  if (meet->size > FULL_MESH) // rank 0 has two connections with each
    lobby_raise_limit(meet->size);
  linker->set = epoll_create1(EPOLL_CLOEXEC);
  int err = linker->set < 0 ? fail_errno(errno, "cannot make the connections of a benchmark") : 0;
  if (!err)
    err = open_sockets(linker, host);
  if (!err) {
    int error = thread_create(&linker->thread, NULL, run, linker);
    err = error ? fail_thread(error, "the thread of a benchmark's connections") : 0;
  }
  if (err)
    free_linker(linker);
  else
    meet->linker = linker;
  return err;
}

void meet_linker_stop(struct meet *meet) {
  struct meet_linker *linker = meet->linker;
  if (!linker)
    return;
  atomic_store(&linker->stop, true);
  eventfd_write(meet->waker, 1);
  pthread_join(linker->thread, NULL);
  meet->linker = NULL;
  free_linker(linker);
}
