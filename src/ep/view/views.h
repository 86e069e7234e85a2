// In which agreed view the operations run, and from when on.
#ifndef EP_VIEW_VIEWS_H
#define EP_VIEW_VIEWS_H

#include "ep/core/engine.h"

// --- views.c: what the group agreed on ---

// The group's callback.
void ep_views_event(void *arg, const struct group_event *event);
// Checks again, after the links have changed, for which views there are links to all members. [any]
void ep_views_update_ready(weft_ep_t *ep);

// --- activate.c ---

// This rank runs operations from `op` on, in `view` (takes over the caller's reference). [owner]
void ep_start(weft_ep_t *ep, uint64_t op, const struct group_view *view);
// 0, or the reason why this rank runs no operation: NOT_CONNECTED, FENCED. [owner]
int ep_check_active(weft_ep_t *ep);
// Waits for the view of `epoch`, or for a newer one in its place. Returns a reference; NULL when the deadline has
// passed, or with `*interrupted`. [owner]
const struct group_view *ep_await_view(weft_ep_t *ep, uint64_t epoch, uint64_t deadline_ns, bool *interrupted);

#endif
