// The rows of a dispatch with THROUGHPUT, which flow in pieces through the two slots of each window. This rank sends to
// members that have room, and lays out what has arrived, for all members at once. It never waits for one member while
// it could make progress with another.
#include "base/fail.h"
#include "base/time/clock.h"
#include "ep/host/flow_wait.h"
#include "ep/host/host.h"
#include "ep/host/route/kept_route.h"
#include "ep/host/rows/rows.h"
#include "ep/host/send/once.h"

static bool send_next(weft_ep_t *ep, struct ep_op *op, uint32_t index) {
  struct ep_member *member = &op->members[index];
  struct ep_link *link = member->link;
  uint64_t number = ep_piece(&ep->layout, op->number, member->pieces_out);
  const struct ep_slot_head *slot = ep_slot(&ep->layout, link->out.memory, number);
  if (atomic_load_explicit(&slot->taken.dispatch, memory_order_acquire) < link->sent_dispatch[number % EP_DEPTH] ||
      !ep_once_is_read(ep, op, link, number))
    return false;
  if (!link->path->settle(link, number, EP_PART_DISPATCH, clock_deadline_ms(ep->op_timeout_ms)))
    return false;
  ep_send_piece(ep, op, index);
  ep_flow_progress(member);
  return true;
}

bool ep_flow_send(weft_ep_t *ep, struct ep_op *op) {
  bool news = ep_once_send(ep, op);
  for (uint32_t i = 1; i < op->num_members; i++) {
    uint32_t index = (op->self + i) % op->num_members;
    if (ep_send_has_more(ep, op, &op->members[index]))
      news |= send_next(ep, op, index);
  }
  return news;
}

// The rest of the member's rows will not arrive: fills their places, and the member is lost. Rows that arrived stay.
static void lose_rest(weft_ep_t *ep, struct ep_op *op, uint32_t index, uint32_t laid,
                      const struct weft_ep_recv_args *recv) {
  op->members[index].received = false;
  op->members[index].lost = true;
  if (ep_op_keeps(op))
    ep_kept_lay_lost(ep, op, index, laid, recv);
  else
    ep_rows_lay_lost(ep, op, index, laid, recv);
}

// Lays out the rows of a piece that has arrived. PROTOCOL: they do not match the headers.
static int lay_piece(weft_ep_t *ep, struct ep_op *op, uint32_t index, const struct ep_batch *batch,
                     const struct weft_ep_recv_args *recv) {
  struct ep_member *member = &op->members[index];
  const volatile struct ep_dispatch_head *head =
      &ep_slot(&ep->layout, member->link->in.memory, batch->number)->dispatch;
  if (head->count != member->rows_in)
    return fail(WEFT_ERR_PROTOCOL, "a piece of its rows announces another number of rows than the first piece");
  if (ep_op_keeps(op))
    return ep_kept_lay(ep, op, index, batch, recv);
  int rc = ep_rows_check(ep, op, index, batch);
  if (rc == 0)
    rc = ep_rows_fit(ep, op, index);
  if (rc == 0)
    rc = ep_rows_lay(ep, op, index, batch, recv);
  return rc;
}

// The rows of the member's next piece. If rows cross once, the header of the piece says how many it brings; is_sound()
// checks that number.
static struct ep_batch next_piece(const weft_ep_t *ep, const struct ep_op *op, const struct ep_member *member) {
  struct ep_batch batch = {.number = ep_piece(&ep->layout, op->number, member->pieces_in), .first = member->rows_laid};
  if (!member->once_in)
    return ep_batch_of(&ep->layout, op->number, member->rows_in, member->whole_in, member->pieces_in);
  const volatile struct ep_dispatch_head *head = &ep_slot(&ep->layout, member->link->in.memory, batch.number)->dispatch;
  batch.count = head->here;
  return batch;
}

// Whether the number of rows that cross once is possible.
static bool is_sound(const weft_ep_t *ep, const struct ep_member *member, const struct ep_batch *batch) {
  return !member->once_in || (member->pieces_in < ep->layout.pieces && batch->count <= ep->layout.piece_rows &&
                              batch->count <= member->rows_in - member->rows_laid);
}

static void take(weft_ep_t *ep, struct ep_member *member, const struct ep_batch *batch) {
  struct ep_slot_head *slot = ep_slot(&ep->layout, member->link->in.memory, batch->number);
  atomic_store_explicit(&slot->taken.dispatch, batch->number + 1, memory_order_release);
  member->link->path->acknowledge(member->link);
}

static bool lay_own(weft_ep_t *ep, struct ep_op *op, uint32_t index, const struct weft_ep_recv_args *recv) {
  struct ep_member *member = &op->members[index];
  struct ep_batch batch = next_piece(ep, op, member);
  ep_cast_own(ep, op, &batch);
  if (ep_op_keeps(op)) // both succeed, since the rows are this rank's own
    ep_kept_lay(ep, op, index, &batch, recv);
  else
    ep_rows_lay(ep, op, index, &batch, recv);
  member->pieces_in++;
  member->rows_laid += batch.count;
  return true;
}

// Lays out the member's next piece, if it has arrived. True: something has changed.
static bool receive_next(weft_ep_t *ep, struct ep_op *op, uint32_t index, const struct weft_ep_recv_args *recv) {
  struct ep_member *member = &op->members[index];
  if (!member->received || !ep_flow_comes(&ep->layout, member))
    return false;
  if (index == op->self)
    return lay_own(ep, op, index, recv);
  uint64_t number = ep_piece(&ep->layout, op->number, member->pieces_in);
  bool down = !ep_link_up(member->link); // read before the flag: what the peer wrote before it went down counts
  const struct ep_slot_head *slot = ep_slot(&ep->layout, member->link->in.memory, number);
  uint64_t flag = atomic_load_explicit(&slot->dispatch.flag, memory_order_acquire);
  if (flag <= number && !down)
    return false;
  if (flag <= number) {
    lose_rest(ep, op, index, member->rows_laid, recv);
    return true;
  }
  struct ep_batch batch = next_piece(ep, op, member);
  int rc = flag != number + 1 ? fail(WEFT_ERR_PROTOCOL, "it overwrote rows that had not been taken")
           : !is_sound(ep, member, &batch)
               ? fail(WEFT_ERR_PROTOCOL, "piece %u of its rows has %u, and %u are left to arrive", member->pieces_in,
                      batch.count, member->rows_in - member->rows_laid)
               : lay_piece(ep, op, index, &batch, recv);
  if (rc == 0) {
    member->pieces_in++;
    member->rows_laid += batch.count;
    if (!ep_flow_comes(&ep->layout, member) && !ep_op_keeps(op))
      rc = ep_rows_complete(ep, op, index);
  }
  if (rc != 0) {
    ep_link_down(ep, member->link, EP_LINK_BROKEN, weft_last_error());
    lose_rest(ep, op, index, member->rows_laid, recv);
    return true;
  }
  if (!recv->rows_at)
    take(ep, member, &batch);
  ep_flow_progress(member);
  return true;
}

static bool comes(const weft_ep_t *ep, const struct ep_op *op, uint32_t index) {
  const struct ep_member *member = &op->members[index];
  return index != op->self && member->received && ep_flow_comes(&ep->layout, member);
}

static bool awaits(weft_ep_t *ep, const struct ep_op *op, uint32_t index) {
  return comes(ep, op, index) || ep_once_awaits(ep, op, &op->members[index]);
}

static bool is_over(weft_ep_t *ep, const struct ep_op *op) {
  for (uint32_t i = 0; i < op->num_members; i++)
    if (comes(ep, op, i) || ep_send_has_more(ep, op, &op->members[i]))
      return false;
  return ep_once_is_over(op);
}

bool ep_flow_dispatch(weft_ep_t *ep, struct ep_op *op, const struct weft_ep_recv_args *recv) {
  struct ep_pause pause = {0};
  bool held = ep->holds, going = true;
  ep->holds = true; // the next wait is near
  ep_flow_begin(op);
  while (going) {
    bool news = ep_flow_send(ep, op);
    for (uint32_t i = 0; i < op->num_members; i++)
      news |= receive_next(ep, op, (op->self + i) % op->num_members, recv);
    if (news)
      ep_flow_wait_end(ep, op, &pause);
    else if (is_over(ep, op))
      break;
    else
      going = ep_flow_wait(ep, op, &pause, awaits, "its rows did not arrive, or it did not take ours, by the deadline");
  }
  ep_flow_wait_end(ep, op, &pause);
  ep->holds = held;
  return going;
}

static bool awaits_taking(weft_ep_t *ep, const struct ep_op *op, uint32_t index) {
  return ep_once_awaits(ep, op, &op->members[index]);
}

bool ep_flow_headers(weft_ep_t *ep, struct ep_op *op) {
  struct ep_pause pause = {0};
  bool going = true;
  ep_flow_begin(op);
  while (going && !ep_once_headers_are_over(op)) {
    if (ep_once_send_headers(ep, op))
      ep_flow_wait_end(ep, op, &pause);
    else
      going = ep_flow_wait(ep, op, &pause, awaits_taking, "what was sent to it did not arrive by the deadline");
  }
  ep_flow_wait_end(ep, op, &pause);
  return going;
}

// Whether the member's rows arrive in more than one piece.
static bool has_several(const weft_ep_t *ep, const struct ep_op *op, const struct ep_member *member) {
  return member->once_in ? next_piece(ep, op, member).count < member->rows_in
                         : ep_pieces_of(&ep->layout, member->rows_in, member->whole_in) > 1;
}

int ep_flow_check_in_place(const weft_ep_t *ep, const struct ep_op *op) {
  for (uint32_t i = 0; i < op->num_members; i++) {
    const struct ep_member *member = &op->members[i];
    if (member->link && member->received && has_several(ep, op, member))
      return fail(WEFT_ERR_LIMIT,
                  "dispatch_recv: rows_at is given, and rank %d sends %u rows in pieces, of which the window does not "
                  "hold all at once: give x",
                  member->rank, member->rows_in);
  }
  return 0;
}
