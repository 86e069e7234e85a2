#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "transport/ucx/ucx.h"

enum { ADDRESS_MAGIC = 0x61757731 };

int ucx_address(struct transport_worker *base, void *bytes, size_t *size) {
  struct ucx_worker *worker = (struct ucx_worker *)base;
  int rc = flow_card_write("the address of ucx", ADDRESS_MAGIC, worker->address, worker->address_size, bytes, size);
  return rc ? fail_context(rc, "choose fewer devices with UCX_NET_DEVICES") : 0;
}

// From inside UCX: what is to be done about it is done in progress().
static void failed(void *arg, ucp_ep_h ep, ucs_status_t status) {
  struct ucx_peer *peer = arg;
  (void)ep;
  flow_peer_failed(&peer->flow, WEFT_ERR_PEER_LOST, ucs_status_string(status));
}

int ucx_connect(struct transport_worker *base, const void *address, size_t size, struct transport_peer **made) {
  struct ucx_worker *worker = (struct ucx_worker *)base;
  const void *body;
  size_t body_size;
  int rc = flow_card_read("address of ucx", ADDRESS_MAGIC, address, size, &body, &body_size);
  if (rc != 0)
    return rc;
  struct ucx_peer *peer = calloc(1, sizeof *peer);
  if (!peer)
    return fail(WEFT_ERR_NOMEM, "no memory for a peer");
  flow_peer_init(&peer->flow, &worker->flow);
  ucp_ep_params_t params = {
      .field_mask =
          UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
      .address = body,
      .err_mode = UCP_ERR_HANDLING_MODE_PEER,
      .err_handler = {.cb = failed, .arg = peer},
  };
  ucs_status_t status = ucp_ep_create(worker->worker, &params, &peer->ep);
  if (status != UCS_OK) {
    link_remove(&peer->flow.peers);
    free(peer);
    rc = ucx_fail(status, "UCX has no way to that worker that tells of failures");
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

void ucx_sever(struct flow_peer *base) {
  struct ucx_peer *peer = (struct ucx_peer *)base;
  if (!peer->ep)
    return;
  ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
  peer->closing = pooled(ucp_ep_close_nbx(peer->ep, &param));
  peer->ep = NULL;
}

// What was sent is flushed first, so that a last message arrives.
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
  return ended(&peer->closing);
}
