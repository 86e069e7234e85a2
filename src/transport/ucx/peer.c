// Peers of the transport ucx: endpoints, and how their end is noticed.
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/wire/card.h"
#include "transport/ucx/ucx.h"

static const struct card address_card = {"address of ucx", 0x61757731, 3};

int ucx_address(struct transport_worker *base, void *bytes, size_t *size) {
  struct ucx_worker *worker = (struct ucx_worker *)base;
  struct wire_writer writer = card_begin(&address_card, bytes, *size);
  wire_put_number(&writer, worker->id, 8);
  wire_put(&writer, worker->address, worker->address_size);
  int rc = card_end(&address_card, &writer, size);
  return rc ? fail_context(rc, "choose fewer devices with UCX_NET_DEVICES") : 0;
}

// Called inside UCX, so the rest is done in progress().
static void failed(void *arg, ucp_ep_h ep, ucs_status_t status) {
  struct ucx_peer *peer = arg;
  (void)ep;
  if (!ucx_try_again(peer, status))
    flow_peer_failed(&peer->flow, WEFT_ERR_PEER_LOST, ucs_status_string(status));
}

// Allocates a peer with room for its messages and its address.
static struct ucx_peer *make_peer(struct ucx_worker *worker, const void *address, size_t address_size) {
  size_t head = (sizeof(struct ucx_peer) + 63) / 64 * 64;
  size_t request = (worker->request_size + 63) / 64 * 64, bytes = (TRANSPORT_MAX_MESSAGE + 63) / 64 * 64;
  size_t messages = head + UCX_MESSAGES * (request + bytes),
         size = messages + (address_size + UCX_SLACK + 63) / 64 * 64;
  struct ucx_peer *peer = aligned_alloc(64, size);
  if (!peer)
    return NULL;
  memset(peer, 0, size);
  for (int i = 0; i < UCX_MESSAGES; i++) {
    struct ucx_message *message = &peer->messages[i];
    message->peer = peer;
    message->bytes = (unsigned char *)peer + head + (size_t)i * (request + bytes) + request;
    message->request = message->bytes; // UCX's own stands before
    message->next = peer->free_messages;
    peer->free_messages = message;
  }
  peer->unsent_end = &peer->unsent;
  peer->address = (unsigned char *)peer + messages;
  memcpy(peer->address, address, address_size);
  flow_peer_init(&peer->flow, &worker->flow);
  return peer;
}

// Finds out how UCX reaches that peer.
static void look_at(struct ucx_peer *peer) {
  char *text = ucx_ep_text(peer->ep);
  if (!text)
    return;
  bool tcp = strstr(text, ":tcp/");
  peer->own = strstr(text, ":self/");
  peer->near = !tcp && (strstr(text, ":posix/") || strstr(text, ":sysv/") || peer->own);
  peer->direct = !tcp && !peer->near && (strstr(text, ":rc_") || strstr(text, ":dc_"));
  free(text);
}

ucs_status_t ucx_open_ep(struct ucx_peer *peer) {
  ucp_ep_params_t params = {
      .field_mask =
          UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
      .address = (const void *)peer->address,
      .err_mode = UCP_ERR_HANDLING_MODE_PEER,
      .err_handler = {.cb = failed, .arg = peer},
  };
  ucs_status_t status = ucp_ep_create(((struct ucx_worker *)peer->flow.base.worker)->worker, &params, &peer->ep);
  if (status != UCS_OK)
    peer->ep = NULL;
  else
    look_at(peer);
  return status;
}

int ucx_connect(struct transport_worker *base, const void *address, size_t size, const char *owner,
                struct transport_peer **made) {
  (void)owner;
  struct ucx_worker *worker = (struct ucx_worker *)base;
  struct wire_reader body;
  int rc = card_read(&address_card, address, size, &body);
  if (rc != 0)
    return rc;
  uint64_t id = wire_take_number(&body, 8);
  if (body.failed || wire_left(&body) == 0)
    return fail(WEFT_ERR_PROTOCOL, "an address of ucx is cut short");
  rc = ucx_address_check(body.bytes + body.at, wire_left(&body), &worker->sizes);
  if (rc != 0)
    return rc;
  struct ucx_peer *peer = make_peer(worker, body.bytes + body.at, wire_left(&body));
  if (!peer)
    return fail(WEFT_ERR_NOMEM, "no memory for a peer");
  peer->id = id;
  ucs_status_t status = ucx_open_ep(peer);
  if (status != UCS_OK) {
    link_remove(&peer->flow.peers);
    free(peer);
    rc = ucx_fail(status, "UCX has no transport to that worker that reports failures");
    return status == UCS_ERR_UNREACHABLE || status == UCS_ERR_UNSUPPORTED ? WEFT_ERR_UNREACHABLE : rc;
  }
  *made = &peer->flow.base;
  return 0;
}

// Whether a request of UCX's pool has ended; it is given back then.
static bool ended(void **request) {
  if (*request && ucp_request_check_status(*request) == UCS_INPROGRESS)
    return false;
  if (*request)
    ucp_request_free(*request);
  *request = NULL;
  return true;
}

static void *pooled(ucs_status_ptr_t request) {
  return UCS_PTR_IS_PTR(request) ? request : NULL;
}

bool ucx_close_ep(struct ucx_peer *peer) {
  ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
  if (peer->ep)
    peer->closing = pooled(ucp_ep_close_nbx(peer->ep, &param));
  peer->ep = NULL;
  return ended(&peer->closing);
}

void ucx_sever(struct flow_peer *base) {
  struct ucx_peer *peer = (struct ucx_peer *)base;
  if (!ucx_give_up(peer) && !peer->ep)
    return;
  flow_peer_failed(base, WEFT_ERR_PEER_LOST, "requests to it did not end after they were cancelled: it was cut off");
  ucx_close_ep(peer);
  ucx_access_lost(peer);
}

void ucx_fence(struct transport_peer *base) {
  struct ucx_peer *peer = (struct ucx_peer *)base;
  ucx_session_void((struct ucx_worker *)base->worker, peer->id);
  if (peer->direct)
    ucx_sever(&peer->flow);
}

// Sent messages are flushed first, so that a last message arrives.
bool ucx_part(struct flow_peer *base) {
  struct ucx_peer *peer = (struct ucx_peer *)base;
  if (peer->ep && !peer->flushed) {
    ucp_request_param_t param = {.op_attr_mask = 0};
    peer->flushed = true;
    peer->flushing = pooled(ucp_ep_flush_nbx(peer->ep, &param));
  }
  if (!ended(&peer->flushing))
    return false;
  ucx_sever(base);
  return ucx_close_ep(peer);
}
