// Forwards a TCP connection and records what passes in both directions.
#include "ep/support/wiretap.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cmocka_all.h"

static int connect_to(uint16_t port) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  return fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0 ? fd : -1;
}

// False: `from` has hung up.
static bool forward(int from, int to, uint8_t *room, size_t *at) {
  ssize_t got = *at < WIRETAP_ROOM ? recv(from, room + *at, WIRETAP_ROOM - *at, 0) : 0;
  if (got <= 0)
    return false;
  send(to, room + *at, (size_t)got, MSG_NOSIGNAL);
  *at += (size_t)got;
  return true;
}

static void *run(void *arg) {
  struct wiretap *relay = arg;
  int caller = accept(relay->listener, NULL, NULL), called = connect_to(relay->to);
  struct pollfd ends[] = {{.fd = caller, .events = POLLIN}, {.fd = called, .events = POLLIN}};
  for (bool open = true; open && poll(ends, 2, -1) > 0;) {
    if (ends[0].revents)
      open = forward(caller, called, relay->sent, &relay->num_sent);
    if (open && ends[1].revents)
      open = forward(called, caller, relay->answered, &relay->num_answered);
  }
  close(caller);
  close(called);
  return NULL;
}

void wiretap_open(struct wiretap *relay, uint16_t to) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof at;
  memset(relay, 0, sizeof *relay);
  relay->to = to;
  relay->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(relay->listener, (struct sockaddr *)&at, size), 0);
  assert_int_equal(listen(relay->listener, 1), 0);
  assert_int_equal(getsockname(relay->listener, (struct sockaddr *)&at, &size), 0);
  relay->port = ntohs(at.sin_port);
  assert_int_equal(pthread_create(&relay->thread, NULL, run, relay), 0);
}

int wiretap_call(const struct wiretap *relay) {
  int fd = connect_to(relay->port);
  assert_true(fd >= 0);
  return fd;
}

void wiretap_close(struct wiretap *relay) {
  pthread_join(relay->thread, NULL);
  close(relay->listener);
}

static bool stands_in(const uint8_t *room, size_t size, const void *bytes, size_t length) {
  for (size_t at = 0; at + length <= size; at++)
    if (memcmp(room + at, bytes, length) == 0)
      return true;
  return false;
}

bool wiretap_saw(const struct wiretap *relay, const void *bytes, size_t size) {
  return stands_in(relay->sent, relay->num_sent, bytes, size) ||
         stands_in(relay->answered, relay->num_answered, bytes, size);
}
