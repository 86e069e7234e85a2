// Accesses that the target serves: the initiator's side. The target's is serve.c.
#include "transport/ucx/access.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "transport/ucx/ucx.h"

// The events for which an operation waits, in flow_op.more.
enum {
  LOCAL = 1,  // that UCX has sent it
  REMOTE = 2, // the answer
  HELD = 4,   // besides: that the peer lets us in, before it is sent
};

// The initiator's state of an operation.
struct asking {
  struct ucx_ask ask;
  void *local;
  const struct ucx_region *region; // that of `local`
  struct ucx_bounce *bounce;       // from which UCX sends; NULL: from `local`
  int refused;                     // the status of an answer that arrived while UCX was still sending
};
_Static_assert(sizeof(struct asking) <= UCX_OURS, "what ucx_place() has");

static uint64_t cookie_of(const struct ucx_worker *worker, uint32_t index) {
  return (uint64_t)worker->asked[index].generation << 32 | index;
}

static void forget(struct ucx_worker *worker, uint32_t index) {
  struct ucx_asked *asked = &worker->asked[index];
  asked->op = NULL;
  asked->generation++;
  asked->next = worker->free_asked;
  worker->free_asked = index;
}

static struct asking *asking_of(struct flow_op *op) {
  return ucx_place(op->own, op);
}

static void give_bounce(struct flow_op *op) {
  struct asking *asking = asking_of(op);
  if (asking->bounce)
    ucx_bounce_give(&((struct ucx_worker *)op->own->worker)->gpus, asking->bounce);
  asking->bounce = NULL;
}

static const char *text_of(int status) {
  switch (status) {
  case WEFT_ERR_NOT_FOUND:
    return "the peer has no such region any more";
  case WEFT_ERR_INVALID:
    return "the peer refuses: outside its region, or a read-only region";
  case WEFT_ERR_SYSTEM:
    return "the peer's GPU cannot copy it";
  case WEFT_ERR_PEER_LOST:
    return "the peer has fenced this worker";
  default:
    return "the peer refuses";
  }
}

// An answer has arrived. It may arrive before UCX has finished sending, and until then UCX reads the local memory.
static void answered(struct flow_op *op, int err, const char *why) {
  op->more &= ~(uint32_t)REMOTE;
  asking_of(op)->refused = err;
  if (op->more == 0)
    flow_ended(op, err, why);
}

// The access was sent (err 0), or will not be sent; then no answer will arrive.
static void left(struct flow_op *op, int err, const char *why) {
  struct asking *asking = asking_of(op);
  op->more &= ~(uint32_t)LOCAL;
  give_bounce(op);
  if (err != 0 && op->more)
    forget((struct ucx_worker *)op->own->worker, (uint32_t)asking->ask.cookie);
  if (err != 0)
    op->more = 0;
  else
    flow_taken(op);
  if (op->more == 0 && err == 0 && asking->refused != 0)
    flow_ended(op, asking->refused, text_of(asking->refused));
  else if (op->more == 0)
    flow_ended(op, err, why);
}

static void sent(void *request, ucs_status_t status, void *arg) {
  (void)request;
  left(arg, status == UCS_OK ? 0 : ucx_code(status), status == UCS_OK ? NULL : ucs_status_string(status));
}

// FLOW_DONE: it has been sent; FLOW_STARTED: sent() will be called.
static int send_ask(struct flow_op *op) {
  const struct asking *asking = asking_of(op);
  bool write = op->own->request->op == WEFT_TRANSFER_WRITE;
  ucp_request_param_t param = {
      .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_REQUEST |
                      UCP_OP_ATTR_FIELD_FLAGS,
      .flags = UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_REPLY,
      .cb.send = sent,
      .user_data = op,
      .request = ucx_place(op->own, op),
  };
  const void *bytes = asking->bounce ? asking->bounce->bytes : asking->local;
  void *request = ucp_am_send_nbx(((struct ucx_peer *)op->own->peer)->ep, write ? UCX_WRITE : UCX_READ, &asking->ask,
                                  sizeof asking->ask, write ? bytes : NULL, write ? op->length : 0, &param);
  if (!UCS_PTR_IS_PTR(request))
    give_bounce(op);
  if (UCS_PTR_IS_ERR(request))
    return ucx_fail(UCS_PTR_STATUS(request), "UCX refuses an active message");
  if (!request)
    op->more &= ~(uint32_t)LOCAL;
  return request ? FLOW_STARTED : FLOW_DONE;
}

// Fills in the values of the peer's welcome, and the tag of this side's hello.
static void fill_in_pass(struct asking *asking, const struct ucx_peer *peer) {
  asking->ask.pass = peer->pass;
  asking->ask.session = peer->session;
  asking->ask.tag = peer->hello[1];
}

int ucx_ask(struct flow_request *own, const struct transport_piece *piece, uint64_t offset, struct flow_op *op) {
  struct ucx_worker *worker = (struct ucx_worker *)own->worker;
  struct ucx_peer *peer = (struct ucx_peer *)own->peer;
  struct asking *asking = asking_of(op);
  uint32_t index = worker->free_asked;
  struct ucx_bounce *bounce = NULL;
  if (index == UCX_ASKED || peer->again_ns != 0)
    return FLOW_AGAIN;
  int err = peer->hello_sent ? 0 : ucx_send_hello(peer);
  if (err != 0)
    return err;
  if (own->request->op == WEFT_TRANSFER_WRITE && piece->local->memory.kind != WEFT_MEMORY_HOST) {
    const void *from = (const void *)(uintptr_t)(piece->local_address + offset);
    bounce = ucx_bounce_take(&worker->gpus);
    if (!bounce)
      return FLOW_AGAIN;
    int rc = ucx_copy(worker, (struct ucx_region *)piece->local, bounce->bytes, from, op->length);
    if (rc != 0) {
      ucx_bounce_give(&worker->gpus, bounce);
      return rc;
    }
  }
  worker->free_asked = worker->asked[index].next;
  worker->asked[index].op = op;
  *asking = (struct asking){
      .ask = {.cookie = cookie_of(worker, index),
              .key = ((struct ucx_remote *)piece->remote)->key,
              .address = piece->remote_address + offset,
              .length = op->length,
              .region = ((struct ucx_remote *)piece->remote)->index},
      .local = (void *)(uintptr_t)(piece->local_address + offset),
      .region = (struct ucx_region *)piece->local,
      .bounce = bounce,
  };
  fill_in_pass(asking, peer);
  op->more = LOCAL | REMOTE;
  if (!peer->let_in) {
    op->more |= HELD;
    peer->held++;
    return FLOW_STARTED;
  }
  int rc = send_ask(op);
  if (rc < 0) {
    forget(worker, index);
    return rc;
  }
  op->taken = !(op->more & LOCAL);
  return FLOW_STARTED;
}

// The operation that this answer ends: it was sent to the peer of that tag, and has no answer yet. NULL: none, since
// the answer is late or false.
static struct flow_op *answered_op(const struct ucx_worker *worker, const struct ucx_reply *answer) {
  uint32_t index = (uint32_t)answer->cookie;
  struct flow_op *op = index < UCX_ASKED ? worker->asked[index].op : NULL;
  if (!op || cookie_of(worker, index) != answer->cookie || op->more & HELD || !(op->more & REMOTE))
    return NULL;
  return asking_of(op)->ask.tag == answer->tag ? op : NULL;
}

// The status that the peer gave: 0, or a code of Weft's.
static int status_of(const struct ucx_reply *answer, bool read, uint64_t wanted, size_t size) {
  enum { LEAST = -100 };
  if (answer->status > 0 || answer->status < LEAST)
    return WEFT_ERR_PROTOCOL;
  return read && answer->status == 0 && size != wanted ? WEFT_ERR_PROTOCOL : (int)answer->status;
}

ucs_status_t ucx_on_answer(void *arg, const void *header, size_t header_size, void *data, size_t size,
                           const ucp_am_recv_param_t *param) {
  struct ucx_worker *worker = arg;
  struct ucx_reply answer;
  if (header_size != sizeof answer || param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)
    return UCS_OK;
  memcpy(&answer, header, sizeof answer);
  struct flow_op *op = answered_op(worker, &answer);
  if (!op)
    return UCS_OK;
  bool read = op->own->request->op == WEFT_TRANSFER_READ;
  // A write whose memory was read must not be sent again: the memory may have changed.
  if (answer.status == WEFT_ERR_BUSY && read && !(op->more & LOCAL)) {
    op->more |= LOCAL;
    int again = send_ask(op);
    if (again < 0)
      left(op, again, weft_last_error());
    return UCS_OK;
  }
  if (answer.status == WEFT_ERR_PEER_LOST)
    flow_peer_failed(op->own->peer, WEFT_ERR_PEER_LOST, text_of(WEFT_ERR_PEER_LOST));
  int status = status_of(&answer, read, op->length, size);
  if (read && status == 0)
    status = ucx_copy(worker, asking_of(op)->region, asking_of(op)->local, data, size);
  forget(worker, (uint32_t)answer.cookie);
  answered(op, status, status ? text_of(status) : NULL);
  return UCS_OK;
}

// Ends an access that has not been sent, and will not be.
static void drop_held(struct flow_op *op, int err, const char *why) {
  ((struct ucx_peer *)op->own->peer)->held--;
  op->more = LOCAL | REMOTE;
  left(op, err, why);
}

// Sends the accesses that waited for a pass.
static void begin(struct ucx_peer *peer) {
  struct ucx_worker *worker = (struct ucx_worker *)peer->flow.base.worker;
  for (uint32_t i = 0; i < UCX_ASKED && peer->held > 0; i++) {
    struct flow_op *op = worker->asked[i].op;
    if (!op || op->own->peer != &peer->flow || !(op->more & HELD))
      continue;
    if (op->own->err != 0) { // cancelled meanwhile
      drop_held(op, op->own->err, "cancelled");
      continue;
    }
    op->more = LOCAL | REMOTE;
    peer->held--;
    fill_in_pass(asking_of(op), peer);
    int rc = send_ask(op);
    if (rc < 0)
      left(op, rc, weft_last_error());
    else if (rc == FLOW_DONE)
      flow_taken(op);
  }
}

ucs_status_t ucx_on_welcome(void *arg, const void *header, size_t header_size, void *data, size_t size,
                            const ucp_am_recv_param_t *param) {
  (void)data, (void)size, (void)param;
  struct ucx_peer *peer = ucx_welcomed(arg, header, header_size);
  if (peer)
    begin(peer);
  return UCS_OK;
}

void ucx_access_lost(struct ucx_peer *peer) {
  struct ucx_worker *worker = (struct ucx_worker *)peer->flow.base.worker;
  for (uint32_t i = 0; i < UCX_ASKED; i++) {
    struct flow_op *op = worker->asked[i].op;
    if (op && op->own->peer == &peer->flow && op->more & HELD)
      drop_held(op, WEFT_ERR_PEER_LOST, peer->flow.why);
    op = worker->asked[i].op;
    if (!op || op->own->peer != &peer->flow || op->more & LOCAL)
      continue;
    forget(worker, i);
    answered(op, WEFT_ERR_PEER_LOST, peer->flow.why);
  }
}

int ucx_access_open(struct ucx_worker *worker) {
  worker->asked = calloc(UCX_ASKED, sizeof *worker->asked);
  if (!worker->asked)
    return fail(WEFT_ERR_NOMEM, "no memory for a worker");
  for (uint32_t i = 0; i < UCX_ASKED; i++)
    worker->asked[i].next = i + 1;
  return 0;
}

void ucx_access_close(struct ucx_worker *worker) {
  free(worker->asked);
}
