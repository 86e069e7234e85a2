// Changes the view in one step, as a member asks.
#include "base/fail.h"
#include "base/sized.h"
#include "ep/connect.h"
#include "ep/core/engine.h"
#include "ep/core/wait.h"

static int check_change(const weft_ep_t *ep, const struct weft_ep_change_args *change) {
  if (change->flags != 0)
    return fail(WEFT_ERR_INVALID, "flags are %#x: no bit of them has a meaning; want 0", change->flags);
  if (change->reserved != 0)
    return fail(WEFT_ERR_INVALID, "reserved is %u: want 0", change->reserved);
  int rc = ep_check_ranks(ep, change->add, change->num_add, "add", true);
  return rc == 0 ? ep_check_ranks(ep, change->remove, change->num_remove, "remove", true) : rc;
}

static bool removes_self(const weft_ep_t *ep, const struct weft_ep_change_args *change) {
  for (uint32_t i = 0; i < change->num_remove; i++)
    if (change->remove[i] == ep->rank)
      return true;
  return false;
}

int weft_ep_change(weft_ep_t *ep, const struct weft_ep_change_args *given, uint32_t timeout_ms) {
  struct weft_ep_change_args copy;
  if (!ep_is_ours(ep))
    return ep_refuse_handle(ep, "change");
  const struct weft_ep_change_args *change = SIZED_READ(given, &copy, reserved, "weft_ep_change_args");
  int rc = change ? check_change(ep, change) : sized_refusal(given, sizeof copy);
  if (rc != 0)
    return fail_context(rc, "change");
  const struct group_change asked = {
      .add = change->add, .num_add = change->num_add, .remove = change->remove, .num_remove = change->num_remove};
  bool leaves = removes_self(ep, change), left = ep->leaving;
  ep->leaving |= leaves;
  rc = group_change(ep->group, &asked, ep_deadline(timeout_ms));
  if (rc != 0)
    ep->leaving = left;
  return rc == 0 ? 0 : fail_context(rc, "change");
}
