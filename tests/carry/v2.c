// The EP part of DeepEP's V2 interface, in a loop that needs no answer of the host: 32-bit indices, entries at their
// places in the top-k, and a token count and the receive counts of a dispatch in rank memory.
#include "carry/carry.h"

enum { TOKENS = 4, HIDDEN = 256, TOPK = 2, EXPERTS = 2, RANKS = 2, ROWS = RANKS * TOKENS };

static void v2(struct carry *c) {
  static const int32_t experts[TOKENS][TOPK] = {{2, 0}, {1, 3}, {-1, 1}, {2, 3}};
  static const float weights[TOKENS][TOPK] = {{0.5f, 0.5f}, {0.25f, 0.75f}, {1, 1}, {2, -1}};
  struct weft_ep_dispatch_args dispatch = WEFT_EP_DISPATCH_ARGS_INIT;
  struct weft_ep_recv_args recv = WEFT_EP_RECV_ARGS_INIT;
  int32_t *idx = carry_memory(c, sizeof experts), local[ROWS][TOPK];
  float *w = carry_memory(c, sizeof weights);
  uint32_t *number = carry_memory(c, sizeof *number);
  struct weft_ep_recv_status status;
  uint64_t op, lost;
  carry_found(c, RANKS);
  carry_copy(c, idx, experts, sizeof experts);
  carry_copy(c, w, weights, sizeof weights);
  dispatch.x = carry_memory(c, TOKENS * HIDDEN * 2);
  dispatch.topk_idx32 = idx;
  dispatch.topk_weights = w;
  dispatch.num_tokens = TOKENS; // at most
  dispatch.num_tokens_at = number;
  dispatch.processors = 8;
  dispatch.stream = recv.stream = c->stream;
  recv.layout = WEFT_EP_RANK_MAJOR;
  recv.rows = ROWS;
  recv.flags = WEFT_EP_RECV_KEEP_PLACES;
  recv.x = carry_memory(c, (size_t)ROWS * HIDDEN * 2);
  recv.counts = carry_memory(c, EXPERTS * sizeof *recv.counts);
  recv.local_expert = carry_memory(c, sizeof local);
  recv.weights = carry_memory(c, sizeof weights * RANKS);
  recv.status = carry_memory(c, sizeof *recv.status);
  recv.status_size = sizeof *recv.status;
  recv.lost = carry_memory(c, sizeof lost);
  for (uint32_t tokens = 0; tokens <= TOKENS; tokens++) {
    static const uint32_t rows_of[RANKS][TOKENS + 1] = {{0, 1, 2, 3, 3}, {0, 1, 2, 2, 3}}; // tokens for each rank
    carry_copy(c, number, &tokens, sizeof tokens);
    carry_must(weft_ep_dispatch(c->ep, &dispatch, &recv, NULL, &op), "dispatch");
    carry_must(weft_ep_finish(c->ep, op), "finish");
    carry_must(weft_ep_await(c->ep, op, NULL, NULL, CARRY_MS), "await");
    carry_copy(c, &status, recv.status, sizeof status);
    carry_copy(c, &lost, recv.lost, sizeof lost);
    carry_is(status.written == op + 1 && status.op == op && status.num_ranks == RANKS && lost == 0,
             "the operation has a status");
    carry_is(status.num_rows == RANKS * rows_of[c->rank][tokens], "the status counts the rows");
  }
  carry_copy(c, local, recv.local_expert, sizeof local);
  carry_is(c->rank == 0 ? local[0][0] == -1 && local[0][1] == 0 : local[0][0] == 0 && local[0][1] == -1,
           "the experts of token 0 stand at their places");
}

int main(int argc, char **argv) {
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  options.capacity = 4;
  options.max_tokens = TOKENS;
  options.hidden = HIDDEN;
  options.topk = TOPK;
  options.experts_per_rank = EXPERTS;
  return carry_run(argc, argv, RANKS, &options, v2);
}
