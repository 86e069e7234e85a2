// A barrier is a dispatch without tokens.
#include "base/fail.h"
#include "base/text/text.h"
#include "ep/host/host.h"

// PEER_LOST, with the names of the ranks that are missing in the operation; 0: none is.
static int check_complete(const struct ep_op *op, uint64_t number) {
  struct text names = {0};
  bool complete = true;
  for (uint32_t i = 0; i < op->num_members; i++) {
    if (op->members[i].received)
      continue;
    complete = false;
    text_add_rank(&names, op->members[i].rank);
  }
  if (complete)
    return 0;
  int rc = fail(WEFT_ERR_PEER_LOST, "barrier: operation %llu continued without rank %s", (unsigned long long)number,
                names.data ? names.data : "?");
  text_free(&names);
  return rc;
}

// PROTOCOL: in this operation, which is a barrier to this rank, another member dispatched or combined.
static int check_kinds(const struct ep_op *op) {
  for (uint32_t i = 0; i < op->num_members; i++) {
    const struct ep_member *member = &op->members[i];
    if (member->link && member->received && member->kind != EP_KIND_BARRIER)
      return fail(WEFT_ERR_PROTOCOL, "barrier: rank %d %s in operation %llu, but this rank has a barrier there",
                  member->rank, member->kind == EP_KIND_COMBINE ? "combines by a route" : "dispatches",
                  (unsigned long long)op->number);
  }
  return 0;
}

int ep_host_barrier(weft_ep_t *ep) {
  struct weft_ep_dispatch_args none = WEFT_EP_DISPATCH_ARGS_INIT;
  uint64_t number;
  int rc = ep->host->interrupted ? ep_op_resumes(ep, EP_KIND_BARRIER, &number) : 0;
  if (rc == 0)
    rc = ep_send(ep, &none, EP_KIND_BARRIER, EP_SEND_WHOLE, &number);
  if (rc < 0)
    return rc;
  struct ep_op *op = &ep->host->ops[number % EP_DEPTH];
  rc = ep_receive(ep, op, NULL, NULL);
  ep->host->interrupted = rc == WEFT_ERR_CANCELED ? number + 1 : 0;
  if (rc != 0)
    return rc;
  rc = check_kinds(op);
  if (rc == 0)
    rc = check_complete(op, number);
  ep_op_end(ep, op);
  return rc;
}
