// The service thread: takes calls, hears hang-ups, frees retired links. It never waits for one peer.
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/log.h"
#include "base/time/clock.h"
#include "ep/link/peer_user.h"
#include "ep/link/tcp_listener.h"
#include "ep/remote/handshake_steps.h"
#include "ep/remote/remote_link.h"
#include "secure/lobby.h"

enum {
  NEAR_CALLERS = 64,   // of this host that have connected and not yet greeted: a new one has the oldest cut off
  FAR_CALLERS = 64,    // from other hosts: that have spoken (secure/lobby.h), until they have proved to know the claim
  PROVED_CALLERS = 32, // and from then on
  GREETING_TIME_MS = 5000, // for them to do so
  UNPROVED_BYTES = 16384,  // that a caller from another host may send before it has proved anything
  AT_ONCE = 32,            // calls that are taken before others are heard
  HANG_UP_MS = 20,         // of a peer whose transport says that it has gone
  MUTE_MS = 100,           // without a look at the listeners, when a call cannot be taken
  WASTE_NS = 5000000,      // processor time that strangers may cost before nobody looks at their listener for
  WASTE_MUTES = 3,         // so many times as long
  TAKING_NS = 5000,        // of that time, for a call that is taken and not answered
  TAG_LISTENER = 1,        // epoll data: a tag, or a link's address (aligned: its low bits are 0)
  TAG_WAKE = 2,
  TAG_CALLER = 3, // and the socket above it
  TAG_FAR_LISTENER = 4,
  TAG_BITS = 3,
};

struct caller {
  int socket;
  bool far;
  uint64_t deadline_ns;
  uint64_t spent_ns;   // processor time, so far
  struct ep_talk talk; // far
};

// A listener, or the lobby of the one for other hosts, and those that it has brought.
struct door {
  uint64_t muted_until_ns; // 0: it is looked at
  uint64_t wasted_ns;      // on those that proved to be strangers, since the last mute
};

struct callers {
  // One too many of those that have just come, or proved what they know, until another is cut off.
  struct caller entry[NEAR_CALLERS + FAR_CALLERS + PROVED_CALLERS + 2];
  int count;
  struct door near, far;
  uint64_t strangers; // so far
};

static struct door *door_of(struct callers *callers, bool far) {
  return far ? &callers->far : &callers->near;
}

static int add(int epoll, int fd, uint64_t tag) {
  struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.u64 = tag};
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0 && // a caller that becomes a link is watched already
      (errno != EEXIST || epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event) != 0))
    return fail_errno(errno, "cannot watch a socket");
  return 0;
}

static bool is_proved(const struct caller *caller) {
  return caller->far && caller->talk.stage == EP_TALK_PROVED;
}

static bool too_many(const struct callers *callers, bool far, bool proved) {
  int count = 0;
  for (int i = 0; i < callers->count; i++)
    count += callers->entry[i].far == far && is_proved(&callers->entry[i]) == proved;
  return count > (proved ? PROVED_CALLERS : far ? FAR_CALLERS : NEAR_CALLERS);
}

// Looks at a listener, or not: calls that it cannot take yet would wake the thread at once, again and again. They wait
// in the listener's queue.
static void look_at_listener(struct ep_links *links, const struct callers *callers, bool far) {
  bool look = (far ? callers->far : callers->near).muted_until_ns == 0;
  int listener = far ? lobby_fd(links->far_lobby) : links->listener;
  struct epoll_event event = {.events = look ? EPOLLIN : 0, .data.u64 = far ? TAG_FAR_LISTENER : TAG_LISTENER};
  if (listener >= 0)
    epoll_ctl(links->epoll, EPOLL_CTL_MOD, listener, &event);
}

static void mute(struct ep_links *links, struct callers *callers, bool far, uint64_t ns) {
  door_of(callers, far)->muted_until_ns = clock_ns() + ns;
  door_of(callers, far)->wasted_ns = 0;
  look_at_listener(links, callers, far);
}

static uint64_t processor_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// A stranger has cost `ns`. What all of them cost together is a part of one processor's time, and the ranks' own calls
// wait behind theirs no longer than that takes. Told now and then only: strangers decide how often it happens.
static void waste(weft_ep_t *ep, struct callers *callers, bool far, uint64_t ns, const char *why) {
  struct door *door = door_of(callers, far);
  uint64_t so_far = ++callers->strangers;
  door->wasted_ns += ns;
  if ((so_far & (so_far - 1)) == 0)
    log_info("rank %d has refused %llu callers; the last: %s", ep->rank, (unsigned long long)so_far, why);
  if (door->wasted_ns > WASTE_NS && door->muted_until_ns == 0)
    mute(&ep->links, callers, far, WASTE_MUTES * door->wasted_ns);
}

int ep_service_watch(weft_ep_t *ep, struct ep_link *link) {
  return add(ep->links.epoll, link->socket, (uint64_t)(uintptr_t)link);
}

void ep_service_kick(weft_ep_t *ep) {
  uint64_t one = 1;
  ssize_t written = write(ep->links.wake, &one, sizeof one); // full means kicked already
  (void)written;
}

// Takes it out of the list, and leaves it as it is.
static struct caller drop_caller(struct callers *callers, int i) {
  struct caller caller = callers->entry[i];
  callers->entry[i] = callers->entry[--callers->count];
  return caller;
}

static void hang_up(weft_ep_t *ep, struct callers *callers, int i, const char *why) {
  struct caller caller = drop_caller(callers, i);
  epoll_ctl(ep->links.epoll, EPOLL_CTL_DEL, caller.socket, NULL); // a child may hold it open
  if (caller.far && caller.talk.stage != EP_TALK_ENDS && !is_proved(&caller))
    waste(ep, callers, true, caller.spent_ns, why);
  if (caller.far)
    ep_talk_end(&caller.talk);
  else
    close(caller.socket);
}

// Whether whoever has connected may take a place: on this host, this user's processes.
static bool may_call(weft_ep_t *ep, struct callers *callers, int socket, bool far) {
  if (far)
    return ep_endpoint_is_ours(socket, ep->links.endpoints);
  uint64_t before_ns = processor_ns();
  if (ep_user_check(socket) == 0)
    return true;
  waste(ep, callers, false, processor_ns() - before_ns + TAKING_NS, weft_last_error());
  return false;
}

// The socket of a call of this host; -1: not now.
static int accept_near(weft_ep_t *ep, struct callers *callers) {
  int socket;
  do
    socket = accept4(ep->links.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  while (socket < 0 && (errno == ECONNABORTED || errno == EINTR));
  if (socket < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
    log_warn("rank %d cannot take a call now: %s%s", ep->rank, strerror(errno),
             errno == EMFILE ? " (see ulimit -n)" : "");
    mute(&ep->links, callers, false, (uint64_t)MUTE_MS * 1000000);
  }
  return socket;
}

static int accept_far(weft_ep_t *ep) {
  struct lobby_caller caller;
  return lobby_next(ep->links.far_lobby, &caller) ? caller.fd : -1;
}

// False: not now.
static bool take_call(weft_ep_t *ep, struct callers *callers, bool far) {
  if (door_of(callers, far)->muted_until_ns != 0)
    return false;
  int socket = far ? accept_far(ep) : accept_near(ep, callers);
  if (socket < 0)
    return false;
  if (!may_call(ep, callers, socket, far) ||
      add(ep->links.epoll, socket, ((uint64_t)socket << TAG_BITS) | TAG_CALLER) != 0) {
    close(socket);
    return true;
  }
  struct caller *caller = &callers->entry[callers->count++];
  *caller = (struct caller){.socket = socket, .far = far, .deadline_ns = clock_deadline_ms(GREETING_TIME_MS)};
  if (far)
    ep_talk_begin(&caller->talk, socket);
  return true;
}

static int find_caller(const struct callers *callers, int socket) {
  for (int i = 0; i < callers->count; i++)
    if (callers->entry[i].socket == socket)
      return i;
  return -1;
}

static uint64_t received_bytes(int socket) {
  struct tcp_info info = {0}; // not every kernel tells all: what is not told is 0
  socklen_t size = sizeof info;
  return getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? info.tcpi_bytes_received : 0;
}

static void make_room(weft_ep_t *ep, struct callers *callers, bool far, bool proved);

static void hear_far(weft_ep_t *ep, struct callers *callers, int i) {
  struct caller *caller = &callers->entry[i];
  bool was_proved = is_proved(caller);
  uint64_t before_ns = processor_ns();
  int rc = ep_far_answer(ep, &caller->talk);
  caller->spent_ns += processor_ns() - before_ns;
  if (rc == 0) // the socket is a link's, and watched as such
    drop_caller(callers, i);
  else if (rc < 0)
    hang_up(ep, callers, i, weft_last_error());
  else if (rc == TLS_WANTS_WRITE)
    hang_up(ep, callers, i, "a caller takes no answer");
  else if (caller->talk.stage < EP_TALK_PROVED && received_bytes(caller->socket) > UNPROVED_BYTES)
    hang_up(ep, callers, i, "a caller has said much, and proved nothing");
  else if (is_proved(caller) && !was_proved)
    make_room(ep, callers, true, true);
}

static void hear_caller(weft_ep_t *ep, struct callers *callers, int socket) {
  int i = find_caller(callers, socket);
  if (i < 0)
    return;
  if (callers->entry[i].far) {
    hear_far(ep, callers, i);
    return;
  }
  drop_caller(callers, i);
  epoll_ctl(ep->links.epoll, EPOLL_CTL_DEL, socket, NULL);
  ep_answer(ep, socket);
}

// Who has come least far, and of those the one that came first.
static struct caller *find_least(struct callers *callers, bool far, bool proved) {
  struct caller *least = NULL;
  for (int i = 0; i < callers->count; i++) {
    struct caller *caller = &callers->entry[i];
    if (caller->far != far || is_proved(caller) != proved)
      continue;
    if (!least || caller->talk.stage < least->talk.stage ||
        (caller->talk.stage == least->talk.stage && caller->deadline_ns < least->deadline_ns))
      least = caller;
  }
  return least;
}

// Who says nothing keeps nobody out, nor does who says what does not get it on. What has been said since the thread
// looked is heard before. (A rank that was cut off calls again, and has all ready to say when it calls.)
static void make_room(weft_ep_t *ep, struct callers *callers, bool far, bool proved) {
  while (too_many(callers, far, proved)) {
    struct caller *least = find_least(callers, far, proved);
    struct pollfd said = {.fd = least->socket, .events = POLLIN};
    enum ep_talk_stage before = least->talk.stage;
    if (before != EP_TALK_ENDS && !proved && poll(&said, 1, 0) > 0)
      hear_caller(ep, callers, said.fd);
    int i = find_caller(callers, said.fd);
    if (i >= 0 && callers->entry[i].talk.stage == before)
      hang_up(ep, callers, i, "a caller did not go on, and others came");
  }
}

static void take_calls(weft_ep_t *ep, struct callers *callers, bool far) {
  for (int i = 0; i < AT_ONCE && take_call(ep, callers, far); i++)
    make_room(ep, callers, far, false);
}

// Ends the mutes that are over; the milliseconds to the end of the next, -1 for none.
static int end_mutes(struct ep_links *links, struct callers *callers) {
  int next = -1;
  for (int far = 0; far <= 1; far++) {
    struct door *door = door_of(callers, far);
    if (door->muted_until_ns == 0)
      continue;
    int left = clock_left_ms(door->muted_until_ns);
    if (left == 0) {
      door->muted_until_ns = 0;
      look_at_listener(links, callers, far);
    } else if (next < 0 || left < next) {
      next = left;
    }
  }
  return next;
}

// Ends with callers that do not greet in time, ends mutes; returns the milliseconds to the next such deadline, -1 for
// none.
static int expire(weft_ep_t *ep, struct callers *callers) {
  int next = end_mutes(&ep->links, callers);
  for (int i = callers->count - 1; i >= 0; i--) {
    int left = clock_left_ms(callers->entry[i].deadline_ns);
    if (left == 0)
      hang_up(ep, callers, i, "a caller did not greet in time");
    else if (next < 0 || left < next)
      next = left;
  }
  return next;
}

// The link's peer has gone in some way, of which `state` and `how` tell; but what it said before counts.
static void put_down(weft_ep_t *ep, struct ep_link *link, enum ep_link_state state, const char *how) {
  if (ep_link_takes_us_for_lost(link))
    ep_link_down(ep, link, EP_LINK_DOUBTED, "it takes this rank for lost");
  else if (atomic_load(&ep_link_in(link)->notice.left))
    ep_link_down(ep, link, EP_LINK_LEFT, "it left");
  else
    ep_link_down(ep, link, state, how);
}

static void hear_link(weft_ep_t *ep, struct ep_link *link) {
  int error = link->remote ? ep_remote_listen(link) : EPIPE;
  if (error == 0) // it said something, and is still there
    return;
  epoll_ctl(ep->links.epoll, EPOLL_CTL_DEL, link->socket, NULL);
  if (link->remote && ep_link_up(link))
    ep_remote_hear_last(link);
  if (error == EPIPE || error == ECONNRESET)
    put_down(ep, link, EP_LINK_DEAD, "its process ended");
  else if (error == EPROTO)
    ep_link_down(ep, link, EP_LINK_BROKEN, "what it says on its socket means nothing");
  else
    put_down(ep, link, ep_remote_verdict(ep, link), "its host does not answer");
}

// A link that is up and whose transport has failed: held, so that nobody frees it. NULL: there is none.
static struct ep_link *take_failed(weft_ep_t *ep) {
  struct ep_link *found = NULL;
  pthread_mutex_lock(&ep->links.lock);
  for (uint32_t rank = 0; rank < ep->capacity && !found; rank++) {
    struct ep_link *link = atomic_load(&ep->links.by_rank[rank]);
    if (link && ep_link_up(link) && link->remote && ep_remote_failed(link->remote))
      found = link;
  }
  if (found)
    found->holds++;
  pthread_mutex_unlock(&ep->links.lock);
  return found;
}

// The link's transport has failed. A peer that has gone is heard by its socket too, which knows better how: it has a
// moment to say so.
static void put_down_failed(weft_ep_t *ep, struct ep_link *link) {
  struct pollfd news = {.fd = link->socket, .events = POLLIN | POLLRDHUP};
  poll(&news, 1, HANG_UP_MS);
  int err = atomic_load(&link->remote->failed);
  if (err == WEFT_ERR_PROTOCOL || err == WEFT_ERR_CLOSED) { // the peer's doing, or this rank's own
    put_down(ep, link, err == WEFT_ERR_CLOSED ? EP_LINK_DOUBTED : EP_LINK_BROKEN, link->remote->why);
    return;
  }
  ep_remote_listen(link); // which says how much is to be heard
  ep_remote_hear_last(link);
  put_down(ep, link, ep_remote_verdict(ep, link), link->remote->why);
}

// Takes down the links whose transport has failed.
static void take_failures(weft_ep_t *ep) {
  struct ep_net *net = atomic_load(&ep->net);
  if (!net || !atomic_exchange(&net->failures, false))
    return;
  struct ep_link *link;
  while ((link = take_failed(ep))) {
    put_down_failed(ep, link);
    pthread_mutex_lock(&ep->links.lock);
    link->holds--;
    pthread_mutex_unlock(&ep->links.lock);
  }
}

// The retired links that nobody holds.
static struct ep_link *take_retired(struct ep_links *links) {
  struct ep_link *taken = NULL;
  pthread_mutex_lock(&links->lock);
  for (struct ep_link **at = &links->retired; *at;) {
    struct ep_link *link = *at;
    if (link->holds > 0) {
      at = &link->next;
      continue;
    }
    *at = link->next;
    link->next = taken;
    taken = link;
  }
  pthread_mutex_unlock(&links->lock);
  return taken;
}

static void free_retired(weft_ep_t *ep) {
  struct ep_links *links = &ep->links;
  struct ep_link *link = take_retired(links);
  while (link) {
    struct ep_link *next = link->next;
    epoll_ctl(links->epoll, EPOLL_CTL_DEL, link->socket, NULL);
    int32_t rank = link->rank;
    uint64_t incarnation = link->incarnation;
    ep_link_free(ep, link);
    ep_emit(ep, WEFT_EP_EVENT_RELEASED, rank, incarnation, 0, 0, "");
    link = next;
  }
}

static bool stopping(struct ep_links *links) {
  pthread_mutex_lock(&links->lock);
  bool stop = links->stop;
  pthread_mutex_unlock(&links->lock);
  return stop;
}

static void *serve(void *arg) {
  weft_ep_t *ep = arg;
  struct callers callers = {0};
  struct epoll_event events[64];
  while (!stopping(&ep->links)) {
    int count = epoll_wait(ep->links.epoll, events, 64, expire(ep, &callers));
    bool near = false, far = false;
    for (int i = 0; i < count; i++) {
      uint64_t data = events[i].data.u64;
      uint64_t tag = data & ((1u << TAG_BITS) - 1);
      uint64_t drained;
      if (tag == TAG_LISTENER)
        near = true;
      else if (tag == TAG_FAR_LISTENER)
        far = true;
      else if (tag == TAG_WAKE)
        (void)!read(ep->links.wake, &drained, sizeof drained);
      else if (tag == TAG_CALLER)
        hear_caller(ep, &callers, (int)(data >> TAG_BITS));
      else
        hear_link(ep, (struct ep_link *)(uintptr_t)data);
    }
    if (near) // after the batch: an event in it may mean a socket whose number a new one gets
      take_calls(ep, &callers, false);
    if (far)
      take_calls(ep, &callers, true);
    take_failures(ep);
    free_retired(ep); // after the whole batch: an event in it may mean a link that has been retired since
  }
  while (callers.count > 0)
    hang_up(ep, &callers, 0, "this rank closes");
  return NULL;
}

int ep_service_start(weft_ep_t *ep) {
  struct ep_links *links = &ep->links;
  links->epoll = epoll_create1(EPOLL_CLOEXEC);
  links->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (links->epoll < 0 || links->wake < 0)
    return fail_errno(errno, "cannot start the service thread");
  int rc = add(links->epoll, links->listener, TAG_LISTENER);
  if (rc == 0)
    rc = add(links->epoll, links->wake, TAG_WAKE);
  if (rc == 0 && links->far_listener >= 0)
    rc = lobby_open(&links->far_lobby, links->far_listener, LOBBY_TLS, LOBBY_FEW);
  if (rc == 0 && links->far_lobby)
    rc = add(links->epoll, lobby_fd(links->far_lobby), TAG_FAR_LISTENER);
  if (rc != 0)
    return rc;
  int error = pthread_create(&links->thread, NULL, serve, ep);
  if (error != 0)
    return fail_thread(error, "the service thread");
  links->running = true;
  return 0;
}

void ep_service_stop(weft_ep_t *ep) {
  struct ep_links *links = &ep->links;
  if (!links->running)
    return;
  pthread_mutex_lock(&links->lock);
  links->stop = true;
  pthread_mutex_unlock(&links->lock);
  ep_service_kick(ep);
  pthread_join(links->thread, NULL);
  links->running = false;
}

void ep_links_free(weft_ep_t *ep) {
  struct ep_links *links = &ep->links;
  for (uint32_t rank = 0; links->by_rank && rank < ep->capacity; rank++) {
    ep_link_free(ep, atomic_load(&links->by_rank[rank]));
    atomic_store(&links->by_rank[rank], NULL);
  }
  for (struct ep_link *link = links->superseded, *next; link; link = next) {
    next = link->next;
    ep_link_free(ep, link);
  }
  free_retired(ep);
  lobby_close(links->far_lobby);
  int fds[] = {links->listener, links->far_listener, links->epoll, links->wake};
  for (int i = 0; i < 4; i++)
    if (fds[i] >= 0)
      close(fds[i]);
}
