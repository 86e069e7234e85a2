// dispatch_recv: receive every member's header and rows (recv_headers.c), release its rows, decide what comes next, and
// report what came.
#include "base/fail.h"
#include "ep/host/host.h"
#include "ep/remote/remote_link.h"

static void count_bytes(const weft_ep_t *ep, struct ep_op *op) {
  for (uint32_t i = 0; i < op->num_members; i++) {
    struct ep_member *member = &op->members[i];
    if (member->received && member->link)
      member->link->received_bytes += ep_layout_dispatch_bytes(&ep->layout, member->rows_in);
  }
}

static void add_waits(const struct ep_op *op, const struct weft_ep_recv *recv) {
  for (uint32_t i = 0; i < op->num_members; i++)
    recv->wait_ns[op->members[i].rank] += (int64_t)op->members[i].wait_ns;
}

void ep_fill_info(const weft_ep_t *ep, const struct ep_op *op, struct weft_ep_info *info) {
  const struct ep_outcome *outcome = &op->outcome;
  info->op = op->number;
  info->epoch = outcome->epoch;
  info->num_ranks = outcome->members;
  info->num_rows = outcome->rows;
  info->mark = outcome->mark;
  info->wire_bytes = op->dispatch_wire_bytes;
  info->logical_bytes = ep_logical_bytes(ep, op->logical_selections);
  info->num_lost = 0;
  for (uint32_t i = 0; i < outcome->members; i++) {
    if (op->members[i].received)
      continue;
    if (info->lost && info->num_lost < info->lost_cap)
      info->lost[info->num_lost] = op->members[i].rank;
    info->num_lost++;
  }
}

int ep_receive(weft_ep_t *ep, struct ep_op *op, const struct weft_ep_recv *recv, struct weft_ep_info *info) {
  if (op->number != ep->activation.op)
    return fail(WEFT_ERR_INVALID, "dispatch_recv: operation %llu comes before %llu",
                (unsigned long long)ep->activation.op, (unsigned long long)op->number);
  uint64_t mark;
  if (!ep_receive_headers(ep, op, recv, &mark))
    return ep_canceled("dispatch_recv");
  if (recv && ep_expand_needed(ep, recv) > recv->rows) // nothing is taken yet: the caller may try again with more room
    return fail(WEFT_ERR_LIMIT, "dispatch_recv: the buffer has %u rows%s, and %u came: call again with more",
                recv->rows, recv->layout == WEFT_EP_PER_EXPERT ? " for each expert" : "", ep_expand_needed(ep, recv));
  uint32_t rows = recv ? ep_expand_end(ep, recv) : 0;
  count_bytes(ep, op);
  if (recv && recv->wait_ns)
    add_waits(op, recv);
  op->in_place = recv && recv->rows_at;
  if (!op->in_place)
    ep_release_rows(ep, op);
  ep_activate_next(ep);
  if (recv) {
    op->layout = recv->layout;
    op->recv_rows = recv->rows;
  }
  ep_hand_over(ep);
  op->state = EP_OP_RECEIVED;
  op->outcome = (struct ep_outcome){
      .received = true, .members = op->num_members, .rows = rows, .epoch = op->view->epoch, .mark = mark};
  ep->stats.dispatch_wire_bytes += op->dispatch_wire_bytes;
  ep->stats.dispatch_logical_bytes += ep_logical_bytes(ep, op->logical_selections);
  if (info)
    ep_fill_info(ep, op, info);
  return 0;
}

int ep_host_dispatch_recv(weft_ep_t *ep, uint64_t number, const struct weft_ep_recv *recv, struct weft_ep_info *info) {
  struct ep_op *op;
  int rc = ep_op_find(ep, number, EP_OP_SENT, "dispatch_recv", &op);
  return rc != 0 ? rc : ep_receive(ep, op, recv, info);
}

int ep_host_dispatch(weft_ep_t *ep, const struct weft_ep_dispatch *args, const struct weft_ep_recv *recv,
                     struct weft_ep_info *info, uint64_t *number) {
  ep->holds = true; // to hand the network over between the two would wake the net thread for nothing
  int rc = ep->host->halfway ? ep_op_resumes(ep, EP_KIND_DISPATCH, number) : 0;
  if (rc == 0)
    rc = ep_send(ep, args, EP_KIND_DISPATCH, true, number);
  if (rc >= 0) {
    rc = ep_host_dispatch_recv(ep, *number, recv, info);
    ep->host->halfway = rc == WEFT_ERR_CANCELED ? *number + 1 : 0;
  }
  ep_remote_return(ep);
  ep->holds = false;
  ep_hand_over(ep);
  return rc;
}

int ep_host_finish(weft_ep_t *ep, uint64_t number) {
  struct ep_op *op;
  int rc = ep_op_find(ep, number, EP_OP_RECEIVED, "finish", &op);
  if (rc == 0 && op->answered > 0)
    rc = fail(WEFT_ERR_INVALID, "finish: a combine of operation %llu was interrupted: make it again",
              (unsigned long long)number);
  if (rc == 0)
    ep_op_end(ep, op);
  return rc;
}
