// Whether a worker is still alive: its process listens, and sends its id.
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/net/endpoint.h"
#include "base/time/clock.h"
#include "meet/state.h"

// A host that is switched off answers nothing: the kernel then ends the connection.
static void watch_silence(int fd) {
  int on = 1, seconds = 1, probes = 3;
  unsigned silence_ms = MEET_SILENCE_MS;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof silence_ms);
}

int meet_connect(const char *address) {
  char host[ENDPOINT_MAX_HOST], port[6];
  const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
  struct addrinfo *found = NULL;
  errno = EINVAL;
  if (endpoint_parse(address, false, host, port) != 0 || getaddrinfo(host, port, &hints, &found) != 0)
    return -1;
  int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd >= 0)
    watch_silence(fd);
  if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) != 0 && errno != EINPROGRESS) {
    int error = errno;
    close(fd);
    errno = error;
    fd = -1;
  }
  freeaddrinfo(found);
  return fd;
}

static enum meet_life judge(int fd, const char *id, bool same_place, uint64_t deadline_ns) {
  char text[MEET_ID_SIZE];
  size_t have = 0;
  while (have < MEET_ID_SIZE - 1) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    if (poll(&ready, 1, clock_left_ms(deadline_ns)) <= 0)
      return MEET_UNKNOWN;
    ssize_t got = recv(fd, text + have, MEET_ID_SIZE - 1 - have, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
      continue;
    if (got < 0 && errno == ECONNREFUSED && same_place)
      return MEET_DEAD;
    if (got <= 0)
      return MEET_UNKNOWN;
    have += (size_t)got;
  }
  return memcmp(text, id, MEET_ID_SIZE - 1) == 0 ? MEET_ALIVE : same_place ? MEET_DEAD : MEET_UNKNOWN;
}

enum meet_life meet_probe(const char *address, const char *id, bool same_place, uint32_t timeout_ms) {
  int fd = meet_connect(address);
  if (fd < 0)
    return errno == ECONNREFUSED && same_place ? MEET_DEAD : MEET_UNKNOWN;
  enum meet_life life = judge(fd, id, same_place, clock_deadline_ms(timeout_ms));
  close(fd);
  return life;
}
