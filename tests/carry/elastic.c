// An elastic server: one rank runs, two others offer themselves and are admitted together or not at all; then they
// leave.
#include "carry/carry.h"

// An operation of a rank that has no tokens. How many ranks it was of.
static uint32_t operate(struct carry *c, int32_t *counts) {
  struct weft_ep_dispatch_args dispatch = WEFT_EP_DISPATCH_ARGS_INIT;
  struct weft_ep_recv_args recv = WEFT_EP_RECV_ARGS_INIT;
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  uint64_t op;
  dispatch.stream = recv.stream = c->stream;
  recv.counts = counts; // [experts], in rank memory
  carry_must(weft_ep_dispatch(c->ep, &dispatch, &recv, &info, &op), "dispatch");
  carry_must(weft_ep_finish(c->ep, op), "finish");
  return info.num_ranks;
}

static void serve(struct carry *c) {
  static const int32_t joiners[] = {1, 2};
  struct weft_ep_change_args grow = WEFT_EP_CHANGE_ARGS_INIT, shrink = WEFT_EP_CHANGE_ARGS_INIT;
  int32_t *counts = carry_memory(c, 2 * sizeof *counts);
  grow.add = shrink.remove = joiners;
  grow.num_add = shrink.num_remove = 2;
  carry_found(c, 1);
  carry_meet(c); // one has offered itself
  carry_refused(weft_ep_change(c->ep, &grow, 200), WEFT_ERR_TIMEOUT, "missing: 2");
  carry_is(operate(c, counts) == 1, "after a change that failed the view is as it was");
  carry_meet(c);
  carry_meet(c); // both have
  carry_must(weft_ep_change(c->ep, &grow, CARRY_MS), "change");
  while (operate(c, counts) != 3)
    continue;
  carry_must(weft_ep_change(c->ep, &shrink, CARRY_MS), "change, back");
  while (operate(c, counts) != 1)
    continue;
}

static void join(struct carry *c) {
  int32_t *counts = carry_memory(c, 2 * sizeof *counts);
  uint64_t first;
  c->options.flags = WEFT_EP_OPTION_JOIN_ONLY;
  carry_must(weft_ep_open(&c->ep, &c->options, CARRY_MS), "open");
  if (c->rank == 1)
    carry_must(weft_ep_offer(c->ep, CARRY_MS), "offer");
  carry_meet(c);
  carry_meet(c); // the change has failed
  if (c->rank == 2)
    carry_must(weft_ep_offer(c->ep, CARRY_MS), "offer");
  carry_meet(c);
  carry_must(weft_ep_await_start(c->ep, CARRY_MS, &first), "await_start");
  carry_is(weft_ep_next_op(c->ep) == first, "a joiner begins with the operation that it is told");
  while (weft_ep_is_active(c->ep))
    operate(c, counts);
}

static void elastic(struct carry *c) {
  if (c->rank == 0)
    serve(c);
  else
    join(c);
}

int main(int argc, char **argv) {
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  options.capacity = 4;
  options.max_tokens = 4;
  options.hidden = 256;
  options.topk = 2;
  return carry_run(argc, argv, 3, &options, elastic);
}
