// The service thread: accepts calls, detects hang-ups, frees retired links. It never waits for one peer.
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/thread.h"
#include "ep/handshake/handshake.h"
#include "ep/remote/neighbours.h"
#include "ep/remote/net/net.h"
#include "ep/service/callers.h"
#include "ep/service/service.h"
#include "secure/lobby.h"

enum { HANG_UP_MS = 20 }; // time for the socket of a peer to hang up, after its transport has failed

// Takes a link down whose peer has gone; `state` and `how` say how. Data that the peer sent before still counts.
static void put_down(weft_ep_t *ep, struct ep_link *link, enum ep_link_state state, const char *how) {
  if (ep_link_takes_us_for_lost(link))
    ep_link_down(ep, link, EP_LINK_DOUBTED, "it takes this rank for lost");
  else if (atomic_load(&ep_link_in(link)->notice.left))
    ep_link_down(ep, link, EP_LINK_LEFT, "it left");
  else
    ep_link_down(ep, link, state, how);
}

// Whether the peer has given up its call before it received the answer. It may call again. If a rank on another host
// has died instead, the group notices that its claim has expired.
static bool gave_up(const struct ep_link *link) {
  return atomic_load(&link->unconfirmed) && (link->remote || ep_death_watch_alive(link));
}

// Handles a notice of the peer that it considers this rank lost. Such a peer neither sends to this rank any more nor
// reads what this rank sends. It hangs up when its operation has ended; until then other ranks may wait for this one.
static void receive_notice(weft_ep_t *ep, struct ep_link *link) {
  if (!link->remote || !ep_link_up(link) || atomic_load(&ep_link_in(link)->notice.lost) == 0)
    return;
  link->path->receive_last(link);
  ep_link_down(ep, link, EP_LINK_DOUBTED, "it takes this rank for lost");
}

static void receive_link(weft_ep_t *ep, struct ep_link *link) {
  int error = link->remote ? link->path->listen(link) : ep_neighbours_receive(ep, link);
  if (error == 0) { // it has not hung up
    receive_notice(ep, link);
    return;
  }
  epoll_ctl(ep->links.epoll, EPOLL_CTL_DEL, link->socket, NULL);
  if (ep_link_up(link))
    link->path->receive_last(link);
  if ((error == EPIPE || error == ECONNRESET) && gave_up(link))
    put_down(ep, link, EP_LINK_DOUBTED, "it has given up its call");
  else if (error == EPIPE || error == ECONNRESET)
    put_down(ep, link, EP_LINK_DEAD, "its process ended");
  else if (error == EPROTO)
    ep_link_down(ep, link, EP_LINK_BROKEN, "it sent a malformed notice on its socket");
  else
    put_down(ep, link, link->path->verdict(ep, link), "its host does not answer");
}

// Returns a link that is up and whose transport has failed. It is held, so that no thread frees it. NULL: none.
static struct ep_link *take_failed(weft_ep_t *ep) {
  struct ep_link *found = NULL;
  pthread_mutex_lock(&ep->links.lock);
  for (uint32_t rank = 0; rank < ep->capacity && !found; rank++) {
    struct ep_link *link = atomic_load(&ep->links.by_rank[rank]);
    const char *why;
    if (link && ep_link_up(link) && link->path->failure(link, &why) != 0)
      found = link;
  }
  if (found)
    found->holds++;
  pthread_mutex_unlock(&ep->links.lock);
  return found;
}

// The link's transport has failed. If the peer has gone, its socket hangs up too, and shows the reason better: this
// waits a moment for that.
static void put_down_failed(weft_ep_t *ep, struct ep_link *link) {
  struct pollfd news = {.fd = link->socket, .events = POLLIN | POLLRDHUP};
  poll(&news, 1, HANG_UP_MS);
  const char *why;
  int err = link->path->failure(link, &why);
  if (err == WEFT_ERR_PROTOCOL || err == WEFT_ERR_CLOSED) { // caused by the peer, or by this rank
    put_down(ep, link, err == WEFT_ERR_CLOSED ? EP_LINK_DOUBTED : EP_LINK_BROKEN, why);
    return;
  }
  link->path->listen(link); // reads how many messages have to be received
  link->path->receive_last(link);
  put_down(ep, link, link->path->verdict(ep, link), why);
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

// Takes the retired links that nobody holds out of the list.
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

// Wakes threads that wait on a condition variable. weft_ep_interrupt() leaves that to the service thread: it may run in
// a signal handler, which must not use condition variables.
static void wake_interrupted(weft_ep_t *ep) {
  if (!atomic_load(&ep->interrupt.asked))
    return;
  pthread_mutex_lock(&ep->links.lock);
  pthread_cond_broadcast(&ep->links.changed);
  pthread_mutex_unlock(&ep->links.lock);
  group_wake(ep->group);
}

static bool stopping(struct ep_links *links) {
  pthread_mutex_lock(&links->lock);
  bool stop = links->stop;
  pthread_mutex_unlock(&links->lock);
  return stop;
}

// -1: never.
static int sooner(int a_ms, int b_ms) {
  return a_ms < 0 || (b_ms >= 0 && b_ms < a_ms) ? b_ms : a_ms;
}

static void *serve(void *arg) {
  weft_ep_t *ep = arg;
  struct callers callers = {0};
  struct epoll_event events[64];
  while (!stopping(&ep->links)) {
    int wait_ms = sooner(ep_callers_expire(ep, &callers), ep_confirm_settle(ep));
    int count = epoll_wait(ep->links.epoll, events, 64, wait_ms);
    bool local = false, tcp = false;
    for (int i = 0; i < count; i++) {
      uint64_t data = events[i].data.u64;
      uint64_t tag = data & ((1u << EP_TAG_BITS) - 1);
      uint64_t drained;
      if (tag == TAG_LISTENER)
        local = true;
      else if (tag == TAG_TCP_LISTENER)
        tcp = true;
      else if (tag == TAG_WAKE)
        (void)!read(ep->links.wake, &drained, sizeof drained);
      else if (tag == TAG_CALLER)
        ep_callers_receive(ep, &callers, (int)(data >> EP_TAG_BITS));
      else
        receive_link(ep, (struct ep_link *)(uintptr_t)data);
    }
    if (local) // after the batch: a new socket may get the number of a socket with an event in it
      ep_callers_accept(ep, &callers, false);
    if (tcp)
      ep_callers_accept(ep, &callers, true);
    wake_interrupted(ep);
    take_failures(ep);
    free_retired(ep); // after the whole batch: an event in it may be for a link that has been retired since
  }
  ep_callers_end(ep, &callers);
  return NULL;
}

int ep_service_start(weft_ep_t *ep) {
  struct ep_links *links = &ep->links;
  links->epoll = epoll_create1(EPOLL_CLOEXEC);
  links->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (links->epoll < 0 || links->wake < 0)
    return fail_errno(errno, "cannot start the service thread");
  int rc = ep_service_watch_socket(ep, links->listener, TAG_LISTENER);
  if (rc == 0)
    rc = ep_service_watch_socket(ep, links->wake, TAG_WAKE);
  if (rc == 0 && links->tcp_listener >= 0)
    rc = lobby_open(&links->tcp_lobby, links->tcp_listener, LOBBY_TLS, LOBBY_FEW);
  if (rc == 0 && links->tcp_lobby)
    rc = ep_service_watch_socket(ep, lobby_fd(links->tcp_lobby), TAG_TCP_LISTENER);
  if (rc != 0)
    return rc;
  int error = thread_create(&links->thread, NULL, serve, ep);
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
  ep_neighbours_free(ep);
  lobby_close(links->tcp_lobby);
  int fds[] = {links->listener, links->tcp_listener, links->epoll, links->wake};
  for (int i = 0; i < 4; i++)
    if (fds[i] >= 0)
      close(fds[i]);
}
