// The service thread: it accepts calls of peers, detects hang-ups, and frees retired links.
#ifndef EP_SERVICE_SERVICE_H
#define EP_SERVICE_SERVICE_H

#include "ep/core/engine.h"

// Opens the listeners and fills links.address. Calls wait in their queues until the thread starts.
int ep_service_listen(weft_ep_t *ep, const struct weft_ep_options *options);
int ep_service_start(weft_ep_t *ep);
// Closes the listeners and ends the thread. Links stay as they are.
void ep_service_stop(weft_ep_t *ep);
// Frees every link. To be called after ep_service_stop().
void ep_links_free(weft_ep_t *ep);

#endif
