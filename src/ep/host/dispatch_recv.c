// dispatch_recv: receives every member's header and rows (recv_headers.c), releases its rows, decides the next view,
// and reports what was received.
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "ep/core/args.h"
#include "ep/host/flow_wait.h"
#include "ep/host/host.h"
#include "ep/host/route/kept_route.h"
#include "ep/host/rows/rows.h"
#include "ep/remote/remote_link.h"

static void count_bytes(const weft_ep_t *ep, struct ep_op *op) {
  for (uint32_t i = 0; i < op->num_members; i++) {
    struct ep_member *member = &op->members[i];
    if (member->received && member->link)
      member->link->received_bytes += member->once_in ? ep_op_once_bytes(ep, op, member->rows_in, member->rows_own)
                                                      : ep_op_bytes(ep, op, member->rows_in);
  }
}

static void add_waits(const struct ep_op *op, const struct weft_ep_recv_args *recv) {
  for (uint32_t i = 0; i < op->num_members; i++)
    recv->wait_ns[op->members[i].rank] += (int64_t)op->members[i].wait_ns;
}

void ep_fill_info(const struct ep_op *op, struct weft_ep_info *info) {
  const struct ep_outcome *outcome = &op->outcome;
  info->op = op->number;
  info->epoch = outcome->epoch;
  info->num_ranks = outcome->members;
  info->num_rows = outcome->rows;
  info->rows_needed = outcome->rows_needed;
  info->mark = outcome->mark;
  info->wire_bytes = op->dispatch_wire_bytes;
  info->logical_bytes = op->kind == EP_KIND_COMBINE
                            ? 0
                            : ep_logical_bytes(op->form.value_bytes + op->form.scale_bytes, op->logical_selections);
  info->num_lost = 0;
  for (uint32_t i = 0; i < outcome->members; i++) {
    if (op->members[i].received)
      continue;
    if (info->lost && info->num_lost < info->lost_cap)
      info->lost[info->num_lost] = op->members[i].rank;
    info->num_lost++;
  }
}

// For programs that read memory instead of calling the library: writes the mask of ranks whose tokens did not arrive,
// then the other words.
static void notify(const weft_ep_t *ep, const struct ep_op *op, const struct weft_ep_recv_args *recv, uint32_t rows,
                   uint32_t needed, uint64_t mark) {
  uint32_t lost = 0;
  if (recv->lost)
    memset(recv->lost, 0, (ep->capacity + 63) / 64 * sizeof *recv->lost);
  for (uint32_t i = 0; i < op->num_members; i++) {
    const struct ep_member *member = &op->members[i];
    lost += !member->received;
    if (recv->lost && !member->received)
      recv->lost[member->rank / 64] |= (uint64_t)1 << member->rank % 64;
  }
  struct weft_ep_recv_status *status = recv->status;
  if (!status)
    return;
  status->op = op->number;
  status->epoch = op->view->epoch;
  status->mark = mark;
  status->num_ranks = op->num_members;
  status->num_rows = rows;
  status->rows_needed = needed;
  status->num_lost = lost;
  __atomic_store_n(&status->written, op->number + 1, __ATOMIC_RELEASE);
}

// All headers have arrived, and rows need not be read any more.
static void received(weft_ep_t *ep, struct ep_op *op, bool in_place) {
  op->in_place = in_place;
  if (!in_place)
    ep_release_rows(ep, op);
  ep_activate_next(ep);
  ep_hand_over(ep);
}

// "dispatches by the route of operation 7".
static const char *way_in_words(char words[80], uint32_t kind, uint64_t route) {
  const char *verb = kind == EP_KIND_COMBINE ? "combines" : "dispatches";
  if (route == 0)
    snprintf(words, 80, "%s without a route", verb);
  else
    snprintf(words, 80, "%s by the route of operation %llu", verb, (unsigned long long)route - 1);
  return words;
}

static void describe(char *text, size_t size, uint32_t dtype, uint32_t topk, uint32_t row_bytes, uint32_t scale_bytes) {
  if (dtype == WEFT_EP_OPAQUE)
    snprintf(text, size, "dtype %u, rows of %u and %u bytes, with top-%u", dtype, row_bytes, scale_bytes, topk);
  else
    snprintf(text, size, "dtype %u with top-%u", dtype, topk);
}

// Fails because a rank runs another kind of operation.
static int fail_odd(weft_ep_t *ep, const struct ep_op *op) {
  const struct ep_member *odd = &op->members[op->odd_member];
  const struct ep_dispatch_head *head =
      &ep_slot(&ep->layout, odd->link->in.memory, ep_piece(&ep->layout, op->number, 0))->dispatch;
  const char *call = op->kind == EP_KIND_COMBINE ? "combine_route" : "dispatch_recv";
  char theirs[80], ours[80];
  int32_t newcomer = op->route && ep_op_keeps(op) ? ep_kept_newcomer(op->route->kept, op->view) : -1;
  if (newcomer >= 0)
    return fail(WEFT_ERR_CONFLICT,
                "%s: rank %d joined in the middle of operation %llu, and the route of operation %llu does not have it: "
                "operation %llu has ended on all ranks",
                call, newcomer, (unsigned long long)op->number, (unsigned long long)op->route_number - 1,
                (unsigned long long)op->number);
  if (head->kind != (uint8_t)op->kind || head->route != op->route_number)
    return fail(WEFT_ERR_PROTOCOL,
                "%s: rank %d %s in operation %llu, but this rank %s: all ranks must do the same in an operation, so it "
                "has ended",
                call, odd->rank, way_in_words(theirs, head->kind, head->route), (unsigned long long)op->number,
                way_in_words(ours, op->kind, op->route_number));
  describe(theirs, sizeof theirs, head->dtype, head->topk, head->row_bytes, head->scale_bytes);
  describe(ours, sizeof ours, op->form.dtype, op->topk, op->form.value_bytes, op->form.scale_bytes);
  return fail(WEFT_ERR_PROTOCOL,
              "dispatch_recv: rank %d dispatches %s in operation %llu, but this rank %s: all ranks must dispatch alike "
              "in an operation, so it has ended",
              odd->rank, theirs, (unsigned long long)op->number, ours);
}

// One buffer cannot hold rows of two types: ends the operation. The other ranks see the same, and end it too.
static int end_odd(weft_ep_t *ep, struct ep_op *op) {
  if (!ep_flow_headers(ep, op))
    return ep_canceled("dispatch_recv");
  int rc = fail_odd(ep, op);
  received(ep, op, false);
  ep_op_end(ep, op);
  return rc;
}

static int no_room(weft_ep_t *ep, const struct ep_op *op, const struct weft_ep_recv_args *recv, uint32_t needed,
                   uint64_t mark, struct weft_ep_info *info) {
  if (info)
    info->rows_needed = needed;
  if (recv->status || recv->lost)
    notify(ep, op, recv, 0, needed, mark);
  return fail(WEFT_ERR_ROOM,
              "dispatch_recv: the buffer has room for %u rows%s, but %u arrived: call again with a larger buffer",
              recv->rows,
              recv->layout == WEFT_EP_RANK_MAJOR || recv->layout == WEFT_EP_PACKED ? "" : " for each expert", needed);
}

// Receives all headers, and with LATENCY also the rows. An error leaves the operation unchanged, or has ended it.
static int receive_headers(weft_ep_t *ep, struct ep_op *op, const struct weft_ep_recv_args *recv,
                           struct weft_ep_info *info) {
  if (!ep_receive_headers(ep, op, recv, &op->lowest_mark))
    return ep_canceled("dispatch_recv");
  if (op->odd_member >= 0)
    return end_odd(ep, op);
  bool flows = ep->layout.flows && recv;
  for (uint32_t i = 0; flows && i < op->num_members; i++)
    if (op->members[i].received && !ep_op_keeps(op))
      ep_places_add(ep, op, i, ep_places_left(ep, i), recv);
  if (flows && recv->layout == WEFT_EP_PACKED && !ep_op_keeps(op))
    ep_places_pack(ep, recv);
  if (flows)
    ep_places_expect(ep, op, recv);
  uint32_t needed = recv ? ep_places_needed(ep, recv) : 0;
  if (recv && needed > recv->rows) // nothing was taken yet: the caller may try again with more room
    return no_room(ep, op, recv, needed, op->lowest_mark, info);
  int rc = flows && recv->rows_at ? ep_flow_check_in_place(ep, op) : 0;
  op->flowing = flows && rc == 0;
  return rc;
}

int ep_receive(weft_ep_t *ep, struct ep_op *op, const struct weft_ep_recv_args *recv, struct weft_ep_info *info) {
  if (op->number != ep->activation.op)
    return fail(WEFT_ERR_INVALID, "dispatch_recv: operation %llu has to be received before %llu",
                (unsigned long long)ep->activation.op, (unsigned long long)op->number);
  if (!op->flowing) {
    int rc = receive_headers(ep, op, recv, info);
    if (rc != 0)
      return rc;
  }
  if (op->flowing && !ep_flow_dispatch(ep, op, recv))
    return ep_canceled("dispatch_recv");
  uint64_t mark = op->lowest_mark;
  uint32_t needed = recv ? ep_places_needed(ep, recv) : 0;
  uint32_t rows = recv ? ep_places_end(ep, recv) : 0;
  if (recv && recv->flags & WEFT_EP_RECV_ZERO_PADDING)
    ep_packed_pad(ep, op, recv);
  ep_kernels_fence(); // rows may have been written past the caches, and another thread may read them next
  count_bytes(ep, op);
  if (recv && recv->wait_ns)
    add_waits(op, recv);
  if (recv && (recv->status || recv->lost))
    notify(ep, op, recv, rows, needed, mark);
  received(ep, op, recv && recv->rows_at);
  if (recv)
    op->layout = recv->layout == WEFT_EP_RANK_MAJOR ? WEFT_EP_RANK_MAJOR : WEFT_EP_PER_EXPERT;
  op->state = EP_OP_RECEIVED;
  op->outcome = (struct ep_outcome){.received = true,
                                    .members = op->num_members,
                                    .rows = rows,
                                    .rows_needed = needed,
                                    .epoch = op->view->epoch,
                                    .mark = mark};
  ep->stats.dispatch_wire_bytes += op->dispatch_wire_bytes;
  ep->stats.dispatch_logical_bytes +=
      ep_logical_bytes(op->form.value_bytes + op->form.scale_bytes, op->logical_selections);
  if (op->route)
    ep_kept_received(ep, op);
  if (info)
    ep_fill_info(op, info);
  return 0;
}

// Checks that the receive has room for the scales of such rows.
static int check_scales(const struct ep_form *form, const struct weft_ep_recv_args *recv) {
  if (form->scale_bytes == 0 || recv->scales || !recv->x || recv->rows == 0)
    return 0;
  return fail(WEFT_ERR_INVALID, "dispatch_recv: scales is NULL, and %s (dtype %d) is dispatched",
              form->dtype == WEFT_EP_OPAQUE ? "a payload with scales" : "fp8", (int)form->dtype);
}

int ep_host_dispatch_recv(weft_ep_t *ep, uint64_t number, const struct weft_ep_recv_args *recv,
                          struct weft_ep_info *info) {
  struct ep_op *op;
  int rc = ep_op_find(ep, number, EP_OP_SENT, "dispatch_recv", &op);
  if (rc == 0)
    rc = check_scales(&op->form, recv);
  return rc != 0 ? rc : ep_receive(ep, op, recv, info);
}

int ep_host_dispatch(weft_ep_t *ep, const struct weft_ep_dispatch_args *args, const struct weft_ep_recv_args *recv,
                     struct weft_ep_info *info, uint64_t *number) {
  struct ep_form form = ep_form_of(ep, args);
  int rc = check_scales(&form, recv); // before anything is sent
  if (rc != 0)
    return rc;
  bool flows = ep->layout.flows && !recv->rows_at;
  ep->holds = true; // handing the network over between the two halves would wake the net thread for nothing
  rc = ep->host->interrupted ? ep_op_resumes(ep, EP_KIND_DISPATCH, number) : 0;
  if (rc == 0)
    rc = ep_send(ep, args, EP_KIND_DISPATCH, flows ? EP_SEND_FLOW : EP_SEND_WHOLE, number);
  if (rc >= 0) {
    rc = ep_host_dispatch_recv(ep, *number, recv, info);
    ep->host->interrupted = rc == WEFT_ERR_CANCELED ? *number + 1 : 0;
  }
  ep_zero_copy_wait(ep);
  ep->holds = false;
  ep_hand_over(ep);
  return rc;
}

int ep_host_finish(weft_ep_t *ep, uint64_t number) {
  struct ep_op *op;
  int rc = ep_op_find(ep, number, EP_OP_RECEIVED, "finish", &op);
  if (rc == 0 && op->answered > 0)
    rc = fail(WEFT_ERR_INVALID, "finish: a combine of operation %llu was interrupted: call the combine again first",
              (unsigned long long)number);
  if (rc == 0)
    ep_op_end(ep, op);
  return rc;
}
