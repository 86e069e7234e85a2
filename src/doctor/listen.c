#include "doctor/listen.h"

#include "base/clock.h"
#include "base/fail.h"
#include "doctor/wire.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { FIRST_USER_PORT = 1024, AT_ONCE = 64 };

int doctor_listener_open(struct doctor_listener *listener, uint16_t port) {
  struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT, .sin6_port = htons(port)};
  struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY), .sin_port = htons(port)};
  int fd = doctor_listen_at((struct sockaddr *)&six, sizeof six);
  if (fd < 0 && errno != EADDRINUSE) // a host without IPv6
    fd = doctor_listen_at((struct sockaddr *)&four, sizeof four);
  if (fd < 0 && errno == EADDRINUSE)
    return fail(WEFT_ERR_BUSY, "port %u is in use; --listen 0 takes any free one", port);
  if (fd < 0)
    return fail_errno(errno, "listening at port %u", port);
  *listener = (struct doctor_listener){.fd = fd, .port = doctor_port_of(fd)};
  return 0;
}

void doctor_listener_close(struct doctor_listener *listener) {
  close(listener->fd);
  listener->fd = -1;
}

// Connects to a port of the caller and shows the nonce there. Only to the address that the call came from, so that
// nobody can have others called.
static enum doctor_reach call_back(int fd, const struct doctor_message *message, uint32_t timeout_ms) {
  struct sockaddr_storage caller;
  socklen_t size = sizeof caller;
  int back = -1, error = 0;
  uint64_t deadline = clock_deadline_ms(timeout_ms);
  if (message->back_port < FIRST_USER_PORT || getpeername(fd, (struct sockaddr *)&caller, &size) != 0)
    return DOCTOR_NOT_TRIED;
  if (caller.ss_family == AF_INET6)
    ((struct sockaddr_in6 *)&caller)->sin6_port = htons(message->back_port);
  else
    ((struct sockaddr_in *)&caller)->sin_port = htons(message->back_port);
  enum doctor_reach reach = doctor_connect((struct sockaddr *)&caller, size, deadline, &back, &error);
  if (reach != DOCTOR_REACHED)
    return reach;
  bool shown = doctor_send_message(back, message, deadline);
  close(back);
  return shown ? DOCTOR_REACHED : DOCTOR_SILENT;
}

static void echo_bulk(int fd, uint32_t timeout_ms) {
  char *bulk = malloc(DOCTOR_BULK);
  uint64_t deadline = clock_deadline_ms(timeout_ms);
  if (bulk && doctor_receive(fd, bulk, DOCTOR_BULK, deadline))
    doctor_send(fd, bulk, DOCTOR_BULK, deadline);
  free(bulk);
}

static void answer(int fd, uint32_t timeout_ms) {
  struct doctor_message message;
  char interface[TOPOLOGY_NAME];
  if (!doctor_receive_message(fd, &message, clock_deadline_ms(timeout_ms)))
    return;
  struct doctor_message reply = message;
  reply.mtu = (uint32_t)doctor_interface_of(fd, interface);
  reply.back = DOCTOR_NOT_TRIED;
  if (!doctor_send_message(fd, &reply, clock_deadline_ms(timeout_ms)))
    return;
  reply.back = call_back(fd, &message, timeout_ms);
  if (doctor_send_message(fd, &reply, clock_deadline_ms(timeout_ms)))
    echo_bulk(fd, timeout_ms);
}

// --- callers, each with a thread: one that says nothing keeps nobody waiting ---

struct callers {
  pthread_mutex_t lock;
  pthread_cond_t one_less;
  uint32_t timeout_ms;
  int count;
  struct caller {
    struct callers *all;
    int fd; // -1: nobody
  } entry[AT_ONCE];
};

static void *answer_caller(void *argument) {
  struct caller *caller = argument;
  struct callers *all = caller->all;
  answer(caller->fd, all->timeout_ms);
  pthread_mutex_lock(&all->lock);
  close(caller->fd);
  caller->fd = -1;
  all->count--;
  pthread_cond_signal(&all->one_less);
  pthread_mutex_unlock(&all->lock);
  return NULL;
}

static void init(struct callers *callers, uint32_t timeout_ms) {
  *callers = (struct callers){.timeout_ms = timeout_ms};
  pthread_mutex_init(&callers->lock, NULL);
  pthread_cond_init(&callers->one_less, NULL);
  for (int i = 0; i < AT_ONCE; i++)
    callers->entry[i] = (struct caller){.all = callers, .fd = -1};
}

// Waits while there are more than `most`: no longer than it takes to answer one.
static void wait_for_room(struct callers *callers, int most) {
  pthread_mutex_lock(&callers->lock);
  while (callers->count > most)
    pthread_cond_wait(&callers->one_less, &callers->lock);
  pthread_mutex_unlock(&callers->lock);
}

static void take(struct callers *callers, int fd) {
  wait_for_room(callers, AT_ONCE - 1);
  pthread_mutex_lock(&callers->lock);
  struct caller *caller = callers->entry;
  while (caller->fd >= 0)
    caller++;
  caller->fd = fd;
  callers->count++;
  pthread_mutex_unlock(&callers->lock);
  pthread_t thread;
  if (pthread_create(&thread, NULL, answer_caller, caller) == 0)
    pthread_detach(thread);
  else
    answer_caller(caller);
}

static void end(struct callers *callers) {
  pthread_mutex_lock(&callers->lock);
  for (int i = 0; i < AT_ONCE; i++)
    if (callers->entry[i].fd >= 0)
      shutdown(callers->entry[i].fd, SHUT_RDWR);
  pthread_mutex_unlock(&callers->lock);
  wait_for_room(callers, 0);
  pthread_cond_destroy(&callers->one_less);
  pthread_mutex_destroy(&callers->lock);
}

void doctor_listener_serve(const struct doctor_listener *listener, int stop, uint32_t timeout_ms) {
  struct callers callers;
  init(&callers, timeout_ms);
  for (;;) {
    struct pollfd ready[] = {{.fd = stop, .events = POLLIN}, {.fd = listener->fd, .events = POLLIN}};
    if ((poll(ready, 2, -1) < 0 && errno != EINTR) || ready[0].revents) // ends by `stop`
      break;
    int fd = ready[1].revents ? doctor_accept(listener->fd, clock_ns()) : -1;
    if (fd >= 0)
      take(&callers, fd);
  }
  end(&callers);
}
