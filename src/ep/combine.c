// The combine calls of weft/ep.h: they check the arguments as far as possible without the operation, then call the
// rank's engine.
#include "base/fail.h"
#include "base/time/trace.h"
#include "ep/core/args.h"
#include "ep/core/engine.h"
#include "ep/core/interrupt.h"
#include "ep/core/route.h"

static int check(weft_ep_t *ep, const struct weft_ep_combine_args *args, const char *call) {
  int rc =
      ep_check_flags(call, args->flags, WEFT_EP_COMBINE_RENORMALIZE | WEFT_EP_COMBINE_KEEP | WEFT_EP_COMBINE_UNWEIGHTED,
                     args->reserved);
  if (rc == 0 && (uint32_t)args->dtype > WEFT_EP_COMBINE_LOGFMT10)
    rc = fail(WEFT_ERR_INVALID, "%s: dtype is %d, which is not a dtype of a combine", call, (int)args->dtype);
  if (rc == 0 && args->flags & WEFT_EP_COMBINE_UNWEIGHTED && args->topk_weights)
    rc = fail(WEFT_ERR_INVALID, "%s: topk_weights is given, but UNWEIGHTED is set: want one of them", call);
  return rc != 0 ? rc : ep->engine->check_combine(ep, args, call);
}

int weft_ep_combine_rows(weft_ep_t *ep, uint64_t number, void **rows_at) {
  if (!ep_is_ours(ep))
    return ep_refuse_handle(ep, "combine_rows");
  if (!rows_at)
    return fail(WEFT_ERR_INVALID, "combine_rows: rows_at is NULL");
  return ep_interrupt_settle(ep, ep->engine->combine_rows(ep, number, rows_at));
}

int weft_ep_combine_send(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine_args *given) {
  TRACE_BLOCK("combine_send");
  struct weft_ep_combine_args copy;
  if (!ep_is_ours(ep))
    return ep_refuse_handle(ep, "combine_send");
  const struct weft_ep_combine_args *args = EP_READ_COMBINE(given, &copy);
  int rc = args ? check(ep, args, "combine_send") : sized_refusal(given, sizeof copy);
  return rc != 0 ? rc : ep_interrupt_settle(ep, ep->engine->combine_send(ep, number, args));
}

// The receiving half, or both halves in one call.
static int receive(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine_args *given,
                   struct weft_ep_result *result, bool both, const char *call) {
  struct weft_ep_combine_args copy;
  struct weft_ep_result result_copy;
  if (!ep_is_ours(ep))
    return ep_refuse_handle(ep, call);
  const struct weft_ep_combine_args *args = EP_READ_COMBINE(given, &copy);
  int rc = args ? check(ep, args, call) : sized_refusal(given, sizeof copy);
  struct weft_ep_result *out = rc == 0 ? EP_OUTPUT_RESULT(result, &result_copy, &rc) : NULL; // before anything is sent
  if (rc != 0)
    return rc;
  rc = both ? ep->engine->combine(ep, number, args, out) : ep->engine->combine_recv(ep, number, args, out);
  ep_output_end(result, out, sizeof *out);
  return ep_interrupt_settle(ep, rc);
}

int weft_ep_combine_recv(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine_args *args,
                         struct weft_ep_result *result) {
  TRACE_BLOCK("combine_recv");
  return receive(ep, number, args, result, false, "combine_recv");
}

int weft_ep_combine(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine_args *args,
                    struct weft_ep_result *result) {
  TRACE_BLOCK("combine");
  return receive(ep, number, args, result, true, "combine");
}

int weft_ep_combine_route(weft_ep_t *ep, weft_ep_route_t *route, const struct weft_ep_combine_args *given,
                          struct weft_ep_result *result, uint64_t *number) {
  TRACE_BLOCK("combine_route");
  struct weft_ep_combine_args copy;
  struct weft_ep_result result_copy;
  if (!ep_is_ours(ep))
    return ep_refuse_handle(ep, "combine_route");
  int rc = ep_route_check_of(ep, route, "combine_route");
  if (rc == 0 && !number)
    rc = fail(WEFT_ERR_INVALID, "combine_route: op is NULL");
  if (rc != 0)
    return rc;
  const struct weft_ep_combine_args *args = EP_READ_COMBINE(given, &copy);
  rc = args ? check(ep, args, "combine_route") : sized_refusal(given, sizeof copy);
  struct weft_ep_result *out = rc == 0 ? EP_OUTPUT_RESULT(result, &result_copy, &rc) : NULL; // before anything is sent
  if (rc != 0)
    return rc;
  rc = ep_interrupt_settle(ep, ep->engine->combine_route(ep, route, args, out, number));
  ep_output_end(result, out, sizeof *out);
  return rc;
}
