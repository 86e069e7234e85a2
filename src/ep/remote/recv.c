// Messages of peers on other hosts: the words that they would have stored themselves on this one. One that is wrong
// anywhere writes nothing, and ends its link.
#include <string.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "ep/gpu/proxy.h"
#include "ep/remote/put.h"

static int take_note(struct ep_remote *remote, const void *bytes, size_t size) {
  struct ep_link *link = remote->link;
  struct ep_note note;
  int rc = ep_note_check(&remote->ep->layout, bytes, size, &note);
  if (rc != 0)
    return rc;
  if (ep_note_store(&note, &remote->ep->layout, link->in.memory, link->out.memory))
    atomic_store_explicit(&ep_link_bell(link)->waiting_ns, clock_ns(), memory_order_relaxed);
  return 0;
}

void ep_remote_hear(struct ep_net *net, const void *bytes, size_t size) {
  uint64_t id;
  if (size < sizeof id)
    return;
  memcpy(&id, bytes, sizeof id);
  struct ep_remote *remote = ep_remote_find(net, id);
  if (!remote) // late: the link has been let go of; or a stranger's, who guesses numbers
    return;
  // What came before its sender could not be reached any more counts; nobody believes one that has written nonsense.
  if (atomic_load(&remote->failed) == WEFT_ERR_PROTOCOL)
    return;
  atomic_fetch_add(&remote->heard, 1);
  if (remote->proxy) {
    ep_proxy_hear(remote, bytes, size);
    return;
  }
  if (take_note(remote, bytes, size) != 0)
    ep_remote_fail(remote, WEFT_ERR_PROTOCOL, weft_last_error());
  ep_doorbell_ring(ep_own_bell(remote->ep));
}
