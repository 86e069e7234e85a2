// weft_ep_barrier: a dispatch of nothing, on either engine.
#include "base/fail.h"
#include "ep/core/engine.h"

int weft_ep_barrier(weft_ep_t *ep) {
  if (!ep)
    return fail(WEFT_ERR_INVALID, "barrier: ep is NULL");
  return ep->engine->barrier(ep);
}
