// The dispatch calls of weft/ep.h: what can be said of the arguments without looking at memory, then the rank's engine.
#include "base/fail.h"
#include "base/time/trace.h"
#include "ep/core/engine.h"

static int check_send(const weft_ep_t *ep, const struct weft_ep_dispatch *args) {
  if (!args || args->size != sizeof *args)
    return fail(WEFT_ERR_INVALID, "dispatch: initialise the arguments with WEFT_EP_DISPATCH_INIT");
  if (args->num_tokens > ep->layout.max_tokens)
    return fail(WEFT_ERR_INVALID, "dispatch: %u tokens, but the group was opened for %u at most", args->num_tokens,
                ep->layout.max_tokens);
  if (args->num_tokens > 0 && (!args->x || !args->topk_idx))
    return fail(WEFT_ERR_INVALID, "dispatch: %u tokens, but %s is NULL", args->num_tokens, args->x ? "topk_idx" : "x");
  if (args->scales && ep->dtype == WEFT_EP_BF16)
    return fail(WEFT_ERR_INVALID, "dispatch: scales are given, but the group dispatches bf16, which has none");
  return 0;
}

static int check_recv(const weft_ep_t *ep, const struct weft_ep_recv *recv, const struct weft_ep_info *info) {
  if (!recv || recv->size != sizeof *recv)
    return fail(WEFT_ERR_INVALID, "dispatch_recv: initialise the buffers with WEFT_EP_RECV_INIT");
  if (recv->layout != WEFT_EP_PER_EXPERT && recv->layout != WEFT_EP_RANK_MAJOR)
    return fail(WEFT_ERR_INVALID, "dispatch_recv: there is no layout %d", (int)recv->layout);
  if (!recv->counts || (recv->rows > 0 && !recv->x && !recv->rows_at))
    return fail(WEFT_ERR_INVALID, "dispatch_recv: %s is NULL", recv->counts ? "x" : "counts");
  if (recv->x && recv->rows_at)
    return fail(WEFT_ERR_INVALID, "dispatch_recv: x and rows_at are both given: rows are either copied or in place");
  if (recv->x && recv->rows > 0 && ep->dtype != WEFT_EP_BF16 && !recv->scales)
    return fail(WEFT_ERR_INVALID, "dispatch_recv: scales is NULL, and the group dispatches fp8");
  uint64_t parts = recv->layout == WEFT_EP_PER_EXPERT ? ep->experts_per_rank : 1;
  if (recv->rows * parts > INT32_MAX)
    return fail(WEFT_ERR_INVALID,
                "dispatch_recv: %u rows in each of %llu parts are more than the %d that can be numbered", recv->rows,
                (unsigned long long)parts, INT32_MAX);
  if (info && info->size != sizeof *info)
    return fail(WEFT_ERR_INVALID, "dispatch_recv: initialise the info with WEFT_EP_INFO_INIT");
  return 0;
}

int weft_ep_dispatch_send(weft_ep_t *ep, const struct weft_ep_dispatch *args, uint64_t *number) {
  TRACE_BLOCK("dispatch_send");
  if (!ep || !number)
    return fail(WEFT_ERR_INVALID, "dispatch_send: %s is NULL", ep ? "op" : "ep");
  int rc = check_send(ep, args);
  return rc != 0 ? rc : ep->engine->dispatch_send(ep, args, number);
}

int weft_ep_dispatch_recv(weft_ep_t *ep, uint64_t number, const struct weft_ep_recv *recv, struct weft_ep_info *info) {
  TRACE_BLOCK("dispatch_recv");
  if (!ep)
    return fail(WEFT_ERR_INVALID, "dispatch_recv: ep is NULL");
  int rc = check_recv(ep, recv, info);
  return rc != 0 ? rc : ep->engine->dispatch_recv(ep, number, recv, info);
}

int weft_ep_dispatch(weft_ep_t *ep, const struct weft_ep_dispatch *args, const struct weft_ep_recv *recv,
                     struct weft_ep_info *info, uint64_t *number) {
  TRACE_BLOCK("dispatch");
  if (!ep || !number)
    return fail(WEFT_ERR_INVALID, "dispatch: %s is NULL", ep ? "op" : "ep");
  int rc = check_recv(ep, recv, info); // before anything is sent
  if (rc == 0)
    rc = check_send(ep, args);
  return rc != 0 ? rc : ep->engine->dispatch(ep, args, recv, info, number);
}

int weft_ep_finish(weft_ep_t *ep, uint64_t number) {
  if (!ep)
    return fail(WEFT_ERR_INVALID, "finish: ep is NULL");
  return ep->engine->finish(ep, number);
}

void ep_fault_set(weft_ep_t *ep, ep_fault_fn hook, void *arg) {
  ep->fault = hook;
  ep->fault_arg = arg;
}
