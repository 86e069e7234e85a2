// The life of an operation: its memory, its members, when writers may overwrite data that was read, its end.
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "ep/host/flow_wait.h"
#include "ep/host/host.h"

// A wait spins about as long as a sleep and a wake-up would take, but only a moment if the peer may need this
// processor.
enum { SPINS = 4000, SPINS_CROWDED = 200 };

int ep_op_init(weft_ep_t *ep, struct ep_op *op) {
  const struct ep_layout *layout = &ep->layout;
  size_t tokens = layout->max_tokens, selections = tokens * layout->topk;
  op->members = calloc(ep->capacity, sizeof *op->members);
  op->groups = calloc(ep->capacity, sizeof *op->groups);
  op->experts = calloc(selections, sizeof *op->experts);
  op->weights = calloc(selections, sizeof *op->weights);
  op->member_of = calloc(selections, sizeof *op->member_of);
  op->local_of = calloc(selections, sizeof *op->local_of);
  op->row_of = calloc(selections, sizeof *op->row_of);
  op->row_at = calloc(selections, sizeof *op->row_at);
  op->row_token = calloc(selections, sizeof *op->row_token);
  op->cast_done = calloc((tokens + 63) / 64, sizeof *op->cast_done);
  op->cast = aligned_alloc(EP_LINE, tokens * layout->row_stride);
  op->own_heads = calloc(tokens, layout->head_stride);
  op->own_in.count = calloc(tokens, sizeof *op->own_in.count);
  op->own_in.places = calloc(tokens, sizeof *op->own_in.places);
  op->own_in.index = calloc(selections, sizeof *op->own_in.index);
  op->own_in.weight = calloc(selections, sizeof *op->own_in.weight);
  op->own_back = calloc(selections, sizeof *op->own_back);
  op->own_combine = aligned_alloc(EP_LINE, layout->window_rows * layout->hidden * sizeof *op->own_combine);
  if (!op->members || !op->groups || !op->experts || !op->weights || !op->member_of || !op->local_of || !op->row_of ||
      !op->row_at || !op->row_token || !op->cast_done || !op->cast || !op->own_heads || !op->own_in.count ||
      !op->own_in.places || !op->own_in.index || !op->own_in.weight || !op->own_back || !op->own_combine)
    return fail(WEFT_ERR_NOMEM, "no memory for an operation of %u tokens with hidden %u", layout->max_tokens,
                layout->hidden);
  return 0;
}

void ep_op_free(struct ep_op *op) {
  group_view_unref(op->view);
  free(op->members);
  free(op->groups);
  free(op->experts);
  free(op->weights);
  free(op->member_of);
  free(op->local_of);
  free(op->row_of);
  free(op->row_at);
  free(op->row_token);
  free(op->cast_done);
  free(op->cast);
  free(op->own_heads);
  free(op->own_in.count);
  free(op->own_in.places);
  free(op->own_in.index);
  free(op->own_in.weight);
  free(op->own_back);
  free(op->own_combine);
  *op = (struct ep_op){0};
}

// Whether a later operation was published to the peer as its first: it then skips this rank in this operation.
static bool missed(const struct ep_layout *layout, const struct ep_link *link, uint64_t number) {
  uint64_t start = atomic_load_explicit(&ep_link_out(link)->start.op_plus_1, memory_order_relaxed);
  return start != 0 &&
         ep_activation_missed(number, start, ep_flag_op(layout, link->sent_dispatch[(start - 1) % EP_DEPTH]));
}

static struct ep_member new_member(weft_ep_t *ep, const struct ep_op *op, const struct group_member *from) {
  struct ep_member member = {.rank = from->rank, .incarnation = from->incarnation};
  if (from->rank == ep->rank) {
    member.sent = true;
    return member;
  }
  member.link = ep_link_find(ep, from->rank, from->incarnation);
  if (member.link)
    member.link->was_active = true;
  member.lost = !member.link || missed(&ep->layout, member.link, op->number);
  return member;
}

// Merges the members of `view` into op->members, which is rewritten in place from the end; `moved` maps old to new
// indices.
static void merge_members(weft_ep_t *ep, struct ep_op *op, const struct group_view *view, int16_t *moved) {
  struct ep_member *old = op->members;
  uint32_t num_old = op->num_members;
  for (uint32_t i = 0; i < num_old; i++)
    moved[i] = -1;
  // First packs the old members that stay; then writes those of the new view from the end, so that none is overwritten
  // before it is read.
  uint32_t kept = 0;
  for (uint32_t i = 0; i < num_old; i++) {
    const struct group_member *same = group_view_find(view, old[i].rank);
    if (!same || old[i].incarnation != same->incarnation)
      continue;
    moved[i] = (int16_t)(same - view->members);
    old[kept++] = old[i];
  }
  for (uint32_t j = view->count; j-- > 0;) {
    if (kept > 0 && old[kept - 1].rank == view->members[j].rank &&
        old[kept - 1].incarnation == view->members[j].incarnation)
      op->members[j] = old[--kept];
    else
      op->members[j] = new_member(ep, op, &view->members[j]);
  }
}

void ep_op_set_view(weft_ep_t *ep, struct ep_op *op, const struct group_view *view) {
  int16_t moved[EP_MAX_CAPACITY];
  merge_members(ep, op, view, moved);
  if (op->view)
    for (size_t i = 0; i < (size_t)op->num_tokens * op->topk; i++)
      if (op->member_of[i] >= 0)
        op->member_of[i] = moved[op->member_of[i]];
  group_view_unref(op->view);
  op->view = group_view_ref(view);
  op->num_members = view->count;
  uint32_t threads = atomic_load(&ep->net) ? 2 : 1; // threads of a rank; the network thread needs a processor too
  ep->spins = view->count * threads <= ep->processors ? SPINS : SPINS_CROWDED;
  int32_t self = ep_op_member(op, ep->rank);
  op->self = self < 0 ? 0 : (uint32_t)self;
}

const char *ep_call_of(enum ep_kind kind) {
  return kind == EP_KIND_BARRIER ? "barrier" : kind == EP_KIND_COMBINE ? "combine_route" : "dispatch";
}

int ep_fail_interrupted(const struct ep_op *op) {
  return fail(WEFT_ERR_BUSY, "%s: operation %llu was interrupted: repeat the interrupted call first",
              ep_call_of(op->kind), (unsigned long long)op->number);
}

int ep_op_find(weft_ep_t *ep, uint64_t number, enum ep_op_state state, const char *call, struct ep_op **out) {
  struct ep_op *op = &ep->host->ops[number % EP_DEPTH];
  bool open = op->state != EP_OP_FREE && op->number == number;
  int rc = ep_op_check_state(number, open, op->state, state, call);
  if (rc != 0)
    return rc;
  *out = op;
  return 0;
}

int ep_op_resumes(weft_ep_t *ep, enum ep_kind kind, uint64_t *number) {
  uint64_t interrupted = ep->host->interrupted;
  if (interrupted == 0)
    return 0;
  const struct ep_op *op = &ep->host->ops[(interrupted - 1) % EP_DEPTH];
  bool open = op->state == EP_OP_SENT && op->number == interrupted - 1; // otherwise dispatch_recv has ended it
  if (open && op->kind != kind)
    return ep_fail_interrupted(op);
  ep->host->interrupted = 0;
  *number = interrupted - 1;
  return open;
}

bool ep_op_uses(weft_ep_t *ep, const struct ep_link *link) {
  for (int i = 0; i < EP_DEPTH; i++)
    for (uint32_t j = 0; ep->host->ops[i].state != EP_OP_FREE && j < ep->host->ops[i].num_members; j++)
      if (ep->host->ops[i].members[j].link == link)
        return true;
  return false;
}

void ep_release_rows(weft_ep_t *ep, struct ep_op *op) {
  bool in_place = op->in_place;
  op->in_place = false;
  for (uint32_t i = 0; i < op->num_members; i++) {
    struct ep_member *member = &op->members[i];
    if (!member->received || !member->link)
      continue;
    const struct ep_layout *layout = &ep->layout;
    if (layout->flows && !in_place && !ep_flow_comes(layout, member))
      continue; // it was released piece by piece
    // Acknowledges the last possible pieces: nothing more is read.
    for (uint32_t back = 0; back < EP_DEPTH && back < layout->pieces; back++) {
      uint64_t last = ep_piece(layout, op->number, layout->pieces - 1 - back);
      struct ep_slot_head *slot = ep_slot(layout, member->link->in.memory, last);
      atomic_store_explicit(&slot->taken.dispatch, last + 1, memory_order_release);
    }
    member->link->path->acknowledge(member->link);
  }
  ep_hand_over(ep);
}

void ep_release_answers(weft_ep_t *ep, struct ep_op *op) {
  for (uint32_t i = 0; i < op->num_members; i++) {
    struct ep_member *member = &op->members[i];
    if (!member->link || member->rows_out == 0 || member->lost)
      continue;
    struct ep_slot_head *slot = ep_slot(&ep->layout, member->link->in.memory, op->number);
    atomic_store_explicit(&slot->taken.combine, ep_answer_flag(&ep->layout, op->number, op->round, 0, 0),
                          memory_order_release);
    member->link->path->acknowledge(member->link);
    member->link->received_bytes +=
        member->rows_out * ep_layout_combine_bytes(&ep->layout, (enum weft_ep_combine_dtype)member->answer_type);
    if (member->weights_back)
      member->link->received_bytes += (uint64_t)member->rows_out * ep->layout.topk * sizeof(float);
  }
}

void ep_op_end(weft_ep_t *ep, struct ep_op *op) {
  if (op->in_place)
    ep_release_rows(ep, op);
  if (op->route)
    ep_op_let_go(op);
  op->state = EP_OP_FREE;
  group_view_unref(op->view);
  op->view = NULL;
  op->num_members = 0;
  ep->stats.operations++;
  ep_host_sweep(ep);
}
