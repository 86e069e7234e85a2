// Reports the results of an operation's calls again. On host memory the calls have waited already.
#include "base/fail.h"
#include "ep/host/host.h"

int ep_host_await(weft_ep_t *ep, uint64_t number, struct weft_ep_info *info, struct weft_ep_result *result,
                  uint32_t timeout_ms) {
  (void)timeout_ms;
  if (number == UINT64_MAX)
    number = ep->next_op - 1;
  struct ep_op *op = &ep->host->ops[number % EP_DEPTH];
  bool begun = op->state != EP_OP_FREE || op->outcome.received;
  if (!begun || op->number != number)
    return fail(WEFT_ERR_INVALID, "await: operation %llu is not among the newest %d of this rank",
                (unsigned long long)number, EP_DEPTH);
  if (info && !op->outcome.received)
    return fail(WEFT_ERR_INVALID,
                "await: the dispatch of operation %llu has not been received, so there is no info about it",
                (unsigned long long)number);
  if (result && !op->outcome.combined)
    return fail(WEFT_ERR_INVALID, "await: no combine of operation %llu has been received", (unsigned long long)number);
  if (info)
    ep_fill_info(op, info);
  if (result) {
    ep_list_missing(op, result);
    ep_fill_result(ep, op, result);
  }
  return 0;
}
