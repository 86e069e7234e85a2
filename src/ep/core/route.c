// The lifetime of a route relative to its group and to the operations that need it.
#include "ep/core/route.h"

#include <stdlib.h>

#include "base/fail.h"
#include "ep/core/engine.h"

int ep_route_check(const weft_ep_route_t *route, const char *call) {
  if (!route)
    return fail(WEFT_ERR_INVALID, "%s: route is NULL: weft_ep_route_create makes one", call);
  if (forked_since(route->opened))
    return fail_context(forked_check(route->opened, "the route"), "%s", call);
  if (!route->ep)
    return fail(WEFT_ERR_CLOSED, "%s: the rank that the route was made for is closed: free the route", call);
  return 0;
}

int ep_route_check_of(const weft_ep_t *ep, const weft_ep_route_t *route, const char *call) {
  int rc = ep_route_check(route, call);
  if (rc == 0 && route->ep != ep)
    rc = fail(WEFT_ERR_INVALID, "%s: the route was made for another handle than this one", call);
  return rc;
}

static void unlink_route(weft_ep_route_t *route) {
  weft_ep_route_t **at = &route->ep->routes;
  while (*at != route)
    at = &(*at)->next;
  *at = route->next;
}

void ep_route_destroy(weft_ep_route_t *route, bool is_listed) {
  if (is_listed)
    unlink_route(route);
  route->engine->route_free(route);
  free(route);
}

void ep_route_use(weft_ep_route_t *route) {
  route->users++;
}

void ep_route_unuse(weft_ep_route_t *route) {
  if (--route->users > 0 || !route->freed)
    return;
  ep_route_destroy(route, true);
}

void ep_routes_close(weft_ep_t *ep) {
  while (ep->routes) {
    weft_ep_route_t *route = ep->routes;
    ep->routes = route->next;
    route->ep = NULL;
    route->users = 0;
    if (route->freed)
      ep_route_destroy(route, false);
  }
}
