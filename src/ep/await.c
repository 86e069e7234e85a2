// weft_ep_await, on either engine.
#include "base/fail.h"
#include "ep/core/engine.h"

static int check(const weft_ep_t *ep, const struct weft_ep_info *info, const struct weft_ep_result *result) {
  if (!ep)
    return fail(WEFT_ERR_INVALID, "await: ep is NULL");
  if (info && info->size != sizeof *info)
    return fail(WEFT_ERR_INVALID, "await: initialise the info with WEFT_EP_INFO_INIT");
  if (result && result->size != sizeof *result)
    return fail(WEFT_ERR_INVALID, "await: initialise the result with WEFT_EP_RESULT_INIT");
  return 0;
}

int weft_ep_await(weft_ep_t *ep, uint64_t number, struct weft_ep_info *info, struct weft_ep_result *result,
                  uint32_t timeout_ms) {
  int rc = check(ep, info, result);
  return rc != 0 ? rc : ep->engine->await(ep, number, info, result, timeout_ms);
}
