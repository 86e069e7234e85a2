// weft_ep_combine_route(): first headers without rows, which decide the view and show that all ranks use the same
// route; then a normal combine with the data that the route has kept.
#include "base/fail.h"
#include "ep/host/host.h"
#include "ep/host/route/kept_route.h"

// Checks the arguments before anything is sent. INVALID.
static int check_combine(const struct ep_kept *kept, const struct weft_ep_combine_args *args) {
  bool unweighted = args->flags & WEFT_EP_COMBINE_UNWEIGHTED;
  bool late = !kept->has_weights && kept->form != WEFT_EP_RANK_MAJOR && !unweighted;
  if (kept->num_tokens > 0 && !args->out)
    return fail(WEFT_ERR_INVALID, "combine_route: out is NULL");
  if (kept->num_rows > 0 && !args->y)
    return fail(WEFT_ERR_INVALID, "combine_route: y is NULL, but %u rows were received with the route", kept->num_rows);
  if (args->row_weights && late && kept->num_tokens > 0)
    return fail(WEFT_ERR_INVALID, EP_ALSO_LATE, "combine_route");
  if (late && kept->num_tokens > 0 && !args->topk_weights)
    return fail(WEFT_ERR_INVALID, "combine_route: topk_weights is NULL here, and was NULL when the route was filled: "
                                  "give it in one of the calls");
  if (!late && args->topk_weights && kept->num_tokens > 0)
    return kept->has_weights ? fail(WEFT_ERR_INVALID, "combine_route: topk_weights are given, but the route has kept "
                                                      "those that it was filled with: leave them NULL")
                             : fail(WEFT_ERR_INVALID, EP_NOT_LATE, "combine_route");
  return 0;
}

// The first half: the headers, and the data from the route. 1: it was done before an interruption.
static int begin_combine(weft_ep_t *ep, weft_ep_route_t *route, const struct weft_ep_combine_args *args,
                         uint64_t *number) {
  struct ep_host *host = ep->host;
  const struct ep_op *open = &host->ops[(host->combining - 1) % EP_DEPTH];
  if (host->combining && open->state != EP_OP_FREE && open->number == host->combining - 1) {
    if (host->combines_by != route)
      return fail(WEFT_ERR_BUSY, "combine_route: operation %llu was interrupted: repeat the interrupted call first",
                  (unsigned long long)host->combining - 1);
    *number = host->combining - 1;
    return 1;
  }
  struct weft_ep_dispatch_args none = WEFT_EP_DISPATCH_ARGS_INIT;
  none.route = route;
  int rc = ep_kept_check_filled(route->kept, "combine_route");
  if (rc == 0)
    rc = check_combine(route->kept, args);
  if (rc == 0)
    rc = host->interrupted ? ep_op_resumes(ep, EP_KIND_COMBINE, number) : 0;
  if (rc == 0)
    rc = ep_send(ep, &none, EP_KIND_COMBINE, EP_SEND_WHOLE, number);
  if (rc < 0)
    return rc;
  rc = ep_receive(ep, &host->ops[*number % EP_DEPTH], NULL, NULL);
  host->interrupted = rc == WEFT_ERR_CANCELED ? *number + 1 : 0;
  return rc;
}

int ep_host_combine_route(weft_ep_t *ep, weft_ep_route_t *route, const struct weft_ep_combine_args *args,
                          struct weft_ep_result *result, uint64_t *number) {
  struct ep_host *host = ep->host;
  int rc = begin_combine(ep, route, args, number);
  if (rc < 0)
    return rc;
  rc = ep_host_combine(ep, *number, args, result);
  host->combining = rc == WEFT_ERR_CANCELED ? *number + 1 : 0;
  host->combines_by = route;
  return rc;
}
