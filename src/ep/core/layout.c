// Sizes and offsets of a window's parts.
#include "ep/core/layout.h"

#include "device/logfmt10.h"

static size_t round_up(size_t value, size_t unit) {
  return (value + unit - 1) / unit * unit;
}

struct ep_form ep_layout_form(const struct ep_layout *layout, enum weft_ep_dtype dtype) {
  uint32_t blocks = layout->hidden / WEFT_EP_BLOCK, words = sizeof(uint32_t);
  if (dtype == WEFT_EP_BF16)
    return (struct ep_form){dtype, 2 * layout->hidden, 0};
  return (struct ep_form){dtype, layout->hidden,
                          dtype == WEFT_EP_FP8_UE8M0 ? (blocks + words - 1) / words * words : blocks * words};
}

size_t ep_layout_combine_bytes(const struct ep_layout *layout, enum weft_ep_combine_dtype dtype) {
  if (dtype != WEFT_EP_COMBINE_LOGFMT10)
    return 2 * (size_t)layout->hidden;
  return layout->combine_heads + layout->hidden / LOGFMT10_BLOCK * LOGFMT10_HEAD_BYTES;
}

void ep_layout_init(struct ep_layout *layout, uint32_t max_tokens, uint32_t hidden, uint32_t topk,
                    enum weft_ep_dtype dtype, enum weft_ep_combine_dtype combine_dtype) {
  size_t m = max_tokens;
  *layout = (struct ep_layout){.max_tokens = max_tokens, .topk = topk, .hidden = hidden};
  struct ep_form form = ep_layout_form(layout, dtype);
  layout->value_bytes = form.value_bytes;
  layout->scale_bytes = form.scale_bytes;
  layout->row_stride = round_up(layout->value_bytes + layout->scale_bytes, EP_LINE);
  layout->head_stride = round_up(sizeof(struct ep_row) + topk * (sizeof(float) + sizeof(int16_t)), sizeof(uint64_t));
  layout->combine_heads = hidden / LOGFMT10_BLOCK * LOGFMT10_CODE_BYTES;
  layout->combine_bytes = ep_layout_combine_bytes(layout, combine_dtype);
  layout->combine_stride = round_up(layout->combine_bytes, EP_LINE);
  layout->heads = sizeof(struct ep_slot_head);
  layout->rows = round_up(layout->heads + m * layout->head_stride, EP_LINE);
  layout->weights = layout->rows + m * layout->row_stride;
  layout->combine = round_up(layout->weights + m * topk * sizeof(float), EP_LINE);
  layout->slot = round_up(layout->combine + m * layout->combine_stride, EP_LINE);
  layout->area = round_up(sizeof(struct ep_area_head) + EP_DEPTH * layout->slot, EP_PAGE);
}
