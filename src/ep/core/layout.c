// Sizes and offsets of a window's parts.
#include "ep/core/layout.h"

#include "device/logfmt10.h"

static size_t round_up(size_t value, size_t unit) {
  return (value + unit - 1) / unit * unit;
}

static size_t scale_bytes(uint32_t hidden, enum weft_ep_dtype dtype) {
  size_t blocks = hidden / WEFT_EP_BLOCK;
  if (dtype == WEFT_EP_BF16)
    return 0;
  return dtype == WEFT_EP_FP8_UE8M0 ? round_up(blocks, sizeof(uint32_t)) : blocks * sizeof(float);
}

void ep_layout_init(struct ep_layout *layout, uint32_t max_tokens, uint32_t hidden, uint32_t topk,
                    enum weft_ep_dtype dtype, enum weft_ep_combine_dtype combine_dtype) {
  size_t m = max_tokens;
  *layout = (struct ep_layout){.max_tokens = max_tokens, .topk = topk, .hidden = hidden};
  layout->value_bytes = dtype == WEFT_EP_BF16 ? 2 * (size_t)hidden : hidden;
  layout->scale_bytes = scale_bytes(hidden, dtype);
  layout->row_stride = round_up(layout->value_bytes + layout->scale_bytes, EP_LINE);
  layout->head_stride = round_up(sizeof(struct ep_row) + topk * (sizeof(float) + sizeof(int16_t)), sizeof(uint64_t));
  bool coded = combine_dtype == WEFT_EP_COMBINE_LOGFMT10;
  layout->combine_heads = hidden / LOGFMT10_BLOCK * LOGFMT10_CODE_BYTES;
  layout->combine_bytes =
      coded ? layout->combine_heads + hidden / LOGFMT10_BLOCK * LOGFMT10_HEAD_BYTES : 2 * (size_t)hidden;
  layout->combine_stride = round_up(layout->combine_bytes, EP_LINE);
  layout->heads = sizeof(struct ep_slot_head);
  layout->rows = round_up(layout->heads + m * layout->head_stride, EP_LINE);
  layout->weights = layout->rows + m * layout->row_stride;
  layout->combine = round_up(layout->weights + m * topk * sizeof(float), EP_LINE);
  layout->slot = round_up(layout->combine + m * layout->combine_stride, EP_LINE);
  layout->area = round_up(sizeof(struct ep_area_head) + EP_DEPTH * layout->slot, EP_PAGE);
}
