// The handshake between hosts: over TCP, with keys of areas instead of descriptors.
//
// Ranks on GPUs first try whether NVLink joins them, for it joins hosts of one domain and containers of one host: the
// caller shows the name of its window, and the called one maps it or refuses. Then the caller calls again, with a
// transport.
//
// Who calls shows that it has read the claim, by the token in it; to others nothing is said. The token and all rows
// travel as they are: the network between the hosts has to be one's own.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/log.h"
#include "ep/endpoint.h"
#include "ep/remote.h"

enum { DRAINED = 16 }; // greetings' sizes, at most

size_t ep_far_size(void) {
  return sizeof(struct ep_far_greeting);
}

static int fail_socket(int error, const char *what, int32_t rank) {
  if (error == ECONNRESET || error == EPIPE)
    return fail(WEFT_ERR_PEER_LOST, "%s: rank %d hung up", what, rank);
  return fail_errno(error, "%s rank %d", what, rank);
}

// It fits a socket's buffer, and is the first thing that is sent.
static int send_greeting(int socket, const struct ep_far_greeting *greeting, int32_t rank) {
  ssize_t sent = send(socket, greeting, sizeof *greeting, MSG_NOSIGNAL);
  if (sent == (ssize_t)sizeof *greeting)
    return 0;
  return fail_socket(sent < 0 ? errno : EMSGSIZE, "cannot send a greeting to", rank);
}

// What has arrived: its size. It may be no greeting, or a part of one. PEER_LOST: nothing has come.
static int receive_greeting(int socket, struct ep_far_greeting *greeting, size_t *size) {
  ssize_t got = recv(socket, greeting, sizeof *greeting, MSG_DONTWAIT);
  if (got <= 0)
    return fail(WEFT_ERR_PEER_LOST, got < 0 && errno == EAGAIN ? "the peer says nothing" : "the peer hung up");
  *size = (size_t)got;
  return 0;
}

// Wakes who waits for the socket when a whole greeting is there, or none will come.
static void await_whole(int socket) {
  int size = sizeof(struct ep_far_greeting);
  setsockopt(socket, SOL_SOCKET, SO_RCVLOWAT, &size, sizeof size);
}

// From now on single bytes come.
static void await_bytes(int socket) {
  int size = 1;
  setsockopt(socket, SOL_SOCKET, SO_RCVLOWAT, &size, sizeof size);
}

// --- call ---

static int hear_answer(weft_ep_t *ep, int socket, const struct ep_link *link, uint64_t deadline_ns,
                       struct ep_far_greeting *answer, bool *yield) {
  size_t size = 0;
  await_whole(socket);
  int rc = ep_await_answer(socket, link->rank, deadline_ns);
  if (rc == 0)
    rc = receive_greeting(socket, answer, &size);
  if (rc == 0)
    rc = ep_far_answer_check(ep, answer, size, link->rank, link->incarnation, yield);
  await_bytes(socket);
  return rc;
}

static bool is_fabric(const char *transport) {
  return transport && strcmp(transport, EP_FABRIC) == 0;
}

static int check_fabric(const weft_ep_t *ep) {
  const char *own = ep->links.transport;
  if (!ep->gpu)
    return fail(WEFT_ERR_UNSUPPORTED, "NVLink joins GPUs, and rank %d runs on host memory", ep->rank);
  if (own[0] && !is_fabric(own))
    return fail(WEFT_ERR_UNSUPPORTED, "rank %d reaches other hosts by %s and not by %s: set WEFT_EP_TRANSPORT on all",
                ep->rank, own, EP_FABRIC);
  return 0;
}

// `transport` NULL: any.
static int new_link(weft_ep_t *ep, const char *transport, int32_t rank, uint64_t incarnation, struct ep_link **link) {
  bool fabric = is_fabric(transport);
  struct ep_net *net = NULL;
  int own[EP_FDS];
  int rc = fabric ? check_fabric(ep) : ep_net_open(ep, transport, &net);
  if (rc == 0)
    rc = ep_link_new(ep, rank, incarnation, fabric ? EP_ROUTE_FABRIC : EP_ROUTE_FAR, link, own);
  if (rc != 0)
    return rc;
  rc = ep_remote_new(ep, net, *link, own[EP_FD_AREA]);
  if (rc != 0)
    ep_link_free(ep, *link);
  return rc;
}

// A new link, and what this rank says to make it one: all is ready before the call, so that the called one never waits.
static int make_hello(weft_ep_t *ep, int32_t rank, uint64_t incarnation, const char *transport, const uint8_t *token,
                      struct ep_link **out, struct ep_far_greeting *hello) {
  struct ep_link *link;
  int rc = new_link(ep, transport, rank, incarnation, &link);
  if (rc != 0)
    return rc;
  *hello = ep_far_greeting_make(ep, EP_HELLO, incarnation);
  memcpy(hello->token, token, sizeof hello->token);
  rc = ep_remote_describe(link->remote, hello);
  if (rc == 0)
    *out = link;
  else
    ep_link_free(ep, link);
  return rc;
}

// Says hello on a connected socket, and makes the link one of the answer.
static int converse(weft_ep_t *ep, int socket, struct ep_link *link, const struct ep_far_greeting *hello,
                    uint64_t deadline_ns, bool *yield) {
  struct ep_far_greeting answer = {0};
  int rc = send_greeting(socket, hello, link->rank);
  if (rc == 0)
    rc = hear_answer(ep, socket, link, deadline_ns, &answer, yield);
  if (rc != 0 || *yield)
    return rc;
  link->socket = fcntl(socket, F_DUPFD_CLOEXEC, 0);
  if (link->socket < 0)
    return fail_errno(errno, "link to rank %d", link->rank);
  rc = ep_remote_connect(link->remote, &answer);
  if (rc == 0)
    rc = ep_link_install(ep, link);
  if (rc != 0) // the peer has the link already, and this is no death
    ep_link_say_left(link);
  return rc;
}

static int call_until(weft_ep_t *ep, const char *endpoints, struct ep_link *link, const struct ep_far_greeting *hello,
                      uint64_t deadline_ns, bool *yield) {
  int rc = WEFT_ERR_AUTH;
  for (const char *rest = endpoints; *rest && rc == WEFT_ERR_AUTH;) { // AUTH: another host has that address too
    int socket;
    rc = ep_endpoint_call(&rest, link->rank, deadline_ns, &socket);
    if (rc != 0)
      break;
    ep_endpoint_tune(socket);
    rc = converse(ep, socket, link, hello, deadline_ns, yield);
    close(socket);
  }
  return rc;
}

static bool parse_token(const char *digits, uint8_t token[EP_TOKEN]) {
  for (int i = 0; i < EP_TOKEN; i++) {
    unsigned byte;
    if (sscanf(digits + 2 * i, "%2x", &byte) != 1)
      return false;
    token[i] = (uint8_t)byte;
  }
  return true;
}

static int call_by(weft_ep_t *ep, int32_t rank, uint64_t incarnation, const char *transport, const uint8_t *token,
                   const char *endpoints, uint64_t deadline_ns, bool *yield) {
  struct ep_link *link;
  struct ep_far_greeting hello;
  int rc = make_hello(ep, rank, incarnation, transport, token, &link, &hello);
  if (rc != 0)
    return rc;
  rc = call_until(ep, endpoints, link, &hello, deadline_ns, yield);
  if (rc != 0 || *yield)
    ep_link_free(ep, link);
  return rc;
}

int ep_far_call(weft_ep_t *ep, int32_t rank, uint64_t incarnation, const char *claimed, uint64_t deadline_ns,
                bool *yield) {
  char digits[2 * EP_TOKEN + 1], endpoints[sizeof ep->links.endpoints];
  uint8_t token[EP_TOKEN];
  if (ep->links.far_listener < 0)
    return fail(WEFT_ERR_UNSUPPORTED,
                "rank %d is on another host, and this rank reaches none (WEFT_EP_TRANSPORT is %s)", rank,
                ep->links.transport[0] ? ep->links.transport : "not set, and its store is this process's own");
  if (sscanf(claimed, "%32s %255s", digits, endpoints) != 2)
    return fail(WEFT_ERR_UNSUPPORTED,
                "rank %d is on another host, and takes no calls from there: see its "
                "WEFT_EP_TRANSPORT",
                rank);
  if (!parse_token(digits, token))
    return fail(WEFT_ERR_PROTOCOL, "rank %d has an address that is none", rank);
  bool fabric_only = is_fabric(ep->links.transport);
  if (fabric_only || (ep->gpu && !ep->links.transport[0])) {
    int rc = call_by(ep, rank, incarnation, EP_FABRIC, token, endpoints, deadline_ns, yield);
    if (rc != WEFT_ERR_UNSUPPORTED || fabric_only)
      return rc;
    log_info("rank %d does not reach rank %d by NVLink: %s", ep->rank, rank, weft_last_error());
  }
  return call_by(ep, rank, incarnation, NULL, token, endpoints, deadline_ns, yield);
}

// --- answer ---

// Who has not shown the token gets to know that it was refused, and nothing of this rank.
static void refuse(weft_ep_t *ep, int socket, uint64_t to, int error) {
  struct ep_far_greeting no = ep_far_greeting_make(ep, EP_REFUSED, to);
  if (error == WEFT_ERR_AUTH)
    no.greeting = (struct ep_greeting){.kind = EP_REFUSED};
  no.greeting.error = error;
  snprintf(no.greeting.why, sizeof no.greeting.why, "%.*s", (int)sizeof no.greeting.why - 1, weft_last_error());
  send_greeting(socket, &no, -1);
}

// Reads what is left of a longer greeting: a socket that is closed with bytes in it is reset, and the answer lost.
static void drain(int socket) {
  char bytes[sizeof(struct ep_far_greeting)];
  for (int i = 0; i < DRAINED && recv(socket, bytes, sizeof bytes, MSG_DONTWAIT) > 0; i++)
    ;
}

static int accept_link(weft_ep_t *ep, int socket, const struct ep_far_greeting *hello) {
  struct ep_link *link;
  struct ep_far_greeting welcome = ep_far_greeting_make(ep, EP_WELCOME, hello->greeting.incarnation);
  int rc = new_link(ep, hello->transport, hello->greeting.rank, hello->greeting.incarnation, &link);
  if (rc != 0)
    return rc;
  rc = ep_remote_describe(link->remote, &welcome);
  if (rc == 0)
    rc = ep_remote_connect(link->remote, hello);
  if (rc == 0) {
    link->socket = socket;
    send_greeting(socket, &welcome,
                  link->rank); // if this fails the caller has gone, and the hang-up takes the link down
    rc = ep_link_install(ep, link);
    if (rc != 0)
      link->socket = -1;
  }
  if (rc != 0)
    ep_link_free(ep, link);
  return rc;
}

void ep_far_answer(weft_ep_t *ep, int socket) {
  struct ep_far_greeting hello = {0};
  const struct ep_greeting *greeting = &hello.greeting;
  bool taken = false, known = false;
  size_t size = 0;
  int rc = receive_greeting(socket, &hello, &size);
  if (rc == 0)
    rc = ep_far_hello_check(ep, &hello, size, &known);
  await_bytes(socket);
  ep_endpoint_tune(socket);
  if (rc == 0 && ep_answer_begin(ep, greeting->rank, greeting->incarnation)) {
    rc = accept_link(ep, socket, &hello);
    taken = rc == 0;
    ep_answer_end(ep, greeting->rank);
  } else if (rc == 0) {
    struct ep_far_greeting yield = ep_far_greeting_make(ep, EP_YIELD, greeting->incarnation);
    send_greeting(socket, &yield, greeting->rank);
  }
  if (rc != 0)
    log_info("rank %d refused a call from another host: %s", ep->rank, weft_last_error());
  if (rc != 0 && known) {
    refuse(ep, socket, greeting->incarnation, rc);
    drain(socket);
  }
  if (!taken)
    close(socket);
}
