// The caller's memory that chunks of rows go from, see ep_remote_lend(): the call may not return before it is free.
#include "base/clock.h"
#include "base/log.h"
#include "ep/publish.h"

enum { AGAIN_MS = 1000 }; // between two warnings of what is not given back

static bool borrows(const struct ep_remote *remote, struct ep_post *post) {
  (void)remote;
  return post->borrows;
}

static bool recall(const struct ep_remote *remote, struct ep_post *post) {
  if (post->borrows && post->in_flight)
    remote->net->transport->cancel(&post->request);
  return false;
}

// Has those end that read the caller's memory for links that are down. Returns a link for which they do, and that is
// not: NULL when there is none.
static struct ep_link *recall_all(struct ep_net *net) {
  struct ep_link *up = NULL;
  ep_net_enter(net);
  ep_net_progress(net); // none waits in the queue
  for (uint32_t i = 0; i < net->num_remotes; i++) {
    struct ep_remote *remote = net->remotes[i];
    if (!remote || remote->proxy || !ep_publish_each(remote, borrows))
      continue;
    if (ep_link_up(remote->link))
      up = remote->link; // it stays: who lets go of it is the owner
    else
      ep_publish_each(remote, recall);
  }
  ep_net_leave(net);
  return up;
}

// The only wait without an end of its own: transports end by force what does not end when it is cancelled.
void ep_remote_return(weft_ep_t *ep) {
  struct ep_net *net = atomic_load_explicit(&ep->net, memory_order_acquire);
  struct ep_pause pause = {0};
  uint64_t deadline_ns = 0;
  while (net && atomic_load_explicit(&net->borrowing, memory_order_acquire) > 0) {
    deadline_ns = deadline_ns ? deadline_ns : clock_deadline_ms(ep->op_timeout_ms);
    if (atomic_load(&ep->sweep)) // a link may have gone down
      recall_all(net);
    if (ep_pause(ep, &pause, deadline_ns))
      continue;
    struct ep_link *link;
    uint32_t late = 0;
    for (; (link = recall_all(net)); late++)
      ep_link_down(ep, link, ep_remote_verdict(ep, link), "what was sent to it did not leave in time");
    if (late == 0)
      log_warn("rank %d: the transport still reads what was sent to a rank that is gone", ep->rank);
    deadline_ns = clock_deadline_ms(AGAIN_MS);
  }
  ep_pause_end(ep, &pause);
}
