// Sizes and offsets of a window's parts.
#include "ep/core/layout.h"

#include "base/fail.h"
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

size_t ep_layout_combine_logical(const struct ep_layout *layout, enum weft_ep_combine_dtype dtype) {
  size_t hidden = layout->hidden;
  if (dtype != WEFT_EP_COMBINE_LOGFMT10)
    return 2 * hidden;
  return hidden / LOGFMT10_BLOCK * (LOGFMT10_CODE_BYTES + sizeof(uint32_t));
}

// Computes the sizes that do not depend on the number of rows.
static void init_rows(struct ep_layout *layout, enum weft_ep_dtype dtype, enum weft_ep_combine_dtype combine_dtype) {
  struct ep_form form = ep_layout_form(layout, dtype);
  layout->value_bytes = form.value_bytes;
  layout->scale_bytes = form.scale_bytes;
  layout->row_stride = round_up(layout->value_bytes + layout->scale_bytes, EP_LINE);
  layout->head_stride =
      round_up(sizeof(struct ep_row) + layout->topk * (sizeof(float) + sizeof(int16_t)), sizeof(uint64_t));
  if (layout->flows) {
    layout->head_where = layout->head_stride;
    layout->head_stride += sizeof(uint64_t);
  }
  layout->combine_heads = layout->hidden / LOGFMT10_BLOCK * LOGFMT10_CODE_BYTES;
  layout->combine_bytes = ep_layout_combine_bytes(layout, combine_dtype);
  layout->combine_stride = round_up(layout->combine_bytes, EP_LINE);
}

static void place_parts(struct ep_layout *layout, uint32_t window_rows) {
  size_t m = layout->window_rows = window_rows;
  layout->counts = sizeof(struct ep_slot_head);
  layout->heads = round_up(layout->counts + layout->counts_bytes, sizeof(uint64_t));
  layout->rows = round_up(layout->heads + m * layout->head_stride, EP_LINE);
  layout->weights = layout->rows + m * layout->row_stride;
  layout->combine = round_up(layout->weights + m * layout->topk * sizeof(float), EP_LINE);
  layout->slot = round_up(layout->combine + m * layout->combine_stride, EP_LINE);
  layout->area = round_up(sizeof(struct ep_area_head) + EP_DEPTH * layout->slot, EP_PAGE);
}

void ep_layout_init(struct ep_layout *layout, uint32_t max_tokens, uint32_t hidden, uint32_t topk,
                    enum weft_ep_dtype dtype, enum weft_ep_combine_dtype combine_dtype) {
  *layout = (struct ep_layout){
      .max_tokens = max_tokens, .topk = topk, .hidden = hidden, .piece_rows = max_tokens, .pieces = 1};
  init_rows(layout, dtype, combine_dtype);
  place_parts(layout, max_tokens);
}

// --- THROUGHPUT ---

// A piece that fits into the caches of both sides is faster than a larger one, although more pieces need more flags.
enum { PIECE_BYTES = 512 << 10 };

// The most rows for which an area takes at most `bytes`; 0: none.
static uint32_t rows_within(struct ep_layout *layout, uint64_t bytes) {
  uint32_t low = 0, high = layout->max_tokens;
  while (low < high) {
    uint32_t middle = low + (high - low + 1) / 2;
    place_parts(layout, middle);
    if (layout->area <= bytes)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

int ep_layout_init_flow(struct ep_layout *layout, const struct weft_ep_options *options) {
  *layout = (struct ep_layout){.max_tokens = options->max_tokens,
                               .topk = options->topk,
                               .hidden = options->hidden,
                               .flows = true,
                               .window_bytes = options->window_bytes,
                               .counts_bytes = options->experts_per_rank * sizeof(uint32_t)};
  init_rows(layout, options->dtype, options->combine_dtype);
  uint32_t room = rows_within(layout, options->window_bytes);
  uint32_t least = (options->max_tokens + EP_MAX_PIECES - 1) / EP_MAX_PIECES;
  if (room < least) {
    place_parts(layout, least);
    return fail(WEFT_ERR_INVALID,
                "window_bytes is %llu; rows of %zu bytes, in two pieces of %u rows, need at least %zu",
                (unsigned long long)options->window_bytes, layout->row_stride, least, layout->area);
  }
  uint32_t rows = (uint32_t)(PIECE_BYTES / layout->row_stride);
  rows = rows < least ? least : rows;
  layout->piece_rows = rows < room ? rows : room;
  layout->pieces = ep_pieces_of(layout, options->max_tokens, false) | 1;
  while (layout->pieces >> layout->piece_bits)
    layout->piece_bits++;
  place_parts(layout, room);
  return 0;
}
