// The handshake between hosts: over TCP, with keys of areas instead of descriptors.
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

size_t ep_far_size(void) {
  return sizeof(struct ep_far_greeting);
}

static int fail_socket(int error, const char *what, int32_t rank) {
  if (error == ECONNRESET || error == EPIPE)
    return fail(WEFT_ERR_PEER_LOST, "%s: rank %d hung up", what, rank);
  return fail_errno(error, "%s rank %d", what, rank);
}

// It fits a socket's buffer, and is the first thing that is sent.
static int send_greeting(int socket, const struct ep_far_greeting *greeting) {
  ssize_t sent = send(socket, greeting, sizeof *greeting, MSG_NOSIGNAL);
  if (sent == (ssize_t)sizeof *greeting)
    return 0;
  return fail_socket(sent < 0 ? errno : EMSGSIZE, "cannot send a greeting to", greeting->greeting.rank);
}

// What has arrived; PROTOCOL when it is not a whole greeting.
static int receive_greeting(int socket, struct ep_far_greeting *greeting) {
  ssize_t size = recv(socket, greeting, sizeof *greeting, MSG_DONTWAIT);
  if (size <= 0)
    return fail(WEFT_ERR_PEER_LOST, "the peer hung up");
  if (size != (ssize_t)sizeof *greeting)
    return fail(WEFT_ERR_PROTOCOL, "a greeting has %zd bytes, not %zu", size, sizeof *greeting);
  greeting->transport[sizeof greeting->transport - 1] = '\0';
  return 0;
}

static int check_greeting(weft_ep_t *ep, const struct ep_far_greeting *greeting) {
  return ep_greeting_check(ep, &greeting->greeting, sizeof greeting->greeting);
}

static struct ep_far_greeting make_greeting(weft_ep_t *ep, enum ep_greeting_kind kind, uint64_t to) {
  return (struct ep_far_greeting){.greeting = ep_greeting_make(ep, kind, to)};
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
  await_whole(socket);
  int rc = ep_await_answer(socket, link->rank, deadline_ns);
  if (rc == 0)
    rc = receive_greeting(socket, answer);
  const struct ep_greeting *greeting = &answer->greeting;
  if (rc == 0 && greeting->kind == EP_REFUSED)
    return fail(greeting->error < 0 ? greeting->error : WEFT_ERR_PROTOCOL, "rank %d refused: %.*s", link->rank,
                (int)sizeof greeting->why - 1, greeting->why);
  if (rc == 0)
    rc = check_greeting(ep, answer);
  *yield = rc == 0 && greeting->kind == EP_YIELD;
  if (rc == 0 && !*yield && (greeting->kind != EP_WELCOME || greeting->incarnation != link->incarnation))
    rc = fail(WEFT_ERR_PROTOCOL, "rank %d gave an answer that is none", link->rank);
  await_bytes(socket);
  return rc;
}

static int new_link(weft_ep_t *ep, const char *transport, int32_t rank, uint64_t incarnation, struct ep_link **link) {
  struct ep_net *net;
  int own[EP_FDS];
  int rc = ep_net_open(ep, transport, &net);
  if (rc == 0)
    rc = ep_link_new(ep, rank, incarnation, true, link, own);
  if (rc != 0)
    return rc;
  rc = ep_remote_new(ep, net, *link, own[EP_FD_AREA]);
  if (rc != 0)
    ep_link_free(ep, *link);
  return rc;
}

// Says hello on a connected socket and makes the link of the answer.
static int converse(weft_ep_t *ep, int socket, int32_t rank, uint64_t incarnation, const uint8_t *token,
                    uint64_t deadline_ns, bool *yield) {
  struct ep_link *link;
  int rc = new_link(ep, NULL, rank, incarnation, &link);
  if (rc != 0)
    return rc;
  struct ep_far_greeting greeting = make_greeting(ep, EP_HELLO, incarnation);
  memcpy(greeting.token, token, sizeof greeting.token);
  rc = ep_remote_describe(link->remote, &greeting);
  if (rc == 0)
    rc = send_greeting(socket, &greeting);
  if (rc == 0)
    rc = hear_answer(ep, socket, link, deadline_ns, &greeting, yield);
  if (rc == 0 && !*yield)
    rc = ep_remote_connect(link->remote, &greeting);
  if (rc == 0 && !*yield) {
    link->socket = fcntl(socket, F_DUPFD_CLOEXEC, 0);
    rc = link->socket < 0 ? fail_errno(errno, "link to rank %d", rank) : ep_link_install(ep, link);
  }
  if (rc != 0 || *yield)
    ep_link_free(ep, link);
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
  int rc = WEFT_ERR_AUTH;
  for (const char *rest = endpoints; *rest && rc == WEFT_ERR_AUTH;) { // AUTH: another host has that address too
    int socket;
    rc = ep_endpoint_call(&rest, rank, deadline_ns, &socket);
    if (rc != 0)
      break;
    ep_endpoint_tune(socket);
    rc = converse(ep, socket, rank, incarnation, token, deadline_ns, yield);
    close(socket);
  }
  return rc;
}

// --- answer ---

static void refuse(weft_ep_t *ep, int socket, uint64_t to, int error) {
  struct ep_far_greeting no = make_greeting(ep, EP_REFUSED, to);
  if (error == WEFT_ERR_AUTH) // not to be told to just anybody
    no.greeting = (struct ep_greeting){.magic = no.greeting.magic, .version = no.greeting.version, .kind = EP_REFUSED};
  no.greeting.error = error;
  snprintf(no.greeting.why, sizeof no.greeting.why, "%.*s", (int)sizeof no.greeting.why - 1, weft_last_error());
  send_greeting(socket, &no);
}

// As long for a wrong token as for the right one.
static int check_token(const weft_ep_t *ep, const struct ep_far_greeting *hello) {
  uint8_t different = 0;
  for (int i = 0; i < EP_TOKEN; i++)
    different |= hello->token[i] ^ ep->links.token[i];
  return different ? fail(WEFT_ERR_AUTH, "a caller does not know this rank's token") : 0;
}

static int accept_link(weft_ep_t *ep, int socket, const struct ep_far_greeting *hello) {
  struct ep_link *link;
  struct ep_far_greeting welcome = make_greeting(ep, EP_WELCOME, hello->greeting.incarnation);
  int rc = new_link(ep, hello->transport, hello->greeting.rank, hello->greeting.incarnation, &link);
  if (rc != 0)
    return rc;
  rc = ep_remote_describe(link->remote, &welcome);
  if (rc == 0)
    rc = ep_remote_connect(link->remote, hello);
  if (rc == 0) {
    link->socket = socket;
    send_greeting(socket, &welcome); // if this fails the caller has gone, and the hang-up takes the link down
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
  bool taken = false;
  int rc = receive_greeting(socket, &hello);
  if (rc == 0)
    rc = check_token(ep, &hello);
  if (rc == 0)
    rc = check_greeting(ep, &hello);
  if (rc == 0 && (greeting->kind != EP_HELLO || greeting->to != ep->incarnation))
    rc = fail(WEFT_ERR_PROTOCOL, "rank %d calls an incarnation that this rank is not", greeting->rank);
  await_bytes(socket);
  ep_endpoint_tune(socket);
  if (rc == 0 && ep_answer_begin(ep, greeting->rank, greeting->incarnation)) {
    rc = accept_link(ep, socket, &hello);
    taken = rc == 0;
    ep_answer_end(ep, greeting->rank);
  } else if (rc == 0) {
    struct ep_far_greeting yield = make_greeting(ep, EP_YIELD, greeting->incarnation);
    send_greeting(socket, &yield);
  }
  if (rc != 0) {
    log_info("rank %d refused a call from another host: %s", ep->rank, weft_last_error());
    refuse(ep, socket, greeting->incarnation, rc);
  }
  if (!taken)
    close(socket);
}
