// Connections to the metrics server: accepted, bounded in number, and handed to the daemon.
#include "metrics/door.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "secure/lobby.h"

enum { ROOM_MS = 1000 }; // time from cutting a connection until its place is free

struct place {
  int fd;         // -1: free
  bool known;     // it has sent a request that is allowed
  uint64_t count; // number of earlier connections
};

struct metrics_door {
  int listener, stop;  // stop: readable when the thread is to end
  struct lobby *lobby; // callers that have connected and not sent a request
  struct MHD_Daemon *daemon;
  pthread_t thread;
  bool has_thread;
  pthread_mutex_t lock; // guards what follows
  pthread_cond_t freed;
  uint64_t count;
  struct place places[METRICS_CONNECTIONS];
};

// [lock]
static struct place *find(struct metrics_door *door, int fd) {
  for (int i = 0; i < METRICS_CONNECTIONS; i++)
    if (door->places[i].fd == fd)
      return &door->places[i];
  return NULL;
}

// The oldest connection that has not sent an allowed request; else the oldest.
static struct place *choose_victim(struct metrics_door *door) {
  struct place *worst = NULL;
  for (int i = 0; i < METRICS_CONNECTIONS; i++) {
    struct place *place = &door->places[i];
    if (!worst || place->known < worst->known || (place->known == worst->known && place->count < worst->count))
      worst = place;
  }
  return worst;
}

// Finds or makes a free place. NULL: none became free in time. The daemon notices that the connection was cut, and
// reports when it has closed it; until then the daemon owns the descriptor. [lock]
static struct place *make_room(struct metrics_door *door) {
  struct place *place = find(door, -1);
  if (place)
    return place;
  shutdown(choose_victim(door)->fd, SHUT_RDWR);
  struct timespec until = clock_timespec(clock_deadline_ms(ROOM_MS));
  while (!(place = find(door, -1)))
    if (pthread_cond_timedwait(&door->freed, &door->lock, &until) == ETIMEDOUT)
      break;
  return place;
}

static void enter(struct metrics_door *door, int fd, const struct sockaddr *address, socklen_t size) {
  pthread_mutex_lock(&door->lock);
  struct place *place = make_room(door);
  if (place)
    *place = (struct place){.fd = fd, .count = door->count++};
  pthread_mutex_unlock(&door->lock);
  if (!place) {
    close(fd);
  } else if (MHD_add_connection(door->daemon, fd, address, size) != MHD_YES) { // libmicrohttpd has closed fd
    pthread_mutex_lock(&door->lock);
    place->fd = -1;
    pthread_mutex_unlock(&door->lock);
  }
}

static void *run(void *arg) {
  struct metrics_door *door = arg;
  struct pollfd watched[2] = {{.fd = door->stop, .events = POLLIN}, {.fd = lobby_fd(door->lobby), .events = POLLIN}};
  for (;;) {
    if (poll(watched, 2, -1) > 0 && watched[0].revents)
      return NULL;
    struct lobby_caller caller;
    if (lobby_next(door->lobby, &caller))
      enter(door, caller.fd, (struct sockaddr *)&caller.address, caller.size);
  }
}

int metrics_door_make(struct metrics_door **made, int listener) {
  struct metrics_door *door = calloc(1, sizeof *door);
  if (!door)
    return fail(WEFT_ERR_NOMEM, "no memory to serve metrics");
  int err = lobby_open(&door->lobby, listener, LOBBY_HTTP, LOBBY_FEW);
  if (err) {
    free(door);
    return err;
  }
  door->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (door->stop < 0) {
    int error = errno;
    lobby_close(door->lobby);
    free(door);
    return fail_errno(error, "no descriptor to serve metrics with");
  }
  door->listener = listener;
  for (int i = 0; i < METRICS_CONNECTIONS; i++)
    door->places[i].fd = -1;
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&door->freed, &attributes);
  pthread_condattr_destroy(&attributes);
  pthread_mutex_init(&door->lock, NULL);
  *made = door;
  return 0;
}

int metrics_door_start(struct metrics_door *door, struct MHD_Daemon *daemon) {
  door->daemon = daemon;
  int error = thread_create(&door->thread, NULL, run, door);
  door->has_thread = error == 0;
  return error ? fail_thread(error, "the thread that accepts the readers of metrics") : 0;
}

static int descriptor_of(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  return info ? info->connect_fd : -2;
}

void metrics_door_known(struct metrics_door *door, struct MHD_Connection *connection) {
  pthread_mutex_lock(&door->lock);
  struct place *place = find(door, descriptor_of(connection));
  if (place)
    place->known = true;
  pthread_mutex_unlock(&door->lock);
}

void metrics_door_notified(void *arg, struct MHD_Connection *connection, void **context,
                           enum MHD_ConnectionNotificationCode what) {
  (void)context;
  struct metrics_door *door = arg;
  if (what != MHD_CONNECTION_NOTIFY_CLOSED)
    return;
  pthread_mutex_lock(&door->lock);
  struct place *place = find(door, descriptor_of(connection));
  if (place)
    place->fd = -1;
  pthread_cond_signal(&door->freed);
  pthread_mutex_unlock(&door->lock);
}

void metrics_door_stop(struct metrics_door *door) {
  if (!door || !door->has_thread)
    return;
  uint64_t one = 1;
  ssize_t written = write(door->stop, &one, sizeof one);
  (void)written; // a failure only means that it is readable already
  pthread_join(door->thread, NULL);
  door->has_thread = false;
}

void metrics_door_free(struct metrics_door *door) {
  if (!door)
    return;
  lobby_close(door->lobby);
  close(door->listener);
  close(door->stop);
  pthread_cond_destroy(&door->freed);
  pthread_mutex_destroy(&door->lock);
  free(door);
}
