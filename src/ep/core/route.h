// The inside of a weft_ep_route_t: what both engines have of it. The rest belongs to the engine of its group.
//
// All of it belongs to the owner's thread.
#ifndef EP_CORE_ROUTE_H
#define EP_CORE_ROUTE_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/ep.h>

#include "ep/core/engine_ops.h"

struct ep_kept;   // routing/kept.h: of the engine on host memory
struct gpu_route; // gpu/gpu.h: of the engine on CUDA memory

struct weft_ep_route {
  weft_ep_t *ep;                      // of the group that it was made for; NULL: closed
  uint32_t opened;                    // forked_now() of its making
  const struct ep_engine_ops *engine; // of that group
  struct weft_ep_route *next;         // in ep->routes
  struct ep_kept *kept;               // on host memory, else NULL
  struct gpu_route *gpu;              // on CUDA memory, else NULL
  uint32_t users;                     // open operations that fill it or have still to go by it
  bool freed;                         // by the caller, while there were users
};

// Whether the route is this process's, and its group open. Else the code and the sentence for a call of that name:
// INVALID or CLOSED. [owner]
int ep_route_check(const weft_ep_route_t *route, const char *call);
// Whether it is of that group. INVALID, CLOSED. [owner]
int ep_route_check_of(const weft_ep_t *ep, const weft_ep_route_t *route, const char *call);
// One operation more, or one less, that needs it; the last one less frees it if the caller has. [owner]
void ep_route_use(weft_ep_route_t *route);
void ep_route_unuse(weft_ep_route_t *route);
// Frees it; `linked`: its group knows it. [owner]
void ep_route_destroy(weft_ep_route_t *route, bool linked);
// The group is closed: its routes answer CLOSED from here on, until their owner frees them. [owner]
void ep_routes_close(weft_ep_t *ep);

#endif
