// DeepEP's low-latency calls, as its own tests make them: a dispatch twice and a combine twice on what the second
// brought; fp8 with scales column by column, then bf16; logfmt10 in one combine; the mask in rank memory.
#include "carry/carry.h"

enum {
  TOKENS = 4,
  HIDDEN = 256,
  TOPK = 2,
  EXPERTS = 2,
  RANKS = 2,
  ROWS = RANKS * TOKENS,
  BLOCKS = HIDDEN / WEFT_EP_BLOCK
};

static void low_latency(struct carry *c) {
  static const int64_t experts[TOKENS][TOPK] = {{0, 2}, {1, 3}, {0, 1}, {2, 3}};
  static const float weights[TOKENS][TOPK] = {{0.5f, 0.5f}, {0.25f, 0.75f}, {1, 1}, {2, -1}};
  struct weft_ep_dispatch_args dispatch = WEFT_EP_DISPATCH_ARGS_INIT;
  struct weft_ep_recv_args recv = WEFT_EP_RECV_ARGS_INIT;
  struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT;
  void *x = carry_memory(c, TOKENS * HIDDEN * 2), *idx = carry_memory(c, sizeof experts);
  void *y = carry_memory(c, (size_t)EXPERTS * ROWS * HIDDEN * 2), *w = carry_memory(c, sizeof weights);
  int32_t *masks = carry_memory(c, 4 * sizeof *masks), masked[4], counts[EXPERTS];
  uint16_t out[TOKENS * HIDDEN];
  float scales[BLOCKS * ROWS];
  uint64_t op;
  carry_found(c, RANKS);
  carry_fill_rows(c, x, TOKENS, HIDDEN, 448, 448); // token t has the scale 1 + t
  carry_fill_rows(c, y, EXPERTS * ROWS, HIDDEN, 1, 0);
  carry_copy(c, idx, experts, sizeof experts);
  carry_copy(c, w, weights, sizeof weights);
  dispatch.x = x;
  dispatch.topk_idx = idx;
  dispatch.num_tokens = TOKENS;
  dispatch.flags = WEFT_EP_DISPATCH_RECYCLE;
  dispatch.stream = recv.stream = combine.stream = c->stream;
  recv.rows = ROWS;
  recv.x = carry_memory(c, (size_t)EXPERTS * ROWS * HIDDEN * 2);
  recv.scales = carry_memory(c, (size_t)EXPERTS * ROWS * BLOCKS * sizeof(float));
  recv.counts = carry_memory(c, sizeof counts);
  recv.scale_row_stride = 1; // column by column, as TMA wants them
  recv.scale_block_stride = ROWS;
  combine.y = y;
  combine.topk_weights = w; // with the combine, as there
  combine.out = carry_memory(c, sizeof out);
  combine.flags = WEFT_EP_COMBINE_KEEP;
  for (int round = 0; round < 6; round++) {
    dispatch.dtype = round % 2 ? WEFT_EP_BF16 : WEFT_EP_FP8;
    combine.dtype = round % 3 == 2 ? WEFT_EP_COMBINE_LOGFMT10 : WEFT_EP_COMBINE_BF16;
    for (int i = 0; i < 2; i++)
      carry_must(weft_ep_dispatch(c->ep, &dispatch, &recv, NULL, &op), "dispatch");
    for (int i = 0; i < 2; i++)
      carry_must(weft_ep_combine(c->ep, op, &combine, NULL), "combine");
    carry_must(weft_ep_await(c->ep, op, NULL, NULL, CARRY_MS), "await");
    carry_copy(c, counts, recv.counts, sizeof counts);
    carry_is(counts[0] == 2 * RANKS && counts[1] == 2 * RANKS, "each expert has two rows of each rank");
    carry_copy(c, out, combine.out, sizeof out);
    for (int h = 0; h < TOKENS * HIDDEN; h++)
      carry_is(carry_f32(out[h]) == weights[h / HIDDEN][0] + weights[h / HIDDEN][1],
               "a token is the sum of its weights");
    if (dispatch.dtype == WEFT_EP_FP8)
      carry_copy(c, scales, recv.scales, sizeof scales); // of expert 0, which has tokens 0 and 2, or 0 and 3
    for (int b = 0; b < BLOCKS; b++)
      carry_is(scales[b * ROWS] == 1 && scales[b * ROWS + 1] == (c->rank == 0 ? 3 : 4), "scales stand by columns");
  }
  carry_must(weft_ep_mask_update(c->ep, 1 - c->rank, true), "mask_update");
  carry_must(weft_ep_mask_read(c->ep, masks, 4, c->stream), "mask_read");
  carry_copy(c, masked, masks, sizeof masked);
  carry_is(masked[1 - c->rank] == 1 && masked[c->rank] == 0, "the other rank is masked, in rank memory");
}

int main(int argc, char **argv) {
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  options.capacity = 4;
  options.max_tokens = TOKENS;
  options.hidden = HIDDEN;
  options.topk = TOPK;
  options.experts_per_rank = EXPERTS;
  return carry_run(argc, argv, RANKS, &options, low_latency);
}
