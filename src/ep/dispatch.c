// The dispatch calls of weft/ep.h: they check the arguments as far as possible without reading memory, then call the
// rank's engine.
#include "base/fail.h"
#include "base/time/trace.h"
#include "ep/core/args.h"
#include "ep/core/engine.h"
#include "ep/core/interrupt.h"
#include "ep/core/route.h"

// Checks the route arguments without reading the route's contents.
static int check_route(const weft_ep_t *ep, const struct weft_ep_dispatch_args *args) {
  bool given = args->topk_idx || args->topk_idx32, check = args->flags & WEFT_EP_DISPATCH_CHECK_ROUTE;
  if (!args->route)
    return check ? fail(WEFT_ERR_INVALID, "dispatch: CHECK_ROUTE is set, but route is NULL") : 0;
  int rc = ep_route_check_of(ep, args->route, "dispatch");
  if (rc != 0)
    return rc;
  if (check && !given)
    return fail(WEFT_ERR_INVALID, "dispatch: CHECK_ROUTE is set, but topk_idx is NULL: there is nothing to check");
  return 0;
}

static int check_send(weft_ep_t *ep, const struct weft_ep_dispatch_args *args) {
  int rc = ep_check_flags("dispatch", args->flags, WEFT_EP_DISPATCH_RECYCLE | WEFT_EP_DISPATCH_CHECK_ROUTE, 0);
  if (rc == 0)
    rc = check_route(ep, args);
  if (rc != 0)
    return rc;
  if (args->num_tokens > ep->layout.max_tokens)
    return fail(WEFT_ERR_INVALID, "dispatch: %u tokens, but the group was opened for %u at most", args->num_tokens,
                ep->layout.max_tokens);
  if (args->num_tokens > 0 && (!args->x || (!args->topk_idx && !args->topk_idx32 && !args->route)))
    return fail(WEFT_ERR_INVALID, "dispatch: %u tokens, but %s is NULL", args->num_tokens, args->x ? "topk_idx" : "x");
  if (args->topk_idx && args->topk_idx32)
    return fail(WEFT_ERR_INVALID, "dispatch: topk_idx and topk_idx32 are both given: want one of them");
  if ((uint32_t)args->dtype > WEFT_EP_OPAQUE || (uint32_t)args->x_dtype > WEFT_EP_OPAQUE)
    return fail(WEFT_ERR_INVALID, "dispatch: dtype is %u, which does not exist",
                args->dtype > WEFT_EP_OPAQUE ? args->dtype : args->x_dtype);
  return ep->engine->check_send(ep, args);
}

// Checks the fields that only PACKED has.
static int check_packed(const struct weft_ep_recv_args *recv) {
  if (recv->layout == WEFT_EP_PACKED && recv->alignment > EP_MAX_ALIGNMENT)
    return fail(WEFT_ERR_INVALID, "dispatch_recv: alignment is %u; it must be from 1 to %d rows", recv->alignment,
                EP_MAX_ALIGNMENT);
  const char *stray = recv->alignment > 1                       ? "alignment"
                      : recv->flags & WEFT_EP_RECV_ZERO_PADDING ? "ZERO_PADDING"
                      : recv->slot                              ? "slot"
                      : recv->expert_end                        ? "expert_end"
                                                                : NULL;
  if (recv->layout == WEFT_EP_PACKED || !stray)
    return 0;
  return fail(WEFT_ERR_INVALID, "dispatch_recv: %s is given, but the layout is not PACKED: only PACKED has it", stray);
}

static int check_buffers(const struct weft_ep_recv_args *recv) {
  if (!recv->counts || (recv->rows > 0 && !recv->x && !recv->rows_at))
    return fail(WEFT_ERR_INVALID, "dispatch_recv: %s is NULL", recv->counts ? "x" : "counts");
  if (recv->x && recv->rows_at)
    return fail(
        WEFT_ERR_INVALID,
        "dispatch_recv: x and rows_at are both given: want x to copy the rows, or rows_at to use them in place");
  if (recv->status && recv->status_size < SIZED_END(struct weft_ep_recv_status, written))
    return fail(WEFT_ERR_INVALID,
                "dispatch_recv: status_size is %u; it must be sizeof(struct weft_ep_recv_status), %zu",
                recv->status_size, sizeof(struct weft_ep_recv_status));
  if (recv->flags & WEFT_EP_RECV_KEEP_PLACES && recv->layout != WEFT_EP_RANK_MAJOR)
    return fail(WEFT_ERR_INVALID, "dispatch_recv: KEEP_PLACES is set, but only rows that are RANK_MAJOR have places");
  return 0;
}

static int check_recv(weft_ep_t *ep, const struct weft_ep_recv_args *recv) {
  int rc = ep_check_flags("dispatch_recv", recv->flags, WEFT_EP_RECV_KEEP_PLACES | WEFT_EP_RECV_ZERO_PADDING,
                          recv->reserved);
  if (rc == 0 && (uint32_t)recv->layout > WEFT_EP_PACKED)
    rc = fail(WEFT_ERR_INVALID, "dispatch_recv: layout is %d, which does not exist", (int)recv->layout);
  if (rc == 0)
    rc = check_packed(recv);
  if (rc == 0)
    rc = check_buffers(recv);
  if (rc != 0)
    return rc;
  bool experts = recv->layout != WEFT_EP_RANK_MAJOR && recv->layout != WEFT_EP_PACKED;
  uint64_t parts = experts ? ep->experts_per_rank : 1;
  if (recv->rows * parts > INT32_MAX)
    return fail(WEFT_ERR_INVALID,
                "dispatch_recv: %u rows in each of %llu parts are more than %d rows, the most that can be numbered",
                recv->rows, (unsigned long long)parts, INT32_MAX);
  return ep->engine->check_recv(ep, recv);
}

int weft_ep_dispatch_send(weft_ep_t *ep, const struct weft_ep_dispatch_args *given, uint64_t *number) {
  TRACE_BLOCK("dispatch_send");
  struct weft_ep_dispatch_args copy;
  if (!ep_is_ours(ep))
    return ep_refuse_handle(ep, "dispatch_send");
  if (!number)
    return fail(WEFT_ERR_INVALID, "dispatch_send: op is NULL");
  const struct weft_ep_dispatch_args *args = EP_READ_DISPATCH(given, &copy);
  int rc = args ? check_send(ep, args) : sized_refusal(given, sizeof copy);
  return rc != 0 ? rc : ep_interrupt_settle(ep, ep->engine->dispatch_send(ep, args, number));
}

int weft_ep_dispatch_recv(weft_ep_t *ep, uint64_t number, const struct weft_ep_recv_args *given,
                          struct weft_ep_info *info) {
  TRACE_BLOCK("dispatch_recv");
  struct weft_ep_recv_args copy;
  struct weft_ep_info info_copy;
  if (!ep_is_ours(ep))
    return ep_refuse_handle(ep, "dispatch_recv");
  const struct weft_ep_recv_args *recv = EP_READ_RECV(given, &copy);
  int rc = recv ? check_recv(ep, recv) : sized_refusal(given, sizeof copy);
  struct weft_ep_info *out = rc == 0 ? EP_OUTPUT_INFO(info, &info_copy, &rc) : NULL;
  if (rc != 0)
    return rc;
  rc = ep_interrupt_settle(ep, ep->engine->dispatch_recv(ep, number, recv, out));
  ep_output_end(info, out, sizeof *out);
  return rc;
}

int weft_ep_dispatch(weft_ep_t *ep, const struct weft_ep_dispatch_args *given,
                     const struct weft_ep_recv_args *given_recv, struct weft_ep_info *info, uint64_t *number) {
  TRACE_BLOCK("dispatch");
  struct weft_ep_dispatch_args copy;
  struct weft_ep_recv_args recv_copy;
  struct weft_ep_info info_copy;
  if (!ep_is_ours(ep))
    return ep_refuse_handle(ep, "dispatch");
  if (!number)
    return fail(WEFT_ERR_INVALID, "dispatch: op is NULL");
  const struct weft_ep_recv_args *recv = EP_READ_RECV(given_recv, &recv_copy); // before anything is sent
  int rc = recv ? check_recv(ep, recv) : sized_refusal(given_recv, sizeof recv_copy);
  struct weft_ep_info *out = rc == 0 ? EP_OUTPUT_INFO(info, &info_copy, &rc) : NULL;
  if (rc != 0)
    return rc;
  const struct weft_ep_dispatch_args *args = EP_READ_DISPATCH(given, &copy);
  rc = args ? check_send(ep, args) : sized_refusal(given, sizeof copy);
  if (rc == 0)
    rc = ep_interrupt_settle(ep, ep->engine->dispatch(ep, args, recv, out, number));
  ep_output_end(info, out, sizeof *out);
  return rc;
}

int weft_ep_finish(weft_ep_t *ep, uint64_t number) {
  if (!ep_is_ours(ep))
    return ep_refuse_handle(ep, "finish");
  return ep->engine->finish(ep, number);
}

void ep_fault_set(weft_ep_t *ep, ep_fault_fn hook, void *arg) {
  ep->fault = hook;
  ep->fault_arg = arg;
}
