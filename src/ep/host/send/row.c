// What a dispatch writes into a window: rows in the form in which they travel, row headers, and the header of a piece
// with its flag.
#include "ep/host/send/row.h"

#include "ep/host/route/kept_route.h"

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

// If values are cast here, this happens once, on first use.
const uint8_t *ep_send_values(weft_ep_t *ep, struct ep_op *op, uint32_t t) {
  const struct ep_input *input = &op->input;
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

// Which of the token's selections are that member's, with their weights.
void ep_send_row_head(weft_ep_t *ep, const struct ep_op *op, uint32_t index, uint32_t token, struct ep_row *row) {
  const struct ep_layout *layout = &ep->layout;
  float *weights = ep_row_weights(row);
  int16_t *experts = ep_row_experts(layout, row);
  uint32_t count = 0, places = 0;
  for (uint32_t k = 0; k < op->topk; k++) {
    size_t at = (size_t)token * op->topk + k;
    if (op->member_of[at] != (int16_t)index)
      continue;
    experts[count] = op->local_of[at];
    weights[count++] = op->has_weights ? op->weights[at] : 0.0f;
    places |= 1u << k;
  }
  row->token = (int32_t)token;
  row->count = (uint16_t)count;
  row->places = (uint16_t)places;
}

void ep_send_row(weft_ep_t *ep, struct ep_op *op, uint32_t token, struct ep_writing *writing, char *to) {
  const struct ep_form *form = &op->form;
  const struct ep_scales *scales = &op->input.scales;
  size_t behind = scales->words ? 0 : form->scale_bytes;
  ep_write_row(ep, writing, to, ep_send_values(ep, op, token), form->value_bytes + behind);
  if (scales->words)
    ep_copy_scales((uint32_t *)(to + form->value_bytes), 1, scales->words + token * scales->row, scales->block,
                   form->scale_bytes);
}

// The header of one piece of the member's `rows` rows, and its flag.
void ep_send_flag(weft_ep_t *ep, struct ep_op *op, struct ep_member *member, uint64_t number, uint32_t rows,
                  enum ep_trait traits) {
  struct ep_link *link = member->link;
  struct ep_dispatch_head *head = &ep_slot(&ep->layout, link->out.memory, number)->dispatch;
  head->active = op->view->epoch;
  head->ready = op->ready;
  head->mark = op->mark;
  head->count = rows;
  head->kind = (uint8_t)op->kind;
  head->traits = (uint8_t)((op->has_weights ? EP_TRAIT_WEIGHTS : 0) | (op->whole ? EP_TRAIT_WHOLE : 0) | traits);
  head->dtype = (uint8_t)op->form.dtype;
  head->topk = (uint8_t)op->topk;
  head->row_bytes = op->form.value_bytes;
  head->scale_bytes = op->form.scale_bytes;
  head->route = op->route_number;
  head->route_rows = ep_kept_rows_of(op, member);
  head->here = member->here;
  ep_kernels_fence();
  atomic_store_explicit(&head->flag, number + 1, memory_order_release);
  link->sent_dispatch[number % EP_DEPTH] = number + 1;
  member->sent = true;
}
