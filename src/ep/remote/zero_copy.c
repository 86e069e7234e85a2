// The caller's memory that chunks of rows go from, see ep_put_zero_copy(): the call may not return before it is free.
#include "base/log.h"
#include "base/time/clock.h"
#include "ep/remote/requests.h"

static bool each(const struct ep_remote *remote, bool (*visit)(const struct ep_remote *remote, struct ep_post *post)) {
  return remote->ep->engine->carrier->each(remote, visit);
}

static bool borrows(const struct ep_remote *remote, struct ep_post *post) {
  (void)remote;
  return post->borrows;
}

static bool recall(const struct ep_remote *remote, struct ep_post *post) {
  if (post->borrows && post->in_flight)
    remote->net->transport->cancel(&post->request);
  return false;
}

// Cancels zero-copy sends on links that are down. Returns a link that is up and still has one: NULL when there is none.
static struct ep_link *recall_all(struct ep_net *net) {
  struct ep_link *up = NULL;
  ep_net_lock(net);
  ep_net_progress(net); // none waits in the queue
  for (uint32_t i = 0; i < net->num_remotes; i++) {
    struct ep_remote *remote = net->remotes[i];
    if (!remote || !each(remote, borrows))
      continue;
    if (ep_link_up(remote->link))
      up = remote->link; // it stays: who lets go of it is the owner
    else
      each(remote, recall);
  }
  ep_net_unlock(net);
  return up;
}

static bool disconnect(const struct ep_remote *remote, struct ep_post *post) {
  if (post->borrows && remote->peer)
    ep_remote_disconnect(post->remote);
  return false;
}

// What is done about it when the time has passed, one after the other.
enum force { FORCE_CANCEL, FORCE_DISCONNECT, FORCE_CLOSE, FORCE_NONE };

static void force(weft_ep_t *ep, struct ep_net *net, enum force force) {
  struct ep_link *link;
  while ((link = recall_all(net))) // none, from the second time on
    ep_link_down(ep, link, ep_control_verdict(ep, link), "what was sent to it did not leave in time");
  if (force == FORCE_CANCEL)
    return;
  log_warn("rank %d: the transport still reads what was sent to a rank that is gone: %s", ep->rank,
           force == FORCE_CLOSE ? "it is closed, with all links to other hosts" : "its connection is torn down");
  ep_net_lock(net);
  for (uint32_t i = 0; force == FORCE_DISCONNECT && i < net->num_remotes; i++)
    if (net->remotes[i])
      each(net->remotes[i], disconnect);
  if (force == FORCE_CLOSE)
    ep_net_shut(net);
  ep_net_unlock(net);
}

void ep_remote_return(weft_ep_t *ep) {
  struct ep_net *net = atomic_load_explicit(&ep->net, memory_order_acquire);
  struct ep_pause pause = {.steady = true};
  uint64_t deadline_ns = 0;
  for (enum force next = FORCE_CANCEL;
       net && next != FORCE_NONE && atomic_load_explicit(&net->borrowing, memory_order_acquire) > 0;) {
    deadline_ns = deadline_ns ? deadline_ns : clock_deadline_ms(ep->op_timeout_ms);
    if (atomic_load(&ep->sweep)) // a link may have gone down
      recall_all(net);
    if (ep_pause(ep, &pause, deadline_ns))
      continue;
    force(ep, net, next++);
    deadline_ns = clock_deadline_ms(TRANSPORT_END_MS);
  }
  ep_pause_end(ep, &pause);
}
