// dispatch_send: casts and writes rows, and raises the flags. route.c decides which tokens go where.
#include <string.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "ep/core/args.h"
#include "ep/host/host.h"
#include "ep/host/route/kept_route.h"
#include "ep/host/rows/rows.h"
#include "ep/host/send/once.h"
#include "ep/host/send/row.h"
#include "ep/view/views.h"

static struct ep_input input_of(const weft_ep_t *ep, const struct ep_op *op, const struct weft_ep_dispatch_args *args,
                                bool stays) {
  bool cast = op->form.dtype == WEFT_EP_BF16 || op->form.dtype == WEFT_EP_OPAQUE || args->scales;
  uint64_t words = op->form.scale_bytes / sizeof(uint32_t), dense = cast ? op->form.value_bytes : 2 * ep->layout.hidden;
  return (struct ep_input){.x = args->x,
                           .x_stride = args->row_stride ? args->row_stride : dense,
                           .scales = {.words = args->scales,
                                      .row = args->scale_row_stride ? args->scale_row_stride : words,
                                      .block = args->scale_block_stride ? args->scale_block_stride : 1},
                           .cast = cast,
                           .stays = stays};
}

// Publishes one piece of the member's `rows` rows.
static void raise_dispatch(weft_ep_t *ep, struct ep_op *op, struct ep_member *member, const struct ep_batch *batch,
                           uint32_t rows) {
  ep_send_flag(ep, op, member, batch->number, rows, 0);
  member->link->sent_once[batch->number % EP_DEPTH] = 0;
  member->link->path->publish(member->link, batch->number, EP_PART_DISPATCH, batch->count);
}

static enum ep_wait taken(weft_ep_t *ep, struct ep_link *link, uint64_t number, uint64_t deadline_ns) {
  struct ep_slot_head *slot = ep_slot(&ep->layout, link->out.memory, number);
  return ep_wait_word(ep, link, &slot->taken.dispatch, link->sent_dispatch[number % EP_DEPTH], deadline_ns,
                      "it did not receive a dispatch by the deadline");
}

// Waits until the peer, and all ranks that read rows there, have taken the former contents of the slot for the
// operation's first piece.
static enum ep_wait slot_free(weft_ep_t *ep, struct ep_op *op, struct ep_link *link, uint64_t deadline_ns) {
  uint64_t first = ep_piece(&ep->layout, op->number, 0), shared = link->sent_once[first % EP_DEPTH];
  enum ep_wait came = taken(ep, link, first, deadline_ns);
  for (uint32_t i = 0; shared && came == EP_WAIT_CAME && i < op->num_members; i++) {
    const struct ep_member *reader = &op->members[i];
    if (reader->link && !reader->lost && reader->link->sent_once[first % EP_DEPTH] == shared &&
        taken(ep, reader->link, first, deadline_ns) == EP_WAIT_INTERRUPTED)
      return EP_WAIT_INTERRUPTED;
  }
  if (came == EP_WAIT_CAME && !link->path->settle(link, first, EP_PART_DISPATCH, deadline_ns))
    return EP_WAIT_DOWN;
  return came;
}

bool ep_send_empty(weft_ep_t *ep, struct ep_op *op, struct ep_member *member, uint64_t deadline_ns) {
  enum ep_wait taken = member->lost ? EP_WAIT_DOWN : slot_free(ep, op, member->link, deadline_ns);
  member->lost = taken == EP_WAIT_DOWN;
  if (taken != EP_WAIT_CAME)
    return taken != EP_WAIT_INTERRUPTED;
  ep_publish_start(member->link, op->number, op->view->epoch);
  struct ep_batch none = {.number = ep_piece(&ep->layout, op->number, 0)};
  raise_dispatch(ep, op, member, &none, 0);
  member->pieces_out = 1;
  return true;
}

// Whether rows of a piece, which has `batch->count` rows, are sent from x without a copy, from row `first` of the piece
// on, and up to which row.
static bool zero_copy_rows(weft_ep_t *ep, const struct ep_op *op, const struct ep_member *member,
                           const struct ep_batch *batch, uint32_t first, uint32_t *end) {
  const struct ep_path_ops *path = member->link->path;
  const struct ep_input *input = &op->input;
  if (!path->zero_copy_rows || !input->stays || op->form.dtype != WEFT_EP_BF16 ||
      input->x_stride != ep->layout.row_stride)
    return false;
  uint32_t count = path->zero_copy_rows(member->link, batch->number, EP_PART_DISPATCH, first, batch->count), run = 0;
  const uint16_t *token = op->row_token + member->first_row + batch->first + first;
  while (run < count && token[run] == token[0] + run)
    run++;
  if (count == 0 || run < count)
    return false;
  path->zero_copy(member->link, batch->number, EP_PART_DISPATCH, first, input->x + token[0] * input->x_stride);
  *end = first + count;
  return true;
}

void ep_send_piece(weft_ep_t *ep, struct ep_op *op, uint32_t index) {
  const struct ep_layout *layout = &ep->layout;
  struct ep_member *member = &op->members[index];
  struct ep_link *link = member->link;
  struct ep_batch batch = ep_batch_of(layout, op->number, member->rows_out, op->whole, member->pieces_out);
  char *slot = (char *)ep_slot(layout, link->out.memory, batch.number);
  if (layout->flows && batch.first == 0 && batch.count > 0 && !ep_op_keeps(op))
    ep_count_selections(ep, op, index, (uint32_t *)(slot + layout->counts));
  struct ep_writing writing = ep_write_begin(link, batch.count);
  uint32_t zero_copied = 0; // rows before this one are read from the caller's memory
  for (uint32_t i = 0; i < batch.count; i++) {
    uint32_t token = op->row_token[member->first_row + batch.first + i];
    if (!ep_op_keeps(op))
      ep_send_row_head(ep, op, index, token, ep_row_at(layout, slot + layout->heads, i));
    if (i >= zero_copied && !zero_copy_rows(ep, op, member, &batch, i, &zero_copied))
      ep_send_row(ep, op, token, &writing, slot + layout->rows + i * layout->row_stride);
    op->rows_written++;
    if (link->path->rows_written)
      link->path->rows_written(link, batch.number, EP_PART_DISPATCH, i + 1);
    if (ep->fault)
      ep->fault(ep->fault_arg, op->rows_written, op->peers_done);
  }
  raise_dispatch(ep, op, member, &batch, member->rows_out);
  member->pieces_out++;
  op->peers_done += member->pieces_out == ep_pieces_of(layout, member->rows_out, op->whole);
  uint64_t bytes = ep_op_bytes(ep, op, batch.count);
  link->sent_bytes += bytes;
  op->dispatch_wire_bytes += bytes;
}

// Sends the first piece for a group (send/once.h), when it is the turn of the first of its members. False: as below.
static bool send_to_group(weft_ep_t *ep, struct ep_op *op, uint32_t group, uint64_t deadline_ns) {
  struct ep_once *once = &op->groups[group - 1];
  for (uint32_t i = 0; !once->begun && i < op->num_members; i++) {
    struct ep_member *member = &op->members[i];
    if (member->group != group || member->lost)
      continue;
    enum ep_wait free = slot_free(ep, op, member->link, deadline_ns);
    member->lost = free == EP_WAIT_DOWN;
    if (free == EP_WAIT_INTERRUPTED)
      return false;
  }
  if (!once->begun)
    ep_once_write(ep, op, group);
  once->begun = true;
  return true;
}

// Sends the first piece. False: interrupted before anything was written.
static bool send_to(weft_ep_t *ep, struct ep_op *op, uint32_t index, uint64_t deadline_ns) {
  struct ep_member *member = &op->members[index];
  if (member->group != 0)
    return send_to_group(ep, op, member->group, deadline_ns);
  enum ep_wait taken = member->lost ? EP_WAIT_DOWN : slot_free(ep, op, member->link, deadline_ns);
  member->lost = taken == EP_WAIT_DOWN;
  if (taken != EP_WAIT_CAME)
    return taken != EP_WAIT_INTERRUPTED;
  ep_send_piece(ep, op, index);
  return true;
}

void ep_cast_own(weft_ep_t *ep, struct ep_op *op, const struct ep_batch *batch) {
  const struct ep_member *self = &op->members[op->self];
  for (uint32_t i = batch->first; !op->input.cast && i < batch->first + batch->count; i++)
    ep_send_values(ep, op, op->row_token[self->first_row + i]);
}

// Keeps what this rank sends to itself: row headers, and rows that stay readable until dispatch_recv.
static void keep_own(weft_ep_t *ep, struct ep_op *op, const struct ep_input *input) {
  const struct ep_layout *layout = &ep->layout;
  const struct ep_member *self = &op->members[op->self];
  bool direct = input->cast && input->stays;
  op->own_rows = direct ? input->x : op->cast;
  op->own_stride = direct ? input->x_stride : layout->row_stride;
  op->own_scales = direct ? input->scales : (struct ep_scales){NULL, 0, 0};
  for (uint32_t i = 0; i < self->rows_out; i++) {
    uint32_t token = op->row_token[self->first_row + i];
    if (!ep_op_keeps(op))
      ep_send_row_head(ep, op, op->self, token, ep_row_at(layout, op->own_heads, i));
    if (ep->layout.flows && input->stays)
      continue;                                         // it is cast when it is laid out
    const uint8_t *row = ep_send_values(ep, op, token); // casts it, if no other member needed it
    if (input->cast && !direct)
      ep_op_keep_row(ep, op, token, row, &input->scales);
  }
}

// T: num_tokens, or the number in the caller's memory.
static uint32_t tokens_of(const struct weft_ep_dispatch_args *args) {
  return args->num_tokens_at ? *args->num_tokens_at : args->num_tokens;
}

static void begin(weft_ep_t *ep, struct ep_op *op, const struct weft_ep_dispatch_args *args, enum ep_kind kind,
                  uint32_t num_tokens, bool fills) {
  op->number = ep->next_op;
  op->ready = atomic_load(&ep->ready);
  op->mark = ep->mark;
  op->kind = kind;
  op->form = ep_form_of(ep, args);
  op->num_tokens = num_tokens;
  op->topk = args->topk ? args->topk : ep->layout.topk;
  op->has_weights = args->topk_weights != NULL || num_tokens == 0;
  op->in_place = op->placed = op->combine_interrupted = op->flowing = op->combining = false;
  op->sent = op->answered = op->rows_written = op->peers_done = 0;
  op->round = 0;
  op->dispatch_wire_bytes = op->combine_wire_bytes = op->logical_selections = 0;
  op->route = NULL;
  op->fills = false;
  op->route_number = 0;
  op->went = NULL;
  if (args->route)
    ep_kept_begin(op, args->route, fills);
  size_t selections = (size_t)num_tokens * op->topk;
  if (selections > 0 && !ep_op_keeps(op))
    ep_take_experts(op, args, selections);
  if (selections > 0 && args->topk_weights)
    memcpy(op->weights, args->topk_weights, selections * sizeof *op->weights);
  memset(op->cast_done, 0, (num_tokens + 63) / 64 * sizeof *op->cast_done);
  op->num_members = op->num_groups = 0;
  op->outcome = (struct ep_outcome){0};
  ep_op_set_view(ep, op, ep->view);
  ep_route(ep, op);
}

// A call that sends and also receives does so in the order of operations: before anything is sent, checks that all
// earlier operations were received.
static int check_turn(const weft_ep_t *ep, enum ep_kind kind, enum ep_sending how) {
  if (how == EP_SEND_HALF || ep->activation.op == ep->next_op)
    return 0;
  return fail(WEFT_ERR_INVALID, "%s: operation %llu was sent earlier, and has not been received: receive it first",
              ep_call_of(kind), (unsigned long long)ep->activation.op);
}

// Takes the place of the next operation. With RECYCLE the former operation there may end. 1: an interrupted call
// continues there.
static int take_place(weft_ep_t *ep, struct ep_op *op, enum ep_kind kind, enum ep_sending how, uint32_t flags) {
  bool open = op->state != EP_OP_FREE, goes_on = op->state == EP_OP_SENDING;
  if (goes_on && op->kind != kind)
    return ep_fail_interrupted(op);
  if (open && !goes_on && !(flags & WEFT_EP_DISPATCH_RECYCLE))
    return fail(WEFT_ERR_BUSY,
                "dispatch: operation %llu is still open, and at most %d may be open at once: end it first",
                (unsigned long long)op->number, EP_DEPTH);
  if (open && !goes_on && op->state != EP_OP_RECEIVED)
    return fail(WEFT_ERR_BUSY, "dispatch: operation %llu cannot be recycled: %s", (unsigned long long)op->number,
                op->state == EP_OP_SENT ? "it has not been received" : "its combine has not been received");
  int rc = check_turn(ep, kind, how);
  if (rc == 0 && open && !goes_on)
    ep_op_end(ep, op);
  return rc == 0 && goes_on ? 1 : rc;
}

// If one call sends the rows and another one receives them, they have to fit into the window, since nobody takes them
// meanwhile.
static int check_fits(const weft_ep_t *ep, uint32_t num_tokens, enum ep_sending sending) {
  const struct ep_layout *layout = &ep->layout;
  if (!layout->flows || sending == EP_SEND_FLOW || num_tokens <= layout->window_rows)
    return 0;
  if (sending == EP_SEND_WHOLE)
    return fail(WEFT_ERR_LIMIT,
                "dispatch: %u tokens with rows_at, but rows in place have to fit into a window, and a window of %llu "
                "bytes holds %u: give x, so that the rows arrive in pieces, or open the group with larger window_bytes",
                num_tokens, (unsigned long long)layout->window_bytes, layout->window_rows);
  return fail(WEFT_ERR_LIMIT,
              "dispatch_send: %u tokens, but a window of %llu bytes holds the rows of %u: call weft_ep_dispatch, which "
              "sends them in pieces, or open the group with larger window_bytes",
              num_tokens, (unsigned long long)layout->window_bytes, layout->window_rows);
}

int ep_send(weft_ep_t *ep, const struct weft_ep_dispatch_args *args, enum ep_kind kind, enum ep_sending how,
            uint64_t *number) {
  uint32_t num_tokens = tokens_of(args);
  struct ep_op *op = &ep->host->ops[ep->next_op % EP_DEPTH];
  if (num_tokens > args->num_tokens)
    return fail(WEFT_ERR_INVALID, "dispatch: *num_tokens_at is %u, more than num_tokens, %u", num_tokens,
                args->num_tokens);
  bool fills = false;
  int rc = ep_check_experts(ep, args, num_tokens, ep_kept_topk(ep, args), "dispatch");
  if (rc == 0)
    rc = check_fits(ep, num_tokens, how);
  if (rc == 0)
    rc = ep_check_active(ep);
  if (rc == 0 && args->route && op->state != EP_OP_SENDING)
    rc = ep_kept_check(ep, args, kind, num_tokens, &fills);
  if (rc == 0)
    rc = take_place(ep, op, kind, how, args->flags);
  if (rc < 0)
    return rc;
  if (rc == 0)
    begin(ep, op, args, kind, num_tokens, fills);
  else if (ep->layout.flows && op->whole != (how != EP_SEND_FLOW)) // some rows were sent the other way
    return ep_fail_interrupted(op);
  op->input = input_of(ep, op, args, how != EP_SEND_HALF);
  op->whole = ep->layout.flows && how != EP_SEND_FLOW;
  if (rc == 0 && how == EP_SEND_FLOW && kind == EP_KIND_DISPATCH)
    ep_once_group(op);
  uint64_t deadline_ns = clock_deadline_ms(ep->op_timeout_ms);
  // Each rank begins with the rank after it, so no two begin with the same rank.
  for (uint32_t i = op->sent + 1; i < op->num_members; i++)
    if (!send_to(ep, op, (op->self + i) % op->num_members, deadline_ns)) {
      op->sent = i - 1;
      op->state = EP_OP_SENDING;
      return ep_canceled("dispatch");
    }
  keep_own(ep, op, &op->input);
  if (op->fills)
    ep_kept_note_sent(op);
  ep_hand_over(ep);
  op->state = EP_OP_SENT;
  ep->next_op++;
  *number = op->number;
  return 0;
}

int ep_host_dispatch_send(weft_ep_t *ep, const struct weft_ep_dispatch_args *args, uint64_t *number) {
  return ep_send(ep, args, EP_KIND_DISPATCH, EP_SEND_HALF, number);
}
