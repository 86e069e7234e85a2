// A peer of the exchange by socket that is no agent: it sends any messages that a test makes, within TLS.
#include "agent/exchange/support/raw_peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/exchange/support/meeting.h"
#include "base/time/clock.h"
#include "base/wire/wire.h"
#include "cmocka_all.h"
#include "support/wait.h"

int raw_dial(uint16_t port) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0);
  assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
  return fd;
}

size_t raw_read_out(int fd, uint8_t *bytes, size_t size) {
  uint8_t more[4096];
  size_t at = 0;
  for (;;) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    if (poll(&ready, 1, SUPPORT_DEADLINE_MS) != 1)
      fail_msg("the listener does not close");
    ssize_t got = at < size ? read(fd, bytes + at, size - at) : read(fd, more, sizeof more);
    if (got <= 0)
      return at;
    at += at < size ? (size_t)got : 0;
  }
}

static void begin(struct raw *raw, int fd, const char *token, bool calls) {
  uint8_t key[SECRET_KEY_SIZE];
  int pair[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
  *raw = (struct raw){.inner = pair[0], .outer = pair[1], .fd = fd};
  assert_int_equal(secret_derive(token, CONNECTION_PROTOCOL, key), 0);
  assert_int_equal(tls_open(&raw->tls, raw->inner, calls, CONNECTION_PROTOCOL, key), 0);
}

void raw_begin(struct raw *raw, int fd, const char *token) {
  begin(raw, fd, token, true);
}

void raw_close(struct raw *raw) {
  tls_close(raw->tls);
  close(raw->inner);
  close(raw->outer);
  if (raw->fd >= 0)
    close(raw->fd);
}

static void send_all(int fd, const uint8_t *bytes, size_t size) {
  while (size > 0) {
    ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
    if (sent <= 0)
      return; // the listener has closed
    bytes += sent;
    size -= (size_t)sent;
  }
}

// True: bytes arrived, or the listener has closed.
static bool pump(struct raw *raw) {
  uint8_t bytes[16384];
  ssize_t got;
  bool came = false;
  while ((got = recv(raw->outer, bytes, sizeof bytes, MSG_DONTWAIT)) > 0) {
    if (raw->flips)
      bytes[got / 2] ^= 4;
    send_all(raw->fd, bytes, (size_t)got);
    if (raw->repeats)
      send_all(raw->fd, bytes, (size_t)got);
    raw->flips = raw->repeats = false;
  }
  while (!raw->over && (got = recv(raw->fd, bytes, sizeof bytes, MSG_DONTWAIT)) >= 0) {
    send_all(raw->outer, bytes, (size_t)got);
    came = true;
    raw->over = got == 0;
    if (raw->over)
      shutdown(raw->outer, SHUT_WR);
  }
  if (!raw->over && errno != EAGAIN) { // the connection was reset
    raw->over = true;
    shutdown(raw->outer, SHUT_WR);
  }
  return came || raw->over;
}

void raw_pump(struct raw *raw) {
  pump(raw);
}

void raw_await(struct raw *raw) {
  struct pollfd ready = {.fd = raw->fd, .events = POLLIN};
  if (pump(raw)) // the answer to the forwarded bytes may have arrived already
    return;
  if (poll(&ready, 1, SUPPORT_DEADLINE_MS) != 1)
    fail_msg("the listener says nothing");
  pump(raw);
}

static void shake_hands(struct raw *raw) {
  int rc;
  while ((rc = tls_handshake(raw->tls)) > 0)
    raw_await(raw);
  assert_int_equal(rc, 0);
  raw_pump(raw);
}

void raw_open(struct raw *raw, uint16_t port) {
  raw_begin(raw, raw_dial(port), meet_token);
  shake_hands(raw);
}

int raw_listen(uint16_t *port) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof at;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
  assert_int_equal(listen(fd, 8), 0);
  getsockname(fd, (struct sockaddr *)&at, &size);
  *port = ntohs(at.sin_port);
  return fd;
}

void raw_accept(struct raw *raw, int listener) {
  struct pollfd ready = {.fd = listener, .events = POLLIN};
  if (poll(&ready, 1, SUPPORT_DEADLINE_MS) != 1)
    fail_msg("nobody calls");
  int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  assert_true(fd >= 0);
  begin(raw, fd, meet_token, false);
  shake_hands(raw);
}

void raw_say_bytes(struct raw *raw, const void *bytes, size_t size) {
  for (size_t at = 0, sent; at < size && !raw->over; raw_pump(raw)) {
    int rc = tls_write(raw->tls, (const char *)bytes + at, size - at, &sent);
    if (rc < 0)
      return;
    at += rc == 0 ? sent : 0;
  }
}

void raw_say_length(struct raw *raw, uint32_t length, enum connection_kind kind, const void *content, size_t size) {
  uint8_t *out = malloc(CONNECTION_HEAD + size);
  assert_non_null(out);
  struct wire_writer writer = {.bytes = out, .capacity = CONNECTION_HEAD + size};
  wire_put_number(&writer, length, 4);
  wire_put_number(&writer, kind, 1);
  wire_put(&writer, content, size);
  raw_say_bytes(raw, out, writer.at);
  free(out);
}

void raw_say(struct raw *raw, enum connection_kind kind, const void *content, size_t size) {
  raw_say_length(raw, (uint32_t)size + 1, kind, content, size);
}

size_t raw_hear(struct raw *raw, uint8_t *in, size_t room) {
  size_t at = 0;
  for (;;) {
    size_t got = 0;
    int rc = tls_read(raw->tls, in + at, room - at, &got);
    if (rc < 0)
      return at;
    at += got;
    assert_true(at < room);
    if (rc > 0)
      raw_await(raw);
  }
}

// False: the other side has closed before.
static bool take_bytes(struct raw *raw, uint8_t *in, size_t size) {
  for (size_t at = 0, got; at < size; at += got) {
    int rc;
    while ((rc = tls_read(raw->tls, in + at, size - at, &got)) > 0)
      raw_await(raw);
    if (rc < 0)
      return false;
  }
  return true;
}

size_t raw_take(struct raw *raw, uint8_t *in, size_t room) {
  if (!take_bytes(raw, in, 4))
    return 0;
  struct wire_reader reader = {.bytes = in, .size = 4};
  size_t rest = (size_t)wire_take_number(&reader, 4);
  assert_true(rest <= room - 4);
  return take_bytes(raw, in + 4, rest) ? 4 + rest : 0;
}

void raw_prove(struct raw *raw, bool calls, bool of_caller, weft_agent_t *as, weft_agent_t *to,
               uint8_t proof[HMAC_SIZE]) {
  struct proof_parties parties = {
      .own = &as->exchange, .other = to->exchange.public_key, .own_calls = calls, .tls = raw->tls};
  assert_int_equal(proof_make(&parties, of_caller, proof), 0);
}

void raw_say_proof(struct raw *raw, weft_agent_t *as, weft_agent_t *listener) {
  static uint8_t in[65536];
  uint8_t proof[HMAC_SIZE];
  assert_true(raw_take(raw, in, sizeof in) > CONNECTION_HEAD);
  assert_int_equal(in[4], CONNECTION_METADATA);
  raw_prove(raw, true, true, as, listener, proof);
  raw_say(raw, CONNECTION_PROOF, proof, sizeof proof);
}

uint8_t *raw_metadata(weft_agent_t *agent, uint16_t version, uint16_t minimum, size_t *size) {
  size_t blob_size;
  void *blob = crowd_blob(agent, &blob_size);
  uint8_t *content = malloc(4 + blob_size);
  assert_non_null(content);
  struct wire_writer writer = {.bytes = content, .capacity = 4 + blob_size};
  wire_put_number(&writer, version, 2);
  wire_put_number(&writer, minimum, 2);
  wire_put(&writer, blob, blob_size);
  free(blob);
  *size = writer.at;
  return content;
}

uint64_t raw_due(struct crowd_member *listener) {
  struct agent_sockets *meet = listener->agent->services->sockets;
  uint64_t due = 0, deadline = clock_deadline_ms(SUPPORT_DEADLINE_MS);
  while (due == 0 && !clock_passed(deadline)) {
    pthread_mutex_lock(&listener->agent->housekeeping);
    struct agent_connection *talk = TAILQ_FIRST(&meet->connections);
    int unread = 1;
    if (talk && ioctl(talk->watch.fd, FIONREAD, &unread) == 0 && unread == 0 && wheel_is_set(&talk->timer.timer))
      due = talk->timer.timer.tick;
    pthread_mutex_unlock(&listener->agent->housekeeping);
    sched_yield();
  }
  assert_true(due > 0);
  return due;
}
