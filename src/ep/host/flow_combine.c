// A combine with THROUGHPUT: answers flow back in pieces, in the order of rows. This rank answers members that have
// room, and adds up its tokens, in their order, as the answers arrive. A piece is released when all its rows have been
// added.
#include "ep/host/flow_wait.h"
#include "ep/host/host.h"

enum { SUMS_AT_ONCE = 32 }; // tokens to sum between two checks of which members to answer

// --- answering ---

static bool has_more(const weft_ep_t *ep, const struct ep_op *op, const struct ep_member *member) {
  return !op->whole_answers && member->link && member->received && !member->lost && member->rows_in > 0 &&
         member->answers_out < ep_pieces_of(&ep->layout, member->rows_in, false) && ep_link_up(member->link);
}

static bool answer_next(weft_ep_t *ep, struct ep_op *op, struct ep_member *member, const struct ep_answer *with) {
  struct ep_link *link = member->link;
  uint64_t number = ep_piece(&ep->layout, op->number, member->answers_out);
  const struct ep_slot_head *slot = ep_slot(&ep->layout, link->out.memory, number);
  if (atomic_load_explicit(&slot->taken.combine, memory_order_acquire) < link->sent_combine[number % EP_DEPTH])
    return false;
  if (!link->path->settle(link, number, EP_PART_COMBINE, with->deadline_ns))
    return false;
  if (!ep_answer_piece(ep, op, member, with, false))
    return false;
  ep_flow_progress(member);
  return true;
}

static bool answer_all(weft_ep_t *ep, struct ep_op *op, const struct ep_answer *with) {
  bool news = false;
  for (uint32_t i = 1; i < op->num_members; i++) {
    struct ep_member *member = &op->members[(op->self + i) % op->num_members];
    if (has_more(ep, op, member))
      news |= answer_next(ep, op, member, with);
  }
  return news;
}

// --- adding up ---

static uint64_t flag_of(const weft_ep_t *ep, const struct ep_op *op, uint32_t piece) {
  return ep_answer_flag(&ep->layout, op->number, op->round, piece, 0);
}

static void lose(weft_ep_t *ep, struct ep_member *member, const char *why) {
  if (why)
    ep_link_down(ep, member->link, EP_LINK_BROKEN, why);
  member->lost = true; // its answers so far count
}

// The member's next piece of answers has arrived.
static void take_piece(weft_ep_t *ep, const struct ep_op *op, struct ep_member *member, uint64_t type) {
  const struct ep_layout *layout = &ep->layout;
  struct ep_member before = *member;
  if (!ep_take_answer_type(ep, member, type)) {
    lose(ep, member, NULL);
    return;
  }
  bool first = member->answers_in == 0, alike = member->whole_answer == before.whole_answer &&
                                                member->weights_back == before.weights_back &&
                                                member->answer_type == before.answer_type;
  if ((!first && !alike) || (member->whole_answer && member->rows_out > layout->window_rows)) {
    *member = before;
    lose(ep, member, "it answered with a piece of another kind than its first");
    return;
  }
  member->answered += ep_batch_of(layout, op->number, member->rows_out, member->whole_answer, member->answers_in).count;
  member->answers_in++;
  ep_flow_progress(member);
}

// Whether the member's row has arrived, or certainly will not.
static bool is_known(weft_ep_t *ep, const struct ep_op *op, struct ep_member *member, uint32_t row) {
  while (row >= member->answered && !member->lost) {
    bool down = !ep_link_up(member->link); // read before the flag
    uint64_t wanted = flag_of(ep, op, member->answers_in),
             number = ep_piece(&ep->layout, op->number, member->answers_in);
    const struct ep_slot_head *slot = ep_slot(&ep->layout, member->link->in.memory, number);
    uint64_t flag = atomic_load_explicit(&slot->combine.flag, memory_order_acquire);
    bool weights = flag < wanted || !((flag - wanted) & EP_ANSWER_WEIGHTS) ||
                   atomic_load_explicit(&slot->weights.flag, memory_order_acquire) >= wanted;
    if (flag >= wanted && weights)
      take_piece(ep, op, member, flag - wanted);
    else if (down || !member->sent)
      lose(ep, member, NULL);
    else
      return false;
  }
  return true;
}

// The first member without which the token cannot be added up yet; NULL: there is none.
static struct ep_member *first_unknown(weft_ep_t *ep, const struct ep_op *op, uint32_t token) {
  size_t at = (size_t)token * op->topk;
  for (uint32_t k = 0; k < op->topk; k++) {
    int16_t index = op->experts[at + k] < 0 ? -1 : op->member_of[at + k];
    if (index >= 0 && op->members[index].link && !is_known(ep, op, &op->members[index], op->row_of[at + k]))
      return &op->members[index];
  }
  return NULL;
}

// Releases pieces of members whose rows have all been added, so that they can be overwritten.
static void release(weft_ep_t *ep, struct ep_op *op) {
  const struct ep_layout *layout = &ep->layout;
  for (uint32_t i = 0; i < op->num_members; i++) {
    struct ep_member *member = &op->members[i];
    for (; member->link && member->answers_released < member->answers_in; member->answers_released++) {
      struct ep_batch batch =
          ep_batch_of(layout, op->number, member->rows_out, member->whole_answer, member->answers_released);
      if (op->row_token[member->first_row + batch.first + batch.count - 1] >= op->next_sum)
        break;
      struct ep_slot_head *slot = ep_slot(layout, member->link->in.memory, batch.number);
      atomic_store_explicit(&slot->taken.combine, flag_of(ep, op, member->answers_released), memory_order_release);
      member->link->path->acknowledge(member->link);
      member->link->received_bytes +=
          batch.count * ep_layout_combine_bytes(layout, (enum weft_ep_combine_dtype)member->answer_type);
    }
  }
}

static bool add_some(weft_ep_t *ep, struct ep_op *op, const struct weft_ep_combine_args *args) {
  struct weft_ep_result ignored = WEFT_EP_RESULT_INIT; // ep_list_missing() fills the list when everything is known
  uint32_t first = op->next_sum, end = first + SUMS_AT_ONCE < op->num_tokens ? first + SUMS_AT_ONCE : op->num_tokens;
  for (; op->next_sum < end && !first_unknown(ep, op, op->next_sum); op->next_sum++)
    ep_sum_token(ep, op, op->next_sum, args, &ignored);
  if (op->next_sum > first)
    release(ep, op);
  return op->next_sum > first;
}

// --- both ---

static bool awaits(weft_ep_t *ep, const struct ep_op *op, uint32_t index) {
  const struct ep_member *member = &op->members[index];
  if (has_more(ep, op, member))
    return true;
  return op->next_sum < op->num_tokens && first_unknown(ep, op, op->next_sum) == member;
}

static bool is_over(weft_ep_t *ep, const struct ep_op *op) {
  bool over = op->next_sum == op->num_tokens;
  for (uint32_t i = 0; over && i < op->num_members; i++)
    over = !has_more(ep, op, &op->members[i]);
  return over;
}

static void begin(struct ep_op *op) {
  for (uint32_t i = 0; i < op->num_members; i++) {
    struct ep_member *member = &op->members[i];
    member->answered = member->link || member->lost ? 0 : member->rows_out;
    member->answers_in = member->answers_released = 0;
  }
  op->next_sum = 0;
  op->combining = true;
}

bool ep_flow_combine(weft_ep_t *ep, struct ep_op *op, const struct weft_ep_combine_args *args) {
  struct ep_pause pause = {0};
  struct ep_answer with = ep_answer_of(ep, args);
  bool held = ep->holds, going = true;
  if (!op->combining)
    begin(op);
  ep->holds = true; // the next wait is near
  ep_flow_begin(op);
  while (going) {
    bool news = answer_all(ep, op, &with);
    news |= add_some(ep, op, args);
    if (news)
      ep_flow_wait_end(ep, op, &pause);
    else if (is_over(ep, op))
      break;
    else
      going = ep_flow_wait(ep, op, &pause, awaits,
                           "by the deadline its combine did not arrive, or it did not receive ours");
  }
  ep_flow_wait_end(ep, op, &pause);
  ep->holds = held;
  op->combining = !going;
  return going;
}
