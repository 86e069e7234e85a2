// Retries a connection that could not be made a few times. Right after a link is up again the kernel still reports its
// host as unreachable, since the last ARP request had no answer, and UCX gives up at the first such error. Nothing is
// lost and nothing is sent twice: accesses wait for the peer's welcome, unsent messages are kept here, and after one
// was sent there are no more retries.
#include "base/fail.h"
#include "base/time/clock.h"
#include "transport/ucx/ucx.h"

// An attempt takes up to three seconds if no host answers, and no time if no process listens because the peer has
// ended.
static const uint32_t pauses_ms[] = {10, 50, 100};

static bool tries_again(const struct ucx_peer *peer) {
  return peer->again_ns != 0;
}

// Only a welcome shows that the peer was reached, and a hello is sent only where accesses are served.
static bool never_reached(const struct ucx_peer *peer) {
  bool asks = ((const struct ucx_worker *)peer->flow.base.worker)->serve != 0 && !peer->direct && !peer->near;
  return asks && !peer->let_in && !peer->sent && !peer->flow.lost && !peer->flow.leaving;
}

static bool may_try_again(const struct ucx_peer *peer) {
  bool may = peer->ep && peer->tries < sizeof pauses_ms / sizeof *pauses_ms;
  return never_reached(peer) && (may || tries_again(peer));
}

bool ucx_try_again(struct ucx_peer *peer, ucs_status_t status) {
  if (tries_again(peer))
    return true;
  if (status != UCS_ERR_ENDPOINT_TIMEOUT || !may_try_again(peer))
    return false;
  ((struct ucx_worker *)peer->flow.base.worker)->num_again++;
  peer->again_ns = clock_deadline_ms(pauses_ms[peer->tries++]);
  return true;
}

bool ucx_give_up(struct ucx_peer *peer) {
  bool did = tries_again(peer);
  ((struct ucx_worker *)peer->flow.base.worker)->num_again -= did;
  peer->again_ns = 0;
  return did;
}

bool ucx_keep_unsent(struct ucx_message *message) {
  if (!may_try_again(message->peer))
    return false;
  message->next = NULL;
  *message->peer->unsent_end = message;
  message->peer->unsent_end = &message->next;
  return true;
}

static int send_unsent(struct ucx_peer *peer) {
  struct ucx_message *unsent = peer->unsent;
  peer->unsent = NULL;
  peer->unsent_end = &peer->unsent;
  int rc = ucx_send_hello(peer);
  while (unsent && rc >= 0) {
    struct ucx_message *message = unsent;
    unsent = message->next;
    rc = ucx_send_message(message);
  }
  return rc < 0 ? rc : 0;
}

// In steps: UCX holds pointers into the peer until the failed endpoint is closed.
static bool connect_again(struct ucx_peer *peer) {
  if (!ucx_close_ep(peer))
    return false;
  ucx_give_up(peer);
  ucs_status_t status = ucx_open_ep(peer);
  int rc = status == UCS_OK ? send_unsent(peer) : ucx_fail(status, "UCX does not connect again");
  if (rc < 0)
    flow_peer_failed(&peer->flow, WEFT_ERR_PEER_LOST, weft_last_error());
  return true;
}

uint32_t ucx_again(struct ucx_worker *worker) {
  uint32_t events = 0;
  for (struct link *link = worker->flow.peers.next; link != &worker->flow.peers; link = link->next) {
    struct ucx_peer *peer = (struct ucx_peer *)LINK_OF(link, struct flow_peer, peers);
    if (tries_again(peer) && clock_passed(peer->again_ns))
      events += connect_again(peer);
  }
  return events;
}
