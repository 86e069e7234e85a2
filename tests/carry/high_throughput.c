// High throughput: worst-case room instead of a count, and a dispatch of gradients back, run today; routes, packed
// rows, bias, weights that go back and opaque payloads are declared, and refused by name until they are there.
#include "carry/carry.h"

enum { TOKENS = 4, HIDDEN = 256, TOPK = 2, EXPERTS = 2, RANKS = 2, ROWS = RANKS * TOKENS };

static void high_throughput(struct carry *c) {
  static const int64_t experts[TOKENS][TOPK] = {{0, 2}, {1, 3}, {0, 1}, {2, 3}};
  static const float weights[TOKENS][TOPK] = {{1, 1}, {1, 1}, {1, 1}, {1, 1}};
  struct weft_ep_dispatch_args dispatch = WEFT_EP_DISPATCH_ARGS_INIT, wrong;
  struct weft_ep_recv_args recv = WEFT_EP_RECV_ARGS_INIT, other;
  struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT, more;
  struct weft_ep_route_options options = WEFT_EP_ROUTE_OPTIONS_INIT;
  void *idx = carry_memory(c, sizeof experts), *w = carry_memory(c, sizeof weights);
  weft_ep_route_t *route;
  uint16_t out[TOKENS * HIDDEN];
  uint64_t op;
  carry_found(c, RANKS);
  carry_copy(c, idx, experts, sizeof experts);
  carry_copy(c, w, weights, sizeof weights);
  void *x = carry_memory(c, TOKENS * HIDDEN * 2);
  carry_fill_rows(c, x, TOKENS, HIDDEN, 1, 1);
  dispatch.x = x;
  dispatch.topk_idx = idx;
  dispatch.topk_weights = w;
  dispatch.num_tokens = TOKENS;
  dispatch.stream = recv.stream = combine.stream = c->stream;
  recv.layout = WEFT_EP_RANK_MAJOR;
  recv.rows = ROWS; // the most that there can be: no count is waited for
  recv.x = carry_memory(c, (size_t)ROWS * HIDDEN * 2);
  recv.counts = carry_memory(c, EXPERTS * sizeof *recv.counts);
  combine.y = recv.x;
  combine.out = carry_memory(c, TOKENS * HIDDEN * 2);
  for (int pass = 0; pass < 2; pass++) { // forward; and backward, gradients by the same experts
    carry_must(weft_ep_dispatch(c->ep, &dispatch, &recv, NULL, &op), "dispatch");
    carry_must(weft_ep_combine(c->ep, op, &combine, NULL), "combine");
    carry_must(weft_ep_await(c->ep, op, NULL, NULL, CARRY_MS), "await");
    carry_copy(c, out, combine.out, sizeof out);
    for (int t = 0; t < TOKENS; t++) // tokens 2 and 3 go to one rank, with both of their experts
      carry_is(carry_f32(out[t * HIDDEN]) == (float)((t + 1) * (t < 2 ? 2 : 1)),
               "a token is the sum of its ranks' rows");
  }
  carry_refused(weft_ep_route_create(c->ep, &options, &route), WEFT_ERR_UNSUPPORTED, "route");
#define REFUSES(args, copy, field, value, call)                                                                        \
  copy = args;                                                                                                         \
  copy.field = value;                                                                                                  \
  carry_refused(call, WEFT_ERR_UNSUPPORTED, #field)
  REFUSES(dispatch, wrong, row_bytes, 100, weft_ep_dispatch(c->ep, &wrong, &recv, NULL, &op));
  REFUSES(recv, other, alignment, 128, weft_ep_dispatch(c->ep, &dispatch, &other, NULL, &op));
  REFUSES(recv, other, slot, idx, weft_ep_dispatch(c->ep, &dispatch, &other, NULL, &op));
  REFUSES(recv, other, expert_end, idx, weft_ep_dispatch(c->ep, &dispatch, &other, NULL, &op));
  more = combine;
  more.bias[0] = idx;
  carry_refused(weft_ep_combine(c->ep, op, &more, NULL), WEFT_ERR_UNSUPPORTED, "bias");
  REFUSES(combine, more, row_weights, w, weft_ep_combine(c->ep, op, &more, NULL));
  REFUSES(combine, more, out_weights, w, weft_ep_combine(c->ep, op, &more, NULL));
  other = recv;
  other.layout = WEFT_EP_PACKED;
  carry_refused(weft_ep_dispatch(c->ep, &dispatch, &other, NULL, &op), WEFT_ERR_UNSUPPORTED, "PACKED");
}

int main(int argc, char **argv) {
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  options.capacity = 4;
  options.max_tokens = TOKENS;
  options.hidden = HIDDEN;
  options.topk = TOPK;
  options.experts_per_rank = EXPERTS;
  return carry_run(argc, argv, RANKS, &options, high_throughput);
}
