// High throughput: forward and backward passes as trainers run them. A route is filled with room for the worst case
// instead of a count. The backward pass of a combine is a dispatch by that route, and the backward pass of a dispatch
// is a combine by it.
#include "carry/carry.h"

enum { TOKENS = 4, HIDDEN = 256, TOPK = 2, EXPERTS = 2, RANKS = 2, ROWS = RANKS * TOKENS, ALIGNMENT = 4 };
enum { PACKED_ROWS = RANKS * TOKENS * TOPK + EXPERTS * ALIGNMENT };

// Each value of token t is (t + 1) times `times` of its entries.
static void check(struct carry *c, const void *sum, const float times[TOKENS], const char *what) {
  uint16_t out[TOKENS * HIDDEN];
  carry_copy(c, out, sum, sizeof out);
  for (int t = 0; t < TOKENS; t++)
    carry_is(carry_f32(out[t * HIDDEN]) == (float)(t + 1) * times[t], what);
}

static void high_throughput(struct carry *c) {
  static const int64_t experts[TOKENS][TOPK] = {{0, 2}, {1, 3}, {0, 1}, {2, 3}};
  static const float weights[TOKENS][TOPK] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}}, ranks[] = {2, 2, 1, 1};
  static const float with_bias[] = {3, 3, 2, 2}, pairs[] = {2, 2, 2, 2}; // tokens 2 and 3 go to one rank with both
  struct weft_ep_dispatch_args dispatch = WEFT_EP_DISPATCH_ARGS_INIT;
  struct weft_ep_recv_args recv = WEFT_EP_RECV_ARGS_INIT;
  struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT;
  struct weft_ep_route_options options = WEFT_EP_ROUTE_OPTIONS_INIT;
  float back[TOKENS][TOPK];
  uint64_t op;
  carry_found(c, RANKS);
  carry_must(weft_ep_route_create(c->ep, &options, &dispatch.route), "route_create");
  void *x = carry_memory(c, TOKENS * HIDDEN * 2), *idx = carry_memory(c, sizeof experts);
  void *w = carry_memory(c, sizeof weights);
  carry_copy(c, idx, experts, sizeof experts);
  carry_copy(c, w, weights, sizeof weights);
  carry_fill_rows(c, x, TOKENS, HIDDEN, 1, 1);
  dispatch.x = x;
  dispatch.topk_idx = idx;
  dispatch.topk_weights = w;
  dispatch.num_tokens = TOKENS;
  dispatch.stream = recv.stream = combine.stream = c->stream;
  recv.layout = WEFT_EP_RANK_MAJOR;
  recv.flags = WEFT_EP_RECV_KEEP_PLACES;
  recv.rows = ROWS; // the most that there can be: no count is waited for
  recv.x = carry_memory(c, (size_t)PACKED_ROWS * HIDDEN * 2);
  recv.counts = carry_memory(c, EXPERTS * sizeof *recv.counts);
  recv.weights = carry_memory(c, ROWS * TOPK * sizeof *recv.weights);
  combine.y = recv.x; // the experts are the identity
  combine.out = carry_memory(c, TOKENS * HIDDEN * 2);
  combine.bias[0] = x;
  combine.row_weights = recv.weights;
  combine.out_weights = carry_memory(c, sizeof back);
  carry_must(weft_ep_dispatch(c->ep, &dispatch, &recv, NULL, &op), "the dispatch that fills the route");
  carry_must(weft_ep_combine(c->ep, op, &combine, NULL), "combine");
  carry_must(weft_ep_await(c->ep, op, NULL, NULL, CARRY_MS), "await");
  check(c, combine.out, with_bias, "a token is the sum of its ranks' rows and its bias");
  carry_copy(c, back, combine.out_weights, sizeof back);
  for (int i = 0; i < TOKENS * TOPK; i++)
    carry_is(back[i / TOPK][i % TOPK] == weights[i / TOPK][i % TOPK], "weights come back to their places");
  // Backward: the gradients of a combine go the ways of the tokens; those of a dispatch come back by them.
  dispatch.topk_idx = NULL;
  dispatch.topk_weights = NULL;
  combine.bias[0] = NULL;
  carry_must(weft_ep_dispatch(c->ep, &dispatch, &recv, NULL, &op), "a dispatch by the route");
  carry_must(weft_ep_finish(c->ep, op), "finish");
  carry_must(weft_ep_combine_route(c->ep, dispatch.route, &combine, NULL, &op), "a combine by the route");
  carry_must(weft_ep_await(c->ep, op, NULL, NULL, CARRY_MS), "await");
  check(c, combine.out, ranks, "by a route a token is the sum of its ranks' rows");
  weft_ep_route_free(dispatch.route);
  // Rows packed by expert, as grouped matrix products want them.
  dispatch.route = NULL;
  dispatch.topk_idx = idx;
  recv.layout = WEFT_EP_PACKED;
  recv.flags = WEFT_EP_RECV_ZERO_PADDING;
  recv.rows = PACKED_ROWS;
  recv.alignment = ALIGNMENT;
  recv.weights = NULL;
  combine.row_weights = NULL;
  combine.out_weights = NULL;
  combine.flags = WEFT_EP_COMBINE_UNWEIGHTED;
  carry_must(weft_ep_dispatch(c->ep, &dispatch, &recv, NULL, &op), "a dispatch of packed rows");
  carry_must(weft_ep_combine(c->ep, op, &combine, NULL), "a combine of packed rows");
  carry_must(weft_ep_await(c->ep, op, NULL, NULL, CARRY_MS), "await");
  check(c, combine.out, pairs, "a token is the sum of its experts' rows");
}

int main(int argc, char **argv) {
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  options.mode = WEFT_EP_THROUGHPUT;
  options.capacity = 4;
  options.max_tokens = TOKENS;
  options.hidden = HIDDEN;
  options.topk = TOPK;
  options.experts_per_rank = EXPERTS;
  return carry_run(argc, argv, RANKS, &options, high_throughput);
}
