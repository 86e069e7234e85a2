// weft_ep_await(), for both engines.
#include "ep/core/args.h"
#include "ep/core/engine.h"

int weft_ep_await(weft_ep_t *ep, uint64_t number, struct weft_ep_info *info, struct weft_ep_result *result,
                  uint32_t timeout_ms) {
  struct weft_ep_info info_copy;
  struct weft_ep_result result_copy;
  if (!ep_is_ours(ep))
    return ep_refuse_handle(ep, "await");
  int rc = 0;
  struct weft_ep_info *info_out = EP_OUTPUT_INFO(info, &info_copy, &rc);
  struct weft_ep_result *result_out = rc == 0 ? EP_OUTPUT_RESULT(result, &result_copy, &rc) : NULL;
  if (rc != 0)
    return rc;
  rc = ep->engine->await(ep, number, info_out, result_out, timeout_ms);
  ep_output_end(info, info_out, sizeof *info_out);
  ep_output_end(result, result_out, sizeof *result_out);
  return rc;
}
