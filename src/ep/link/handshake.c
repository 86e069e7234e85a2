// The handshake of a link: dial and answer.
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
#include "ep/gpu/gpu.h"
#include "ep/link/handshake_wire.h"
#include "ep/link/peer_user.h"
#include "ep/remote/remote_link.h"

#define NAME_BEGIN "weft-"

enum { NAME_SIZE = 5 + 16 };

// A peer that closes with a call of ours in its queue, or unread, resets the connection.
static int fail_socket(int error, const char *what) {
  if (error == ECONNRESET || error == EPIPE)
    return fail(WEFT_ERR_PEER_LOST, "%s: the peer hung up", what);
  return fail_errno(error, "%s", what);
}

// How many descriptors a greeting with windows brings.
static uint32_t num_fds(const weft_ep_t *ep) {
  return ep->gpu ? EP_FDS : EP_FD_DEVICE;
}

// Sends one packet, with descriptors if `fds` is not NULL.
static int send_greeting(weft_ep_t *ep, int socket, const struct ep_greeting *greeting, const int *fds) {
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(EP_FDS * sizeof(int))];
  } control = {0};
  struct iovec data = {.iov_base = (void *)greeting, .iov_len = sizeof *greeting};
  struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
  if (fds) {
    size_t size = num_fds(ep) * sizeof *fds;
    message.msg_control = control.bytes;
    message.msg_controllen = CMSG_SPACE(size);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(header), fds, size);
  }
  if (sendmsg(socket, &message, MSG_NOSIGNAL) < 0)
    return fail_socket(errno, "cannot send a greeting");
  return 0;
}

// Takes what descriptors a message brought, of which the first EP_FDS come into fds and others are closed. Returns how
// many there were.
static uint32_t take_fds(struct msghdr *message, int fds[EP_FDS]) {
  uint32_t count = 0;
  for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
      continue;
    size_t got = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < got; i++, count++) {
      int fd;
      memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      if (count < EP_FDS)
        fds[count] = fd;
      else
        close(fd);
    }
  }
  return count;
}

// A greeting that is right brings its windows, and nothing else. `cut`: there were more than could be taken.
static int check_fds(const weft_ep_t *ep, const struct ep_greeting *greeting, uint32_t count, bool cut) {
  bool windows = greeting->kind == EP_HELLO || greeting->kind == EP_WELCOME;
  uint32_t wanted = windows ? num_fds(ep) : 0;
  if (cut && count < wanted)
    return fail_errno(EMFILE, "cannot take the windows of rank %d", greeting->rank);
  if (windows && count < wanted)
    return fail(WEFT_ERR_PROTOCOL, "a greeting of rank %d came without its windows", greeting->rank);
  if (cut || count != wanted)
    return fail(WEFT_ERR_PROTOCOL, "a greeting of rank %d came with more descriptors than the %u that it needs",
                greeting->rank, wanted);
  return 0;
}

// Receives the packet that is there. fds are -1 where none came.
static int receive_greeting(weft_ep_t *ep, int socket, struct ep_greeting *greeting, int fds[EP_FDS]) {
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(4 * EP_FDS * sizeof(int))];
  } control;
  struct iovec data = {.iov_base = greeting, .iov_len = sizeof *greeting};
  struct msghdr message = {
      .msg_iov = &data, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
  for (int i = 0; i < EP_FDS; i++)
    fds[i] = -1;
  ssize_t size = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0)
    return fail_socket(errno, "cannot receive a greeting");
  if (size == 0)
    return fail(WEFT_ERR_PEER_LOST, "the peer hung up");
  uint32_t count = take_fds(&message, fds);
  int rc = ep_greeting_check(ep, greeting, (size_t)size);
  return rc == 0 ? check_fds(ep, greeting, count, message.msg_flags & MSG_CTRUNC) : rc;
}

static void close_fds(int fds[EP_FDS]) {
  for (int i = 0; i < EP_FDS; i++)
    if (fds[i] >= 0)
      close(fds[i]);
}

static int map_peer(weft_ep_t *ep, struct ep_link *link, const struct ep_greeting *greeting, int fds[EP_FDS]) {
  int rc = ep_window_map(&link->bell, EP_DOORBELL_SIZE, fds[EP_FD_BELL]);
  if (rc == 0)
    rc = ep_window_map(&link->out, ep->layout.area, fds[EP_FD_AREA]);
  if (rc == 0 && ep->gpu)
    rc = ep_gpu_link_map(ep, link, fds[EP_FD_DEVICE], greeting->device);
  return rc;
}

// This rank's own, of a new link; the doorbell's stays.
static void close_own(const int fds[EP_FDS]) {
  for (int i = EP_FD_AREA; i < EP_FDS; i++)
    if (fds[i] >= 0)
      close(fds[i]);
}

// --- dial ---

// The name of a listener: NAME_SIZE characters, as listener.c makes it.
static bool is_name(const char *name) {
  return strncmp(name, NAME_BEGIN, strlen(NAME_BEGIN)) == 0 && strlen(name) == NAME_SIZE &&
         strspn(name + strlen(NAME_BEGIN), "0123456789abcdef") == NAME_SIZE - strlen(NAME_BEGIN);
}

// `*far`: what the claim says for callers on other hosts; NULL: it is this host's.
static int split_address(const weft_ep_t *ep, int32_t rank, const char *address, struct sockaddr_un *to,
                         socklen_t *size, const char **far) {
  char host[EP_HOST_SIZE], name[64], here[EP_HOST_SIZE];
  int end = 0;
  if (sscanf(address, "%159s %63s%n", host, name, &end) != 2)
    return fail(WEFT_ERR_PROTOCOL, "rank %d has an address that is none", rank);
  if (sscanf(ep->links.address, "%159s", here) != 1)
    return fail(WEFT_ERR_PROTOCOL, "this rank has no address");
  *far = strcmp(host, here) != 0 ? address + end : NULL;
  if (!*far && !is_name(name))
    return fail(WEFT_ERR_PROTOCOL, "rank %d has an address that is none", rank);
  *to = (struct sockaddr_un){.sun_family = AF_UNIX};
  memcpy(to->sun_path + 1, name, strlen(name)); // abstract: a NUL first, no file
  *size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
  return 0;
}

// Waits in the kernel's queue while the peer has many callers: those who only look whether there is room would be
// passed by those who wait.
static int connect_until(int socket, const struct sockaddr_un *to, socklen_t size, int32_t rank, uint64_t deadline_ns) {
  for (;;) {
    uint64_t left_us = clock_left_ns(deadline_ns) / 1000 + 1; // 0 would be without end
    struct timeval left = {.tv_sec = (time_t)(left_us / 1000000), .tv_usec = (suseconds_t)(left_us % 1000000)};
    if (setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &left, sizeof left) != 0)
      return fail_errno(errno, "cannot connect to rank %d", rank);
    if (connect(socket, (const struct sockaddr *)to, size) == 0)
      return 0;
    if (errno != EAGAIN && errno != EINTR)
      return errno == ECONNREFUSED ? fail(WEFT_ERR_PEER_LOST, "rank %d does not listen: its process has gone", rank)
                                   : fail_errno(errno, "cannot connect to rank %d", rank);
    if (clock_passed(deadline_ns))
      return fail(WEFT_ERR_TIMEOUT, "rank %d did not take the call by the deadline", rank);
  }
}

// Whoever comes first gets a name that the kernel has given back: another user's process is not the rank, which has
// gone.
static int check_called(int socket, int32_t rank) {
  if (ep_user_check(socket) == 0)
    return fcntl(socket, F_SETFL, O_NONBLOCK) == 0 ? 0 : fail_errno(errno, "cannot call rank %d", rank);
  return fail_context(WEFT_ERR_PEER_LOST, "rank %d does not listen, and another has its socket's name", rank);
}

int ep_await_answer(int socket, short events, int32_t rank, uint64_t deadline_ns) {
  struct pollfd entry = {.fd = socket, .events = events};
  for (;;) {
    int n = poll(&entry, 1, clock_left_ms(deadline_ns));
    if (n > 0)
      return 0;
    if (n < 0 && errno != EINTR)
      return fail_errno(errno, "waiting for rank %d's answer", rank);
    if (n == 0 && clock_passed(deadline_ns))
      return fail(WEFT_ERR_TIMEOUT, "rank %d did not answer the call by the deadline", rank);
  }
}

// Says hello on a connected socket, and makes the link one of the answer. Closes this rank's own descriptors of it.
// `*yield`: the peer's call stands instead.
static int converse(weft_ep_t *ep, int socket, struct ep_link *link, const int own[EP_FDS], uint64_t deadline_ns,
                    bool *yield) {
  int fds[EP_FDS] = {-1, -1, -1};
  struct ep_greeting greeting = ep_greeting_make(ep, EP_HELLO, link->incarnation);
  int rc = send_greeting(ep, socket, &greeting, own);
  close_own(own);
  if (rc == 0)
    rc = ep_await_answer(socket, POLLIN, link->rank, deadline_ns);
  if (rc == 0)
    rc = receive_greeting(ep, socket, &greeting, fds);
  if (rc == 0 && greeting.kind == EP_REFUSED)
    rc = fail(greeting.error < 0 ? greeting.error : WEFT_ERR_PROTOCOL, "rank %d refused: %s", link->rank, greeting.why);
  *yield = rc == 0 && greeting.kind == EP_YIELD;
  if (rc == 0 && !*yield && (greeting.kind != EP_WELCOME || greeting.incarnation != link->incarnation))
    rc = fail(WEFT_ERR_PROTOCOL, "rank %d gave an answer that is none", link->rank);
  if (rc == 0 && !*yield)
    rc = map_peer(ep, link, &greeting, fds);
  if (rc == 0 && !*yield) {
    link->socket = fcntl(socket, F_DUPFD_CLOEXEC, 0);
    rc = link->socket < 0 ? fail_errno(errno, "link to rank %d", link->rank) : ep_link_install(ep, link);
  }
  close_fds(fds);
  return rc;
}

// All is ready before the call: who is called cuts off callers that say nothing.
static int call_near(weft_ep_t *ep, int32_t rank, uint64_t incarnation, const struct sockaddr_un *to, socklen_t size,
                     uint64_t deadline_ns, bool *yield) {
  struct ep_link *link;
  int own[EP_FDS] = {ep->bell_fd};
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return fail_errno(errno, "cannot call rank %d", rank);
  int rc = ep_link_new(ep, rank, incarnation, EP_ROUTE_NEAR, &link, own);
  if (rc == 0) {
    rc = connect_until(fd, to, size, rank, deadline_ns);
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

static int call(weft_ep_t *ep, int32_t rank, uint64_t incarnation, const char *address, uint64_t deadline_ns,
                bool *yield) {
  struct sockaddr_un to;
  socklen_t size = 0;
  const char *far = NULL;
  int rc = split_address(ep, rank, address, &to, &size, &far);
  if (rc != 0)
    return rc;
  return far ? ep_far_call(ep, rank, incarnation, far, deadline_ns, yield)
             : call_near(ep, rank, incarnation, &to, size, deadline_ns, yield);
}

// Waits while the other's call is expected, until its link is there. True: it is; false: calling is up to us.
static bool wait_for_theirs(weft_ep_t *ep, int32_t rank, uint64_t incarnation, uint64_t deadline_ns, bool yielded,
                            int *rc) {
  struct ep_links *links = &ep->links;
  struct timespec until = clock_timespec(deadline_ns);
  *rc = 0;
  while (!ep_link_find(ep, rank, incarnation)) {
    if (!yielded && links->answering[rank] != incarnation)
      return false;
    if (pthread_cond_timedwait(&links->changed, &links->lock, &until) == ETIMEDOUT) {
      *rc = fail(WEFT_ERR_TIMEOUT, "rank %d began to connect to this rank, and did not end by the deadline", rank);
      return true;
    }
  }
  return true;
}

int ep_dial(weft_ep_t *ep, int32_t rank, uint64_t incarnation, const char *address, uint64_t deadline_ns) {
  struct ep_links *links = &ep->links;
  int rc;
  pthread_mutex_lock(&links->lock);
  bool theirs = wait_for_theirs(ep, rank, incarnation, deadline_ns, false, &rc);
  if (!theirs)
    links->dialling[rank] = incarnation;
  pthread_mutex_unlock(&links->lock);
  if (theirs)
    return rc;
  bool yield = false;
  rc = call(ep, rank, incarnation, address, deadline_ns, &yield);
  pthread_mutex_lock(&links->lock);
  links->dialling[rank] = 0;
  if (rc == 0 && yield)
    wait_for_theirs(ep, rank, incarnation, deadline_ns, true, &rc);
  pthread_mutex_unlock(&links->lock);
  if (rc != 0)
    ep_views_update_ready(ep);
  return rc;
}

// --- answer ---

static void refuse(weft_ep_t *ep, int socket, uint64_t to, int error) {
  struct ep_greeting no = ep_greeting_make(ep, EP_REFUSED, to);
  no.error = error;
  snprintf(no.why, sizeof no.why, "%.*s", (int)sizeof no.why - 1, weft_last_error());
  send_greeting(ep, socket, &no, NULL);
}

// A caller that has let go of its last link, or failed to make it, may be faster than the news of that.
static void end_last_link(weft_ep_t *ep, int32_t rank, uint64_t incarnation) {
  struct ep_link *link = ep_link_find(ep, rank, incarnation);
  if (!link)
    return;
  if (link->remote)
    ep_remote_listen(link);
  struct pollfd hang_up = {.fd = link->socket, .events = POLLRDHUP};
  if (atomic_load(&ep_link_in(link)->notice.left) || poll(&hang_up, 1, 0) > 0)
    ep_link_down(ep, link, EP_LINK_LEFT, "it calls again");
}

bool ep_answer_begin(weft_ep_t *ep, int32_t rank, uint64_t incarnation) {
  struct ep_links *links = &ep->links;
  end_last_link(ep, rank, incarnation);
  pthread_mutex_lock(&links->lock);
  bool ours_stands = links->dialling[rank] == incarnation && ep->rank < rank;
  bool theirs_stands = !ours_stands && !ep_link_find(ep, rank, incarnation);
  if (theirs_stands)
    links->answering[rank] = incarnation;
  pthread_mutex_unlock(&links->lock);
  return theirs_stands;
}

void ep_answer_end(weft_ep_t *ep, int32_t rank) {
  struct ep_links *links = &ep->links;
  pthread_mutex_lock(&links->lock);
  links->answering[rank] = 0;
  pthread_cond_broadcast(&links->changed);
  pthread_mutex_unlock(&links->lock);
  if (!ep_link_find(ep, rank, 0))
    ep_views_update_ready(ep);
}

static int accept_link(weft_ep_t *ep, int socket, const struct ep_greeting *hello, int fds[EP_FDS]) {
  struct ep_link *link;
  int own[EP_FDS] = {ep->bell_fd};
  int rc = ep_link_new(ep, hello->rank, hello->incarnation, EP_ROUTE_NEAR, &link, own);
  if (rc != 0)
    return rc;
  rc = map_peer(ep, link, hello, fds);
  if (rc == 0) {
    link->socket = socket;
    rc = ep_link_install(ep, link);
    if (rc != 0)
      link->socket = -1;
  }
  if (rc != 0) {
    ep_link_free(ep, link);
  } else {
    // If this fails the caller has gone, and the socket's hang-up takes the link down.
    struct ep_greeting welcome = ep_greeting_make(ep, EP_WELCOME, hello->incarnation);
    send_greeting(ep, socket, &welcome, own);
  }
  close_own(own);
  return rc;
}

void ep_answer(weft_ep_t *ep, int socket) {
  struct ep_greeting hello = {0};
  int fds[EP_FDS] = {-1, -1, -1};
  bool taken = false;
  int rc = receive_greeting(ep, socket, &hello, fds);
  if (rc == 0 && (hello.kind != EP_HELLO || hello.to != ep->incarnation))
    rc = fail(WEFT_ERR_PROTOCOL, "rank %d calls an incarnation that this rank is not", hello.rank);
  if (rc == 0 && ep_answer_begin(ep, hello.rank, hello.incarnation)) {
    rc = accept_link(ep, socket, &hello, fds);
    taken = rc == 0;
    ep_answer_end(ep, hello.rank);
  } else if (rc == 0) {
    struct ep_greeting yield = ep_greeting_make(ep, EP_YIELD, hello.incarnation);
    send_greeting(ep, socket, &yield, NULL);
  }
  if (rc != 0) {
    log_info("rank %d refused a call: %s", ep->rank, weft_last_error());
    refuse(ep, socket, hello.incarnation, rc);
  }
  close_fds(fds);
  if (!taken)
    close(socket);
}
