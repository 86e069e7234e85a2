// The inside of a weft_ep_route_t: the part that both engines share. The rest belongs to the engine of its group.
//
// Only the owner's thread uses it.
#ifndef EP_CORE_ROUTE_H
#define EP_CORE_ROUTE_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/ep.h>

#include "ep/core/engine_ops.h"

struct ep_kept;   // routing/kept.h: of the engine on host memory
struct gpu_route; // gpu/gpu.h: of the engine on CUDA memory

struct weft_ep_route {
  weft_ep_t *ep;                      // the group that it was created for; NULL: closed
  uint32_t opened;                    // forked_now() when it was created
  const struct ep_engine_ops *engine; // of that group
  struct weft_ep_route *next;         // in ep->routes
  struct ep_kept *kept;               // on host memory, else NULL
  struct gpu_route *gpu;              // on CUDA memory, else NULL
  uint32_t users;                     // open operations that fill it, or have still to use it
  bool freed;                         // by the caller, while there were users
};

// Checks that the route belongs to this process, and that its group is open; `call` is named in the error: INVALID or
// CLOSED. [owner]
int ep_route_check(const weft_ep_route_t *route, const char *call);
// Checks that the route belongs to that group. INVALID, CLOSED. [owner]
int ep_route_check_of(const weft_ep_t *ep, const weft_ep_route_t *route, const char *call);
// Counts the operations that need the route. The last ep_route_unuse() frees it if the caller has freed it. [owner]
void ep_route_use(weft_ep_route_t *route);
void ep_route_unuse(weft_ep_route_t *route);
// Frees the route; `is_listed`: it is in the list of its group. [owner]
void ep_route_destroy(weft_ep_route_t *route, bool is_listed);
// The group is closed: calls with its routes return CLOSED from here on, until the caller frees the routes. [owner]
void ep_routes_close(weft_ep_t *ep);

#endif
