// combine_send: the rank of the experts reduces its rows and returns one row for each token; combine_recv.c receives
// them.
#include <string.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "ep/host/answer/row_weights.h"
#include "ep/host/host.h"
#include "ep/host/rows/rows.h"

int ep_combine_check(const struct ep_op *op, const struct weft_ep_combine_args *args, const char *call) {
  if (op->num_tokens > 0 && !args->out)
    return fail(WEFT_ERR_INVALID, "%s: out is NULL", call);
  if (op->round >= EP_MAX_COMBINES)
    return fail(WEFT_ERR_LIMIT, "%s: operation %llu has had %u combines, the most that an operation can have: end it",
                call, (unsigned long long)op->number, op->round);
  return 0;
}

static int check_send(const weft_ep_t *ep, const struct ep_op *op, const struct weft_ep_combine_args *args) {
  uint32_t rows = 0;
  for (uint32_t i = 0; i < op->num_members; i++)
    rows += op->members[i].received ? op->members[i].rows_in : 0;
  if (op->placed && args->y)
    return fail(WEFT_ERR_INVALID, "combine_send: y is given, but weft_ep_combine_rows returned the places of the rows: "
                                  "write them there, and leave y NULL");
  if (op->placed && args->dtype && args->dtype != WEFT_EP_COMBINE_BF16)
    return fail(WEFT_ERR_INVALID, "combine_send: dtype is %d, but rows that weft_ep_combine_rows placed are bf16",
                (int)args->dtype);
  if (rows > 0 && !args->y && !op->placed)
    return fail(WEFT_ERR_INVALID, "combine_send: y is NULL, but %u rows were received", rows);
  if (op->has_weights && op->num_tokens > 0 && args->topk_weights)
    return fail(WEFT_ERR_INVALID, "combine_send: topk_weights were given to the dispatch already: leave them NULL");
  bool unweighted = args->flags & WEFT_EP_COMBINE_UNWEIGHTED || op->layout == WEFT_EP_RANK_MAJOR;
  if (args->row_weights && !unweighted && !op->has_weights && op->num_tokens > 0)
    return fail(WEFT_ERR_INVALID, EP_ALSO_LATE, "combine_send");
  if (args->flags & WEFT_EP_COMBINE_UNWEIGHTED)
    return 0;
  if (!op->has_weights && op->layout == WEFT_EP_PER_EXPERT && ep->layout.flows)
    return fail(WEFT_ERR_INVALID,
                "combine_send: the dispatch had no topk_weights: with THROUGHPUT, give them to the dispatch");
  if (!op->has_weights && op->layout == WEFT_EP_PER_EXPERT && !args->topk_weights)
    return fail(WEFT_ERR_INVALID,
                "combine_send: topk_weights is NULL here, and was NULL in the dispatch: give it to one of them");
  if (!op->has_weights && op->layout == WEFT_EP_RANK_MAJOR && args->topk_weights)
    return fail(WEFT_ERR_INVALID, EP_NOT_LATE, "combine_send");
  return 0;
}

// Writes the weights of the rows that went to one member, in row order.
static void write_weights(weft_ep_t *ep, const struct ep_op *op, uint32_t index, float *to) {
  uint32_t topk = op->topk;
  const struct ep_member *member = &op->members[index];
  for (uint32_t i = 0; i < member->rows_out; i++) {
    size_t at = (size_t)op->row_token[member->first_row + i] * topk;
    float *row = to + (size_t)i * ep->layout.topk;
    for (uint32_t k = 0; k < topk; k++)
      if (op->member_of[at + k] == (int16_t)index)
        *row++ = op->weights[at + k];
  }
}

static void send_weights(weft_ep_t *ep, struct ep_op *op, const struct weft_ep_combine_args *args) {
  memcpy(op->weights, args->topk_weights, (size_t)op->num_tokens * op->topk * sizeof *op->weights);
  for (uint32_t i = 0; i < op->num_members; i++) {
    struct ep_member *member = &op->members[i];
    if (member->rows_out == 0 || member->lost)
      continue;
    if (!member->link) {
      write_weights(ep, op, i, op->own_in.weight);
      continue;
    }
    const struct ep_path_ops *path = member->link->path;
    if (!path->settle(member->link, op->number, EP_PART_WEIGHTS, clock_deadline_ms(ep->op_timeout_ms)))
      continue; // the combine will find the link down
    write_weights(ep, op, i, ep_weights_row(ep, member->link->out.memory, op->number, 0));
    struct ep_slot_head *slot = ep_slot(&ep->layout, member->link->out.memory, op->number);
    atomic_store_explicit(&slot->weights.flag, ep_answer_flag(&ep->layout, op->number, op->round, 0, 0),
                          memory_order_release);
    path->publish(member->link, op->number, EP_PART_WEIGHTS, member->rows_out);
    uint64_t bytes = (uint64_t)member->rows_out * ep->layout.topk * sizeof(float);
    member->link->sent_bytes += bytes;
    op->combine_wire_bytes += bytes;
  }
}

const uint16_t *ep_reduced_row(weft_ep_t *ep, const struct ep_op *op, const struct ep_inbox *inbox, uint32_t row,
                               const uint16_t *y, uint16_t *room) {
  uint32_t hidden = ep->layout.hidden;
  size_t at = (size_t)row * ep->layout.topk;
  if (op->layout == WEFT_EP_RANK_MAJOR) // the caller has reduced the row
    return y + (size_t)inbox->index[at] * hidden;
  const uint16_t *inputs[EP_MAX_TOPK];
  for (uint32_t j = 0; j < inbox->count[row]; j++)
    inputs[j] = y + (size_t)inbox->index[at + j] * hidden;
  ep->kernels->reduce(room, inputs, op->unweighted ? NULL : inbox->weight + at, inbox->count[row], 1.0f, hidden);
  return room;
}

static void reduce_own_rows(weft_ep_t *ep, struct ep_op *op, uint32_t rows, const uint16_t *y) {
  uint32_t hidden = ep->layout.hidden;
  for (uint32_t i = 0; i < rows; i++) {
    uint16_t *to = op->own_combine + (size_t)i * hidden;
    const uint16_t *row = ep_reduced_row(ep, op, &op->own_in, i, y, to);
    if (row != to)
      ep->kernels->copy(to, row, hidden * sizeof *to);
  }
}

static const uint8_t *encoded_row(weft_ep_t *ep, const uint16_t *row, uint8_t *room) {
  ep->kernels->encode10(room, (float *)(room + ep->layout.combine_heads), row, ep->layout.hidden);
  return room;
}

// As in a dispatch. In a rank-major y the rows of one source are contiguous.
static bool zero_copy_rows(weft_ep_t *ep, const struct ep_op *op, const struct ep_member *member,
                           const struct ep_answer *answer, const struct ep_batch *batch, uint32_t first,
                           uint32_t *end) {
  const struct ep_path_ops *path = member->link->path;
  if (!path->zero_copy_rows || !op->own_y || op->layout != WEFT_EP_RANK_MAJOR || answer->type != WEFT_EP_COMBINE_BF16)
    return false;
  uint32_t count = path->zero_copy_rows(member->link, batch->number, EP_PART_COMBINE, first, batch->count), run = 0;
  const struct ep_inbox *inbox = &member->link->inbox[op->number % EP_DEPTH];
  const int32_t *row = inbox->index + (size_t)(batch->first + first) * ep->layout.topk;
  while (run < count && row[run * ep->layout.topk] == row[0] + (int32_t)run)
    run++;
  if (count == 0 || run < count)
    return false;
  path->zero_copy(member->link, batch->number, EP_PART_COMBINE, first, answer->y + (size_t)row[0] * ep->layout.hidden);
  *end = first + count;
  return true;
}

static void send_rows(weft_ep_t *ep, const struct ep_op *op, const struct ep_member *member,
                      const struct ep_answer *answer, const struct ep_batch *batch) {
  const struct ep_inbox *inbox = &member->link->inbox[op->number % EP_DEPTH];
  bool coded = answer->type == WEFT_EP_COMBINE_LOGFMT10;
  struct ep_writing writing = ep_write_begin(member->link, batch->count);
  const struct ep_path_ops *path = member->link->path;
  uint32_t zero_copied = 0;
  for (uint32_t i = 0; i < batch->count; i++) {
    if (i < zero_copied || zero_copy_rows(ep, op, member, answer, batch, i, &zero_copied)) {
      path->rows_written(member->link, batch->number, EP_PART_COMBINE, i + 1);
      continue;
    }
    void *to = ep_combine_row(ep, member->link->out.memory, batch->number, i);
    const void *row = ep_reduced_row(ep, op, inbox, batch->first + i, answer->y,
                                     !coded && ep_write_in_place(&writing) ? to : ep->host->reduced);
    if (coded)
      row = encoded_row(ep, row, ep_write_in_place(&writing) ? to : ep->host->encoded);
    if (row != to)
      ep_write_row(ep, &writing, to, row, answer->bytes);
    if (path->rows_written)
      path->rows_written(member->link, batch->number, EP_PART_COMBINE, i + 1);
  }
}

bool ep_answer_piece(weft_ep_t *ep, struct ep_op *op, struct ep_member *member, const struct ep_answer *with,
                     bool whole) {
  struct ep_link *link = member->link;
  uint32_t piece = member->answers_out;
  struct ep_batch batch = ep_batch_of(&ep->layout, op->number, member->rows_in, whole, piece);
  struct ep_slot_head *slot = ep_slot(&ep->layout, link->out.memory, batch.number);
  uint64_t flag = ep_answer_flag(&ep->layout, op->number, op->round, piece, 0);
  if (with->row_weights && !ep_row_weights_send(ep, op, member, &batch, flag, with))
    return false;
  if (!op->placed)
    send_rows(ep, op, member, with, &batch);
  ep_kernels_fence();
  uint32_t type =
      with->type | (with->row_weights ? EP_ANSWER_WEIGHTS : 0) | (ep->layout.flows && whole ? EP_ANSWER_WHOLE : 0);
  atomic_store_explicit(&slot->combine.flag, flag + type, memory_order_release);
  link->sent_combine[batch.number % EP_DEPTH] = flag;
  member->answers_out++;
  link->path->publish(link, batch.number, EP_PART_COMBINE, batch.count);
  uint64_t bytes = (uint64_t)batch.count * with->bytes;
  link->sent_bytes += bytes;
  op->combine_wire_bytes += bytes;
  return true;
}

// Reads the late weights of one source from its window.
static enum ep_wait take_weights(weft_ep_t *ep, struct ep_op *op, const struct ep_member *member,
                                 struct ep_inbox *inbox, uint64_t deadline_ns) {
  struct ep_slot_head *slot = ep_slot(&ep->layout, member->link->in.memory, op->number);
  enum ep_wait came =
      ep_wait_word(ep, member->link, &slot->weights.flag, ep_answer_flag(&ep->layout, op->number, op->round, 0, 0),
                   deadline_ns, "its weights did not arrive by the deadline");
  if (came != EP_WAIT_CAME)
    return came;
  memcpy(inbox->weight, ep_weights_row(ep, member->link->in.memory, op->number, 0),
         (size_t)member->rows_in * ep->layout.topk * sizeof(float));
  member->link->received_bytes += (uint64_t)member->rows_in * ep->layout.topk * sizeof(float);
  return EP_WAIT_CAME;
}

// Waits until the peer has taken the former contents of the slot for the first answers.
static enum ep_wait combine_free(weft_ep_t *ep, const struct ep_op *op, struct ep_link *link, uint64_t deadline_ns) {
  uint64_t first = ep_piece(&ep->layout, op->number, 0);
  struct ep_slot_head *slot = ep_slot(&ep->layout, link->out.memory, first);
  enum ep_wait taken = ep_wait_word(ep, link, &slot->taken.combine, link->sent_combine[first % EP_DEPTH], deadline_ns,
                                    "it did not receive a combine by the deadline");
  if (taken == EP_WAIT_CAME && !link->path->settle(link, first, EP_PART_COMBINE, deadline_ns))
    return EP_WAIT_DOWN;
  return taken;
}

// False: interrupted before anything was written.
static bool answer(weft_ep_t *ep, struct ep_op *op, struct ep_member *member, const struct ep_answer *with) {
  if (!member->received || member->lost || member->rows_in == 0)
    return true;
  if (!member->link) {
    if (!op->own_y && !op->placed)
      reduce_own_rows(ep, op, member->rows_in, with->y);
    if (with->row_weights)
      ep_row_weights_keep(ep, op, member->rows_in, with->row_weights);
    return true;
  }
  struct ep_link *link = member->link;
  struct ep_inbox *inbox = &link->inbox[op->number % EP_DEPTH];
  bool late = member->late_weights && op->layout == WEFT_EP_PER_EXPERT && !op->unweighted && !ep->layout.flows;
  enum ep_wait ready = late ? take_weights(ep, op, member, inbox, with->deadline_ns) : EP_WAIT_CAME;
  if (ready == EP_WAIT_CAME)
    ready = combine_free(ep, op, link, with->deadline_ns);
  if (ready == EP_WAIT_CAME && !ep_answer_piece(ep, op, member, with, true))
    ready = EP_WAIT_DOWN;
  member->lost = ready == EP_WAIT_DOWN;
  return ready != EP_WAIT_INTERRUPTED;
}

// Prepares the operation for its answers.
static void begin_answers(weft_ep_t *ep, struct ep_op *op, const struct weft_ep_combine_args *args, bool y_stays) {
  if (op->in_place)
    ep_release_rows(ep, op);
  op->own_y = y_stays ? args->y : NULL;
  op->combine_wire_bytes = 0;
  op->combine_dtype = args->dtype ? args->dtype : ep->combine_dtype;
  for (uint32_t i = 0; i < op->num_members; i++)
    op->members[i].answers_out = 0;
  op->unweighted = args->flags & WEFT_EP_COMBINE_UNWEIGHTED;
  op->own_weights = args->row_weights != NULL;
  if (!op->unweighted && !op->has_weights && op->layout == WEFT_EP_PER_EXPERT)
    send_weights(ep, op, args);
  op->answered = 1;
}

struct ep_answer ep_answer_of(const weft_ep_t *ep, const struct weft_ep_combine_args *args) {
  struct ep_answer with = {.y = args->y,
                           .row_weights = args->row_weights,
                           .type = args->dtype ? args->dtype : ep->combine_dtype,
                           .deadline_ns = clock_deadline_ms(ep->op_timeout_ms)};
  with.bytes = ep_layout_combine_bytes(&ep->layout, with.type);
  return with;
}

// If one call sends the answers and another one receives them, they have to fit into the window, like rows of a
// dispatch.
static int check_fits(const weft_ep_t *ep, const struct ep_op *op, const char *call) {
  const struct ep_layout *layout = &ep->layout;
  for (uint32_t i = 0; layout->flows && i < op->num_members; i++)
    if (op->members[i].received && op->members[i].rows_in > layout->window_rows)
      return fail(WEFT_ERR_LIMIT,
                  "%s: %u rows arrived from rank %d, but a window of %llu bytes holds %u: call weft_ep_combine with y, "
                  "which sends them back in pieces, or open the group with larger window_bytes",
                  call, op->members[i].rows_in, op->members[i].rank, (unsigned long long)layout->window_bytes,
                  layout->window_rows);
  return 0;
}

// Finds the operation, and checks the arguments against it.
static int open_combine(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine_args *args, struct ep_op **op) {
  int rc = ep_op_find(ep, number, EP_OP_RECEIVED, "combine_send", op);
  if (rc == 0)
    rc = ep_combine_check(*op, args, "combine_send");
  return rc == 0 ? check_send(ep, *op, args) : rc;
}

int ep_combine_send(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine_args *args, bool y_stays) {
  struct ep_op *op;
  int rc = open_combine(ep, number, args, &op);
  if (rc == 0)
    rc = check_fits(ep, op, "combine_send");
  if (rc != 0)
    return rc;
  if (op->answered == 0)
    begin_answers(ep, op, args, y_stays);
  struct ep_answer with = ep_answer_of(ep, args);
  for (uint32_t i = op->answered; i <= op->num_members; i++) // first the ranks after this one, and itself last
    if (!answer(ep, op, &op->members[(op->self + i) % op->num_members], &with)) {
      op->answered = i;
      return ep_canceled("combine_send");
    }
  op->answered = 0; // the operation may be combined once more
  ep_hand_over(ep);
  op->whole_answers = true;
  op->state = EP_OP_ANSWERED;
  return 0;
}

int ep_combine_begin_flow(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine_args *args) {
  struct ep_op *op;
  int rc = open_combine(ep, number, args, &op);
  if (rc != 0)
    return rc;
  begin_answers(ep, op, args, true);
  if (args->row_weights)
    ep_row_weights_keep(ep, op, op->members[op->self].rows_out, args->row_weights);
  op->answered = 0;
  op->whole_answers = false;
  op->state = EP_OP_ANSWERED;
  return 0;
}

// Finds where to write the answers to the rows of one member; waits while the member still reads those of two
// operations ago.
static enum ep_wait place_rows(weft_ep_t *ep, struct ep_op *op, struct ep_member *member, uint64_t deadline_ns,
                               void **rows_at) {
  struct ep_link *link = member->link;
  uint32_t place = op->number % EP_DEPTH;
  const struct ep_inbox *inbox = link ? &link->inbox[place] : &op->own_in;
  uint64_t first = ep_piece(&ep->layout, op->number, 0);
  uint16_t *to = link ? ep_combine_row(ep, link->out.memory, first, 0) : op->own_combine;
  size_t stride = ep->layout.hidden;
  enum ep_wait taken = member->lost ? EP_WAIT_DOWN : link ? combine_free(ep, op, link, deadline_ns) : EP_WAIT_CAME;
  if (taken == EP_WAIT_INTERRUPTED)
    return taken;
  if (taken == EP_WAIT_DOWN) {
    to = ep->host->reduced;
    stride = 0;
  }
  for (uint32_t i = 0; i < member->rows_in; i++)
    rows_at[inbox->index[(size_t)i * ep->layout.topk]] = to + i * stride;
  return taken;
}

int ep_host_combine_rows(weft_ep_t *ep, uint64_t number, void **rows_at) {
  struct ep_op *op;
  int rc = ep_op_find(ep, number, EP_OP_RECEIVED, "combine_rows", &op);
  if (rc != 0)
    return rc;
  if (op->layout != WEFT_EP_RANK_MAJOR)
    return fail(WEFT_ERR_INVALID,
                "combine_rows: the rows of operation %llu were received per expert, and the combine weights and sums "
                "them: give y to the combine",
                (unsigned long long)number);
  if (ep->combine_dtype != WEFT_EP_COMBINE_BF16)
    return fail(WEFT_ERR_INVALID, "combine_rows: the combine encodes its rows as logfmt10: give y to the combine");
  rc = check_fits(ep, op, "combine_rows");
  if (rc != 0)
    return rc;
  uint64_t deadline_ns = clock_deadline_ms(ep->op_timeout_ms);
  for (uint32_t i = 0; i < op->num_members; i++) {
    if (!op->members[i].received || op->members[i].rows_in == 0)
      continue;
    enum ep_wait placed = place_rows(ep, op, &op->members[i], deadline_ns, rows_at);
    if (placed == EP_WAIT_INTERRUPTED)
      return ep_canceled("combine_rows");
    op->members[i].lost = placed == EP_WAIT_DOWN;
  }
  op->placed = true;
  return 0;
}

int ep_host_combine_send(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine_args *args) {
  return ep_combine_send(ep, number, args, false);
}
