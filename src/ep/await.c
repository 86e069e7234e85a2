// weft_ep_await: what an operation's calls told, once more.
#include "base/fail.h"
#include "ep/gpu/gpu.h"

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
  if (rc != 0)
    return rc;
  if (ep->gpu)
    return ep_gpu_await(ep, number, info, result, timeout_ms);
  // On host memory the calls have waited.
  if (number == UINT64_MAX)
    number = ep->next_op - 1;
  struct ep_op *op = &ep->ops[number % WEFT_EP_DEPTH];
  bool begun = op->state != EP_OP_FREE || op->told.heard;
  if (!begun || op->number != number)
    return fail(WEFT_ERR_INVALID, "await: operation %llu is none of this rank's newest %d", (unsigned long long)number,
                WEFT_EP_DEPTH);
  if (info && !op->told.heard)
    return fail(WEFT_ERR_INVALID, "await: the dispatch of operation %llu has not been received: nothing tells about it",
                (unsigned long long)number);
  if (result && !op->told.combined)
    return fail(WEFT_ERR_INVALID, "await: operation %llu has no combine that has been received",
                (unsigned long long)number);
  if (info)
    ep_tell_info(ep, op, info);
  if (result) {
    ep_list_missing(ep, op, result);
    ep_tell_result(ep, op, result);
  }
  return 0;
}
