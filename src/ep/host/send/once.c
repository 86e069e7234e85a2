// Sends rows that cross to another host once: which members share rows, which one carries them, and when they are
// published.
#include "ep/host/send/once.h"

#include "base/time/clock.h"
#include "ep/host/flow_wait.h"
#include "ep/host/send/row.h"
#include "ep/remote/neighbours.h"
#include "ep/remote/remote_link.h"

// --- who shares rows ---

static bool may_share(const struct ep_member *member) {
  return member->link && !member->lost && member->link->remote && member->link->remote->net;
}

static bool read_each_other(const struct ep_link *a, const struct ep_link *b) {
  return ep_neighbours_reads(a, b) && ep_neighbours_reads(b, a);
}

// Whether the member and all members of the group, which are before it, read each other's areas.
static bool fits(const struct ep_op *op, uint32_t index, uint32_t group) {
  for (uint32_t i = 0; i < index; i++)
    if (op->members[i].group == group && !read_each_other(op->members[i].link, op->members[index].link))
      return false;
  return true;
}

static uint32_t size_of(const struct ep_op *op, uint32_t group) {
  uint32_t size = 0;
  for (uint32_t i = 0; i < op->num_members; i++)
    size += op->members[i].group == group;
  return size;
}

void ep_once_group(struct ep_op *op) {
  op->num_groups = 0;
  for (uint32_t i = 0; i < op->num_members; i++) {
    struct ep_member *member = &op->members[i];
    member->group = 0;
    if (!may_share(member))
      continue;
    uint32_t group = 1;
    while (group <= op->num_groups && !fits(op, i, group))
      group++;
    if (group > op->num_groups)
      op->groups[op->num_groups++] = (struct ep_once){0};
    member->group = group;
  }
  for (uint32_t i = 0; i < op->num_members; i++)
    if (op->members[i].group && size_of(op, op->members[i].group) == 1)
      op->members[i].group = 0;
}

// --- a piece for a group ---

// The members for which the current piece is, and its number, which is the same for all of them.
struct piece {
  uint64_t number;
  uint32_t count;
  uint16_t index[EP_MAX_CAPACITY]; // in op->members
};

static bool is_there(const struct ep_member *member, uint32_t group) {
  return member->group == group && !member->lost && ep_link_up(member->link);
}

// Rows of a piece of an operation end with the last piece that the member's rows need; it always gets the first piece.
static bool has_more(const struct ep_member *member) {
  return member->pieces_out == 0 || member->rows_sent < member->rows_out;
}

// Collects the members for the next piece; or the members for which the current piece was written, as far as they can
// be reached.
static void gather(const weft_ep_t *ep, const struct ep_op *op, uint32_t group, struct piece *piece) {
  const struct ep_once *once = &op->groups[group - 1];
  piece->count = 0;
  piece->number = ep_piece(&ep->layout, op->number, once->pieces);
  for (uint32_t i = 0; i < op->num_members; i++) {
    const struct ep_member *member = &op->members[i];
    if (once->under_way ? member->group == group && member->in_piece && ep_link_up(member->link)
                        : is_there(member, group) && has_more(member))
      piece->index[piece->count++] = (uint16_t)i;
  }
}

static struct ep_slot_head *slot_of(const weft_ep_t *ep, const struct piece *piece, const struct ep_member *member) {
  return ep_slot(&ep->layout, member->link->out.memory, piece->number);
}

// --- writing it ---

// The token of a row of the member after those that were sent; UINT32_MAX: there is none.
static uint32_t token_at(const struct ep_op *op, const struct ep_member *member, uint32_t behind) {
  uint32_t row = member->rows_sent + behind;
  return row < member->rows_out ? op->row_token[member->first_row + row] : UINT32_MAX;
}

static uint32_t next_token(const struct ep_op *op, const struct ep_member *member) {
  return token_at(op, member, member->here);
}

// The first token that belongs to a later piece: before it, one of the members has a full piece of rows.
static uint32_t end_of(const weft_ep_t *ep, const struct ep_op *op, const struct piece *piece) {
  uint32_t end = UINT32_MAX;
  for (uint32_t i = 0; i < piece->count; i++) {
    uint32_t token = token_at(op, &op->members[piece->index[i]], ep->layout.piece_rows);
    end = token < end ? token : end;
  }
  return end;
}

static uint32_t first_token(const struct ep_op *op, const struct piece *piece) {
  uint32_t first = UINT32_MAX;
  for (uint32_t i = 0; i < piece->count; i++) {
    uint32_t token = next_token(op, &op->members[piece->index[i]]);
    first = token < first ? token : first;
  }
  return first;
}

// Of the members that get the token, chooses the one whose window holds the fewest rows of this piece.
static struct ep_member *choose_carrier(struct ep_op *op, const struct piece *piece, uint32_t token) {
  struct ep_member *carrier = NULL;
  for (uint32_t i = 0; i < piece->count; i++) {
    struct ep_member *member = &op->members[piece->index[i]];
    if (next_token(op, member) == token && (!carrier || member->carries < carrier->carries))
      carrier = member;
  }
  return carrier;
}

// Writes to a member where its next row lies, and with what else it needs for the row, unless its route has kept that.
static void write_head(weft_ep_t *ep, struct ep_op *op, struct ep_slot_head *slot, uint32_t index, uint32_t token,
                       uint64_t where) {
  const struct ep_layout *layout = &ep->layout;
  uint32_t at = op->members[index].here++;
  if (ep_op_keeps(op)) {
    ep_wheres(layout, slot)[at] = where;
    return;
  }
  struct ep_row *head = ep_row_at(layout, (char *)slot + layout->heads, at);
  ep_send_row_head(ep, op, index, token, head);
  *ep_row_where(layout, head) = where;
}

// Writes the row to its carrier, and where it lies to each member that gets it.
static void write_token(weft_ep_t *ep, struct ep_op *op, const struct piece *piece, uint32_t token) {
  const struct ep_layout *layout = &ep->layout;
  struct ep_member *carrier = choose_carrier(op, piece, token);
  uint32_t at = carrier->carries++;
  struct ep_writing writing = ep_write_begin(carrier->link, 1);
  char *rows = (char *)slot_of(ep, piece, carrier) + layout->rows;
  ep_send_row(ep, op, token, &writing, rows + at * layout->row_stride);
  ep_put_rows_written(carrier->link, piece->number, EP_PART_DISPATCH, carrier->carries);
  for (uint32_t i = 0; i < piece->count; i++) {
    struct ep_member *member = &op->members[piece->index[i]];
    if (next_token(op, member) != token)
      continue;
    uint64_t area = member == carrier ? 0 : ep_area_number(carrier->link->remote->peer_id);
    write_head(ep, op, slot_of(ep, piece, member), piece->index[i], token, ep_where(area, at));
    op->rows_written++;
    if (ep->fault)
      ep->fault(ep->fault_arg, op->rows_written, op->peers_done);
  }
}

void ep_once_write(weft_ep_t *ep, struct ep_op *op, uint32_t group) {
  struct ep_once *once = &op->groups[group - 1];
  struct piece piece;
  uint64_t shared = ++ep->host->shared;
  gather(ep, op, group, &piece);
  for (uint32_t i = 0; i < piece.count; i++) {
    struct ep_member *member = &op->members[piece.index[i]];
    member->here = member->carries = 0;
    member->in_piece = member->sent = true;
    member->link->sent_once[piece.number % EP_DEPTH] = shared;
    if (member->pieces_out == 0 && !ep_op_keeps(op))
      ep_count_selections(ep, op, piece.index[i],
                          (uint32_t *)((char *)slot_of(ep, &piece, member) + ep->layout.counts));
  }
  uint32_t end = end_of(ep, op, &piece);
  for (uint32_t token; (token = first_token(op, &piece)) < end;)
    write_token(ep, op, &piece, token);
  for (uint32_t i = 0; i < piece.count; i++) {
    struct ep_member *member = &op->members[piece.index[i]];
    uint64_t head_bytes = member->here * (ep_op_keeps(op) ? sizeof(uint64_t) : ep->layout.head_stride);
    bool counts = member->pieces_out == 0 && member->rows_out > 0 && !ep_op_keeps(op);
    ep_put_rows_apart(member->link, piece.number, member->carries, head_bytes, counts);
    ep_flow_progress(member);
  }
  once->size = piece.count;
  once->under_way = true;
  once->since_ns = once->looked_ns = clock_ns();
}

// --- publishing it ---

// The transport delivers nothing and reports no failure: its peers have a time limit, as in all waits. Time in which
// this rank itself was stopped does not count.
static void give_up(weft_ep_t *ep, struct ep_op *op, struct ep_once *once, const struct piece *piece) {
  uint64_t now_ns = clock_ns(), gap_ns = now_ns - once->looked_ns, limit_ns = (uint64_t)ep->op_timeout_ms * 1000000u;
  if (gap_ns > 2 * ep_heartbeat_ns(ep))
    once->since_ns += gap_ns;
  once->looked_ns = now_ns;
  if (now_ns - once->since_ns < limit_ns + ep_heartbeat_ns(ep)) // the deadlines of flow_wait.c come first
    return;
  for (uint32_t i = 0; i < piece->count; i++) {
    struct ep_link *link = op->members[piece->index[i]].link;
    if (!ep_put_rows_arrived(link, piece->number))
      ep_link_down(ep, link, ep_control_verdict(ep, link), "what was sent to it did not arrive by the deadline");
  }
}

static void publish(weft_ep_t *ep, struct ep_op *op, const struct piece *piece) {
  for (uint32_t i = 0; i < piece->count; i++) {
    struct ep_member *member = &op->members[piece->index[i]];
    member->rows_sent += member->here;
    ep_send_flag(ep, op, member, piece->number, member->rows_out, EP_TRAIT_ONCE);
    ep_put_publish_apart(member->link, piece->number);
    member->pieces_out++;
    op->peers_done += member->rows_sent == member->rows_out;
    uint64_t bytes = ep_op_once_bytes(ep, op, member->here, member->carries);
    member->link->sent_bytes += bytes;
    op->dispatch_wire_bytes += bytes;
    ep_flow_progress(member);
  }
}

// The current piece is in flight. A member for which it was written may be lost, and with it rows that others would
// read there. Nothing of the piece is published in that case: it is written again, for the remaining members. True: the
// piece is over.
static bool end_piece(weft_ep_t *ep, struct ep_op *op, uint32_t group) {
  struct ep_once *once = &op->groups[group - 1];
  struct piece piece;
  gather(ep, op, group, &piece);
  for (uint32_t i = 0; i < piece.count; i++)
    if (!ep_put_rows_arrived(op->members[piece.index[i]].link, piece.number)) {
      give_up(ep, op, once, &piece);
      return false;
    }
  bool whole = piece.count == once->size;
  for (uint32_t i = 0; i < piece.count; i++)
    whole &= !op->members[piece.index[i]].lost; // it may be lost for this operation although its link is up
  for (uint32_t i = 0; i < piece.count; i++) {
    op->members[piece.index[i]].in_piece = false;
    if (!whole)
      ep_put_take_back(op->members[piece.index[i]].link, piece.number);
  }
  if (whole)
    publish(ep, op, &piece);
  once->pieces += whole;
  once->under_way = false;
  return true;
}

// --- the next one ---

bool ep_once_is_read(const weft_ep_t *ep, const struct ep_op *op, const struct ep_link *link, uint64_t number) {
  uint32_t slot = number % EP_DEPTH;
  for (uint32_t i = 0; link->sent_once[slot] && i < op->num_members; i++) {
    const struct ep_member *member = &op->members[i];
    if (!member->link || member->link->sent_once[slot] != link->sent_once[slot] || member->lost ||
        !ep_link_up(member->link))
      continue;
    const struct ep_slot_head *head = ep_slot(&ep->layout, member->link->out.memory, number);
    if (atomic_load_explicit(&head->taken.dispatch, memory_order_acquire) < member->link->sent_dispatch[slot])
      return false;
  }
  return true;
}

static bool is_free(const weft_ep_t *ep, const struct ep_op *op, const struct piece *piece,
                    const struct ep_member *member) {
  const struct ep_slot_head *head = ep_slot(&ep->layout, member->link->out.memory, piece->number);
  return atomic_load_explicit(&head->taken.dispatch, memory_order_acquire) >=
             member->link->sent_dispatch[piece->number % EP_DEPTH] &&
         ep_once_is_read(ep, op, member->link, piece->number);
}

// Writes the group's next piece, if there is one and room for it. True: it did, or a member was lost.
static bool begin_piece(weft_ep_t *ep, struct ep_op *op, uint32_t group) {
  struct piece piece;
  gather(ep, op, group, &piece);
  for (uint32_t i = 0; i < piece.count; i++)
    if (!is_free(ep, op, &piece, &op->members[piece.index[i]]))
      return false;
  for (uint32_t i = 0; i < piece.count; i++) {
    struct ep_link *link = op->members[piece.index[i]].link;
    if (!link->path->settle(link, piece.number, EP_PART_DISPATCH, clock_deadline_ms(ep->op_timeout_ms)))
      return true;
  }
  if (piece.count > 0)
    ep_once_write(ep, op, group);
  return piece.count > 0;
}

bool ep_once_send(weft_ep_t *ep, struct ep_op *op) {
  bool news = false;
  for (uint32_t group = 1; group <= op->num_groups; group++)
    news |= op->groups[group - 1].under_way ? end_piece(ep, op, group) : begin_piece(ep, op, group);
  return news;
}

// The first piece brings the header.
static bool lacks_header(const struct ep_op *op, uint32_t group) {
  bool lacks = false;
  for (uint32_t i = 0; i < op->num_members; i++)
    lacks |= is_there(&op->members[i], group) && op->members[i].pieces_out == 0;
  return lacks;
}

bool ep_once_send_headers(weft_ep_t *ep, struct ep_op *op) {
  bool news = false;
  for (uint32_t group = 1; group <= op->num_groups; group++)
    if (op->groups[group - 1].under_way)
      news |= end_piece(ep, op, group);
    else if (lacks_header(op, group))
      news |= begin_piece(ep, op, group);
  return news;
}

// --- waiting ---

bool ep_once_headers_are_over(const struct ep_op *op) {
  for (uint32_t group = 1; group <= op->num_groups; group++)
    if (op->groups[group - 1].under_way || lacks_header(op, group))
      return false;
  return true;
}

static bool group_is_over(const struct ep_op *op, uint32_t group) {
  bool over = !op->groups[group - 1].under_way;
  for (uint32_t i = 0; over && i < op->num_members; i++)
    over = !is_there(&op->members[i], group) || !has_more(&op->members[i]);
  return over;
}

bool ep_once_is_over(const struct ep_op *op) {
  for (uint32_t group = 1; group <= op->num_groups; group++)
    if (!group_is_over(op, group))
      return false;
  return true;
}

bool ep_send_has_more(const weft_ep_t *ep, const struct ep_op *op, const struct ep_member *member) {
  return member->link && member->group == 0 && member->sent && !member->lost &&
         member->pieces_out < ep_pieces_of(&ep->layout, member->rows_out, op->whole) && ep_link_up(member->link);
}

// Whether the next piece for the member goes to that slot.
static bool wants(const weft_ep_t *ep, const struct ep_op *op, const struct ep_member *member, uint32_t slot) {
  uint32_t group = member->group, piece = group ? op->groups[group - 1].pieces : member->pieces_out;
  bool more = group ? !group_is_over(op, group) : ep_send_has_more(ep, op, member);
  return more && ep_piece(&ep->layout, op->number, piece) % EP_DEPTH == slot;
}

bool ep_once_awaits(const weft_ep_t *ep, const struct ep_op *op, const struct ep_member *member) {
  if (!member->link || member->lost || !ep_link_up(member->link))
    return false;
  if (member->in_piece)
    return !ep_put_rows_arrived(member->link, ep_piece(&ep->layout, op->number, op->groups[member->group - 1].pieces));
  for (uint32_t slot = 0; slot < EP_DEPTH; slot++) {
    const struct ep_slot_head *head = ep_slot(&ep->layout, member->link->out.memory, slot);
    uint64_t sent = member->link->sent_dispatch[slot], shared = member->link->sent_once[slot];
    if (atomic_load_explicit(&head->taken.dispatch, memory_order_acquire) >= sent)
      continue;
    for (uint32_t i = 0; i < op->num_members; i++) {
      const struct ep_member *other = &op->members[i];
      bool shares = other == member || (shared && other->link && other->link->sent_once[slot] == shared);
      if (shares && wants(ep, op, other, slot))
        return true;
    }
  }
  return false;
}
