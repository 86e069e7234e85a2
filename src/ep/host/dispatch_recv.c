// dispatch_recv: hear every member (recv_headers.c), let go of its rows, decide what comes next, and say what came.
#include "base/fail.h"
#include "base/time/trace.h"
#include "ep/gpu/gpu.h"
#include "ep/remote/remote_link.h"

int ep_check_recv(const weft_ep_t *ep, const struct weft_ep_recv *recv, const struct weft_ep_info *info) {
  if (!recv || recv->size != sizeof *recv)
    return fail(WEFT_ERR_INVALID, "dispatch_recv: initialise the buffers with WEFT_EP_RECV_INIT");
  if (recv->layout != WEFT_EP_PER_EXPERT && recv->layout != WEFT_EP_RANK_MAJOR)
    return fail(WEFT_ERR_INVALID, "dispatch_recv: layout %d is none", (int)recv->layout);
  if (!recv->counts || (recv->rows > 0 && !recv->x && !recv->rows_at))
    return fail(WEFT_ERR_INVALID, "dispatch_recv: %s is NULL", recv->counts ? "x" : "counts");
  if (recv->x && recv->rows_at)
    return fail(WEFT_ERR_INVALID, "dispatch_recv: x and rows_at are both given: rows are either copied or in place");
  if (recv->x && recv->rows > 0 && ep->dtype != WEFT_EP_BF16 && !recv->scales)
    return fail(WEFT_ERR_INVALID, "dispatch_recv: scales is NULL, and the group dispatches fp8");
  uint64_t parts = recv->layout == WEFT_EP_PER_EXPERT ? ep->experts_per_rank : 1;
  if (recv->rows * parts > INT32_MAX)
    return fail(WEFT_ERR_INVALID,
                "dispatch_recv: %u rows in each of %llu parts are more than the %d that can be numbered", recv->rows,
                (unsigned long long)parts, INT32_MAX);
  if (info && info->size != sizeof *info)
    return fail(WEFT_ERR_INVALID, "dispatch_recv: initialise the info with WEFT_EP_INFO_INIT");
  return 0;
}

void ep_release_rows(weft_ep_t *ep, struct ep_op *op) {
  op->in_place = false;
  for (uint32_t i = 0; i < op->num_members; i++) {
    struct ep_member *member = &op->members[i];
    if (!member->heard || !member->link)
      continue;
    struct ep_slot_head *slot = ep_slot(&ep->layout, member->link->in.memory, op->number);
    atomic_store_explicit(&slot->taken.dispatch, op->number + 1, memory_order_release);
    if (member->link->remote)
      ep_remote_tell(member->link->remote);
    else
      ep_doorbell_ring(ep_link_bell(member->link));
  }
  ep_remote_hand_over(ep);
}

static void count_bytes(const weft_ep_t *ep, struct ep_op *op) {
  for (uint32_t i = 0; i < op->num_members; i++) {
    struct ep_member *member = &op->members[i];
    if (member->heard && member->link)
      member->link->received_bytes += ep_layout_dispatch_bytes(&ep->layout, member->rows_in);
  }
}

static void add_waits(const struct ep_op *op, const struct weft_ep_recv *recv) {
  for (uint32_t i = 0; i < op->num_members; i++)
    recv->wait_ns[op->members[i].rank] += (int64_t)op->members[i].wait_ns;
}

uint64_t ep_logical_bytes(const weft_ep_t *ep, uint64_t selections) {
  uint64_t value =
      ep->dtype == WEFT_EP_BF16 ? 2 * (uint64_t)ep->layout.hidden : ep->layout.value_bytes + ep->layout.scale_bytes;
  return selections * (value + 16);
}

void ep_tell_info(const weft_ep_t *ep, const struct ep_op *op, struct weft_ep_info *info) {
  const struct ep_told *told = &op->told;
  info->op = op->number;
  info->epoch = told->epoch;
  info->num_ranks = told->members;
  info->num_rows = told->rows;
  info->mark = told->mark;
  info->wire_bytes = op->dispatch_wire_bytes;
  info->logical_bytes = ep_logical_bytes(ep, op->logical_selections);
  info->num_lost = 0;
  for (uint32_t i = 0; i < told->members; i++) {
    if (op->members[i].heard)
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
  uint64_t mark = ep_hear_headers(ep, op, recv);
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
  ep_remote_hand_over(ep);
  op->state = EP_OP_RECEIVED;
  op->told =
      (struct ep_told){.heard = true, .members = op->num_members, .rows = rows, .epoch = op->view->epoch, .mark = mark};
  ep->stats.dispatch_wire_bytes += op->dispatch_wire_bytes;
  ep->stats.dispatch_logical_bytes += ep_logical_bytes(ep, op->logical_selections);
  if (info)
    ep_tell_info(ep, op, info);
  return 0;
}

int weft_ep_dispatch_recv(weft_ep_t *ep, uint64_t number, const struct weft_ep_recv *recv, struct weft_ep_info *info) {
  TRACE_BLOCK("dispatch_recv");
  if (!ep)
    return fail(WEFT_ERR_INVALID, "dispatch_recv: ep is NULL");
  if (ep->gpu)
    return ep_gpu_receive(ep, number, recv, info);
  struct ep_op *op;
  int rc = ep_op_find(ep, number, EP_OP_SENT, "dispatch_recv", &op);
  if (rc == 0)
    rc = ep_check_recv(ep, recv, info);
  return rc != 0 ? rc : ep_receive(ep, op, recv, info);
}

int weft_ep_dispatch(weft_ep_t *ep, const struct weft_ep_dispatch *args, const struct weft_ep_recv *recv,
                     struct weft_ep_info *info, uint64_t *number) {
  TRACE_BLOCK("dispatch");
  if (!ep || !number)
    return fail(WEFT_ERR_INVALID, "dispatch: %s is NULL", ep ? "op" : "ep");
  if (ep->gpu)
    return ep_gpu_dispatch(ep, args, recv, info, number);
  int rc = ep_check_recv(ep, recv, info); // before anything is sent
  if (rc != 0)
    return rc;
  ep->holds = true; // to hand the network over between the two would wake the net thread for nothing
  rc = ep_send(ep, args, EP_KIND_DISPATCH, true, number);
  if (rc == 0)
    rc = weft_ep_dispatch_recv(ep, *number, recv, info);
  ep_remote_return(ep);
  ep->holds = false;
  ep_remote_hand_over(ep);
  return rc;
}

int weft_ep_finish(weft_ep_t *ep, uint64_t number) {
  struct ep_op *op;
  if (!ep)
    return fail(WEFT_ERR_INVALID, "finish: ep is NULL");
  if (ep->gpu)
    return ep_gpu_finish(ep, number);
  int rc = ep_op_find(ep, number, EP_OP_RECEIVED, "finish", &op);
  if (rc == 0)
    ep_op_end(ep, op);
  return rc;
}
