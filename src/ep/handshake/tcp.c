// The handshake between hosts: over TCP, with keys of areas instead of descriptors.
//
// Ranks on GPUs first try whether NVLink joins them, since it joins hosts of one domain and containers of one host: the
// caller sends the name of its window, and the called rank maps it or refuses. After a refusal the caller calls again,
// with a transport.
//
// Both sides prove within TLS that they know the called rank's claim, which only processes that may read the store can
// know; others get no answer. All messages go through TLS; rows travel as the transport sends them.
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fail.h"
#include "base/log.h"
#include "base/time/clock.h"
#include "ep/handshake/handshake.h"
#include "ep/handshake/steps.h"
#include "ep/link/tcp_listener.h"
#include "ep/remote/neighbours.h"
#include "ep/remote/remote_link.h"

enum { HANDSHAKE_MS = 5000, ENDS_MS = 100, DRAINED_AT_ONCE = 16384 };

// --- call ---

// Waits until the socket is ready for the next step.
static int await(weft_ep_t *ep, const struct ep_handshake *handshake, int wants, const struct ep_link *link,
                 uint64_t deadline_ns) {
  return ep_await_answer(ep, handshake->socket, wants == TLS_WANTS_WRITE ? POLLOUT : POLLIN, link->rank,
                         link->incarnation, deadline_ns);
}

static int shake_hands(weft_ep_t *ep, struct ep_handshake *handshake, const uint8_t key[SECRET_KEY_SIZE],
                       const struct ep_link *link, uint64_t deadline_ns) {
  int rc;
  while ((rc = ep_handshake_prove(handshake, true, key)) > 0 && (rc = await(ep, handshake, rc, link, deadline_ns)) == 0)
    ;
  return rc;
}

static int send_hello(weft_ep_t *ep, struct ep_handshake *handshake, const struct ep_tcp_message *hello,
                      const struct ep_link *link, uint64_t deadline_ns) {
  int rc;
  while ((rc = ep_handshake_send(handshake, hello)) > 0 && (rc = await(ep, handshake, rc, link, deadline_ns)) == 0)
    ;
  return rc;
}

static int receive_answer(weft_ep_t *ep, struct ep_handshake *handshake, const struct ep_link *link,
                          uint64_t deadline_ns, bool *yield) {
  int rc;
  while ((rc = ep_handshake_recv(handshake)) > 0 && (rc = await(ep, handshake, rc, link, deadline_ns)) == 0)
    ;
  return rc == 0 ? ep_tcp_answer_check(ep, handshake->received, handshake->num_received, link->rank, link->incarnation,
                                       yield)
                 : rc;
}

static bool is_fabric(const char *transport) {
  return transport && strcmp(transport, EP_FABRIC) == 0;
}

static int check_fabric(const weft_ep_t *ep) {
  const char *own = ep->links.transport;
  if (!ep->engine->has_fabric)
    return fail(WEFT_ERR_UNSUPPORTED, "NVLink joins GPUs, and rank %d runs on host memory", ep->rank);
  if (own[0] && !is_fabric(own))
    return fail(WEFT_ERR_UNSUPPORTED,
                "rank %d reaches other hosts by %s and not by %s: set WEFT_EP_TRANSPORT alike on all ranks", ep->rank,
                own, EP_FABRIC);
  return 0;
}

// `transport` NULL: any.
static int new_link(weft_ep_t *ep, const char *transport, int32_t rank, uint64_t incarnation, struct ep_link **link) {
  bool fabric = is_fabric(transport);
  struct ep_net *net = NULL;
  int own[EP_FDS];
  int rc = fabric ? check_fabric(ep) : ep_net_open(ep, transport, &ep_remote_events, &net);
  if (rc == 0)
    rc = ep_link_new(ep, rank, incarnation, fabric ? EP_ROUTE_FABRIC : EP_ROUTE_TRANSPORT, link, own);
  if (rc != 0)
    return rc;
  rc = ep_remote_new(ep, net, *link, own[EP_FD_AREA]);
  if (rc != 0)
    ep_link_free(ep, *link);
  return rc;
}

// Makes a new link and this rank's message for it. All is ready before the call, so that the called rank never waits.
static int make_hello(weft_ep_t *ep, int32_t rank, uint64_t incarnation, const char *transport, struct ep_link **out,
                      struct ep_tcp_message *hello) {
  struct ep_link *link;
  int rc = new_link(ep, transport, rank, incarnation, &link);
  if (rc != 0)
    return rc;
  *hello = ep_tcp_message_make(ep, EP_HELLO, incarnation);
  rc = ep_remote_describe(link->remote, hello);
  if (rc == 0)
    *out = link;
  else
    ep_link_free(ep, link);
  return rc;
}

// Whether the peer ends now. Waits a moment for this.
static bool ends(struct ep_link *link) {
  struct pollfd news = {.fd = link->socket, .events = POLLIN};
  uint64_t deadline_ns = clock_deadline_ms(ENDS_MS);
  while (!ep_peer_ended(link)) {
    if (clock_passed(deadline_ns))
      return false;
    poll(&news, 1, ENDS_MS / 10);
  }
  return true;
}

// Reaches the memory that the peer has described. A peer that ends meanwhile frees its window first: no mistake of the
// way between the hosts.
static int reach_peer(struct ep_link *link, const struct ep_tcp_message *message) {
  int rc = ep_remote_connect(link->remote, message);
  if (rc == WEFT_ERR_UNSUPPORTED && ends(link))
    return fail_context(WEFT_ERR_PEER_LOST, "rank %d ended before this rank had its memory", link->rank);
  return rc;
}

// Sends hello to a rank that has proved the key, and completes the link from the answer.
static int exchange_messages(weft_ep_t *ep, struct ep_handshake *handshake, struct ep_link *link,
                             const struct ep_tcp_message *hello, uint64_t deadline_ns, bool *yield) {
  int32_t rank = link->rank; // an installed link may end at any time
  int rc = send_hello(ep, handshake, hello, link, deadline_ns);
  if (rc == 0)
    rc = receive_answer(ep, handshake, link, deadline_ns, yield);
  if (rc == WEFT_ERR_UNREACHABLE)
    ep_net_doubt(ep);
  if (rc != 0 || *yield)
    return rc;
  ep_handshake_give(handshake, link);
  rc = reach_peer(link, handshake->received);
  if (rc != 0) // the peer has the link, and counts it only if this rank confirms it
    return rc;
  ep_control_notify(link, EP_NOTICE_CONFIRMED);
  rc = ep_link_install(ep, link);
  if (rc == 0)
    ep_neighbours_connected(ep, rank);
  else // now the peer must not take this for a death
    ep_link_notify_left(link);
  return rc;
}

// `*met`: the answer came from the called rank, or from another process that has read its claim.
static int converse(weft_ep_t *ep, int socket, struct ep_link *link, const struct ep_tcp_message *hello,
                    const uint8_t key[SECRET_KEY_SIZE], uint64_t deadline_ns, bool *met, bool *yield) {
  struct ep_handshake handshake;
  uint64_t limit_ns = clock_deadline_ms(HANDSHAKE_MS);
  ep_endpoint_tune(socket);
  ep_handshake_begin(&handshake, socket);
  int rc = shake_hands(ep, &handshake, key, link, limit_ns < deadline_ns ? limit_ns : deadline_ns);
  *met = rc == 0;
  if (rc == 0)
    rc = exchange_messages(ep, &handshake, link, hello, deadline_ns, yield);
  ep_handshake_end(&handshake);
  return rc;
}

// Whether the rank itself may listen at its next address: nobody who knows its claim has answered at the last one. (An
// interrupt ends the call.)
static bool may_be_elsewhere(int rc, uint64_t deadline_ns) {
  return rc == WEFT_ERR_AUTH || rc == WEFT_ERR_PROTOCOL || rc == WEFT_ERR_PEER_LOST ||
         (rc == WEFT_ERR_TIMEOUT && !clock_passed(deadline_ns));
}

// A listener that does not know the claim is another host that also has that address, or a program that has got the
// port of a rank that is gone. The rank itself may have another address by then, or none. A listener that does not
// answer in time may be the rank itself, whose process is stopped or busy: the caller may call again until its
// deadline.
static int call_until(weft_ep_t *ep, const char *endpoints, struct ep_link *link, const struct ep_tcp_message *hello,
                      const uint8_t key[SECRET_KEY_SIZE], uint64_t deadline_ns, bool *yield) {
  int rc = WEFT_ERR_AUTH, socket;
  bool met = false;
  for (const char *rest = endpoints; *rest && !met && may_be_elsewhere(rc, deadline_ns);) {
    rc = ep_endpoint_call(ep, &rest, link->rank, deadline_ns, &socket);
    if (rc != 0)
      return rc;
    rc = converse(ep, socket, link, hello, key, deadline_ns, &met, yield);
  }
  if (!met && (rc == WEFT_ERR_AUTH || rc == WEFT_ERR_PROTOCOL))
    return fail_context(WEFT_ERR_UNREACHABLE, "another process listens at the address of rank %d", link->rank);
  if (!met && rc == WEFT_ERR_TIMEOUT && !clock_passed(deadline_ns))
    return fail(WEFT_ERR_UNREACHABLE, "rank %d takes connections at %s, but did not answer within %d s", link->rank,
                endpoints, HANDSHAKE_MS / 1000);
  return rc;
}

static int call_by(weft_ep_t *ep, int32_t rank, uint64_t incarnation, const char *transport,
                   const uint8_t key[SECRET_KEY_SIZE], const char *endpoints, uint64_t deadline_ns, bool *yield) {
  struct ep_link *link;
  struct ep_tcp_message hello;
  int rc = make_hello(ep, rank, incarnation, transport, &link, &hello);
  if (rc != 0)
    return rc;
  rc = call_until(ep, endpoints, link, &hello, key, deadline_ns, yield);
  if (rc != 0 || *yield)
    ep_link_free(ep, link);
  return rc;
}

// Reads the key and the endpoints from the claim.
static int read_claim(int32_t rank, const char *claimed, uint8_t key[SECRET_KEY_SIZE], char endpoints[256]) {
  char token[SECRET_DIGITS + 2]; // one more digit, which must not be there
  if (sscanf(claimed, "%33s %255s", token, endpoints) != 2)
    return fail(WEFT_ERR_UNSUPPORTED,
                "rank %d is on another host, and accepts no connections from this one: see its WEFT_EP_TRANSPORT",
                rank);
  if (strlen(token) != SECRET_DIGITS || strspn(token, "0123456789abcdef") != SECRET_DIGITS)
    return fail(WEFT_ERR_PROTOCOL, "rank %d has a malformed address", rank);
  return secret_derive(token, EP_HANDSHAKE_PROTOCOL, key);
}

int ep_call_tcp(weft_ep_t *ep, int32_t rank, uint64_t incarnation, const char *claimed, uint64_t deadline_ns,
                bool *yield) {
  char endpoints[sizeof ep->links.endpoints];
  uint8_t key[SECRET_KEY_SIZE];
  if (ep->links.tcp_listener < 0)
    return fail(WEFT_ERR_UNSUPPORTED,
                "rank %d is on another host, and this rank reaches no other host (WEFT_EP_TRANSPORT is %s)", rank,
                ep->links.transport[0] ? ep->links.transport : "not set, and its store is this process's own");
  int rc = read_claim(rank, claimed, key, endpoints);
  if (rc != 0)
    return rc;
  bool fabric_only = is_fabric(ep->links.transport);
  if (fabric_only || (ep->engine->has_fabric && !ep->links.transport[0])) {
    rc = call_by(ep, rank, incarnation, EP_FABRIC, key, endpoints, deadline_ns, yield);
    if (rc != WEFT_ERR_UNSUPPORTED || fabric_only)
      return rc;
    log_info("rank %d does not reach rank %d by NVLink: %s", ep->rank, rank, weft_last_error());
  }
  return call_by(ep, rank, incarnation, NULL, key, endpoints, deadline_ns, yield);
}

// --- answer ---

// Every answer to a caller fits into its socket's buffer, which is empty before. So if an answer cannot be sent at
// once, the caller does not want it.
static int send_at_once(struct ep_handshake *handshake, const struct ep_tcp_message *message) {
  int rc = ep_handshake_send(handshake, message);
  return rc > 0 ? fail(WEFT_ERR_PEER_LOST, "the caller does not accept an answer") : rc;
}

static void refuse(weft_ep_t *ep, struct ep_handshake *handshake, uint64_t to, int error) {
  struct ep_tcp_message no = ep_tcp_message_make(ep, EP_REFUSED, to);
  no.message.error = error;
  snprintf(no.message.why, sizeof no.message.why, "%.*s", (int)sizeof no.message.why - 1, weft_last_error());
  send_at_once(handshake, &no);
}

// Opening the transport may take longer than the caller waits. A caller that has hung up meanwhile may call again; if
// it had a link by then, its hang-up would count as its death.
static int check_caller(const struct ep_handshake *handshake) {
  struct pollfd ended = {.fd = handshake->socket, .events = POLLRDHUP};
  if (poll(&ended, 1, 0) <= 0)
    return 0;
  return fail(WEFT_ERR_PEER_LOST, "rank %d hung up before this rank answered", handshake->received->message.rank);
}

static int accept_link(weft_ep_t *ep, struct ep_handshake *handshake) {
  const struct ep_tcp_message *hello = handshake->received;
  struct ep_link *link;
  struct ep_tcp_message welcome = ep_tcp_message_make(ep, EP_WELCOME, hello->message.incarnation);
  int rc = new_link(ep, hello->transport, hello->message.rank, hello->message.incarnation, &link);
  if (rc != 0)
    return rc;
  rc = ep_remote_describe(link->remote, &welcome);
  if (rc == 0)
    rc = ep_remote_connect(link->remote, hello);
  if (rc == 0)
    rc = check_caller(handshake);
  if (rc == 0) {
    ep_handshake_give(handshake, link);
    link->remote->owes_welcome = true;
    ep_confirm_expect(ep, link);
    rc = ep_link_install(ep, link);
    if (rc != 0)
      ep_handshake_take_back(handshake, link);
  }
  if (rc == 0) { // the link is installed first: a caller that is accepted may propose the view with itself at once
    ep_remote_welcome(link, &welcome);
    ep_neighbours_connected(ep, hello->message.rank);
  } else {
    ep_link_free(ep, link);
  }
  return rc;
}

// A handshake message has arrived. Makes the link, or sends an answer.
static void answer(weft_ep_t *ep, struct ep_handshake *handshake) {
  const struct ep_handshake_message *hello = &handshake->received->message;
  int rc = ep_tcp_hello_check(ep, handshake->received, handshake->num_received);
  uint64_t to = rc == 0 ? hello->incarnation : 0;
  if (rc == 0)
    rc = ep_check_incarnation(ep, hello->rank, hello->incarnation);
  if (rc == 0 && ep_answer_begin(ep, hello->rank, hello->incarnation)) {
    rc = accept_link(ep, handshake);
    if (rc != 0)
      ep_answer_end(ep, hello->rank);
  } else if (rc == 0) {
    struct ep_tcp_message yield = ep_tcp_message_make(ep, EP_YIELD, hello->incarnation);
    send_at_once(handshake, &yield);
  }
  if (rc == 0)
    return;
  log_info("rank %d refused a call from another host: %s", ep->rank, weft_last_error());
  refuse(ep, handshake, to, rc);
}

// Reads the remaining bytes until the caller hangs up: closing a socket with unread bytes resets it, and the answer is
// lost.
static int drain(const struct ep_handshake *handshake) {
  char bytes[1024];
  for (size_t drained = 0; drained < DRAINED_AT_ONCE; drained += sizeof bytes) {
    ssize_t size = recv(handshake->socket, bytes, sizeof bytes, MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
      return TLS_WANTS_READ;
    if (size <= 0)
      return fail(WEFT_ERR_PEER_LOST, "it hung up");
  }
  return TLS_WANTS_READ;
}

int ep_answer_tcp(weft_ep_t *ep, struct ep_handshake *handshake) {
  int rc = 0;
  if (handshake->stage == EP_HANDSHAKE_ENDS)
    return drain(handshake);
  if (handshake->stage < EP_HANDSHAKE_PROVED)
    rc = ep_handshake_prove(handshake, false, ep->links.tcp_key);
  if (rc == 0)
    rc = ep_handshake_recv(handshake);
  if (rc != 0)
    return rc;
  ep_endpoint_tune(handshake->socket);
  answer(ep, handshake);
  if (handshake->socket < 0) {
    ep_handshake_end(handshake);
    return 0;
  }
  shutdown(handshake->socket, SHUT_WR);
  handshake->stage = EP_HANDSHAKE_ENDS;
  return drain(handshake);
}
