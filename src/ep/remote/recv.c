// Handles the transport's events for links to other hosts: messages of peers, and failures.
#include <string.h>

#include "base/fail.h"
#include "ep/remote/remote_link.h"

static void receive(struct ep_net *net, const void *bytes, size_t size) {
  uint64_t id;
  if (size < sizeof id)
    return;
  memcpy(&id, bytes, sizeof id);
  struct ep_remote *remote = ep_remote_find(net, id);
  if (!remote) // late, and the link was freed; or from a stranger that guesses numbers
    return;
  // Messages that arrived before the sender became unreachable count; a peer that has sent invalid data is not trusted.
  if (atomic_load(&remote->failed) == WEFT_ERR_PROTOCOL)
    return;
  atomic_fetch_add(&remote->messages_received, 1);
  remote->ep->engine->carrier->receive(remote, bytes, size);
}

// The worker is about to close, with all peers and regions.
static void forget_transport(struct ep_remote *remote) {
  ep_remote_fail(remote, WEFT_ERR_CLOSED, "this rank's transport did not release memory, and was closed");
  remote->peer = NULL;
  remote->area = NULL;
  remote->in = remote->out = NULL;
  if (remote->ep->engine->carrier->forget)
    remote->ep->engine->carrier->forget(remote);
}

const struct ep_net_events ep_remote_events = {receive, ep_remote_fail, forget_transport, ep_words_heartbeat};
