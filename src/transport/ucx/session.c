// Whose accesses are served. Before a peer sends its first access over a connection it asks to be let in, and gets a
// pass, which all its accesses bear. A fence makes the passes void that a worker has got so far, and so refuses what of
// its accesses is under way.
//
//   hello (the initiator's number) -> welcome (the pass) -> accesses with the pass
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/random.h"
#include "transport/ucx/ucx.h"

enum { INDEX_BITS = 20 }; // of a pass; above them stands a generation

// An initiator that was let in.
struct ucx_known {
  uint64_t initiator, pass;
};

struct ucx_hello {
  uint64_t initiator, session;
};

struct ucx_welcome {
  uint64_t session, pass;
  int64_t status;
};

// --- the target ---

static struct ucx_known *find(struct ucx_worker *worker, uint64_t initiator) {
  for (uint32_t i = 0; i < worker->num_known; i++) {
    if (worker->known[i].initiator == initiator)
      return &worker->known[i];
  }
  return NULL;
}

static struct ucx_known *add(struct ucx_worker *worker, uint64_t initiator) {
  uint32_t index = worker->num_known;
  if (index >= worker->room_known) {
    uint32_t room = index ? index * 2 : 64;
    struct ucx_known *known = index >> INDEX_BITS ? NULL : realloc(worker->known, room * sizeof *known);
    if (!known)
      return NULL;
    worker->known = known;
    worker->room_known = room;
  }
  worker->known[index] = (struct ucx_known){.initiator = initiator, .pass = random_id() << INDEX_BITS | index};
  worker->num_known++;
  return &worker->known[index];
}

bool ucx_pass_is_good(const struct ucx_worker *worker, uint64_t pass) {
  uint64_t index = pass & ((1u << INDEX_BITS) - 1);
  return index < worker->num_known && worker->known[index].pass == pass;
}

void ucx_fence(struct transport_peer *base) {
  struct ucx_worker *worker = (struct ucx_worker *)base->worker;
  struct ucx_peer *peer = (struct ucx_peer *)base;
  struct ucx_known *known = find(worker, peer->id);
  if (known)
    known->pass += UINT64_C(1) << INDEX_BITS;
  if (peer->direct)
    ucx_sever(&peer->flow);
}

static void welcome_sent(void *request, ucs_status_t status, void *arg) {
  (void)status;
  free(arg);
  if (request)
    ucp_request_free(request);
}

ucs_status_t ucx_on_hello(void *arg, const void *header, size_t header_size, void *data, size_t size,
                          const ucp_am_recv_param_t *param) {
  struct ucx_worker *worker = arg;
  struct ucx_hello hello;
  (void)data, (void)size;
  if (header_size != sizeof hello || !(param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP))
    return UCS_OK; // nothing that Weft sends
  memcpy(&hello, header, sizeof hello);
  struct ucx_welcome *welcome = malloc(sizeof *welcome); // until UCX has sent it
  if (!welcome)
    return UCS_OK; // the initiator ends what waits by its deadline
  struct ucx_known *known = find(worker, hello.initiator);
  known = known ? known : add(worker, hello.initiator);
  *welcome = (struct ucx_welcome){
      .session = hello.session, .pass = known ? known->pass : 0, .status = known ? 0 : WEFT_ERR_NOMEM};
  worker->flow.events++;
  ucp_request_param_t send = {
      .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
      .flags = UCP_AM_SEND_FLAG_EAGER,
      .cb.send = welcome_sent,
      .user_data = welcome,
  };
  void *request = ucp_am_send_nbx(param->reply_ep, UCX_WELCOME, welcome, sizeof *welcome, NULL, 0, &send);
  if (!UCS_PTR_IS_PTR(request))
    welcome_sent(NULL, UCS_OK, welcome);
  return UCS_OK;
}

// --- the initiator ---

static void hello_sent(void *request, ucs_status_t status, void *arg) {
  (void)status, (void)arg; // a failure is the endpoint's, which tells of it
  ucp_request_free(request);
}

int ucx_greet(struct ucx_peer *peer) {
  struct ucx_worker *worker = (struct ucx_worker *)peer->flow.base.worker;
  peer->hello[0] = worker->id;
  peer->hello[1] = ++worker->sessions;
  ucp_request_param_t param = {
      .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_FLAGS,
      .flags = UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_REPLY,
      .cb.send = hello_sent,
  };
  peer->greeted = true;
  void *request = ucp_am_send_nbx(peer->ep, UCX_HELLO, peer->hello, sizeof peer->hello, NULL, 0, &param);
  peer->greeted = !UCS_PTR_IS_ERR(request);
  return peer->greeted ? 0 : ucx_fail(UCS_PTR_STATUS(request), "UCX refuses an active message");
}

ucs_status_t ucx_on_welcome(void *arg, const void *header, size_t header_size, void *data, size_t size,
                            const ucp_am_recv_param_t *param) {
  struct ucx_worker *worker = arg;
  struct ucx_welcome welcome;
  (void)data, (void)size, (void)param;
  if (header_size != sizeof welcome)
    return UCS_OK;
  memcpy(&welcome, header, sizeof welcome);
  for (struct link *link = worker->flow.peers.next; link != &worker->flow.peers; link = link->next) {
    struct ucx_peer *peer = (struct ucx_peer *)LINK_OF(link, struct flow_peer, peers);
    if (!peer->greeted || peer->let_in || peer->hello[1] != welcome.session || !peer->ep)
      continue;
    peer->let_in = welcome.status == 0;
    peer->pass = welcome.pass;
    worker->flow.events++;
    if (peer->let_in)
      ucx_serve_begin(peer);
    else
      flow_peer_failed(&peer->flow, WEFT_ERR_UNREACHABLE, "the peer lets nobody in");
    break;
  }
  return UCS_OK;
}
