// One link: its windows, how it goes up and down; and the table of all links.
#include "ep/link/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <weft/agent.h>

#include "base/fail.h"
#include "base/log.h"
#include "ep/core/engine.h"

static int open_windows(weft_ep_t *ep, struct ep_link *link, enum ep_route route, int fds[EP_FDS]) {
  int rc = ep_window_create(&link->in, ep->layout.area, &fds[EP_FD_AREA]);
  if (rc == 0)
    rc = ep->engine->link_open(ep, link, route, &fds[EP_FD_DEVICE]);
  atomic_fetch_add(&ep->links.window_bytes, link->in.size + link->device.in.size);
  return rc == 0 ? 0 : fail_context(rc, "link to rank %d", link->rank);
}

int ep_link_new(weft_ep_t *ep, int32_t rank, uint64_t incarnation, enum ep_route route, struct ep_link **out,
                int fds[EP_FDS]) {
  struct ep_link *link = calloc(1, sizeof *link);
  if (!link)
    return fail(WEFT_ERR_NOMEM, "no memory for the link to rank %d", rank);
  link->rank = rank;
  link->incarnation = incarnation;
  link->socket = -1;
  link->path = &ep_path_mapped;
  link->device.seat = DEVICE_NO_SEAT;
  link->device.shown = -1;
  fds[EP_FD_AREA] = fds[EP_FD_DEVICE] = -1;
  int rc = open_windows(ep, link, route, fds);
  if (rc != 0) {
    for (int i = EP_FD_AREA; i <= EP_FD_DEVICE; i++)
      if (fds[i] >= 0)
        close(fds[i]);
    ep_link_free(ep, link);
    return rc;
  }
  *out = link;
  return 0;
}

void ep_link_free(weft_ep_t *ep, struct ep_link *link) {
  if (!link)
    return;
  size_t window_bytes = link->in.size + link->device.in.size + (link->path->shadow ? link->out.size : 0);
  link->path->free(link); // it may use the engine's windows
  ep->engine->link_free(ep, link);
  ep_window_release(&link->in);
  ep_window_release(&link->out);
  ep_window_release(&link->bell);
  if (link->socket >= 0)
    close(link->socket);
  free(link);
  atomic_fetch_sub(&ep->links.window_bytes, window_bytes); // last: a reader of this value knows that all is freed
}

static void report(weft_ep_t *ep, int32_t rank, uint64_t incarnation, enum ep_link_state state, const char *how) {
  if (state != EP_LINK_LEFT) {
    atomic_fetch_add(&ep->lost, 1);
    ep_emit(ep, WEFT_EP_EVENT_PEER_LOST, rank, incarnation, 0, 0, how);
  }
  group_suspect(ep->group, rank, incarnation, how);
}

void ep_links_report(weft_ep_t *ep, const struct group_view *view) {
  for (uint32_t i = 0; i < view->count; i++) {
    const struct group_member *member = &view->members[i];
    pthread_mutex_lock(&ep->links.lock); // a link in the table is not freed then
    struct ep_link *link = atomic_load(&ep->links.by_rank[member->rank]);
    int state = link && link->incarnation == member->incarnation ? atomic_load(&link->state) : EP_LINK_UP;
    bool news = state != EP_LINK_UP && state != EP_LINK_DOUBTED && !atomic_exchange(&link->reported, true);
    pthread_mutex_unlock(&ep->links.lock);
    if (news)
      report(ep, member->rank, member->incarnation, state, "it was gone when the view with it arrived");
  }
}

bool ep_link_takes_us_for_lost(struct ep_link *link) {
  link->path->listen(link);
  return atomic_load(&ep_link_in(link)->notice.lost) != 0;
}

void ep_link_notify_left(struct ep_link *link) {
  if (!atomic_exchange(&ep_link_out(link)->notice.left, 1))
    link->path->notify(link, EP_NOTICE_LEFT);
}

static void notify_lost(struct ep_link *link) {
  atomic_store(&ep_link_out(link)->notice.lost, 1);
  link->path->notify(link, EP_NOTICE_LOST);
}

// A rank that considers a peer lost notifies it, and the notified peer does not report the sender. Of two ranks that
// missed each other, the one that checked later may have been stopped, and its report could still reach the group
// first. Each checks for a notice before it sends its own, so one of the two reports.
static enum ep_link_state settle(struct ep_link *link, enum ep_link_state state) {
  if (state == EP_LINK_SILENT && ep_link_takes_us_for_lost(link))
    return EP_LINK_DOUBTED;
  if (state == EP_LINK_SILENT || state == EP_LINK_BROKEN)
    notify_lost(link);
  return state;
}

void ep_link_down(weft_ep_t *ep, struct ep_link *link, enum ep_link_state state, const char *why) {
  int up = EP_LINK_UP;
  char how[160]; // `why` may be the last error, and the notice to the peer may fail
  snprintf(how, sizeof how, "%s", why);
  if (ep_link_up(link))
    state = settle(link, state);
  if (!atomic_compare_exchange_strong(&link->state, &up, (int)state))
    return;
  ep->engine->link_down(ep, link); // first of all, since kernels wait for it
  log_info("rank %d: link to rank %d is down: %s", ep->rank, link->rank, how);
  atomic_fetch_sub(&ep->links.connected, 1);
  atomic_store(&ep->sweep, true);
  if (state != EP_LINK_DOUBTED && ep_views_has(ep, link->rank, link->incarnation) &&
      !atomic_exchange(&link->reported, true))
    report(ep, link->rank, link->incarnation, state, how);
  ep->on_links(ep);
  ep_doorbell_ring(ep_own_bell(ep));
}

struct ep_link *ep_link_find(weft_ep_t *ep, int32_t rank, uint64_t incarnation) {
  struct ep_link *link = atomic_load_explicit(&ep->links.by_rank[rank], memory_order_acquire);
  if (!link || !ep_link_up(link) || (incarnation != 0 && link->incarnation != incarnation))
    return NULL;
  return link;
}

struct ep_link *ep_link_settled(weft_ep_t *ep, int32_t rank, uint64_t incarnation) {
  struct ep_link *link = ep_link_find(ep, rank, incarnation);
  return link && !atomic_load(&link->unconfirmed) ? link : NULL;
}

// On CUDA memory the watcher may sweep it, and the service thread free it, as soon as it is among the superseded.
static void supersede(struct ep_links *links, struct ep_link *old) {
  old->next = links->superseded;
  links->superseded = old;
  old->holds++;
}

static void take_down_superseded(weft_ep_t *ep, struct ep_link *old) {
  ep_link_down(ep, old, EP_LINK_DEAD, "a new incarnation of it appeared");
  // The owner retires the old link at its next call; until then a rank may connect again and again.
  if (!old->remote && !old->was_active) {
    ep_window_discard(&old->in);
    ep_window_discard(&old->out);
  }
  pthread_mutex_lock(&ep->links.lock);
  old->holds--;
  pthread_mutex_unlock(&ep->links.lock);
  atomic_store(&ep->sweep, true); // it may have been down before
  ep_service_kick(ep);            // or was retired in between
}

int ep_link_install(weft_ep_t *ep, struct ep_link *link) {
  struct ep_links *links = &ep->links;
  int32_t rank = link->rank;
  uint64_t incarnation = link->incarnation;
  char way[WEFT_AGENT_MAX_DETAIL];
  link->path->name(link, way, sizeof way);
  pthread_mutex_lock(&links->lock);
  atomic_fetch_add(&links->connected, 1); // first: once it is watched, the service thread may take it down
  int rc = ep_service_watch(ep, link);
  struct ep_link *old = NULL;
  if (rc != 0) {
    atomic_fetch_sub(&links->connected, 1);
  } else {
    old = atomic_load(&links->by_rank[rank]);
    if (old)
      supersede(links, old);
    atomic_store_explicit(&links->by_rank[rank], link, memory_order_release);
    pthread_cond_broadcast(&links->changed);
  }
  pthread_mutex_unlock(&links->lock);
  if (rc != 0)
    return rc;
  if (old)
    take_down_superseded(ep, old);
  ep_death_watch_kick(ep);
  ep_emit(ep, WEFT_EP_EVENT_CONNECTED, rank, incarnation, 0, 0, way);
  ep->on_links(ep);
  return 0;
}

static void push_retired(struct ep_links *links, struct ep_link *link) {
  link->next = links->retired;
  links->retired = link;
}

void ep_link_retire(weft_ep_t *ep, struct ep_link *link) {
  struct ep_links *links = &ep->links;
  int up = EP_LINK_UP;
  if (atomic_compare_exchange_strong(&link->state, &up, EP_LINK_LEFT))
    atomic_fetch_sub(&links->connected, 1);
  pthread_mutex_lock(&links->lock);
  bool in_table = atomic_load(&links->by_rank[link->rank]) == link;
  if (in_table) {
    atomic_store(&links->by_rank[link->rank], NULL);
    push_retired(links, link);
  }
  pthread_mutex_unlock(&links->lock);
  if (in_table)
    ep_service_kick(ep);
  else // a newer incarnation has just put it into `superseded`, which the next sweep checks
    atomic_store(&ep->sweep, true);
}

bool ep_links_sweep(weft_ep_t *ep, bool (*in_use)(weft_ep_t *ep, const struct ep_link *link)) {
  struct ep_links *links = &ep->links;
  bool any = false;
  pthread_mutex_lock(&links->lock);
  for (struct ep_link **at = &links->superseded; *at;) {
    struct ep_link *link = *at;
    if (in_use(ep, link)) {
      at = &link->next;
      continue;
    }
    *at = link->next;
    push_retired(links, link);
    any = true;
  }
  bool left = links->superseded != NULL;
  pthread_mutex_unlock(&links->lock);
  if (any)
    ep_service_kick(ep);
  return left;
}
