// Computes from a seed what two ranks on CUDA memory of different hosts write into each other's areas.
#include "cuda/support/relay_plan.h"

#include "device/logfmt10.h"

uint64_t plan_mix(uint64_t x) {
  x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
  return x ^ x >> 31;
}

uint64_t plan_drawn(const struct plan *plan, uint32_t side, uint64_t op, uint64_t what) {
  return plan_mix(plan->seed ^ plan_mix(op * 2 + side) ^ plan_mix(what + 77));
}

static bool has_token(const struct plan *plan, uint32_t side, uint64_t op, uint32_t token) {
  return plan_drawn(plan, side, op, 1000) % 5 &&
         plan_drawn(plan, side, op, 2000 + token) % 3 != 0; // some dispatches have no tokens
}

static uint32_t rows_of(const struct plan *plan, uint32_t side, uint64_t op) {
  uint32_t rows = 0;
  for (uint32_t token = 0; token < TOKENS; token++)
    rows += has_token(plan, side, op, token);
  return rows;
}

static uint32_t token_of(const struct plan *plan, uint32_t side, uint64_t op, uint32_t row) {
  uint32_t token = 0;
  for (;; token++)
    if (has_token(plan, side, op, token) && row-- == 0)
      return token;
}

static bool is_late(const struct plan *plan, uint32_t side, uint64_t op) {
  return plan_drawn(plan, side, op, 3000) % 2;
}

// Whether selection k of a token goes to the peer. At least one selection of each row does.
static bool has_selection(const struct plan *plan, uint32_t side, uint64_t op, uint32_t token, uint32_t k) {
  return plan_drawn(plan, side, op, 4000 + token) % plan->layout.topk == k ||
         plan_drawn(plan, side, op, 5000 + token * 16 + k) % 4 == 0;
}

static void add(struct items *items, size_t offset, uint32_t bytes, enum item_kind kind) {
  items->item[items->count++] = (struct item){.offset = offset, .bytes = bytes, .kind = kind};
}

static void add_values(struct items *items, size_t begin, uint32_t bytes) {
  for (uint32_t at = 0; at < bytes; at += CUDA_LINE)
    add(items, begin + at, bytes - at < CUDA_LINE ? bytes - at : CUDA_LINE, VALUES);
}

static void add_answer(struct items *items, const struct cuda_layout *layout, size_t begin) {
  const struct cuda_form *form = &layout->answer;
  if (!layout->coded)
    add_values(items, begin, form->stride);
  for (uint32_t packet = 0; packet < form->packets && layout->coded; packet++) {
    uint32_t left = form->chunks - packet * form->each, chunks = left < form->each ? left : form->each;
    uint32_t code = chunks * CUDA_LINE / 2 / LOGFMT10_BLOCK * (LOGFMT10_CODE_BYTES + LOGFMT10_HEAD_BYTES);
    uint32_t marks = (code / 4 + 30) / 31 * 4, lines = (code + marks + CUDA_LINE - 1) / CUDA_LINE;
    add_values(items, begin + (size_t)packet * form->each * CUDA_LINE, lines * CUDA_LINE);
  }
}

size_t plan_slot(const struct plan *plan, uint64_t op) {
  return sizeof(struct cuda_area_head) + op % CUDA_DEPTH * plan->layout.slot;
}

void plan_list_dispatch(const struct plan *plan, uint32_t side, uint64_t op, struct items *items) {
  const struct cuda_layout *layout = &plan->layout;
  size_t slot = plan_slot(plan, op);
  uint32_t rows = rows_of(plan, side, op);
  items->count = 0;
  add(items, slot, 16, UNIT);
  add(items, slot + 16, 16, UNIT);
  for (uint32_t i = 0; i < layout->count_units; i++)
    add(items, slot + layout->counts + i * 16, 16, UNIT);
  for (uint32_t i = 0; i < rows * layout->routing_lines; i++)
    add(items, slot + layout->routing + (size_t)i * CUDA_LINE, CUDA_LINE, LINE);
  for (uint32_t token = 0; token < TOKENS; token++)
    if (has_token(plan, side, op, token)) {
      add_values(items, slot + layout->rows + (size_t)token * layout->row.stride, layout->row.stride);
      if (layout->row.scale_stride)
        add_values(items, slot + layout->row.scales + (size_t)token * layout->row.scale_stride, layout->row.chunks * 4);
    }
}

void plan_list_weights(const struct plan *plan, uint32_t side, uint64_t op, bool all, struct items *items) {
  const struct cuda_layout *layout = &plan->layout;
  items->count = 0;
  for (uint32_t token = 0; token < TOKENS && is_late(plan, side, op); token++)
    for (uint32_t unit = 0; unit < layout->late_units; unit++) {
      bool read = all;
      for (uint32_t k = unit * CUDA_UNIT_WEIGHTS; k < (unit + 1) * CUDA_UNIT_WEIGHTS && k < layout->topk; k++)
        read |= has_token(plan, side, op, token) && has_selection(plan, side, op, token, k);
      if (read)
        add(items, plan_slot(plan, op) + layout->late + (size_t)(token * layout->late_units + unit) * 16, 16, UNIT);
    }
}

void plan_list_answers(const struct plan *plan, uint32_t side, uint64_t op, struct items *items) {
  const struct cuda_layout *layout = &plan->layout;
  items->count = 0;
  for (uint32_t token = 0; token < TOKENS; token++)
    if (has_token(plan, side, op, token))
      add_answer(items, layout, plan_slot(plan, op) + layout->answers + (size_t)token * layout->answer.stride);
}

void plan_content(const struct plan *plan, uint32_t side, uint64_t op, const struct item *item, uint64_t words[16]) {
  const struct cuda_layout *layout = &plan->layout;
  size_t at = item->offset - plan_slot(plan, op);
  for (uint32_t i = 0; i < (item->bytes + 7) / 8; i++)
    words[i] = plan_drawn(plan, side, op, item->offset * 8 + i);
  if (item->kind == VALUES) {
    value *values = (value *)words; // many values are CUDA_EMPTY - 1, next to the empty word
    for (uint32_t i = 0; i < item->bytes / 4; i++)
      values[i] = values[i] % 3 == 0 || values[i] == CUDA_EMPTY ? CUDA_EMPTY - 1 : values[i];
    return;
  }
  if (item->kind == UNIT) {
    words[1] = (words[1] & UINT32_MAX) | (uint64_t)(uint32_t)(op + 1) << 32;
    if (at == 0)
      words[0] = rows_of(plan, side, op) | 1u << CUDA_HEAD_KIND | (uint64_t)is_late(plan, side, op) << CUDA_HEAD_LATE;
    return;
  }
  words[15] = op + 1;
  uint32_t index = (uint32_t)((at - layout->routing) / CUDA_LINE), line = index % layout->routing_lines;
  uint32_t token = token_of(plan, side, op, index / layout->routing_lines);
  for (uint32_t i = 0; i < CUDA_LINE_SELECTIONS; i++) {
    uint32_t k = line * CUDA_LINE_SELECTIONS + i;
    bool valid = k < layout->topk && has_selection(plan, side, op, token, k);
    words[i] = (words[i] & ~(uint64_t)UINT32_MAX) |
               (valid ? CUDA_SELECTION_VALID | token << CUDA_SELECTION_TOKEN | k << CUDA_SELECTION_EXPERT : 0);
  }
}
