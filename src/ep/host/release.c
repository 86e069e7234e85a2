// Tells writers that what they wrote has been read, so that they may overwrite it.
#include "ep/host/host.h"

void ep_release_rows(weft_ep_t *ep, struct ep_op *op) {
  op->in_place = false;
  for (uint32_t i = 0; i < op->num_members; i++) {
    struct ep_member *member = &op->members[i];
    if (!member->received || !member->link)
      continue;
    struct ep_slot_head *slot = ep_slot(&ep->layout, member->link->in.memory, op->number);
    atomic_store_explicit(&slot->taken.dispatch, op->number + 1, memory_order_release);
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
    atomic_store_explicit(&slot->taken.combine, ep_answer_flag(op->number, op->round, 0), memory_order_release);
    member->link->path->acknowledge(member->link);
    member->link->received_bytes +=
        member->rows_out * ep_layout_combine_bytes(&ep->layout, (enum weft_ep_combine_dtype)member->answer_type);
  }
}
