// Posts operations to UCX, and takes their completions.
#include <string.h>

#include "transport/ucx/ucx.h"

size_t ucx_op_size(const struct ucx_worker *worker) {
  return sizeof(struct flow_op) + (worker->request_size + 63) / 64 * 64 + UCX_OURS;
}

static void ended(void *request, ucs_status_t status, void *arg) {
  struct flow_op *op = arg;
  (void)request;
  if (status == UCS_OK)
    flow_ended(op, 0, NULL);
  else
    flow_ended(op, ucx_code(status), ucs_status_string(status));
}

static ucp_request_param_t parameters(struct flow_request *own, struct flow_op *op) {
  return (ucp_request_param_t){
      .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_REQUEST,
      .cb.send = ended,
      .user_data = op,
      .request = ucx_place(own, op),
  };
}

static int how(ucs_status_ptr_t result, const char *what) {
  if (!result)
    return FLOW_DONE;
  if (UCS_PTR_IS_ERR(result))
    return ucx_fail(UCS_PTR_STATUS(result), "UCX refuses %s", what);
  return FLOW_STARTED;
}

int ucx_move(struct flow_request *own, const struct transport_piece *piece, uint64_t offset, struct flow_op *op) {
  ucp_ep_h ep = ((struct ucx_peer *)own->peer)->ep;
  ucp_rkey_h rkey = ((struct ucx_remote *)piece->remote)->rkey;
  ucp_mem_h memory = ((struct ucx_region *)piece->local)->memory;
  if (!rkey || !memory)
    return ucx_ask(own, piece, offset, op);
  ucp_request_param_t param = parameters(own, op);
  void *local = (void *)(uintptr_t)(piece->local_address + offset);
  uint64_t remote = piece->remote_address + offset;
  param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FIELD_MEMH;
  param.memory_type = ucx_memory_type(piece->local->memory.kind);
  param.memh = memory;
  return own->request->op == WEFT_TRANSFER_WRITE
             ? how(ucp_put_nbx(ep, local, op->length, remote, rkey, &param), "a put")
             : how(ucp_get_nbx(ep, local, op->length, remote, rkey, &param), "a get");
}

// Not from inside a callback of UCX: while 1.18 sends operations that waited for a connection, a flush fails an
// assertion, which ends the process. The same progress() tries again.
int ucx_settle(struct flow_request *own, struct flow_op *op) {
  const struct transport_request *request = own->request;
  uint32_t served = 0;
  while (served < request->num_pieces && !((struct ucx_remote *)request->pieces[served].remote)->rkey)
    served++;
  if (served == request->num_pieces)
    return FLOW_DONE; // each operation was answered
  if (((struct ucx_worker *)own->worker)->driving)
    return FLOW_AGAIN;
  ucp_request_param_t param = parameters(own, op);
  return how(ucp_ep_flush_nbx(((struct ucx_peer *)own->peer)->ep, &param), "a flush");
}

static void message_ended(void *request, ucs_status_t status, void *arg) {
  struct ucx_message *message = arg;
  (void)request;
  if (status != UCS_OK && ucx_keep_unsent(message)) // else the endpoint reports the failure
    return;
  message->peer->sent |= status == UCS_OK;
  message->next = message->peer->free_messages;
  message->peer->free_messages = message;
}

int ucx_send_message(struct ucx_message *message) {
  ucp_request_param_t param = {
      .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_REQUEST |
                      UCP_OP_ATTR_FIELD_FLAGS,
      .flags = UCP_AM_SEND_FLAG_EAGER,
      .cb.send = message_ended,
      .user_data = message,
      .request = message->request,
  };
  int result =
      how(ucp_am_send_nbx(message->peer->ep, UCX_MESSAGE, NULL, 0, message->bytes, message->size, &param), "a message");
  if (result != FLOW_STARTED)
    message_ended(NULL, UCS_OK, message);
  return result < 0 ? result : FLOW_DONE;
}

int ucx_send(struct flow_request *own, struct flow_op *op) {
  struct ucx_peer *peer = (struct ucx_peer *)own->peer;
  struct ucx_message *message = peer->free_messages;
  (void)op;
  if (!message || peer->again_ns != 0)
    return FLOW_AGAIN;
  // With the first message, so that the peer knows this initiator before the two can be separated.
  if (!peer->hello_sent && !peer->direct && ((struct ucx_worker *)own->worker)->serve != 0) {
    int rc = ucx_send_hello(peer);
    if (rc != 0)
      return rc;
  }
  message->size = own->request->message_size;
  memcpy(message->bytes, own->request->message, message->size);
  peer->free_messages = message->next;
  return ucx_send_message(message);
}
