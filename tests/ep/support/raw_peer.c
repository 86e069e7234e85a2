// Two ranks configured as on two hosts, and the messages that a test sends in place of one of them.
#include "ep/support/raw_peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "cmocka_all.h"
#include "ep/handshake/steps.h"

weft_ep_t *hosts_rank(struct hosts *hosts, int32_t rank, const char *host) {
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  options.store = hosts->store;
  options.prefix = "/weft/test/";
  options.rank = rank;
  options.capacity = 4;
  options.hidden = 128;
  options.max_tokens = 4;
  options.topk = 2;
  options.host_id = host;
  options.transport = hosts->transport;
  options.listen = "127.0.0.1";
  options.memory = hosts->memory;
  if (getenv("WEFT_TEST_THROUGHPUT"))
    options.mode = WEFT_EP_THROUGHPUT;
  weft_ep_t *ep;
  if (weft_ep_open(&ep, &options, RAW_PEER_DEADLINE_MS) != 0)
    fail_msg("rank %d: %s", rank, weft_last_error());
  return ep;
}

void hosts_open_by(struct hosts *hosts, enum weft_ep_memory memory, const char *transport, weft_store_t *store) {
  hosts->memory = memory;
  hosts->transport = transport;
  hosts->store = store;
  hosts->called = hosts_rank(hosts, 0, "one");
  hosts->caller = hosts_rank(hosts, 1, "two");
}

void hosts_open_on(struct hosts *hosts, enum weft_ep_memory memory) {
  weft_store_t *store;
  assert_int_equal(weft_store_open_local(&store), 0);
  hosts_open_by(hosts, memory, "shm", store);
}

void hosts_open(struct hosts *hosts) {
  hosts_open_on(hosts, WEFT_EP_MEMORY_HOST);
}

void hosts_close(struct hosts *hosts) {
  weft_ep_close(hosts->caller);
  weft_ep_close(hosts->called);
  weft_store_close(hosts->store);
}

struct ep_link *hosts_connect(struct hosts *hosts) {
  static const int32_t called = 0;
  if (weft_ep_connect(hosts->caller, &called, 1, RAW_PEER_DEADLINE_MS) != 0)
    fail_msg("rank 1 does not reach rank 0: %s", weft_last_error());
  struct ep_link *link = ep_link_find(hosts->called, 1, 0);
  if (!link)
    fail_msg("rank 0 has no link to rank 1");
  return link;
}

void raw_peer_hold(weft_ep_t *ep, struct ep_link *link, int more) {
  pthread_mutex_lock(&ep->links.lock);
  link->holds += more;
  pthread_mutex_unlock(&ep->links.lock);
}

struct ep_link *hosts_connect_and_hold(struct hosts *hosts) {
  struct ep_link *link = hosts_connect(hosts);
  raw_peer_hold(hosts->called, link, 1);
  return link;
}

struct ep_remote *hosts_remote(struct hosts *hosts) {
  struct ep_link *link = ep_link_find(hosts->caller, 0, 0);
  assert_non_null(link);
  return link->remote;
}

void raw_peer_send_message(struct ep_remote *remote, const void *bytes, size_t size, struct transport_piece *piece) {
  struct ep_net *net = remote->net;
  struct transport_request request = {.peer = remote->peer,
                                      .op = WEFT_TRANSFER_WRITE,
                                      .pieces = piece,
                                      .num_pieces = piece ? 1 : 0,
                                      .message = bytes,
                                      .message_size = (uint32_t)size};
  uint64_t deadline_ns = clock_deadline_ms(RAW_PEER_DEADLINE_MS);
  ep_net_lock(net);
  assert_int_equal(net->transport->prepare(&request), 0);
  assert_int_equal(net->transport->post(&request), 0);
  while (atomic_load(&request.state) == TRANSPORT_IN_FLIGHT && !clock_passed(deadline_ns))
    ep_net_progress(net);
  assert_int_equal(atomic_load(&request.state), 0);
  net->transport->unprepare(&request);
  ep_net_unlock(net);
}

void raw_peer_await_broken(const struct ep_link *link, const char *text) {
  uint64_t deadline_ns = clock_deadline_ms(RAW_PEER_DEADLINE_MS);
  while (ep_link_up(link) && !clock_passed(deadline_ns))
    poll(NULL, 0, 1);
  assert_int_equal(atomic_load(&link->state), EP_LINK_BROKEN);
  if (!strstr(link->remote->why, text))
    fail_msg("the link is down as \"%s\", which does not contain \"%s\"", link->remote->why, text);
}

uint16_t raw_peer_port(const weft_ep_t *ep) {
  return (uint16_t)atoi(strrchr(ep->links.endpoints, ':') + 1);
}

int raw_peer_call(const weft_ep_t *ep) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  struct linger reset = {.l_onoff = 1}; // leaves no port in TIME_WAIT
  to.sin_port = htons(raw_peer_port(ep));
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0);
  assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
  if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0)
    fail_msg("a call is not taken: %s", strerror(errno));
  return fd;
}

int raw_peer_call_near(const weft_ep_t *ep) {
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  uint64_t deadline_ns = clock_deadline_ms(RAW_PEER_DEADLINE_MS);
  assert_int_equal(sscanf(ep->links.address, "%*s %63s", to.sun_path + 1), 1); // abstract: a NUL first
  socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(to.sun_path + 1));
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0);
  while (connect(fd, (struct sockaddr *)&to, size) != 0)
    if ((errno != EAGAIN && errno != EINTR) || clock_passed(deadline_ns))
      fail_msg("a call is not taken: %s", strerror(errno));
  return fd;
}

void raw_peer_send(int socket, const void *bytes, size_t size) {
  ssize_t sent = send(socket, bytes, size, MSG_NOSIGNAL);
  if (sent != (ssize_t)size && !(sent < 0 && (errno == EPIPE || errno == ECONNRESET))) // it may have closed already
    fail_msg("%zu bytes are not sent: %s", size, strerror(errno));
}

size_t raw_peer_read(int socket, void *bytes, size_t size) {
  size_t at = 0;
  for (;;) {
    struct pollfd ready = {.fd = socket, .events = POLLIN};
    if (poll(&ready, 1, RAW_PEER_DEADLINE_MS) != 1)
      fail_msg("the rank does not close the connection");
    ssize_t got = at < size ? recv(socket, (char *)bytes + at, size - at, 0) : 0;
    if (got <= 0)
      return at;
    at += (size_t)got;
  }
}

static void await(int socket, int wants) {
  struct pollfd ready = {.fd = socket, .events = wants == TLS_WANTS_READ ? POLLIN : POLLOUT};
  if (poll(&ready, 1, RAW_PEER_DEADLINE_MS) != 1)
    fail_msg("the other side neither goes on nor closes the connection");
}

struct tls *raw_peer_prove(int socket, bool calls, const uint8_t key[SECRET_KEY_SIZE]) {
  struct tls *tls;
  int rc;
  assert_int_equal(fcntl(socket, F_SETFL, O_NONBLOCK), 0);
  assert_int_equal(tls_open(&tls, socket, calls, EP_HANDSHAKE_PROTOCOL, key), 0);
  while ((rc = tls_handshake(tls)) > 0)
    await(socket, rc);
  if (rc == 0)
    return tls;
  tls_close(tls);
  return NULL;
}

void raw_peer_tls_send(struct tls *tls, int socket, const void *bytes, size_t size) {
  size_t sent = 0;
  for (size_t at = 0; at < size; at += sent) {
    int rc = tls_write(tls, (const char *)bytes + at, size - at, &sent);
    if (rc < 0) // it may have closed already
      return;
    if (rc > 0)
      await(socket, rc);
    sent = rc > 0 ? 0 : sent;
  }
}

size_t raw_peer_tls_receive(struct tls *tls, int socket, void *bytes, size_t size) {
  size_t at = 0, got = 0;
  for (;;) {
    char more;
    int rc = at < size ? tls_read(tls, (char *)bytes + at, size - at, &got) : tls_read(tls, &more, 1, &got);
    if (rc < 0)
      return at;
    if (rc > 0)
      await(socket, rc);
    else
      at += at < size ? got : 0;
  }
}

struct ep_tcp_message raw_peer_hello(const weft_ep_t *caller, const weft_ep_t *called) {
  struct ep_tcp_message hello = ep_tcp_message_make(caller, EP_HELLO, called->incarnation);
  strcpy(hello.transport, "shm");
  return hello;
}
