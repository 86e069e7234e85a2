// A barrier is a dispatch without tokens.
#include "base/fail.h"
#include "base/text/text.h"
#include "ep/host/host.h"

// Names the ranks that are missing in an operation, in an error message.
static int name_lost(const struct ep_op *op, uint64_t number) {
  struct text names = {0};
  for (uint32_t i = 0; i < op->num_members; i++)
    if (!op->members[i].received)
      text_add(&names, "%s%d", names.size ? ", " : "", op->members[i].rank);
  if (names.size == 0)
    return 0;
  int rc = fail(WEFT_ERR_PEER_LOST, "barrier: operation %llu continued without rank %s", (unsigned long long)number,
                names.data ? names.data : "?");
  text_free(&names);
  return rc;
}

// Whether a member dispatched tokens in this operation, which is a barrier to this rank.
static int check_barrier(const struct ep_op *op) {
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
  int rc = ep->host->halfway ? ep_op_resumes(ep, EP_KIND_BARRIER, &number) : 0;
  if (rc == 0)
    rc = ep_send(ep, &none, EP_KIND_BARRIER, EP_SEND_WHOLE, &number);
  if (rc < 0)
    return rc;
  struct ep_op *op = &ep->host->ops[number % EP_DEPTH];
  rc = ep_receive(ep, op, NULL, NULL);
  ep->host->halfway = rc == WEFT_ERR_CANCELED ? number + 1 : 0;
  if (rc != 0)
    return rc;
  rc = check_barrier(op);
  if (rc == 0)
    rc = name_lost(op, number);
  ep_op_end(ep, op);
  return rc;
}
