// combine: the experts' rank reduces and returns one row per token; the source adds the ranks' rows.
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/trace.h"
#include "ep/gpu.h"
#include "ep/remote.h"

// Late weights of this operation's rows, in the order of rows and selections: in our window to the peer, or from it.
static float *late_weights(weft_ep_t *ep, void *area, uint64_t op) {
  return (float *)((char *)ep_slot(&ep->layout, area, op) + ep->layout.weights);
}

// Row i of the answers.
static void *combine_row(weft_ep_t *ep, void *area, uint64_t op, uint32_t i) {
  return (char *)ep_slot(&ep->layout, area, op) + ep->layout.combine + i * ep->layout.combine_stride;
}

static int check_args(const struct ep_op *op, const struct weft_ep_combine *args, const char *call) {
  if (!args || args->size != sizeof *args)
    return fail(WEFT_ERR_INVALID, "%s: initialise the arguments with WEFT_EP_COMBINE_INIT", call);
  if (op->num_tokens > 0 && !args->out)
    return fail(WEFT_ERR_INVALID, "%s: out is NULL", call);
  return 0;
}

int ep_check_result(const struct weft_ep_result *result) {
  if (result && result->size != sizeof *result)
    return fail(WEFT_ERR_INVALID, "combine_recv: initialise the result with WEFT_EP_RESULT_INIT");
  return 0;
}

static int check_send(const struct ep_op *op, const struct weft_ep_combine *args) {
  uint32_t rows = 0;
  for (uint32_t i = 0; i < op->num_members; i++)
    rows += op->members[i].heard ? op->members[i].rows_in : 0;
  if (op->placed && args->y)
    return fail(WEFT_ERR_INVALID, "combine_send: y is given, but weft_ep_combine_rows has told where to write it");
  if (rows > 0 && !args->y && !op->placed)
    return fail(WEFT_ERR_INVALID, "combine_send: y is NULL, and %u rows were received", rows);
  if (op->has_weights && op->num_tokens > 0 && args->topk_weights)
    return fail(WEFT_ERR_INVALID, "combine_send: topk_weights were given with the dispatch already");
  if (!op->has_weights && op->layout == WEFT_EP_PER_EXPERT && !args->topk_weights)
    return fail(WEFT_ERR_INVALID, "combine_send: topk_weights is NULL here and was in the dispatch");
  return 0;
}

// Writes the weights of the rows that went to one member, in row order.
static void write_weights(weft_ep_t *ep, const struct ep_op *op, uint32_t index, float *to) {
  uint32_t topk = ep->layout.topk;
  const struct ep_member *member = &op->members[index];
  for (uint32_t i = 0; i < member->rows_out; i++) {
    size_t at = (size_t)op->row_token[member->first_row + i] * topk;
    float *row = to + (size_t)i * topk;
    for (uint32_t k = 0; k < topk; k++)
      if (op->member_of[at + k] == (int16_t)index)
        *row++ = op->weights[at + k];
  }
}

static void send_weights(weft_ep_t *ep, struct ep_op *op, const struct weft_ep_combine *args) {
  memcpy(op->weights, args->topk_weights, (size_t)op->num_tokens * ep->layout.topk * sizeof *op->weights);
  for (uint32_t i = 0; i < op->num_members; i++) {
    struct ep_member *member = &op->members[i];
    if (member->rows_out == 0 || member->lost)
      continue;
    if (!member->link) {
      write_weights(ep, op, i, op->own_in.weight);
      continue;
    }
    if (member->link->remote &&
        !ep_remote_settle(member->link->remote, op->number, EP_PART_WEIGHTS, clock_deadline_ms(ep->op_timeout_ms)))
      continue; // the combine finds it down
    write_weights(ep, op, i, late_weights(ep, member->link->out.memory, op->number));
    struct ep_slot_head *slot = ep_slot(&ep->layout, member->link->out.memory, op->number);
    atomic_store_explicit(&slot->weights.flag, op->number + 1, memory_order_release);
    if (member->link->remote)
      ep_remote_publish(member->link->remote, op->number, EP_PART_WEIGHTS, member->rows_out);
    else
      ep_doorbell_ring(ep_link_bell(member->link));
    uint64_t bytes = (uint64_t)member->rows_out * ep->layout.topk * sizeof(float);
    member->link->sent_bytes += bytes;
    op->combine_wire_bytes += bytes;
  }
}

// The received row, reduced over this rank's experts: in y, or written to `room`.
static const uint16_t *reduced_row(weft_ep_t *ep, const struct ep_op *op, const struct ep_inbox *inbox, uint32_t row,
                                   const uint16_t *y, uint16_t *room) {
  uint32_t hidden = ep->layout.hidden;
  size_t at = (size_t)row * ep->layout.topk;
  if (op->layout == WEFT_EP_RANK_MAJOR) // the caller has reduced it
    return y + (size_t)inbox->index[at] * hidden;
  const uint16_t *inputs[WEFT_EP_MAX_TOPK];
  for (uint32_t j = 0; j < inbox->count[row]; j++)
    inputs[j] = y + (size_t)inbox->index[at + j] * hidden;
  ep->kernels->reduce(room, inputs, inbox->weight + at, inbox->count[row], 1.0f, hidden);
  return room;
}

static void reduce_own_rows(weft_ep_t *ep, struct ep_op *op, uint32_t rows, const uint16_t *y) {
  uint32_t hidden = ep->layout.hidden;
  for (uint32_t i = 0; i < rows; i++) {
    uint16_t *to = op->own_combine + (size_t)i * hidden;
    const uint16_t *row = reduced_row(ep, op, &op->own_in, i, y, to);
    if (row != to)
      ep->kernels->copy(to, row, hidden * sizeof *to);
  }
}

static const uint8_t *encoded_row(weft_ep_t *ep, const uint16_t *row, uint8_t *room) {
  ep->kernels->encode10(room, (float *)(room + ep->layout.combine_heads), row, ep->layout.hidden);
  return room;
}

static void send_rows(weft_ep_t *ep, const struct ep_op *op, const struct ep_member *member, const uint16_t *y) {
  const struct ep_inbox *inbox = &member->link->inbox[op->number % WEFT_EP_DEPTH];
  bool coded = ep->combine_dtype == WEFT_EP_COMBINE_LOGFMT10;
  struct ep_writing writing = ep_write_begin(member->link, member->rows_in);
  for (uint32_t i = 0; i < member->rows_in; i++) {
    void *to = combine_row(ep, member->link->out.memory, op->number, i);
    const void *row = reduced_row(ep, op, inbox, i, y, !coded && ep_write_in_place(&writing) ? to : ep->reduced);
    if (coded)
      row = encoded_row(ep, row, ep_write_in_place(&writing) ? to : ep->encoded);
    if (row != to)
      ep_write_row(ep, &writing, to, row, ep->layout.combine_bytes);
    if (member->link->remote)
      ep_remote_rows(member->link->remote, op->number, EP_PART_COMBINE, i + 1);
  }
}

// This rank's own row for one of its tokens, valid until the next call: a token has one such row at most. While y stays
// readable the row is reduced here, when it is added, so that it does not leave the cache in between.
static const uint16_t *own_row(weft_ep_t *ep, const struct ep_op *op, uint32_t row) {
  if (!op->own_y)
    return op->own_combine + (size_t)row * ep->layout.hidden;
  return reduced_row(ep, op, &op->own_in, row, op->own_y, op->own_combine);
}

// Takes the late weights of one source from its window. False: it went down.
static bool take_weights(weft_ep_t *ep, struct ep_op *op, const struct ep_member *member, struct ep_inbox *inbox,
                         uint64_t deadline_ns) {
  struct ep_slot_head *slot = ep_slot(&ep->layout, member->link->in.memory, op->number);
  if (!ep_wait_word(ep, member->link, &slot->weights.flag, op->number + 1, deadline_ns,
                    "its weights did not come by the deadline"))
    return false;
  memcpy(inbox->weight, late_weights(ep, member->link->in.memory, op->number),
         (size_t)member->rows_in * ep->layout.topk * sizeof(float));
  member->link->received_bytes += (uint64_t)member->rows_in * ep->layout.topk * sizeof(float);
  return true;
}

// Waits until the peer has taken the answers of two operations ago.
static bool combine_free(weft_ep_t *ep, const struct ep_op *op, struct ep_link *link, uint64_t deadline_ns) {
  struct ep_slot_head *slot = ep_slot(&ep->layout, link->out.memory, op->number);
  return ep_wait_word(ep, link, &slot->taken.combine, link->sent_combine[op->number % WEFT_EP_DEPTH], deadline_ns,
                      "it did not take a combine by the deadline") &&
         (!link->remote || ep_remote_settle(link->remote, op->number, EP_PART_COMBINE, deadline_ns));
}

static void answer(weft_ep_t *ep, struct ep_op *op, struct ep_member *member, const void *y, uint64_t deadline_ns) {
  if (!member->heard || member->lost || member->rows_in == 0)
    return;
  if (!member->link) {
    if (!op->own_y && !op->placed)
      reduce_own_rows(ep, op, member->rows_in, y);
    return;
  }
  struct ep_link *link = member->link;
  uint32_t place = op->number % WEFT_EP_DEPTH;
  struct ep_inbox *inbox = &link->inbox[place];
  struct ep_slot_head *slot = ep_slot(&ep->layout, link->out.memory, op->number);
  bool late = member->late_weights && op->layout == WEFT_EP_PER_EXPERT;
  if ((late && !take_weights(ep, op, member, inbox, deadline_ns)) || !combine_free(ep, op, link, deadline_ns)) {
    member->lost = true;
    return;
  }
  if (!op->placed)
    send_rows(ep, op, member, y);
  ep_kernels_fence();
  atomic_store_explicit(&slot->combine.flag, op->number + 1, memory_order_release);
  link->sent_combine[place] = op->number + 1;
  if (link->remote)
    ep_remote_publish(link->remote, op->number, EP_PART_COMBINE, member->rows_in);
  else
    ep_doorbell_ring(ep_link_bell(link));
  uint64_t bytes = (uint64_t)member->rows_in * ep->layout.combine_bytes;
  link->sent_bytes += bytes;
  op->combine_wire_bytes += bytes;
}

// `y_stays`: args->y stays readable until combine_recv returns.
static int send(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine *args, bool y_stays) {
  if (!ep)
    return fail(WEFT_ERR_INVALID, "combine_send: ep is NULL");
  if (ep->gpu)
    return ep_gpu_combine(ep, number, args, DEVICE_SEND, NULL, "combine_send");
  struct ep_op *op;
  int rc = ep_op_find(ep, number, EP_OP_RECEIVED, "combine_send", &op);
  if (rc == 0)
    rc = check_args(op, args, "combine_send");
  if (rc == 0)
    rc = check_send(op, args);
  if (rc != 0)
    return rc;
  if (op->in_place)
    ep_release_rows(ep, op);
  op->own_y = y_stays ? args->y : NULL;
  uint64_t deadline_ns = clock_deadline_ms(ep->op_timeout_ms);
  if (!op->has_weights && args->topk_weights)
    send_weights(ep, op, args);
  for (uint32_t i = 1; i <= op->num_members; i++) // the ranks behind this one first, itself last
    answer(ep, op, &op->members[(op->self + i) % op->num_members], args->y, deadline_ns);
  ep_remote_hand_over(ep);
  op->state = EP_OP_ANSWERED;
  return 0;
}

// Where to write the answers to the rows of one member. False: it still reads those of two operations ago.
static bool place_rows(weft_ep_t *ep, struct ep_op *op, struct ep_member *member, uint64_t deadline_ns,
                       void **rows_at) {
  struct ep_link *link = member->link;
  uint32_t place = op->number % WEFT_EP_DEPTH;
  const struct ep_inbox *inbox = link ? &link->inbox[place] : &op->own_in;
  uint16_t *to = link ? combine_row(ep, link->out.memory, op->number, 0) : op->own_combine;
  size_t stride = ep->layout.hidden;
  bool taken = !member->lost;
  if (taken && link)
    taken = combine_free(ep, op, link, deadline_ns);
  if (!taken) {
    to = ep->reduced;
    stride = 0;
  }
  for (uint32_t i = 0; i < member->rows_in; i++)
    rows_at[inbox->index[(size_t)i * ep->layout.topk]] = to + i * stride;
  return taken;
}

int weft_ep_combine_rows(weft_ep_t *ep, uint64_t number, void **rows_at) {
  if (!ep || !rows_at)
    return fail(WEFT_ERR_INVALID, "combine_rows: %s is NULL", ep ? "rows_at" : "ep");
  if (ep->gpu)
    return ep_gpu_combine_rows();
  struct ep_op *op;
  int rc = ep_op_find(ep, number, EP_OP_RECEIVED, "combine_rows", &op);
  if (rc != 0)
    return rc;
  if (op->layout != WEFT_EP_RANK_MAJOR)
    return fail(WEFT_ERR_INVALID,
                "combine_rows: the rows of operation %llu were received per expert: they are weighed "
                "and summed on their way",
                (unsigned long long)number);
  if (ep->combine_dtype != WEFT_EP_COMBINE_BF16)
    return fail(WEFT_ERR_INVALID, "combine_rows: the rows of a combine are encoded on their way here, as logfmt10");
  uint64_t deadline_ns = clock_deadline_ms(ep->op_timeout_ms);
  for (uint32_t i = 0; i < op->num_members; i++)
    if (op->members[i].heard && op->members[i].rows_in > 0 &&
        !place_rows(ep, op, &op->members[i], deadline_ns, rows_at))
      op->members[i].lost = true;
  op->placed = true;
  return 0;
}

int weft_ep_combine_send(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine *args) {
  TRACE_BLOCK("combine_send");
  return send(ep, number, args, false);
}

// Waits for the rows of every member that has any of ours.
static void hear_all(weft_ep_t *ep, struct ep_op *op) {
  uint64_t deadline_ns = clock_deadline_ms(ep->op_timeout_ms);
  for (uint32_t i = 0; i < op->num_members; i++) {
    struct ep_member *member = &op->members[i];
    if (!member->link || member->rows_out == 0 || !member->sent)
      continue;
    struct ep_slot_head *slot = ep_slot(&ep->layout, member->link->in.memory, op->number);
    member->lost = !ep_wait_word(ep, member->link, &slot->combine.flag, op->number + 1, deadline_ns,
                                 "its combine did not come by the deadline");
  }
}

// A row that came, as bf16; decoded into `room` if it has to be.
static const uint16_t *row_that_came(weft_ep_t *ep, const struct ep_op *op, struct ep_link *link, uint32_t i,
                                     uint16_t *room) {
  const uint8_t *row = combine_row(ep, link->in.memory, op->number, i);
  if (ep->combine_dtype == WEFT_EP_COMBINE_BF16)
    return (const uint16_t *)row;
  ep->kernels->decode10(room, row, (const float *)(row + ep->layout.combine_heads), ep->layout.hidden);
  return room;
}

// The members that brought something for one token, ascending: rows to add.
static uint32_t gather(weft_ep_t *ep, const struct ep_op *op, uint32_t token, const uint16_t **rows) {
  const struct ep_layout *layout = &ep->layout;
  size_t at = (size_t)token * layout->topk;
  int16_t members[WEFT_EP_MAX_TOPK];
  uint32_t count = 0;
  for (uint32_t k = 0; k < layout->topk; k++) {
    int16_t member = op->member_of[at + k];
    if (member < 0 || op->members[member].lost)
      continue;
    uint32_t place = count;
    uint16_t *room = ep->decoded ? ep->decoded + (size_t)count * layout->hidden : NULL;
    while (place > 0 && members[place - 1] > member)
      place--;
    if (place > 0 && members[place - 1] == member)
      continue;
    for (uint32_t i = count++; i > place; i--) {
      members[i] = members[i - 1];
      rows[i] = rows[i - 1];
    }
    members[place] = member;
    struct ep_link *link = op->members[member].link;
    uint32_t row = op->row_of[at + k];
    rows[place] = link ? row_that_came(ep, op, link, row, room) : own_row(ep, op, row);
  }
  return count;
}

static bool brought_nothing(const struct ep_op *op, size_t at) {
  return op->experts[at] >= 0 && (op->member_of[at] < 0 || op->members[op->member_of[at]].lost);
}

static void note_missing(const struct ep_op *op, uint32_t token, uint32_t k, size_t at, struct weft_ep_result *result) {
  if (result->missing && result->num_missing < result->missing_cap)
    result->missing[result->num_missing] =
        (struct weft_ep_missing){.token = (int32_t)token, .k = (int32_t)k, .expert = op->experts[at]};
  result->num_missing++;
}

// Notes the token's selections that brought nothing; returns the factor that makes up for them.
static float account(weft_ep_t *ep, const struct ep_op *op, uint32_t token, struct weft_ep_result *result) {
  size_t at = (size_t)token * ep->layout.topk;
  float all = 0.0f, came = 0.0f;
  for (uint32_t k = 0; k < ep->layout.topk; k++) {
    if (op->experts[at + k] < 0)
      continue;
    float weight = op->has_weights || op->layout == WEFT_EP_PER_EXPERT ? op->weights[at + k] : 1.0f;
    all += weight;
    if (brought_nothing(op, at + k))
      note_missing(op, token, k, at + k, result);
    else
      came += weight;
  }
  return came != 0.0f ? all / came : 1.0f;
}

static void sum_tokens(weft_ep_t *ep, struct ep_op *op, const struct weft_ep_combine *args,
                       struct weft_ep_result *result) {
  const uint16_t *rows[WEFT_EP_MAX_TOPK];
  for (uint32_t t = 0; t < op->num_tokens; t++) {
    uint32_t before = result->num_missing;
    float factor = account(ep, op, t, result);
    uint32_t count = gather(ep, op, t, rows);
    ep->kernels->reduce((uint16_t *)args->out + (size_t)t * ep->layout.hidden, rows, NULL, count,
                        args->renormalize && result->num_missing > before ? factor : 1.0f, ep->layout.hidden);
  }
}

void ep_list_missing(const weft_ep_t *ep, const struct ep_op *op, struct weft_ep_result *result) {
  result->num_missing = 0;
  for (uint32_t t = 0; t < op->num_tokens; t++)
    for (uint32_t k = 0; k < ep->layout.topk; k++)
      if (brought_nothing(op, (size_t)t * ep->layout.topk + k))
        note_missing(op, t, k, (size_t)t * ep->layout.topk + k, result);
}

void ep_tell_result(const weft_ep_t *ep, const struct ep_op *op, struct weft_ep_result *result) {
  result->num_lost = 0;
  for (uint32_t i = 0; i < op->told.members; i++)
    result->num_lost += op->members[i].lost;
  result->wire_bytes = op->combine_wire_bytes;
  result->logical_bytes = op->logical_selections * ep->layout.hidden * sizeof(uint16_t);
}

static void let_go(weft_ep_t *ep, struct ep_op *op) {
  for (uint32_t i = 0; i < op->num_members; i++) {
    struct ep_member *member = &op->members[i];
    if (!member->link || member->rows_out == 0 || member->lost)
      continue;
    struct ep_slot_head *slot = ep_slot(&ep->layout, member->link->in.memory, op->number);
    atomic_store_explicit(&slot->taken.combine, op->number + 1, memory_order_release);
    if (member->link->remote)
      ep_remote_tell(member->link->remote);
    else
      ep_doorbell_ring(ep_link_bell(member->link));
    member->link->received_bytes += (uint64_t)member->rows_out * ep->layout.combine_bytes;
  }
}

int weft_ep_combine_recv(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine *args,
                         struct weft_ep_result *result) {
  TRACE_BLOCK("combine_recv");
  if (!ep)
    return fail(WEFT_ERR_INVALID, "combine_recv: ep is NULL");
  if (ep->gpu)
    return ep_gpu_combine(ep, number, args, DEVICE_RECV, result, "combine_recv");
  struct ep_op *op;
  int rc = ep_op_find(ep, number, EP_OP_ANSWERED, "combine_recv", &op);
  if (rc == 0)
    rc = check_args(op, args, "combine_recv");
  if (rc == 0)
    rc = ep_check_result(result);
  if (rc != 0)
    return rc;
  struct weft_ep_result unwanted = WEFT_EP_RESULT_INIT;
  if (!result)
    result = &unwanted;
  result->num_missing = 0;
  hear_all(ep, op);
  sum_tokens(ep, op, args, result);
  let_go(ep, op);
  ep_remote_hand_over(ep);
  op->told.combined = true;
  op->told.members = op->num_members;
  ep_tell_result(ep, op, result);
  ep->stats.combine_wire_bytes += result->wire_bytes;
  ep->stats.combine_logical_bytes += result->logical_bytes;
  ep->stats.missing += result->num_missing;
  ep_op_end(ep, op);
  return 0;
}

int weft_ep_combine(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine *args, struct weft_ep_result *result) {
  TRACE_BLOCK("combine");
  if (ep && ep->gpu)
    return ep_gpu_combine(ep, number, args, DEVICE_SEND | DEVICE_RECV, result, "combine");
  int rc = ep_check_result(result); // before anything is sent
  if (rc == 0)
    rc = send(ep, number, args, true);
  return rc != 0 ? rc : weft_ep_combine_recv(ep, number, args, result);
}
