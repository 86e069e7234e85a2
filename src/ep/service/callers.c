// Callers: from a connection to a link, or to its end.
#include "ep/service/callers.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/time/clock.h"
#include "ep/handshake/handshake.h"
#include "ep/handshake/peer_user.h"
#include "ep/link/tcp_listener.h"
#include "secure/lobby.h"

enum {
  HANDSHAKE_TIME_MS = 5000, // time for a caller to send its handshake message
  UNPROVED_BYTES = 16384,   // most bytes that a caller from another host may send before it has proved the key
  AT_ONCE = 32,             // calls that are accepted before other sockets are handled
  MUTE_MS = 100,            // time without polling the listeners when a call cannot be accepted
  STRANGERS_NS = 5000000,   // processor time that strangers may cost before the listener is muted
  MUTE_FACTOR = 3,          // the listener is muted for this many times the processor time that strangers have cost
  ACCEPT_NS = 5000,         // processor time counted for a call that is accepted and not answered
};

static struct listener *listener_of(struct callers *callers, bool tcp) {
  return tcp ? &callers->tcp : &callers->local;
}

static bool is_proved(const struct caller *caller) {
  return caller->tcp && caller->handshake.stage == EP_HANDSHAKE_PROVED;
}

static bool too_many(const struct callers *callers, bool tcp, bool proved) {
  int count = 0;
  for (int i = 0; i < callers->count; i++)
    count += callers->entry[i].tcp == tcp && is_proved(&callers->entry[i]) == proved;
  return count > (proved ? PROVED_CALLERS : tcp ? TCP_CALLERS : LOCAL_CALLERS);
}

// Polls a listener, or stops polling it: calls that cannot be accepted yet would wake the thread at once, again and
// again. They wait in the listener's queue.
static void watch_listener(struct ep_links *links, const struct callers *callers, bool tcp) {
  bool look = (tcp ? callers->tcp : callers->local).muted_until_ns == 0;
  int listener = tcp ? lobby_fd(links->tcp_lobby) : links->listener;
  struct epoll_event event = {.events = look ? EPOLLIN : 0, .data.u64 = tcp ? TAG_TCP_LISTENER : TAG_LISTENER};
  if (listener >= 0)
    epoll_ctl(links->epoll, EPOLL_CTL_MOD, listener, &event);
}

static void mute(struct ep_links *links, struct callers *callers, bool tcp, uint64_t ns) {
  listener_of(callers, tcp)->muted_until_ns = clock_ns() + ns;
  listener_of(callers, tcp)->strangers_ns = 0;
  watch_listener(links, callers, tcp);
}

static uint64_t processor_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// Counts `ns` of processor time that a stranger has used. All strangers together get only a part of one processor's
// time, and calls of ranks wait behind theirs no longer than for that part. Not every case is logged, since strangers
// decide how often it happens.
static void count_stranger(weft_ep_t *ep, struct callers *callers, bool tcp, uint64_t ns, const char *why) {
  struct listener *listener = listener_of(callers, tcp);
  uint64_t so_far = ++callers->strangers;
  listener->strangers_ns += ns;
  if ((so_far & (so_far - 1)) == 0)
    log_info("rank %d has refused %llu callers; the reason of the last refusal: %s", ep->rank,
             (unsigned long long)so_far, why);
  if (listener->strangers_ns > STRANGERS_NS && listener->muted_until_ns == 0)
    mute(&ep->links, callers, tcp, MUTE_FACTOR * listener->strangers_ns);
}

// Removes the caller from the list without ending it.
static struct caller drop_caller(struct callers *callers, int i) {
  struct caller caller = callers->entry[i];
  callers->entry[i] = callers->entry[--callers->count];
  return caller;
}

static void hang_up(weft_ep_t *ep, struct callers *callers, int i, const char *why) {
  struct caller caller = drop_caller(callers, i);
  epoll_ctl(ep->links.epoll, EPOLL_CTL_DEL, caller.socket, NULL); // a forked child may hold the socket open
  if (caller.tcp && caller.handshake.stage != EP_HANDSHAKE_ENDS && !is_proved(&caller))
    count_stranger(ep, callers, true, caller.spent_ns, why);
  if (caller.tcp)
    ep_handshake_end(&caller.handshake);
  else
    close(caller.socket);
}

// Whether the process that has connected may have a place: on this host, only processes of this user.
static bool may_call(weft_ep_t *ep, struct callers *callers, int socket, bool tcp) {
  if (tcp)
    return ep_endpoint_is_ours(socket, ep->links.endpoints);
  uint64_t before_ns = processor_ns();
  if (ep_user_check(socket) == 0)
    return true;
  count_stranger(ep, callers, false, processor_ns() - before_ns + ACCEPT_NS, weft_last_error());
  return false;
}

// Accepts a call from this host and returns its socket; -1: no call can be accepted now.
static int accept_local(weft_ep_t *ep, struct callers *callers) {
  int socket;
  do
    socket = accept4(ep->links.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  while (socket < 0 && (errno == ECONNABORTED || errno == EINTR));
  if (socket < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
    log_warn("rank %d cannot accept a connection now: %s%s", ep->rank, strerror(errno),
             errno == EMFILE ? " (see ulimit -n)" : "");
    mute(&ep->links, callers, false, (uint64_t)MUTE_MS * 1000000);
  }
  return socket;
}

static int accept_tcp(weft_ep_t *ep) {
  struct lobby_caller caller;
  return lobby_next(ep->links.tcp_lobby, &caller) ? caller.fd : -1;
}

// Accepts one call. False: no call can be accepted now.
static bool take_call(weft_ep_t *ep, struct callers *callers, bool tcp) {
  if (listener_of(callers, tcp)->muted_until_ns != 0)
    return false;
  int socket = tcp ? accept_tcp(ep) : accept_local(ep, callers);
  if (socket < 0)
    return false;
  if (!may_call(ep, callers, socket, tcp) ||
      ep_service_watch_socket(ep, socket, ((uint64_t)socket << EP_TAG_BITS) | TAG_CALLER) != 0) {
    close(socket);
    return true;
  }
  struct caller *caller = &callers->entry[callers->count++];
  *caller = (struct caller){.socket = socket, .tcp = tcp, .deadline_ns = clock_deadline_ms(HANDSHAKE_TIME_MS)};
  if (tcp)
    ep_handshake_begin(&caller->handshake, socket);
  return true;
}

static int find_caller(const struct callers *callers, int socket) {
  for (int i = 0; i < callers->count; i++)
    if (callers->entry[i].socket == socket)
      return i;
  return -1;
}

static uint64_t received_bytes(int socket) {
  struct tcp_info info = {0}; // fields that the kernel does not fill stay 0
  socklen_t size = sizeof info;
  return getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? info.tcpi_bytes_received : 0;
}

static void make_room(weft_ep_t *ep, struct callers *callers, bool tcp, bool proved);

static void receive_tcp(weft_ep_t *ep, struct callers *callers, int i) {
  struct caller *caller = &callers->entry[i];
  bool was_proved = is_proved(caller);
  uint64_t before_ns = processor_ns();
  int rc = ep_answer_tcp(ep, &caller->handshake);
  caller->spent_ns += processor_ns() - before_ns;
  if (rc == 0) // the socket belongs to a link now, and is watched for it
    drop_caller(callers, i);
  else if (rc < 0)
    hang_up(ep, callers, i, weft_last_error());
  else if (rc == TLS_WANTS_WRITE)
    hang_up(ep, callers, i, "a caller does not accept an answer");
  else if (caller->handshake.stage < EP_HANDSHAKE_PROVED && received_bytes(caller->socket) > UNPROVED_BYTES)
    hang_up(ep, callers, i, "a caller sent too much data before it authenticated");
  else if (is_proved(caller) && !was_proved)
    make_room(ep, callers, true, true);
}

void ep_callers_receive(weft_ep_t *ep, struct callers *callers, int socket) {
  int i = find_caller(callers, socket);
  if (i < 0)
    return;
  if (callers->entry[i].tcp) {
    receive_tcp(ep, callers, i);
    return;
  }
  drop_caller(callers, i);
  epoll_ctl(ep->links.epoll, EPOLL_CTL_DEL, socket, NULL);
  ep_answer_local(ep, socket);
}

// Finds the caller whose handshake is at the earliest stage; among several, the one that connected first.
static struct caller *find_least(struct callers *callers, bool tcp, bool proved) {
  struct caller *least = NULL;
  for (int i = 0; i < callers->count; i++) {
    struct caller *caller = &callers->entry[i];
    if (caller->tcp != tcp || is_proved(caller) != proved)
      continue;
    if (!least || caller->handshake.stage < least->handshake.stage ||
        (caller->handshake.stage == least->handshake.stage && caller->deadline_ns < least->deadline_ns))
      least = caller;
  }
  return least;
}

// Hangs up on callers until there is room: a caller that sends nothing, or whose messages make no progress, must not
// keep others out. Data that has arrived meanwhile is received first. (A rank that was disconnected calls again, and
// has everything ready to send when it calls.)
static void make_room(weft_ep_t *ep, struct callers *callers, bool tcp, bool proved) {
  while (too_many(callers, tcp, proved)) {
    struct caller *least = find_least(callers, tcp, proved);
    struct pollfd said = {.fd = least->socket, .events = POLLIN};
    enum ep_handshake_stage before = least->handshake.stage;
    if (before != EP_HANDSHAKE_ENDS && !proved && poll(&said, 1, 0) > 0)
      ep_callers_receive(ep, callers, said.fd);
    int i = find_caller(callers, said.fd);
    if (i >= 0 && callers->entry[i].handshake.stage == before)
      hang_up(ep, callers, i, "a caller did not continue its handshake, and others connected");
  }
}

void ep_callers_accept(weft_ep_t *ep, struct callers *callers, bool tcp) {
  for (int i = 0; i < AT_ONCE && take_call(ep, callers, tcp); i++)
    make_room(ep, callers, tcp, false);
}

// Ends the mutes that are over; returns the milliseconds to the end of the next one; -1: none.
static int end_mutes(struct ep_links *links, struct callers *callers) {
  int next = -1;
  for (int tcp = 0; tcp <= 1; tcp++) {
    struct listener *listener = listener_of(callers, tcp);
    if (listener->muted_until_ns == 0)
      continue;
    int left = clock_left_ms(listener->muted_until_ns);
    if (left == 0) {
      listener->muted_until_ns = 0;
      watch_listener(links, callers, tcp);
    } else if (next < 0 || left < next) {
      next = left;
    }
  }
  return next;
}

int ep_callers_expire(weft_ep_t *ep, struct callers *callers) {
  int next = end_mutes(&ep->links, callers);
  for (int i = callers->count - 1; i >= 0; i--) {
    int left = clock_left_ms(callers->entry[i].deadline_ns);
    if (left == 0)
      hang_up(ep, callers, i, "a caller sent no handshake message in time");
    else if (next < 0 || left < next)
      next = left;
  }
  return next;
}

void ep_callers_end(weft_ep_t *ep, struct callers *callers) {
  while (callers->count > 0)
    hang_up(ep, callers, 0, "this rank is closing");
}
