// Connects, accepts, and moves bytes, each until a deadline.
#include "doctor/peer/connection.h"

#include "base/fail.h"
#include "base/time/clock.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

// Waits until the descriptor is ready; false: the deadline has passed.
static bool await(int fd, short events, uint64_t deadline) {
  struct pollfd ready = {.fd = fd, .events = events};
  while (poll(&ready, 1, clock_left_ms(deadline)) <= 0)
    if (clock_passed(deadline))
      return false;
  return true;
}

static enum doctor_reach reach_of(int error) {
  switch (error) {
  case 0:
    return DOCTOR_REACHED;
  case ECONNREFUSED:
    return DOCTOR_REFUSED;
  case ETIMEDOUT:
    return DOCTOR_SILENT;
  default:
    return DOCTOR_UNREACHABLE;
  }
}

enum doctor_reach doctor_connect(const struct sockaddr *address, socklen_t size, uint64_t deadline, int *out,
                                 int *error) {
  int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  *error = fd < 0 || connect(fd, address, size) != 0 ? errno : 0;
  if (*error == EINPROGRESS) {
    socklen_t length = sizeof *error;
    if (!await(fd, POLLOUT, deadline))
      *error = ETIMEDOUT;
    else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, error, &length) != 0)
      *error = errno;
  }
  if (*error == 0)
    *out = fd;
  else if (fd >= 0)
    close(fd);
  return reach_of(*error);
}

// Waits for what a call of TLS, or of the socket, needs; `wants` is an enum tls_wants.
static bool await_wants(int fd, int wants, uint64_t deadline) {
  return await(fd, wants == TLS_WANTS_WRITE ? POLLOUT : POLLIN, deadline);
}

int doctor_connection_open(struct doctor_connection *connection, int fd, bool calls, const uint8_t key[SECRET_KEY_SIZE],
                           uint64_t deadline) {
  *connection = (struct doctor_connection){.fd = fd};
  int rc = tls_open(&connection->tls, fd, calls, DOCTOR_PROTOCOL, key);
  while (rc == 0 && (rc = tls_handshake(connection->tls)) > 0)
    rc = await_wants(fd, rc, deadline) ? 0 : fail(WEFT_ERR_TIMEOUT, "it sends nothing");
  return rc;
}

void doctor_connection_close(struct doctor_connection *connection) {
  tls_close(connection->tls);
  if (connection->fd >= 0)
    close(connection->fd);
  *connection = (struct doctor_connection){.fd = -1};
}

// As tls_write() and tls_read().
static int write_some(const struct doctor_connection *connection, const void *data, size_t size, size_t *sent) {
  if (connection->tls)
    return tls_write(connection->tls, data, size, sent);
  ssize_t count = send(connection->fd, data, size, MSG_NOSIGNAL);
  if (count < 0)
    return errno == EAGAIN || errno == EINTR ? TLS_WANTS_WRITE : WEFT_ERR_PEER_LOST;
  *sent = (size_t)count;
  return 0;
}

static int read_some(const struct doctor_connection *connection, void *data, size_t size, size_t *got) {
  if (connection->tls)
    return tls_read(connection->tls, data, size, got);
  ssize_t count = recv(connection->fd, data, size, 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR))
    return TLS_WANTS_READ;
  *got = (size_t)(count > 0 ? count : 0);
  return count > 0 ? 0 : WEFT_ERR_PEER_LOST;
}

bool doctor_connection_send(const struct doctor_connection *connection, const void *data, size_t size,
                            uint64_t deadline) {
  const char *at = data;
  while (size > 0) {
    size_t sent = 0;
    int rc = write_some(connection, at, size, &sent);
    if (rc < 0 || clock_passed(deadline) || (rc > 0 && !await_wants(connection->fd, rc, deadline)))
      return false;
    at += sent;
    size -= sent;
  }
  return true;
}

bool doctor_connection_receive(const struct doctor_connection *connection, void *data, size_t size, uint64_t deadline) {
  char *at = data;
  while (size > 0) {
    size_t got = 0;
    int rc = read_some(connection, at, size, &got);
    if (rc < 0 || clock_passed(deadline) || (rc > 0 && !await_wants(connection->fd, rc, deadline)))
      return false;
    at += got;
    size -= got;
  }
  return true;
}

int doctor_accept(int listener, uint64_t deadline) {
  return await(listener, POLLIN, deadline) ? accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) : -1;
}
