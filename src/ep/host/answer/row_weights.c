// Weights that go back with the rows of a combine (weft_ep_combine_args.row_weights): [K] for each row of an answer, at
// their places in the token's top-k. They use the memory of late weights: a rank that sends late weights sends no row
// weights. A bit of the answer's flag announces them.
#include <string.h>

#include "ep/host/answer/row_weights.h"
#include "ep/host/host.h"

// Copies the weights of row i of a source, out of the caller's, to their places in the token's top-k: [K].
static void copy_weights(const weft_ep_t *ep, const struct ep_op *op, const struct ep_inbox *inbox, uint32_t i,
                         const float *given, float *to) {
  const int32_t *index = inbox->index + (size_t)i * ep->layout.topk;
  if (op->layout == WEFT_EP_RANK_MAJOR) {
    memcpy(to, given + (size_t)index[0] * op->topk, op->topk * sizeof *to);
    return;
  }
  uint32_t next = 0; // the received rows are in the order of the top-k
  for (uint32_t k = 0; k < op->topk; k++)
    to[k] = inbox->places[i] >> k & 1 ? given[index[next++]] : 0.0f;
}

bool ep_row_weights_send(weft_ep_t *ep, struct ep_op *op, struct ep_member *member, const struct ep_batch *batch,
                         uint64_t flag, const struct ep_answer *with) {
  struct ep_link *link = member->link;
  const struct ep_inbox *inbox = &link->inbox[op->number % EP_DEPTH];
  uint32_t topk = ep->layout.topk;
  if (!link->path->settle(link, batch->number, EP_PART_WEIGHTS, with->deadline_ns))
    return false;
  for (uint32_t i = 0; i < batch->count; i++)
    copy_weights(ep, op, inbox, batch->first + i, with->row_weights,
                 ep_weights_row(ep, link->out.memory, batch->number, i));
  struct ep_slot_head *slot = ep_slot(&ep->layout, link->out.memory, batch->number);
  atomic_store_explicit(&slot->weights.flag, flag, memory_order_release);
  link->path->publish(link, batch->number, EP_PART_WEIGHTS, batch->count);
  uint64_t bytes = (uint64_t)batch->count * topk * sizeof *with->row_weights;
  link->sent_bytes += bytes;
  op->combine_wire_bytes += bytes;
  return true;
}

void ep_row_weights_keep(weft_ep_t *ep, struct ep_op *op, uint32_t rows, const float *weights) {
  for (uint32_t i = 0; i < rows; i++)
    copy_weights(ep, op, &op->own_in, i, weights, op->own_back + (size_t)i * op->topk);
}

enum ep_wait ep_row_weights_await(weft_ep_t *ep, const struct ep_op *op, struct ep_member *member,
                                  uint64_t deadline_ns) {
  if (!member->weights_back)
    return EP_WAIT_CAME;
  struct ep_slot_head *slot = ep_slot(&ep->layout, member->link->in.memory, op->number);
  return ep_wait_word(ep, member->link, &slot->weights.flag, ep_answer_flag(&ep->layout, op->number, op->round, 0, 0),
                      deadline_ns, "the weights of its combine did not arrive by the deadline");
}

void ep_row_weights_take(weft_ep_t *ep, const struct ep_op *op, uint32_t token, float *out) {
  size_t at = (size_t)token * op->topk;
  for (uint32_t k = 0; k < op->topk; k++) {
    out[k] = 0.0f;
    if (op->member_of[at + k] < 0)
      continue;
    const struct ep_member *member = &op->members[op->member_of[at + k]];
    uint32_t row = op->row_of[at + k];
    uint64_t piece;
    if (!member->link && op->own_weights)
      out[k] = op->own_back[(size_t)row * op->topk + k];
    else if (member->link && member->weights_back && row < member->answered) {
      row = ep_answer_place(&ep->layout, op, member, row, &piece);
      out[k] = ep_weights_row(ep, member->link->in.memory, piece, row)[k];
    }
  }
}
