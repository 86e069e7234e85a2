// weft_ep_barrier(), for both engines: a dispatch without tokens.
#include "ep/core/engine.h"
#include "ep/core/interrupt.h"

int weft_ep_barrier(weft_ep_t *ep) {
  if (!ep_is_ours(ep))
    return ep_refuse_handle(ep, "barrier");
  return ep_interrupt_settle(ep, ep->engine->barrier(ep));
}
