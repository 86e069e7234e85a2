// Frees links that are not needed any more.
#include "ep/host/host.h"
#include "ep/remote/neighbours.h"
#include "group/view.h"

// A link can be freed when it is down, or when its rank was active and is not any more. The link of a joiner stays.
static bool is_needless(weft_ep_t *ep, const struct ep_link *link) {
  return !ep_link_up(link) || (link->was_active && !group_view_has(ep->view, link->rank, link->incarnation));
}

// Whether an operation may read windows of neighbours: it has not received its rows, or reads them in place.
static bool reads_areas(const weft_ep_t *ep) {
  for (int i = 0; i < EP_DEPTH; i++) {
    const struct ep_op *op = &ep->host->ops[i];
    if (op->state != EP_OP_FREE && (op->state == EP_OP_SENDING || op->state == EP_OP_SENT || op->in_place))
      return true;
  }
  return false;
}

void ep_host_sweep(weft_ep_t *ep) {
  if (!atomic_exchange(&ep->sweep, false))
    return;
  bool again = ep_links_sweep(ep, ep_op_uses);
  for (uint32_t rank = 0; rank < ep->capacity; rank++) {
    struct ep_link *link = atomic_load(&ep->links.by_rank[rank]);
    if (!link || !is_needless(ep, link))
      continue;
    if (ep_op_uses(ep, link)) {
      again = true;
      continue;
    }
    ep_link_notify_left(link);
    ep_link_retire(ep, link);
  }
  if (reads_areas(ep) || ep_neighbours_sweep(ep) || again)
    atomic_store(&ep->sweep, true);
}

int ep_host_unmap(weft_ep_t *ep, int32_t rank) {
  struct ep_link *link = atomic_load(&ep->links.by_rank[rank]);
  if (!link)
    return WEFT_ERR_NOT_FOUND;
  if (ep_op_uses(ep, link)) { // it was active: the end of that operation frees it
    atomic_store(&ep->sweep, true);
    return 0;
  }
  ep_link_notify_left(link);
  ep_link_retire(ep, link);
  return 0;
}
