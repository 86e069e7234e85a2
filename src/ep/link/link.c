#include "ep/link/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/log.h"
#include "ep/gpu/gpu.h"
#include "ep/remote/remote_link.h"

static int new_inbox(const struct ep_layout *layout, struct ep_inbox *inbox) {
  size_t rows = layout->max_tokens, selections = rows * layout->topk;
  inbox->count = calloc(rows, sizeof *inbox->count);
  inbox->index = calloc(selections, sizeof *inbox->index);
  inbox->weight = calloc(selections, sizeof *inbox->weight);
  return inbox->count && inbox->index && inbox->weight ? 0 : -1;
}

static void free_inbox(struct ep_inbox *inbox) {
  free(inbox->count);
  free(inbox->index);
  free(inbox->weight);
}

static int open_device_window(weft_ep_t *ep, struct ep_link *link, enum ep_route route, int *fd) {
  if (route == EP_ROUTE_NEAR)
    return ep_gpu_link_new(ep, link, fd);
  return route == EP_ROUTE_FABRIC ? ep_gpu_link_fabric(ep, link) : ep_gpu_link_far(ep, link);
}

static int open_windows(weft_ep_t *ep, struct ep_link *link, enum ep_route route, int fds[EP_FDS]) {
  for (int i = 0; i < WEFT_EP_DEPTH && !ep->gpu; i++)
    if (new_inbox(&ep->layout, &link->inbox[i]) != 0)
      return fail(WEFT_ERR_NOMEM, "no memory for the link to rank %d", link->rank);
  int rc = ep_window_create(&link->in, ep->layout.area, &fds[EP_FD_AREA]);
  if (rc == 0 && ep->gpu)
    rc = open_device_window(ep, link, route, &fds[EP_FD_DEVICE]);
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
  link->device.seat = DEVICE_NO_SEAT;
  fds[EP_FD_AREA] = fds[EP_FD_DEVICE] = -1;
  int rc = open_windows(ep, link, route, fds);
  if (rc != 0) {
    if (fds[EP_FD_AREA] >= 0)
      close(fds[EP_FD_AREA]);
    ep_link_free(ep, link);
    return rc;
  }
  *out = link;
  return 0;
}

void ep_link_free(weft_ep_t *ep, struct ep_link *link) {
  if (!link)
    return;
  size_t window_bytes = link->in.size + link->device.in.size + (link->remote ? link->out.size : 0);
  ep_remote_free(link->remote); // whose proxy uses the GPU's windows
  if (ep->gpu)
    ep_gpu_link_free(ep, link);
  ep_window_release(&link->in);
  ep_window_release(&link->out);
  ep_window_release(&link->bell);
  if (link->socket >= 0)
    close(link->socket);
  for (int i = 0; i < WEFT_EP_DEPTH; i++)
    free_inbox(&link->inbox[i]);
  free(link);
  atomic_fetch_sub(&ep->links.window_bytes, window_bytes); // last: who sees it knows that all is freed
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
      report(ep, member->rank, member->incarnation, state, "it was gone when the view with it came");
  }
}

bool ep_link_takes_us_for_lost(struct ep_link *link) {
  if (link->remote)
    ep_remote_listen(link);
  return atomic_load(&ep_link_in(link)->notice.lost) != 0;
}

// Who takes a peer for lost tells it so, and one who was told does not report the teller: of two ranks that missed each
// other, the one that looked later may have been stopped, and could be the first that the group hears. That the look
// comes before the telling makes sure that one of the two reports.
static enum ep_link_state settle(struct ep_link *link, enum ep_link_state state) {
  if (state == EP_LINK_SILENT && ep_link_takes_us_for_lost(link))
    return EP_LINK_DOUBTED;
  if (state == EP_LINK_SILENT || state == EP_LINK_BROKEN)
    ep_link_say_lost(link);
  return state;
}

void ep_link_down(weft_ep_t *ep, struct ep_link *link, enum ep_link_state state, const char *why) {
  int up = EP_LINK_UP;
  char how[160]; // `why` may be the last error, and telling the peer may fail
  snprintf(how, sizeof how, "%s", why);
  if (ep_link_up(link))
    state = settle(link, state);
  if (!atomic_compare_exchange_strong(&link->state, &up, (int)state))
    return;
  if (ep->gpu) // first of all: kernels wait for it
    ep_gpu_link_gone(ep, link);
  log_info("rank %d: link to rank %d is down: %s", ep->rank, link->rank, how);
  atomic_fetch_sub(&ep->links.connected, 1);
  atomic_store(&ep->sweep, true);
  if (state != EP_LINK_DOUBTED && ep_views_has(ep, link->rank, link->incarnation) &&
      !atomic_exchange(&link->reported, true))
    report(ep, link->rank, link->incarnation, state, how);
  ep_views_update_ready(ep);
  ep_doorbell_ring(ep_own_bell(ep));
}

struct ep_link *ep_link_find(weft_ep_t *ep, int32_t rank, uint64_t incarnation) {
  struct ep_link *link = atomic_load_explicit(&ep->links.by_rank[rank], memory_order_acquire);
  if (!link || !ep_link_up(link) || (incarnation != 0 && link->incarnation != incarnation))
    return NULL;
  return link;
}

int ep_link_install(weft_ep_t *ep, struct ep_link *link) {
  struct ep_links *links = &ep->links;
  int32_t rank = link->rank;
  uint64_t incarnation = link->incarnation;
  const char *way = link->remote ? ep_remote_way(link->remote) : "";
  pthread_mutex_lock(&links->lock);
  int rc = ep_service_watch(ep, link);
  struct ep_link *old = NULL;
  if (rc == 0) {
    old = atomic_load(&links->by_rank[rank]);
    if (old) {
      old->next = links->superseded;
      links->superseded = old;
    }
    atomic_fetch_add(&links->connected, 1);
    atomic_store_explicit(&links->by_rank[rank], link, memory_order_release);
    pthread_cond_broadcast(&links->changed);
  }
  pthread_mutex_unlock(&links->lock);
  if (rc != 0)
    return rc;
  if (old) {
    ep_link_down(ep, old, EP_LINK_DEAD, "a new incarnation came");
    atomic_store(&ep->sweep, true); // it may have been down before
  }
  ep_life_kick(ep);
  ep_emit(ep, WEFT_EP_EVENT_CONNECTED, rank, incarnation, 0, 0, way);
  ep_views_update_ready(ep);
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
  else // a newer incarnation has put it into `superseded` just now, on which the next sweep looks
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
