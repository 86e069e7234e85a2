// The events of weft/ep.h, for the caller's function.
#include "base/time/clock.h"
#include "ep/core/engine.h"

void ep_emit(weft_ep_t *ep, enum weft_ep_event_kind kind, int32_t rank, uint64_t incarnation, uint64_t epoch,
             uint64_t op, const char *detail) {
  if (!ep->on_event)
    return;
  struct weft_ep_event event = {.kind = kind,
                                .rank = rank,
                                .incarnation = incarnation,
                                .epoch = epoch,
                                .op = op,
                                .time_ns = clock_ns(),
                                .detail = detail};
  ep->on_event(ep->event_arg, &event);
}
