// Sessions determine whose accesses are served. Before a peer sends its first access over a connection it sends a
// hello, and gets a pass, which all its accesses carry. A fence invalidates the pass of a worker, so that its accesses
// under way are refused.
//
//   hello (the initiator's number) -> welcome (the pass) -> accesses with the pass
//
// Every process that reaches the worker gets a pass: the key of a region, 64 random bits, protects memory. An initiator
// that gives a false number gets a pass that no fence of it invalidates. Against such an initiator, deregister the
// region.
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/random.h"
#include "transport/ucx/ucx.h"

enum { MOST_KNOWN = 16384 };

// A connection that has a pass, and the number that its initiator gave last. Several have the same number where a
// worker has connected again, or lies: all peers of a worker have its number, so nothing of one connection follows from
// it.
struct ucx_known {
  uint64_t initiator, pass;
  ucp_ep_h ep;
  struct ucx_owed owed;
};

// `tag`: a number that the initiator drew for this peer alone, which a welcome and all answers bear.
struct ucx_hello {
  uint64_t initiator, tag;
};

struct ucx_welcome {
  uint64_t tag, pass, session;
  int64_t status;
};

// On its way.
struct letting {
  struct ucx_welcome welcome;
  struct ucx_worker *worker;
  uint32_t session;
};

// --- the target ---

// If an initiator gives another number over the same connection, this replaces the first: a connection has one entry.
static struct ucx_known *place_of(struct ucx_worker *worker, ucp_ep_h ep) {
  for (uint32_t i = 0; i < worker->num_known; i++) {
    if (worker->known[i].ep == ep)
      return &worker->known[i];
  }
  uint32_t index = worker->num_known;
  if (index >= worker->room_known) {
    uint32_t room = index ? index * 2 : 64;
    struct ucx_known *known = index >= MOST_KNOWN ? NULL : realloc(worker->known, room * sizeof *known);
    if (!known)
      return NULL;
    worker->known = known;
    worker->room_known = room;
  }
  worker->known[index] = (struct ucx_known){.ep = ep, .pass = random_id()};
  worker->num_known++;
  return &worker->known[index];
}

static struct ucx_known *let_in(struct ucx_worker *worker, uint64_t initiator, ucp_ep_h ep) {
  struct ucx_known *known = place_of(worker, ep);
  if (known && known->initiator != initiator) {
    known->initiator = initiator;
    known->pass = random_id();
  }
  return known;
}

bool ucx_pass_is_good(const struct ucx_worker *worker, uint32_t session, uint64_t pass) {
  return session < worker->num_known && worker->known[session].pass == pass;
}

struct ucx_owed *ucx_owed(struct ucx_worker *worker, uint32_t session) {
  return session < worker->num_known ? &worker->known[session].owed : &worker->owed_strangers;
}

void ucx_session_void(struct ucx_worker *worker, uint64_t initiator) {
  for (uint32_t i = 0; i < worker->num_known; i++) {
    if (worker->known[i].initiator == initiator)
      worker->known[i].pass = random_id();
  }
}

void ucx_session_close(struct ucx_worker *worker) {
  free(worker->known);
}

static void welcome_sent(void *request, ucs_status_t status, void *arg) {
  struct letting *letting = arg;
  (void)status;
  ucx_owed(letting->worker, letting->session)->all--;
  free(letting);
  if (request)
    ucp_request_free(request);
}

// The welcome is kept until UCX has sent it. NULL: there is no memory, or too many answers are owed already.
static struct letting *make_welcome(struct ucx_worker *worker, const struct ucx_known *known, uint64_t tag) {
  uint32_t session = known ? (uint32_t)(known - worker->known) : UCX_NO_SESSION;
  struct ucx_owed *owed = ucx_owed(worker, session);
  struct letting *letting = owed->all < UCX_MOST_OWED ? malloc(sizeof *letting) : NULL;
  if (!letting)
    return NULL;
  owed->all++;
  *letting = (struct letting){.worker = worker, .session = session};
  letting->welcome = (struct ucx_welcome){
      .tag = tag, .pass = known ? known->pass : 0, .session = session, .status = known ? 0 : WEFT_ERR_NOMEM};
  return letting;
}

ucs_status_t ucx_on_hello(void *arg, const void *header, size_t header_size, void *data, size_t size,
                          const ucp_am_recv_param_t *param) {
  struct ucx_worker *worker = arg;
  struct ucx_hello hello;
  (void)data, (void)size;
  if (header_size != sizeof hello || !(param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP))
    return UCS_OK; // Weft sends no such message
  memcpy(&hello, header, sizeof hello);
  struct letting *letting = make_welcome(worker, let_in(worker, hello.initiator, param->reply_ep), hello.tag);
  if (!letting)
    return UCS_OK; // the initiator ends its waiting operations at their deadline
  worker->flow.events++;
  ucp_request_param_t send = {
      .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
      .flags = UCP_AM_SEND_FLAG_EAGER,
      .cb.send = welcome_sent,
      .user_data = letting,
  };
  void *request =
      ucp_am_send_nbx(param->reply_ep, UCX_WELCOME, &letting->welcome, sizeof letting->welcome, NULL, 0, &send);
  if (!UCS_PTR_IS_PTR(request))
    welcome_sent(NULL, UCS_OK, letting);
  return UCS_OK;
}

// --- the initiator ---

static void hello_sent(void *request, ucs_status_t status, void *arg) {
  (void)status, (void)arg; // the endpoint reports a failure
  ucp_request_free(request);
}

int ucx_send_hello(struct ucx_peer *peer) {
  struct ucx_worker *worker = (struct ucx_worker *)peer->flow.base.worker;
  peer->hello[0] = worker->id;
  peer->hello[1] = random_id();
  ucp_request_param_t param = {
      .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_FLAGS,
      .flags = UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_REPLY,
      .cb.send = hello_sent,
  };
  peer->hello_sent = true;
  void *request = ucp_am_send_nbx(peer->ep, UCX_HELLO, peer->hello, sizeof peer->hello, NULL, 0, &param);
  peer->hello_sent = !UCS_PTR_IS_ERR(request);
  return peer->hello_sent ? 0 : ucx_fail(UCS_PTR_STATUS(request), "UCX refuses an active message");
}

struct ucx_peer *ucx_welcomed(struct ucx_worker *worker, const void *header, size_t size) {
  struct ucx_welcome welcome;
  if (size != sizeof welcome)
    return NULL;
  memcpy(&welcome, header, sizeof welcome);
  for (struct link *link = worker->flow.peers.next; link != &worker->flow.peers; link = link->next) {
    struct ucx_peer *peer = (struct ucx_peer *)LINK_OF(link, struct flow_peer, peers);
    if (!peer->hello_sent || peer->let_in || peer->hello[1] != welcome.tag || !peer->ep)
      continue;
    peer->let_in = welcome.status == 0;
    peer->pass = welcome.pass;
    peer->session = (uint32_t)welcome.session;
    worker->flow.events++;
    if (!peer->let_in)
      flow_peer_failed(&peer->flow, WEFT_ERR_UNREACHABLE, "the peer accepts no more initiators");
    return peer->let_in ? peer : NULL;
  }
  return NULL;
}
