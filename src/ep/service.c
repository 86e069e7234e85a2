// The service thread: takes calls, hears hang-ups, frees retired links. It never waits for one peer.
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/log.h"
#include "ep/endpoint.h"
#include "ep/remote.h"

enum {
  NEAR_CALLERS = 64,       // of this host that have connected and not yet greeted: a new one has the oldest cut off
  FAR_CALLERS = 64,        // likewise from other hosts, whoever they are
  GREETING_TIME_MS = 5000, // for them to do so
  AT_ONCE = 32,            // calls that are taken before others are heard
  HANG_UP_MS = 20,         // of a peer whose transport says that it has gone
  MUTE_MS = 100,           // without a look at the listener, when a call cannot be taken
  TAG_LISTENER = 1,        // epoll data: a tag, or a link's address (aligned: its low bits are 0)
  TAG_WAKE = 2,
  TAG_CALLER = 3, // and the socket above it
  TAG_FAR_LISTENER = 4,
  TAG_BITS = 3,
};

struct callers {
  struct {
    int socket;
    bool far;
    uint64_t deadline_ns;
  } entry[NEAR_CALLERS + FAR_CALLERS + 1]; // one too many, until the oldest is cut off
  int count, num_far;
  uint64_t muted_until_ns; // 0: the listener is looked at
};

static int add(int epoll, int fd, uint64_t tag) {
  struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.u64 = tag};
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0)
    return fail_errno(errno, "cannot watch a socket");
  return 0;
}

static bool too_many(const struct callers *callers, bool far) {
  return far ? callers->num_far > FAR_CALLERS : callers->count - callers->num_far > NEAR_CALLERS;
}

// Looks at the listeners, or not: calls that it cannot take yet would wake the thread at once, again and again. They
// wait in the listeners' queues.
static void look_at_listeners(struct ep_links *links, const struct callers *callers) {
  bool look = callers->muted_until_ns == 0;
  struct epoll_event event = {.events = look ? EPOLLIN : 0, .data.u64 = TAG_LISTENER};
  epoll_ctl(links->epoll, EPOLL_CTL_MOD, links->listener, &event);
  event = (struct epoll_event){.events = look ? EPOLLIN : 0, .data.u64 = TAG_FAR_LISTENER};
  if (links->far_listener >= 0)
    epoll_ctl(links->epoll, EPOLL_CTL_MOD, links->far_listener, &event);
}

int ep_service_watch(weft_ep_t *ep, struct ep_link *link) {
  return add(ep->links.epoll, link->socket, (uint64_t)(uintptr_t)link);
}

void ep_service_kick(weft_ep_t *ep) {
  uint64_t one = 1;
  ssize_t written = write(ep->links.wake, &one, sizeof one); // full means kicked already
  (void)written;
}

static void drop_caller(struct callers *callers, int i) {
  callers->num_far -= callers->entry[i].far;
  callers->entry[i] = callers->entry[--callers->count];
}

static void hang_up(weft_ep_t *ep, int socket) {
  epoll_ctl(ep->links.epoll, EPOLL_CTL_DEL, socket, NULL); // a child may hold it open
  close(socket);
}

// False: not now.
static bool take_call(weft_ep_t *ep, struct callers *callers, int listener, bool far) {
  int socket = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (socket < 0) {
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      log_warn("rank %d cannot take a call now: %s%s", ep->rank, strerror(errno),
               errno == EMFILE ? " (see ulimit -n)" : "");
      callers->muted_until_ns = clock_deadline_ms(MUTE_MS);
    }
    return errno == ECONNABORTED || errno == EINTR;
  }
  int whole = (int)ep_far_size(); // from there, the thread hears of no less
  if ((far && (!ep_endpoint_is_ours(socket, ep->links.endpoints) ||
               setsockopt(socket, SOL_SOCKET, SO_RCVLOWAT, &whole, sizeof whole) != 0)) ||
      add(ep->links.epoll, socket, ((uint64_t)socket << TAG_BITS) | TAG_CALLER) != 0) {
    close(socket);
    return true;
  }
  callers->entry[callers->count].socket = socket;
  callers->entry[callers->count].far = far;
  callers->entry[callers->count++].deadline_ns = clock_deadline_ms(GREETING_TIME_MS);
  callers->num_far += far;
  return true;
}

static void hear_caller(weft_ep_t *ep, struct callers *callers, int socket) {
  for (int i = 0; i < callers->count; i++)
    if (callers->entry[i].socket == socket) {
      bool far = callers->entry[i].far;
      drop_caller(callers, i);
      epoll_ctl(ep->links.epoll, EPOLL_CTL_DEL, socket, NULL);
      if (far)
        ep_far_answer(ep, socket);
      else
        ep_answer(ep, socket);
      return;
    }
}

// Who says nothing keeps nobody out. What has been said since the thread looked is heard. (A rank that was cut off
// calls again, and has all ready to say when it calls.)
static void cut_oldest(weft_ep_t *ep, struct callers *callers, bool far) {
  int oldest = -1;
  for (int i = 0; i < callers->count; i++)
    if (callers->entry[i].far == far &&
        (oldest < 0 || callers->entry[i].deadline_ns < callers->entry[oldest].deadline_ns))
      oldest = i;
  struct pollfd said = {.fd = callers->entry[oldest].socket, .events = POLLIN};
  if (poll(&said, 1, 0) > 0) {
    hear_caller(ep, callers, said.fd);
    return;
  }
  hang_up(ep, said.fd);
  drop_caller(callers, oldest);
}

static void take_calls(weft_ep_t *ep, struct callers *callers, int listener, bool far) {
  for (int i = 0; i < AT_ONCE && take_call(ep, callers, listener, far); i++)
    if (too_many(callers, far))
      cut_oldest(ep, callers, far);
  look_at_listeners(&ep->links, callers);
}

// Ends with callers that do not greet in time, ends a mute; returns the milliseconds to the next such deadline, -1 for
// none.
static int expire(weft_ep_t *ep, struct callers *callers) {
  int next = -1;
  if (callers->muted_until_ns != 0) {
    next = clock_left_ms(callers->muted_until_ns);
    if (next == 0) {
      callers->muted_until_ns = 0;
      look_at_listeners(&ep->links, callers);
      next = -1;
    }
  }
  for (int i = callers->count - 1; i >= 0; i--) {
    int left = clock_left_ms(callers->entry[i].deadline_ns);
    if (left == 0 && callers->entry[i].far) { // one of another version may have said all that it has to say
      hear_caller(ep, callers, callers->entry[i].socket);
    } else if (left == 0) {
      hang_up(ep, callers->entry[i].socket);
      drop_caller(callers, i);
    } else if (next < 0 || left < next) {
      next = left;
    }
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
      take_calls(ep, &callers, ep->links.listener, false);
    if (far)
      take_calls(ep, &callers, ep->links.far_listener, true);
    take_failures(ep);
    free_retired(ep); // after the whole batch: an event in it may mean a link that has been retired since
  }
  for (int i = 0; i < callers.count; i++)
    close(callers.entry[i].socket);
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
    rc = add(links->epoll, links->far_listener, TAG_FAR_LISTENER);
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
  int fds[] = {links->listener, links->far_listener, links->epoll, links->wake};
  for (int i = 0; i < 4; i++)
    if (fds[i] >= 0)
      close(fds[i]);
}
