// Waiting until no chunk of rows is read from the caller's memory any more (ep_put_zero_copy()): until then the call
// must not return.
#include "base/log.h"
#include "base/time/clock.h"
#include "ep/remote/requests.h"

static bool each(const struct ep_remote *remote, bool (*visit)(const struct ep_remote *remote, struct ep_post *post)) {
  return remote->ep->engine->carrier->each(remote, visit);
}

static bool is_zero_copy(const struct ep_remote *remote, struct ep_post *post) {
  (void)remote;
  return post->zero_copy;
}

static bool cancel(const struct ep_remote *remote, struct ep_post *post) {
  if (post->zero_copy && post->in_flight)
    remote->net->transport->cancel(&post->request);
  return false;
}

// Cancels zero-copy sends on links that are down. Returns a link that is up and still has one: NULL when there is none.
static struct ep_link *cancel_all(struct ep_net *net) {
  struct ep_link *up = NULL;
  ep_net_lock(net);
  ep_net_progress(net); // so that none waits in the queue
  for (uint32_t i = 0; i < net->num_remotes; i++) {
    struct ep_remote *remote = net->remotes[i];
    if (!remote || !each(remote, is_zero_copy))
      continue;
    if (ep_link_up(remote->link))
      up = remote->link; // only the owner takes it down
    else
      each(remote, cancel);
  }
  ep_net_unlock(net);
  return up;
}

static bool disconnect(const struct ep_remote *remote, struct ep_post *post) {
  if (post->zero_copy && remote->peer)
    ep_remote_disconnect(post->remote);
  return false;
}

// The steps after a deadline has passed, one after another.
enum force { FORCE_CANCEL, FORCE_DISCONNECT, FORCE_CLOSE, FORCE_NONE };

static void force(weft_ep_t *ep, struct ep_net *net, enum force force) {
  struct ep_link *link;
  while ((link = cancel_all(net))) // from the second time on there is none
    ep_link_down(ep, link, ep_control_verdict(ep, link), "data for it could not be sent in time");
  if (force == FORCE_CANCEL)
    return;
  log_warn("rank %d: the transport still reads memory for a rank that is gone: %s", ep->rank,
           force == FORCE_CLOSE ? "the transport is closed, with all links to other hosts"
                                : "the connection is closed");
  ep_net_lock(net);
  for (uint32_t i = 0; force == FORCE_DISCONNECT && i < net->num_remotes; i++)
    if (net->remotes[i])
      each(net->remotes[i], disconnect);
  if (force == FORCE_CLOSE)
    ep_net_shut(net);
  ep_net_unlock(net);
}

void ep_zero_copy_wait(weft_ep_t *ep) {
  struct ep_net *net = atomic_load_explicit(&ep->net, memory_order_acquire);
  struct ep_pause pause = {.steady = true};
  uint64_t deadline_ns = 0;
  for (enum force next = FORCE_CANCEL;
       net && next != FORCE_NONE && atomic_load_explicit(&net->zero_copies, memory_order_acquire) > 0;) {
    deadline_ns = deadline_ns ? deadline_ns : clock_deadline_ms(ep->op_timeout_ms);
    if (atomic_load(&ep->sweep)) // a link may have gone down
      cancel_all(net);
    if (ep_pause(ep, &pause, deadline_ns))
      continue;
    force(ep, net, next++);
    deadline_ns = clock_deadline_ms(TRANSPORT_END_MS);
  }
  ep_pause_end(ep, &pause);
}
