// The combine calls of weft/ep.h: what can be said of the arguments without the operation, then the rank's engine.
#include "base/fail.h"
#include "base/time/trace.h"
#include "ep/core/engine.h"

static int check_result(const struct weft_ep_result *result) {
  if (result && result->size != sizeof *result)
    return fail(WEFT_ERR_INVALID, "combine_recv: initialise the result with WEFT_EP_RESULT_INIT");
  return 0;
}

int weft_ep_combine_rows(weft_ep_t *ep, uint64_t number, void **rows_at) {
  if (!ep || !rows_at)
    return fail(WEFT_ERR_INVALID, "combine_rows: %s is NULL", ep ? "rows_at" : "ep");
  return ep->engine->combine_rows(ep, number, rows_at);
}

int weft_ep_combine_send(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine *args) {
  TRACE_BLOCK("combine_send");
  if (!ep)
    return fail(WEFT_ERR_INVALID, "combine_send: ep is NULL");
  return ep->engine->combine_send(ep, number, args);
}

int weft_ep_combine_recv(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine *args,
                         struct weft_ep_result *result) {
  TRACE_BLOCK("combine_recv");
  if (!ep)
    return fail(WEFT_ERR_INVALID, "combine_recv: ep is NULL");
  int rc = check_result(result);
  return rc != 0 ? rc : ep->engine->combine_recv(ep, number, args, result);
}

int weft_ep_combine(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine *args, struct weft_ep_result *result) {
  TRACE_BLOCK("combine");
  if (!ep)
    return fail(WEFT_ERR_INVALID, "combine: ep is NULL");
  int rc = check_result(result); // before anything is sent
  return rc != 0 ? rc : ep->engine->combine(ep, number, args, result);
}
