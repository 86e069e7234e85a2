// combine_recv: the source of the tokens adds the rows that their ranks answered with (combine_send.c).
#include "base/fail.h"
#include "base/time/clock.h"
#include "ep/host/answer/row_weights.h"
#include "ep/host/flow_wait.h"
#include "ep/host/host.h"
#include "ep/host/rows/rows.h"
#include "ep/remote/remote_link.h"

// This rank's own row for one of its tokens, valid until the next call; a token has at most one such row. While y stays
// readable, the row is reduced here, when it is added, so that it stays in the cache.
static const uint16_t *own_row(weft_ep_t *ep, const struct ep_op *op, uint32_t row) {
  if (!op->own_y)
    return op->own_combine + (size_t)row * ep->layout.hidden;
  return ep_reduced_row(ep, op, &op->own_in, row, op->own_y, op->own_combine);
}

bool ep_take_answer_type(weft_ep_t *ep, struct ep_member *member, uint64_t type) {
  member->weights_back = type & EP_ANSWER_WEIGHTS;
  member->whole_answer = type & EP_ANSWER_WHOLE;
  type &= ~(uint64_t)(EP_ANSWER_WEIGHTS | (ep->layout.flows ? EP_ANSWER_WHOLE : 0));
  bool good = type >= WEFT_EP_COMBINE_BF16 && type <= WEFT_EP_COMBINE_LOGFMT10 &&
              ep_layout_combine_bytes(&ep->layout, (enum weft_ep_combine_dtype)type) <= ep->layout.combine_bytes;
  if (!good)
    ep_link_down(ep, member->link, EP_LINK_BROKEN, "it answered with rows of an unknown type");
  member->answer_type = (uint8_t)type;
  return good;
}

// Waits for the rows of every member that has any of ours, and for weights if `weights`. False: interrupted.
static bool receive_all(weft_ep_t *ep, struct ep_op *op, bool weights) {
  uint64_t wanted = ep_answer_flag(&ep->layout, op->number, op->round, 0, 0);
  uint64_t deadline_ns = clock_deadline_ms(ep->op_timeout_ms);
  for (uint32_t i = 0; i < op->num_members; i++) {
    struct ep_member *member = &op->members[i];
    member->answered = member->link ? 0 : member->rows_out;
    if (!member->link || member->rows_out == 0 || !member->sent)
      continue;
    struct ep_slot_head *slot = ep_slot(&ep->layout, member->link->in.memory, op->number);
    enum ep_wait came = ep_wait_word(ep, member->link, &slot->combine.flag, wanted, deadline_ns,
                                     "its combine did not arrive by the deadline");
    if (came == EP_WAIT_INTERRUPTED)
      return false;
    member->lost =
        came == EP_WAIT_DOWN ||
        !ep_take_answer_type(ep, member, atomic_load_explicit(&slot->combine.flag, memory_order_relaxed) - wanted);
    came = weights && !member->lost ? ep_row_weights_await(ep, op, member, deadline_ns) : EP_WAIT_CAME;
    if (came == EP_WAIT_INTERRUPTED)
      return false;
    member->lost |= came == EP_WAIT_DOWN;
    member->answered = member->lost ? 0 : member->rows_out;
  }
  return true;
}

// A received row as bf16; decoded into `room` if necessary.
static const uint16_t *received_row(weft_ep_t *ep, const struct ep_op *op, const struct ep_member *member, uint32_t i,
                                    uint16_t *room) {
  uint64_t piece;
  i = ep_answer_place(&ep->layout, op, member, i, &piece);
  const uint8_t *row = ep_combine_row(ep, member->link->in.memory, piece, i);
  if (member->answer_type == WEFT_EP_COMBINE_BF16)
    return (const uint16_t *)row;
  ep->kernels->decode10(room, row, (const float *)(row + ep->layout.combine_heads), ep->layout.hidden);
  return room;
}

// Whether the selection `at` (of token at / topk) selects an expert and has no row to add: the expert's rank is not in
// the operation, or was lost before it answered the row.
static bool is_missing(const struct ep_op *op, size_t at) {
  if (op->experts[at] < 0)
    return false;
  int16_t member = op->member_of[at];
  return member < 0 || (op->members[member].lost && op->row_of[at] >= op->members[member].answered);
}

// Collects the rows to add for one token, by member in ascending order. A member adds up the rows of all its experts,
// so it has one row.
static uint32_t collect_rows(weft_ep_t *ep, const struct ep_op *op, uint32_t token, const uint16_t **rows) {
  size_t at = (size_t)token * op->topk;
  int16_t members[EP_MAX_TOPK];
  uint32_t count = 0;
  for (uint32_t k = 0; k < op->topk; k++) {
    int16_t member = op->member_of[at + k];
    if (op->experts[at + k] < 0 || is_missing(op, at + k))
      continue;
    uint32_t place = count;
    uint16_t *room = ep->host->decoded + (size_t)count * ep->layout.hidden;
    while (place > 0 && members[place - 1] > member)
      place--;
    if (place > 0 && members[place - 1] == member)
      continue;
    for (uint32_t i = count++; i > place; i--) {
      members[i] = members[i - 1];
      rows[i] = rows[i - 1];
    }
    members[place] = member;
    const struct ep_member *from = &op->members[member];
    uint32_t row = op->row_of[at + k];
    rows[place] = from->link ? received_row(ep, op, from, row, room) : own_row(ep, op, row);
  }
  return count;
}

static void add_missing(const struct ep_op *op, uint32_t token, uint32_t k, size_t at, struct weft_ep_result *result) {
  if (result->missing && result->num_missing < result->missing_cap)
    result->missing[result->num_missing] =
        (struct weft_ep_missing){.token = (int32_t)token, .k = (int32_t)k, .expert = op->experts[at]};
  result->num_missing++;
}

// Lists the token's missing selections; returns the factor that compensates for them.
static float list_missing_of(const struct ep_op *op, uint32_t token, struct weft_ep_result *result) {
  size_t at = (size_t)token * op->topk;
  float all = 0.0f, came = 0.0f;
  for (uint32_t k = 0; k < op->topk; k++) {
    if (op->experts[at + k] < 0)
      continue;
    bool weighted = !op->unweighted && (op->has_weights || op->layout == WEFT_EP_PER_EXPERT);
    float weight = weighted ? op->weights[at + k] : 1.0f;
    all += weight;
    if (is_missing(op, at + k))
      add_missing(op, token, k, at + k, result);
    else
      came += weight;
  }
  return came != 0.0f ? all / came : 1.0f;
}

// One token's sum, with the caller's biases.
static void sum_rows(weft_ep_t *ep, const struct ep_op *op, const struct weft_ep_combine_args *args, uint32_t token,
                     const uint16_t *const *rows, uint32_t count, float factor) {
  size_t at = (size_t)token * ep->layout.hidden;
  const uint16_t *biases[2];
  uint32_t num_biases = 0;
  for (int i = 0; i < 2; i++)
    if (args->bias[i])
      biases[num_biases++] = (const uint16_t *)args->bias[i] + at;
  bool past = (uint64_t)op->num_tokens * ep->layout.hidden * sizeof(uint16_t) > EP_CACHED_BYTES;
  uint16_t *to = (uint16_t *)args->out + at, *out = past ? ep->host->reduced : to;
  if (num_biases == 0)
    ep->kernels->reduce(out, rows, NULL, count, factor, ep->layout.hidden);
  else
    ep->kernels->reduce_biased(out, rows, count, factor, biases, num_biases, ep->layout.hidden);
  if (past)
    ep->kernels->stream(to, out, ep->layout.hidden * sizeof *out);
}

// Adds up the answers for one token.
void ep_sum_token(weft_ep_t *ep, struct ep_op *op, uint32_t token, const struct weft_ep_combine_args *args,
                  struct weft_ep_result *result) {
  const uint16_t *rows[EP_MAX_TOPK];
  uint32_t before = result->num_missing;
  float factor = list_missing_of(op, token, result);
  uint32_t count = collect_rows(ep, op, token, rows);
  sum_rows(ep, op, args, token, rows, count,
           args->flags & WEFT_EP_COMBINE_RENORMALIZE && result->num_missing > before ? factor : 1.0f);
  if (args->out_weights)
    ep_row_weights_take(ep, op, token, args->out_weights + (size_t)token * op->topk);
}

static void sum_tokens(weft_ep_t *ep, struct ep_op *op, const struct weft_ep_combine_args *args,
                       struct weft_ep_result *result) {
  for (uint32_t t = 0; t < op->num_tokens; t++)
    ep_sum_token(ep, op, t, args, result);
}

void ep_list_missing(const struct ep_op *op, struct weft_ep_result *result) {
  result->num_missing = 0;
  for (uint32_t t = 0; t < op->num_tokens; t++)
    for (uint32_t k = 0; k < op->topk; k++)
      if (is_missing(op, (size_t)t * op->topk + k))
        add_missing(op, t, k, (size_t)t * op->topk + k, result);
}

void ep_fill_result(const weft_ep_t *ep, const struct ep_op *op, struct weft_ep_result *result) {
  result->num_lost = 0;
  for (uint32_t i = 0; i < op->outcome.members; i++)
    result->num_lost += op->members[i].lost;
  result->wire_bytes = op->combine_wire_bytes;
  result->logical_bytes = op->logical_selections * ep_layout_combine_logical(&ep->layout, op->combine_dtype);
}

// Keeps the operation open for another combine.
static void keep_open(struct ep_op *op) {
  op->state = EP_OP_RECEIVED;
  op->placed = false;
  op->round++;
}

int ep_host_combine_recv(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine_args *args,
                         struct weft_ep_result *result) {
  struct ep_op *op;
  int rc = ep_op_find(ep, number, EP_OP_ANSWERED, "combine_recv", &op);
  if (rc == 0)
    rc = ep_combine_check(op, args, "combine_recv");
  if (rc != 0)
    return rc;
  struct weft_ep_result ignored = WEFT_EP_RESULT_INIT;
  if (!result)
    result = &ignored;
  result->num_missing = 0;
  if (!(ep->layout.flows ? ep_flow_combine(ep, op, args) : receive_all(ep, op, args->out_weights != NULL)))
    return ep_canceled("combine_recv");
  if (ep->layout.flows) {
    ep_list_missing(op, result);
  } else {
    sum_tokens(ep, op, args, result);
    ep_release_answers(ep, op);
  }
  ep_kernels_fence(); // as in a dispatch: ep_receive()
  ep_hand_over(ep);
  op->outcome.combined = true;
  op->outcome.members = op->num_members;
  ep_fill_result(ep, op, result);
  ep->stats.combine_wire_bytes += result->wire_bytes;
  ep->stats.combine_logical_bytes += result->logical_bytes;
  ep->stats.missing += result->num_missing;
  if (args->flags & WEFT_EP_COMBINE_KEEP)
    keep_open(op);
  else
    ep_op_end(ep, op);
  return 0;
}

int ep_host_combine(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine_args *args,
                    struct weft_ep_result *result) {
  struct ep_op *op = &ep->host->ops[number % EP_DEPTH];
  bool resumes = op->combine_interrupted && op->state == EP_OP_ANSWERED && op->number == number;
  bool flows = ep->layout.flows && !(op->placed && op->state == EP_OP_RECEIVED); // placed answers lie in the windows
  int rc = resumes ? 0 : flows ? ep_combine_begin_flow(ep, number, args) : ep_combine_send(ep, number, args, true);
  if (rc == 0) {
    rc = ep_host_combine_recv(ep, number, args, result);
    op->combine_interrupted = rc == WEFT_ERR_CANCELED;
  }
  ep_zero_copy_wait(ep);
  return rc;
}
