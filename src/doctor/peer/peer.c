// Probes the connection to another host: connections in both directions, and large packets.
#include "doctor/peer/peer.h"

#include "base/fail.h"
#include "base/time/clock.h"
#include "doctor/peer/address.h"
#include "doctor/peer/listener.h"
#include "doctor/peer/message.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { RETRY_MS = 250 };

// HOST, HOST:PORT, [ADDRESS]:PORT; more than one colon without brackets is an address of IPv6.
static void split(struct doctor_peer_facts *facts, const char *peer, char host[DOCTOR_TEXT]) {
  const char *colon = strrchr(peer, ':'), *bracket = strchr(peer, ']');
  bool has_port = colon && (bracket ? colon > bracket : strchr(peer, ':') == colon);
  size_t size = has_port ? (size_t)(colon - peer) : strlen(peer);
  if (peer[0] == '[' && bracket) {
    size = (size_t)(bracket - peer - 1);
    peer++;
  }
  snprintf(host, DOCTOR_TEXT, "%.*s", (int)size, peer);
  snprintf(facts->port, sizeof facts->port, "%s", has_port ? colon + 1 : DOCTOR_PORT);
}

// Reads the kernel's data of the path without sending a packet: a connected datagram socket has its route.
static void look_at_route(struct doctor_peer_facts *facts, const struct addrinfo *to) {
  int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), mtu = 0;
  if (fd < 0)
    return;
  socklen_t size = sizeof mtu;
  if (connect(fd, to->ai_addr, to->ai_addrlen) == 0) {
    facts->interface_mtu = doctor_interface_of(fd, facts->interface);
    bool six = to->ai_family == AF_INET6;
    if (getsockopt(fd, six ? IPPROTO_IPV6 : IPPROTO_IP, six ? IPV6_MTU : IP_MTU, &mtu, &size) == 0)
      facts->path_mtu = mtu;
  }
  close(fd);
}

static int connect_to(struct doctor_peer_facts *facts, const struct addrinfo *to, uint32_t timeout_ms) {
  int fd = -1;
  getnameinfo(to->ai_addr, to->ai_addrlen, facts->address, sizeof facts->address, NULL, 0, NI_NUMERICHOST);
  look_at_route(facts, to);
  uint64_t begin = clock_ns();
  facts->reach = doctor_connect(to->ai_addr, to->ai_addrlen, clock_deadline_ms(timeout_ms), &fd, &facts->reach_errno);
  facts->connect_ms = (double)(clock_ns() - begin) / 1e6;
  return fd;
}

// A socket at our end's address of the connection, for the peer to call.
static int listen_beside(int fd) {
  struct sockaddr_storage own;
  socklen_t size = sizeof own;
  if (getsockname(fd, (struct sockaddr *)&own, &size) != 0)
    return -1;
  if (own.ss_family == AF_INET6)
    ((struct sockaddr_in6 *)&own)->sin6_port = 0;
  else
    ((struct sockaddr_in *)&own)->sin_port = 0;
  return doctor_listen_at((struct sockaddr *)&own, size);
}

static bool shows(const struct doctor_message *message, const struct doctor_message *sent) {
  return memcmp(message->nonce, sent->nonce, DOCTOR_NONCE) == 0;
}

// Whether both sockets are connected to one host.
static bool is_of_peer(int fd, int peer) {
  struct sockaddr_storage a, b;
  socklen_t size_a = sizeof a, size_b = sizeof b;
  return getpeername(fd, (struct sockaddr *)&a, &size_a) == 0 &&
         getpeername(peer, (struct sockaddr *)&b, &size_b) == 0 &&
         doctor_same_address((struct sockaddr *)&a, (struct sockaddr *)&b);
}

// The peer reports that its connection succeeded. So a connection from its host must have arrived here and sent the
// nonce.
static enum doctor_reach accept_back(int listener, int peer, const struct doctor_message *sent, uint32_t timeout_ms) {
  struct doctor_message message;
  uint64_t deadline = clock_deadline_ms(timeout_ms);
  enum doctor_reach reach = DOCTOR_SILENT;
  for (int fd; reach != DOCTOR_REACHED && (fd = doctor_accept(listener, deadline)) >= 0; close(fd)) {
    struct doctor_connection connection = {.fd = fd};
    if (is_of_peer(fd, peer) && doctor_message_receive(&connection, &message, clock_deadline_ms(timeout_ms / 4)) &&
        shows(&message, sent))
      reach = DOCTOR_REACHED;
  }
  return reach;
}

static void send_bulk(struct doctor_peer_facts *facts, const struct doctor_connection *connection,
                      uint32_t timeout_ms) {
  uint8_t *out = malloc(DOCTOR_BULK), *in = malloc(DOCTOR_BULK);
  uint64_t deadline = clock_deadline_ms(timeout_ms);
  facts->bulk_sent = out && in;
  for (size_t i = 0; facts->bulk_sent && i < DOCTOR_BULK; i++)
    out[i] = (uint8_t)(i * 131 + (i >> 8));
  facts->bulk_came = facts->bulk_sent && doctor_connection_send(connection, out, DOCTOR_BULK, deadline) &&
                     doctor_connection_receive(connection, in, DOCTOR_BULK, deadline) &&
                     memcmp(in, out, DOCTOR_BULK) == 0;
  free(out);
  free(in);
}

// Exchanges messages and large packets. The peer's second answer comes when its own connection has been tried, which
// takes it at most as long as this side may take.
static void probe(struct doctor_peer_facts *facts, const struct doctor_connection *connection, int listener,
                  uint32_t timeout_ms) {
  struct doctor_message sent = {.mtu = (uint32_t)facts->interface_mtu}, reply;
  uint8_t bytes[DOCTOR_MESSAGE];
  sent.back_port = listener >= 0 ? doctor_port_of(listener) : 0;
  if (getrandom(sent.nonce, sizeof sent.nonce, 0) != (ssize_t)sizeof sent.nonce ||
      !doctor_message_send(connection, &sent, clock_deadline_ms(timeout_ms)) ||
      !doctor_connection_receive(connection, bytes, sizeof bytes, clock_deadline_ms(timeout_ms)))
    return;
  if (!doctor_message_unpack(&reply, bytes) || !shows(&reply, &sent)) {
    facts->wrong_answer = true;
    return;
  }
  facts->answered = true;
  facts->peer_mtu = (int)reply.mtu;
  if (!doctor_message_receive(connection, &reply, clock_deadline_ms(2 * timeout_ms)) || !shows(&reply, &sent))
    return;
  facts->back = reply.back == DOCTOR_REACHED ? accept_back(listener, connection->fd, &sent, timeout_ms) : reply.back;
  send_bulk(facts, connection, timeout_ms);
}

// Makes the handshake, then probes. A peer with another token and a server of another kind give the same result.
static void probe_with_token(struct doctor_peer_facts *facts, int fd, const uint8_t key[SECRET_KEY_SIZE],
                             uint32_t timeout_ms) {
  struct doctor_connection connection;
  int listener = listen_beside(fd);
  int err = doctor_connection_open(&connection, fd, true, key, clock_deadline_ms(timeout_ms));
  facts->wrong_answer = err == WEFT_ERR_AUTH || err == WEFT_ERR_PROTOCOL;
  if (err == 0)
    probe(facts, &connection, listener, timeout_ms);
  doctor_connection_close(&connection);
  if (listener >= 0)
    close(listener);
}

void doctor_gather_peer(struct doctor_peer_facts *facts, const char *peer, const char *token, uint32_t timeout_ms) {
  if (!peer)
    return;
  char host[DOCTOR_TEXT];
  facts->asked = true;
  snprintf(facts->name, sizeof facts->name, "%s", peer);
  split(facts, peer, host);
  if (strspn(facts->port, "0123456789") != strlen(facts->port) || !*facts->port || atoi(facts->port) > 65535) {
    snprintf(facts->error, sizeof facts->error, "\"%s\" is not a port", facts->port);
    return;
  }
  uint8_t key[SECRET_KEY_SIZE];
  if (secret_derive(token, DOCTOR_PROTOCOL, key) != 0) {
    snprintf(facts->error, sizeof facts->error, "no token is given: want the one of 'weft doctor --listen'");
    return;
  }
  const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
  struct addrinfo *list = NULL;
  int error = getaddrinfo(host, facts->port, &hints, &list); // the resolver has its own time limits
  if (error) {
    snprintf(facts->error, sizeof facts->error, "%s", gai_strerror(error));
    facts->unknown = true;
    return;
  }
  int fd = -1;
  for (const struct addrinfo *at = list; at && fd < 0; at = at->ai_next)
    fd = connect_to(facts, at, timeout_ms);
  freeaddrinfo(list);
  if (fd >= 0)
    probe_with_token(facts, fd, key, timeout_ms);
  explicit_bzero(key, sizeof key);
}

static bool is_absent(const struct doctor_peer_facts *facts) {
  return facts->unknown || (facts->reach != DOCTOR_NOT_TRIED && facts->reach != DOCTOR_REACHED);
}

void doctor_await_peer(struct doctor_peer_facts *facts, const char *peer, const char *token, uint32_t timeout_ms,
                       uint32_t startup_timeout_s) {
  const struct timespec pause = clock_timespec((uint64_t)RETRY_MS * 1000000u);
  uint64_t until = clock_deadline_ms((uint64_t)startup_timeout_s * 1000u);
  bool announced = false;
  doctor_gather_peer(facts, peer, token, timeout_ms);
  while (is_absent(facts) && !clock_passed(until)) {
    if (!announced)
      fprintf(stderr, "weft doctor: waiting for another weft doctor at %s, for up to %u s\n", peer, startup_timeout_s);
    announced = true;
    nanosleep(&pause, NULL);
    *facts = (struct doctor_peer_facts){0};
    doctor_gather_peer(facts, peer, token, timeout_ms);
  }
}
