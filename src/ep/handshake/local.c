// The handshake on one host: over an abstract socket, on which descriptors of the windows travel.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/log.h"
#include "base/time/clock.h"
#include "ep/handshake/handshake.h"
#include "ep/handshake/peer_user.h"
#include "ep/link/handshake_wire.h"
#include "ep/remote/neighbours.h"

enum { QUEUED_US = 500000 }; // time in a peer's queue between two checks for an interrupt

// A peer that closes while our call is in its queue, or unread, resets the connection.
static int fail_socket(int error, const char *what) {
  if (error == ECONNRESET || error == EPIPE)
    return fail(WEFT_ERR_PEER_LOST, "%s: the peer hung up", what);
  return fail_errno(error, "%s", what);
}

// How many descriptors a handshake message with windows passes.
static uint32_t num_fds(const weft_ep_t *ep) {
  return ep->engine->descriptors + (ep->zero_copy.fd >= 0);
}

// Sends one packet, with descriptors if `fds` is not NULL.
static int send_message(weft_ep_t *ep, int socket, const struct ep_handshake_message *message, const int *fds) {
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(EP_FDS * sizeof(int))];
  } control = {0};
  struct iovec data = {.iov_base = (void *)message, .iov_len = sizeof *message};
  struct msghdr packet = {.msg_iov = &data, .msg_iovlen = 1};
  if (fds) {
    size_t size = num_fds(ep) * sizeof *fds;
    packet.msg_control = control.bytes;
    packet.msg_controllen = CMSG_SPACE(size);
    struct cmsghdr *header = CMSG_FIRSTHDR(&packet);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(header), fds, size);
  }
  if (sendmsg(socket, &packet, MSG_NOSIGNAL) < 0)
    return fail_socket(errno, "cannot send a handshake message");
  return 0;
}

// A valid handshake message passes exactly its windows. `cut`: there were more descriptors than could be received.
static int check_fds(const weft_ep_t *ep, const struct ep_handshake_message *message, uint32_t count, bool cut) {
  bool windows = message->kind == EP_HELLO || message->kind == EP_WELCOME;
  uint32_t wanted = windows ? num_fds(ep) : 0;
  if (cut && count < wanted)
    return fail_errno(EMFILE, "cannot receive the windows of rank %d", message->rank);
  if (windows && count < wanted)
    return fail(WEFT_ERR_PROTOCOL, "a handshake message of rank %d has no file descriptors of its windows",
                message->rank);
  if (cut || count != wanted)
    return fail(WEFT_ERR_PROTOCOL, "a handshake message of rank %d has more than the %u file descriptors that it needs",
                message->rank, wanted);
  return 0;
}

// Receives the packet that has arrived. Missing fds are -1.
static int receive_message(weft_ep_t *ep, int socket, struct ep_handshake_message *message, int fds[EP_FDS]) {
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(4 * EP_FDS * sizeof(int))];
  } control;
  struct iovec data = {.iov_base = message, .iov_len = sizeof *message};
  struct msghdr packet = {
      .msg_iov = &data, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
  for (int i = 0; i < EP_FDS; i++)
    fds[i] = -1;
  ssize_t size = recvmsg(socket, &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0)
    return fail_socket(errno, "cannot receive a handshake message");
  if (size == 0)
    return fail(WEFT_ERR_PEER_LOST, "the peer hung up");
  uint32_t count = ep_window_take_fds(&packet, fds, EP_FDS);
  int rc = ep_handshake_message_check(ep, message, (size_t)size);
  return rc == 0 ? check_fds(ep, message, count, packet.msg_flags & MSG_CTRUNC) : rc;
}

static void close_fds(int fds[EP_FDS]) {
  for (int i = 0; i < EP_FDS; i++)
    if (fds[i] >= 0)
      close(fds[i]);
}

static int map_peer(weft_ep_t *ep, struct ep_link *link, const struct ep_handshake_message *message, int fds[EP_FDS]) {
  int rc = ep_window_map(&link->bell, EP_DOORBELL_SIZE, fds[EP_FD_BELL]);
  if (rc == 0)
    rc = ep_window_map(&link->out, ep->layout.area, fds[EP_FD_AREA]);
  if (rc == 0)
    rc = ep->engine->link_map(ep, link, fds, message->device);
  return rc;
}

// Closes this rank's own descriptors of a new link; those that all links share stay open.
static void close_own(const int fds[EP_FDS]) {
  for (int i = EP_FD_AREA; i <= EP_FD_DEVICE; i++)
    if (fds[i] >= 0)
      close(fds[i]);
}

// --- dial ---

// Waits in the kernel's queue while the peer has many callers: a caller that only polls for room would be overtaken by
// those that wait. From time to time it checks whether it is interrupted, and whether the peer still has its claim.
static int connect_until(weft_ep_t *ep, int socket, const struct sockaddr_un *to, socklen_t size,
                         const struct ep_link *link, uint64_t deadline_ns) {
  int32_t rank = link->rank;
  for (;;) {
    uint64_t left_us = clock_left_ns(deadline_ns) / 1000 + 1; // 0 would mean no limit
    left_us = left_us < QUEUED_US ? left_us : QUEUED_US;
    if (ep_interrupted(ep))
      return ep_canceled("connect");
    struct timeval left = {.tv_sec = (time_t)(left_us / 1000000), .tv_usec = (suseconds_t)(left_us % 1000000)};
    if (setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &left, sizeof left) != 0)
      return fail_errno(errno, "cannot connect to rank %d", rank);
    if (connect(socket, (const struct sockaddr *)to, size) == 0)
      return 0;
    if (errno != EAGAIN && errno != EINTR)
      return errno == ECONNREFUSED ? fail(WEFT_ERR_PEER_LOST, "rank %d does not listen: its process is gone", rank)
                                   : fail_errno(errno, "cannot connect to rank %d", rank);
    if (clock_passed(deadline_ns))
      return fail(WEFT_ERR_TIMEOUT, "rank %d did not accept the connection by the deadline", rank);
    int rc = ep_check_called(ep, rank, link->incarnation);
    if (rc != 0)
      return rc;
  }
}

// Checks that a process of this user answers. When a rank has gone, its socket name is free, and any process may take
// it, also one of another user.
static int check_called(int socket, int32_t rank) {
  if (ep_user_check(socket) == 0)
    return fcntl(socket, F_SETFL, O_NONBLOCK) == 0 ? 0 : fail_errno(errno, "cannot call rank %d", rank);
  return fail_context(WEFT_ERR_PEER_LOST, "rank %d does not listen, and another process uses the name of its socket",
                      rank);
}

static int confirm_and_install(weft_ep_t *ep, struct ep_link *link) {
  link->path->notify(link, EP_NOTICE_CONFIRMED);
  int rc = ep_link_install(ep, link);
  if (rc != 0)
    ep_link_notify_left(link);
  return rc;
}

// Sends hello on a connected socket, and completes the link from the answer. Closes this rank's own descriptors of the
// link. `*yield`: the peer's own call is used instead.
static int converse(weft_ep_t *ep, int socket, struct ep_link *link, const int own[EP_FDS], uint64_t deadline_ns,
                    bool *yield) {
  int fds[EP_FDS] = EP_NO_FDS;
  int32_t rank = link->rank; // an installed link may end at any time
  struct ep_handshake_message message = ep_handshake_message_make(ep, EP_HELLO, link->incarnation);
  int rc = send_message(ep, socket, &message, own);
  close_own(own);
  if (rc == 0)
    rc = ep_await_answer(ep, socket, POLLIN, rank, link->incarnation, deadline_ns);
  if (rc == 0)
    rc = receive_message(ep, socket, &message, fds);
  if (rc == 0 && message.kind == EP_REFUSED)
    rc = ep_handshake_refused(&message, link->rank);
  *yield = rc == 0 && message.kind == EP_YIELD;
  if (rc == 0 && !*yield && (message.kind != EP_WELCOME || message.incarnation != link->incarnation))
    rc = fail(WEFT_ERR_PROTOCOL, "rank %d sent a malformed answer", link->rank);
  if (rc == 0 && !*yield)
    rc = map_peer(ep, link, &message, fds);
  if (rc == 0 && !*yield) {
    link->socket = fcntl(socket, F_DUPFD_CLOEXEC, 0);
    rc = link->socket < 0 ? fail_errno(errno, "link to rank %d", link->rank) : 0;
    if (rc == 0)
      rc = confirm_and_install(ep, link);
    if (rc == 0)
      ep_neighbours_connected(ep, rank);
  }
  close_fds(fds);
  return rc;
}

// Everything is ready before the call, since the called rank disconnects callers that send nothing.
int ep_call_local(weft_ep_t *ep, int32_t rank, uint64_t incarnation, const struct sockaddr_un *to, socklen_t size,
                  uint64_t deadline_ns, bool *yield) {
  struct ep_link *link;
  int own[EP_FDS] = {[EP_FD_BELL] = ep->bell_fd, [EP_FD_ZERO_COPY] = ep->zero_copy.fd};
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return fail_errno(errno, "cannot call rank %d", rank);
  int rc = ep_link_new(ep, rank, incarnation, EP_ROUTE_MAPPED, &link, own);
  if (rc == 0) {
    rc = connect_until(ep, fd, to, size, link, deadline_ns);
    if (rc == 0)
      rc = check_called(fd, rank);
    if (rc == 0)
      rc = converse(ep, fd, link, own, deadline_ns, yield);
    else
      close_own(own);
    if (rc != 0 || *yield)
      ep_link_free(ep, link);
  }
  close(fd);
  return rc;
}

// --- answer ---

static void refuse(weft_ep_t *ep, int socket, uint64_t to, int error) {
  struct ep_handshake_message no = ep_handshake_message_make(ep, EP_REFUSED, to);
  no.error = error;
  snprintf(no.why, sizeof no.why, "%.*s", (int)sizeof no.why - 1, weft_last_error());
  send_message(ep, socket, &no, NULL);
}

static int accept_link(weft_ep_t *ep, int socket, const struct ep_handshake_message *hello, int fds[EP_FDS]) {
  struct ep_link *link;
  int own[EP_FDS] = {[EP_FD_BELL] = ep->bell_fd, [EP_FD_ZERO_COPY] = ep->zero_copy.fd};
  int rc = ep_link_new(ep, hello->rank, hello->incarnation, EP_ROUTE_MAPPED, &link, own);
  if (rc != 0)
    return rc;
  rc = map_peer(ep, link, hello, fds);
  if (rc == 0) {
    link->socket = socket;
    ep_confirm_expect(ep, link);
    rc = ep_link_install(ep, link);
    if (rc != 0)
      link->socket = -1;
  }
  if (rc != 0) {
    ep_link_free(ep, link);
  } else {
    struct ep_handshake_message welcome = ep_handshake_message_make(ep, EP_WELCOME, hello->incarnation);
    if (send_message(ep, socket, &welcome, own) == 0)
      ep_neighbours_connected(ep, hello->rank);
    else if (ep_death_watch_alive(link)) // it may call again: this is no death
      ep_link_down(ep, link, EP_LINK_DOUBTED, "it has given up its call");
  }
  close_own(own);
  return rc;
}

void ep_answer_local(weft_ep_t *ep, int socket) {
  struct ep_handshake_message hello = {0};
  int fds[EP_FDS] = EP_NO_FDS;
  bool taken = false;
  int rc = receive_message(ep, socket, &hello, fds);
  if (rc == 0 && (hello.kind != EP_HELLO || hello.to != ep->incarnation))
    rc = fail(WEFT_ERR_PROTOCOL, "rank %d calls another incarnation of this rank", hello.rank);
  if (rc == 0)
    rc = ep_check_incarnation(ep, hello.rank, hello.incarnation);
  if (rc == 0 && ep_answer_begin(ep, hello.rank, hello.incarnation)) {
    rc = accept_link(ep, socket, &hello, fds);
    taken = rc == 0;
    if (!taken)
      ep_answer_end(ep, hello.rank);
  } else if (rc == 0) {
    struct ep_handshake_message yield = ep_handshake_message_make(ep, EP_YIELD, hello.incarnation);
    send_message(ep, socket, &yield, NULL);
  }
  if (rc != 0) {
    log_info("rank %d refused a call: %s", ep->rank, weft_last_error());
    refuse(ep, socket, hello.incarnation, rc);
  }
  close_fds(fds);
  if (!taken)
    close(socket);
}
