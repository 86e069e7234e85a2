// dispatch_send: cast, write, raise the flags. Which tokens go where says route.c.
#include <string.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "ep/core/args.h"
#include "ep/host/host.h"
#include "ep/view/views.h"

// What a dispatch is made of, where the caller has it.
struct input {
  const uint8_t *x;
  uint64_t x_stride;       // bytes
  struct ep_scales scales; // with x cast by the caller
  bool cast;               // x holds the values as they travel: bf16, opaque, or fp8 that the caller has cast
  bool stays;              // all of it stays readable until dispatch_recv returns
};

static struct input input_of(const weft_ep_t *ep, const struct ep_op *op, const struct weft_ep_dispatch_args *args,
                             bool stays) {
  bool cast = op->form.dtype == WEFT_EP_BF16 || op->form.dtype == WEFT_EP_OPAQUE || args->scales;
  uint64_t words = op->form.scale_bytes / sizeof(uint32_t), dense = cast ? op->form.value_bytes : 2 * ep->layout.hidden;
  return (struct input){.x = args->x,
                        .x_stride = args->row_stride ? args->row_stride : dense,
                        .scales = {.words = args->scales,
                                   .row = args->scale_row_stride ? args->scale_row_stride : words,
                                   .block = args->scale_block_stride ? args->scale_block_stride : 1},
                        .cast = cast,
                        .stays = stays};
}

static void cast_row(weft_ep_t *ep, const struct ep_form *form, uint8_t *row, const uint16_t *x) {
  const struct ep_layout *layout = &ep->layout;
  uint8_t *behind = row + form->value_bytes;
  if (form->dtype != WEFT_EP_FP8_UE8M0) {
    ep->kernels->cast_fp8(row, (float *)behind, x, layout->hidden, form->dtype == WEFT_EP_FP8_POW2);
    return;
  }
  float scales[EP_MAX_HIDDEN / WEFT_EP_BLOCK];
  ep->kernels->cast_fp8(row, scales, x, layout->hidden, true);
  ep_kernels_pack_scales(behind, scales, layout->hidden);
}

// A token's values as they travel. Where they are cast here, once, on first use, their scales lie behind them.
static const uint8_t *outgoing_row(weft_ep_t *ep, struct ep_op *op, const struct input *input, uint32_t t) {
  const uint8_t *x = input->x + t * input->x_stride;
  if (input->cast)
    return x;
  uint8_t *row = op->cast + t * ep->layout.row_stride;
  if (!(op->cast_done[t / 64] >> (t % 64) & 1)) {
    cast_row(ep, &op->form, row, (const uint16_t *)x);
    op->cast_done[t / 64] |= (uint64_t)1 << (t % 64);
  }
  return row;
}

// Row header of `token` for `member`: which of its selections are that member's, with their weights.
static void write_row_head(weft_ep_t *ep, const struct ep_op *op, uint32_t member, uint32_t token, struct ep_row *row) {
  const struct ep_layout *layout = &ep->layout;
  float *weights = ep_row_weights(row);
  int16_t *experts = ep_row_experts(layout, row);
  uint32_t count = 0, places = 0;
  for (uint32_t k = 0; k < op->topk; k++) {
    size_t at = (size_t)token * op->topk + k;
    if (op->member_of[at] != (int16_t)member)
      continue;
    experts[count] = op->local_of[at];
    weights[count++] = op->has_weights ? op->weights[at] : 0.0f;
    places |= 1u << k;
  }
  row->token = (int32_t)token;
  row->count = (uint16_t)count;
  row->places = (uint16_t)places;
}

static void raise_dispatch(weft_ep_t *ep, struct ep_op *op, struct ep_member *member, uint32_t count) {
  struct ep_link *link = member->link;
  struct ep_dispatch_head *head = &ep_slot(&ep->layout, link->out.memory, op->number)->dispatch;
  head->active = op->view->epoch;
  head->ready = op->ready;
  head->mark = op->mark;
  head->count = count;
  head->kind = (uint8_t)op->kind;
  head->has_weights = op->has_weights;
  head->dtype = (uint8_t)op->form.dtype;
  head->topk = (uint8_t)op->topk;
  head->row_bytes = op->form.value_bytes;
  head->scale_bytes = op->form.scale_bytes;
  ep_kernels_fence();
  atomic_store_explicit(&head->flag, op->number + 1, memory_order_release);
  link->sent_dispatch[op->number % EP_DEPTH] = op->number + 1;
  member->sent = true;
  link->path->publish(link, op->number, EP_PART_DISPATCH, count);
}

// Waits until the peer has taken what this slot held two operations ago.
static enum ep_wait slot_free(weft_ep_t *ep, struct ep_op *op, struct ep_link *link, uint64_t deadline_ns) {
  struct ep_slot_head *slot = ep_slot(&ep->layout, link->out.memory, op->number);
  enum ep_wait taken = ep_wait_word(ep, link, &slot->taken.dispatch, link->sent_dispatch[op->number % EP_DEPTH],
                                    deadline_ns, "it did not take a dispatch by the deadline");
  if (taken == EP_WAIT_CAME && !link->path->settle(link, op->number, EP_PART_DISPATCH, deadline_ns))
    return EP_WAIT_DOWN;
  return taken;
}

bool ep_send_empty(weft_ep_t *ep, struct ep_op *op, struct ep_member *member, uint64_t deadline_ns) {
  enum ep_wait taken = member->lost ? EP_WAIT_DOWN : slot_free(ep, op, member->link, deadline_ns);
  member->lost = taken == EP_WAIT_DOWN;
  if (taken != EP_WAIT_CAME)
    return taken != EP_WAIT_INTERRUPTED;
  ep_publish_start(member->link, op->number, op->view->epoch);
  raise_dispatch(ep, op, member, 0);
  return true;
}

struct sending {
  struct input input;
  uint64_t deadline_ns;
  uint32_t rows_written, peers_done;
};

static void write_row(weft_ep_t *ep, struct ep_op *op, const struct input *input, uint32_t token,
                      struct ep_writing *writing, char *to) {
  const struct ep_form *form = &op->form;
  const struct ep_scales *scales = &input->scales;
  size_t behind = scales->words ? 0 : form->scale_bytes;
  ep_write_row(ep, writing, to, outgoing_row(ep, op, input, token), form->value_bytes + behind);
  if (scales->words)
    ep_copy_scales((uint32_t *)(to + form->value_bytes), 1, scales->words + token * scales->row, scales->block,
                   form->scale_bytes);
}

// Whether the member's rows from `first` on go to its host from x, with zero copies, and until which.
static bool zero_copy_rows(weft_ep_t *ep, const struct ep_op *op, const struct ep_member *member, uint32_t first,
                           const struct sending *sending, uint32_t *end) {
  const struct ep_path_ops *path = member->link->path;
  const struct input *input = &sending->input;
  if (!path->zero_copy_rows || !input->stays || op->form.dtype != WEFT_EP_BF16 ||
      input->x_stride != ep->layout.row_stride)
    return false;
  uint32_t count = path->zero_copy_rows(member->link, op->number, EP_PART_DISPATCH, first, member->rows_out), run = 0;
  const uint16_t *token = op->row_token + member->first_row + first;
  while (run < count && token[run] == token[0] + run)
    run++;
  if (count == 0 || run < count)
    return false;
  path->zero_copy(member->link, op->number, EP_PART_DISPATCH, first, input->x + token[0] * input->x_stride);
  *end = first + count;
  return true;
}

// False: interrupted before anything was written.
static bool send_to(weft_ep_t *ep, struct ep_op *op, uint32_t index, struct sending *sending) {
  const struct ep_layout *layout = &ep->layout;
  struct ep_member *member = &op->members[index];
  struct ep_link *link = member->link;
  enum ep_wait taken = member->lost ? EP_WAIT_DOWN : slot_free(ep, op, link, sending->deadline_ns);
  member->lost = taken == EP_WAIT_DOWN;
  if (taken != EP_WAIT_CAME)
    return taken != EP_WAIT_INTERRUPTED;
  char *slot = (char *)ep_slot(layout, link->out.memory, op->number);
  struct ep_writing writing = ep_write_begin(link, member->rows_out);
  uint32_t zero_copied = 0; // rows until there are read where they are
  for (uint32_t i = 0; i < member->rows_out; i++) {
    uint32_t token = op->row_token[member->first_row + i];
    write_row_head(ep, op, index, token, ep_row_at(layout, slot + layout->heads, i));
    if (i >= zero_copied && !zero_copy_rows(ep, op, member, i, sending, &zero_copied))
      write_row(ep, op, &sending->input, token, &writing, slot + layout->rows + i * layout->row_stride);
    sending->rows_written++;
    if (link->path->rows_written)
      link->path->rows_written(link, op->number, EP_PART_DISPATCH, i + 1);
    if (ep->fault)
      ep->fault(ep->fault_arg, sending->rows_written, sending->peers_done);
  }
  raise_dispatch(ep, op, member, member->rows_out);
  sending->peers_done++;
  uint64_t bytes = ep_layout_bytes(layout, op->form.value_bytes + op->form.scale_bytes, member->rows_out);
  link->sent_bytes += bytes;
  op->dispatch_wire_bytes += bytes;
  return true;
}

// What this rank sends to itself: row headers, and rows that stay readable until dispatch_recv.
static void keep_own(weft_ep_t *ep, struct ep_op *op, const struct input *input) {
  const struct ep_layout *layout = &ep->layout;
  const struct ep_member *self = &op->members[op->self];
  bool direct = input->cast && input->stays;
  op->own_rows = direct ? input->x : op->cast;
  op->own_stride = direct ? input->x_stride : layout->row_stride;
  op->own_scales = direct ? input->scales : (struct ep_scales){NULL, 0, 0};
  for (uint32_t i = 0; i < self->rows_out; i++) {
    uint32_t token = op->row_token[self->first_row + i];
    write_row_head(ep, op, op->self, token, ep_row_at(layout, op->own_heads, i));
    const uint8_t *row = outgoing_row(ep, op, input, token); // casts it, if no other member needed it
    if (input->cast && !direct)
      ep_op_keep_row(ep, op, token, row, &input->scales);
  }
}

// T: num_tokens, or what stands in memory.
static uint32_t tokens_of(const struct weft_ep_dispatch_args *args) {
  return args->num_tokens_at ? *args->num_tokens_at : args->num_tokens;
}

static void begin(weft_ep_t *ep, struct ep_op *op, const struct weft_ep_dispatch_args *args, enum ep_kind kind,
                  uint32_t num_tokens) {
  op->number = ep->next_op;
  op->ready = atomic_load(&ep->ready);
  op->mark = ep->mark;
  op->kind = kind;
  op->form = ep_form_of(ep, args);
  op->num_tokens = num_tokens;
  op->topk = args->topk ? args->topk : ep->layout.topk;
  op->has_weights = args->topk_weights != NULL || num_tokens == 0;
  op->in_place = op->placed = op->halfway = false;
  op->sent = op->answered = 0;
  op->round = 0;
  op->dispatch_wire_bytes = op->combine_wire_bytes = op->logical_selections = 0;
  size_t selections = (size_t)num_tokens * op->topk;
  if (selections > 0)
    ep_take_experts(op, args, selections);
  if (selections > 0 && args->topk_weights)
    memcpy(op->weights, args->topk_weights, selections * sizeof *op->weights);
  memset(op->cast_done, 0, (num_tokens + 63) / 64 * sizeof *op->cast_done);
  op->num_members = 0;
  op->outcome = (struct ep_outcome){0};
  ep_op_set_view(ep, op, ep->view);
  ep_route(ep, op);
}

// The place of the next operation. With RECYCLE the one before it there may end. 1: an interrupted call goes on there.
static int take_place(weft_ep_t *ep, struct ep_op *op, enum ep_kind kind, uint32_t flags) {
  if (op->state == EP_OP_FREE)
    return 0;
  if (op->state == EP_OP_SENDING)
    return op->kind == kind ? 1 : ep_fail_interrupted(op);
  if (!(flags & WEFT_EP_DISPATCH_RECYCLE))
    return fail(WEFT_ERR_BUSY, "dispatch: operation %llu is still open, and %d may be at once: end it first",
                (unsigned long long)op->number, EP_DEPTH);
  if (op->state != EP_OP_RECEIVED)
    return fail(WEFT_ERR_BUSY, "dispatch: operation %llu cannot be recycled: %s", (unsigned long long)op->number,
                op->state == EP_OP_SENT ? "it has not been received" : "its combine has not been received");
  ep_op_end(ep, op);
  return 0;
}

int ep_send(weft_ep_t *ep, const struct weft_ep_dispatch_args *args, enum ep_kind kind, bool x_stays,
            uint64_t *number) {
  uint32_t num_tokens = tokens_of(args);
  struct ep_op *op = &ep->host->ops[ep->next_op % EP_DEPTH];
  if (num_tokens > args->num_tokens)
    return fail(WEFT_ERR_INVALID, "dispatch: *num_tokens_at is %u, more than num_tokens, %u", num_tokens,
                args->num_tokens);
  int rc = ep_check_experts(ep, args, num_tokens, args->topk ? args->topk : ep->layout.topk);
  if (rc == 0)
    rc = ep_check_active(ep);
  if (rc == 0)
    rc = take_place(ep, op, kind, args->flags);
  if (rc < 0)
    return rc;
  if (rc == 0)
    begin(ep, op, args, kind, num_tokens);
  struct sending sending = {.input = input_of(ep, op, args, x_stays),
                            .deadline_ns = clock_deadline_ms(ep->op_timeout_ms)};
  // Each rank begins with the one after it: no two with the same.
  for (uint32_t i = op->sent + 1; i < op->num_members; i++)
    if (!send_to(ep, op, (op->self + i) % op->num_members, &sending)) {
      op->sent = i - 1;
      op->state = EP_OP_SENDING;
      return ep_canceled("dispatch");
    }
  keep_own(ep, op, &sending.input);
  ep_hand_over(ep);
  op->state = EP_OP_SENT;
  ep->next_op++;
  *number = op->number;
  return 0;
}

int ep_host_dispatch_send(weft_ep_t *ep, const struct weft_ep_dispatch_args *args, uint64_t *number) {
  return ep_send(ep, args, EP_KIND_DISPATCH, false, number);
}
