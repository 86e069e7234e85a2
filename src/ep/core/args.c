// Initial values of the structs of weft/ep.h, for languages without macros; and errors of a caller's fields.
#include "ep/core/args.h"

#include "base/fail.h"
#include "ep/core/engine.h"

SIZED_DEFINE_INIT(ep_options, WEFT_EP_OPTIONS_INIT)
SIZED_DEFINE_INIT(ep_change_args, WEFT_EP_CHANGE_ARGS_INIT)
SIZED_DEFINE_INIT(ep_event, WEFT_EP_EVENT_INIT)
SIZED_DEFINE_INIT(ep_limits, WEFT_EP_LIMITS_INIT)
SIZED_DEFINE_INIT(ep_dispatch_args, WEFT_EP_DISPATCH_ARGS_INIT)
SIZED_DEFINE_INIT(ep_recv_args, WEFT_EP_RECV_ARGS_INIT)
SIZED_DEFINE_INIT(ep_combine_args, WEFT_EP_COMBINE_ARGS_INIT)
SIZED_DEFINE_INIT(ep_info, WEFT_EP_INFO_INIT)
SIZED_DEFINE_INIT(ep_result, WEFT_EP_RESULT_INIT)
SIZED_DEFINE_INIT(ep_route_options, WEFT_EP_ROUTE_OPTIONS_INIT)
SIZED_DEFINE_INIT(ep_route_arrays, WEFT_EP_ROUTE_ARRAYS_INIT)
SIZED_DEFINE_INIT(ep_route_info, WEFT_EP_ROUTE_INFO_INIT)
SIZED_DEFINE_INIT(ep_stats, WEFT_EP_STATS_INIT)
SIZED_DEFINE_INIT(ep_peer_stats, WEFT_EP_PEER_STATS_INIT)

int ep_refuse_handle(const weft_ep_t *ep, const char *call) {
  if (!ep)
    return fail(WEFT_ERR_INVALID, "%s: ep is NULL", call);
  return fail_context(forked_check(ep->opened, "the rank"), "%s", call);
}

int ep_check_flags(const char *call, uint32_t flags, uint32_t known, uint32_t reserved) {
  uint32_t unknown = flags & ~known;
  if (unknown != 0)
    return fail(WEFT_ERR_INVALID, "%s: flags have the unknown bit 0x%x: this library knows 0x%x", call,
                unknown & -unknown, known);
  if (reserved != 0)
    return fail(WEFT_ERR_INVALID, "%s: reserved is %u; it must be 0", call, reserved);
  return 0;
}

int ep_unsupported(const char *call, const char *what, const char *instead) {
  return fail(WEFT_ERR_UNSUPPORTED, "%s: %s is not supported yet: %s", call, what, instead);
}
